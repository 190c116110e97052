#pragma once

#include <string>

namespace cleave::pjrt {

// The path of a plugin of tests/pjrt/plugins, which CMake built beside the test.
inline std::string fake_plugin(const std::string& name) {
  return std::string(CLEAVE_FAKE_PLUGINS) + "/" + name + ".so";
}

}  // namespace cleave::pjrt
