// Conditions that speak of shards, of values that were tried with some dimensions only, and the
// sentences that justify rules.
#include "cleave/discover/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/discover/analysis.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/justify.h"
#include "tests/support/rules_of.h"

namespace cleave {
namespace {

using testing::Contains;
using Kind = PlacePattern::Kind;
using Numbers = std::vector<double>;

TensorDesc f64(Shape shape) { return {DType::F64, std::move(shape)}; }

std::set<std::string> quick_rules_of(const Operator& op) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  return rules_of(discover(op, options));
}

// d, dim, keepdim, all sizes and numbers of devices; `valid` decides.
template <typename F>
std::vector<SweepPoint> sweep(F valid) {
  std::vector<SweepPoint> points;
  for (int64_t size : {4, 5, 6})
    for (int64_t dim = 0; dim < 3; ++dim)
      for (int64_t d = 0; d < 3; ++d)
        for (bool keepdim : {false, true})
          for (int w : {2, 3, 4}) {
            SweepPoint point{{{"dim", dim}, {"keepdim", keepdim}}, d, size, 3};
            point.shape = {size, size, size};
            point.w = w;
            point.valid = valid(d, dim, keepdim, size, w);
            points.push_back(point);
          }
  return points;
}

bool no_shard_is_empty(int64_t size, int w) { return chunk_of(size, w, w - 1).size > 0; }

TEST(ShardConditions, BesideThreeOtherTerms) {
  const auto points = sweep([](int64_t d, int64_t dim, bool keepdim, int64_t size, int w) {
    return d != dim && (d < dim || keepdim) && no_shard_is_empty(size, w);
  });
  EXPECT_EQ(smallest_condition(points, {"dim"}),
            "d != dim and (d < dim or keepdim) and no shard of d is empty");
  // What has alternatives is in parentheses.
  const auto either = sweep([](int64_t d, int64_t dim, bool keepdim, int64_t size, int w) {
    return (d < dim || (keepdim && d != 1)) && size % w == 0;
  });
  const auto condition = smallest_condition(either, {"dim"});
  ASSERT_TRUE(condition);
  EXPECT_TRUE(condition->starts_with("(") && condition->ends_with(") and size(d) % w == 0"))
      << *condition;
}

TEST(ShardConditions, TheNumberOfDevicesThatDecidesIsNotLeftOut) {
  // Right on two devices alone, which no condition says.
  const auto points =
      sweep([](int64_t d, int64_t dim, bool, int64_t, int w) { return d != dim && w == 2; });
  EXPECT_EQ(smallest_condition(points, {"dim"}), std::nullopt);
}

TEST(ShardConditions, ShardsOfOneElement) {
  auto points_of = [](std::vector<std::pair<int64_t, int>> tried, auto valid) {
    std::vector<SweepPoint> points;
    for (auto [size, w] : tried) {
      SweepPoint point{{}, 0, size, 1, valid(size, w)};
      point.w = w;
      points.push_back(point);
    }
    return points;
  };
  auto even = [](int64_t size, int w) { return size % w == 0; };
  auto one = [](int64_t size, int w) { return size == w; };
  // No larger shards were tried: what promises less is said.
  EXPECT_EQ(smallest_condition(points_of({{4, 2}, {4, 3}, {4, 4}}, one), {}), "size(d) == w");
  EXPECT_EQ(smallest_condition(points_of({{3, 2}, {3, 3}, {3, 4}}, even), {}), "size(d) == w");
  EXPECT_EQ(smallest_condition(points_of({{4, 2}, {4, 3}, {4, 4}}, even), {}), "size(d) % w == 0");
}

TEST(ShardConditions, AreToldFromOthersByWords) {
  for (const char* text : {"size(d) == w", "size(2) == w and d != dim", "size(d) % w == 0",
                           "size(1) % (k * w) == 0", "no shard of d is empty"})
    EXPECT_TRUE(depends_on_world(text)) << text;
  for (const char* text : {"window == 0", "d < window", "not sharded", "unshard == 2"})
    EXPECT_FALSE(depends_on_world(text)) << text;
  EXPECT_TRUE(mentions_word("not keepdim and d != dim", "dim"));
  EXPECT_FALSE(mentions_word("not keepdim", "dim"));
  EXPECT_FALSE(mentions_word("no shard of d is empty", "n"));
}

// Lists of one dimension do not tell what becomes of a d that is listed behind another.
TEST(ListedDimensions, AreNoneOfThem) {
  std::vector<SweepPoint> points;
  for (int64_t dim = 0; dim < 3; ++dim)
    for (int64_t d = 0; d < 3; ++d)
      points.push_back({{{"dim", std::vector<int64_t>{dim}}}, d, 4, 3, d > dim});
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d not in dim and below(d, dim) == 1");
}

// At rank 1 there is no other dimension: what its values say is about that one.
TEST(TriedDimensions, AreNamed) {
  std::vector<SweepPoint> points;
  for (int64_t dim : {0, 1})
    for (int64_t d : {0, 1})
      for (int64_t p : {1, 2, 3}) {
        if (d != dim && p == 3) continue;  // was not tried
        SweepPoint point{{{"dim", dim}, {"p", p}}, d, 4, 2, d == dim && p == 3};
        points.push_back(point);
      }
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d == dim and p == 3");
  for (SweepPoint& point : points) point.valid = std::get<int64_t>(point.attrs.at("p")) == 2;
  EXPECT_EQ(smallest_condition(points, {"dim"}), "p == 2");
  // Alternatives stay together.
  for (SweepPoint& point : points)
    point.valid = std::get<int64_t>(point.attrs.at("p")) > 1 && point.d == 1 &&
                  std::get<int64_t>(point.attrs.at("dim")) == 1;
  std::erase_if(points, [](const SweepPoint& point) {
    return !(point.d == 1 && std::get<int64_t>(point.attrs.at("dim")) == 1);
  });
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d == dim and (p == 2 or p == 3)");
}

// The largest number of both operands. A shard of one element broadcasts against all of the other
// operand, which is right; two shards of two do not go together with it.
Operator largest_of_both() {
  Operator op;
  op.name = "largest_of_both";
  op.samples = {{{f64({4}), f64({4})}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    const Numbers a = to_doubles(x[0]), b = to_doubles(x[1]);
    if (a.size() != b.size() && a.size() != 1 && b.size() != 1) throw_user("shapes differ");
    if (a.empty() || b.empty()) throw_user("nothing to take the largest of");
    double best = a[0];
    for (const Numbers& numbers : {a, b})
      for (double v : numbers)
        if (v != v || v > best) best = v;
    return std::vector{from_doubles(DType::F64, {}, Numbers{best})};
  };
  return op;
}

TEST(ShardConditions, ShardsOfOneElementThatBroadcast) {
  const auto rules = quick_rules_of(largest_of_both());
  EXPECT_THAT(rules, Contains("S(0), R -> P(max) WHEN size(0) == w"));
  EXPECT_THAT(rules, Contains("S(0), S(0) -> P(max) WHEN no shard of 0 is empty"));
  EXPECT_THAT(rules, Contains("P(max), P(max) -> P(max)"));
}

// The mean along a dimension whose sizes the numbers of devices divide into shards of one only:
// a call with one more tells that larger shards are right too.
TEST(ShardConditions, LargerShardsAreTried) {
  Operator op;
  op.name = "mean";
  op.samples = {{{f64({3, 3})}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    const Numbers a = to_doubles(x[0]);
    double sum = 0;
    for (double v : a) sum += v;
    return std::vector{from_doubles(DType::F64, {}, Numbers{sum / static_cast<double>(a.size())})};
  };
  DiscoverOptions options;
  options.shrink_witnesses = false;
  options.worlds = {2, 3};
  const Discovery found = discover(op, options);
  EXPECT_GT(found.samples.size(), 1u);
  EXPECT_THAT(rules_of(found), Contains("S(d) -> P(avg) WHEN size(d) % w == 0"));
}

// Of a value that was never tried where the condition is true, nothing is promised.
TEST(ShardConditions, ValuesThatWereNotTriedAreNoPartOfIt) {
  std::vector<SweepPoint> points;
  auto add = [&](int64_t d, int64_t size, const char* mode, bool valid) {
    SweepPoint point;
    point.attrs = {{"mode", std::string(mode)}};
    point.d = d;
    point.size_of_d = size;
    point.rank = 2;
    point.shape = {size, size};
    point.w = 2;
    point.valid = valid;
    points.push_back(std::move(point));
  };
  add(0, 8, "mean", true);
  add(0, 6, "mean", false);  // by some accident
  add(1, 6, "mean", true);
  add(1, 5, "mean", false);
  add(0, 5, "none", false);
  add(1, 6, "none", false);
  const auto condition = sufficient_condition(points, {});
  ASSERT_TRUE(condition);
  EXPECT_THAT(*condition, testing::HasSubstr("mode == 'mean'"));
}

// ---- why rules hold

const PlacePattern kReplicate{};
const PlacePattern kShard{Kind::ShardOfD, ReduceOp::Sum, 0};
PlacePattern part(ReduceOp op) { return {Kind::Partial, op, 0}; }

TEST(Justify, Sentences) {
  const PlacePattern sum = part(ReduceOp::Sum), max = part(ReduceOp::Max),
                     min = part(ReduceOp::Min), prod = part(ReduceOp::Prod);
  EXPECT_EQ(justify({kReplicate, sum}, sum, false), "linear in operand 1");
  EXPECT_EQ(justify({sum, sum}, sum, false), "additive in the partial operands");
  EXPECT_EQ(justify({max}, max, false), "monotone in operand 0");
  EXPECT_EQ(justify({max}, min, false), "antitone in operand 0");
  EXPECT_EQ(justify({sum}, prod, false), "turns sums into products");
  EXPECT_EQ(justify({prod}, sum, false), "turns products into sums");
  EXPECT_EQ(justify({sum}, max, false), "holds for every decomposition tested");
  EXPECT_EQ(justify({kShard, sum}, max, true),
            "reduction (max) over the sharded dimension; does not depend on operand 1");
  EXPECT_EQ(justify({kShard, sum}, prod, false), "turns sums into products");
  EXPECT_EQ(justify({kShard, sum}, kShard, true), "batch dimension; does not depend on operand 1");
  EXPECT_EQ(justify({sum, max}, sum, false), "does not depend on some of the partial operands");
}

std::string why(const Operator& op, const std::string& rule) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  for (const DiscoveredRule& found : discover(op, options).rules)
    if (to_string(found) == rule) return found.justification;
  return "no such rule";
}

// exp(b) * prod(a): an operand that matters; prod(a): one that does not.
TEST(Justify, AnOperandThatDoesNotMatterIsToldFromOneThatDoes) {
  auto product = [](bool second) {
    Operator op;
    op.name = "product";
    op.samples = {{{f64({6}), f64({})}, {}}};
    op.run = [second](const AttrMap&, std::span<const Array> x) {
      double all = 1;
      for (double v : to_doubles(x[0])) all *= v;
      return std::vector{from_doubles(DType::F64, {},
                                      Numbers{second ? all * std::exp(to_doubles(x[1])[0]) : all})};
    };
    return op;
  };
  EXPECT_EQ(why(product(true), "S(0), P(sum) -> P(prod)"), "turns sums into products");
  EXPECT_EQ(why(product(false), "S(0), P(sum) -> P(prod)"),
            "reduction (prod) over the sharded dimension; does not depend on operand 1");
}

// ---- properties

// Random numbers are neither zero nor NaN, and no two of them are equal.
TEST(Properties, OperandsThatUnusualNumbersShow) {
  auto truth_of = [](size_t operands, auto f) {
    Operator op;
    op.name = "truth";
    op.samples = {{std::vector<TensorDesc>(operands, f64({5, 4})), {}}};
    op.run = [f](const AttrMap&, std::span<const Array> x) {
      Numbers numbers = to_doubles(x[0]);
      const Numbers last = to_doubles(x.back());
      if (numbers.size() != last.size()) throw_user("shapes differ");
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = f(numbers[i], last[i]) ? 1 : 0;
      return std::vector{from_doubles(DType::Bool, x[0].shape(), numbers)};
    };
    return op;
  };
  auto is_pointwise = [](const Operator& op) {
    const Analysis analysis = analyze_operator(op);
    EXPECT_EQ(name(analysis.category), "pointwise");
    return !has_property(analysis.properties, "independent", "operand 0");
  };
  EXPECT_TRUE(is_pointwise(truth_of(1, [](double x, double) { return x != 0; })));
  EXPECT_TRUE(is_pointwise(truth_of(1, [](double x, double) { return std::isnan(x); })));
  EXPECT_TRUE(is_pointwise(truth_of(1, [](double x, double) { return std::isinf(x); })));
  EXPECT_TRUE(is_pointwise(truth_of(2, [](double x, double y) { return x == y; })));
  Operator op = truth_of(1, [](double, double) { return true; });
  EXPECT_TRUE(has_property(analyze_operator(op).properties, "independent", "operand 0"));
}

// Turning two rows around is all that can be done to them, so that a turn by one looks like any
// order.
TEST(Properties, TwoRowsSayNothingAboutOrder) {
  auto turned = [](Shape shape) {
    Operator op;
    op.name = "turned";
    op.samples = {{{f64(std::move(shape))}, {}}};
    op.run = [](const AttrMap&, std::span<const Array> x) {
      Numbers numbers = to_doubles(x[0]);
      std::rotate(numbers.begin(), numbers.begin() + 1, numbers.end());
      return std::vector{from_doubles(DType::F64, x[0].shape(), numbers)};
    };
    return analyze_operator(op).properties;
  };
  EXPECT_FALSE(has_property(turned({2}), "permutation-equivariant", ""));
  EXPECT_FALSE(has_property(turned({5}), "permutation-equivariant", ""));
}

}  // namespace
}  // namespace cleave
