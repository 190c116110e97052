#pragma once

#include <optional>
#include <string>

#include "cleave/graph/graph.h"
#include "cleave/plan/plan.h"

namespace cleave::cli {

// Whether a text is a plan: plans are JSON that says so; modules are not.
bool is_plan(const std::string& text);

// A plan that was read from `file`, which messages name.
plan::Plan read_planned(const std::string& file, const std::string& text);

// The module of a plan: the one that is given, which has to be there, or else that from which the
// plan was made, if it can be read.
std::optional<Graph> module_of_plan(const plan::Plan& plan, const std::string& given);
// Why there is none, if none is given: "the module model.mlir cannot be read".
std::string why_no_module(const plan::Plan& plan);

// So that the module of a plan is found from any folder: the whole path of a file, the name of a
// model, nothing for standard input.
std::string source_of(const std::string& file);

}  // namespace cleave::cli
