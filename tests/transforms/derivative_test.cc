#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "cleave/transforms/diff.h"
#include "derivative_cases.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using Arrays = std::vector<Array>;

Arrays random_arrays(const std::vector<Type>& types, double low, double high, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  Arrays arrays;
  for (const Type& type : types) {
    Array array(DType::F64, type.shape);
    for (int64_t i = 0; i < array.num_elements(); ++i)
      array.data<double>()[i] = distribution(generator);
    arrays.push_back(array);
  }
  return arrays;
}

double dot(std::span<const Array> x, std::span<const Array> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Array a = x[i].contiguous(), b = y[i].contiguous();
    for (int64_t k = 0; k < a.num_elements(); ++k) sum += a.data<double>()[k] * b.data<double>()[k];
  }
  return sum;
}

double size_of(std::span<const Array> x) { return std::sqrt(dot(x, x)); }

Arrays moved(const Arrays& x, const Arrays& v, double step) {
  Arrays result;
  for (size_t i = 0; i < x.size(); ++i) {
    Array sum(DType::F64, x[i].shape());
    for (int64_t k = 0; k < sum.num_elements(); ++k)
      sum.data<double>()[k] = x[i].data<double>()[k] + step * v[i].data<double>()[k];
    result.push_back(sum);
  }
  return result;
}

Arrays joined(const Arrays& x, const Arrays& y) {
  Arrays all = x;
  all.insert(all.end(), y.begin(), y.end());
  return all;
}

// Forward mode against differences, reverse mode against forward mode: <J v, u> = <v, J^T u>.
void check_first_order(Graph& graph, const std::string& name, double low, double high,
                       bool differences) {
  const std::string forward = jvp(graph, name), backward = vjp(graph, name);
  verify_graph(graph);
  const Function function = *graph.find_function(name);
  const size_t results = function.result_types.size();
  const Arrays x = random_arrays(function.arg_types, low, high, 1);
  const Arrays v = random_arrays(function.arg_types, -1, 1, 2);
  const Arrays u = random_arrays(function.result_types, -1, 1, 3);
  const Arrays pushed = run_function(graph, forward, joined(x, v));
  const Arrays tangents(pushed.begin() + static_cast<ptrdiff_t>(results), pushed.end());
  const Arrays pulled = run_function(graph, backward, joined(x, u));
  const Arrays cotangents(pulled.begin() + static_cast<ptrdiff_t>(results), pulled.end());
  const double scale = 1 + size_of(tangents) * size_of(u);
  EXPECT_NEAR(dot(tangents, u), dot(v, cotangents), 1e-10 * scale) << print_module(graph);
  if (!differences) return;
  constexpr double kStep = 1e-6;
  const Arrays above = run_function(graph, name, moved(x, v, kStep));
  const Arrays below = run_function(graph, name, moved(x, v, -kStep));
  for (size_t i = 0; i < results; ++i) {
    const Array a = above[i].contiguous(), b = below[i].contiguous(), t = tangents[i].contiguous();
    for (int64_t k = 0; k < a.num_elements(); ++k) {
      const double difference = (a.data<double>()[k] - b.data<double>()[k]) / (2 * kStep);
      EXPECT_NEAR(t.data<double>()[k], difference, 1e-6 * (1 + std::abs(difference)))
          << "result " << i << " element " << k;
    }
  }
}

class Derivatives : public testing::TestWithParam<DerivativeCase> {};

TEST_P(Derivatives, FirstOrder) {
  Graph graph = parse_module(GetParam().text);
  check_first_order(graph, "main", GetParam().low, GetParam().high, true);
}

TEST_P(Derivatives, SecondOrder) {
  Graph graph = parse_module(GetParam().text);
  const std::string back = vjp(graph, "main");
  check_first_order(graph, back, GetParam().low, GetParam().high, false);
  const std::string forward = jvp(graph, "main");
  check_first_order(graph, forward, GetParam().low, GetParam().high, false);
}

// Both derivatives over three devices and over 2x3, in random layouts: most sizes do not divide.
TEST_P(Derivatives, OverShards) {
  const Graph whole = parse_module(GetParam().text);
  if (!whole.meshes.empty()) return;  // these have layouts of their own
  for (const auto& derive : {&jvp, &vjp})
    for (const char* mesh : {"x=3", "x=2,y=3"}) {
      Graph graph = whole;
      const std::string name = (*derive)(graph, "main", {});
      std::erase_if(graph.functions, [&](const Function& f) { return f.name == "main"; });
      graph.find_function(name)->name = "main";
      graph.meshes = {std::make_shared<const Mesh>(parse_mesh(mesh))};
      shard_randomly(graph, "main", graph.meshes[0], 7);
      const Function& main = *graph.find_function("main");
      const Arrays x = random_arrays(main.arg_types, GetParam().low, GetParam().high, 4);
      const Arrays expected = run_function(graph, "main", x);
      const Arrays actual = Executor(partition(graph, {.entry = "main"})).run(x);
      for (size_t i = 0; i < expected.size(); ++i) {
        const Comparison difference = compare(actual[i], expected[i], 1 << 20);
        EXPECT_TRUE(difference.same) << name << " over " << mesh << ": " << difference.first;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, Derivatives, testing::ValuesIn(derivative_cases()),
                         [](const auto& info) { return info.param.name; });

std::string error_of(const std::string& text,
                     std::string (*transform)(Graph&, std::string_view, const DiffOptions&)) {
  Graph graph = parse_module(text);
  return cleave::error_of([&] { transform(graph, "main", {}); });
}

TEST(DerivativeErrors, NameTheOpAndTheWayOut) {
  const std::string call = R"(func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
    %0 = stablehlo.custom_call @my_kernel(%x) : (tensor<3xf64>) -> tensor<3xf64>
    return %0 : tensor<3xf64>
  })";
  EXPECT_NE(error_of(call, vjp).find("my_kernel"), std::string::npos);
  EXPECT_NE(error_of(call, jvp).find("stop_gradient"), std::string::npos);
  const std::string unknown = R"(func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
    %0 = "other.op"(%x) : (tensor<3xf64>) -> tensor<3xf64>
    return %0 : tensor<3xf64>
  })";
  EXPECT_NE(error_of(unknown, vjp).find("other.op: has no reverse derivative"), std::string::npos);
  const std::string vector = R"(func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
    return %x : tensor<3xf64>
  })";
  EXPECT_NE(error_of(vector, grad).find("tensor<3xf64>; use vjp"), std::string::npos);
  const std::string loop = R"(func.func @main(%x: tensor<f64>) -> tensor<f64> {
    %0 = stablehlo.while(%a = %x) : tensor<f64> cond {
      %c = stablehlo.constant dense<10.0> : tensor<f64>
      %1 = stablehlo.compare LT, %a, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.multiply %a, %a : tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }
    return %0 : tensor<f64>
  })";
  EXPECT_NE(error_of(loop, vjp).find("stablehlo.while"), std::string::npos);
  EXPECT_EQ(error_of(loop, jvp), "no error");
}

// Where there is no derivative to be had, and what to ask for instead.
TEST(DerivativeErrors, WhatIsNotDefined) {
  const std::string full = R"(func.func @main(%x: tensor<4x3xf64>) -> tensor<4x4xf64> {
    %0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%x) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x4xf64>, tensor<3x3xf64>, tensor<i32>)
    return %0#2 : tensor<4x4xf64>
  })";
  const std::string vectors = R"(func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xcomplex<f64>> {
    %0:5 = stablehlo.custom_call @lapack_dgeev_ffi(%x) {mhlo.backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
    return %0#3 : tensor<3x3xcomplex<f64>>
  })";
  const std::string meeting =
      R"(func.func @main(%x: tensor<5xf64>, %u: tensor<2xf64>) -> tensor<5xf64> {
    %i = stablehlo.constant dense<[[1], [1]]> : tensor<2x1xi64>
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %1 = stablehlo.subtract %a, %b : tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }) : (tensor<5xf64>, tensor<2x1xi64>, tensor<2xf64>) -> tensor<5xf64>
    return %0 : tensor<5xf64>
  })";
  for (const auto& derive : {&jvp, &vjp}) {
    EXPECT_EQ(error_of(full, *derive),
              "stablehlo.custom_call: the vectors that full_matrices adds to those of a 4x3 matrix "
              "may be any basis of what is left, and have no derivative; ask for "
              "full_matrices=False");
    EXPECT_EQ(
        error_of(vectors, *derive),
        "stablehlo.custom_call: eigenvectors of a general matrix have no derivative, and "
        "eigenvalues only a first one; ask for eigenvalues alone, or use the decomposition of "
        "a symmetric matrix");
    EXPECT_EQ(error_of(meeting, *derive),
              "stablehlo.scatter: has a body that is neither the new value nor a sum, product, "
              "maximum or minimum of old and new, one for each operand; its derivative depends on "
              "the order in which windows meet, unless unique_indices = true says that none do");
  }
}

TEST(DerivativeErrors, UnusedFlowsAreNoErrors) {
  // The op has no rule, but its result does not count, or its operand is not asked for.
  Graph graph =
      parse_module(R"(func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
    %0 = stablehlo.custom_call @my_kernel(%y) : (tensor<3xf64>) -> tensor<3xf64>
    %1 = stablehlo.multiply %x, %0 : tensor<3xf64>
    return %1 : tensor<3xf64>
  })");
  EXPECT_NO_THROW(vjp(graph, "main", {{0}, {}}));
  EXPECT_THROW(vjp(graph, "main", {{1}, {}}), UserError);
}

TEST(DerivativeText, GradOfAProductIsTheOtherFactor) {
  Graph graph = parse_module(R"(func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.multiply %x, %y : tensor<f32>
    return %0 : tensor<f32>
  })");
  const std::string name = grad(graph, "main", {{0}, {}});
  std::erase_if(graph.functions, [&](const Function& f) { return f.name != name; });
  EXPECT_EQ(print_module(graph),
            R"(module {
  func.func public @main_grad(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<f32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.multiply %cst, %arg1 : tensor<f32>
    return %1 : tensor<f32>
  }
}
)");
}

TEST(DerivativeText, CotangentsHaveTheShardingOfTheirArguments) {
  Graph graph = parse_module(R"(sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<4x3xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<f64> {
    %c = stablehlo.constant dense<0.0> : tensor<f64>
    %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3xf64>, tensor<f64>) -> tensor<f64>
    return %0 : tensor<f64>
  })");
  const Function& made = *graph.find_function(grad(graph, "main"));
  EXPECT_EQ(made.result_attrs.at(0), made.arg_attrs.at(0));
  EXPECT_TRUE(made.result_attrs[0].has("sdy.sharding"));
}

}  // namespace
}  // namespace cleave
