#include "cleave/graph/op_def.h"

// The text needs no op definitions: here every op is one that nobody knows.

namespace cleave {

const OpDef* find_op(std::string_view) { return nullptr; }

}  // namespace cleave
