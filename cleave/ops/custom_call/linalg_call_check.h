#pragma once

#include <span>
#include <string_view>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// Throws a UserError that begins with the op's name unless the operands of a custom call of linear
// algebra fit its routine ("potrf", "Qr", ...): their number, element type, batch dimensions and
// sizes. LAPACK itself trusts what it is given.
void check_linalg_operands(const Node& node, std::string_view routine,
                           std::span<const Array> operands);

// Throws unless the letter is one that the routine knows.
void check_linalg_letter(const Node& node, const char* name, char letter, std::string_view known);

}  // namespace cleave
