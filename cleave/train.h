#pragma once

// What people write around a train step: optimizers as transformations that chain, schedules,
// initial weights, and checkpoints.
#include "cleave/train/checkpoint.h"
#include "cleave/train/optimizer.h"
#include "cleave/train/optimizers.h"
#include "cleave/train/schedule.h"
#include "cleave/train/transformations.h"
