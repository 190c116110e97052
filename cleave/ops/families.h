#pragma once

#include "cleave/graph/op_def.h"

namespace cleave {

// Every family registers its ops; the list in registry.cc names the families.
void register_elementwise_ops(OpRegistry& registry);
void register_control_flow_ops(OpRegistry& registry);
void register_check_ops(OpRegistry& registry);
void register_transfer_ops(OpRegistry& registry);

}  // namespace cleave
