#include "cleave/graph/flow.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// "Enter x>a" for every edge of the first node with a flow, by the names of the text.
std::vector<std::string> edges_of(const std::string& text) {
  const Graph graph = parse_module(text);
  std::vector<std::string> found;
  graph.walk([&](NodeId id) {
    if (!found.empty()) return;
    for (const FlowEdge& edge : flow_edges(graph, graph.node(id))) {
      const char* kinds[] = {"Enter", "Carry", "Leave", "Skip"};
      const ValueId results[] = {edge.from, edge.to};
      std::string line = kinds[edge.kind];
      for (ValueId value : results) {
        const Value& v = graph.value(value);
        line += (value == edge.from ? " " : ">") + v.name;
        if (v.name.empty()) line += v.producer.valid() ? "result" : "argument";
      }
      found.push_back(line);
    }
  });
  return found;
}

TEST(Flow, OfALoopGoesInRoundAndOut) {
  EXPECT_EQ(edges_of(R"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %y = stablehlo.while(%a = %x) : tensor<f32>
     cond { %c = stablehlo.compare LT, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1> }
     do { %r = stablehlo.add %a, %a : tensor<f32>
          stablehlo.return %r : tensor<f32> }
    return %y : tensor<f32> })"),
            (std::vector<std::string>{"Enter x>a", "Carry r>a", "Enter x>a", "Carry r>a",
                                      "Leave r>y", "Skip x>y"}));
}

TEST(Flow, OfBranchesOnlyLeaves) {
  EXPECT_EQ(edges_of(R"(func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
    %y = "stablehlo.if"(%p) ({ stablehlo.return %x : tensor<f32> },
      { %n = stablehlo.negate %x : tensor<f32>
        stablehlo.return %n : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
    return %y : tensor<f32> })"),
            (std::vector<std::string>{"Leave x>y", "Leave n>y"}));
}

TEST(Flow, OfABarrierSkips) {
  EXPECT_EQ(edges_of(R"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %y = stablehlo.optimization_barrier %x : tensor<f32>
    return %y : tensor<f32> })"),
            (std::vector<std::string>{"Skip x>y"}));
}

TEST(Flow, OfAnOpWithScalarCodeIsNone) {
  EXPECT_TRUE(edges_of(R"(func.func @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<f32> {
    %y = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32> })")
                  .empty());
}

TEST(Flow, FindsTheFunctionOfACall) {
  const Graph graph = parse_module(R"(
    func.func private @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = call @f(%x) : (tensor<f32>) -> tensor<f32>
      return %y : tensor<f32> })");
  const Node& call = graph.node(graph.region(graph.find_function("main")->body).nodes[0]);
  EXPECT_EQ(callee_name(call), "f");
  EXPECT_EQ(callee(graph, call), graph.find_function("f"));
  const Node& end = graph.node(graph.region(graph.find_function("main")->body).nodes[1]);
  EXPECT_EQ(callee_name(end), "");
  EXPECT_EQ(callee(graph, end), nullptr);
}

// A typo in a name would otherwise show when a pass first meets the op.
TEST(Ops, AllThatHaveATypeAreRegistered) {
  std::ifstream file(std::string(CLEAVE_SOURCE_DIR) + "/cleave/ops/op.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  const std::regex entry("CLEAVE_OP\\((\\w+), \"([^\"]+)\"\\)");
  size_t count = 0;
  for (std::sregex_iterator it(source.begin(), source.end(), entry), end; it != end; ++it, ++count)
    EXPECT_NE(find_op((*it)[2].str()), nullptr) << (*it)[2];
  EXPECT_GT(count, 80u);
}

// One definition for each name, whichever thread sees it first.
TEST(Ops, UnknownOnesHaveAnOpaqueDefinition) {
  EXPECT_EQ(&op_named("stablehlo.add"), &def_of<op::Add>());
  EXPECT_FALSE(op_named("stablehlo.add").opaque);
  EXPECT_EQ(find_op("test.opaque_17"), nullptr);
  std::vector<const OpDef*> seen(8);
  std::vector<std::thread> threads;
  for (const OpDef*& def : seen) threads.emplace_back([&] { def = &op_named("test.opaque_17"); });
  for (std::thread& thread : threads) thread.join();
  for (const OpDef* def : seen) EXPECT_EQ(def, seen[0]);
  EXPECT_EQ(seen[0]->name, "test.opaque_17");
  EXPECT_TRUE(seen[0]->opaque);
  EXPECT_EQ(seen[0]->traits, 0u);
  EXPECT_EQ(find_op("test.opaque_17"), nullptr);
  EXPECT_NE(&op_named("test.opaque_18"), seen[0]);
}

TEST(Ops, AddingToAnUnknownOneIsAnError) {
  OpRegistry registry;
  registry.add({.name = "test.known"});
  registry.extend("test.known", [](OpDef& def) { def.traits = kPure; });
  EXPECT_TRUE(registry.find("test.known")->has(kPure));
  EXPECT_THROW(registry.extend("test.knwon", [](OpDef&) {}), InternalError);
}

}  // namespace
}  // namespace cleave
