#include "cleave/plan/tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cleave::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t units(double seconds) {
  if (seconds == kNever) return kForbidden;
  return static_cast<int64_t>(std::llround(seconds / kCostUnit));
}

}  // namespace

Tables::Tables(const Formulation& formulation, Layouts& layouts, Classes classes)
    : formulation_(formulation), layouts_(layouts), classes_(std::move(classes)) {
  counts_.resize(classes_.count);
  for (size_t d = 0; d < formulation.decisions.size(); ++d)
    counts_[classes_.of[d]] = formulation.decisions[d].count;
  for (int count : counts_) unary_.emplace_back(count, 0.0);
  add_ops();
  add_demands();
  for (size_t v = 0; v < formulation.versions.size(); ++v)
    bytes_.push_back(bytes(static_cast<int>(v)));
}

void Tables::add_ops() {
  for (const FormulatedOp& op : formulation_.ops) {
    if (!op.set) continue;
    std::vector<double>& unary = unary_[classes_.of[op.decision]];
    for (size_t c = 0; c < op.pick.size(); ++c)
      unary[c] += op.set->list[op.pick[c]].seconds * op.times;
  }
}

const Tables::Table& Tables::reshards(ListId from, ListId to, const Type& type) {
  std::vector<int64_t> key = type.shape;
  key.push_back(static_cast<int64_t>(type.dtype));
  auto [it, is_new] = reshards_.try_emplace({{from, to}, std::move(key)});
  if (!is_new) return it->second;
  return it->second = layouts_.table(formulation_.list(from), formulation_.list(to), type);
}

void Tables::add_demands() {
  for (const Demand& demand : formulation_.demands) {
    const Version& version = formulation_.versions[demand.version];
    if (version.decision == demand.decision && version.list == demand.list) continue;
    const Type& type = formulation_.type(demand.version);
    const Table* table = &reshards(version.list, demand.list, type);
    const int a = classes_.of[version.decision], b = classes_.of[demand.decision];
    const size_t ka = counts_[a], kb = counts_[b];
    // A shared copy is either the source itself or something else.
    Table copies;
    if (demand.copy >= 0 && !formulation_.versions[demand.copy].alias.empty()) {
      const std::vector<bool>& alias = formulation_.versions[demand.copy].alias;
      const std::vector<SpecId>&from = formulation_.list(version.list),
            &to = formulation_.list(demand.list);
      copies = *table;
      for (size_t i = 0; i < ka; ++i)
        for (size_t j = 0; j < kb; ++j)
          if (alias[j] != (from[i] == to[j])) copies[i * kb + j] = kNever;
      table = &copies;
    }
    if (a == b) {
      for (size_t c = 0; c < ka; ++c) unary_[a][c] += (*table)[c * ka + c] * demand.times;
      continue;
    }
    if (ka == 1 || kb == 1) {
      std::vector<double>& unary = unary_[ka == 1 ? b : a];
      for (size_t c = 0; c < unary.size(); ++c) unary[c] += (*table)[c] * demand.times;
      continue;
    }
    const int lo = std::min(a, b), hi = std::max(a, b);
    auto [it, is_new] = edge_of_.try_emplace(
        static_cast<uint64_t>(lo) << 32 | static_cast<uint32_t>(hi), edges_.size());
    if (is_new) edges_.push_back({lo, hi, Table(ka * kb, 0.0)});
    Table& sum = edges_[it->second].seconds;
    for (size_t i = 0; i < ka; ++i)
      for (size_t j = 0; j < kb; ++j)
        sum[a < b ? i * kb + j : j * ka + i] += (*table)[i * kb + j] * demand.times;
  }
}

std::vector<int64_t> Tables::bytes(int id) const {
  const Version& version = formulation_.versions[id];
  std::vector<int64_t> bytes;
  const std::vector<SpecId>& list = formulation_.list(version.list);
  for (size_t c = 0; c < list.size(); ++c) {
    const bool nothing = !version.takes_memory || (!version.alias.empty() && version.alias[c]);
    bytes.push_back(nothing ? 0 : layouts_.bytes(list[c], formulation_.type(id)));
  }
  return bytes;
}

int64_t Tables::temporary(const Demand& demand, SpecId from, SpecId to) const {
  if (demand.op < 0 || from == to || from == kNoSpec || to == kNoSpec) return 0;
  const Version& version = formulation_.versions[demand.version];
  const Type& type = formulation_.type(demand.version);
  const bool ends = version.takes_memory && version.alias.empty() &&
                    version.last == formulation_.ops[demand.op].position;
  const int64_t replaced = ends ? layouts_.bytes(from, type) : 0;
  return std::max<int64_t>(0, layouts_.bytes(to, type) - replaced);
}

void Tables::add_temporaries(int position, int64_t time, Problem& problem) const {
  for (const Demand& demand : formulation_.demands) {
    if (demand.op < 0 || formulation_.ops[demand.op].position != position) continue;
    const Version& version = formulation_.versions[demand.version];
    const std::vector<SpecId>&from = formulation_.list(version.list),
          &to = formulation_.list(demand.list);
    // What may be held: a layout of the copy, and the bytes of it.
    std::map<std::pair<SpecId, int64_t>, size_t> ways;
    for (SpecId b : to)
      for (SpecId a : from) ways.try_emplace({b, temporary(demand, a, b)}, ways.size());
    ProblemNode node;
    node.live = {time, time + 1};
    node.costs.assign(ways.size(), 0);
    node.usages.resize(ways.size());
    for (const auto& [way, k] : ways) node.usages[k] = way.second;
    if (std::all_of(node.usages.begin(), node.usages.end(), [](int64_t b) { return b == 0; }))
      continue;
    const int a = classes_.of[version.decision], b = classes_.of[demand.decision];
    const int own = static_cast<int>(problem.nodes.size());
    problem.nodes.push_back(std::move(node));
    auto follow = [&](int other, auto&& agrees) {
      ProblemEdge edge{other, own, {}};
      for (size_t c = 0; c < static_cast<size_t>(counts_[other]); ++c) {
        const size_t row = edge.costs.size();
        edge.costs.resize(row + ways.size(), kForbidden);
        for (const auto& [way, k] : ways)
          if (agrees(c, way)) edge.costs[row + k] = 0;
      }
      problem.edges.push_back(std::move(edge));
    };
    auto source_agrees = [&](size_t c, const auto& way) {
      return temporary(demand, from[c], way.first) == way.second;
    };
    auto copy_agrees = [&](size_t c, const auto& way) { return to[c] == way.first; };
    if (a == b) {
      follow(a, [&](size_t c, const auto& way) {
        return source_agrees(c, way) && copy_agrees(c, way);
      });
    } else {
      follow(a, source_agrees);
      follow(b, copy_agrees);
    }
  }
}

std::map<int, std::vector<int64_t>> Tables::usages_at(int time) const {
  std::map<int, std::vector<int64_t>> usages;
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    if (!version.takes_memory || version.first > time || version.last < time) continue;
    const int c = classes_.of[version.decision];
    std::vector<int64_t>& usage = usages[c];
    usage.resize(counts_[c]);
    for (size_t k = 0; k < usage.size(); ++k) usage[k] += bytes_[v][k];
  }
  return usages;
}

// Between layouts of equal cost, the one whose axes stand in mesh order, then the smaller one.
int64_t Tables::tie_break(int version, size_t choice) const {
  const SpecId id = formulation_.list(formulation_.versions[version].list)[choice];
  if (id == kNoSpec) return 0;
  int64_t penalty = 0;
  for (const DimSpec& dim : layouts_.spec(id).dims)
    penalty += 2 * !std::is_sorted(dim.axes.begin(), dim.axes.end());
  return penalty + (layouts_.shards(id) == 1 && formulation_.type(version).rank() > 0);
}

Problem Tables::problem(const std::vector<int>& times, std::optional<int64_t> limit) const {
  Problem problem;
  for (const std::vector<double>& unary : unary_) {
    ProblemNode node;
    for (double seconds : unary) node.costs.push_back(units(seconds));
    node.usages.assign(unary.size(), 0);
    problem.nodes.push_back(std::move(node));
  }
  for (const Edge& edge : edges_) {
    ProblemEdge out{edge.a, edge.b, {}};
    out.costs.reserve(edge.seconds.size());
    for (double seconds : edge.seconds) out.costs.push_back(units(seconds));
    problem.edges.push_back(std::move(out));
  }
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    ProblemNode& node = problem.nodes[classes_.of[version.decision]];
    for (size_t k = 0; k < node.costs.size(); ++k)
      if (node.costs[k] < kForbidden) node.costs[k] += tie_break(static_cast<int>(v), k);
  }
  if (!limit) return problem;
  problem.usage_limit = *limit;
  // One node for each class and run of times at which it takes the same.
  std::vector<int> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  struct Run {
    std::vector<int64_t> usage;
    int64_t lo, hi;
  };
  std::map<int, std::vector<Run>> runs;
  for (size_t t = 0; t < sorted.size(); ++t)
    for (auto& [c, usage] : usages_at(sorted[t])) {
      std::vector<Run>& list = runs[c];
      const auto now = static_cast<int64_t>(t);
      if (!list.empty() && list.back().hi == now && list.back().usage == usage)
        ++list.back().hi;
      else
        list.push_back({std::move(usage), now, now + 1});
    }
  for (auto& [c, list] : runs)
    for (size_t r = 0; r < list.size(); ++r) {
      Run& run = list[r];
      ProblemNode* node = &problem.nodes[c];
      if (r > 0) {
        const size_t k = run.usage.size();
        ProblemEdge same{c, static_cast<int>(problem.nodes.size()), {}};
        same.costs.assign(k * k, kForbidden);
        for (size_t i = 0; i < k; ++i) same.costs[i * k + i] = 0;
        problem.edges.push_back(std::move(same));
        problem.nodes.push_back({{}, std::vector<int64_t>(k, 0), {}});
        node = &problem.nodes.back();
      }
      node->live = {run.lo, run.hi};
      node->usages = std::move(run.usage);
    }
  for (size_t t = 0; t < sorted.size(); ++t)
    add_temporaries(sorted[t], static_cast<int64_t>(t), problem);
  return problem;
}

std::vector<int> Tables::spread(const std::vector<int>& choice) const {
  std::vector<int> all;
  for (int c : classes_.of) all.push_back(choice[c]);
  return all;
}

std::vector<int64_t> Tables::memory(const std::vector<int>& choice) const {
  std::vector<int64_t> change(formulation_.end() + 2);
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    const int64_t bytes = bytes_[v][choice[version.decision]];
    change[version.first] += bytes;
    change[version.last + 1] -= bytes;
  }
  for (const Demand& demand : formulation_.demands) {
    const SpecId from = formulation_.spec(demand.version, choice);
    const SpecId to = formulation_.list(demand.list)[choice[demand.decision]];
    const int64_t bytes = temporary(demand, from, to);
    if (bytes == 0) continue;
    const int position = formulation_.ops[demand.op].position;
    change[position] += bytes;
    change[position + 1] -= bytes;
  }
  for (size_t t = 1; t < change.size(); ++t) change[t] += change[t - 1];
  change.pop_back();
  return change;
}

std::vector<int64_t> Tables::least_memory() const {
  std::vector<int64_t> change(formulation_.end() + 2);
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    const int64_t bytes = *std::min_element(bytes_[v].begin(), bytes_[v].end());
    change[version.first] += bytes;
    change[version.last + 1] -= bytes;
  }
  for (size_t t = 1; t < change.size(); ++t) change[t] += change[t - 1];
  change.pop_back();
  return change;
}

double Tables::seconds(const std::vector<int>& choice) const {
  std::vector<int> by_class(classes_.count);
  for (size_t d = 0; d < choice.size(); ++d) by_class[classes_.of[d]] = choice[d];
  double total = 0;
  for (size_t c = 0; c < unary_.size(); ++c) total += unary_[c][by_class[c]];
  for (const Edge& edge : edges_)
    total +=
        edge.seconds[static_cast<size_t>(by_class[edge.a]) * counts_[edge.b] + by_class[edge.b]];
  return total;
}

size_t Tables::num_strategies() const {
  size_t sum = 0;
  for (int count : counts_) sum += count;
  return sum;
}

}  // namespace cleave::plan
