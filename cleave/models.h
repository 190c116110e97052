#pragma once

// Models as plain functions over trees of tensors, their initial weights, optimizers and textbook
// shardings, and models by name: build_model("model:gpt?step=train").
#include "cleave/models/decode.h"
#include "cleave/models/init.h"
#include "cleave/models/initializers.h"
#include "cleave/models/mlp.h"
#include "cleave/models/moe.h"
#include "cleave/models/registry.h"
#include "cleave/models/schemes.h"
#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/models/vision.h"
