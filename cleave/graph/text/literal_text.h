#pragma once

#include <string>

#include "cleave/graph/literal.h"
#include "cleave/graph/text/lexer.h"

namespace cleave::text {

// The elements of `dense<...>`, between the angle brackets, at [begin, end) of the lexer's text:
// `1.0`, `[[1, 2], [3, 4]]`, `"0x3F80..."`, or nothing. Elements that are all equal become a splat,
// as in MLIR. Throws ParseError if the text does not fit the type.
Literal parse_dense_elements(const Lexer& lexer, size_t begin, size_t end, const Type& type);

// `dense<1.000000e+00>` without the type.
void append_dense(std::string& out, const Literal& literal, size_t hex_limit);

}  // namespace cleave::text
