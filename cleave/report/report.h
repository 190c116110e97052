#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/infeasible.h"
#include "cleave/report/plan_report.h"

namespace cleave::report {

// One limit of a sweep, and the plan that was found for it.
struct FrontPoint {
  int64_t limit = 0;  // bytes of a device, of which programs can use `share`
  double share = 1;
  int plan = -1;  // among the plans of the report; -1: none
  double step = 0, bound = 0;
  int64_t memory = 0;
  std::string reason;  // why there is none
};

// Why there is no plan.
struct NoPlan {
  std::string title, machine;
  MeshPtr mesh;  // null: several were tried
  const MachineProfile* profile = nullptr;
  plan::Infeasibility why;
  std::string text;  // in words
};

// The report of a page as JSON. Several plans are those of a sweep, or two that are compared:
// `compared` says that plans[0] is after and plans[1] before.
struct Report {
  std::string made_by = "cleave";
  std::vector<ReportedPlan> plans;
  bool compared = false;
  std::vector<FrontPoint> front;
  std::optional<NoPlan> infeasible;
};
std::string report_json(const Report& report);
// Of a document of `cleave discover --format json`.
std::string discovery_report(const std::string& document, const std::string& file);

}  // namespace cleave::report
