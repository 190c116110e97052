#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "cleave/plan/tables.h"

namespace cleave::plan {
namespace {

// Equal descriptions, equal numbers.
class Numbering {
 public:
  int operator()(const std::vector<int64_t>& description) {
    key_.assign(reinterpret_cast<const char*>(description.data()),
                description.size() * sizeof(int64_t));
    return numbers_.try_emplace(key_, static_cast<int>(numbers_.size())).first->second;
  }
  int size() const { return static_cast<int>(numbers_.size()); }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::string key_;
};

}  // namespace

Classes every_decision_apart(const Formulation& formulation) {
  Classes classes;
  classes.count = static_cast<int>(formulation.decisions.size());
  for (int d = 0; d < classes.count; ++d) classes.of.push_back(d);
  return classes;
}

Classes tie_alike(const Formulation& formulation, int rounds) {
  const size_t n = formulation.decisions.size();
  std::vector<int64_t> text;
  Numbering types;
  std::vector<int> type_of;  // by version
  for (size_t v = 0; v < formulation.versions.size(); ++v) {
    const Type& type = formulation.type(static_cast<int>(v));
    text.assign(type.shape.begin(), type.shape.end());
    text.push_back(static_cast<int64_t>(type.dtype));
    type_of.push_back(types(text));
  }
  std::map<const StrategySet*, int> sets;
  Classes classes;
  classes.of.resize(n);
  {
    Numbering numbers;
    for (size_t d = 0; d < n; ++d) {
      const Decision& decision = formulation.decisions[d];
      text = {static_cast<int64_t>(d == 0), decision.count};
      for (int op : decision.ops) {
        const FormulatedOp& o = formulation.ops[op];
        text.push_back(sets.try_emplace(o.set, static_cast<int>(sets.size())).first->second);
        text.push_back(std::bit_cast<int64_t>(o.times * formulation.weight(o.branch)));
      }
      text.push_back(-1);
      for (int version : decision.versions) {
        text.push_back(formulation.versions[version].list);
        text.push_back(type_of[version]);
        text.push_back(formulation.versions[version].source >= 0);
        text.push_back(std::bit_cast<int64_t>(formulation.versions[version].spill_bytes));
      }
      classes.of[d] = numbers(text);
    }
    classes.count = numbers.size();
  }
  struct Neighbour {
    int decision;
    int64_t label[5];
  };
  std::vector<std::vector<Neighbour>> neighbours(n);
  for (const Demand& demand : formulation.demands) {
    const Version& version = formulation.versions[demand.version];
    const int type = type_of[demand.version];
    const int a = version.decision, b = demand.decision;
    const auto times = std::bit_cast<int64_t>(demand.times * formulation.weight(demand.branch));
    // What is fixed is nobody's likeness, but it makes others differ.
    if (a > 0) neighbours[a].push_back({b, {0, type, version.list, demand.list, times}});
    if (b > 0) neighbours[b].push_back({a, {1, type, version.list, demand.list, times}});
  }
  for (int round = 0; round < rounds; ++round) {
    Numbering numbers;
    std::vector<int> next(n);
    std::vector<std::array<int64_t, 6>> around;
    for (size_t d = 0; d < n; ++d) {
      around.clear();
      for (const Neighbour& other : neighbours[d])
        around.push_back({other.label[0], other.label[1], other.label[2], other.label[3],
                          other.label[4], classes.of[other.decision]});
      std::sort(around.begin(), around.end());
      text = {classes.of[d]};
      for (const auto& entry : around) text.insert(text.end(), entry.begin(), entry.end());
      next[d] = numbers(text);
    }
    const bool settled = numbers.size() == classes.count;
    classes.of = std::move(next);
    classes.count = numbers.size();
    if (settled) break;
  }
  return classes;
}

}  // namespace cleave::plan
