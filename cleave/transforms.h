#pragma once

// Functions of functions over tensors: trace, grad, jvp, vjp, vmap, autoshard, shard_map, compile,
// and trees of tensors as their arguments.
#include "cleave/autoshard/autoshard.h"
#include "cleave/autoshard/shard_map.h"
#include "cleave/transforms/associative_scan.h"
#include "cleave/transforms/compile.h"
#include "cleave/transforms/flow.h"
#include "cleave/transforms/grad.h"
#include "cleave/transforms/trace.h"
#include "cleave/transforms/tree.h"
#include "cleave/transforms/vmap_function.h"
