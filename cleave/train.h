#pragma once

// What people write around a train step: optimizers as transformations that chain, schedules,
// initial weights, checkpoints, data, the loop, and generation.
#include "cleave/train/checkpoint.h"
#include "cleave/train/data.h"
#include "cleave/train/generate.h"
#include "cleave/train/loop.h"
#include "cleave/train/metrics.h"
#include "cleave/train/optimizer.h"
#include "cleave/train/optimizers.h"
#include "cleave/train/prefetch.h"
#include "cleave/train/run.h"
#include "cleave/train/schedule.h"
#include "cleave/train/transformations.h"
