#include "cleave/graph/cloner.h"

#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// A loop with a branch inside, which uses a value from around both.
constexpr const char* kNested =
    R"(func.func @main(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %r:2 = stablehlo.while(%a = %x, %i = %n) : tensor<f32>, tensor<i32>
    cond {
      %p = stablehlo.compare LT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %b = "stablehlo.case"(%i) ({
        %s = stablehlo.add %a, %c : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }, {
        %m = stablehlo.multiply %a, %c : tensor<f32>
        stablehlo.return %m : tensor<f32>
      }) : (tensor<i32>) -> tensor<f32>
      stablehlo.return %b, %i : tensor<f32>, tensor<i32>
    }
  return %r#0 : tensor<f32>
})";

TEST(Cloner, CopiesNestedRegionsIntoAnotherGraph) {
  const Graph from = parse_module(kNested);
  Graph to;
  Cloner clone(from, to);
  clone.function(from.functions[0]);
  verify_graph(to);
  EXPECT_EQ(print_module(to), print_module(from));
  // Names and the map.
  const ValueId arg = from.region(from.functions[0].body).args[0];
  EXPECT_EQ(to.value(clone.mapped(arg)).name, "x");
  EXPECT_EQ(clone.mapped(arg), to.region(to.functions[0].body).args[0]);
}

TEST(Cloner, CopiesWithinAGraphThatGrows) {
  Graph graph = parse_module(kNested);
  const std::string before = print_module(graph);
  Function copy = graph.functions[0];
  copy.name = "again";
  copy.body = graph.add_region();
  Cloner(graph).region(graph.functions[0].body, copy.body);
  graph.functions.push_back(copy);
  verify_graph(graph);
  graph.functions.erase(graph.functions.begin());
  graph.functions[0].name = "main";
  EXPECT_EQ(print_module(graph), before);
}

TEST(Cloner, WithinAGraphOtherValuesStandForThemselves) {
  Graph graph;
  GraphBuilder b = GraphBuilder::function(graph, "main", {Type::tensor(DType::F32, {})});
  const ValueId sum = b.emit("stablehlo.add", {b.arg(0), b.arg(0)});
  Cloner clone(graph, ValueMap::sparse());
  const NodeId copy = clone.copy(graph.value(sum).producer, b.region());
  EXPECT_EQ(graph.node(copy).operands, graph.node(graph.value(sum).producer).operands);
  EXPECT_EQ(clone.mapped(sum), graph.node(copy).results[0]);
}

TEST(Cloner, BetweenGraphsAValueThatWasNotCopiedIsAnError) {
  Graph from, to;
  GraphBuilder b = GraphBuilder::function(from, "main", {Type::tensor(DType::F32, {})});
  const ValueId sum = b.emit("stablehlo.add", {b.arg(0), b.arg(0)});
  Cloner clone(from, to);
  EXPECT_THROW(clone.copy(from.value(sum).producer, to.add_region()), InternalError);
}

TEST(Cloner, AHookWritesNodesItselfWhereverTheyStand) {
  const Graph from = parse_module(kNested);
  Graph to;
  Cloner clone(from, to);
  clone.rewrite = [&](NodeId id, RegionId target) {
    const Node& node = from.node(id);
    if (node.name() != "stablehlo.multiply") return false;
    GraphBuilder b(to, target);
    clone.map(node.results[0], b.emit("stablehlo.subtract", clone.mapped(node.operands)));
    return true;
  };
  size_t copied = 0;
  clone.copied = [&](NodeId source, NodeId copy) {
    EXPECT_EQ(from.node(source).name(), to.node(copy).name());
    ++copied;
  };
  clone.function(from.functions[0]);
  verify_graph(to);
  std::string expected = print_module(from);
  const std::string name = "multiply";
  expected.replace(expected.find(name), name.size(), "subtract");
  EXPECT_EQ(print_module(to), expected);
  size_t nodes = 0;
  from.walk([&](NodeId) { ++nodes; });
  EXPECT_EQ(copied, nodes - 1);
}

TEST(Cloner, GivesCopiesOtherTypes) {
  const Graph from = parse_module(
      "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
      "  return %y : tensor<4xf32>\n}");
  Graph to;
  Cloner clone(from, to);
  clone.type = [](ValueId) { return Type::tensor(DType::F64, {2}); };
  clone.function(from.functions[0]);
  for (uint32_t v = 0; v < to.num_values(); ++v)
    EXPECT_EQ(to.type({v}), Type::tensor(DType::F64, {2}));
}

TEST(Cloner, InlinesTheBodyOfACallInPlaceOfIt) {
  const Graph from = parse_module(R"(
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = call @twice(%x) : (tensor<f32>) -> tensor<f32>
      %z = call @twice(%y) : (tensor<f32>) -> tensor<f32>
      return %z : tensor<f32>
    }
    func.func private @twice(%a: tensor<f32>) -> tensor<f32> {
      %b = stablehlo.add %a, %a : tensor<f32>
      return %b : tensor<f32>
    })");
  Graph to;
  Cloner clone(from, to);
  clone.rewrite = [&](NodeId id, RegionId target) {
    if (!is<op::Call>(from.node(id))) return false;
    clone.inline_region(id, from.functions[1].body, target);
    return true;
  };
  clone.function(from.functions[0]);
  verify_graph(to);
  const Graph expected = parse_module(R"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = stablehlo.add %x, %x : tensor<f32>
      %z = stablehlo.add %y, %y : tensor<f32>
      return %z : tensor<f32>
    })");
  EXPECT_EQ(print_module(to), print_module(expected));
}

TEST(ValueMap, DenseAndSparseAnswerAlike) {
  for (ValueMap map : {ValueMap(), ValueMap(4), ValueMap::sparse()}) {
    EXPECT_FALSE(map.has({7}));
    EXPECT_EQ(map.map(ValueId{7}), ValueId{7});
    EXPECT_THROW(map.at(ValueId{7}), InternalError);
    map.set({7}, {1});
    EXPECT_EQ(map[{7}], ValueId{1});
    EXPECT_EQ(map.at(std::vector<ValueId>{{7}, {7}}), (std::vector<ValueId>{{1}, {1}}));
    EXPECT_EQ(map.map(std::vector<ValueId>{{7}, {2}}), (std::vector<ValueId>{{1}, {2}}));
  }
}

}  // namespace
}  // namespace cleave
