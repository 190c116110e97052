#pragma once

#include <memory>
#include <string_view>

#include "cleave/core/mesh.h"

namespace cleave {

// mesh_of("data=2,model=4")
inline MeshPtr mesh_of(std::string_view text) {
  return std::make_shared<const Mesh>(parse_mesh(text));
}

}  // namespace cleave
