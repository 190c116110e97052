#include "cleave/rules/propagate/projection.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "cleave/rules/propagate/factor_propagation.h"
#include "tests/support/mesh_of.h"

namespace cleave {
namespace {

std::shared_ptr<const OpShardingRule> rule_of(std::vector<TensorFactors> operands,
                                              std::vector<TensorFactors> results,
                                              std::vector<int64_t> sizes) {
  OpShardingRule rule;
  rule.operands = std::move(operands);
  rule.results = std::move(results);
  for (int64_t size : sizes) rule.factors.push_back({size});
  return std::make_shared<const OpShardingRule>(std::move(rule));
}

std::string text_of(const Projection& projection, int tensor, int factor, const Mesh& mesh) {
  const FactorSharding* sharding = projection.find(tensor, factor);
  if (!sharding) return "-";
  std::string text = to_string(AxisList(sharding->axes.begin(), sharding->axes.end()), mesh);
  if (!sharding->overflow.empty())
    text += " | " + to_string(AxisList(sharding->overflow.begin(), sharding->overflow.end()), mesh);
  return text;
}

TEST(Projection, SplitsAnAxisOverTheFactorsOfADimension) {
  const MeshPtr mesh = mesh_of("x=4,y=2");
  const RuleIndex index(rule_of({{{0, 1}}}, {{{0}, {1}}}, {2, 4}));
  const ShardingSpec operand = parse_sharding(R"([{"x", "y"}])", mesh);
  Projection projection;
  const ShardingSpec* specs[] = {&operand, nullptr};
  project(index, specs, projection);
  EXPECT_EQ(text_of(projection, 0, 0, *mesh), R"("x":(1)2)");
  EXPECT_EQ(text_of(projection, 0, 1, *mesh), R"("x":(2)2, "y")");
  EXPECT_EQ(text_of(projection, 1, 0, *mesh), "");
  EXPECT_EQ(to_spec(projection, 0, mesh), operand);
}

TEST(Projection, KeepsAxesThatDoNotDivideAMajorFactorAsOverflow) {
  const MeshPtr mesh = mesh_of("x=3,y=2");
  const RuleIndex index(rule_of({{{0, 1, 2}}}, {{{0}, {1}, {2}}}, {2, 4, 3}));
  const ShardingSpec operand = parse_sharding(R"([{"x", "y", ?}])", mesh);
  Projection projection;
  const ShardingSpec* specs[] = {&operand, nullptr};
  project(index, specs, projection);
  EXPECT_EQ(text_of(projection, 0, 0, *mesh), R"( | "x", "y")");
  EXPECT_EQ(text_of(projection, 0, 1, *mesh), "");
  EXPECT_TRUE(projection.find(0, 1)->closed);
  EXPECT_EQ(text_of(projection, 0, 2, *mesh), "-");
  EXPECT_EQ(to_spec(projection, 0, mesh), operand);
}

TEST(Projection, LeavesOutAFactorThatWouldNeedStrides) {
  const MeshPtr mesh = mesh_of("x=2,y=2");
  const RuleIndex index(rule_of({{{0}, {1}}}, {{{0, 1}}}, {4, 4}));
  const ShardingSpec operand = parse_sharding(R"([{"x"}, {"y"}])", mesh);
  Projection projection;
  const ShardingSpec* specs[] = {&operand, nullptr};
  project(index, specs, projection);
  const Direction directions[] = {Direction::Both, Direction::Both};
  BasicFactorPropagation().propagate(projection, {directions, *mesh});
  EXPECT_EQ(to_string(to_spec(projection, 1, mesh)), R"([{"x", ?}])");
}

TEST(FactorPropagation, BasicStopsAtAConflictAggressiveDecidesIt) {
  // C = dot(A, B): m k, k n -> m n, both non-contracting dimensions want "a".
  const MeshPtr mesh = mesh_of("a=2");
  const RuleIndex index(rule_of({{{0}, {2}}, {{2}, {1}}}, {{{0}, {1}}}, {8, 16, 4}));
  const ShardingSpec a = parse_sharding(R"([{"a", ?}, {?}])", mesh);
  const ShardingSpec b = parse_sharding(R"([{?}, {"a", ?}])", mesh);
  const ShardingSpec* specs[] = {&a, &b, nullptr};
  const std::vector<Direction> directions(3, Direction::Both);
  Projection projection;
  project(index, specs, projection);
  BasicFactorPropagation().propagate(projection, {directions, *mesh});
  EXPECT_EQ(projection.changed, (std::vector<uint8_t>{0, 0, 0}));
  AggressiveFactorPropagation().propagate(projection, {directions, *mesh});
  EXPECT_EQ(projection.changed, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(to_string(to_spec(projection, 2, mesh)), R"([{?}, {"a", ?}])") << "B is the larger";
}

TEST(FactorPropagation, OneDirectionOnlyExtendsFromItsSource) {
  const MeshPtr mesh = mesh_of("a=2,b=2");
  const RuleIndex index(rule_of({{{0}}}, {{{0}}}, {8}));
  const ShardingSpec operand = parse_sharding(R"([{"a", ?}])", mesh);
  const ShardingSpec result = parse_sharding(R"([{"a", "b", ?}])", mesh);
  const ShardingSpec* specs[] = {&operand, &result};
  for (Direction direction : {Direction::Forward, Direction::Backward}) {
    Projection projection;
    project(index, specs, projection);
    BasicFactorPropagation().propagate(projection, {std::span(&direction, 1), *mesh});
    EXPECT_EQ(projection.changed[0], direction == Direction::Backward);
    EXPECT_FALSE(projection.changed[1]);
  }
}

// A spec over a random order of whole axes and parts of axes.
ShardingSpec any_spec(const MeshPtr& mesh, size_t rank) {
  ShardingSpec spec = ShardingSpec::fully_open(mesh, rank);
  std::vector<AxisRef> parts;
  for (size_t a = 0; a < mesh->axes.size(); ++a) {
    const AxisRef whole = whole_axis(*mesh, static_cast<int>(a));
    const int64_t cut = *rc::gen::inRange<int64_t>(1, whole.size + 1);
    if (whole.size % cut == 0 && cut > 1 && cut < whole.size) {
      parts.push_back({whole.axis, 1, static_cast<int32_t>(cut)});
      parts.push_back(
          {whole.axis, static_cast<int32_t>(cut), static_cast<int32_t>(whole.size / cut)});
    } else {
      parts.push_back(whole);
    }
  }
  for (size_t i = parts.size(); i > 1; --i)
    std::swap(parts[i - 1], parts[*rc::gen::inRange<size_t>(0, i)]);
  for (const AxisRef& part : parts) {
    const auto dim = *rc::gen::inRange<size_t>(0, rank + 1);
    if (dim < rank) append_axis(spec.dims[dim].axes, part);
  }
  for (DimSpec& dim : spec.dims) dim.open = *rc::gen::arbitrary<bool>();
  return spec;
}

TEST(Projection, InverseGivesTheSpecBack) {
  EXPECT_TRUE(rc::check("to_spec(project(spec)) == spec, for compound dimensions of any sizes", [] {
    const MeshPtr mesh = std::make_shared<const Mesh>(
        Mesh{{"a", *rc::gen::inRange(2, 9)}, {"b", *rc::gen::inRange(2, 7)}, {"c", 4}});
    OpShardingRule rule;
    TensorFactors dims;
    const auto rank = *rc::gen::inRange<size_t>(1, 4);
    for (size_t d = 0; d < rank; ++d) {
      DimFactors& dim = dims.emplace_back();
      for (int f = *rc::gen::inRange(1, 4); f > 0; --f) {
        dim.push_back(static_cast<FactorIndex>(rule.factors.size()));
        rule.factors.push_back({*rc::gen::inRange<int64_t>(2, 13)});
      }
    }
    rule.operands = {dims};
    const RuleIndex index(std::make_shared<const OpShardingRule>(rule));
    const ShardingSpec spec = any_spec(mesh, rank);
    const ShardingSpec* specs[] = {&spec};
    Projection projection;
    project(index, specs, projection);
    RC_ASSERT(to_string(to_spec(projection, 0, mesh)) == to_string(spec));
  }));
}

TEST(FactorPropagation, OnlyExtendsAndNeverUsesAnAxisTwice) {
  EXPECT_TRUE(
      rc::check("every dimension keeps its axes as a prefix; the result is a valid spec", [] {
        const MeshPtr mesh = std::make_shared<const Mesh>(
            Mesh{{"a", *rc::gen::inRange(2, 9)}, {"b", *rc::gen::inRange(2, 7)}, {"c", 4}});
        // ([ij, k],[k, l])->([i, j, l]) and the like: operands of random factors, a result with all
        // of them.
        OpShardingRule rule;
        for (int f = 0; f < 4; ++f) rule.factors.push_back({*rc::gen::inRange<int64_t>(2, 25)});
        rule.operands = {{{0, 1}, {2}}, {{2}, {3}}};
        rule.results = {{{0}, {1}, {3}}};
        const RuleIndex index(std::make_shared<const OpShardingRule>(rule));
        const std::vector<ShardingSpec> specs = {any_spec(mesh, 2), any_spec(mesh, 2),
                                                 any_spec(mesh, 3)};
        std::vector<const ShardingSpec*> pointers;
        for (const ShardingSpec& spec : specs) pointers.push_back(&spec);
        std::vector<Direction> directions;
        for (int f = 0; f < 4; ++f)
          directions.push_back(static_cast<Direction>(*rc::gen::inRange(0, 4)));
        const BasicFactorPropagation basic;
        const AggressiveFactorPropagation aggressive;
        for (const FactorPropagation* strategy :
             std::initializer_list<const FactorPropagation*>{&basic, &aggressive}) {
          Projection projection;
          project(index, pointers, projection);
          strategy->propagate(projection, {directions, *mesh});
          for (int t = 0; t < 3; ++t) {
            const ShardingSpec after = to_spec(projection, t, mesh);
            verify(after);
            for (size_t d = 0; d < after.dims.size(); ++d) {
              RC_ASSERT(is_prefix_of(specs[t].dims[d].axes, after.dims[d].axes));
              RC_ASSERT(specs[t].dims[d].open || specs[t].dims[d] == after.dims[d]);
            }
          }
        }
      }));
}

}  // namespace
}  // namespace cleave
