#pragma once

// Tensors over a mesh: Mesh, Tensor and its ops, layouts, and logs of what was communicated.
#include "cleave/core/mesh.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/ops_collective.h"
#include "cleave/runtime/ops_control.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/ops_stablehlo.h"
#include "cleave/runtime/partition_spec.h"
#include "cleave/runtime/tensor.h"
#include "cleave/runtime/tensor_text.h"
