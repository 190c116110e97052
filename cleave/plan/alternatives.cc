#include "cleave/plan/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "cleave/analyze/kernels.h"
#include "cleave/core/units.h"
#include "cleave/plan/formulation.h"
#include "cleave/plan/names.h"

namespace cleave::plan {
namespace {

constexpr int kFormulatingThreads = 2;

}  // namespace

struct Alternatives::Impl {
  // Where a value goes, as planned.
  struct Delivery {
    double times = 1;
    SpecId to = kNoSpec;
    auto operator<=>(const Delivery&) const = default;
  };
  struct Operand {
    SpecId lies = kNoSpec, taken = kNoSpec;
  };

  Impl(const BoundPlan& bound, const MachineProfile& profile)
      : bound_(bound),
        plan_(bound.plan),
        flat_(bound.flat),
        names_(name_everything(flat_, plan_.entry)),
        layouts_(plan_.mesh, profile, {.parts = plan_.parts}),
        book_(flat_, layouts_),
        formulation_(
            flat_, names_, layouts_, book_,
            FormulationOptions{.entry = plan_.entry, .pins = {}, .threads = kFormulatingThreads}),
        sets_(flat_.num_nodes(), nullptr),
        deliveries_(flat_.num_values()) {
    for (const FormulatedOp& op : formulation_.ops) sets_[op.node.index] = op.set;
    for (size_t c = 0; c < plan_.copies.size(); ++c)
      deliver(bound_.copies[c].source, times_of(c), id(plan_.copies[c].spec));
    for (size_t o = 0; o < plan_.ops.size(); ++o)
      for (size_t i = 0; i < plan_.ops[o].operands.size(); ++i)
        deliver(bound_.ops[o].operands[i], plan_.ops[o].times, id(plan_.ops[o].operands[i].spec));
    for (std::vector<Delivery>& list : deliveries_) std::sort(list.begin(), list.end());
  }

  std::vector<Alternative> of(size_t op) {
    const PlannedOp& planned = plan_.ops[op];
    const std::vector<Operand> operands = operands_of(op);
    std::vector<SpecId> taken, results;
    for (const Operand& operand : operands) taken.push_back(operand.taken);
    for (const ShardingSpec& spec : planned.results) results.push_back(id(spec));
    std::vector<Alternative> ways;
    bool found = false;
    const StrategySet* set = sets_[bound_.ops[op].node.index];
    if (set)
      for (const Strategy& strategy : set->list) {
        ways.push_back(price(op, operands, results, strategy));
        found |= ways.back().chosen;
      }
    if (!found) {
      ways.push_back(price(op, operands, results, {taken, results, planned.seconds}));
      ways.back().chosen = true;
    }
    std::stable_sort(ways.begin(), ways.end(), [](const Alternative& a, const Alternative& b) {
      return a.seconds() != b.seconds() ? a.seconds() < b.seconds() : a.chosen > b.chosen;
    });
    return ways;
  }

  All all() {
    All result;
    std::unordered_map<std::string, int> known;
    for (size_t op = 0; op < plan_.ops.size(); ++op) {
      const std::string key = key_of(op);
      if (key.empty()) {
        result.of_op.push_back(-1);
        continue;
      }
      const auto [it, is_new] = known.try_emplace(key, static_cast<int>(result.lists.size()));
      if (is_new) result.lists.push_back(of(op));
      result.of_op.push_back(it->second);
    }
    return result;
  }

 private:
  SpecId id(const ShardingSpec& spec) { return spec.mesh ? layouts_.intern(spec) : kNoSpec; }

  // A copy is made as often as what it is made before, or as its value is.
  double times_of(size_t copy) const {
    const BoundCopy& bound = bound_.copies[copy];
    const NodeId producer = flat_.value(bound.source.value).producer;
    const NodeId at = bound.before.valid() ? bound.before : producer;
    const PlannedOp* op = at.valid() ? bound_.planned(at) : nullptr;
    return op ? op->times : 1;
  }

  void deliver(const BoundSource& source, double times, SpecId to) {
    if (source.copy < 0 && to != kNoSpec) deliveries_[source.value.index].push_back({times, to});
  }

  std::vector<Operand> operands_of(size_t op) {
    std::vector<Operand> operands;
    for (size_t i = 0; i < plan_.ops[op].operands.size(); ++i)
      operands.push_back(
          {id(bound_.spec(bound_.ops[op].operands[i])), id(plan_.ops[op].operands[i].spec)});
    return operands;
  }

  // Everything that the list of an op depends on; empty: there is one way. A set of strategies is
  // that of an op on given types.
  std::string key_of(size_t op) {
    const StrategySet* set = sets_[bound_.ops[op].node.index];
    if (!set || set->list.size() < 2) return {};
    const PlannedOp& planned = plan_.ops[op];
    const Node& node = flat_.node(bound_.ops[op].node);
    std::string key = fmt::format("{} {} {}", fmt::ptr(set), planned.times, planned.seconds);
    const std::vector<Operand> operands = operands_of(op);
    for (size_t i = 0; i < operands.size(); ++i)
      key += fmt::format(" {},{},{}", operands[i].lies, operands[i].taken,
                         analyze::spill_bytes(flat_, node.operands[i]));
    for (size_t i = 0; i < node.results.size(); ++i) {
      key += fmt::format(" > {},{}", id(planned.results[i]),
                         analyze::spill_bytes(flat_, node.results[i]));
      for (const Delivery& to : deliveries_[node.results[i].index])
        key += fmt::format(" {}x{}", to.times, to.to);
    }
    return key;
  }

  double reshard(SpecId from, SpecId to, ValueId value) {
    if (from == kNoSpec || to == kNoSpec || from == to) return 0;
    return layouts_.seconds(from, to, flat_.type(value)) +
           analyze::spill_seconds(analyze::spill_bytes(flat_, value), layouts_.spec(from),
                                  layouts_.profile());
  }

  std::string text(SpecId spec) const {
    return spec == kNoSpec ? "-" : to_string(layouts_.spec(spec));
  }

  // `results`: those of the plan.
  Alternative price(size_t op, const std::vector<Operand>& operands,
                    const std::vector<SpecId>& results, const Strategy& strategy) {
    const PlannedOp& planned = plan_.ops[op];
    const Node& node = flat_.node(bound_.ops[op].node);
    Alternative way;
    way.compute = strategy.seconds * planned.times;
    way.chosen = true;
    for (size_t i = 0; i < operands.size(); ++i) {
      const SpecId wanted = strategy.operands[i];
      way.layouts += (i ? ", " : "") + text(wanted);
      way.operands += planned.times * reshard(operands[i].lies, wanted, node.operands[i]);
      way.chosen &= wanted == kNoSpec || wanted == operands[i].taken;
      if (wanted != kNoSpec) way.bytes += layouts_.bytes(wanted, flat_.operand_type(node, i));
    }
    way.layouts += " -> ";
    for (size_t i = 0; i < results.size(); ++i) {
      const SpecId made = strategy.results[i];
      way.layouts += (i ? ", " : "") + text(made);
      for (const Delivery& to : deliveries_[node.results[i].index])
        way.results += to.times * reshard(made, to.to, node.results[i]);
      way.chosen &= made == kNoSpec || made == results[i];
      if (made != kNoSpec) way.bytes += layouts_.bytes(made, flat_.result_type(node, i));
    }
    return way;
  }

  const BoundPlan& bound_;
  const Plan& plan_;
  const Graph& flat_;
  const Names names_;
  Layouts layouts_;
  StrategyBook book_;
  const Formulation formulation_;
  std::vector<const StrategySet*> sets_;           // by node
  std::vector<std::vector<Delivery>> deliveries_;  // by value
};

Alternatives::Alternatives(const BoundPlan& bound, const MachineProfile& profile)
    : impl_(std::make_unique<Impl>(bound, profile)) {}
Alternatives::~Alternatives() = default;

std::vector<Alternative> Alternatives::of(size_t op) { return impl_->of(op); }
Alternatives::All Alternatives::all() { return impl_->all(); }

std::string why_not(const Alternative& chosen, const Alternative& other) {
  std::vector<std::string> parts;
  auto compare = [&](const char* what, double a, double b) {
    if (std::abs(a - b) <= 1e-9 * std::max(a, b)) return;
    parts.push_back(
        fmt::format("{} {} {}", seconds_text(std::abs(a - b)), b > a ? "more" : "less", what));
  };
  compare("compute", chosen.compute, other.compute);
  compare("for operands", chosen.operands, other.operands);
  compare("for results", chosen.results, other.results);
  if (parts.empty()) parts.push_back("the same time");
  if (other.bytes != chosen.bytes)
    parts.push_back(fmt::format("{} {} memory", bytes_text(std::abs(other.bytes - chosen.bytes)),
                                other.bytes > chosen.bytes ? "more" : "less"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace cleave::plan
