#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/plan/apply.h"
#include "cleave/plan/axis_parts.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/export.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/verify_plan.h"
#include "models.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PlannerOptions options_for(const char* mesh, bool sub_axes) {
  PlannerOptions options;
  options.mesh = mesh_of(mesh);
  options.profile = &builtin_profile("h100");
  options.objective = Objective::Sum;  // sums are compared
  options.machine = "h100";
  options.sub_axes = sub_axes;
  return options;
}

Plan plan_of(const Graph& graph, const PlannerOptions& options) {
  const PlannerResult result = make_plan(graph, options);
  EXPECT_TRUE(result.plan) << result.reason;
  return result.plan ? *result.plan : Plan{};
}

// Four rows of two heads, each sorted: only rows and heads can be split.
std::string sorts(int64_t heads, int64_t rows, int64_t n) {
  return fmt::format(
      "func.func @main(%x: tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x{2}xf32> {{\n"
      "  %0 = \"stablehlo.sort\"(%x) <{{dimension = 2 : i64, is_stable = true}}> ({{\n"
      "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
      "    stablehlo.return %p : tensor<i1>\n"
      "  }}) : (tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x{2}xf32>\n"
      "  return %0 : tensor<{0}x{1}x{2}xf32>\n}}\n",
      heads, rows, n);
}

// Attention with two heads for keys and values, each for four heads of queries, after the
// projections and before the last one.
std::string grouped_attention(int64_t tokens, int64_t width, int64_t head) {
  const int64_t q = 8 * head, kv = 2 * head;
  const std::string x = fmt::format("tensor<{}x{}xf32>", tokens, width);
  const std::string w = fmt::format("tensor<{}x{}xf32>", width, q),
                    wkv = fmt::format("tensor<{}x{}xf32>", width, kv),
                    wo = fmt::format("tensor<{}x{}xf32>", q, width);
  const std::string xq = fmt::format("tensor<{}x{}xf32>", tokens, q),
                    xkv = fmt::format("tensor<{}x{}xf32>", tokens, kv);
  const std::string hq = fmt::format("tensor<{}x2x4x{}xf32>", tokens, head),
                    hkv = fmt::format("tensor<{}x2x{}xf32>", tokens, head);
  const std::string s = fmt::format("tensor<2x{0}x4x{0}xf32>", tokens),
                    o = fmt::format("tensor<2x{}x4x{}xf32>", tokens, head),
                    ot = fmt::format("tensor<{}x2x4x{}xf32>", tokens, head);
  auto dot = [](const char* out, const char* a, const char* b, const std::string& dims,
                const std::string& ta, const std::string& tb, const std::string& tc) {
    return fmt::format("  %{} = stablehlo.dot_general %{}, %{}, {} : ({}, {}) -> {}\n", out, a, b,
                       dims, ta, tb, tc);
  };
  std::string t =
      fmt::format("func.func @main(%x: {}, %wq: {}, %wk: {}, %wv: {}, %wo: {}) -> {} {{\n", x, w,
                  wkv, wkv, wo, x);
  const std::string plain = "contracting_dims = [1] x [0]";
  t += dot("q", "x", "wq", plain, x, w, xq) + dot("k", "x", "wk", plain, x, wkv, xkv) +
       dot("v", "x", "wv", plain, x, wkv, xkv);
  t += fmt::format("  %hq = stablehlo.reshape %q : ({}) -> {}\n", xq, hq);
  t += fmt::format("  %hk = stablehlo.reshape %k : ({}) -> {}\n", xkv, hkv);
  t += fmt::format("  %hv = stablehlo.reshape %v : ({}) -> {}\n", xkv, hkv);
  t += dot("s", "hq", "hk", "batching_dims = [1] x [1], contracting_dims = [3] x [2]", hq, hkv, s);
  t += fmt::format("  %e = stablehlo.exponential %s : {}\n", s);
  t += dot("o", "e", "hv", "batching_dims = [0] x [1], contracting_dims = [3] x [0]", s, hkv, o);
  t += fmt::format("  %ot = stablehlo.transpose %o, dims = [1, 0, 2, 3] : ({}) -> {}\n", o, ot);
  t += fmt::format("  %of = stablehlo.reshape %ot : ({}) -> {}\n", ot, xq);
  t += dot("y", "of", "wo", plain, xq, wo, x);
  return t + fmt::format("  return %y : {}\n}}\n", x);
}

std::string parts_text(const std::vector<AxisList>& parts, const Mesh& mesh) {
  std::string text;
  for (const AxisList& list : parts) text += "{" + to_string(list, mesh) + "}";
  return text;
}

TEST(SubAxes, AxesAreCutWhereDimensionsAreShort) {
  const auto parts = [](const std::string& module, const char* mesh) {
    const MeshPtr on = mesh_of(mesh);
    return parts_text(axis_parts(parse_module(module), *on), *on);
  };
  EXPECT_EQ(parts(sorts(2, 8, 64), "model=8"), R"({"model":(1)2, "model":(2)4})");
  EXPECT_EQ(parts(sorts(2, 4, 64), "model=8"), R"({"model":(1)2, "model":(2)2, "model":(4)2})");
  EXPECT_EQ(parts(sorts(12, 8, 64), "data=2,model=8"), R"({}{"model":(1)4, "model":(4)2})");
  EXPECT_EQ(parts(sorts(8, 8, 64), "model=8"), "");  // room for all of it
  EXPECT_EQ(parts(sorts(3, 8, 64), "model=8"), "");  // no part divides it
  EXPECT_EQ(parts(sorts(2, 64, 64), "a=4,b=4,c=4"),  // one cut, of the last axis
            R"({}{}{"c":(1)2, "c":(2)2})");
}

TEST(SubAxes, PartsGoToDimensionsOfTheirOwn) {
  const MeshPtr mesh = mesh_of("model=8");
  const LayoutChoice choice{.parts = {{{0, 1, 2}, {0, 2, 4}}}};
  std::vector<std::string> layouts;
  for (const auto& bins : place_axes(*mesh, 2, choice, [](size_t bin, int64_t shards) {
         return splits_well(bin == 0 ? 2 : 64, shards);
       }))
    layouts.push_back(parts_text(bins, *mesh));
  EXPECT_THAT(layouts, testing::UnorderedElementsAre(
                           "{}{}", R"({}{"model"})", R"({"model":(1)2}{})", R"({}{"model":(1)2})",
                           R"({}{"model":(2)4})", R"({"model":(1)2}{"model":(2)4})"));
}

// Two heads of four rows over eight devices: whole axes leave seven of them idle.
TEST(SubAxes, AShortDimensionTakesPartOfAnAxis) {
  for (const char* mesh : {"model=8", "data=2,model=8", "a=2,b=1,model=8"}) {
    const Graph graph = parse_module(sorts(2, 4, 4096));
    const PlannerOptions plain = options_for(mesh, false), cut = options_for(mesh, true);
    const Plan whole = plan_of(graph, plain), parts = plan_of(graph, cut);
    EXPECT_FALSE(has_sub_axes(whole)) << mesh;
    EXPECT_TRUE(has_sub_axes(parts)) << mesh;
    EXPECT_LT(parts.totals.seconds, whole.totals.seconds) << mesh;
    EXPECT_TRUE(parts.bound.proven);
    const PlanVerification v = verify_plan(parts, graph, *cut.profile);
    EXPECT_TRUE(v.same_program && v.results_good() && v.seconds_good() && v.collectives_good())
        << mesh << "\n"
        << to_string(v);
    EXPECT_TRUE(v.changes.empty());
    // The file keeps it.
    EXPECT_EQ(to_json(plan_from_json(to_json(parts))), to_json(parts));
  }
}

TEST(SubAxes, GroupedHeadsShareAnAxis) {
  const Graph graph = parse_module(grouped_attention(256, 2048, 256));
  const PlannerOptions plain = options_for("model=8", false), cut = options_for("model=8", true);
  const Plan whole = plan_of(graph, plain), parts = plan_of(graph, cut);
  EXPECT_LE(parts.totals.seconds, whole.totals.seconds);
  const Graph small = parse_module(grouped_attention(16, 32, 8));
  PlannerOptions options = options_for("model=8", true);
  options.pins.push_back(
      parse_pin(R"(dot_general.3=[{"model":(1)2}, {}, {"model":(2)4}, {}])", options.mesh));
  options.pins.push_back(parse_pin(R"(dot_general.4=[{"model":(1)2}, {}, {}, {?}])", options.mesh));
  const Plan plan = plan_of(small, options);
  EXPECT_EQ(to_string(plan.find_value("dot_general.4")->spec.dims[0].axes, *plan.mesh),
            R"("model":(1)2)");
  const PlanVerification v = verify_plan(plan, small, *options.profile);
  EXPECT_TRUE(v.good()) << to_string(v);
}

TEST(SubAxes, ExportsAndExplains) {
  const Graph graph = parse_module(sorts(2, 4, 4096));
  const PlannerOptions options = options_for("data=3,model=8", true);
  PlannerOptions pinned = options;
  pinned.pins.push_back(parse_pin(R"(x=[{"model":(1)2}, {"model":(2)4}, {}])", options.mesh));
  const Plan plan = plan_of(graph, pinned);
  const std::string text = print_module(apply(plan, graph));
  EXPECT_THAT(text, HasSubstr(R"([{"model":(1)2}, {"model":(2)4}, {}])"));
  EXPECT_EQ(print_module(parse_module(text)), text);
  EXPECT_THAT(to_jax(plan, graph),
              HasSubstr("mesh = jax.make_mesh((3, 2, 4), (\"data\", \"model_1\", \"model_2\"), "
                        "axis_types=(AxisType.Auto,) * 3)\n"
                        "# model=8 is model_1=2, model_2=4\n"
                        "in_specs = (\n    P(\"model_1\", \"model_2\"),  # x\n)\n"));
  EXPECT_THAT(to_dtensor(plan), HasSubstr("    \"x\": [Replicate(), Shard(0), Shard(1)],\n"));
  const std::string why = explain_op(plan, graph, *options.profile, "sort.0");
  EXPECT_THAT(why, HasSubstr(R"("model":(1)2)"));
  EXPECT_THAT(why, HasSubstr("[{}, {}, {}] -> [{}, {}, {}]"));
  EXPECT_THAT(explain_plan(plan, graph, *options.profile),
              HasSubstr(R"(dimension 0 split over "model":(1)2)"));
}

}  // namespace
}  // namespace cleave::plan
