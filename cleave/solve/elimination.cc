#include "cleave/solve/elimination.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cleave::solver {
namespace {

// Chunks grow: most eliminations need little, and each search has one of its own.
constexpr std::size_t kFirstChunk = std::size_t{1} << 15, kChunk = std::size_t{1} << 20;

template <class T>
void erase_value(std::vector<T>& list, T value) {
  const auto at = std::find(list.begin(), list.end(), value);
  *at = list.back();
  list.pop_back();
}

// to += row, both padded
template <class Real>
void add_row(Real* to, const Real* row, int width) {
  using V = typename Vector<Real>::type;
  for (int s = 0; s < width; s += kLanes) {
    *reinterpret_cast<V*>(to + s) += *reinterpret_cast<const V*>(row + s);
  }
}

}  // namespace

template <class Real>
Elimination<Real>::Elimination(const Model& model) : model_(model), local_(model.n, -1) {}

template <class Real>
Real* Elimination<Real>::allocate(std::size_t count) {
  while (chunk_ < chunks_.size() && used_ + count > chunks_[chunk_].size()) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size())
    chunks_.emplace_back(
        std::max(std::min(kFirstChunk << std::min<std::size_t>(chunk_, 5), kChunk), count));
  Real* result = chunks_[chunk_].data() + used_;
  used_ += (count + 15) / 16 * 16;
  return result;
}

template <class Real>
void Elimination<Real>::reset_arena() {
  chunk_ = used_ = 0;
  factor_count_ = eliminated_count_ = 0;
  order_ = {};
}

template <class Real>
int Elimination<Real>::new_factor() {
  if (factor_count_ == factors_.size()) factors_.emplace_back();
  factors_[factor_count_].transposed = nullptr;
  factors_[factor_count_].owned = nullptr;
  return static_cast<int>(factor_count_++);
}

template <class Real>
void Elimination<Real>::load_variable(int v, const Real* cost, const std::vector<int>& x) {
  Variable& variable = variables_[v];
  const int i = variable.node;
  variable.log_size = std::log2(static_cast<float>(variable.k));
  variable.state = 1;
  variable.version = 0;
  variable.neighbours.clear();
  variable.factors.clear();
  const int width = padded(variable.k);
  variable.unary = allocate(width);
  const Real* from = cost + model_.offset[i];
  if (!variable.domain) {
    variable.pick = x[i];
    std::copy_n(from, width, variable.unary);
    return;
  }
  for (int s = 0; s < variable.k; ++s) {
    if (variable.domain[s] == x[i]) variable.pick = s;
    variable.unary[s] = from[variable.domain[s]];
  }
  std::fill(variable.unary + variable.k, variable.unary + width, static_cast<Real>(kBig));
}

template <class Real>
const Real* Elimination<Real>::confined(int v, int w, const Real* table) {
  const Variable &from = variables_[v], &to = variables_[w];
  const int stride = model_.stride(to.node), width = padded(to.k);
  Real* out = allocate(static_cast<std::size_t>(from.k) * width);
  for (int s = 0; s < from.k; ++s) {
    const Real* row = table + static_cast<std::size_t>(from.domain[s]) * stride;
    Real* into = out + static_cast<std::size_t>(s) * width;
    for (int t = 0; t < to.k; ++t) into[t] = row[to.domain[t]];
    std::fill(into + to.k, into + width, static_cast<Real>(kBig));
  }
  work_ += static_cast<double>(from.k) * to.k;
  return out;
}

template <class Real>
void Elimination<Real>::load(const std::vector<int>& free, const Real* cost,
                             const std::vector<int>& x, const Domains* domains) {
  count_ = static_cast<int>(free.size());
  if (variables_.size() < free.size()) variables_.resize(free.size());
  for (int v = 0; v < count_; ++v) {
    local_[free[v]] = v;
    variables_[v].node = free[v];
    variables_[v].k = domains ? domains->first[v + 1] - domains->first[v] : model_.k[free[v]];
    variables_[v].domain = domains ? &domains->list[domains->first[v]] : nullptr;
    load_variable(v, cost, x);
  }
  for (int v = 0; v < count_; ++v) {
    Variable& variable = variables_[v];
    const int i = variable.node;
    const int width = model_.stride(i);
    for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) {
      const Model::Arc& arc = model_.arcs[a];
      const Real* back = model_.table<Real>(model_.arcs[arc.reverse].table);
      const int w = local_[arc.to];
      if (w < 0) {
        const Real* row = back + static_cast<std::size_t>(x[arc.to]) * width;
        if (variable.domain) {
          for (int s = 0; s < variable.k; ++s) variable.unary[s] += row[variable.domain[s]];
        } else {
          add_row(variable.unary, row, width);
        }
        continue;
      }
      variable.neighbours.push_back(w);
      if (w < v) continue;
      const int f = new_factor();
      const Real* table = model_.table<Real>(arc.table);
      factors_[f].scope = {v, w};
      factors_[f].table = domains ? confined(v, w, table) : table;
      factors_[f].transposed = domains ? nullptr : back;
      variable.factors.push_back(f);
      variables_[w].factors.push_back(f);
    }
    work_ += 10 + 2 * (model_.first_arc[i + 1] - model_.first_arc[i]);
  }
}

template <class Real>
void Elimination<Real>::enqueue(int v) {
  Variable& variable = variables_[v];
  order_.push({variable.weight + variable.noise, v, ++variable.version});
  work_ += 80;
}

template <class Real>
void Elimination<Real>::weigh(int v) {
  Variable& variable = variables_[v];
  variable.weight = variable.log_size;
  for (int w : variable.neighbours) variable.weight += variables_[w].log_size;
}

template <class Real>
int Elimination<Real>::dimension(const Factor& factor, std::size_t d) const {
  const int k = variables_[factor.scope[d]].k;
  return d + 1 == factor.scope.size() ? padded(k) : k;
}

template <class Real>
std::size_t Elimination<Real>::stride_of(const Factor& factor, int v) const {
  std::size_t stride = 1;
  for (std::size_t d = factor.scope.size(); d-- > 0;) {
    if (factor.scope[d] == v) return stride;
    stride *= dimension(factor, d);
  }
  return 0;
}

template <class Real>
const Real* Elimination<Real>::arranged(const Factor& factor, const std::vector<int>& order,
                                        const Real* start) {
  const int rank = static_cast<int>(order.size());
  std::size_t size = 1;
  std::size_t strides[32];
  int sizes[32], at[32];
  for (int d = 0; d < rank; ++d) {
    strides[d] = stride_of(factor, order[d]);
    sizes[d] = variables_[order[d]].k;
    at[d] = 0;
    size *= d + 1 == rank ? padded(sizes[d]) : sizes[d];
  }
  Real* out = allocate(size);
  const int last = sizes[rank - 1], width = padded(last);
  const std::size_t step = strides[rank - 1];
  Real* to = out;
  const Real* from = start;
  while (true) {
    for (int s = 0; s < last; ++s) to[s] = from[s * step];
    for (int s = last; s < width; ++s) to[s] = static_cast<Real>(kBig);
    to += width;
    int d = rank - 2;
    for (; d >= 0; --d) {
      from += strides[d];
      if (++at[d] < sizes[d]) break;
      from -= strides[d] * sizes[d];
      at[d] = 0;
    }
    if (d < 0) break;
  }
  work_ += static_cast<double>(size);
  return out;
}

template <class Real>
void Elimination<Real>::hold(int v) {
  Variable& variable = variables_[v];
  variable.state = 0;
  const int s = variable.pick;
  for (int f : variable.factors) {
    Factor& factor = factors_[f];
    if (factor.scope.size() == 2) {
      const int w = factor.scope[0] == v ? factor.scope[1] : factor.scope[0];
      Real* unary = variables_[w].unary;
      const int k = variables_[w].k;
      const std::size_t from = s * stride_of(factor, v), step = stride_of(factor, w);
      for (int t = 0; t < k; ++t) unary[t] += factor.table[from + t * step];
      erase_value(variables_[w].factors, f);
    } else {
      std::vector<int> rest;
      for (int w : factor.scope) {
        if (w != v) rest.push_back(w);
      }
      factor.table = arranged(factor, rest, factor.table + s * stride_of(factor, v));
      factor.scope = std::move(rest);
      factor.transposed = nullptr;
      factor.owned = nullptr;
    }
  }
  for (int w : variable.neighbours) {
    erase_value(variables_[w].neighbours, v);
    variables_[w].weight -= variable.log_size;
    enqueue(w);
  }
  variable.neighbours.clear();
  variable.factors.clear();
}

template <class Real>
void Elimination<Real>::hold_some(std::vector<int>& candidates) {
  std::erase_if(candidates, [this](int v) { return variables_[v].state != 1; });
  const int count = static_cast<int>(candidates.size());
  for (int q = 0; q < std::max(1, count / 50); ++q) {
    int best = -1;
    double most = -1;
    for (int draw = 0; draw < 8; ++draw) {
      const int v = candidates[random_->below(count)];
      const Variable& variable = variables_[v];
      if (variable.state != 1) continue;
      const double value = static_cast<double>(variable.neighbours.size()) * variable.log_size *
                           (0.5 + random_->unit());
      if (value > most) {
        most = value;
        best = v;
      }
    }
    if (best >= 0) hold(best);
  }
  work_ += count;
}

// Where `scope` ends in t: terms with t become rows over t for each strategy of v, the others rows
// over the strategies of v.
template <class Real>
void Elimination<Real>::make_term(const Factor& factor, int v, const std::vector<int>& scope,
                                  Term& term) {
  const int t = scope.back();
  const int outer = static_cast<int>(scope.size()) - 1;
  std::fill_n(term.strides, outer, std::size_t{0});
  term.depth = 0;
  term.inner = false;
  if (factor.scope.size() == 2) {
    const int w = factor.scope[0] == v ? factor.scope[1] : factor.scope[0];
    term.inner = w == t;
    const bool straight = (factor.scope[0] == v) == term.inner;
    if (straight || factor.transposed) {
      term.table = straight ? factor.table : factor.transposed;
    } else {
      term.table = arranged(factor, term.inner ? std::vector<int>{v, w} : std::vector<int>{w, v},
                            factor.table);
    }
    if (!term.inner) {
      const int d = static_cast<int>(std::find(scope.begin(), scope.end(), w) - scope.begin());
      term.depth = d + 1;
      term.strides[d] = padded(variables_[v].k);
    }
    return;
  }
  std::vector<int> order;
  for (int d = 0; d < outer; ++d) {
    if (std::find(factor.scope.begin(), factor.scope.end(), scope[d]) != factor.scope.end()) {
      order.push_back(scope[d]);
      term.depth = d + 1;
    }
  }
  order.push_back(v);
  if (std::find(factor.scope.begin(), factor.scope.end(), t) != factor.scope.end()) {
    order.push_back(t);
    term.inner = true;
  }
  term.table = factor.scope == order ? factor.table : arranged(factor, order, factor.table);
  std::size_t stride = 1;
  for (std::size_t q = order.size(); q-- > 0;) {
    const auto at = std::find(scope.begin(), scope.end() - 1, order[q]);
    if (at != scope.end() - 1) term.strides[at - scope.begin()] = stride;
    const int k = variables_[order[q]].k;
    stride *= q + 1 == order.size() ? padded(k) : k;
  }
}

// terms_ are sorted: those over the last variable first, then by depth.
template <class Real>
void Elimination<Real>::minimise(int v, const std::vector<int>& scope, Real* out) {
  using V = typename Vector<Real>::type;
  const int outer = static_cast<int>(scope.size()) - 1;
  const int k = variables_[v].k, width = padded(k);
  const int columns = padded(variables_[scope.back()].k);
  if (partial_.size() < static_cast<std::size_t>(outer) + 1) partial_.resize(outer + 1);
  for (int d = 0; d <= outer; ++d) {
    if (partial_[d].size() < static_cast<std::size_t>(width)) partial_[d].resize(width);
  }
  const Real* base = variables_[v].unary;
  std::size_t inner = 0;
  while (inner < terms_.size() && terms_[inner].inner) ++inner;
  rows_.resize(inner);
  const Real** rows = rows_.data();
  int at[kScope] = {};
  int fresh = 1;  // partial sums from this depth on are out of date
  while (true) {
    std::size_t next = inner;
    for (int d = 1; d <= outer; ++d) {
      const Real* from = d == 1 ? variables_[v].unary : partial_[d - 1].data();
      Real* to = partial_[d].data();
      if (d >= fresh) std::copy_n(from, width, to);
      for (; next < terms_.size() && terms_[next].depth == d; ++next) {
        if (d < fresh) continue;
        const Real* row = terms_[next].table;
        for (int q = 0; q < d; ++q) row += terms_[next].strides[q] * at[q];
        add_row(to, row, width);
      }
      base = to;
    }
    for (std::size_t f = 0; f < inner; ++f) {
      rows[f] = terms_[f].table;
      for (int q = 0; q < outer; ++q) rows[f] += terms_[f].strides[q] * at[q];
    }
    for (int column = 0; column < columns; column += kLanes) {
      V least = *reinterpret_cast<const V*>(rows[0] + column) + base[0];
      for (std::size_t f = 1; f < inner; ++f) {
        least += *reinterpret_cast<const V*>(rows[f] + column);
      }
      V other = least;
      int s = 1;
      if (inner == 1) {
        const Real* row = rows[0] + column;
        for (; s + 1 < k; s += 2) {
          const V p =
              *reinterpret_cast<const V*>(row + static_cast<std::size_t>(s) * columns) + base[s];
          const V q = *reinterpret_cast<const V*>(row + static_cast<std::size_t>(s + 1) * columns) +
                      base[s + 1];
          least = p < least ? p : least;
          other = q < other ? q : other;
        }
      }
      for (; s < k; ++s) {
        const std::size_t shift = static_cast<std::size_t>(s) * columns + column;
        V sum = *reinterpret_cast<const V*>(rows[0] + shift) + base[s];
        for (std::size_t f = 1; f < inner; ++f) {
          sum += *reinterpret_cast<const V*>(rows[f] + shift);
        }
        least = sum < least ? sum : least;
      }
      *reinterpret_cast<V*>(out + column) = least < other ? least : other;
    }
    out += columns;
    int d = outer - 1;
    for (; d >= 0; --d) {
      if (++at[d] < variables_[scope[d]].k) break;
      at[d] = 0;
    }
    if (d < 0) break;
    fresh = d + 1;
  }
}

// Adds a table to the factor over the same scope, or makes one.
template <class Real>
void Elimination<Real>::join(const std::vector<int>& scope, Real* table, std::size_t size) {
  for (int f : variables_[scope[0]].factors) {
    if (!factors_[f].owned || factors_[f].scope != scope) continue;
    add_row(factors_[f].owned, table, static_cast<int>(size));
    return;
  }
  const int f = new_factor();
  factors_[f].scope = scope;
  factors_[f].table = factors_[f].owned = table;
  for (int w : scope) variables_[w].factors.push_back(f);
}

template <class Real>
void Elimination<Real>::eliminate(int v) {
  Variable& variable = variables_[v];
  variable.state = 2;
  if (eliminated_count_ == eliminated_.size()) eliminated_.emplace_back();
  eliminated_[eliminated_count_].first = v;
  eliminated_[eliminated_count_].second = variable.factors;
  ++eliminated_count_;
  std::vector<int>& scope = variable.neighbours;
  if (scope.empty()) return;
  std::sort(scope.begin(), scope.end(), [this](int a, int b) {
    return variables_[a].k != variables_[b].k ? variables_[a].k < variables_[b].k : a < b;
  });
  std::size_t size = 1;
  for (std::size_t d = 0; d < scope.size(); ++d) {
    size *= d + 1 == scope.size() ? padded(variables_[scope[d]].k) : variables_[scope[d]].k;
  }
  terms_.resize(variable.factors.size());
  for (std::size_t q = 0; q < terms_.size(); ++q) {
    make_term(factors_[variable.factors[q]], v, scope, terms_[q]);
  }
  std::stable_sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
    return a.inner != b.inner ? a.inner : a.depth < b.depth;
  });
  Real* out = allocate(size);
  minimise(v, scope, out);
  const auto inner = static_cast<double>(
      std::count_if(terms_.begin(), terms_.end(), [](const Term& term) { return term.inner; }));
  const double rows = static_cast<double>(size) / padded(variables_[scope.back()].k);
  work_ += 50 + rows * static_cast<double>(terms_.size() + 1) +
           0.0125 * static_cast<double>(size) * variable.k * inner;

  for (int f : variable.factors) {
    for (int w : factors_[f].scope) {
      if (w != v) erase_value(variables_[w].factors, f);
    }
  }
  for (int w : scope) {
    erase_value(variables_[w].neighbours, v);
    variables_[w].weight -= variable.log_size;
  }
  if (scope.size() == 1) {
    Real* unary = variables_[scope[0]].unary;
    for (std::size_t s = 0; s < size; ++s) unary[s] += out[s];
  } else {
    join(scope, out, size);
    for (std::size_t p = 0; p < scope.size(); ++p) {
      std::vector<int>& list = variables_[scope[p]].neighbours;
      for (std::size_t q = 0; q < p; ++q) {
        if (std::find(list.begin(), list.end(), scope[q]) != list.end()) continue;
        list.push_back(scope[q]);
        variables_[scope[q]].neighbours.push_back(scope[p]);
        variables_[scope[p]].weight += variables_[scope[q]].log_size;
        variables_[scope[q]].weight += variables_[scope[p]].log_size;
      }
    }
  }
  for (int w : scope) enqueue(w);
}

template <class Real>
void Elimination<Real>::assign_backwards(std::vector<int>& x) {
  std::vector<Real> sum;
  for (std::size_t q = eliminated_count_; q-- > 0;) {
    const auto& [v, factors] = eliminated_[q];
    Variable& variable = variables_[v];
    sum.assign(variable.unary, variable.unary + variable.k);
    for (int f : factors) {
      const Factor& factor = factors_[f];
      const Real* at = factor.table;
      std::size_t stride = 1, own = 0;
      for (std::size_t d = factor.scope.size(); d-- > 0;) {
        if (factor.scope[d] == v) {
          own = stride;
        } else {
          at += stride * variables_[factor.scope[d]].pick;
        }
        stride *= dimension(factor, d);
      }
      for (int s = 0; s < variable.k; ++s) sum[s] += at[s * own];
    }
    variable.pick = static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
    x[variable.node] = variable.domain ? variable.domain[variable.pick] : variable.pick;
  }
}

template <class Real>
void Elimination<Real>::prepare(const std::vector<int>& free, const Real* cost,
                                const std::vector<int>& x, double noise, Random& random,
                                const Domains* domains) {
  random_ = &random;
  reset_arena();
  load(free, cost, x, domains);
  for (int v = 0; v < count_; ++v) {
    variables_[v].noise = noise > 0 ? static_cast<float>(noise * random.unit()) : 0.0f;
    weigh(v);
    enqueue(v);
  }
}

template <class Real>
int Elimination<Real>::next() {
  for (; !order_.empty(); order_.pop()) {
    const Entry& top = order_.top();
    const Variable& variable = variables_[top.variable];
    if (variable.state == 1 && variable.version == top.version) return top.variable;
  }
  return -1;
}

template <class Real>
int Elimination<Real>::run(const std::vector<int>& free, const Real* cost, std::vector<int>& x,
                           double width, double noise, Random& random, const Domains* domains) {
  prepare(free, cost, x, noise, random, domains);
  std::vector<int> candidates(count_);
  std::iota(candidates.begin(), candidates.end(), 0);
  for (int v = next(); v >= 0; v = next()) {
    if (too_wide(v, width)) {
      hold_some(candidates);
    } else {
      order_.pop();
      eliminate(v);
    }
  }
  assign_backwards(x);
  for (int i : free) local_[i] = -1;
  return static_cast<int>(eliminated_count_);
}

template <class Real>
bool Elimination<Real>::run_whole(const std::vector<int>& free, const Real* cost,
                                  std::vector<int>& x, double width,
                                  const std::function<bool()>& expired) {
  Random random(1);
  prepare(free, cost, x, 0, random, nullptr);
  int v = next();
  for (; v >= 0 && !too_wide(v, width) && !(expired && expired()); v = next()) {
    order_.pop();
    eliminate(v);
  }
  if (v < 0) assign_backwards(x);
  for (int i : free) local_[i] = -1;
  return v < 0;
}

template class Elimination<float>;
template class Elimination<double>;

}  // namespace cleave::solver
