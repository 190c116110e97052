#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "cleave/core/error.h"
#include "cleave/pjrt/client.h"
#include "cleave/pjrt/find_plugins.h"

namespace cleave::pjrt {

// XLA's CPU plugin, of the repository's .venv or another Python environment at hand.
inline std::optional<std::string> cpu_plugin() {
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
  const std::string own = std::string(CLEAVE_SOURCE_DIR) + "/.venv";
  setenv("VIRTUAL_ENV", own.c_str(), 0);
  for (const PluginPlace& place : find_plugins())
    if (place.name == "cpu") return place.path;
  return std::nullopt;
}

}  // namespace cleave::pjrt

// Skips a test, with a reason that stands in the log, where XLA's CPU plugin is not installed.
#define NEED_CPU_PLUGIN()                                                                     \
  if (!cleave::pjrt::cpu_plugin())                                                            \
  GTEST_SKIP() << "XLA's CPU plugin was not found, so XLA's engine is NOT TESTED here; make " \
                  "setup installs it (pip install xla-cpu-pjrt)"
