#include "cleave/pjrt/plugin.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace cleave::pjrt {
namespace {

constexpr const char* kEntryPoint = "GetPjrtApi";

// What the loader says begins with the path, which our message has already.
std::string loader_error(const std::string& path) {
  const char* said = dlerror();
  std::string text = said ? said : "the loader gives no reason";
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  return text;
}

const c::Table* open_table(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw_user("PJRT plugin {}: cannot be loaded ({}); name a plugin's shared library", path,
               loader_error(path));
  const auto entry = reinterpret_cast<c::GetTable>(dlsym(library, kEntryPoint));
  if (!entry)
    throw_user("PJRT plugin {}: has no function {}, so it is not a PJRT plugin", path, kEntryPoint);
  const c::Table* table = entry();
  if (!table) throw_user("PJRT plugin {}: {} returns nothing", path, kEntryPoint);
  return table;
}

void check_table(const std::string& path, const c::Table& table) {
  if (table.size < c::kTableHead)
    throw_user(
        "PJRT plugin {}: its table of functions has {} bytes, too few to say its version; Cleave "
        "needs version {}.{} or later of the C interface",
        path, table.size, c::kMajor, c::kOldestMinor);
  const c::Version& version = table.version;
  if (version.major != c::kMajor || version.minor < c::kOldestMinor)
    throw_user(
        "PJRT plugin {}: speaks version {}.{} of the C interface, and Cleave needs {}.{} or a "
        "later "
        "{}.x; install a {} plugin",
        path, version.major, version.minor, c::kMajor, c::kOldestMinor, c::kMajor,
        version.major > c::kMajor ? "matching" : "newer");
  if (table.size < c::kTableSize)
    throw_user(
        "PJRT plugin {}: its table of functions has {} bytes where version {}.{} has at least {}; "
        "the file is damaged or not what it says",
        path, table.size, version.major, version.minor, c::kTableSize);
}

}  // namespace

std::string to_string(const InterfaceVersion& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

std::string in_one_line(std::string_view text) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const size_t first = part.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    part = part.substr(first, part.find_last_not_of(" \t\r") - first + 1);
    if (part.starts_with("*** Begin stack trace")) break;
    if (!line.empty()) line += line.ends_with(':') || line.ends_with(';') ? " " : "; ";
    line += part;
  }
  return line;
}

Plugin::Plugin(std::string path, const c::Table* table)
    : path_(std::move(path)),
      name_(std::filesystem::path(path_).stem()),
      table_(table),
      version_{table->version.major, table->version.minor} {
  c::PluginInitialize args;
  call(args, "initialising");
}

std::shared_ptr<const Plugin> Plugin::load(const std::filesystem::path& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<const Plugin>>;
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw_user("PJRT plugin {}: there is no such file; `cleave devices` lists the plugins found",
               path.string());
  if (std::filesystem::is_directory(path, error))
    throw_user("PJRT plugin {}: is a directory; name the shared library in it", path.string());
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  const std::string key = error ? path.string() : real.string();
  std::lock_guard lock(mutex);
  if (const auto known = loaded.find(key); known != loaded.end()) return known->second;
  const c::Table* table = open_table(key);
  check_table(key, *table);
  const std::shared_ptr<const Plugin> plugin(new Plugin(key, table));
  loaded.emplace(key, plugin);
  return plugin;
}

void Plugin::check(c::Error* error, std::string_view what) const {
  if (!error) return;
  c::ErrorMessage message;
  message.error = error;
  function<void (*)(c::ErrorMessage*)>(c::Function::ErrorMessage)(&message);
  std::string text = in_one_line({message.message, message.message_size});
  c::ErrorGetCode code;
  code.error = error;
  drop(function<c::Error* (*)(c::ErrorGetCode*)>(c::Function::ErrorGetCode)(&code));
  drop(error);
  if (text.empty()) text = fmt::format("failed with code {}", code.code);
  throw PluginError(code.code, fmt::format("{}: {}: {}", name_, what, text));
}

void Plugin::drop(c::Error* error) const noexcept {
  if (!error) return;
  c::ErrorDestroy args;
  args.error = error;
  function<void (*)(c::ErrorDestroy*)>(c::Function::ErrorDestroy)(&args);
}

void Plugin::await(c::Event* event, std::string_view what) const {
  if (!event) return;
  c::EventAwait args;
  args.event = event;
  c::Error* error = function<c::Error* (*)(c::EventAwait*)>(c::Function::EventAwait)(&args);
  c::EventDestroy destroy;
  destroy.event = event;
  call_silently(destroy);
  check(error, what);
}

}  // namespace cleave::pjrt
