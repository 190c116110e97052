#pragma once

#include <string_view>

namespace cleave::cli {

// cleave/cli/measure/*.py: each runs by itself on the machine that is to be measured.
extern const std::string_view kMeasureWithJax;
extern const std::string_view kMeasureWithTorch;

}  // namespace cleave::cli
