// What discovery says an operator is, before any placement is tried.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cleave/core/error.h"
#include "cleave/discover/analysis.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"

namespace cleave {
namespace {

Analysis analysis_of(const std::string& op) { return analyze_operator(*find_operator(op)); }

TEST(Analysis, Categories) {
  const std::map<std::string, std::string> truth = {
      {"relu", "pointwise"},     {"add", "pointwise"},    {"where", "pointwise"},
      {"cast", "pointwise"},     {"sum", "reduction"},    {"mean", "reduction"},
      {"amax", "reduction"},     {"argmax", "reduction"}, {"var", "reduction"},
      {"softmax", "cross-dim"},  {"cumsum", "cross-dim"}, {"cross", "cross-dim"},
      {"matmul", "matmul-like"}, {"bmm", "matmul-like"},  {"transpose", "view"},
      {"flip", "view"},          {"sort", "sort"},        {"bucketize", "sort"},
      {"embedding", "index"},
  };
  for (const auto& [op, category] : truth)
    EXPECT_EQ(name(analysis_of(op).category), category) << op;
}

TEST(Analysis, Properties) {
  struct Row {
    const char *op, *name, *about;
    bool holds;
  };
  const Row rows[] = {
      {"cross", "bilinear", "operands 0 and 1", true},
      {"cross", "antisymmetric", "", true},
      {"cross", "commutative", "", false},
      {"cross", "permutation-equivariant", "d != dim", true},
      {"add", "commutative", "", true},
      {"add", "bilinear", "", false},
      {"add", "linear", "together", true},
      {"mul", "bilinear", "", true},
      {"matmul", "bilinear", "", true},
      {"matmul", "permutation-equivariant", "dimension 0 of operand 0 alone", true},
      {"neg", "linear", "operand 0", true},
      {"neg", "monotone", "decreasing", true},
      {"relu", "linear", "", false},
      {"relu", "monotone", "increasing", true},
      {"relu", "idempotent", "", true},
      {"relu", "positively homogeneous of degree 1", "operand 0", true},
      {"square", "homogeneous of degree 2", "operand 0", true},
      {"square", "monotone", "", false},
      {"exp", "elementwise", "", true},
      {"exp", "linear", "", false},
      {"sum", "permutation-invariant", "d == dim", true},
      {"sum", "permutation-equivariant", "d != dim", true},
      {"softmax", "elementwise", "", false},
      {"softmax", "permutation-equivariant", "every dimension", true},
      {"sort", "idempotent", "", true},
      {"sort", "permutation-invariant", "d == dim", true},
      {"cumsum", "linear", "operand 0", true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(has_property(analysis_of(row.op).properties, row.name, row.about), row.holds)
        << row.op << ": " << row.name << " " << row.about << "\n"
        << to_string(analysis_of(row.op));
}

TEST(Analysis, SomeFollowFromTheDefinition) {
  for (const MathProperty& property : analysis_of("matmul").properties)
    EXPECT_EQ(property.how == "proved",
              property.name == "linear" && property.about.starts_with("operand"))
        << property.name;
}

TEST(Analysis, Parameters) {
  const Analysis sum = analysis_of("sum");
  ASSERT_TRUE(sum.dim_parameter && sum.keepdim_parameter);
  EXPECT_EQ(sum.dim_parameter->name, "dim");
  EXPECT_EQ(sum.keepdim_parameter->name, "keepdim");
  EXPECT_FALSE(analysis_of("relu").dim_parameter);
}

TEST(Analysis, RandomOperatorsAreAResultIfAsked) {
  Operator op;
  op.name = "noise";
  op.samples = {{{{DType::F64, {5}}}, {}}};
  auto engine = std::make_shared<std::mt19937>(1);
  op.run = [engine](const AttrMap&, std::span<const Array> x) {
    std::vector<double> numbers = to_doubles(x[0]);
    for (double& number : numbers) number += static_cast<double>((*engine)() % 100);
    return std::vector{from_doubles(DType::F64, x[0].shape(), numbers)};
  };
  EXPECT_THROW(discover(op, {}), UserError);
  DiscoverOptions options;
  options.random_is_result = true;
  const Discovery found = discover(op, options);
  EXPECT_EQ(name(found.analysis.category), "random");
  EXPECT_FALSE(found.analysis.deterministic);
  EXPECT_TRUE(found.rules.empty());
}

TEST(Adversarial, FiveToTwentyForEachOperator) {
  for (const Operator& op : operator_library()) {
    const Analysis analysis = analyze_operator(op);
    const auto generators = adversarial_generators(op, analysis);
    EXPECT_GE(generators.size(), 5u) << op.name;
    EXPECT_LE(generators.size(), 20u) << op.name;
    std::set<std::string> names;
    for (const InputGenerator& generator : generators) {
      EXPECT_TRUE(names.insert(generator.name).second) << generator.name;
      EXPECT_TRUE(generator.description.ends_with('.')) << generator.name;
      NumberStream random(1);
      const TensorDesc desc{DType::F64, {6, 4}};
      const auto a = to_doubles(make_input(generator, desc, random, 0)),
                 b = to_doubles(make_input(generator, desc, random, 1));
      const bool same = std::equal(a.begin(), a.end(), b.begin(),
                                   [](double x, double y) { return x == y || (x != x && y != y); });
      EXPECT_EQ(same, generator.equal_operands) << generator.name;
    }
  }
}

TEST(Rules, OneCoversAnother) {
  const PlacePattern d{PlacePattern::Kind::ShardOfD, ReduceOp::Sum, 0};
  const PlacePattern first{PlacePattern::Kind::Shard, ReduceOp::Sum, 0};
  auto rule = [](const PlacePattern& p, const std::string& condition) {
    DiscoveredRule made;
    made.operands = {p};
    made.placement = p;
    made.condition = condition;
    return made;
  };
  EXPECT_TRUE(covers(rule(d, "d > dim"), rule(d, "d > dim and no shard of d is empty")));
  EXPECT_FALSE(covers(rule(d, "d > dim and no shard of d is empty"), rule(d, "d > dim")));
  EXPECT_FALSE(covers(rule(d, "d > dim"), rule(d, "d > dim or keepdim")));
  EXPECT_TRUE(covers(rule(d, ""), rule(first, "size(0) % w == 0")));
  EXPECT_FALSE(covers(rule(first, ""), rule(d, "d < dim")));
}

}  // namespace
}  // namespace cleave
