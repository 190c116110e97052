// Mathematical properties of an operator, found by running it.
#include "cleave/discover/properties.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/inputs.h"
#include "cleave/discover/represent.h"
#include "cleave/discover/transfer.h"

namespace cleave {
namespace {

constexpr int kDraws = 3;

using Calls = std::vector<Array>;
using Outcome = std::optional<Calls>;

Array map_numbers(const Array& array, const std::function<double(double)>& f) {
  std::vector<double> numbers = to_doubles(array);
  for (double& x : numbers) x = f(x);
  return from_doubles(array.dtype(), array.shape(), numbers);
}

Array added(const Array& a, const Array& b, double factor = 1) {
  std::vector<double> x = to_doubles(a);
  const std::vector<double> y = to_doubles(b);
  for (size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
  return from_doubles(a.dtype(), a.shape(), x);
}

bool all_close(const Calls& a, const Calls& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), is_close);
}

bool have_fractions(const Calls& results) {
  return !results.empty() && std::all_of(results.begin(), results.end(),
                                         [](const Array& r) { return has_fractions(r.dtype()); });
}

bool is_informative(const Calls& results) {
  return std::all_of(results.begin(), results.end(),
                     [](const Array& r) { return magnitude(r) > 0; });
}

Calls combined(const Calls& a, const Calls& b, double factor = 1) {
  Calls result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(added(a[i], b[i], factor));
  return result;
}

Calls scaled(const Calls& a, double factor) {
  Calls result;
  for (const Array& x : a)
    result.push_back(map_numbers(x, [factor](double v) { return factor * v; }));
  return result;
}

// Counts what tests say of one property: it holds if some tests say yes and none says no.
struct Tally {
  int yes = 0, no = 0;
  void count(bool holds) { (holds ? yes : no) += 1; }
  bool holds() const { return yes > 0 && no == 0; }
};

// Properties of one operator; each is asked of all samples and of several draws.
class PropertyFinder {
 public:
  PropertyFinder(const Operator& op, const std::vector<Sample>& samples, uint64_t seed)
      : op_(op), samples_(samples), seed_(seed) {}

  std::vector<MathProperty> find() {
    if (samples_.empty()) return {};
    size_t count = samples_.front().operands.size();
    for (const Sample& sample : samples_) count = std::min(count, sample.operands.size());
    std::vector<size_t> linear;
    for (size_t i = 0; i < count; ++i)
      if (find_of_operand(i)) linear.push_back(i);
    if (linear.size() == 2)
      add("bilinear", fmt::format("operands {} and {}", linear[0], linear[1]), linear_tests_);
    if (linear.size() > 2) add("multilinear", "operands", linear_tests_);
    if (count > 1) find_of_pairs();
    find_of_whole();
    find_permutations(count);
    return std::move(found_);
  }

 private:
  using Test =
      std::function<std::optional<bool>(const Sample&, const Calls&, const Calls&, uint64_t)>;

  void add(const std::string& name, const std::string& about, int tests,
           const std::string& how = "tested") {
    found_.push_back({name, about, how, tests});
  }

  // `test` gets the sample, operands and their results, and a seed.
  Tally tally(const Test& test) const {
    Tally result;
    for (const Sample& sample : samples_)
      for (uint64_t draw = 0; draw < kDraws; ++draw) {
        const uint64_t seed = seed_ * 131 + draw * 17 + 5;
        const Calls operands = random_operands(sample, seed);
        const Outcome results = try_run(op_, sample, operands);
        if (!results) continue;
        if (const auto holds = test(sample, operands, *results, seed + 1)) result.count(*holds);
        if (result.no > 0) return result;
      }
    return result;
  }

  Outcome run_with(const Sample& sample, Calls operands, size_t i, Array changed) const {
    operands[i] = std::move(changed);
    return try_run(op_, sample, operands);
  }

  static bool may_be_negative(const Sample& sample, size_t i) {
    const TensorDesc& desc = sample.operands[i];
    return desc.domain == Domain::Any || desc.domain == Domain::NonZero;
  }
  static bool may_change(const Sample& sample, size_t i) {
    const TensorDesc& desc = sample.operands[i];
    return has_fractions(desc.dtype) && desc.domain != Domain::Bool && desc.domain != Domain::Index;
  }

  // f(c x) = c^k f(x)
  Tally homogeneous(size_t i, double k, bool negative) const {
    return tally([=, this](const Sample& sample, const Calls& operands, const Calls& results,
                           uint64_t) -> std::optional<bool> {
      if (!may_change(sample, i) || !have_fractions(results)) return false;
      if (!is_informative(results)) return std::nullopt;
      for (double c : {2.0, 3.0, -2.0}) {
        if (c < 0 && (!negative || !may_be_negative(sample, i))) continue;
        const Outcome other = run_with(sample, operands, i,
                                       map_numbers(operands[i], [c](double x) { return c * x; }));
        if (!other) return std::nullopt;
        if (!all_close(*other, scaled(results, std::pow(c, k)))) return false;
      }
      return true;
    });
  }

  // f(x + y) = f(x) + f(y) in one operand, or in all of them together.
  Tally additive(std::optional<size_t> only) const {
    return tally([=, this](const Sample& sample, const Calls& operands, const Calls& results,
                           uint64_t seed) -> std::optional<bool> {
      if (!have_fractions(results)) return false;
      Calls other = random_operands(sample, seed), sum = operands;
      for (size_t i = 0; i < operands.size(); ++i) {
        if (only && i != *only) {
          other[i] = operands[i];
          continue;
        }
        if (!may_change(sample, i)) return false;
        sum[i] = added(operands[i], other[i]);
      }
      const Outcome a = try_run(op_, sample, other), b = try_run(op_, sample, sum);
      if (!a || !b || !is_informative(*b) || a->size() != results.size()) return std::nullopt;
      return all_close(*b, combined(results, *a));
    });
  }

  // 1: larger operands give larger results; -1: smaller ones.
  Tally monotone(size_t i, int direction) const {
    return tally([=, this](const Sample& sample, const Calls& operands, const Calls& results,
                           uint64_t seed) -> std::optional<bool> {
      if (!may_change(sample, i) || is_complex(operands[i].dtype())) return false;
      NumberStream random(seed);
      const Array larger = map_numbers(
          operands[i], [&](double x) { return random.chance(0.5) ? x + 3 * random.uniform() : x; });
      const Outcome other = run_with(sample, operands, i, larger);
      if (!other || other->size() != results.size()) return std::nullopt;
      bool moved = false;
      for (size_t r = 0; r < results.size(); ++r) {
        if (is_complex(results[r].dtype()) || results[r].shape() != (*other)[r].shape())
          return false;
        const std::vector<double> x = to_doubles(results[r]), y = to_doubles((*other)[r]);
        const double slack = tolerance_of(results[r].dtype()) * magnitude(results[r]);
        for (size_t k = 0; k < x.size(); ++k) {
          if (!(direction * (y[k] - x[k]) >= -slack)) return false;
          moved |= x[k] != y[k];
        }
      }
      return moved ? std::optional(true) : std::nullopt;
    });
  }

  // What random numbers hardly ever are: zeros, NaN, infinities, and those of another operand.
  // `any`, `isnan` and `equal` have one result of all others.
  std::vector<Array> unusual(const Sample& sample, const Calls& operands, size_t i) const {
    const TensorDesc& desc = sample.operands[i];
    auto all = [&](double x) { return map_numbers(operands[i], [x](double) { return x; }); };
    std::vector<Array> arrays;
    const bool any = desc.domain == Domain::Any;
    if (any || desc.domain == Domain::Bool || desc.domain == Domain::Index)
      arrays.push_back(all(0));
    if (any && has_fractions(desc.dtype))
      for (double x :
           {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
        arrays.push_back(all(x));
    for (size_t k = 0; k < operands.size(); ++k)
      if (k != i && operands[k].shape() == operands[i].shape() &&
          operands[k].dtype() == operands[i].dtype() && sample.operands[k].domain == desc.domain)
        arrays.push_back(operands[k]);
    return arrays;
  }

  Tally independent(size_t i) const {
    return tally([=, this](const Sample& sample, const Calls& operands, const Calls& results,
                           uint64_t seed) -> std::optional<bool> {
      const Outcome other = run_with(sample, operands, i, random_operands(sample, seed)[i]);
      if (!other) return std::nullopt;
      if (!all_close(*other, results)) return false;
      for (const Array& array : unusual(sample, operands, i))
        if (const Outcome of = run_with(sample, operands, i, array); of && !all_close(*of, results))
          return false;
      return true;
    });
  }

  // On every sample the definition carries these placements to that of the results.
  bool is_proved(size_t i, const Placement& operand, const Placement& result) const {
    if (!op_.define) return false;
    for (const Sample& sample : samples_) {
      std::vector<Placement> row(sample.operands.size(), Placement::replicate());
      row[i] = operand;
      try {
        const auto results = transfer_through(op_.define(sample), row, 2);
        if (!results || std::any_of(results->begin(), results->end(),
                                    [&](const Placement& p) { return !(p == result); }))
          return false;
      } catch (const UserError&) {
        return false;
      }
    }
    return true;
  }

  // Whether the operator is linear in it.
  bool find_of_operand(size_t i) {
    const std::string about = fmt::format("operand {}", i);
    if (const Tally t = independent(i); t.holds()) {
      add("independent", about, t.yes);
      return false;
    }
    auto how = [&](ReduceOp from, ReduceOp to) {
      return is_proved(i, Placement::partial(from), Placement::partial(to)) ? "proved" : "tested";
    };
    const Tally sum = additive(i);
    bool linear = false;
    for (double k : {1.0, 2.0, 0.0, -1.0, 0.5, 3.0}) {
      const Tally all = homogeneous(i, k, true);
      const bool positive = !all.holds();
      const Tally t = positive ? homogeneous(i, k, false) : all;
      if (!t.holds()) continue;
      linear = k == 1 && !positive && sum.holds();
      if (linear) {
        linear_tests_ += t.yes + sum.yes;
        add("linear", about, t.yes + sum.yes, how(ReduceOp::Sum, ReduceOp::Sum));
      }
      add(fmt::format("{}homogeneous of degree {}", positive ? "positively " : "", k), about,
          t.yes);
      break;
    }
    if (sum.holds() && !linear) add("additive", about, sum.yes, how(ReduceOp::Sum, ReduceOp::Sum));
    if (const Tally up = monotone(i, 1); up.holds())
      add("monotone", about + ", increasing", up.yes, how(ReduceOp::Max, ReduceOp::Max));
    else if (const Tally down = monotone(i, -1); down.holds())
      add("monotone", about + ", decreasing", down.yes, how(ReduceOp::Max, ReduceOp::Min));
    return linear;
  }

  void find_of_pairs() {
    if (const Tally t = additive(std::nullopt); t.holds())
      add("linear", "all operands together", t.yes);
    Tally same, opposite;
    auto swap = [&](bool negate) {
      return tally([=, this](const Sample& sample, const Calls& operands, const Calls& results,
                             uint64_t) -> std::optional<bool> {
        const TensorDesc &a = sample.operands[0], &b = sample.operands[1];
        if (a.dtype != b.dtype || a.shape != b.shape || a.domain != b.domain) return false;
        Calls swapped = operands;
        std::swap(swapped[0], swapped[1]);
        const Outcome other = try_run(op_, sample, swapped);
        if (!other || !is_informative(results)) return std::nullopt;
        if (negate && !have_fractions(results)) return false;
        return all_close(*other, negate ? scaled(results, -1) : results);
      });
    };
    if (const Tally t = swap(false); t.holds()) add("commutative", "operands 0 and 1", t.yes);
    if (const Tally t = swap(true); t.holds()) add("antisymmetric", "operands 0 and 1", t.yes);
  }

  void find_of_whole() {
    const Tally again = tally([this](const Sample& sample, const Calls& operands,
                                     const Calls& results, uint64_t) -> std::optional<bool> {
      if (operands.empty() || results.size() != 1 || results[0].shape() != operands[0].shape() ||
          results[0].dtype() != operands[0].dtype())
        return false;
      const Outcome twice = run_with(sample, operands, 0, results[0]);
      return twice ? std::optional(all_close(*twice, results)) : std::nullopt;
    });
    if (again.holds()) add("idempotent", "result", again.yes);
    Tally own;
    for (const Sample& sample : samples_) own.count(reach_of(op_, sample, seed_).only_own());
    if (own.holds()) add("elementwise", "result", own.yes);
  }

  enum class Order : uint8_t { Unknown, Invariant, Equivariant, Neither };

  // What an operator makes of operands in another order along `dims` (by operand; -1: left alone).
  Order order_along(const Sample& sample, const std::vector<int64_t>& dims, int64_t size) const {
    bool invariant = true, equivariant = true, tested = false;
    for (uint64_t draw = 0; draw < 2; ++draw) {
      const Calls operands = random_operands(sample, seed_ + 91 + draw);
      std::vector<int64_t> order(static_cast<size_t>(size));
      std::iota(order.begin(), order.end(), draw == 0 ? 1 : 0);
      if (draw == 0) order.back() = 0;  // all move by one; then: the first two change places
      if (draw == 1) std::swap(order[0], order[1]);
      Calls moved = operands;
      for (size_t i = 0; i < moved.size(); ++i)
        if (dims[i] >= 0) moved[i] = permuted(operands[i], static_cast<size_t>(dims[i]), order);
      const Outcome before = try_run(op_, sample, operands), after = try_run(op_, sample, moved);
      if (!before || !after || before->size() != after->size()) continue;
      tested = true;
      invariant &= all_close(*before, *after);
      for (size_t r = 0; r < before->size(); ++r) {
        bool some = false;
        for (size_t d = 0; d < (*before)[r].rank() && !some; ++d)
          some = (*before)[r].shape()[d] == size &&
                 is_close(permuted((*before)[r], d, order), (*after)[r]);
        equivariant &= some;
      }
    }
    // A result of one number says nothing.
    if (!tested || (invariant && equivariant)) return Order::Unknown;
    if (equivariant && size == 2) return Order::Unknown;  // so is whatever turns two around
    return invariant ? Order::Invariant : equivariant ? Order::Equivariant : Order::Neither;
  }

  void find_permutations(size_t count) {
    if (count == 0) return;
    // All operands together along d, as far as they have such a dimension.
    std::vector<SweepPoint> points;
    std::vector<Order> orders;
    bool together = true;
    for (const Sample& sample : samples_) {
      const Shape& shape = sample.operands[0].shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        std::vector<int64_t> dims;
        for (const TensorDesc& desc : sample.operands) {
          const bool has = d < desc.shape.size() && desc.shape[d] == shape[d];
          together &= has;
          dims.push_back(has && desc.domain != Domain::Sorted ? static_cast<int64_t>(d) : -1);
        }
        // What one of several operands does is asked below.
        const auto moved =
            std::count_if(dims.begin(), dims.end(), [](int64_t k) { return k >= 0; });
        if (shape[d] < 2 || (count > 1 && moved < 2)) continue;
        const Order order = order_along(sample, dims, shape[d]);
        if (order == Order::Unknown) continue;
        SweepPoint point{sample.attrs, static_cast<int64_t>(d), shape[d],
                         static_cast<int64_t>(shape.size())};
        count_from_front(point.attrs, op_.dim_attrs, shape.size());
        point.shape = shape;
        points.push_back(std::move(point));
        orders.push_back(order);
      }
    }
    add_order("permutation-equivariant", Order::Equivariant, points, orders, together, count);
    add_order("permutation-invariant", Order::Invariant, points, orders, together, count);
    if (count > 1) find_permutations_of_each(count);
  }

  void add_order(const std::string& name, Order wanted, std::vector<SweepPoint> points,
                 const std::vector<Order>& orders, bool together, size_t count) {
    int held = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      points[i].valid = orders[i] == wanted;
      held += points[i].valid;
    }
    if (held == 0) return;
    const auto condition = smallest_condition(points, op_.dim_attrs);
    if (!condition || condition->find('[') != std::string::npos) return;  // a list of calls
    std::string about = condition->empty() ? "every dimension d" : "dimension d";
    if (count > 1) about += together ? " of all operands" : " of the operands that have it";
    if (!condition->empty()) about += " if " + *condition;
    add(name, about, 2 * held);
  }

  // One operand alone: rows of a matrix product.
  void find_permutations_of_each(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::map<size_t, std::map<Order, int>> by_dim;
      for (const Sample& sample : samples_) {
        const Shape& shape = sample.operands[i].shape;
        if (sample.operands[i].domain == Domain::Sorted) continue;
        for (size_t d = 0; d < shape.size(); ++d) {
          if (shape[d] < 2) continue;
          std::vector<int64_t> dims(sample.operands.size(), -1);
          dims[i] = static_cast<int64_t>(d);
          const Order order = order_along(sample, dims, shape[d]);
          if (order != Order::Unknown) by_dim[d][order] += 2;
        }
      }
      for (const auto& [d, orders] : by_dim) {
        const auto& [order, tests] = *orders.begin();
        if (orders.size() != 1 || (order != Order::Equivariant && order != Order::Invariant))
          continue;
        add(order == Order::Equivariant ? "permutation-equivariant" : "permutation-invariant",
            fmt::format("dimension {} of operand {} alone", d, i), tests);
      }
    }
  }

  const Operator& op_;
  const std::vector<Sample>& samples_;
  uint64_t seed_;
  int linear_tests_ = 0;
  std::vector<MathProperty> found_;
};

// The shape that operands broadcast to, or nothing.
std::optional<Shape> broadcast_shape(const Sample& sample) {
  Shape shape;
  for (const TensorDesc& desc : sample.operands) {
    while (shape.size() < desc.shape.size()) shape.insert(shape.begin(), 1);
    const size_t skip = shape.size() - desc.shape.size();
    for (size_t d = 0; d < desc.shape.size(); ++d) {
      int64_t& size = shape[skip + d];
      if (size != desc.shape[d] && size != 1 && desc.shape[d] != 1) return std::nullopt;
      if (size == 1) size = desc.shape[d];
    }
  }
  return shape;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<int64_t> coordinates(int64_t index, const Shape& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; index /= shape[d]) at[d] = index % shape[d];
  return at;
}

// Another number of the same domain.
double other_number(double x, const TensorDesc& desc) {
  if (desc.dtype == DType::Bool || desc.domain == Domain::Bool) return x == 0 ? 1 : 0;
  if (desc.domain == Domain::Index)
    return std::fmod(x + 1, static_cast<double>(std::max<int64_t>(desc.limit, 1)));
  return has_fractions(desc.dtype) ? 2.5 * x + (x < 0 ? -0.7 : 0.7) : x + 1;
}

}  // namespace

bool Reach::only_own() const { return same_shape && all().empty(); }

std::set<int64_t> Reach::all() const {
  std::set<int64_t> all;
  for (const std::set<int64_t>& of_operand : dims) all.insert(of_operand.begin(), of_operand.end());
  return all;
}

Reach reach_of(const Operator& op, const Sample& sample, uint64_t seed) {
  Reach reach;
  reach.dims.resize(sample.operands.size());
  const std::optional<Shape> shape = broadcast_shape(sample);
  const std::vector<Array> operands = random_operands(sample, seed + 7);
  const auto results = try_run(op, sample, operands);
  if (!shape || !results || sample.operands.empty()) return reach;
  for (const Array& result : *results)
    if (result.shape() != *shape) return reach;
  reach.same_shape = true;
  constexpr int kChanges = 6;
  NumberStream random(seed + 11);
  for (size_t i = 0; i < operands.size(); ++i) {
    const int64_t count = operands[i].num_elements();
    const size_t parts = is_complex(operands[i].dtype()) ? 2 : 1;
    for (int change = 0; change < kChanges && count > 0; ++change) {
      const int64_t at = change == 0 ? 0 : change == 1 ? count - 1 : random.below(count);
      std::vector<double> numbers = to_doubles(operands[i]);
      double& number = numbers[static_cast<size_t>(at) * parts];
      number = other_number(number, sample.operands[i]);
      std::vector<Array> changed = operands;
      changed[i] = from_doubles(operands[i].dtype(), operands[i].shape(), numbers);
      const auto after = try_run(op, sample, changed);
      if (!after || after->size() != results->size()) continue;
      const std::vector<int64_t> from = coordinates(at, operands[i].shape());
      const size_t skip = shape->size() - from.size();
      for (size_t r = 0; r < results->size(); ++r) {
        if ((*after)[r].shape() != *shape) continue;
        const std::vector<double> x = to_doubles((*results)[r]), y = to_doubles((*after)[r]);
        const size_t width = is_complex((*results)[r].dtype()) ? 2 : 1;
        for (size_t k = 0; k < x.size(); ++k) {
          if (same_number(x[k], y[k])) continue;
          const std::vector<int64_t> to = coordinates(static_cast<int64_t>(k / width), *shape);
          for (size_t d = 0; d < from.size(); ++d)
            if (operands[i].shape()[d] != 1 && to[skip + d] != from[d])
              reach.dims[i].insert(static_cast<int64_t>(skip + d));
        }
      }
    }
  }
  return reach;
}

std::vector<MathProperty> find_properties(const Operator& op, const std::vector<Sample>& samples,
                                          uint64_t seed) {
  return PropertyFinder(op, samples, seed).find();
}

bool has_property(const std::vector<MathProperty>& properties, const std::string& name,
                  const std::string& about) {
  return std::any_of(properties.begin(), properties.end(), [&](const MathProperty& p) {
    return p.name == name && p.about.find(about) != std::string::npos;
  });
}

std::optional<std::vector<Array>> try_run(const Operator& op, const Sample& sample,
                                          const std::vector<Array>& operands) {
  try {
    return op.run(sample.attrs, operands);
  } catch (const BrokenOperator&) {
    throw;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::vector<Array> random_operands(const Sample& sample, uint64_t seed) {
  static const InputGenerator normal = default_generators()[1];
  NumberStream random(seed);
  std::vector<Array> operands;
  for (const TensorDesc& desc : sample.operands) {
    InputGenerator wide = normal;
    // Whole numbers of more than a few values.
    if (!has_fractions(desc.dtype))
      wide.fill = [&](const FillContext& context, NumberStream& r) {
        std::vector<double> numbers = normal.fill(context, r);
        for (double& x : numbers) x *= 10;
        return numbers;
      };
    operands.push_back(make_input(wide, desc, random, operands.size()));
  }
  return operands;
}

bool is_close(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  const double slack = 4 * tolerance_of(a.dtype()) * std::max(magnitude(a), magnitude(b));
  for (size_t i = 0; i < x.size(); ++i)
    if (!same_number(x[i], y[i]) && !(std::fabs(x[i] - y[i]) <= slack)) return false;
  return true;
}

Array permuted(const Array& array, size_t dim, const std::vector<int64_t>& order) {
  const std::vector<double> numbers = to_doubles(array);
  const Shape& shape = array.shape();
  size_t inner = is_complex(array.dtype()) ? 2 : 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  const size_t n = order.size();
  std::vector<double> result(numbers.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t outer = i / (inner * n), k = i / inner % n;
    result[i] = numbers[(outer * n + static_cast<size_t>(order[k])) * inner + i % inner];
  }
  return from_doubles(array.dtype(), shape, result);
}

}  // namespace cleave
