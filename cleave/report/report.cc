#include "cleave/report/report.h"

#include <fmt/format.h>

#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/discover/discover.h"
#include "cleave/report/comparison.h"
#include "cleave/report/schema_check.h"

namespace cleave::report {
namespace {

constexpr int kReportVersion = 1;

// In the order in which a page reads them, everything that a kind does not have empty.
Json empty_report(const char* kind) {
  return {{"format", "cleave-page"}, {"version", kReportVersion},
          {"made_by", "cleave"},     {"kind", kind},
          {"plans", Json::array()},  {"compare", nullptr},
          {"front", Json::array()},  {"infeasible", nullptr},
          {"discovery", nullptr}};
}

Json front_json(const std::vector<FrontPoint>& front) {
  Json list = Json::array();
  for (const FrontPoint& point : front)
    list.push_back({{"limit", point.limit},
                    {"share", point.share},
                    {"plan", point.plan},
                    {"step", rounded(point.step)},
                    {"bound", rounded(point.bound)},
                    {"memory", point.memory},
                    {"reason", point.reason}});
  return list;
}

Json infeasible_json(const NoPlan& none) {
  const plan::Infeasibility& why = none.why;
  return {{"title", none.title},
          {"machine", none.machine},
          {"mesh", none.mesh ? mesh_report(*none.mesh, none.profile) : Json(nullptr)},
          {"limit", why.limit},
          {"share", why.share},
          {"least", why.least},
          {"least_at", why.least_at},
          {"enough", why.enough ? Json(*why.enough) : Json(nullptr)},
          {"conflict", why.conflict},
          {"bytes", why.bytes},
          {"text", none.text}};
}

// Names come from files, and not all of them are UTF-8.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string report_json(const Report& report) {
  Json json = empty_report(report.infeasible && report.plans.empty() ? "infeasible" : "plan");
  json["made_by"] = report.made_by;
  for (const ReportedPlan& plan : report.plans) json["plans"].push_back(plan_report(plan));
  if (report.compared) {
    json["compare"] = comparison(*report.plans.at(1).plan, *report.plans.at(0).plan);
    json["compare"]["before"] = 1;
    json["compare"]["after"] = 0;
  }
  json["front"] = front_json(report.front);
  if (report.infeasible) json["infeasible"] = infeasible_json(*report.infeasible);
  return dumped(json);
}

std::string discovery_report(const std::string& document, const std::string& file) {
  Json discovery = Json::parse(document, nullptr, false);
  if (discovery.is_discarded() || !discovery.is_object())
    throw_user("{}: it is neither a plan nor a report of cleave discover", file);
  if (const std::string fault = schema_fault(discovery, Json::parse(report_schema()));
      !fault.empty())
    throw_user("{}: it is neither a plan nor a report of cleave discover: {}", file, fault);
  Json json = empty_report("discovery");
  json["discovery"] = std::move(discovery);
  return dumped(json);
}

}  // namespace cleave::report
