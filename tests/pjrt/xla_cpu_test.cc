#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"
#include "cleave/kernels/array_text.h"
#include "cleave/pjrt/loaded_program.h"
#include "cleave/pjrt/xla_executable.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "tests/pjrt/cpu_plugin.h"

// With XLA's CPU plugin: nothing here was written by us but the calls.
namespace cleave::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<Client> client(int64_t devices) { return Client::shared(*cpu_plugin(), devices); }

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

const DType kAll[] = {
    DType::Bool,   DType::I8,         DType::I16,      DType::I32,        DType::I64,
    DType::U8,     DType::U16,        DType::U32,      DType::U64,        DType::F16,
    DType::BF16,   DType::F32,        DType::F64,      DType::C64,        DType::C128,
    DType::I2,     DType::I4,         DType::U2,       DType::U4,         DType::F4E2M1FN,
    DType::F8E3M4, DType::F8E4M3,     DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E4M3B11FNUZ,
    DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0FNU};

// Bytes that are elements of any type: small counts.
Array some_array(DType dtype, const Shape& shape) {
  Array array = Array::zeros(dtype, shape);
  const int bits = std::min(bit_width(dtype), 8);
  for (size_t i = 0; i < array.num_bytes(); ++i)
    array.raw()[i] = static_cast<std::byte>(i * 5 % (size_t{1} << bits));
  return array;
}

TEST(XlaCpu, TakesArraysOfEveryType) {
  NEED_CPU_PLUGIN();
  for (DType dtype : kAll)
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 0, 3}, Shape{2, 3, 2, 2}}) {
      const Array array = some_array(dtype, shape);
      const BufferPtr buffer = client(2)->to_device(array, 1);
      EXPECT_EQ(buffer->dtype(), dtype);
      EXPECT_TRUE(identical(buffer->to_host(), array)) << name(dtype) << " " << to_text(array);
    }
}

TEST(XlaCpu, RunsProgramsOfEveryType) {
  NEED_CPU_PLUGIN();
  for (DType dtype : kAll) {
    const std::string type(name(dtype));
    const Graph graph =
        parse_module("func.func @main(%a: tensor<3x4x" + type + ">) -> tensor<4x3x" + type +
                     "> {\n %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x4x" + type +
                     ">) -> tensor<4x3x" + type + ">\n return %0 : tensor<4x3x" + type + ">\n}\n");
    const Array array = some_array(dtype, {3, 4});
    const XlaExecutable executable(client(1), one_device_module(graph, "main"));
    const std::vector<std::vector<Array>> results = executable.run({{array}});
    EXPECT_TRUE(identical(results[0][0], array.transpose({1, 0}).contiguous()))
        << type << " " << to_text(results[0][0]);
  }
}

constexpr const char* kLayer = R"(
func.func @layer(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<f32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = func.call @gelu(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<8x4xf32>, tensor<f32>
}
func.func @gelu(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = chlo.erf %x : tensor<8x4xf32> -> tensor<8x4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
func.func @unused(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }
)";

TEST(XlaCpu, AgreesWithOurKernels) {
  NEED_CPU_PLUGIN();
  const Graph graph = parse_module(kLayer);
  const std::vector<Array> args = {make_array(Type::tensor(DType::F32, {8, 16}), "random:1"),
                                   make_array(Type::tensor(DType::F32, {16, 4}), "random:2")};
  const XlaExecutable executable(client(1), one_device_module(graph, "layer"));
  const std::vector<Array> ours = run_function(graph, "layer", args);
  const std::vector<Array> theirs = executable.run({args})[0];
  for (size_t i = 0; i < ours.size(); ++i)
    for (int64_t k = 0; k < ours[i].num_elements(); ++k)
      EXPECT_NEAR(ours[i].data<float>()[k], theirs[i].data<float>()[k], 1e-4);
  const ProgramMemory memory = executable.program().memory_stats();
  EXPECT_EQ(memory.arguments, 4 * (8 * 16 + 16 * 4));
  // Results are a tuple: its table of pointers counts.
  EXPECT_GE(memory.outputs, 4 * (8 * 4 + 1));
  EXPECT_THAT(executable.program().compiled_text(),
              AllOf(HasSubstr("HloModule"), HasSubstr("ENTRY %main"), HasSubstr("f32[8,16]{1,0}"),
                    HasSubstr("parameter(1)")));
}

// What every device runs: sums over two groupings, and everything else that moves elements.
constexpr const char* kCollectives = R"(
func.func @main(%a: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<1x8xf32>, tensor<2x4xf32>, tensor<i32>) {
  %id = stablehlo.partition_id : tensor<ui32>
  %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %x = stablehlo.add %a, %b : tensor<2x4xf32>
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %2 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %3 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<2x4xf32>) -> tensor<1x8xf32>
  %4 = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %5:2 = stablehlo.while(%i = %zero, %n = %zero) : tensor<i32>, tensor<i32>
   cond {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %mine = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %all = "stablehlo.all_reduce"(%mine) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<i32>, %q: tensor<i32>):
      %s = stablehlo.add %p, %q : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %sum = stablehlo.add %n, %all : tensor<i32>
    stablehlo.return %next, %sum : tensor<i32>, tensor<i32>
  }
  return %0, %1, %2, %3, %4, %5#1 : tensor<2x4xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<1x8xf32>, tensor<2x4xf32>, tensor<i32>
}
)";

TEST(XlaCpu, RunsOneProgramOnFourDevices) {
  NEED_CPU_PLUGIN();
  const Graph graph = parse_module(kCollectives);
  const XlaExecutable executable(client(4), every_device_module(graph, "main", 4));
  std::vector<std::vector<Array>> args;
  float x[4][2][4];
  for (int d = 0; d < 4; ++d) {
    args.push_back({Array(DType::F32, {2, 4})});
    for (int i = 0; i < 8; ++i) {
      args[d][0].data<float>()[i] = static_cast<float>(100 * d + i);
      x[d][i / 4][i % 4] = static_cast<float>(100 * d + i + d);
    }
  }
  const std::vector<std::vector<Array>> results = executable.run(args);
  for (int d = 0; d < 4; ++d) {
    const auto at = [&](int result, int i, int j, int columns) {
      return results[d][result].data<float>()[i * columns + j];
    };
    const int first = d / 2 * 2;  // of the pairs {0, 1} and {2, 3}
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(at(0, i, j, 4), x[d % 2][i][j] + x[d % 2 + 2][i][j]);
        for (int k = 0; k < 2; ++k) {
          EXPECT_EQ(at(1, 2 * k + i, j, 4), x[first + k][i][j]);
          EXPECT_EQ(at(3, 0, 4 * k + j, 8), x[first + k][d % 2][j]);
        }
        EXPECT_EQ(at(4, i, j, 4), d == 0 ? 0 : x[d - 1][i][j]);
        if (j / 2 == d % 2) {
          EXPECT_EQ(at(2, i, j % 2, 2), x[first][i][j] + x[first + 1][i][j]);
        }
      }
    EXPECT_EQ(*results[d][5].data<int32_t>(), 3 * (0 + 1 + 2 + 3));
  }
  EXPECT_THAT(
      executable.program().compiled_text(),
      AllOf(HasSubstr(" all-reduce("), HasSubstr(" all-gather("), HasSubstr(" reduce-scatter("),
            HasSubstr(" all-to-all("), HasSubstr(" collective-permute("),
            HasSubstr("source_target_pairs={{0,1},{1,2},{2,3}}"),
            HasSubstr("replica_groups={{0,2},{1,3}}"), HasSubstr("condition=%"),
            HasSubstr("\"known_trip_count\":{\"n\":\"3\"}")));
}

TEST(XlaCpu, GivesDonatedMemoryToResults) {
  NEED_CPU_PLUGIN();
  const Graph graph = parse_module(R"(
func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.add %a, %b : tensor<1024xf32>
  return %0 : tensor<1024xf32>
})");
  const XlaExecutable executable(client(1), one_device_module(graph, "main"));
  EXPECT_EQ(executable.module().donated, std::vector<bool>({true, false}));
  EXPECT_EQ(executable.program().memory_stats().aliased, 4096);
  const Array ones = make_array(Type::tensor(DType::F32, {1024}), "ones");
  std::vector<std::vector<BufferPtr>> args = {
      {executable.to_device(ones, 0, 0), executable.to_device(ones, 1, 0)}};
  const std::vector<std::vector<BufferPtr>> kept = executable.start(args, std::vector<int64_t>{0});
  EXPECT_FALSE(args[0][0]->is_deleted());
  const std::vector<std::vector<BufferPtr>> results = executable.start(args);
  EXPECT_TRUE(args[0][0]->is_deleted());
  EXPECT_FALSE(args[0][1]->is_deleted());
  EXPECT_EQ(results[0][0]->to_host().data<float>()[1023], 2.f);
  EXPECT_THAT(error_of([&] { executable.start(args)[0][0]->to_host(); }),
              HasSubstr("xla_cpu_pjrt"));
  // A donated argument that has no result of its type is free for others.
  const Graph other = parse_module(R"(
func.func @main(%a: tensor<8xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
})");
  EXPECT_THAT(one_device_module(other, "main").text, HasSubstr("jax.buffer_donor = true"));
  XlaExecutable(client(1), one_device_module(other, "main")).run({{some_array(DType::F32, {8})}});
}

TEST(XlaCpu, RefusesWhatItCannotTake) {
  NEED_CPU_PLUGIN();
  const auto module_error = [](const char* text) {
    return error_of([&] { one_device_module(parse_module(text), "main"); });
  };
  EXPECT_THAT(
      module_error(
          "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"),
      HasSubstr("argument 0 of the function is tensor<?xf32>; XLA's engine needs sizes"));
  EXPECT_THAT(module_error("func.func @main(%a: !stablehlo.token) -> !stablehlo.token { return %a "
                           ": !stablehlo.token }"),
              HasSubstr("only tensors can be"));
  EXPECT_THAT(module_error("func.func @main(%a: tensor<2xf6E2M3FN>) -> tensor<2xf6E2M3FN> { return "
                           "%a : tensor<2xf6E2M3FN> }"),
              HasSubstr("PJRT has no name for elements of f6E2M3FN"));
  const Graph graph = parse_module(kLayer);
  const XlaExecutable executable(client(1), one_device_module(graph, "layer"));
  EXPECT_THAT(error_of([&] {
                executable.run({{some_array(DType::F32, {8, 16})}});
              }),
              HasSubstr("takes 2 arguments, and 1 are given"));
  EXPECT_THAT(
      error_of([&] {
        executable.run({{some_array(DType::F32, {8, 15}), some_array(DType::F32, {16, 4})}});
      }),
      HasSubstr("argument 0 of the function is tensor<8x16xf32>, and tensor<8x15xf32> is given"));
  EXPECT_THAT(error_of([&] { client(1)->compile("this is no module"); }),
              HasSubstr("xla_cpu_pjrt: compiling: "));
  EXPECT_THAT(error_of([&] {
                XlaExecutable(
                    client(1),
                    one_device_module(
                        parse_module("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = "
                                     "stablehlo.custom_call @nobody_knows(%a) : (tensor<2xf32>) -> "
                                     "tensor<2xf32>\n return %0 : tensor<2xf32>\n}"),
                        "main"))
                    .run({{some_array(DType::F32, {2})}});
              }),
              HasSubstr("nobody_knows"));
}

}  // namespace
}  // namespace cleave::pjrt
