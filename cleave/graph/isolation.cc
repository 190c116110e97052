#include "cleave/graph/isolation.h"

namespace cleave {

bool is_isolated(const Node& node) {
  return node.name == "sdy.manual_computation" || node.name == "sdy.named_computation" ||
         node.name == "chlo.scan";
}

}  // namespace cleave
