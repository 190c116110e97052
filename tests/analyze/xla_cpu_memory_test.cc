#include "cleave/analyze/xla_cpu_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "cleave/analyze/xla_cpu/packing.h"
#include "cleave/graph/text/text.h"

namespace cleave::analyze {
namespace {

// The numbers of each case are those of `memory_analysis` of the same module, compiled by JAX
// 0.10.2.
XlaCpuMemory memory_of(const std::string& body) {
  return xla_cpu_memory(parse_module("module {\n" + body + "\n}"), "main");
}

TEST(XlaCpuMemory, AFunctionBetweenProductsIsWrittenInPlace) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.tanh %0 : tensor<256x256xf32>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %2 : tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.arguments, 524288);
  EXPECT_EQ(memory.results, 262144);
  EXPECT_EQ(memory.temporaries, 262144);
}

TEST(XlaCpuMemory, ProductsOfBf16AreComputedInF32) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%x: tensor<256x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
    %1 = stablehlo.tanh %0 : tensor<256x256xbf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
    return %2 : tensor<256x256xbf16>
  })");
  EXPECT_EQ(memory.arguments, 262144);
  EXPECT_EQ(memory.results, 131072);
  EXPECT_EQ(memory.temporaries, 786432);
}

TEST(XlaCpuMemory, ProductsOfF16AreComputedInF32) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%x: tensor<256x256xf16>, %w: tensor<256x256xf16>) -> tensor<256x256xf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
    %1 = stablehlo.tanh %0 : tensor<256x256xf16>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<256x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
    return %2 : tensor<256x256xf16>
  })");
  EXPECT_EQ(memory.arguments, 262144);
  EXPECT_EQ(memory.results, 131072);
  EXPECT_EQ(memory.temporaries, 786432);
}

// The result is the argument itself, and needs no place of its own.
TEST(XlaCpuMemory, AnAdditionOfZeroIsNone) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%p: tensor<256x256xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<256x256xf32>
    %0 = stablehlo.add %p, %zero : tensor<256x256xf32>
    %1 = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %0, %1 : tensor<256x256xf32>, tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.results, 524304);
  EXPECT_EQ(memory.aliased, 262144);
  EXPECT_EQ(memory.temporaries, 0);
}

// XLA holds 132 bytes of the key beside it.
TEST(XlaCpuMemory, RandomBitsAreComputedWhereTheyAreRead) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%key: tensor<2xui64>, %x: tensor<256x256xf32>) -> (tensor<2xui64>, tensor<256x256xf32>) {
    %next, %bits = stablehlo.rng_bit_generator %key, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<256x256xui32>)
    %c = stablehlo.constant dense<2147483648> : tensor<ui32>
    %half = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui32>) -> tensor<256x256xui32>
    %keeps = stablehlo.compare LT, %bits, %half, UNSIGNED : (tensor<256x256xui32>, tensor<256x256xui32>) -> tensor<256x256xi1>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<256x256xf32>
    %y = stablehlo.select %keeps, %x, %zeros : tensor<256x256xi1>, tensor<256x256xf32>
    return %next, %y : tensor<2xui64>, tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.arguments, 262160);
  EXPECT_EQ(memory.results, 262176);
  EXPECT_LT(memory.temporaries, 256);
}

// The result takes the argument's place, which a product reads as well, before or after it.
TEST(XlaCpuMemory, ADonatedArgumentThatIsReadLaterIsCopied) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%p: tensor<256x256xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
    %0 = stablehlo.subtract %p, %x : tensor<256x256xf32>
    %1 = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %0, %1 : tensor<256x256xf32>, tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.results, 524304);  // with a table of two pointers
  EXPECT_EQ(memory.aliased, 262144);
  EXPECT_EQ(memory.temporaries, 262144);
}

TEST(XlaCpuMemory, ADonatedArgumentThatIsReadBeforeIsNotCopied) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%p: tensor<256x256xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %0 = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.subtract %p, %0 : tensor<256x256xf32>
    return %1 : tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.aliased, 262144);
  EXPECT_EQ(memory.temporaries, 262144);
}

TEST(XlaCpuMemory, ASoftmaxIsWrittenIntoItsResult) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<256x256xf32>, tensor<f32>) -> tensor<256xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<256xf32>) -> tensor<256x256xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<256x256xf32>
    %3 = stablehlo.exponential %2 : tensor<256x256xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<256x256xf32>, tensor<f32>) -> tensor<256xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<256xf32>) -> tensor<256x256xf32>
    %6 = stablehlo.divide %3, %5 : tensor<256x256xf32>
    return %6 : tensor<256x256xf32>
  })");
  EXPECT_EQ(memory.results, 262144);
  EXPECT_EQ(memory.temporaries, 1024);
}

TEST(XlaCpuMemory, ALoopFillsItsStackInPlace) {
  const XlaCpuMemory memory = memory_of(R"(
  func.func public @main(%x: tensor<128x128xf32>) -> (tensor<128x128xf32>, tensor<4x128x128xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %first = stablehlo.constant dense<0> : tensor<i32>
    %stack = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x128x128xf32>
    %1:3 = stablehlo.while(%i = %first, %c = %x, %s = %stack) : tensor<i32>, tensor<128x128xf32>, tensor<4x128x128xf32>
    cond {
      %end = stablehlo.constant dense<4> : tensor<i32>
      %2 = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0] : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
      %3 = stablehlo.sine %2 : tensor<128x128xf32>
      %4 = stablehlo.reshape %c : (tensor<128x128xf32>) -> tensor<1x128x128xf32>
      %5 = stablehlo.dynamic_update_slice %s, %4, %i, %first, %first : (tensor<4x128x128xf32>, tensor<1x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x128x128xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %6, %3, %5 : tensor<i32>, tensor<128x128xf32>, tensor<4x128x128xf32>
    }
    return %1#1, %1#2 : tensor<128x128xf32>, tensor<4x128x128xf32>
  })");
  EXPECT_EQ(memory.results, 327696);
  EXPECT_NEAR(static_cast<double>(memory.temporaries), 65668, 1024);  // counters, tables
}

TEST(XlaCpuMemory, BlocksThatAreNeverInUseTogetherShareTheirPlace) {
  using hlo::packed_bytes;
  EXPECT_EQ(packed_bytes({{64, {{0, 1}}}, {64, {{2, 3}}}}), 64);
  EXPECT_EQ(packed_bytes({{64, {{0, 2}}}, {64, {{2, 3}}}}), 128);
  // The gap of the first is taken by the third.
  EXPECT_EQ(packed_bytes({{128, {{0, 1}, {6, 7}}}, {64, {{0, 7}}}, {128, {{2, 5}}}}), 192);
}

}  // namespace
}  // namespace cleave::analyze
