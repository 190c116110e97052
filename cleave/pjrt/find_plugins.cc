#include "cleave/pjrt/find_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cleave/core/error.h"

namespace cleave::pjrt {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// What a folder holds, in order; nothing if it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  std::sort(found.begin(), found.end());
  return found;
}

// The folders of packages under a prefix such as /usr or .venv.
void add_packages(const fs::path& prefix, std::vector<fs::path>& folders) {
  for (const fs::path& library : {prefix / "lib", prefix / "lib64"})
    for (const fs::path& python : entries(library))
      if (python.filename().string().starts_with("python3"))
        for (const char* packages : {"site-packages", "dist-packages"})
          folders.push_back(python / packages);
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders;
  if (const std::string active = variable("VIRTUAL_ENV"); !active.empty())
    add_packages(active, folders);
  std::error_code error;
  for (fs::path at = fs::current_path(error); !error && !at.empty(); at = at.parent_path()) {
    if (fs::is_directory(at / ".venv", error)) {
      add_packages(at / ".venv", folders);
      break;
    }
    if (at == at.root_path()) break;
  }
  for (const std::string& folder : split(variable("PATH"), ':'))
    if (const fs::path python = fs::path(folder) / "python3"; fs::exists(python, error)) {
      const fs::path prefix = fs::path(folder).parent_path();
      add_packages(prefix, folders);
      if (prefix == "/usr") add_packages("/usr/local", folders);
      for (const fs::path& debian : {prefix / "lib/python3/dist-packages"})
        folders.push_back(debian);
      break;
    }
  if (const std::string home = variable("HOME"); !home.empty())
    add_packages(fs::path(home) / ".local", folders);
  return folders;
}

bool looks_like_plugin(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".so") &&
         (name.find("pjrt") != std::string::npos || name.find("plugin") != std::string::npos ||
          name.find("tpu") != std::string::npos);
}

// "cpu" of xla_cpu_pjrt/xla_cpu_pjrt.so, "cuda12" of xla_cuda12/xla_cuda_plugin.so.
std::string short_name(const fs::path& file) {
  std::string name = file.parent_path().filename().string();
  if (name == "libtpu") return "tpu";
  if (name.empty() || (!name.starts_with("xla_") && !name.ends_with("_pjrt")))
    name = file.stem().string();
  if (name.starts_with("xla_")) name.erase(0, 4);
  for (const char* ending : {"_pjrt", "_plugin"})
    if (const std::string text = ending; name.ends_with(text) && name.size() > text.size())
      name.erase(name.size() - text.size());
  return name;
}

}  // namespace

std::vector<PluginPlace> find_plugins() {
  std::vector<PluginPlace> places;
  std::set<std::string> known;  // real paths
  const auto add = [&](const fs::path& file, std::string name) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    if (!known.insert(error ? file.string() : real.string()).second) return;
    places.push_back({std::move(name), file.string()});
  };
  for (const std::string& path : split(variable("CLEAVE_PJRT_PLUGINS"), ':'))
    add(path, short_name(path));
  std::set<std::string> names;
  for (const fs::path& packages : package_folders())
    for (const char* group : {"xla_plugins", "jax_plugins", "libtpu"}) {
      std::vector<fs::path> files = entries(packages / group);
      for (const fs::path& folder : entries(packages / group)) {
        std::error_code error;
        if (!fs::is_directory(folder, error)) continue;
        const std::vector<fs::path> inside = entries(folder);
        files.insert(files.end(), inside.begin(), inside.end());
      }
      for (const fs::path& file : files)
        if (looks_like_plugin(file)) add(file, short_name(file));
    }
  return places;
}

std::string plugin_path(const std::string& text) {
  std::error_code error;
  if (text.find('/') != std::string::npos || text.ends_with(".so") ||
      (!text.empty() && fs::is_regular_file(text, error)))
    return text;
  const std::vector<PluginPlace> found = find_plugins();
  std::string all;
  for (const PluginPlace& place : found)
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", place.name, place.path);
  if (found.empty())
    throw_user(
        "no PJRT plugin was found; install one (pip install xla-cpu-pjrt), activate the Python "
        "environment that has it, or give its path: xla:PATH.so");
  if (text.empty()) {
    if (found.size() == 1) return found[0].path;
    throw_user("several PJRT plugins were found: {}; say which, such as xla:{}", all,
               found[0].name);
  }
  for (const PluginPlace& place : found)
    if (place.name == text) return place.path;
  throw_user("there is no PJRT plugin '{}'; found: {}; or give a path: xla:PATH.so", text, all);
}

}  // namespace cleave::pjrt
