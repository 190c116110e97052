// reduce, reduce_window, select_and_scatter and sort: rules, partials, bodies of any kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "module_harness.h"

namespace cleave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string reduce(const std::string& op, const std::string& init,
                   const std::string& type = "f32") {
  const std::string tensor = "tensor<4x6x" + type + ">", scalar = "tensor<" + type + ">";
  return "func.func @main(%a: " + tensor + ", %i: " + scalar + ") -> tensor<4x" + type +
         "> {\n  %c = stablehlo.constant dense<" + init + "> : " + scalar +
         "\n  %0 = stablehlo.reduce(%a init: %c) applies stablehlo." + op +
         " across dimensions = [1] : (" + tensor + ", " + scalar + ") -> tensor<4x" + type +
         ">\n  return %0 : tensor<4x" + type + ">\n}";
}

bool has(const PartialTransfer& rows, const PartialRow& row) {
  return std::ranges::find(rows, row) != rows.end();
}

TEST(ReductionOps, ReducersGiveTheFactorItsOperator) {
  const std::vector<std::pair<std::string, ReduceOp>> cases{{"add", ReduceOp::Sum},
                                                            {"maximum", ReduceOp::Max},
                                                            {"minimum", ReduceOp::Min},
                                                            {"multiply", ReduceOp::Prod}};
  for (const auto& [op, expected] : cases) {
    const Module m(reduce(op, "0.0"));
    EXPECT_EQ(m.complaint("stablehlo.reduce"), "");
    EXPECT_THAT(m.rule("stablehlo.reduce"),
                HasSubstr("([i, j], [])->([i]) {i=4, j=6} reduction={j}"));
    EXPECT_EQ(m.rule_of("stablehlo.reduce").factors[1].reduce, expected);
    EXPECT_FALSE(m.rule_of("stablehlo.reduce").factors[1].unknown_reduce);
  }
  EXPECT_EQ(Module(reduce("or", "false", "i1")).rule_of("stablehlo.reduce").factors[1].reduce,
            ReduceOp::Or);
  EXPECT_TRUE(
      Module(reduce("xor", "0", "i32")).rule_of("stablehlo.reduce").factors[1].unknown_reduce);
}

TEST(ReductionOps, PendingSumsPassAndTheInitialValueCountsOnce) {
  const PartialTransfer neutral = Module(reduce("add", "0.0")).partial("stablehlo.reduce");
  EXPECT_TRUE(has(neutral, {ReduceOp::Sum, {true, false}, ReduceOp::Sum}));
  EXPECT_TRUE(has(neutral, {ReduceOp::Sum, {true, true}, ReduceOp::Sum}));
  EXPECT_FALSE(has(neutral, {ReduceOp::Sum, {false, true}, ReduceOp::Sum}));
  EXPECT_FALSE(has(neutral, {ReduceOp::Max, {true, false}, ReduceOp::Max}));
  // An initial value of one enters on one device alone.
  const PartialTransfer one = Module(reduce("add", "1.0")).partial("stablehlo.reduce");
  EXPECT_TRUE(has(one, {ReduceOp::Sum, {true, false}, ReduceOp::Sum}));
  EXPECT_TRUE(has(one, {ReduceOp::Sum, {true, true}, ReduceOp::Sum}));
  const PartialTransfer max = Module(reduce("maximum", "1.0")).partial("stablehlo.reduce");
  EXPECT_TRUE(has(max, {ReduceOp::Max, {true, false}, ReduceOp::Max}));
  EXPECT_FALSE(has(max, {ReduceOp::Sum, {true, false}, ReduceOp::Sum}));
}

// The greatest value of each row, and where it is.
constexpr std::string_view kArgMax = R"(
func.func @main(%a: tensor<2x5xf32>, %k: tensor<2x5xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%a init: %low), (%k init: %zero) across dimensions = [1] :
    (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %1 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %x, %y : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
    }
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
})";

TEST(ReductionOps, ABodyOfAnyKind) {
  const Module m{kArgMax};
  EXPECT_EQ(m.complaint("stablehlo.reduce"), "");
  EXPECT_TRUE(m.partial("stablehlo.reduce").empty());
  EXPECT_TRUE(m.rule_of("stablehlo.reduce").factors[1].unknown_reduce);
  const std::vector<Array> out =
      m.run({make<float>(DType::F32, {2, 5}, {1, 7, 3, 2, 5, 9, 0, 4, 8, 6}),
             make<int32_t>(DType::I32, {2, 5}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4})});
  EXPECT_THAT(values<float>(out[0]), ElementsAre(7, 9));
  EXPECT_THAT(values<int32_t>(out[1]), ElementsAre(1, 0));
}

TEST(ReductionOps, BodiesFoldInOrder) {
  // Not commutative: keeps the last value.
  const Module m(R"(
func.func @main(%a: tensor<7xi32>) -> tensor<i32> {
  %c = stablehlo.constant dense<9> : tensor<i32>
  %0 = stablehlo.reduce(%a init: %c) across dimensions = [0] : (tensor<7xi32>, tensor<i32>) -> tensor<i32>
    reducer(%x: tensor<i32>, %y: tensor<i32>) {
      stablehlo.return %y : tensor<i32>
    }
  return %0 : tensor<i32>
})");
  EXPECT_THAT(values<int32_t>(m.run({make<int32_t>(DType::I32, {7}, {1, 2, 3, 4, 5, 6, 7})})[0]),
              ElementsAre(7));
}

constexpr std::string_view kPool = R"(
func.func @main(%a: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) <{window_dimensions = array<i64: 2, 1>,
                                           window_strides = array<i64: 2, 1>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %1 = stablehlo.maximum %x, %y : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
})";

TEST(ReductionOps, WindowsArePermutations) {
  const Module m{kPool};
  EXPECT_EQ(m.complaint("stablehlo.reduce_window"), "");
  EXPECT_THAT(m.rule("stablehlo.reduce_window"),
              HasSubstr("([i, j], [])->([i, j]) {i=2, j=3} permutation={i}"));
  EXPECT_TRUE(
      has(m.partial("stablehlo.reduce_window"), {ReduceOp::Max, {true, false}, ReduceOp::Max}));
  EXPECT_THAT(values<float>(m.run(
                  {make<float>(DType::F32, {4, 3}, {1, 2, 3, 4, 0, 6, 7, 8, 9, 3, 9, 1})})[0]),
              ElementsAre(4, 2, 6, 7, 9, 9));
}

TEST(ReductionOps, GradientOfPooling) {
  const Module m(R"(
func.func @main(%a: tensor<5xf32>, %s: tensor<2xf32>) -> tensor<5xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %c) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
  }, {
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %1 = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}
    : (tensor<5xf32>, tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
})");
  EXPECT_EQ(m.complaint("stablehlo.select_and_scatter"), "");
  EXPECT_TRUE(has(m.partial("stablehlo.select_and_scatter"),
                  {ReduceOp::Sum, {false, true, false}, ReduceOp::Sum}));
  // Both windows choose the middle.
  const std::vector<Array> out = m.run(
      {make<float>(DType::F32, {5}, {1, 2, 9, 2, 1}), make<float>(DType::F32, {2}, {10, 20})});
  EXPECT_THAT(values<float>(out[0]), ElementsAre(0, 0, 30, 0, 0));
}

std::string sort(const std::string& comparator) {
  return R"(func.func @main(%a: tensor<40xi32>, %b: tensor<40xi32>) -> (tensor<40xi32>, tensor<40xi32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>, %i: tensor<i32>, %j: tensor<i32>):
)" + comparator +
         R"(  }) : (tensor<40xi32>, tensor<40xi32>) -> (tensor<40xi32>, tensor<40xi32>)
  return %0#0, %0#1 : tensor<40xi32>, tensor<40xi32>
})";
}

// The comparator as C++ and as text must agree, whichever path the text takes.
void expect_sorted(const std::string& text,
                   bool (*before)(std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>)) {
  std::mt19937 random(61);
  std::vector<int32_t> a(40), b(40);
  std::vector<std::pair<int32_t, int32_t>> expected(40);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<int32_t>(random() % 7) - 3;
    b[i] = static_cast<int32_t>(random() % 5);
    expected[i] = {a[i], b[i]};
  }
  std::stable_sort(expected.begin(), expected.end(), before);
  const std::vector<Array> out =
      Module(sort(text)).run({make(DType::I32, {40}, a), make(DType::I32, {40}, b)});
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(values<int32_t>(out[0])[i], expected[i].first) << i;
    EXPECT_EQ(values<int32_t>(out[1])[i], expected[i].second) << i;
  }
}

TEST(ReductionOps, SortsByRecognisedComparators) {
  expect_sorted(R"(
      %1 = stablehlo.compare GT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
)",
                [](auto a, auto b) { return a.first > b.first; });
  expect_sorted(R"(
      %1 = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %2 = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = stablehlo.compare EQ, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = stablehlo.and %3, %1 : tensor<i1>
      %5 = stablehlo.or %2, %4 : tensor<i1>
      stablehlo.return %5 : tensor<i1>
)",
                [](auto a, auto b) { return a < b; });
}

TEST(ReductionOps, SortsByAnyComparatorAndStaysStable) {
  expect_sorted(R"(
      %1 = stablehlo.abs %x : tensor<i32>
      %2 = stablehlo.abs %y : tensor<i32>
      %3 = stablehlo.compare LT, %1, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
)",
                [](auto a, auto b) { return std::abs(a.first) < std::abs(b.first); });
}

TEST(ReductionOps, SortedDimensionsAreReplicated) {
  const Module m(sort(R"(
      %1 = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
)"));
  EXPECT_EQ(m.complaint("stablehlo.sort"), "");
  EXPECT_THAT(
      m.rule("stablehlo.sort"),
      HasSubstr("([i], [i])->([i], [i]) {i=40} need_replication={i} blocked_propagation={i}"));
}

}  // namespace
}  // namespace cleave
