#pragma once

// All that most programs need: tensors over a mesh, functions of functions over them, modules read
// from text and run, and plans. `cleave/models.h` and `cleave/discover.h` are beside it. These
// headers and what they include are installed; docs/api.md lists them.
#include "cleave/plan.h"
#include "cleave/run.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
