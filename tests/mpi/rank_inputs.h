#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/world.h"
#include "tests/support/arguments.h"

// What the tests that ranks run share.
namespace cleave::testing_ranks {

// Meshes of at least as many devices as there are ranks; of some, the first ranks have one more.
inline std::vector<std::string> meshes() {
  switch (World::of_process()->size()) {
    case 2:
      return {"x=2", "x=5", "x=2,y=3", "x=2,y=2,z=2"};
    case 3:
      return {"x=3", "x=2,y=2", "x=2,y=4", "x=3,y=2"};
    case 4:
      return {"x=4", "x=2,y=3", "x=2,y=2,z=2"};
    default:
      return {"x=8", "x=3,y=3", "x=2,y=2,z=2"};
  }
}

}  // namespace cleave::testing_ranks
