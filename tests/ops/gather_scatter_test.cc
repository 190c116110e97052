#include "cleave/kernels/gather_scatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

Graph module(const std::string& text) { return parse_module_unverified(text); }

const Node& find(const Graph& graph, std::string_view name) {
  const Node* found = nullptr;
  graph.walk([&](NodeId id) {
    if (graph.node(id).name() == name) found = &graph.node(id);
  });
  return *found;
}

std::vector<int64_t> ints(const Array& array) {
  const Array packed = array.contiguous();
  return {packed.data<int64_t>(), packed.data<int64_t>() + packed.num_elements()};
}

Shape unravel(int64_t linear, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = linear % shape[d];
    linear /= shape[d];
  }
  return index;
}

int64_t at(const Array& array, const Shape& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * array.strides()[d];
  return array.data<int64_t>()[offset];
}

// A random problem: an operand with one batching, one collapsed and up to two window dimensions.
struct Problem {
  WindowMap map;
  Array operand, indices;
  Shape window, slices;
};

Problem random_problem() {
  auto size = [] { return *rc::gen::inRange<int64_t>(1, 4); };
  Problem p;
  const int64_t batch = size(), rows = size(), columns = size(), count = size();
  p.map.operand_batching_dims = {0};
  p.map.collapsed_dims = {1};
  p.map.window_dims = {2, 3};
  p.map.index_map = {1, 3};
  p.map.index_vector_dim = *rc::gen::inRange<int64_t>(0, 3);
  const int64_t taken = *rc::gen::inRange<int64_t>(1, columns + 1);
  p.window = {1, 1, rows, taken};
  p.slices = {batch, count, rows, taken};
  Shape indices = {batch, count};
  indices.insert(indices.begin() + p.map.index_vector_dim, 2);
  p.map.indices_batching_dims = {p.map.index_vector_dim == 0 ? 1 : 0};
  p.operand = make_array(Type::tensor(DType::I64, {batch, size(), rows, columns}),
                         fmt::format("random:{}", *rc::gen::inRange(0, 1000)));
  p.indices = Array(DType::I64, indices);
  for (int64_t i = 0; i < p.indices.num_elements(); ++i)
    p.indices.data<int64_t>()[i] = *rc::gen::inRange<int64_t>(-2, 5);
  return p;
}

// Where an element of the slices is in the operand, by the words of the specification.
Shape place(const Problem& p, const Shape& slice_index, bool clamp) {
  Shape start(4, 0), batch_index{slice_index[0], slice_index[1]};
  for (int64_t k = 0; k < 2; ++k) {
    Shape index = batch_index;
    index.insert(index.begin() + p.map.index_vector_dim, k);
    start[p.map.index_map[k]] = at(p.indices, index);
  }
  for (size_t d = 0; clamp && d < 4; ++d)
    start[d] = std::clamp<int64_t>(start[d], 0, p.operand.shape()[d] - p.window[d]);
  start[0] += slice_index[0];
  start[2] += slice_index[2];
  start[3] += slice_index[3];
  return start;
}

RC_GTEST_PROP(Gather, FollowsTheSpecification, ()) {
  const Problem p = random_problem();
  const Array result = gather_windows(p.operand, p.indices, p.map, p.window, p.slices);
  for (int64_t i = 0; i < result.num_elements(); ++i)
    RC_ASSERT(result.data<int64_t>()[i] == at(p.operand, place(p, unravel(i, p.slices), true)));
}

RC_GTEST_PROP(Scatter, FollowsTheSpecification, ()) {
  const Problem p = random_problem();
  const Array updates = make_array(Type::tensor(DType::I64, p.slices), "random:9");
  const bool add = *rc::gen::arbitrary<bool>();
  Array expected = p.operand.copy();
  for (int64_t i = 0; i < updates.num_elements(); ++i) {
    const Shape target = place(p, unravel(i, p.slices), false);
    bool inside = true;
    int64_t offset = 0;
    for (size_t d = 0; d < 4; ++d) {
      inside &= target[d] >= 0 && target[d] < p.operand.shape()[d];
      offset += target[d] * expected.strides()[d];
    }
    if (!inside) continue;
    int64_t& element = expected.data<int64_t>()[offset];
    element = add ? element + updates.data<int64_t>()[i] : updates.data<int64_t>()[i];
  }
  Array target = p.operand.copy();
  RC_ASSERT(scatter_windows(target, p.indices, updates, p.map,
                            add ? std::optional(ReduceOp::Sum) : std::nullopt));
  RC_ASSERT(ints(target) == ints(expected));
}

constexpr const char* kEmbedding = R"(
func.func @main(%table: tensor<8x4xi64>, %ids: tensor<2x3xi32>) -> tensor<2x3x4xi64> {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xi64>, tensor<2x3xi32>) -> tensor<2x3x4xi64>
  return %0 : tensor<2x3x4xi64>
})";

TEST(Gather, RuleOfAnEmbedding) {
  const Graph graph = module(kEmbedding);
  const Node& node = find(graph, "stablehlo.gather");
  EXPECT_EQ(to_string(node.def->rule(graph, node)),
            "([l, k], [i, j])->([i, j, k]) {i=2, j=3, k=4, l=8} reduction={l}");
  EXPECT_EQ(node.def->infer(graph, node)[0], Type::tensor(DType::I64, {2, 3, 4}));
  EXPECT_EQ(node.def->partial(graph, node)[0],
            (PartialRow{ReduceOp::Sum, {true, false}, ReduceOp::Sum}));
}

std::string scatter_module(const std::string& body) {
  return R"(
func.func @main(%x: tensor<5xi64>, %i: tensor<3x1xi32>, %u: tensor<3xi64>) -> tensor<5xi64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
)" + body +
         R"(
  }) : (tensor<5xi64>, tensor<3x1xi32>, tensor<3xi64>) -> tensor<5xi64>
  return %0 : tensor<5xi64>
})";
}
const std::string kAdd =
    "%1 = stablehlo.add %a, %b : tensor<i64> stablehlo.return %1 : tensor<i64>";
const std::string kOdd =
    "%1 = stablehlo.subtract %a, %b : tensor<i64> %2 = stablehlo.multiply %1, %b : tensor<i64>"
    " stablehlo.return %2 : tensor<i64>";

TEST(Scatter, AnyBodyRuns) {
  const int64_t x[] = {1, 2, 3, 4, 5}, u[] = {10, 20, 30};
  const int32_t i[] = {1, 7, 1};
  const std::vector<Array> args = {Array::from_bytes(DType::I64, {5}, x),
                                   Array::from_bytes(DType::I32, {3, 1}, i),
                                   Array::from_bytes(DType::I64, {3}, u)};
  EXPECT_EQ(ints(run_function(module(scatter_module(kAdd)), "main", args)[0]),
            (std::vector<int64_t>{1, 42, 3, 4, 5}));
  EXPECT_EQ(ints(run_function(module(scatter_module(kOdd)), "main", args)[0]),
            (std::vector<int64_t>{1, ((2 - 10) * 10 - 30) * 30, 3, 4, 5}));
  EXPECT_EQ(ints(run_function(module(scatter_module("stablehlo.return %b : tensor<i64>")), "main",
                              args)[0]),
            (std::vector<int64_t>{1, 30, 3, 4, 5}));
}

TEST(Scatter, UpdatesAreAReductionWhereTheBodyIsOne) {
  const Graph sum = module(scatter_module(kAdd));
  const Node& adds = find(sum, "stablehlo.scatter");
  EXPECT_EQ(to_string(adds.def->rule(sum, adds)),
            "([j], [i, k], [i])->([j]) {i=3, j=5, k=1} reduction={i} need_replication={k}");
  // Inputs and updates together, or updates alone while one device counts the inputs.
  EXPECT_EQ(adds.def->partial(sum, adds).size(), 2u);
  const Graph odd = module(scatter_module(kOdd));
  const Node& other = find(odd, "stablehlo.scatter");
  EXPECT_EQ(to_string(other.def->rule(odd, other)),
            "([j], [i, k], [i])->([j]) {i=3, j=5, k=1} need_replication={i, k}");
  EXPECT_TRUE(other.def->partial(odd, other).empty());
}

TEST(Gather, ErrorsNameTheShapes) {
  auto message = [](std::string text) {
    const Graph graph = module(text);
    const Node& node = find(graph, "stablehlo.gather");
    return error_of([&] { node.def->infer(graph, node); });
  };
  auto changed = [](std::string from, std::string to) {
    std::string text = kEmbedding;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(message(changed("array<i64: 1, 4>", "array<i64: 1, 5>")),
            "stablehlo.gather: slice size 5 does not fit in dimension 1 of tensor<8x4xi64>");
  EXPECT_THAT(message(changed("start_index_map = [0]", "start_index_map = [0, 1]")),
              testing::HasSubstr("have 1 components, and 2 dimensions are indexed"));
  EXPECT_THAT(message(changed("offset_dims = [2]", "offset_dims = [1, 2]")),
              testing::HasSubstr("do not make up the rank of tensor<8x4xi64>"));
}

TEST(TorchIndexSelect, SelectsAlongADimension) {
  const Graph graph = module(R"(
func.func @main(%x: tensor<2x3x2xi64>, %i: tensor<2x2xi32>) -> tensor<2x2x2xi64> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 1 : i64, batch_dims = 1 : i64}>
      : (tensor<2x3x2xi64>, tensor<2x2xi32>) -> tensor<2x2x2xi64>
  return %0 : tensor<2x2x2xi64>
})");
  const int32_t index[] = {2, 0, 1, 1};
  const std::vector<Array> args = {make_array(Type::tensor(DType::I64, {2, 3, 2}), "iota"),
                                   Array::from_bytes(DType::I32, {2, 2}, index)};
  EXPECT_EQ(ints(run_function(graph, "main", args)[0]),
            (std::vector<int64_t>{4, 5, 0, 1, 8, 9, 8, 9}));
}

}  // namespace
}  // namespace cleave
