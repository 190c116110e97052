#pragma once

// Which placements an operator supports: operators as black boxes, the search, reports, and rule
// code made from what was found.
#include "cleave/discover/command_operator.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/library.h"
#include "cleave/discover/module_operator.h"
#include "cleave/discover/operator.h"
#include "cleave/discover/register.h"
#include "cleave/discover/registry_operator.h"
