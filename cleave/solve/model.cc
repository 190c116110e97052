#include "cleave/solve/model.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "cleave/solve/timeline.h"

namespace cleave::solver {
namespace {

double real_cost(std::int64_t cost) { return cost >= kInfinite ? kBig : static_cast<double>(cost); }

// Stores the table of each different edge once, as it is and transposed.
class TableStore {
 public:
  // Where both will be: by strategy of `a`, and by strategy of `b`.
  std::pair<std::size_t, std::size_t> add(const ReducedEdge& edge, int ka, int kb) {
    const std::string_view bytes = bytes_of(edge);
    std::vector<Known>& same = found_[std::hash<std::string_view>{}(bytes)];
    for (const Known& known : same)
      if (known.ka == ka && known.kb == kb && bytes_of(*known.edge) == bytes)
        return {known.rows, known.columns};
    const std::size_t rows = size_, columns = rows + entries(ka, kb);
    size_ = columns + entries(kb, ka);
    same.push_back({&edge, ka, kb, rows, columns});
    return {rows, columns};
  }

  template <class Real>
  void fill(AlignedVector<Real>& tables) const {
    tables.assign(size_, static_cast<Real>(kBig));
    for (const auto& [hash, list] : found_)
      for (const Known& known : list) {
        Real *rows = &tables[known.rows], *columns = &tables[known.columns];
        const int ka = known.ka, kb = known.kb;
        for (int s = 0; s < ka; ++s)
          for (int t = 0; t < kb; ++t)
            rows[s * padded(kb) + t] = static_cast<Real>(real_cost(known.edge->cost[s * kb + t]));
        for (int t = 0; t < kb; ++t)
          for (int s = 0; s < ka; ++s) columns[t * padded(ka) + s] = rows[s * padded(kb) + t];
      }
  }

  static std::size_t entries(int rows, int columns) {
    return static_cast<std::size_t>(rows) * padded(columns);
  }

 private:
  struct Known {
    const ReducedEdge* edge;
    int ka, kb;
    std::size_t rows, columns;  // where they begin
  };
  static std::string_view bytes_of(const ReducedEdge& edge) {
    return {reinterpret_cast<const char*>(edge.cost.data()),
            edge.cost.size() * sizeof(std::int64_t)};
  }

  std::size_t size_ = 0;
  std::unordered_map<std::size_t, std::vector<Known>> found_;
};

void build_nodes(const Reduction& reduction, const std::vector<std::int64_t>& order, Model& model) {
  const auto& nodes = reduction.nodes();
  model.constant = static_cast<double>(reduction.constant());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].gone) continue;
    if (nodes[i].cost.size() == 1) {
      model.constant += real_cost(nodes[i].cost[0]);
    } else {
      model.root.push_back(static_cast<int>(i));
    }
  }
  std::stable_sort(model.root.begin(), model.root.end(),
                   [&order](int a, int b) { return order[a] < order[b]; });
  model.n = static_cast<int>(model.root.size());
  model.offset.assign(1, 0);
  for (int id : model.root) {
    const std::vector<std::int64_t>& cost = nodes[id].cost;
    model.k.push_back(static_cast<int>(cost.size()));
    for (std::int64_t c : cost) model.cost.push_back(real_cost(c));
    model.strategy.insert(model.strategy.end(), nodes[id].strategy.begin(),
                          nodes[id].strategy.end());
    model.strategy.resize(model.offset.back() + padded(model.k.back()), -1);
    model.offset.push_back(model.offset.back() + padded(model.k.back()));
    model.cost.resize(model.offset.back(), kBig);
  }
}

// An edge to a node with a single strategy, which is not part of the model: a cost of the other
// end.
void fold_edge(const ReducedEdge& edge, int a, int b, Model& model) {
  if (a < 0 && b < 0) {
    model.constant += real_cost(edge.cost[0]);
    return;
  }
  const std::size_t first = model.offset[std::max(a, b)];
  for (std::size_t s = 0; s < edge.cost.size(); ++s) {
    model.cost[first + s] += real_cost(edge.cost[s]);
  }
}

void build_arcs(const Reduction& reduction, const std::vector<int>& index, Precision precision,
                Model& model) {
  struct Half {
    int from, to;
    std::size_t table;
    int pair;
  };
  std::vector<Half> halves;
  TableStore store;
  for (const ReducedEdge& edge : reduction.edges()) {
    if (edge.gone) continue;
    const int a = index[edge.a], b = index[edge.b];
    if (a < 0 || b < 0) {
      fold_edge(edge, a, b, model);
      continue;
    }
    const int ka = model.k[a], kb = model.k[b];
    const auto [rows, columns] = store.add(edge, ka, kb);
    const int next = static_cast<int>(halves.size());
    halves.push_back({a, b, rows, next + 1});
    halves.push_back({b, a, columns, next});
    model.entries += static_cast<double>(TableStore::entries(ka, kb) + TableStore::entries(kb, ka));
  }
  std::vector<int> sorted(halves.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&halves](int p, int q) {
    return std::pair(halves[p].from, halves[p].to) < std::pair(halves[q].from, halves[q].to);
  });
  std::vector<int> place(halves.size());
  for (std::size_t q = 0; q < sorted.size(); ++q) place[sorted[q]] = static_cast<int>(q);
  model.first_arc.assign(model.n + 1, 0);
  for (int h : sorted) {
    model.arcs.push_back({halves[h].to, place[halves[h].pair], halves[h].table});
    ++model.first_arc[halves[h].from + 1];
  }
  std::partial_sum(model.first_arc.begin(), model.first_arc.end(), model.first_arc.begin());
  if (precision == Precision::Single) {
    store.fill(model.tables_float);
    return;
  }
  store.fill(model.tables);
  if (model.n > kManyNodes || model.entries > kManyEntries)
    model.tables_float.assign(model.tables.begin(), model.tables.end());
}

void build_times(const Reduction& reduction, const std::function<bool()>& expired, Model& model) {
  model.first_memory.assign(model.n + 1, 0);
  if (!reduction.has_limit()) return;
  model.limit = reduction.limit();
  std::vector<TimedUsage> usages;
  for (int i = 0; i < model.n; ++i) {
    for (const Atom& atom : reduction.nodes()[model.root[i]].atoms) {
      usages.push_back({i, atom.begin, atom.end, atom.usage});
    }
  }
  const std::vector<char> kept =
      binding_times(reduction.base(), model.limit, usages, model.k, expired);
  std::vector<int> place(kept.size() + 1, 0);
  for (std::size_t t = 0; t < kept.size(); ++t) {
    place[t + 1] = place[t] + kept[t];
    if (!kept[t]) continue;
    model.base.push_back(reduction.base()[t]);
    model.time_name.push_back(reduction.time_names()[t]);
  }
  model.times = place.back();
  std::size_t next = 0;
  for (int i = 0; i < model.n; ++i) {
    const std::size_t first = model.memory.size();
    for (; next < usages.size() && usages[next].node == i; ++next) {
      const TimedUsage& u = usages[next];
      const int begin = place[u.begin], end = place[u.end];
      if (begin == end) continue;
      auto same =
          std::find_if(model.memory.begin() + first, model.memory.end(),
                       [=](const Model::Memory& m) { return m.begin == begin && m.end == end; });
      if (same == model.memory.end()) {
        model.memory.push_back({begin, end, model.usage.size()});
        model.usage.insert(model.usage.end(), u.usage.begin(), u.usage.end());
      } else {
        for (int s = 0; s < model.k[i]; ++s) model.usage[same->at + s] += u.usage[s];
      }
    }
    model.first_memory[i + 1] = static_cast<int>(model.memory.size());
  }
}

}  // namespace

Model build_model(const Reduction& reduction, const std::vector<std::int64_t>& order,
                  const std::function<bool()>& expired, Precision precision) {
  Model model;
  build_nodes(reduction, order, model);
  std::vector<int> index(reduction.nodes().size(), -1);
  for (int i = 0; i < model.n; ++i) index[model.root[i]] = i;
  build_arcs(reduction, index, precision, model);
  build_times(reduction, expired, model);
  return model;
}

double Model::evaluate(const std::vector<int>& x) const {
  double total = constant;
  for (int i = 0; i < n; ++i) {
    total += cost[offset[i] + x[i]];
    for (int a = first_arc[i]; a < first_arc[i + 1]; ++a) {
      const Arc& arc = arcs[a];
      if (arc.to > i)
        total += tables[arc.table + static_cast<std::size_t>(x[i]) * stride(arc.to) + x[arc.to]];
    }
  }
  return total;
}

void Model::profile(const std::vector<int>& x, std::vector<std::int64_t>& out) const {
  out.assign(times + 1, 0);
  for (int i = 0; i < n; ++i) {
    for (int m = first_memory[i]; m < first_memory[i + 1]; ++m) {
      const std::int64_t u = usage[memory[m].at + x[i]];
      out[memory[m].begin] += u;
      out[memory[m].end] -= u;
    }
  }
  std::partial_sum(out.begin(), out.end(), out.begin());
  out.resize(times);
  for (int t = 0; t < times; ++t) out[t] += base[t];
}

template <class Real>
void Model::price(const std::vector<double>& prefix, Real* out) const {
  double row[64];
  std::vector<double> large;
  for (int i = 0; i < n; ++i) {
    const int width = stride(i);
    double* sum = row;
    if (width > 64) {
      large.resize(width);
      sum = large.data();
    }
    std::copy_n(&cost[offset[i]], width, sum);
    for (int m = first_memory[i]; m < first_memory[i + 1]; ++m) {
      const double weight = prefix[memory[m].end] - prefix[memory[m].begin];
      if (weight <= 0) continue;
      const std::int64_t* u = &usage[memory[m].at];
      for (int s = 0; s < k[i]; ++s) sum[s] += weight * static_cast<double>(u[s]);
    }
    for (int s = 0; s < width; ++s) out[offset[i] + s] = static_cast<Real>(sum[s]);
  }
}

template void Model::price<float>(const std::vector<double>&, float*) const;
template void Model::price<double>(const std::vector<double>&, double*) const;

std::vector<std::int64_t> program_order(const Problem& problem) {
  constexpr std::int64_t kUnknown = -1;
  const std::size_t n = problem.nodes.size();
  std::vector<std::int64_t> order(n, kUnknown);
  for (std::size_t i = 0; i < n; ++i) {
    if (problem.nodes[i].live.lo < problem.nodes[i].live.hi) order[i] = problem.nodes[i].live.lo;
  }
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> next = order;
    bool changed = false;
    for (const ProblemEdge& edge : problem.edges) {
      for (const auto& [from, to] : {std::pair(edge.a, edge.b), std::pair(edge.b, edge.a)}) {
        if (order[to] != kUnknown || order[from] == kUnknown) continue;
        next[to] = std::max(next[to], order[from]);
        changed = true;
      }
    }
    if (!changed) break;
    order.swap(next);
  }
  return order;
}

std::vector<int> to_reduced(const Reduction& reduction, const Model& model,
                            const std::vector<int>& x) {
  std::vector<int> picked(reduction.nodes().size(), 0);
  for (int i = 0; i < model.n; ++i) picked[model.root[i]] = x[i];
  return picked;
}

std::vector<int> from_choice(const Reduction& reduction, const Model& model,
                             const std::vector<int>& choice) {
  std::vector<int> x(model.n, 0);
  for (int i = 0; i < model.n; ++i) {
    const std::vector<int>& strategy = reduction.nodes()[model.root[i]].strategy;
    const auto found = std::find(strategy.begin(), strategy.end(), choice[model.root[i]]);
    const double* cost = &model.cost[model.offset[i]];
    x[i] = static_cast<int>(found != strategy.end()
                                ? found - strategy.begin()
                                : std::min_element(cost, cost + model.k[i]) - cost);
  }
  return x;
}

std::vector<double> prices_by_name(const Model& model, const std::vector<double>& prices) {
  std::vector<double> result;
  for (int t = 0; t < model.times; ++t) {
    result.resize(model.time_name[t] + 1, 0);
    result.back() = prices[t];
  }
  return result;
}

std::vector<double> prices_for(const Model& model, const std::vector<double>& by_name) {
  std::vector<double> result(model.times, 0);
  int t = 0;
  for (std::size_t name = 0; name < by_name.size() && model.times > 0; ++name) {
    while (t + 1 < model.times && model.time_name[t] < static_cast<int>(name)) ++t;
    result[t] += by_name[name];
  }
  return result;
}

}  // namespace cleave::solver
