#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cleave/core/error.h"
#include "cleave/pjrt/c_interface.h"

namespace cleave::pjrt {

// What a plugin answered: its message in one line, after the plugin's name and what it was to do.
class PluginError : public UserError {
 public:
  PluginError(int code, const std::string& message) : UserError(message), code(code) {}
  int code;  // of absl::Status; c::ErrorCode has those that matter here
};

struct InterfaceVersion {
  int major = 0;
  int minor = 0;
  bool operator==(const InterfaceVersion&) const = default;
};
std::string to_string(const InterfaceVersion& version);  // "0.81"

// A shared library with PJRT's entry point, loaded and initialised. It stays loaded until the
// process ends, because plugins have threads of their own.
class Plugin {
 public:
  // Loads a library once; the same file gives the same Plugin. A file that is missing, is no shared
  // library, has no entry point, or speaks another version of the interface is a UserError.
  static std::shared_ptr<const Plugin> load(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }  // of the file, without its ending
  bool is_for_cpus() const { return name_.find("cpu") != std::string::npos; }
  const InterfaceVersion& version() const { return version_; }

  // Calls the function of the table that takes these arguments. An error becomes a PluginError,
  // "xla_cpu_pjrt: compiling: ...".
  template <typename Args>
  void call(Args& args, std::string_view what) const {
    check(function<c::Error* (*)(Args*)>(Args::kFunction)(&args), what);
  }
  // The same in a destructor: errors are dropped.
  template <typename Args>
  void call_silently(Args& args) const noexcept {
    drop(function<c::Error* (*)(Args*)>(Args::kFunction)(&args));
  }
  void check(c::Error* error, std::string_view what) const;  // takes the error over
  void drop(c::Error* error) const noexcept;
  // Waits for an event, and destroys it.
  void await(c::Event* event, std::string_view what) const;

 private:
  Plugin(std::string path, const c::Table* table);

  template <typename F>
  F function(c::Function f) const {
    return reinterpret_cast<F>(table_->functions[static_cast<size_t>(f)]);
  }

  std::string path_, name_;
  const c::Table* table_;
  InterfaceVersion version_;
};

// A text of several lines in one, without what follows a stack trace.
std::string in_one_line(std::string_view text);

}  // namespace cleave::pjrt
