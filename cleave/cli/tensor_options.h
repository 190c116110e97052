#pragma once

#include <string_view>

#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"

namespace cleave::cli {

// What several commands take as text; each throws UserError that says what was expected.
Shape parse_shape(std::string_view text);  // 8x16; empty or "scalar": {}
DType parse_dtype(std::string_view text);  // bf16

}  // namespace cleave::cli
