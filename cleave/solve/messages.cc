#include "cleave/solve/messages.h"

#include <algorithm>

namespace cleave::solver {
namespace {

template <class Real>
using Pack = typename Vector<Real>::type;

template <class Real>
Pack<Real>& pack(Real* p) {
  return *reinterpret_cast<Pack<Real>*>(p);
}
template <class Real>
const Pack<Real>& pack(const Real* p) {
  return *reinterpret_cast<const Pack<Real>*>(p);
}

// By reference: how packs are returned by value depends on the instructions that may be used.
template <class Real>
void lower(Pack<Real>& least, const Pack<Real>& other) {
  least = other < least ? other : least;
}

// By halves, since lanes one by one would wait for each other.
template <class Real>
Real least_lane(const Pack<Real>& v) {
  static_assert(kLanes == 8);
  Pack<Real> least = v;
  lower<Real>(least, __builtin_shufflevector(least, least, 4, 5, 6, 7, 0, 1, 2, 3));
  lower<Real>(least, __builtin_shufflevector(least, least, 2, 3, 0, 1, 6, 7, 4, 5));
  return least[1] < least[0] ? least[1] : least[0];
}

template <class Real>
Real least_of(const Real* row, int width) {
  Pack<Real> least = pack(row);
  for (int s = kLanes; s < width; s += kLanes) lower<Real>(least, pack(row + s));
  return least_lane<Real>(least);
}

// out[t] = min over s of base[s] + table[s][t], less the least of them, which is returned. Columns
// are taken two packs at a time, which is a line of the cache for floats.
template <class Real>
Real send(const Real* base, int k, const Real* table, int columns, Real* out) {
  const auto stride = static_cast<std::size_t>(columns);
  int column = 0;
  Pack<Real> all = {};  // the least of each lane
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes) {
    const Real* row = table + column;
    Pack<Real> least = pack(row) + base[0], next = pack(row + kLanes) + base[0];
    for (int s = 1; s < k; ++s) {
      row += stride;
      lower<Real>(least, pack(row) + base[s]);
      lower<Real>(next, pack(row + kLanes) + base[s]);
    }
    pack(out + column) = least;
    pack(out + column + kLanes) = next;
    lower<Real>(least, next);
    if (column > 0) lower<Real>(least, all);
    all = least;
  }
  if (column < columns) {
    const Real* row = table + column;
    Pack<Real> least = pack(row) + base[0];
    for (int s = 1; s < k; ++s) {
      row += stride;
      lower<Real>(least, pack(row) + base[s]);
    }
    pack(out + column) = least;
    if (column > 0) lower<Real>(least, all);
    all = least;
  }
  const Real shift = least_lane<Real>(all);
  for (column = 0; column < columns; column += kLanes) pack(out + column) -= shift;
  return shift;
}

}  // namespace

template <class Real>
Messages<Real>::Messages(const Model& model)
    : model_(model),
      at_(model.arcs.size()),
      belief_(model.strategies(), 0),
      share_(model.n),
      least_(model.n),
      sent_(model.n),
      received_(model.n) {
  std::size_t next = 0;
  int widest = kLanes;
  for (int i = 0; i < model.n; ++i) {
    int after = 0, before = 0;
    for (int a = model.first_arc[i]; a < model.first_arc[i + 1]; ++a) {
      at_[a] = next;
      next += model.stride(i);
      (model.arcs[a].to > i ? after : before) += 1;
    }
    share_[i] = Real(1) / static_cast<Real>(std::max({1, after, before}));
    widest = std::max(widest, model.stride(i));
  }
  message_.assign(next, 0);
  gathered_.assign(widest, 0);
  scaled_.assign(widest, 0);
  sweep_work_ = 0.25 * model.entries + 4.0 * static_cast<double>(next) + 30.0 * model.n;
}

template <class Real>
template <bool kForward>
double Messages<Real>::pass(const Real* cost) {
  double bound = 0;
  std::fill(received_.begin(), received_.end(), 0.0);
  for (int q = 0; q < model_.n; ++q) {
    const int i = kForward ? q : model_.n - 1 - q;
    const int width = model_.stride(i);
    const int first = model_.first_arc[i], last = model_.first_arc[i + 1];
    Real* sum = kForward ? gathered_.data() : belief_.data() + model_.offset[i];
    std::copy_n(cost + model_.offset[i], width, sum);
    const Real* in = first < last ? message_.data() + at_[first] : nullptr;
    for (int a = first; a < last; ++a, in += width) {
      for (int s = 0; s < width; s += kLanes) pack(sum + s) += pack(in + s);
    }
    const Real least = least_of(sum, width);
    bound += least;
    least_[i] = least;
    for (int s = 0; s < width; s += kLanes) pack(sum + s) -= least;
    double sent = 0;
    const Real share = share_[i];
    for (int a = first; a < last; ++a) {
      const Model::Arc& arc = model_.arcs[a];
      if ((arc.to > i) != kForward) continue;
      const Real* message = message_.data() + at_[a];
      for (int s = 0; s < width; s += kLanes) {
        pack(scaled_.data() + s) = pack(sum + s) * share - pack(message + s);
      }
      const Real floor = send(scaled_.data(), model_.k[i], model_.table<Real>(arc.table),
                              model_.stride(arc.to), message_.data() + at_[arc.reverse]);
      sent += floor;
      received_[arc.to] += floor;
    }
    sent_[i] = sent;
    bound += sent;
  }
  return bound;
}

template <class Real>
double Messages<Real>::sweep(const Real* cost) {
  pass<true>(cost);
  return pass<false>(cost);
}

template <class Real>
void Messages<Real>::round(const Real* cost, bool forward, std::vector<int>& x) const {
  std::vector<Real> sum;
  for (int q = 0; q < model_.n; ++q) {
    const int i = forward ? q : model_.n - 1 - q;
    const int k = model_.k[i], width = model_.stride(i);
    sum.assign(cost + model_.offset[i], cost + model_.offset[i] + k);
    for (int a = model_.first_arc[i]; a < model_.first_arc[i + 1]; ++a) {
      const Model::Arc& arc = model_.arcs[a];
      const Real* row = (arc.to < i) == forward
                            ? model_.table<Real>(model_.arcs[arc.reverse].table) +
                                  static_cast<std::size_t>(x[arc.to]) * width
                            : message_.data() + at_[a];
      for (int s = 0; s < k; ++s) sum[s] += row[s];
    }
    x[i] = static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
  }
}

// Forward, the nodes before i leave `before` and their messages; backward, those after i likewise.
// What remains is node i with everything else minimised: a bound for each of its strategies.
template <class Real>
double Messages<Real>::certify(const Real* cost, AlignedVector<double>& with) {
  std::vector<double> before(model_.n + 1, 0);
  pass<true>(cost);
  for (int i = 0; i < model_.n; ++i) before[i + 1] = before[i] + least_[i] + sent_[i];
  double bound = pass<false>(cost);
  with.assign(model_.strategies(), 0);
  double after = 0;
  for (int i = model_.n - 1; i >= 0; --i) {
    after += received_[i];
    const double rest = before[i] + after + least_[i];
    for (int s = 0; s < model_.k[i]; ++s) {
      with[model_.offset[i] + s] = rest + static_cast<double>(belief_[model_.offset[i] + s]);
    }
    bound = std::max(bound, rest);
    after += least_[i];
  }
  return bound;
}

template <class Real>
template <class Other>
void Messages<Real>::copy_from(const Messages<Other>& other) {
  std::copy(other.raw().begin(), other.raw().end(), message_.begin());
}

std::vector<double> carry_over(const Model& from, const std::vector<double>& messages,
                               const Model& to) {
  std::vector<std::size_t> at(from.arcs.size());
  std::size_t next = 0;
  int roots = 0;
  for (int i = 0; i < from.n; ++i) {
    roots = std::max(roots, from.root[i] + 1);
    for (int a = from.first_arc[i]; a < from.first_arc[i + 1]; ++a, next += from.stride(i))
      at[a] = next;
  }
  for (int root : to.root) roots = std::max(roots, root + 1);
  std::vector<int> index(roots, -1);
  for (int i = 0; i < from.n; ++i) index[from.root[i]] = i;
  std::vector<double> carried;
  for (int i = 0; i < to.n; ++i) {
    const int old = index[to.root[i]];
    // Where each strategy was: a part of those that were there, in the same order.
    std::vector<int> place(to.k[i], -1);
    for (int s = 0, p = 0; old >= 0 && s < to.k[i]; ++s) {
      while (p < from.k[old] && from.strategy[from.offset[old] + p] < to.strategy[to.offset[i] + s])
        ++p;
      if (p < from.k[old] && from.strategy[from.offset[old] + p] == to.strategy[to.offset[i] + s])
        place[s] = p;
    }
    for (int a = to.first_arc[i]; a < to.first_arc[i + 1]; ++a) {
      const std::size_t begin = carried.size();
      carried.resize(begin + to.stride(i), 0);
      const int end = index[to.root[to.arcs[a].to]];
      if (old < 0 || end < 0) continue;
      for (int b = from.first_arc[old]; b < from.first_arc[old + 1]; ++b) {
        if (from.arcs[b].to != end) continue;
        for (int s = 0; s < to.k[i]; ++s)
          if (place[s] >= 0) carried[begin + s] = messages[at[b] + place[s]];
      }
    }
  }
  return carried;
}

template class Messages<float>;
template class Messages<double>;
template void Messages<double>::copy_from(const Messages<float>&);
template void Messages<double>::copy_from(const Messages<double>&);

}  // namespace cleave::solver
