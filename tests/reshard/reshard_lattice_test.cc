#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "cleave/reshard/reshard.h"
#include "tests/reshard/simulate.h"
#include "tests/support/mesh_of.h"

namespace cleave {
namespace {

// Whole axes anywhere, in any order; some of them pending.
ShardingSpec random_spec(const MeshPtr& mesh, size_t rank) {
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh, rank);
  std::vector<int> axes;
  for (size_t a = 0; a < mesh->axes.size(); ++a) axes.push_back(static_cast<int>(a));
  while (!axes.empty()) {
    const auto i = *rc::gen::inRange<size_t>(0, axes.size());
    const AxisRef ref = whole_axis(*mesh, axes[i]);
    axes.erase(axes.begin() + static_cast<ptrdiff_t>(i));
    const auto where = *rc::gen::inRange<size_t>(0, rank + 3);
    if (where < rank) spec.dims[where].axes.push_back(ref);
    if (where == rank) spec.partial.push_back(ref);
  }
  std::sort(spec.partial.begin(), spec.partial.end());
  return spec;
}

MachineProfile slow_links() {
  MachineProfile slow = default_profile();
  for (auto& protocols : slow.collectives)
    for (CollectiveProtocol& protocol : protocols) protocol.inside_gbps = 1e-6;
  slow.devices_per_node = 64;
  return slow;
}

struct Question {
  MeshPtr mesh;
  Shape shape;
  ShardingSpec from, to;
};

// By default with sizes that some of the axes divide and others do not.
Question random_question(const char* mesh,
                         const std::vector<int>& sizes = {2, 4, 6, 8, 12, 16, 5}) {
  Question q;
  q.mesh = mesh_of(mesh);
  const auto rank = *rc::gen::inRange<size_t>(1, 5);
  for (size_t d = 0; d < rank; ++d) q.shape.push_back(*rc::gen::elementOf(sizes));
  q.from = random_spec(q.mesh, rank);
  q.to = random_spec(q.mesh, rank);
  return q;
}

RC_GTEST_PROP(ReshardByWholeAxes, PutsEveryElementWhereTheTargetSays, ()) {
  const Question q = random_question(
      *rc::gen::element("x=2,y=2,z=2", "x=2,y=4,z=2", "x=3,y=2,z=2", "x=2,y=2,z=2,w=2"));
  Resharder resharder(*rc::gen::element(default_profile(), slow_links()),
                      ReshardOptions{.memory = {}, .max_states = 1000, .whole_axes = true});
  const ReshardPlan plan = resharder.plan(q.from, q.to, q.shape, DType::F32);
  RC_LOG() << to_string_with_mesh(q.from) << " -> " << to_string(q.to) << " of <"
           << to_string(q.shape) << ">\n";
  for (const ReshardStep& step : plan.steps) RC_LOG() << to_string(step) << "\n";
  std::vector<int64_t> values(num_elements(q.shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * 7 % 1009;
  const SimulatedTensor end = simulate(distribute(values, q.from, q.shape, 5), plan);
  RC_ASSERT(collect(end) == values);
  RC_ASSERT(end.spec.same_layout(q.to));
  // What is priced is what runs.
  const ReshardPrice price = resharder.price(q.from, q.to, q.shape, DType::F32);
  RC_ASSERT(std::abs(price.seconds - plan.seconds) <= 1e-12);
  // Nothing takes longer as one of many. Steps that send nothing take the same.
  RC_ASSERT(price.local + price.inside + price.across <= price.seconds + 1e-12);
  double local = 0;
  for (const ReshardStep& step : plan.steps)
    if (step.links.empty()) local += step.seconds;
  RC_ASSERT(std::abs(price.local - local) <= 1e-12);
}

// On two nodes of eight: what goes over "x" crosses nodes, what goes over "y" does not.
TEST(ReshardPrice, KnowsWhatCrossesNodesAndWhatCanBeCombined) {
  const MeshPtr mesh = mesh_of("x=2,y=8");
  const Shape shape = {1024, 1024};
  for (const bool whole : {true, false}) {
    Resharder resharder(builtin_profile("h100"),
                        ReshardOptions{.memory = {}, .max_states = 1000, .whole_axes = whole});
    auto price = [&](const char* from, const char* to) {
      return resharder.price(parse_sharding(from, mesh), parse_sharding(to, mesh), shape,
                             DType::BF16);
    };
    const ReshardPrice gather = price(R"([{"y"}, {}])", "[{}, {}]");
    EXPECT_EQ(gather.across, 0);
    EXPECT_GT(gather.inside, 0);
    EXPECT_LT(gather.inside, gather.seconds / 2);  // most of it is latency
    const ReshardPrice reduce = price(R"([{"y"}, {}], unreduced={"x"})", R"([{"y"}, {}])");
    EXPECT_EQ(reduce.inside, 0);
    EXPECT_GT(reduce.across, 0);
    EXPECT_LT(reduce.across, reduce.seconds / 2);
    const ReshardPrice slice = price("[{}, {}]", R"([{"y"}, {}])");
    EXPECT_EQ(slice.local, slice.seconds);
  }
}

// A bound on memory that nothing reaches leaves the same question to the search of a single pair.
// That one may pass through uneven layouts, which are not in the table; so dimensions have room for
// all.
RC_GTEST_PROP(ReshardByWholeAxes, IsNeverDearerThanTheSearchOfOnePair, ()) {
  const Question q = random_question(*rc::gen::element("x=2,y=2,z=2", "x=2,y=4,z=2", "x=3,y=2,z=2"),
                                     {48, 96, 144});
  const MachineProfile profile = *rc::gen::element(default_profile(), slow_links());
  Resharder all(profile, ReshardOptions{.memory = {}, .max_states = 1000, .whole_axes = true});
  Resharder one(profile,
                ReshardOptions{.memory = int64_t{1} << 50, .max_states = 1000, .whole_axes = true});
  const double seconds = all.seconds(q.from, q.to, q.shape, DType::F32);
  RC_LOG() << to_string_with_mesh(q.from) << " -> " << to_string(q.to) << " of <"
           << to_string(q.shape) << ">\n";
  RC_ASSERT(seconds <= one.seconds(q.from, q.to, q.shape, DType::F32) * (1 + 1e-9) + 1e-12);
}

TEST(ReshardByWholeAxes, ObeysTheTriangleInequality) {
  const MeshPtr mesh = mesh_of("data=2,fsdp=4,model=8");
  const Shape shape = {64, 2048, 4096};
  Resharder resharder(builtin_profile("h100"),
                      ReshardOptions{.memory = {}, .max_states = 1000, .whole_axes = true});
  std::vector<ShardingSpec> specs;
  std::vector<const ShardingSpec*> list;
  for (const char* text :
       {"[{}, {}, {}]", R"([{"data"}, {}, {}])", R"([{"data", "fsdp"}, {}, {"model"}])",
        R"([{"model"}, {"fsdp"}, {}])", R"([{}, {"data", "model"}, {"fsdp"}])",
        R"([{"data"}, {}, {}], unreduced={"model"})", R"([{}, {}, {}], unreduced={"data", "fsdp"})",
        R"([{"fsdp", "data"}, {"model"}, {}])"})
    specs.push_back(parse_sharding(text, mesh));
  for (const ShardingSpec& spec : specs) list.push_back(&spec);
  std::vector<double> prices;
  for (const ReshardPrice& price : resharder.table(list, list, shape, DType::BF16))
    prices.push_back(price.seconds);
  const size_t n = list.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      EXPECT_EQ(prices[i * n + j] == 0, i == j);
      EXPECT_EQ(prices[i * n + j], resharder.seconds(specs[i], specs[j], shape, DType::BF16));
      for (size_t k = 0; k < n; ++k)
        EXPECT_LE(prices[i * n + k], prices[i * n + j] + prices[j * n + k] + 1e-12);
    }
}

// A sum over slow links of what is replicated along fast ones goes in parts, though neither end
// speaks of the fast axis.
TEST(ReshardByWholeAxes, UsesAxesThatNeitherEndHas) {
  const MeshPtr mesh = mesh_of("data=4,fsdp=2,model=8");
  Resharder resharder(builtin_profile("h100"),
                      ReshardOptions{.memory = {}, .max_states = 1000, .whole_axes = true});
  const ReshardPlan plan =
      resharder.plan(parse_sharding(R"([{}, {}], unreduced={"data"})", mesh),
                     parse_sharding("[{}, {}]", mesh), {4096, 4096}, DType::F32);
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::AllSlice);
  EXPECT_EQ(to_string(plan.steps[1].axes, *mesh), R"("data")");
  EXPECT_EQ(plan.steps[2].kind, StepKind::AllGather);
}

}  // namespace
}  // namespace cleave
