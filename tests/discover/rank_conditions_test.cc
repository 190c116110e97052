// Conditions on dimensions that hold at every rank, and the code that is made from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/condition_value.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/more_samples.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using testing::Not;

// The largest absolute number along `dim`, which may be negative; without that dimension unless
// keepdim says so.
Operator largest_along(std::vector<Sample> samples) {
  Operator op;
  op.name = "largest";
  op.samples = std::move(samples);
  op.dim_attrs = {"dim"};
  op.run = [](const AttrMap& attrs, std::span<const Array> x) {
    const Shape shape = x[0].shape();
    auto dim = std::get<int64_t>(attrs.at("dim"));
    const auto rank = static_cast<int64_t>(shape.size());
    if (dim < -rank || dim >= rank) throw_user("no dimension {}", dim);
    if (dim < 0) dim += rank;
    int64_t outer = 1, inner = 1;
    for (int64_t d = 0; d < dim; ++d) outer *= shape[static_cast<size_t>(d)];
    for (int64_t d = dim + 1; d < rank; ++d) inner *= shape[static_cast<size_t>(d)];
    const int64_t n = shape[static_cast<size_t>(dim)];
    if (n == 0) throw_user("nothing to take the largest of");
    const std::vector<double> in = to_doubles(x[0]);
    std::vector<double> out(static_cast<size_t>(outer * inner), 0.0);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t i = 0; i < inner; ++i) {
          double& best = out[static_cast<size_t>(o * inner + i)];
          const double next = std::abs(in[static_cast<size_t>((o * n + k) * inner + i)]);
          if (next != next || next > best) best = next;
        }
    Shape result = shape;
    result.erase(result.begin() + dim);
    return std::vector{from_doubles(DType::F64, result, out)};
  };
  return op;
}

Sample call(Shape shape, int64_t dim) { return {{{DType::F64, std::move(shape)}}, {{"dim", dim}}}; }

std::set<std::string> sharded_rules(const Operator& op) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  std::set<std::string> rules;
  for (const DiscoveredRule& rule : discover(op, options).rules)
    if (!rule.implied && rule.placement.kind == PlacePattern::Kind::ShardOfD)
      rules.insert(to_string(rule));
  return rules;
}

const std::set<std::string> kBeforeAndAfter = {"S(d) -> S(d) WHEN d < dim",
                                               "S(d) -> S(d-1) WHEN d > dim"};

TEST(RankConditions, TwoDimensionsTellBeforeFromAfter) {
  EXPECT_EQ(sharded_rules(largest_along({call({5, 3}, 0), call({5, 3}, 1)})), kBeforeAndAfter);
}

TEST(RankConditions, DimensionsFromTheEnd) {
  EXPECT_EQ(sharded_rules(largest_along({call({5, 3}, -1), call({5, 3}, -2)})), kBeforeAndAfter);
  EXPECT_EQ(sharded_rules(largest_along({call({5, 3}, -1), call({5, 3, 4}, -1), call({5, 3}, 0)})),
            kBeforeAndAfter);
}

// One value of dim tells nothing about others: what promises least is said.
TEST(RankConditions, OneDimensionAlone) {
  EXPECT_EQ(sharded_rules(largest_along({call({5, 3, 4}, 0)})),
            std::set<std::string>{"S(d) -> S(d-1) WHEN d > dim"});
}

TEST(RankConditions, CallsOfOtherRanksAreAdded) {
  Operator op = largest_along({call({5, 3}, -1)});
  add_samples_of_other_ranks(op);
  std::set<std::string> texts;
  for (const Sample& sample : op.samples) texts.insert(to_string(sample));
  EXPECT_EQ(texts, (std::set<std::string>{"5x3 f64; dim=-1", "5x3x3 f64; dim=0", "5x3x3 f64; dim=1",
                                          "5x3x3 f64; dim=2"}));
  EXPECT_EQ(sharded_rules(op), kBeforeAndAfter);
  // Enough as it is.
  Operator full = largest_along({call({5, 3, 4}, 0), call({5, 3, 4}, 2)});
  add_samples_of_other_ranks(full);
  EXPECT_EQ(full.samples.size(), 2u);
}

// An empty shard has no largest number, and so the number of devices matters.
TEST(RankConditions, EmptyShards) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  std::set<std::string> rules;
  for (const DiscoveredRule& rule :
       discover(largest_along({call({5, 3}, 0), call({5, 3}, 1), call({4, 6}, 0)}), options).rules)
    rules.insert(to_string(rule));
  EXPECT_TRUE(rules.contains("S(d) -> P(max) WHEN d == dim and no shard of d is empty"))
      << testing::PrintToString(rules);
}

// The largest absolute number over a list of dimensions, which go if keepdim does not say
// otherwise.
Operator largest_over(std::vector<Sample> samples) {
  Operator op;
  op.name = "largest_over";
  op.samples = std::move(samples);
  op.dim_attrs = {"dims"};
  op.run = [](const AttrMap& attrs, std::span<const Array> x) {
    const Shape shape = x[0].shape();
    const auto rank = static_cast<int64_t>(shape.size());
    std::set<int64_t> gone;
    for (int64_t dim : std::get<std::vector<int64_t>>(attrs.at("dims")))
      gone.insert(dim < 0 ? dim + rank : dim);
    const bool keep = std::get<bool>(attrs.at("keepdim"));
    Shape kept, result;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t size = shape[static_cast<size_t>(d)];
      if (size == 0 && gone.contains(d)) throw_user("nothing to take the largest of");
      kept.push_back(gone.contains(d) ? 1 : size);
      if (keep || !gone.contains(d)) result.push_back(kept.back());
    }
    const std::vector<double> in = to_doubles(x[0]);
    std::vector<double> out(static_cast<size_t>(num_elements(kept)), 0.0);
    for (size_t i = 0; i < in.size(); ++i) {
      int64_t left = static_cast<int64_t>(i), at = 0, stride = 1;
      for (int64_t d = rank; d-- > 0;) {
        const auto k = static_cast<size_t>(d);
        at += gone.contains(d) ? 0 : stride * (left % shape[k]);
        left /= shape[k];
        stride *= kept[k];
      }
      double& best = out[static_cast<size_t>(at)];
      const double next = std::abs(in[i]);
      if (next != next || next > best) best = next;
    }
    return std::vector{from_doubles(DType::F64, result, out)};
  };
  return op;
}

// How far a dimension moves is how many before it go, and it is nowhere if it goes itself.
TEST(RankConditions, SeveralDimensionsAtOnce) {
  std::vector<Sample> samples;
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{0}, {1}, {-1}, {0, 1}, {0, 2}, {1, 2}})
    for (bool keep : {false, true})
      samples.push_back({{{DType::F64, {5, 5, 5}}}, {{"dims", dims}, {"keepdim", keep}}});
  const Operator op = largest_over(samples);
  DiscoverOptions options;
  options.shrink_witnesses = false;
  const Discovery found = discover(op, options);
  for (const DiscoveredRule& rule : found.rules)
    EXPECT_THAT(rule.condition, Not(HasSubstr("those listed"))) << to_string(rule);
  // Every call on its own: which rules claim what was found, and nothing else.
  for (const SampleDecisions& decided : found.samples) {
    const auto& dims = std::get<std::vector<int64_t>>(decided.sample.attrs.at("dims"));
    const bool keep = std::get<bool>(decided.sample.attrs.at("keepdim"));
    AttrMap attrs = decided.sample.attrs;
    count_from_front(attrs, {"dims"}, 3);
    const auto& front = std::get<std::vector<int64_t>>(attrs.at("dims"));
    for (int64_t d = 0; d < 3; ++d) {
      const bool goes = std::ranges::find(front, d) != front.end();
      const auto before = std::ranges::count_if(front, [&](int64_t k) { return k < d; });
      std::set<int64_t> claimed, right;
      if (!goes) right.insert(keep ? d : d - before);
      for (const DiscoveredRule& rule : found.rules) {
        if (rule.placement.kind != PlacePattern::Kind::ShardOfD &&
            rule.placement.kind != PlacePattern::Kind::Shard)
          continue;
        const bool named = rule.operands[0].kind == PlacePattern::Kind::Shard;
        if (named && rule.operands[0].dim != d) continue;
        const auto holds =
            condition_holds(rule.condition, {attrs, d, decided.sample.operands[0].shape});
        ASSERT_TRUE(holds.has_value()) << to_string(rule);
        if (*holds) claimed.insert(named ? rule.placement.dim : d + rule.placement.dim);
      }
      EXPECT_EQ(claimed, right) << testing::PrintToString(dims) << " keepdim " << keep << " d "
                                << d;
    }
  }
  EXPECT_THAT(emit_dtensor(found), HasSubstr("sum(k < "));
}

// Four rows on three devices are 2, 2 and 0: whether it is the empty shard or the unequal ones that
// an operator refuses shows on five.
TEST(RankConditions, EmptyShardsAreNotUnequalOnes) {
  Operator op;
  op.name = "some_rows";
  op.samples = {{{{DType::F64, {4, 4}}}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    if (x[0].shape()[1] == 0) throw_user("no columns");
    return std::vector{x[0]};
  };
  std::set<std::string> rules;
  for (const DiscoveredRule& rule : discover(op, {}).rules) rules.insert(to_string(rule));
  EXPECT_THAT(rules, testing::Contains("S(0) -> S(0)"));
  EXPECT_THAT(rules, testing::Contains("S(1) -> S(1) WHEN no shard of 1 is empty"));
}

TEST(RankConditions, CodeForDTensorCountsFromTheFront) {
  const std::string code =
      emit_dtensor(discover(largest_along({call({5, 3}, 0), call({5, 3}, 1)}), {}));
  EXPECT_THAT(code, HasSubstr("if d < dim:"));
  EXPECT_THAT(code, HasSubstr("if d > dim:"));
  EXPECT_THAT(code, HasSubstr("% len(args_schema[0].shape)"));
  EXPECT_THAT(code, Not(HasSubstr("d != dim")));
}

// Two calls of one shape with other rules: the code asks for the attribute.
TEST(RankConditions, CodeByCallPicksByAttributes) {
  Operator op;
  op.name = "roll_or_keep";
  for (const char* mode : {"keep", "turn", "sort"})
    op.samples.push_back(
        {{{DType::F64, {4, 4}}}, {{"mode", std::string(mode)}, {"k", int64_t{1}}}});
  op.run = [](const AttrMap& attrs, std::span<const Array> x) {
    const std::string mode = std::get<std::string>(attrs.at("mode"));
    if (mode == "keep") return std::vector{x[0]};
    if (mode == "turn") return std::vector{x[0].transpose({1, 0}).contiguous()};
    std::vector<double> numbers = to_doubles(x[0]);
    std::sort(numbers.begin(), numbers.end(), [](double a, double b) { return a < b; });
    return std::vector{from_doubles(DType::F64, x[0].shape(), numbers)};
  };
  DiscoverOptions options;
  options.shrink_witnesses = false;
  options.generators.resize(15);  // no NaN: it has no place in an order
  const std::string code = emit_cleave(discover(op, options));
  for (const char* mode : {"keep", "turn"})
    EXPECT_THAT(code, HasSubstr(std::string("\"") + mode + "\""));
}

// The k-th smallest of k numbers is the largest, whichever sizes a sweep happened to have.
TEST(Conditions, ANumberAgainstTheSizeOfADimension) {
  std::vector<SweepPoint> points;
  for (int64_t dim : {0, 1})
    for (int64_t k : {1, 3, 5}) {
      SweepPoint point;
      point.attrs = {{"dim", dim}, {"k", k}};
      point.shape = {5, 3};
      point.valid = k == point.shape[static_cast<size_t>(dim)];
      points.push_back(point);
    }
  EXPECT_EQ(smallest_condition(points, {"dim"}), "k == size(dim)");
}

// Points that are not there are no reason to promise more.
TEST(Conditions, TakesTheTermThatPromisesLess) {
  std::vector<SweepPoint> points;
  for (int64_t d = 0; d < 3; ++d) points.push_back({{{"dim", int64_t{0}}}, d, 4, 3, d > 0});
  EXPECT_EQ(smallest_condition(points, {"dim"}), "d > dim");
}

// Eight channels over two devices: shards of four, which are multiples of two as well.
TEST(RankConditions, OfTwoDivisorsTheLargerPromisesLess) {
  std::vector<SweepPoint> points;
  for (auto [w, valid] : {std::pair{2, true}, {3, false}, {8, false}})
    points.push_back({{}, 1, 8, 4, valid, {2, 8, 3, 3}, w});
  EXPECT_EQ(smallest_condition(points, {}), "size(d) % (4 * w) == 0");
}

}  // namespace
}  // namespace cleave
