#include "cleave/plan/tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/core/parallel.h"
#include "cleave/reshard/reordered_bytes.h"

namespace cleave::plan {
namespace {

// Seconds that are forbidden with any weight.
constexpr double kNever = 1e30;

// Of a list by choice, the entries of those that are kept.
template <class T>
std::vector<T> those_kept(const std::vector<T>& all, const KeptChoices* kept, int of) {
  if (!kept) return all;
  std::vector<T> some;
  for (int c : (*kept)[of]) some.push_back(all[c]);
  return some;
}

int64_t units(double seconds) {
  const double count = seconds / kCostUnit;
  return count < static_cast<double>(solver::kForbidden) ? static_cast<int64_t>(count + 0.5)
                                                         : solver::kForbidden;
}

}  // namespace

Tables::Tables(const Formulation& formulation, Layouts& layouts, Classes classes,
               const TableOptions& options)
    : formulation_(formulation),
      layouts_(layouts),
      classes_(std::move(classes)),
      options_(options) {
  counts_.resize(classes_.count);
  for (size_t d = 0; d < formulation.decisions.size(); ++d)
    counts_[classes_.of[d]] = formulation.decisions[d].count;
  for (int count : counts_) unary_ops_.emplace_back(count, 0.0);
  add_ops({}, unary_ops_);
  unary_ = unary_ops_;
  number_types();
  add_demands();
  price();
  if (!is_complete_) return;
  for (const UnaryPart& part : unary_parts_) add_reshards(part, part.weights, unary_);
  check_countable();
  add_bytes();
  list_held();
  list_by_decision();
  add_tie_breaks();
}

// What is not forbidden must not look as if it were.
void Tables::check_countable() const {
  const double most = static_cast<double>(solver::kForbidden) * kCostUnit;
  for (const std::vector<double>& unary : unary_) {
    const double least = *std::min_element(unary.begin(), unary.end());
    if (least >= most && least < kNever)
      throw_user(
          "plan: a single op takes at least {:.3g} s of a step on this machine, and {:.3g} s is "
          "the most that is counted; look at the trips of the loops around it (--trips), or at the "
          "machine's profile",
          least, most);
  }
}

void Tables::number_types() {
  std::unordered_map<std::string, int> numbers;
  std::string key;
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Type& type = formulation_.type(static_cast<int>(v));
    key.assign(reinterpret_cast<const char*>(type.shape.data()),
               type.shape.size() * sizeof(int64_t));
    key += static_cast<char>(type.dtype);
    key += static_cast<char>(type.kind);
    type_of_.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
}

void Tables::add_ops(const std::vector<double>& by_op,
                     std::vector<std::vector<double>>& unary) const {
  for (size_t o = 0; o < formulation_.ops.size(); ++o) {
    const FormulatedOp& op = formulation_.ops[o];
    std::vector<double>& own = unary[classes_.of[op.decision]];
    const double times =
        op.times * formulation_.weight(op.branch) * (by_op.empty() ? 1.0 : by_op[o]);
    if (!op.set) own[0] += op.fixed.seconds() * times;
    for (size_t c = 0; c < op.pick.size(); ++c) own[c] += op.set->list[op.pick[c]].seconds * times;
  }
}

int Tables::reshards(const Demand& demand) {
  const Version& version = formulation_.versions[demand.version];
  const bool copy = demand.copy >= 0 && !formulation_.versions[demand.copy].alias.empty();
  const uint64_t key = static_cast<uint64_t>(version.list) << 41 |
                       static_cast<uint64_t>(demand.list) << 19 |
                       static_cast<uint64_t>(type_of_[demand.version]) << 1 | (copy ? 1 : 0);
  const auto [it, is_new] =
      reshards_of_.try_emplace({key, version.spill_bytes}, static_cast<int>(reshards_.size()));
  if (!is_new) return it->second;
  Reshards table{version.list, demand.list, demand.version, copy ? demand.copy : -1, {}, {}};
  const int choices = static_cast<int>(formulation_.list(version.list).size());
  for (int c = 0; c < choices && version.spill_bytes > 0; ++c)
    table.spills.push_back(formulation_.spill_seconds(demand.version, c, layouts_));
  reshards_.push_back(std::move(table));
  return it->second;
}

double Tables::weak_bound() const {
  double bound = 0;
  for (const std::vector<double>& unary : unary_)
    bound += *std::min_element(unary.begin(), unary.end());
  return bound;
}

void Tables::add_demands() {
  places_.resize(formulation_.demands.size());
  for (size_t d = 0; d < formulation_.demands.size(); ++d) {
    const Demand& demand = formulation_.demands[d];
    const Version& version = formulation_.versions[demand.version];
    if (version.decision == demand.decision && version.list == demand.list) continue;
    const int table = reshards(demand);
    const ReshardWeights weights{demand.times * formulation_.weight(demand.branch)};
    const int a = classes_.of[version.decision], b = classes_.of[demand.decision];
    const size_t ka = counts_[a], kb = counts_[b];
    if (a == b || ka == 1 || kb == 1) {
      places_[d] = {-1, static_cast<int>(unary_parts_.size())};
      unary_parts_.push_back({ka == 1 ? b : a, table, a == b ? ka + 1 : 1, weights});
      continue;
    }
    const int lo = std::min(a, b), hi = std::max(a, b);
    const auto [it, is_new] = edge_of_.try_emplace(
        static_cast<uint64_t>(lo) << 32 | static_cast<uint32_t>(hi), edges_.size());
    if (is_new) edges_.push_back({lo, hi, {}});
    std::vector<Part>& parts = edges_[it->second].parts;
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
      return part.reshards == table && part.swapped == (a > b);
    });
    places_[d] = {static_cast<int>(it->second), static_cast<int>(same - parts.begin())};
    if (same == parts.end())
      parts.push_back({table, a > b, weights});
    else
      same->weights += weights;
  }
}

void Tables::price() {
  std::vector<Layouts::TableRequest> requests;
  for (const Reshards& table : reshards_)
    requests.push_back({&formulation_.list(table.from), &formulation_.list(table.to),
                        &formulation_.type(table.version)});
  std::vector<std::vector<ReshardPrice>> prices =
      layouts_.tables(requests, options_.threads, options_.stop);
  for (size_t i = 0; i < reshards_.size(); ++i) {
    Reshards& table = reshards_[i];
    table.prices = std::move(prices[i]);
    if (table.prices.empty()) {
      is_complete_ = false;
      return;
    }
    const std::vector<SpecId>&from = *requests[i].from, &to = *requests[i].to;
    for (size_t a = 0; a < table.spills.size(); ++a)
      for (size_t b = 0; b < to.size(); ++b)
        if (from[a] != to[b] && to[b] != kNoSpec)
          table.prices[a * to.size() + b] += {table.spills[a], table.spills[a], 0, 0};
    if (table.copy < 0) continue;
    const std::vector<bool>& alias = formulation_.versions[table.copy].alias;
    for (size_t i = 0; i < from.size(); ++i)
      for (size_t j = 0; j < to.size(); ++j)
        if (alias[j] != (from[i] == to[j]))
          table.prices[i * to.size() + j] = {kNever, kNever, kNever, kNever};
  }
}

void Tables::add_reshards(const UnaryPart& part, const ReshardWeights& weights,
                          std::vector<std::vector<double>>& unary) const {
  const std::vector<ReshardPrice>& prices = reshards_[part.reshards].prices;
  std::vector<double>& own = unary[part.to];
  for (size_t c = 0; c < own.size(); ++c) own[c] += weights.of(prices[c * part.step]);
}

void Tables::fill(size_t id, const TableWeights* weights, const KeptChoices* kept,
                  std::vector<int64_t>& costs) const {
  const Edge& edge = edges_[id];
  const size_t ka = counts_[edge.a], kb = counts_[edge.b];
  const size_t na = kept ? (*kept)[edge.a].size() : ka, nb = kept ? (*kept)[edge.b].size() : kb;
  std::vector<double> sum(na * nb, 0.0);
  for (size_t p = 0; p < edge.parts.size(); ++p) {
    const Part& part = edge.parts[p];
    const ReshardWeights& own = weights ? weights->parts[id][p] : part.weights;
    const ReshardPrice* prices = reshards_[part.reshards].prices.data();
    const size_t down = part.swapped ? 1 : kb, right = part.swapped ? ka : 1;
    const bool is_limited = weights && !weights->savings.empty();
    for (size_t i = 0; i < na; ++i) {
      const size_t a = kept ? (*kept)[edge.a][i] : i;
      const ReshardPrice* row = prices + a * down;
      double* const own_sum = &sum[i * nb];
      if (!is_limited && !kept) {
        for (size_t j = 0; j < nb; ++j) own_sum[j] += own.of(row[j * right]);
        continue;
      }
      for (size_t j = 0; j < nb; ++j) {
        const size_t b = kept ? (*kept)[edge.b][j] : j;
        const ReshardPrice& price = row[b * right];
        double counted = own.of(price);
        if (is_limited && (static_cast<int>(a) != weights->like[edge.a] ||
                           static_cast<int>(b) != weights->like[edge.b]))
          counted = std::max(counted, part.weights.of(price) - weights->savings[id][p]);
        own_sum[j] += counted;
      }
    }
  }
  costs.resize(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) costs[i] = units(sum[i]);
}

void Tables::add_bytes() {
  std::unordered_map<uint64_t, int> known;
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    int number = static_cast<int>(byte_lists_.size());
    if (version.alias.empty()) {
      const uint64_t key = static_cast<uint64_t>(version.list) << 32 |
                           static_cast<uint64_t>(type_of_[v]) << 1 | (version.takes_memory ? 1 : 0);
      number = known.try_emplace(key, number).first->second;
    }
    if (number == static_cast<int>(byte_lists_.size()))
      byte_lists_.push_back(bytes(static_cast<int>(v)));
    bytes_of_.push_back(number);
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
  const int64_t held = layouts_.bytes(from, type), made = layouts_.bytes(to, type);
  if (!formulation_.is_marked) return std::max<int64_t>(0, made - (ends ? held : 0));
  // A value that no kernel writes is written for the reshard.
  const bool spills = !version.takes_memory && version.alias.empty();
  const int64_t copy =
      reordered_bytes(layouts_.spec(from), layouts_.spec(to), type.shape, type.dtype);
  const int64_t beside = std::max(copy, copy + made - (ends || spills ? held : 0));
  return beside + (spills ? held : 0);
}

void Tables::add_temporaries(int position, int64_t time, const KeptChoices* kept,
                             solver::Problem& problem) const {
  for (const Demand& demand : formulation_.demands) {
    if (demand.op < 0 || formulation_.ops[demand.op].position != position) continue;
    const Version& version = formulation_.versions[demand.version];
    const std::vector<SpecId>&from = formulation_.list(version.list),
          &to = formulation_.list(demand.list);
    // What may be held: a layout of the copy, and the bytes of it.
    std::map<std::pair<SpecId, int64_t>, size_t> ways;
    for (SpecId b : to)
      for (SpecId a : from) ways.try_emplace({b, temporary(demand, a, b)}, ways.size());
    solver::ProblemNode node;
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
      solver::ProblemEdge edge{other, own, {}};
      const size_t count = kept ? (*kept)[other].size() : static_cast<size_t>(counts_[other]);
      for (size_t c = 0; c < count; ++c) {
        const size_t row = edge.costs.size();
        edge.costs.resize(row + ways.size(), solver::kForbidden);
        for (const auto& [way, k] : ways)
          if (agrees(kept ? (*kept)[other][c] : c, way)) edge.costs[row + k] = 0;
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
    const std::vector<int64_t>& bytes = byte_lists_[bytes_of_[v]];
    for (size_t k = 0; k < usage.size(); ++k) usage[k] += bytes[k];
  }
  for (const FormulatedOp& op : formulation_.ops) {
    if (op.position != time || op.fixed.bytes == 0) continue;
    std::vector<int64_t>& usage = usages[classes_.of[op.decision]];
    usage.resize(counts_[classes_.of[op.decision]]);
    for (int64_t& bytes : usage) bytes += op.fixed.bytes;
  }
  return usages;
}

// Between layouts of equal cost, the one whose axes stand in mesh order, then the smaller one.
std::vector<int64_t> Tables::tie_breaks(ListId list) const {
  std::vector<int64_t> penalties;
  for (SpecId id : formulation_.list(list)) {
    int64_t penalty = 0;
    if (id != kNoSpec) {
      const ShardingSpec& spec = layouts_.spec(id);
      for (const DimSpec& dim : spec.dims)
        penalty += 2 * !std::is_sorted(dim.axes.begin(), dim.axes.end());
      penalty += layouts_.shards(id) == 1 && spec.rank() > 0;
    }
    penalties.push_back(penalty);
  }
  return penalties;
}

void Tables::add_tie_breaks() {
  for (int count : counts_) ties_.emplace_back(count, 0);
  std::unordered_map<ListId, std::vector<int64_t>> penalties;
  for (const Version& version : formulation_.versions) {
    const auto [it, is_new] = penalties.try_emplace(version.list);
    if (is_new) it->second = tie_breaks(version.list);
    std::vector<int64_t>& own = ties_[classes_.of[version.decision]];
    for (size_t k = 0; k < own.size(); ++k) own[k] += it->second[k];
  }
}

solver::Problem Tables::problem(const std::vector<int>& times, std::optional<int64_t> limit,
                                const TableWeights* weights, const KeptChoices* kept) const {
  const std::vector<std::vector<double>>& unary = weights ? weights->unary : unary_;
  solver::Problem problem;
  for (size_t c = 0; c < unary.size(); ++c) {
    std::vector<int64_t> costs;
    for (size_t k = 0; k < unary[c].size(); ++k) {
      const int64_t cost = units(unary[c][k]);
      costs.push_back(cost < solver::kForbidden ? cost + ties_[c][k] : cost);
    }
    solver::ProblemNode node;
    node.costs = those_kept(costs, kept, static_cast<int>(c));
    node.usages.assign(node.costs.size(), 0);
    problem.nodes.push_back(std::move(node));
  }
  problem.edges.resize(edges_.size());
  run_parallel(static_cast<int>(edges_.size()), options_.threads, [&](int e) {
    problem.edges[e].a = edges_[e].a;
    problem.edges[e].b = edges_[e].b;
    fill(static_cast<size_t>(e), weights, kept, problem.edges[e].costs);
  });
  if (!limit) return problem;
  problem.usage_limit = *limit;
  add_memory(times, kept, problem);
  return problem;
}

void Tables::add_memory(const std::vector<int>& times, const KeptChoices* kept,
                        solver::Problem& problem) const {
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
      usage = those_kept(usage, kept, c);
      if (!list.empty() && list.back().hi == now && list.back().usage == usage)
        ++list.back().hi;
      else
        list.push_back({std::move(usage), now, now + 1});
    }
  for (auto& [c, list] : runs)
    for (size_t r = 0; r < list.size(); ++r) {
      Run& run = list[r];
      solver::ProblemNode* node = &problem.nodes[c];
      if (r > 0) {
        const size_t k = run.usage.size();
        solver::ProblemEdge same{c, static_cast<int>(problem.nodes.size()), {}};
        same.costs.assign(k * k, solver::kForbidden);
        for (size_t i = 0; i < k; ++i) same.costs[i * k + i] = 0;
        problem.edges.push_back(std::move(same));
        problem.nodes.push_back({{}, std::vector<int64_t>(k, 0), {}});
        node = &problem.nodes.back();
      }
      node->live = {run.lo, run.hi};
      node->usages = std::move(run.usage);
    }
  for (size_t t = 0; t < sorted.size(); ++t)
    add_temporaries(sorted[t], static_cast<int64_t>(t), kept, problem);
}

std::vector<int> Tables::spread(const std::vector<int>& choice) const {
  std::vector<int> all;
  for (int c : classes_.of) all.push_back(choice[c]);
  return all;
}

std::vector<int> Tables::by_class(const std::vector<int>& choice) const {
  std::vector<int> all(classes_.count);
  for (size_t d = 0; d < choice.size(); ++d) all[classes_.of[d]] = choice[d];
  return all;
}

std::vector<std::vector<int>> Tables::differences(const std::vector<int>& a,
                                                  const std::vector<int>& b) const {
  std::vector<int> root(classes_.count);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int c) {
    while (root[c] != c) c = root[c] = root[root[c]];
    return c;
  };
  for (const Edge& edge : edges_)
    if (a[edge.a] != b[edge.a] && a[edge.b] != b[edge.b]) root[find(edge.a)] = find(edge.b);
  std::map<int, std::vector<int>> parts;
  std::vector<int> sizes(classes_.count);
  for (int c : classes_.of) ++sizes[c];
  for (int c = 0; c < classes_.count; ++c)
    if (a[c] != b[c]) parts[find(c)].push_back(c);
  std::vector<std::vector<int>> sorted;
  for (auto& [first, part] : parts) sorted.push_back(std::move(part));
  const auto size = [&](const std::vector<int>& part) {
    return std::accumulate(part.begin(), part.end(), 0,
                           [&](int sum, int c) { return sum + sizes[c]; });
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& x, const auto& y) { return size(x) > size(y); });
  return sorted;
}

size_t Tables::num_strategies() const {
  size_t sum = 0;
  for (int count : counts_) sum += count;
  return sum;
}

}  // namespace cleave::plan
