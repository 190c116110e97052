#include <algorithm>

#include "../support/op_coverage.h"
#include "batch_harness.h"
#include "cleave/transforms/derivative_support.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

constexpr int64_t kExamples = 3;

std::string text_of(const Dims& dims) {
  std::string text;
  for (const auto& dim : dims)
    text += (text.empty() ? "" : ",") + (dim ? std::to_string(*dim) : "none");
  return text;
}

// Every combination of arguments with and without examples; in those that have them they come
// first, last, or somewhere between.
class EveryOp : public testing::TestWithParam<size_t> {};

TEST_P(EveryOp, IsLikeALoop) {
  const BatchSample& sample = batch_samples()[GetParam()];
  const Function& function = *sample.graph.find_function(sample.function);
  const size_t count = function.arg_types.size();
  std::vector<size_t> free;
  for (size_t i = 0; i < count; ++i)
    if (!function.arg_attrs[i].has("test.common")) free.push_back(i);
  for (size_t chosen = 1; chosen < size_t{1} << free.size(); ++chosen)
    for (int place = 0; place < 3; ++place) {
      VmapOptions options;
      options.size = kExamples;
      options.in_dims.resize(count);
      for (size_t k = 0; k < free.size(); ++k) {
        if (!(chosen >> k & 1)) continue;
        const auto rank = static_cast<int64_t>(function.arg_types[free[k]].rank());
        options.in_dims[free[k]] = place == 0   ? 0
                                   : place == 1 ? -1
                                                : (static_cast<int64_t>(k) + 1) % (rank + 1);
      }
      for (size_t r = 0; r < function.result_types.size(); ++r)
        options.out_dims.push_back(place == 1 ? -1 : 0);
      expect_like_loop(sample.graph, sample.function, options,
                       sample.name + " in=" + text_of(options.in_dims));
    }
}

INSTANTIATE_TEST_SUITE_P(Vmap, EveryOp, testing::Range(size_t{0}, batch_samples().size()),
                         [](const auto& info) {
                           std::string name = batch_samples()[info.param].name;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name + "_" + std::to_string(info.param);
                         });

// Ops that are batched in some sample, and those that a loop does not show: these draw numbers
// (RandomNumbersBetweenOwnBounds), or have no kernel (QuantizedTypes).
const std::set<std::string> kApart{"stablehlo.rng", "stablehlo.uniform_quantize",
                                   "stablehlo.uniform_dequantize"};
std::set<std::string> batched_ops() {
  std::set<std::string> ops = kApart;
  for (const BatchSample& sample : batch_samples())
    for (const std::string& name : ops_of(sample.graph, sample.function)) {
      const OpDef& def = *find_op(name);
      if (def.batch || def.has(kElementwise)) ops.insert(name);
    }
  return ops;
}

// A rule that no sample uses would be a rule that nobody has tried.
TEST(Vmap, EveryRuleHasASample) {
  const std::set<std::string> covered = batched_ops();
  for (const auto& [name, def] : op_registry().ops())
    EXPECT_TRUE(!has_batch(def) || covered.contains(name)) << name;
}

TEST(Vmap, Coverage) { expect_coverage("batch", batched_ops()); }

TEST(Vmap, Nested) {
  for (const char* name : {"dot_general", "convolution", "gather", "scatter", "while_own_count",
                           "case", "dynamic_update_slice", "reduce_sum", "sort", "call"}) {
    const auto& samples = batch_samples();
    const auto sample =
        std::ranges::find_if(samples, [&](const auto& s) { return s.name == name; });
    ASSERT_NE(sample, samples.end());
    Graph graph = sample->graph;
    const Function function = *graph.find_function(name);
    VmapOptions inner{.in_dims = Dims(function.arg_types.size()),
                      .out_dims = Dims(function.result_types.size(), 0),
                      .size = 3};
    inner.in_dims[0] = 0;
    const std::string once = vmap(graph, name, inner);
    VmapOptions outer = inner;
    outer.size = 2;
    outer.in_dims.assign(function.arg_types.size(), -1);
    expect_like_loop(graph, once, outer, std::string("nested ") + name);
    outer.in_dims.assign(function.arg_types.size(), std::nullopt);
    outer.in_dims.back() = 0;
    expect_like_loop(graph, once, outer, std::string("nested in another argument ") + name);
  }
}

TEST(Vmap, WhatAllExamplesShareIsComputedOnce) {
  Graph graph = parse_module(R"(
    func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.exponential %w : tensor<4xf32>
      %1 = stablehlo.add %x, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    })");
  vmap(graph, "f", {.in_dims = {0, {}}, .out_dims = {0}, .size = 7});
  const std::string text = print_module(graph);
  EXPECT_NE(text.find("stablehlo.exponential %arg1 : tensor<4xf32>\n    %1 = stablehlo.broadcast"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("func.func @f_vmap(%arg0: tensor<7x4xf32>"), std::string::npos) << text;
}

std::string message_of(const std::string& text, const VmapOptions& options) {
  Graph graph = parse_module(text);
  return error_of([&] { vmap(graph, graph.functions.front().name, options); });
}

TEST(Vmap, Errors) {
  const std::string sine = R"(func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.sine %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  })";
  EXPECT_EQ(message_of(sine, {.in_dims = {2}, .out_dims = {0}, .size = 3}),
            "vmap: dimension 2 of argument 0 is outside of [-2, 2); one example is tensor<4xf32>");
  EXPECT_EQ(message_of(sine, {.in_dims = {0}, .out_dims = {std::nullopt}, .size = 3}),
            "vmap: result 0 depends on the examples, and the out dimensions say that it does not; "
            "give it a dimension");
  EXPECT_EQ(message_of(sine, {.in_dims = {0}, .out_dims = {0}, .size = 0}),
            "vmap: the number of examples must be positive, got 0");
  EXPECT_EQ(message_of(sine, {.in_dims = {}, .out_dims = {0}, .size = 2}),
            "vmap: @f has 1 arguments and 1 results, and 0 in_dims and 1 out_dims are given");
  EXPECT_EQ(message_of(sine, {.in_dims = {0}, .out_dims = {0}, .size = 2, .spmd_axis = "data"}),
            "vmap: the examples are to be sharded over the axis \"data\", which no mesh of the "
            "module has");
  EXPECT_EQ(message_of(R"(func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "test.unknown"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  })",
                       {.in_dims = {0}, .out_dims = {0}, .size = 3}),
            "vmap: test.unknown has no batching rule, and nobody knows the op; run it outside of "
            "vmap");
  EXPECT_EQ(
      message_of(R"(func.func @f(%x: tensor<4xf32>, %t: !stablehlo.token) -> !stablehlo.token {
    %0 = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return %0 : !stablehlo.token
  })",
                 {.in_dims = {0, {}}, .out_dims = {{}}, .size = 3}),
      "vmap: stablehlo.outfeed: talks to the host or to another program, once, and 3 "
      "examples are batched; call it outside of vmap");
  // Also where all examples would send or get the same: each would do so.
  const VmapOptions token{.in_dims = {0, {}}, .out_dims = {0, {}}, .size = 3};
  const auto talks = [&](const std::string& op, const std::string& result) {
    return message_of(
        "func.func @f(%x: tensor<4xf32>, %t: !stablehlo.token) -> (tensor<4xf32>, "
        "!stablehlo.token) {\n  %c = stablehlo.constant dense<1.0> : tensor<4xf32>\n" +
            op + "\n  return %x, " + result + " : tensor<4xf32>, !stablehlo.token\n}",
        token);
  };
  const std::string end =
      ": talks to the host or to another program, once, and 3 examples are batched; call it "
      "outside of vmap";
  EXPECT_EQ(
      talks(
          R"(%0:2 = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token))",
          "%0#1"),
      "vmap: stablehlo.infeed" + end);
  // Type 2 goes to the host, 3 comes from it.
  const auto channel = [](int type) {
    return "<{channel_handle = #stablehlo.channel_handle<handle = 1, type = " +
           std::to_string(type) + ">, is_host_transfer = true}>";
  };
  EXPECT_EQ(talks("%0:2 = \"stablehlo.recv\"(%t) " + channel(3) +
                      " : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)",
                  "%0#1"),
            "vmap: stablehlo.recv" + end);
  for (const char* sent : {"%x", "%c"})
    EXPECT_EQ(talks("%0 = \"stablehlo.send\"(" + std::string(sent) + ", %t) " + channel(2) +
                        " : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token",
                    "%0"),
              "vmap: stablehlo.send" + end);
  EXPECT_EQ(message_of(R"(func.func @f(%s: tensor<1xi64>) -> tensor<4xi64> {
    %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<4xi64>
    return %0 : tensor<4xi64>
  })",
                       {.in_dims = {0}, .out_dims = {0}, .size = 3}),
            "vmap: stablehlo.dynamic_iota: operand 0 holds sizes and differs between examples, "
            "whose results would then differ in shape; make it the same for all of them");
  EXPECT_EQ(message_of(R"(func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @log_it(%x) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  })",
                       {.in_dims = {0}, .out_dims = {0}, .size = 3}),
            "vmap: stablehlo.custom_call: @log_it has a side effect, and vmap cannot tell what it "
            "means for 3 examples; call it outside of vmap");
}

// Scales of their own along a dimension stay with that dimension.
TEST(Vmap, QuantizedTypes) {
  Graph graph = parse_module(R"(
    func.func @f(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 2.0:-1}>>) {
      %0 = stablehlo.uniform_quantize %x : (tensor<4x2xf32>) -> tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 2.0:-1}>>
      %1 = stablehlo.uniform_dequantize %0 : (tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 2.0:-1}>>) -> tensor<4x2xf32>
      return %1, %0 : tensor<4x2xf32>, tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 2.0:-1}>>
    })");
  const std::string front = vmap(graph, "f", {.in_dims = {0}, .out_dims = {0, 0}, .size = 3});
  const std::string back = vmap(graph, "f", {.in_dims = {2}, .out_dims = {2, 2}, .size = 3});
  verify_graph(graph);
  EXPECT_EQ(to_string(graph.find_function(front)->result_types[0]), "tensor<3x4x2xf32>");
  EXPECT_EQ(to_string(graph.find_function(front)->result_types[1]),
            "tensor<3x4x2x!quant.uniform<i8:f32:2, {0.5:3, 2.0:-1}>>");
  EXPECT_EQ(to_string(graph.find_function(back)->result_types[1]),
            "tensor<4x2x3x!quant.uniform<i8:f32:1, {0.5:3, 2.0:-1}>>");
}

// Numbers are drawn for every example, and stretched to its own bounds.
TEST(Vmap, RandomNumbersBetweenOwnBounds) {
  Graph graph = parse_module(R"(func.func @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<50xf32> {
    %s = stablehlo.constant dense<[50]> : tensor<1xi64>
    %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<50xf32>
    return %0 : tensor<50xf32>
  })");
  const std::string name = vmap(graph, "f", {.in_dims = {0, 0}, .out_dims = {0}, .size = 2});
  const float low[] = {0, 10}, high[] = {1, 30};
  const Array x = run_function(graph, name,
                               std::vector<Array>{Array::from_bytes(DType::F32, {2}, low),
                                                  Array::from_bytes(DType::F32, {2}, high)})[0]
                      .contiguous();
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(x.data<float>()[i] >= 0 && x.data<float>()[i] < 1);
    EXPECT_TRUE(x.data<float>()[50 + i] >= 10 && x.data<float>()[50 + i] < 30);
    EXPECT_NE(x.data<float>()[i] * 20 + 10, x.data<float>()[50 + i]);
  }
}

TEST(Vmap, RandomNumbersOfOneKindAreDrawnOnce) {
  const std::string text = R"(func.func @f(%x: tensor<3xf32>, %a: tensor<f32>) -> tensor<3xf32> {
    %s = stablehlo.constant dense<[3]> : tensor<1xi64>
    %c = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.rng %a, %c, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
    %1 = stablehlo.subtract %0, %x : tensor<3xf32>
    return %1 : tensor<3xf32>
  })";
  Graph graph = parse_module(text);
  const std::string name = vmap(graph, "f", {.in_dims = {0, {}}, .out_dims = {0}, .size = 2});
  const float mean = 5;
  const Array x = run_function(graph, name,
                               std::vector<Array>{Array::zeros(DType::F32, {2, 3}),
                                                  Array::from_bytes(DType::F32, {}, &mean)})[0]
                      .contiguous();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(x.data<float>()[i], x.data<float>()[3 + i]);
  const std::string whole = R"(func.func @f(%a: tensor<i32>) -> tensor<3xi32> {
    %s = stablehlo.constant dense<[3]> : tensor<1xi64>
    %c = stablehlo.constant dense<9> : tensor<i32>
    %0 = stablehlo.rng %a, %c, %s, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<3xi32>
    return %0 : tensor<3xi32>
  })";
  EXPECT_EQ(message_of(whole, {.in_dims = {0}, .out_dims = {0}, .size = 2}),
            "vmap: stablehlo.rng: the bounds differ between examples, which works for floats "
            "alone, got tensor<3xi32>; draw floats and convert them, or draw with "
            "stablehlo.rng_bit_generator from a key of each example");
}

}  // namespace
}  // namespace cleave
