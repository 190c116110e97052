#include "cleave/runtime/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

const Type kI64 = Type::tensor(DType::I64, {});

int64_t value(const Array& array) { return *array.data<int64_t>(); }
Array scalar(int64_t x) { return Array::scalar<int64_t>(DType::I64, x); }

// A function whose body is written by hand.
struct Body {
  Graph& graph;
  RegionId region;

  ValueId op(std::string_view name, std::vector<ValueId> operands, Type type, AttrDict attrs = {}) {
    const NodeId id =
        graph.add_node(name, std::move(operands), {std::move(type)}, std::move(attrs));
    graph.append(region, id);
    return graph.node(id).results[0];
  }
  void ret(std::string_view name, std::vector<ValueId> values) {
    graph.append(region, graph.add_node(name, std::move(values), {}));
  }
};

Body function(Graph& graph, std::string name, std::vector<Type> args, std::vector<Type> results) {
  Function f;
  f.name = std::move(name);
  f.body = graph.add_region();
  for (const Type& type : args) graph.add_argument(f.body, type);
  f.arg_attrs.resize(args.size());
  f.result_attrs.resize(results.size());
  f.arg_types = std::move(args);
  f.result_types = std::move(results);
  graph.functions.push_back(f);
  return {graph, f.body};
}

TEST(Interpreter, PassesValuesThroughCallsAndTuples) {
  Graph graph;
  Body pair = function(graph, "second", {kI64, kI64}, {kI64});
  const auto args = graph.region(pair.region).args;
  const ValueId tuple = pair.op("stablehlo.tuple", {args[0], args[1]}, Type::tuple({kI64, kI64}));
  AttrDict index;
  index.set("index", int_attr(1, DType::I32));
  pair.ret("func.return", {pair.op("stablehlo.get_tuple_element", {tuple}, kI64, index)});
  Body main = function(graph, "main", {kI64}, {kI64});
  const ValueId x = graph.region(main.region).args[0];
  AttrDict callee;
  callee.set("callee", SymbolRefAttr{"second", {}});
  main.ret("func.return", {main.op("func.call", {x, x}, kI64, callee)});

  EXPECT_EQ(value(run_function(graph, "main", std::vector{scalar(7)})[0]), 7);
}

TEST(Interpreter, SaysWhatIsWrongWithTheArguments) {
  Graph graph;
  Body main = function(graph, "main", {kI64}, {});
  main.ret("func.return", {});
  auto message = [&](std::string_view name, std::vector<Array> args) {
    return error_of([&] { run_function(graph, name, args); });
  };
  EXPECT_EQ(message("other", {}), "there is no function @other in the module");
  EXPECT_EQ(message("main", {}), "@main takes 1 arguments, 0 are given");
  EXPECT_EQ(message("main", {Array::zeros(DType::F32, {2})}),
            "argument 0 of @main is tensor<i64>, and tensor<2xf32> is given");
}

TEST(Interpreter, AnOpWithoutKernelIsNamed) {
  Graph graph;
  Body main = function(graph, "main", {kI64}, {kI64});
  main.ret("func.return", {main.op("my.op", {graph.region(main.region).args[0]}, kI64)});
  try {
    run_function(graph, "main", std::vector{scalar(7)});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("my.op: this op cannot be executed"));
  }
}

// Observes when values die, by the number of owners of the buffer that is passed in.
TEST(Interpreter, FreesAtTheLastUse) {
  Graph graph;
  Body main = function(graph, "main", {kI64}, {kI64});
  const ValueId x = graph.region(main.region).args[0];
  const ValueId tuple = main.op("stablehlo.tuple", {x}, Type::tuple({kI64}));
  AttrDict index;
  index.set("index", int_attr(0, DType::I32));
  const ValueId y = main.op("stablehlo.get_tuple_element", {tuple}, kI64, index);
  main.ret("func.return", {y});

  struct Owners : Observer {
    std::vector<long> counts;
    void executed(const Graph&, const Node&, int64_t, std::span<const Array> results, double,
                  double) override {
      counts.push_back(results[0].buffer().use_count());
    }
  } owners;
  std::vector<Array> args{scalar(7)};
  const auto results = run_function(graph, "main", args, &owners);
  // After get_tuple_element, the tuple is gone: owned by the caller and by the result.
  EXPECT_EQ(owners.counts.back(), 2);
  EXPECT_EQ(results[0].buffer().use_count(), 2);
}

}  // namespace
}  // namespace cleave
