#include "cleave/plan/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cleave::plan {
namespace {

class Extractor {
 public:
  explicit Extractor(const Extraction& e)
      : e_(e), f_(e.formulation), sources_(e.formulation.versions.size()) {}

  Plan run() {
    plan_.mesh = e_.layouts.mesh();
    plan_.parts = e_.layouts.choice().parts;
    plan_.notes = f_.notes;
    versions();
    for (const FormulatedOp& op : f_.ops) add_op(op);
    for (auto& [key, sum] : sums_) plan_.totals.collectives.push_back(std::move(sum));
    std::stable_sort(plan_.totals.collectives.begin(), plan_.totals.collectives.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    plan_.totals.seconds = plan_.totals.compute_seconds;
    for (const CollectiveTotal& sum : plan_.totals.collectives) plan_.totals.seconds += sum.seconds;
    return std::move(plan_);
  }

 private:
  ShardingSpec spec(SpecId id) const {
    return id == kNoSpec ? ShardingSpec{} : e_.layouts.spec(id);
  }
  SpecId layout(int version) const { return f_.spec(version, e_.choice); }

  // Names of versions; copies that are not what they come from.
  void versions() {
    std::map<std::string, int> count;
    for (size_t v = 0; v < f_.versions.size(); ++v) {
      const Version& version = f_.versions[v];
      const std::string& name = e_.names.values[version.value.index];
      const int id = static_cast<int>(v);
      if (version.source < 0) {
        sources_[v] = name;
        plan_.values.push_back({name, spec(layout(id))});
        continue;
      }
      if (layout(version.source) == layout(id)) {
        sources_[v] = sources_[version.source];
        continue;
      }
      sources_[v] = fmt::format("{}'{}", name, ++count[name]);
      const std::string before =
          version.before.valid() ? e_.names.nodes[version.before.index] : std::string();
      plan_.copies.push_back({sources_[v], sources_[version.source], spec(layout(id)), before});
    }
    for (const Demand& demand : f_.demands)
      if (demand.copy >= 0)
        add_reshard(demand.version, layout(demand.copy), demand.times * f_.weight(demand.branch));
  }

  void add_op(const FormulatedOp& op) {
    const Node& node = e_.flat.node(op.node);
    PlannedOp planned;
    planned.name = e_.names.nodes[op.node.index];
    planned.op = node.name();
    const double times = op.times * f_.weight(op.branch);
    planned.times = times;
    const Strategy* strategy = nullptr;
    if (op.set) strategy = &op.set->list[op.pick[e_.choice[op.decision]]];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const int version = op.operands[i];
      SpecId wanted = layout(version);
      if (strategy)
        wanted = strategy->operands[i];
      else if (i < op.wants.size() && op.wants[i].decision >= 0)
        wanted = f_.list(op.wants[i].list)[e_.choice[op.wants[i].decision]];
      add_reshard(version, wanted, times);
      planned.operands.push_back({sources_[version], spec(wanted)});
    }
    for (ValueId result : node.results) {
      const int version = f_.definitions[result.index];
      planned.results.push_back(spec(layout(version)));
    }
    if (strategy) {
      planned.seconds = strategy->seconds;
      plan_.totals.compute_seconds += strategy->seconds * times;
    } else {
      planned.seconds = op.fixed.compute_seconds;
      plan_.totals.compute_seconds += op.fixed.compute_seconds * times;
      for (const CollectiveTotal& total : op.fixed.collectives) add_total(total, times);
    }
    plan_.ops.push_back(std::move(planned));
  }

  void add_reshard(int version, SpecId to, double times) {
    const SpecId from = layout(version);
    const Type& type = f_.type(version);
    if (from == to || from == kNoSpec || to == kNoSpec || times == 0) return;
    plan_.totals.compute_seconds +=
        times * f_.spill_seconds(version, e_.choice[f_.versions[version].decision], e_.layouts);
    const std::string key = fmt::format("{} {} {}", from, to, to_string(type));
    auto [it, is_new] = reshards_.try_emplace(key);
    if (is_new) it->second = e_.layouts.plan(from, to, type);
    for (const ReshardStep& step : it->second.steps) {
      AxisList axes = step.axes;
      if (axes.empty())
        for (const DimSpec& dim : step.after.dims)
          axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
      const std::string text = to_string(axes, *step.after.mesh);
      add_total(
          {std::string(name(step.kind)), text, 1, static_cast<double>(step.bytes), step.seconds},
          times);
    }
  }

  void add_total(const CollectiveTotal& more, double times) {
    if (times == 0) return;
    CollectiveTotal& sum = sums_[{more.kind, more.axes}];
    sum.kind = more.kind;
    sum.axes = more.axes;
    sum.count += more.count * times;
    sum.bytes += more.bytes * times;
    sum.seconds += more.seconds * times;
  }

  const Extraction& e_;
  const Formulation& f_;
  Plan plan_;
  std::vector<std::string> sources_;  // by version: the name under which users find it
  std::map<std::string, ReshardPlan> reshards_;
  std::map<std::pair<std::string, std::string>, CollectiveTotal> sums_;
};

}  // namespace

Plan extract(const Extraction& extraction) { return Extractor(extraction).run(); }

std::string place_name(const Formulation& formulation, const Names& names, int position) {
  if (position <= 0) return "the beginning";
  if (position > static_cast<int>(formulation.schedule.size())) return "the end";
  return names.nodes[formulation.schedule[position - 1].index];
}

}  // namespace cleave::plan
