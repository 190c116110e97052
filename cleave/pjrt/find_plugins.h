#pragma once

#include <string>
#include <vector>

namespace cleave::pjrt {

// A file that looks like a plugin; nothing is loaded to find out.
struct PluginPlace {
  std::string name;  // "cpu", "cuda12", "tpu": what follows `xla:`
  std::string path;
};

// The plugins that CLEAVE_PJRT_PLUGINS names (paths, with : between), and those that lie in the
// Python environments at hand: the active one (VIRTUAL_ENV), .venv in the working directory or a
// folder above it, and that of the first python3 in PATH with the user's own packages. A plugin
// that several of them have is listed where it was found first.
std::vector<PluginPlace> find_plugins();

// The plugin of `--engine xla:TEXT`: a path, or the name of one that was found; empty: the only one
// that was found. Throws UserError otherwise, with what there is.
std::string plugin_path(const std::string& text);

}  // namespace cleave::pjrt
