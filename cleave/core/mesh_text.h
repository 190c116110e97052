#pragma once

#include "cleave/core/mesh.h"

namespace cleave {

class TextCursor;

// Reads `<["x"=2, "y"=4], device_ids=[...]>` at the cursor; does not verify.
Mesh parse_mesh_body(TextCursor& cursor);

}  // namespace cleave
