#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/machine/profile.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/planner.h"
#include "cleave/report/report.h"

namespace cleave::cli {

// Says on stderr what is being done, once it has taken longer than a second.
class SlowSteps {
 public:
  void begin(const std::string& what) const;

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A report of plans while it is put together: it keeps what they refer to.
class PageReport {
 public:
  // `graph` null: the module cannot be found; `note` says so on the page.
  void add(plan::Plan plan, std::shared_ptr<const Graph> graph, const std::string& machine,
           const std::string& note = {}, report::MeasuredInputs measured = {});
  // Limits with what was found for them; plans that are the same are there once.
  void add_front(const std::vector<plan::MeshCandidate>& candidates,
                 const std::vector<int64_t>& limits, double share,
                 const std::shared_ptr<const Graph>& graph, const std::string& machine,
                 const std::string& source);
  void compare() { report_.compared = true; }
  // Why there is no plan.
  void set_infeasible(report::NoPlan why) { report_.infeasible = std::move(why); }
  bool empty() const { return plans_.empty(); }
  // `path`: a file, or - for standard output.
  void write(const std::string& path, const SlowSteps& steps);

 private:
  struct Kept {
    plan::Plan plan;
    std::shared_ptr<const Graph> graph;
    MachineProfile profile;
  };
  std::vector<std::unique_ptr<Kept>> plans_;
  report::Report report_;
};

void check_page_writable(const std::string& path);
void write_page(const std::string& path, const std::string& json, const std::string& title);

}  // namespace cleave::cli
