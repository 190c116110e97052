#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/plan/planner.h"
#include "cleave/report/report.h"
#include "tests/support/mesh_of.h"

namespace cleave::report {

using nlohmann::json;

// A module with its plan on a machine.
struct Sample {
  Graph graph;
  MachineProfile profile;
  plan::Plan plan;

  json report() const {
    return json::parse(plan_report({&plan, &graph, &profile, "", {}, {}}).dump());
  }
};

struct SampleOptions {
  const char* mesh = "data=2,model=4";
  const char* machine = "h100";
  double memory = 0;  // bytes; 0: no limit
  bool sub_axes = false;
  bool op_by_op = false;  // no executor: virtual devices
  plan::Objective objective = plan::Objective::Step;
};

inline Sample sample(Graph graph, const SampleOptions& how = {}) {
  Sample sample{std::move(graph), load_profile(how.machine), {}};
  if (how.op_by_op) sample.profile.executor = {};
  plan::PlannerOptions options;
  options.mesh = mesh_of(how.mesh);
  options.profile = &sample.profile;
  options.machine = how.machine;
  options.sub_axes = how.sub_axes;
  options.objective = how.objective;
  options.effort = 100;  // the same on every machine
  options.time_limit = 600;
  if (how.memory > 0) options.memory = static_cast<int64_t>(how.memory);
  const plan::PlannerResult result = plan::make_plan(sample.graph, options);
  EXPECT_TRUE(result.plan) << result.reason;
  if (result.plan) sample.plan = *result.plan;
  return sample;
}

inline Sample model_sample(const std::string& model, const SampleOptions& how = {}) {
  return sample(models::build_model(model).graph, how);
}

// A text of the report, by its place.
inline std::string text_no(const json& report, size_t place) {
  return report.at("strings").at(place);
}

// Of columns: what is in row i of one of them.
inline double sum_of(const json& rows, const char* a, const char* b) {
  double sum = 0;
  for (size_t i = 0; i < rows.at(a).size(); ++i)
    sum += rows.at(a)[i].get<double>() * rows.at(b)[i].get<double>();
  return sum;
}
inline double sum_of(const json& list, const char* field) {
  double sum = 0;
  for (const json& row : list) sum += row.at(field).get<double>();
  return sum;
}

}  // namespace cleave::report
