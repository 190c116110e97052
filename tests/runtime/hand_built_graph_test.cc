// Graphs that were built by hand, and wrong: every entry point of the library says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/discover/module_operator.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/verify.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/planner.h"
#include "cleave/rules/pipelines.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/random_roundings.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/tensor.h"
#include "cleave/spmd/partition.h"
#include "cleave/transforms/diff.h"
#include "cleave/transforms/vmap.h"

namespace cleave {
namespace {

const Type kMatrix = Type::tensor(DType::F32, {4, 4});

Attribute numbers(std::vector<int64_t> values) { return ints_attr(std::move(values)); }

// @main(tensor<4x4xf32>) -> what `body` gives.
Graph build(const std::function<std::vector<ValueId>(Graph&, GraphBuilder&)>& body) {
  Graph graph;
  GraphBuilder b = GraphBuilder::function(graph, "main", {kMatrix});
  b.finish(body(graph, b));
  return graph;
}

ValueId add_op(Graph& graph, GraphBuilder& b, std::string_view op, std::vector<ValueId> operands,
               Type result, AttrDict attrs = {}) {
  const NodeId node = graph.add_node(op, std::move(operands), {std::move(result)}, attrs);
  graph.append(b.region(), node);
  return graph.node(node).results[0];
}

using Graphs = std::vector<std::pair<std::string, Graph>>;

void add(Graphs& list, const char* name,
         const std::function<std::vector<ValueId>(Graph&, GraphBuilder&)>& body) {
  list.emplace_back(name, build(body));
}

AttrDict slice(std::vector<int64_t> start, std::vector<int64_t> limit) {
  AttrDict attrs;
  attrs.set("start_indices", numbers(std::move(start)));
  attrs.set("limit_indices", numbers(std::move(limit)));
  attrs.set("strides", numbers({1, 1}));
  return attrs;
}

// A slice that reads beyond its operand, a transpose to nowhere, attributes of another kind.
void add_wrong_attributes(Graphs& list) {
  add(list, "negative start", [](Graph& g, GraphBuilder& b) {
    return std::vector{
        add_op(g, b, "stablehlo.slice", {b.arg(0)}, kMatrix, slice({-4, 0}, {0, 4}))};
  });
  add(list, "limit beyond", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.slice", {b.arg(0)}, kMatrix,
                              slice({1000000000, 0}, {1000000004, 4}))};
  });
  add(list, "no attribute", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.slice", {b.arg(0)}, kMatrix)};
  });
  add(list, "attribute of another kind", [](Graph& g, GraphBuilder& b) {
    AttrDict attrs;
    attrs.set("permutation", StringAttr{"1, 0"});
    return std::vector{add_op(g, b, "stablehlo.transpose", {b.arg(0)}, kMatrix, attrs)};
  });
  add(list, "permutation to nowhere", [](Graph& g, GraphBuilder& b) {
    AttrDict attrs;
    attrs.set("permutation", numbers({7, 0}));
    return std::vector{add_op(g, b, "stablehlo.transpose", {b.arg(0)}, kMatrix, attrs)};
  });
}

// An operand that there is not, a result of another type, a constant of too few bytes.
void add_wrong_values(Graphs& list) {
  add(list, "another type", [](Graph& g, GraphBuilder& b) {
    return std::vector{
        add_op(g, b, "stablehlo.exponential", {b.arg(0)}, Type::tensor(DType::F32, {8, 4}))};
  });
  add(list, "too few operands", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.add", {b.arg(0)}, kMatrix)};
  });
  add(list, "no operand at all", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.exponential", {}, kMatrix)};
  });
  add(list, "an operand that there is not", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.exponential", {ValueId{12345}}, kMatrix)};
  });
  add(list, "an empty operand", [](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.exponential", {ValueId{}}, kMatrix)};
  });
  add(list, "a negative size", [](Graph& g, GraphBuilder& b) {
    return std::vector{
        add_op(g, b, "stablehlo.exponential", {b.arg(0)}, Type::tensor(DType::F32, {-4, 4}))};
  });
  add(list, "a constant of too few bytes", [](Graph& g, GraphBuilder& b) {
    Literal literal;
    literal.type = kMatrix;
    literal.bytes = std::make_shared<const std::vector<std::byte>>(8);
    AttrDict attrs;
    attrs.set("value", ElementsAttr{literal});
    return std::vector{add_op(g, b, "stablehlo.constant", {}, kMatrix, attrs)};
  });
  add(list, "a constant without elements", [](Graph& g, GraphBuilder& b) {
    Literal literal;
    literal.type = kMatrix;
    AttrDict attrs;
    attrs.set("value", ElementsAttr{literal});
    return std::vector{add_op(g, b, "stablehlo.constant", {}, kMatrix, attrs)};
  });
}

// A body of other arguments, no body, a region in two places.
void add_wrong_regions(Graphs& list) {
  add(list, "a body with other arguments", [](Graph& g, GraphBuilder& b) {
    const ValueId result = add_op(g, b, "stablehlo.sort", {b.arg(0)}, kMatrix);
    GraphBuilder inner(g, g.add_region(g.value(result).producer));
    const ValueId x = g.add_argument(inner.region(), kMatrix);
    g.append(inner.region(), g.add_node("stablehlo.return", {x}, {}));
    return std::vector{result};
  });
  add(list, "a number that is text", [](Graph& g, GraphBuilder& b) {
    AttrDict attrs;
    attrs.set("iota_dimension", StringAttr{"first"});
    return std::vector{add_op(g, b, "stablehlo.iota", {}, kMatrix, attrs)};
  });
  add(list, "a dimension of the result that is none", [](Graph& g, GraphBuilder& b) {
    AttrDict attrs;
    attrs.set("dimension", IntegerAttr{-3, Type::scalar(DType::I64)});
    return std::vector{add_op(g, b, "stablehlo.concatenate", {b.arg(0)}, kMatrix, attrs)};
  });
  add(list, "no body", [](Graph& g, GraphBuilder& b) {
    const ValueId zero = add_op(g, b, "stablehlo.constant", {}, Type::tensor(DType::F32, {}));
    return std::vector{add_op(g, b, "stablehlo.reduce", {b.arg(0), zero}, kMatrix)};
  });
  add(list, "a region in two places", [](Graph& g, GraphBuilder& b) {
    const ValueId result = add_op(g, b, "stablehlo.custom_call", {b.arg(0)}, kMatrix);
    const NodeId node = g.value(result).producer;
    const RegionId region = g.add_region(node);
    g.node(node).regions.push_back(region);
    return std::vector{result};
  });
  add(list, "an op inside itself", [](Graph& g, GraphBuilder& b) {
    const ValueId result = add_op(g, b, "stablehlo.custom_call", {b.arg(0)}, kMatrix);
    g.node(g.value(result).producer).regions.push_back(b.region());
    return std::vector{result};
  });
}

Graphs wrong_graphs() {
  Graphs list;
  add_wrong_attributes(list);
  add_wrong_values(list);
  add_wrong_regions(list);
  list.emplace_back("no end", Graph());
  Graph& endless = list.back().second;
  GraphBuilder b = GraphBuilder::function(endless, "main", {kMatrix});
  b.finish({b.arg(0)});
  endless.region(endless.functions[0].body).nodes.clear();
  return list;
}

MeshPtr two_devices() { return std::make_shared<const Mesh>(Mesh({{"x", 2}}, {}, "mesh")); }

template <typename Call>
void expect_refusals(Call call) {
  for (const auto& [name, graph] : wrong_graphs()) {
    Graph copy = graph;
    try {
      call(copy);
      ADD_FAILURE() << name << ": no error";
    } catch (const UserError& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST(HandBuiltGraph, IsVerifiedBeforeItRuns) {
  const std::vector<Array> args{Array::zeros(DType::F32, {4, 4})};
  expect_refusals([&](Graph& graph) { run_function(graph, "main", args); });
  expect_refusals([&](Graph& graph) { count_calls(graph, "main", args); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItIsCompiled) {
  expect_refusals([](Graph& graph) { Executable executable(graph, "main"); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItIsPartitioned) {
  expect_refusals([](Graph& graph) { partition(graph, {.mesh = two_devices()}); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeShardingsPropagate) {
  expect_refusals([](Graph& graph) { run_propagation_pipeline(graph, {}); });
  expect_refusals([](Graph& graph) { propagate_shardings(graph, {}); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItIsPlanned) {
  const MachineProfile profile = builtin_profile("h100");
  plan::PlannerOptions options;
  options.mesh = two_devices();
  options.profile = &profile;
  expect_refusals([&](Graph& graph) { plan::make_plan(graph, options); });
  expect_refusals([&](Graph& graph) { plan::plan_by_propagation(graph, options); });
  expect_refusals([&](Graph& graph) { plan::plan_by_heuristic(graph, options); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItsRuleIsDiscovered) {
  expect_refusals([](Graph& graph) { operator_of_module("hand", graph); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItIsTransformed) {
  expect_refusals([](Graph& graph) { jvp(graph, "main"); });
  expect_refusals([](Graph& graph) { vjp(graph, "main"); });
  expect_refusals([](Graph& graph) { grad(graph, "main"); });
  expect_refusals([](Graph& graph) { value_and_grad(graph, "main"); });
  VmapOptions options;
  options.in_dims = {0};
  options.out_dims = {0};
  options.size = 3;
  expect_refusals([&](Graph& graph) { vmap(graph, "main", options); });
}

TEST(HandBuiltGraph, IsVerifiedBeforeItIsRecorded) {
  const Tensor x = zeros({4, 4});
  expect_refusals([&](Graph& graph) { record_function(graph, {&x, 1}); });
}

TEST(HandBuiltGraph, IsTakenWhereItIsRight) {
  const Graph graph = build([](Graph& g, GraphBuilder& b) {
    return std::vector{add_op(g, b, "stablehlo.exponential", {b.arg(0)}, kMatrix)};
  });
  verify_graph(graph);
  const std::vector<Array> args{Array::zeros(DType::F32, {4, 4})};
  EXPECT_EQ(run_function(graph, "main", args)[0].contiguous().data<float>()[3], 1);
  const Executor executor(partition(graph, {.mesh = two_devices()}));
  EXPECT_EQ(executor.run(args, {})[0].contiguous().data<float>()[3], 1);
}

}  // namespace
}  // namespace cleave
