#pragma once

#include <optional>

#include "cleave/core/dtype.h"
#include "cleave/graph/type.h"

namespace cleave::pjrt {

// Elements as a plugin calls them (c::ElementType), and back. PJRT has no name for f6, tf32, index
// and quantized elements.
std::optional<int> element_type(DType dtype);
std::optional<DType> dtype_of(int element_type);

// Throws UserError unless arrays of this type can be handed to a plugin: a tensor of known size
// whose elements PJRT has. `what` names it: "argument 2 of @main".
void require_transferable(const Type& type, const std::string& what);

}  // namespace cleave::pjrt
