#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/machine/profile.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/explain_plan.h"

namespace cleave::plan {

// What a way costs more than the chosen one, in words: "1.20 ms more for operands, 3.0 MiB less
// memory".
std::string why_not(const Alternative& chosen, const Alternative& other);

// The ways to run the ops of a plan. The module is formulated once, for any number of questions.
class Alternatives {
 public:
  // Both must live as long.
  Alternatives(const BoundPlan& bound, const MachineProfile& profile);
  ~Alternatives();

  // Of an op by its place in Plan::ops, the cheapest first. One of them is chosen.
  std::vector<Alternative> of(size_t op);

  // Of all ops. Ops that run alike among like neighbours share a list.
  struct All {
    std::vector<std::vector<Alternative>> lists;
    std::vector<int> of_op;  // by place in Plan::ops; -1: nothing was to be chosen
  };
  All all();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cleave::plan
