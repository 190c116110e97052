// Random graphs, run op by op and compiled: the same bits.
#include <gtest/gtest.h>

#include <random>

#include "cleave/compile/executable.h"
#include "cleave/compile/fuse.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

// Ops over tensors of a few shapes, so that chains, diamonds, rows and columns meet.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  Graph make(int nodes) {
    const DType dtype = pick<DType>({DType::F32, DType::F32, DType::F64, DType::BF16, DType::I32});
    std::vector<Type> types;
    for (const Shape& shape : {Shape{6, 70}, Shape{6}, Shape{70}, Shape{6, 70}, Shape{}})
      types.push_back(Type::tensor(dtype, shape));
    GraphBuilder b = GraphBuilder::function(graph_, "main", types);
    for (size_t i = 0; i < types.size(); ++i) values_.push_back(b.arg(i));
    for (int i = 0; i < nodes; ++i) step(b);
    std::vector<ValueId> results = {values_.back()};
    for (int i = 0; i < 3; ++i) results.push_back(any());
    b.finish(results);
    return std::move(graph_);
  }

 private:
  template <typename T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[random_() % list.size()];
  }
  ValueId any() { return values_[random_() % values_.size()]; }
  ValueId recent() {
    const size_t back = std::min<size_t>(values_.size(), 6);
    return values_[values_.size() - 1 - random_() % back];
  }
  // A value of the same type, or a constant.
  ValueId like(GraphBuilder& b, ValueId value) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const ValueId other = any();
      if (b.type(other) == b.type(value)) return other;
    }
    return b.constant_like(pick<double>({0, 1, 2, 3, -1}), value);
  }

  void step(GraphBuilder& b) {
    const ValueId x = recent();
    const Shape shape = b.shape(x);
    const bool is_float = cleave::is_float(b.dtype(x));
    switch (random_() % 9) {
      case 0:
      case 1:
      case 2:
        return add(
            b.binary(pick<const char*>({"stablehlo.add", "stablehlo.subtract", "stablehlo.multiply",
                                        "stablehlo.maximum", "stablehlo.minimum"}),
                     x, like(b, x)));
      case 3:
        if (!is_float) return add(b.emit("stablehlo.negate", {x}));
        return add(b.emit(pick<const char*>({"stablehlo.negate", "stablehlo.tanh", "stablehlo.abs",
                                             "stablehlo.logistic"}),
                          {x}));
      case 4:
        return add(b.emit("stablehlo.select", {b.compare("LT", x, like(b, x)), x, like(b, x)}));
      case 5:
        if (shape.size() < 2) return spread(b, x);
        // The order of floating-point sums is open.
        return add(b.reduce(x, is_float ? "stablehlo.maximum" : "stablehlo.add", 0,
                            {static_cast<int64_t>(random_() % 2)}));
      case 6:
        return spread(b, x);
      case 7:
        if (shape.size() < 2) return;
        return add(b.transpose(b.transpose(x, {1, 0}), {1, 0}));
      default: {
        if (shape.size() < 2) return;
        const ValueId flat = b.reshape(x, {num_elements(shape)});
        return add(b.reshape(b.binary("stablehlo.add", flat, flat), shape));
      }
    }
  }
  void spread(GraphBuilder& b, ValueId x) {
    const Shape& shape = b.shape(x);
    if (shape.empty()) return add(b.broadcast(x, {6, 70}, {}));
    if (shape.size() == 1) return add(b.broadcast(x, {6, 70}, {shape[0] == 6 ? 0 : 1}));
  }
  void add(ValueId value) { values_.push_back(value); }

  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> values_;
};

std::vector<Array> random_arguments(const Graph& graph, int seed) {
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(seed + args.size())));
  return args;
}

void expect_identical(const std::vector<Array>& a, const std::vector<Array>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(identical(a[i], b[i])) << what << ", result " << i;
}

TEST(Compile, RandomGraphsGiveTheSameBits) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Graph graph = RandomGraph(seed).make(30);
    const std::vector<Array> args = random_arguments(graph, static_cast<int>(seed));
    const std::vector<Array> expected = run_function(graph, "main", args);
    for (const char* passes :
         {"", "cleave-simplify", "cleave-fuse", "cleave-fuse-epilogues",
          "cleave-simplify,cleave-fuse-epilogues,cleave-fuse,cleave-recompute"}) {
      Executable executable(graph, "main", {.passes = passes});
      EXPECT_TRUE(executable.is_compiled());
      expect_identical(executable.run(args), expected,
                       "seed " + std::to_string(seed) + " with [" + passes + "]");
      // Once more, over the memory of the first run.
      expect_identical(executable.run(args), expected, "again, seed " + std::to_string(seed));
    }
    if (HasFailure()) {
      GTEST_LOG_(INFO) << print_module(graph);
      return;
    }
  }
}

TEST(Compile, PassesLeaveAValidModule) {
  for (uint32_t seed = 200; seed < 240; ++seed) {
    Graph graph = RandomGraph(seed).make(40);
    const std::vector<Array> args = random_arguments(graph, static_cast<int>(seed));
    const std::vector<Array> expected = run_function(graph, "main", args);
    simplify(graph);
    EXPECT_NO_THROW(verify_graph(graph));
    fuse(graph);
    EXPECT_NO_THROW(verify_graph(graph));
    // A fusion means the same to the interpreter, and in text.
    expect_identical(run_function(graph, "main", args), expected, "fused, op by op");
    const Graph read = parse_module(print_module(graph), "printed");
    expect_identical(run_function(read, "main", args), expected, "printed and read");
  }
}

}  // namespace
}  // namespace cleave
