// Rules that hold by luck: of the numbers, of the sizes, or of the attributes that were tried.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"
#include "tests/support/rules_of.h"

namespace cleave {
namespace {

using Numbers = std::vector<double>;
using Rules = std::set<std::string>;

DiscoverOptions quick(uint64_t seed = 0) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  options.seed = seed;
  return options;
}

Rules rules_of(const Operator& op) { return rules_of(discover(op, quick())); }

// On the rows of a matrix; `f` gets the numbers and how many rows and columns there are.
template <typename F>
Operator on_matrix(std::string name, Shape shape, F f, DType dtype = DType::F64) {
  Operator op;
  op.name = std::move(name);
  op.samples = {{{{dtype, std::move(shape)}}, {}}};
  op.run = [f](const AttrMap& attrs, std::span<const Array> x) {
    Numbers numbers = to_doubles(x[0]);
    Shape shape = x[0].shape();
    f(numbers, shape, attrs);
    return std::vector{from_doubles(x[0].dtype(), shape, numbers)};
  };
  return op;
}

void add_one(Numbers& x) {
  for (double& v : x) v += 1;
}

// Adds one to all if `property` is true of the whole operand.
template <typename F>
Operator adds_if(std::string name, F property, DType dtype = DType::F64) {
  return on_matrix(
      std::move(name), {6, 4},
      [property](Numbers& x, const Shape& shape, const AttrMap&) {
        if (property(x, shape)) add_one(x);
      },
      dtype);
}

template <typename F>
bool any_of(const Numbers& x, F f) {
  return std::any_of(x.begin(), x.end(), f);
}

void expect_no_shard_rule(const Operator& op) {
  for (uint64_t seed = 0; seed < 5; ++seed)
    for (const Decision& d : decide(op, op.samples[0], quick(seed)))
      for (const char* rule : {"S(0) -> S(0)", "S(1) -> S(1)"}) {
        if (to_string(d.combination) != rule) continue;
        EXPECT_TRUE(d.worlds.empty()) << op.name << " " << rule << " seed " << seed << " on "
                                      << testing::PrintToString(d.worlds) << " devices";
      }
}

// A shard may have the property, or lack it, where the whole operand does not.
TEST(Luck, OfAPropertyThatAShardHasAlone) {
  expect_no_shard_rule(adds_if("all_positive", [](const Numbers& x, const Shape&) {
    return !any_of(x, [](double v) { return !(v > 0); });
  }));
  expect_no_shard_rule(adds_if("negative_zero", [](const Numbers& x, const Shape&) {
    return any_of(x, [](double v) { return v == 0 && std::signbit(v); });
  }));
  expect_no_shard_rule(adds_if("denormal", [](const Numbers& x, const Shape&) {
    return any_of(x, [](double v) { return v != 0 && std::fabs(v) < 1e-307; });
  }));
  expect_no_shard_rule(adds_if("a_half", [](const Numbers& x, const Shape&) {
    return any_of(x, [](double v) { return v == 0.5; });
  }));
  expect_no_shard_rule(adds_if(
      "high_bit",
      [](const Numbers& x, const Shape&) { return any_of(x, [](double v) { return v > 1e8; }); },
      DType::I32));
  expect_no_shard_rule(adds_if("unlike_the_last", [](const Numbers& x, const Shape& shape) {
    return x.size() > 1 && shape[1] > 0 && x.front() < x.back();
  }));
}

TEST(Luck, OfPartsThatAreNeverSmall) {
  const Operator op = adds_if("specks", [](const Numbers& x, const Shape&) {
    return any_of(x, [](double v) { return v != 0 && std::fabs(v) < 1e-20; });
  });
  EXPECT_EQ(rules_of(op), (Rules{"R -> R"}));
}

// NaN is also an infinity times zero.
TEST(Luck, OfProductsThatAreNoNumber) {
  Operator op;
  op.name = "isnan";
  op.samples = {{{{DType::F64, {6, 4}}}, {}}};
  op.run = [](const AttrMap&, std::span<const Array> x) {
    Numbers numbers = to_doubles(x[0]);
    for (double& v : numbers) v = std::isnan(v);
    return std::vector{from_doubles(DType::Bool, x[0].shape(), numbers)};
  };
  EXPECT_EQ(rules_of(op),
            (Rules{"R -> R", "S(d) -> S(d)", "P(max) -> P(max)", "P(min) -> P(max)"}));
}

// Every second row: shards of 4 and of 2 begin at such a row, those of 1 do not.
TEST(Luck, OfSizesThatAreEven) {
  const Operator op = on_matrix("even_rows", {8, 3}, [](Numbers& x, Shape& shape, const AttrMap&) {
    Numbers kept;
    for (int64_t i = 0; i < shape[0]; i += 2)
      for (int64_t j = 0; j < shape[1]; ++j)
        kept.push_back(x[static_cast<size_t>(i * shape[1] + j)]);
    x = kept;
    shape[0] = (shape[0] + 1) / 2;
  });
  const Rules rules = rules_of(op);
  EXPECT_TRUE(rules.contains("S(0) -> S(0) WHEN size(0) % (2 * w) == 0"))
      << testing::PrintToString(rules);
}

TEST(Luck, OfShardsThatAreLarge) {
  const Operator op = on_matrix("few_rows", {12, 3}, [](Numbers& x, Shape& shape, const AttrMap&) {
    if (shape[0] < 3) add_one(x);
  });
  const Rules rules = rules_of(op);
  EXPECT_FALSE(rules.contains("S(0) -> S(0)") || rules.contains("S(d) -> S(d)"))
      << testing::PrintToString(rules);
}

Operator power() {
  Operator op = on_matrix("power", {5, 3}, [](Numbers& x, Shape&, const AttrMap& attrs) {
    for (double& v : x) v = std::pow(v, static_cast<double>(std::get<int64_t>(attrs.at("p"))));
  });
  const Sample call = op.samples[0];
  op.samples.clear();
  for (int64_t p : {1, 2, 3, 4}) {
    op.samples.push_back(call);
    op.samples.back().attrs = {{"p", p}};
  }
  return op;
}

// What was not tried is not promised.
TEST(Luck, OfAttributesThatWereTried) {
  const Rules rules = rules_of(power());
  EXPECT_TRUE(rules.contains("P(max) -> P(max) WHEN p == 1 or p == 3"))
      << testing::PrintToString(rules);
  Operator fill = on_matrix("fill", {5, 3}, [](Numbers& x, Shape& shape, const AttrMap& attrs) {
    for (size_t i = 0; i < x.size(); i += static_cast<size_t>(shape[1]))
      x[i] = std::get<double>(attrs.at("value"));
  });
  fill.samples.push_back(fill.samples[0]);
  fill.samples[0].attrs = {{"value", 0.0}};
  fill.samples[1].attrs = {{"value", 3.0}};
  EXPECT_TRUE(rules_of(fill).contains("P(sum) -> P(sum) WHEN value == 0"));
}

// A sum over the last of three dimensions: nobody has asked about four.
TEST(Luck, OfTheRankThatWasTried) {
  const Operator op =
      on_matrix("row_shares", {5, 2, 4}, [](Numbers& x, Shape& shape, const AttrMap&) {
        const auto n = static_cast<size_t>(shape[2]);
        for (size_t begin = 0; n && begin < x.size(); begin += n) {
          double sum = 0;
          for (size_t i = 0; i < n; ++i) sum += x[begin + i];
          for (size_t i = 0; i < n; ++i) x[begin + i] -= sum;
        }
      });
  const Rules rules = rules_of(op);
  EXPECT_TRUE(rules.contains("S(0) -> S(0)") && rules.contains("S(1) -> S(1)"))
      << testing::PrintToString(rules);
}

// Windows of k along the last dimension; no row may be missing altogether.
TEST(Luck, OfOneConditionForAllDimensions) {
  Operator op = on_matrix("pool", {3, 12}, [](Numbers& x, Shape& shape, const AttrMap& attrs) {
    const int64_t k = std::get<int64_t>(attrs.at("k")), n = shape[1];
    if (shape[0] == 0 || n < k) throw_user("pool: nothing to do");
    Numbers largest;
    for (int64_t r = 0; r < shape[0]; ++r)
      for (int64_t i = 0; i + k <= n; i += k) {
        double m = x[static_cast<size_t>(r * n + i)];
        for (int64_t j = 1; j < k; ++j) m = std::fmax(m, x[static_cast<size_t>(r * n + i + j)]);
        largest.push_back(m);
      }
    x = largest;
    shape[1] = n / k;
  });
  op.samples.push_back(op.samples[0]);
  op.samples[0].attrs = {{"k", int64_t{2}}};
  op.samples[1].attrs = {{"k", int64_t{3}}};
  const Rules rules = rules_of(op);
  EXPECT_TRUE(rules.contains("S(0) -> S(0) WHEN no shard of 0 is empty"))
      << testing::PrintToString(rules);
  EXPECT_TRUE(rules.contains("S(1) -> S(1) WHEN size(1) % (k * w) == 0"))
      << testing::PrintToString(rules);
}

}  // namespace
}  // namespace cleave
