// Ops that a program registers while it runs, from C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cleave/cleave.h"
#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover.h"
#include "cleave/discover/condition_value.h"
#include "cleave/discover/synthesize.h"
#include "cleave/discover/transfer.h"
#include "cleave/graph/op_rule.h"
#include "cleave/pjrt/xla_module.h"

namespace cleave {
namespace {

using testing::HasSubstr;

// What was registered in a test is gone after it.
class RegisteredOps : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : registered_names()) unregister_op(name);
  }
};

// {b, i}, {b, j} -> {b, i, j}
std::vector<Array> outer_kernel(const AttrDict&, std::span<const Array> operands) {
  const Array x = operands[0].contiguous(), y = operands[1].contiguous();
  const int64_t b = x.shape()[0], m = x.shape()[1], n = y.shape()[1];
  if (y.shape()[0] != b) throw_user("outer: {} rows and {} rows", b, y.shape()[0]);
  Array result(DType::F64, {b, m, n});
  for (int64_t k = 0; k < b; ++k)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        result.data<double>()[(k * m + i) * n + j] =
            x.data<double>()[k * m + i] * y.data<double>()[k * n + j];
  return {result};
}

Array numbers(Shape shape) {
  Array array(DType::F64, std::move(shape));
  for (int64_t i = 0; i < array.num_elements(); ++i)
    array.data<double>()[i] = static_cast<double>((i * 37) % 11) - 4;
  return array;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST_F(RegisteredOps, TensorsCallThemWithoutCommunication) {
  register_op("outer",
              {.kernel = outer_kernel, .rule = "b i, b j -> b i j", .partial = {"bilinear"}});
  const Array x = numbers({7, 3}), y = numbers({7, 5});
  const Array expected = outer_kernel({}, std::vector<Array>{x, y})[0];
  for (const char* axes : {"x=2,y=4", "x=3"}) {
    const Mesh mesh = parse_mesh(axes);
    const Tensor a = Tensor::from(x).shard(mesh, P("x")), b = Tensor::from(y).shard(mesh, P("x"));
    evaluate(std::vector<Tensor>{a, b});
    CommLog log;
    const Tensor product = custom_call_one("outer", {a, b});
    evaluate(std::vector<Tensor>{product});
    EXPECT_TRUE(log.events().empty()) << axes;
    EXPECT_FALSE(product.sharding().dims[0].axes.empty()) << axes;
    EXPECT_TRUE(compare(product.to_host(), expected).same) << axes;
  }
}

TEST_F(RegisteredOps, AreGoneWhenTheyAreTakenAway) {
  EXPECT_THAT(message_of([] {
                custom_call_one("outer", {Tensor::from(numbers({2, 2}))});
              }),
              HasSubstr("no op outer is registered"));
  register_op("outer", {.kernel = outer_kernel, .rule = "b i, b j -> b i j"});
  EXPECT_THAT(message_of([] { register_op("outer", {.kernel = outer_kernel}); }),
              HasSubstr("say replace"));
  register_op("outer", {.kernel = outer_kernel, .replace = true});
  EXPECT_FALSE(find_registered("outer")->rule);
  register_rule("outer", "b i, b j -> b i j");
  EXPECT_TRUE(find_registered("outer")->rule);
  unregister_rule("outer");
  EXPECT_TRUE(find_registered("outer")->kernel);
  unregister_op("outer");
  EXPECT_EQ(find_registered("outer"), nullptr);
  EXPECT_THAT(message_of([] { unregister_op("outer"); }), HasSubstr("no op outer"));
}

TEST_F(RegisteredOps, CarryPendingSums) {
  register_op(
      "outer",
      {.kernel = outer_kernel, .rule = "b i, b j -> b i j", .partial = {"P(sum), R -> P(sum)"}});
  const Mesh mesh = parse_mesh("x=2");
  const Tensor x = Tensor::from(numbers({4, 6})).shard(mesh, P({}, "x"));
  const Tensor w = Tensor::from(numbers({6, 3})).shard(mesh, P("x"));
  const Tensor sum = matmul(x, w);
  ASSERT_TRUE(sum.sharding().is_partial());
  const Tensor y = Tensor::from(numbers({4, 5})).shard(mesh, P());
  EXPECT_TRUE(custom_call_one("outer", {sum, y}).sharding().is_partial());
  EXPECT_FALSE(custom_call_one("outer", {y, sum}).sharding().is_partial());
}

TEST_F(RegisteredOps, AWrongRuleIsRefusedWithAWitness) {
  Operator op;
  op.name = "outer";
  op.run = [](const AttrMap&, std::span<const Array> operands) {
    return outer_kernel({}, operands);
  };
  op.samples = {{{{DType::F64, {6, 4}}, {DType::F64, {6, 5}}}, {}}};
  EXPECT_NO_THROW(verify_rule(op, "b i, b j -> b i j", {"bilinear"}, {}));
  const std::string split =
      message_of([&] { verify_rule(op, "b i, b j -> b i j", {"linear"}, {}); });
  EXPECT_THAT(split, HasSubstr("P(sum), P(sum) -> P(sum)"));
  EXPECT_THAT(message_of([&] { verify_rule(op, "b i, c j -> b i j", {}, {}); }),
              HasSubstr("is wrong"));
}

TEST_F(RegisteredOps, WhatWasDiscoveredAsksTheAttributes) {
  const Operator& cross = *find_operator("cross");
  DiscoverOptions options;
  options.worlds = {2, 3};
  options.shrink_witnesses = false;
  const Discovery found = discover(cross, options);
  register_discovered("my_cross", cross, found);
  const auto rule_at = [](int64_t dim) {
    Graph graph;
    const RegionId region = graph.add_region();
    const Type type = Type::tensor(DType::F64, {3, 3});
    std::vector<ValueId> operands{graph.add_argument(region, type, "x"),
                                  graph.add_argument(region, type, "y")};
    AttrDict attrs, config;
    config.set("dim", int_attr(dim));
    attrs.set("call_target_name", string_attr("my_cross"));
    attrs.set("mhlo.backend_config", DictAttr{config});
    const NodeId node = graph.add_node("stablehlo.custom_call", operands, {type}, attrs);
    return *op_rule(graph, graph.node(node)).propagation;
  };
  const auto splits = [](const OpShardingRule& rule, size_t d) {
    return rule.factors[rule.results[0][d][0]].kind == FactorKind::PassThrough;
  };
  for (int64_t dim : {1, -1}) {
    EXPECT_TRUE(splits(rule_at(dim), 0)) << to_short_string(rule_at(dim));
    EXPECT_FALSE(splits(rule_at(dim), 1)) << to_short_string(rule_at(dim));
  }
  EXPECT_TRUE(splits(rule_at(0), 1)) << to_short_string(rule_at(0));
  EXPECT_FALSE(splits(rule_at(0), 0)) << to_short_string(rule_at(0));
}

// The functions that are made of a report say what is true, and all that factors can say.
TEST_F(RegisteredOps, WhatWasDiscoveredIsRegisteredAsFound) {
  for (const char* name :
       {"cross", "softmax", "sum", "where", "matmul", "view", "cumsum", "max_with_index"}) {
    const Operator& op = *find_operator(name);
    DiscoverOptions options;
    options.shrink_witnesses = false;
    const Discovery found = discover(op, options);
    register_discovered(name, op, found);
    for (const SampleDecisions& sample : found.samples) {
      Graph graph;
      const RegionId region = graph.add_region();
      std::vector<ValueId> operands;
      for (const TensorDesc& desc : sample.sample.operands)
        operands.push_back(graph.add_argument(region, Type::tensor(desc.dtype, desc.shape), ""));
      std::vector<Type> results;
      for (const Shape& shape : sample.result_shapes)
        results.push_back(Type::tensor(DType::F64, shape));
      AttrDict attrs;
      attrs.set("call_target_name", string_attr(name));
      attrs.set("mhlo.backend_config", DictAttr{attr_dict_of(sample.sample.attrs)});
      const Node& node =
          graph.node(graph.add_node("stablehlo.custom_call", operands, results, attrs));
      const OpRule rule = op_rule(graph, node);
      ASSERT_TRUE(rule.to_run(node)) << name;
      const RuleDiff diff =
          diff_rule(*rule.execution, partial_of(graph, node), sample, found.worlds);
      for (const Decision& wrong : diff.incorrect)
        ADD_FAILURE() << name << " " << to_string(sample.sample) << ": claims "
                      << to_string(wrong.combination);
      if (is_degenerate(sample.sample)) continue;
      EXPECT_LE(diff.missing.size(), synthesize(sample).not_expressible.size())
          << name << " " << to_string(sample.sample);
    }
  }
}

TEST_F(RegisteredOps, XlaRefusesTheirKernels) {
  const Graph graph = parse_module(R"(
    func.func @main(%x: tensor<4x3xf64>, %y: tensor<4x2xf64>) -> tensor<4x3x2xf64> {
      %0 = stablehlo.custom_call @outer(%x, %y)
             : (tensor<4x3xf64>, tensor<4x2xf64>) -> tensor<4x3x2xf64>
      return %0 : tensor<4x3x2xf64>
    })");
  EXPECT_NO_THROW(pjrt::one_device_module(graph, "main"));
  register_op("outer", {.kernel = outer_kernel});
  EXPECT_THAT(
      message_of([&] { pjrt::one_device_module(graph, "main"); }),
      testing::AllOf(HasSubstr("outer: XLA cannot call"), HasSubstr("Cleave's own engine")));
}

TEST_F(RegisteredOps, CompositesAndUnknownOpsHaveRegisteredRules) {
  const Graph graph = parse_module(R"(
    func.func private @body(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = stablehlo.composite "mine.norm" %x {decomposition = @body}
             : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = "mine.op"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    })");
  const std::vector<NodeId> nodes = graph.region(graph.find_function("main")->body).nodes;
  EXPECT_EQ(op_rule(graph, graph.node(nodes[1])).propagation, nullptr);
  EXPECT_EQ(op_rule(graph, graph.node(nodes[1])).execution, nullptr);
  register_rule("mine.norm", "i j -> i j {j: need_replication}");
  register_rule("mine.op", "i j -> i j");
  EXPECT_EQ(to_short_string(*op_rule(graph, graph.node(nodes[0])).propagation),
            "i j -> i j {j: need_replication; custom}");
  EXPECT_EQ(to_short_string(*op_rule(graph, graph.node(nodes[1])).propagation),
            "i j -> i j {custom}");
}

TEST_F(RegisteredOps, ThreadsSeeWholeEntries) {
  register_op("outer", {.kernel = outer_kernel, .rule = "b i, b j -> b i j"});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      const Array x = numbers({4, 3});
      const Mesh mesh = parse_mesh("x=2");
      for (int i = 0; i < 20; ++i) {
        register_op(fmt::format("outer{}", t),
                    {.kernel = outer_kernel, .rule = "b i, b j -> b i j", .replace = true});
        const Tensor a = Tensor::from(x).shard(mesh, P("x"));
        EXPECT_EQ(custom_call_one("outer", {a, a}).to_host().num_elements(), 36);
      }
    });
}

TEST(Conditions, AreReadAsReportsWriteThem) {
  ConditionScope scope{{{"dim", int64_t{1}},
                        {"keepdim", true},
                        {"mode", std::string("sum")},
                        {"dims", std::vector<int64_t>{0, 2}},
                        {"k", int64_t{3}}},
                       1,
                       {4, 3, 5}};
  const auto holds = [&](const char* text) { return condition_holds(text, scope); };
  EXPECT_EQ(holds(""), true);
  EXPECT_EQ(holds("d != dim"), false);
  EXPECT_EQ(holds("d == dim and keepdim"), true);
  EXPECT_EQ(holds("d > dim or not keepdim"), false);
  EXPECT_EQ(holds("d not in dims"), true);
  EXPECT_EQ(holds("d in dims"), false);
  EXPECT_EQ(holds("k == size(dim)"), true);
  EXPECT_EQ(holds("size(d) != 1"), true);
  EXPECT_EQ(holds("d == rank - 2"), true);
  EXPECT_EQ(holds("(mode == 'mean' or mode == 'sum')"), true);
  EXPECT_EQ(holds("mode != 'sum'"), false);
  EXPECT_EQ(holds("size(d) % w == 0"), std::nullopt);
  EXPECT_EQ(holds("called as (8x3)"), std::nullopt);
  EXPECT_EQ(holds("d =="), std::nullopt);
  EXPECT_EQ(holds("dimension == 1"), std::nullopt);
}

}  // namespace
}  // namespace cleave
