#include "cleave/cli/page_file.h"

#include <fmt/core.h>

#include <cstdio>

#include "cleave/cli/version.h"
#include "cleave/core/output_file.h"
#include "cleave/report/page.h"

namespace cleave::cli {
namespace {

// Apart from the limit under which it was found.
bool is_same_plan(const plan::Plan& a, const plan::Plan& b) {
  return *a.mesh == *b.mesh && a.totals == b.totals && a.memory.peak == b.memory.peak &&
         a.values == b.values && a.copies == b.copies && a.ops == b.ops;
}

}  // namespace

void SlowSteps::begin(const std::string& what) const {
  constexpr auto kSlow = std::chrono::seconds(1);
  if (std::chrono::steady_clock::now() - start_ < kSlow) return;
  fmt::print(stderr, "{}\n", what);
}

void PageReport::add(plan::Plan plan, std::shared_ptr<const Graph> graph,
                     const std::string& machine, const std::string& note,
                     report::MeasuredInputs measured) {
  auto kept = std::make_unique<Kept>();
  kept->plan = std::move(plan);
  kept->graph = std::move(graph);
  if (kept->graph) {
    kept->profile = load_profile(machine.empty() ? kept->plan.machine : machine);
    if (!machine.empty() && machine != kept->plan.machine)
      kept->plan = report::priced_on(kept->plan, *kept->graph, kept->profile, machine);
  }
  report::ReportedPlan reported;
  reported.plan = &kept->plan;
  reported.graph = kept->graph.get();
  reported.profile = kept->graph ? &kept->profile : nullptr;
  if (!note.empty()) reported.notes.push_back(note);
  reported.measured = std::move(measured);
  report_.plans.push_back(std::move(reported));
  plans_.push_back(std::move(kept));
}

void PageReport::add_front(const std::vector<plan::MeshCandidate>& candidates,
                           const std::vector<int64_t>& limits, double share,
                           const std::shared_ptr<const Graph>& graph, const std::string& machine,
                           const std::string& source) {
  const std::vector<int> fastest = plan::fastest_by_limit(candidates, limits);
  for (size_t i = 0; i < limits.size(); ++i) {
    report::FrontPoint point;
    point.limit = static_cast<int64_t>(static_cast<double>(limits[i]) / share + 0.5);
    point.share = share;
    if (fastest[i] < 0) {
      for (const plan::MeshCandidate& candidate : candidates)
        if (candidate.limit == limits[i] && point.reason.empty())
          point.reason = candidate.result.reason;
      report_.front.push_back(std::move(point));
      continue;
    }
    plan::Plan found = *candidates[static_cast<size_t>(fastest[i])].result.plan;
    found.source = source;
    point.step = found.totals.step_seconds;
    point.bound = found.bound.step_bound;
    point.memory = found.memory.peak;
    for (size_t p = 0; p < plans_.size(); ++p)
      if (is_same_plan(plans_[p]->plan, found)) point.plan = static_cast<int>(p);
    if (point.plan < 0) {
      point.plan = static_cast<int>(plans_.size());
      add(std::move(found), graph, machine);
    }
    report_.front.push_back(std::move(point));
  }
}

void PageReport::write(const std::string& path, const SlowSteps& steps) {
  report_.made_by = kVersion;
  steps.begin("putting the page together ...");
  const std::string title =
      report_.plans.empty() ? report_.infeasible->title : report::title_of(*report_.plans[0].plan);
  write_page(path, report::report_json(report_), title);
}

void check_page_writable(const std::string& path) {
  if (path != "-") check_writable(path);
}

void write_page(const std::string& path, const std::string& json, const std::string& title) {
  const std::string page = report::page_of(json, title);
  if (path == "-")
    fmt::print("{}", page);
  else
    write_file(path, page);
}

}  // namespace cleave::cli
