#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/npy.h"
#include "cleave/transforms.h"
#include "tensor_cases.h"

// Every function of the library: sharded in many ways against unsharded here, and unsharded against
// NumPy and JAX in tests/reference/test_tensor_ops.py, which runs this test with CLEAVE_DUMP set to
// a folder and compares what it finds there. Gradients likewise, of cases that are smooth; and vmap
// against a loop.
namespace cleave {
namespace {

std::vector<Case> arithmetic_cases() {
  return {
      // elementwise, broadcasting and promotion
      {"add", {f32({7, 6}), f32({6})}, [](Args x) { return Results{x[0] + x[1]}; }},
      {"sub", {f32({7, 1}), f32({6})}, [](Args x) { return Results{x[0] - x[1]}; }},
      {"mul_scalar", {f16({7, 6})}, [](Args x) { return Results{x[0] * 1.5}; }},
      {"add_int_float", {i32({6}), f16({5, 6})}, [](Args x) { return Results{x[0] + x[1]}; }},
      {"add_u8_i8", {u8({6}), i8({6})}, [](Args x) { return Results{x[0] + x[1]}; }},
      {"add_f64", {f32({4, 6}), f64({6})}, [](Args x) { return Results{x[0] + x[1]}; }},
      {"int_times_half", {i32({6})}, [](Args x) { return Results{x[0] * 0.5}; }},
      {"true_divide",
       {i32({7, 6}), i32({7, 6})},
       [](Args x) { return Results{x[0] / (x[1] + 1)}; }},
      {"floor_divide",
       {i32({7, 6}), i32({7, 6})},
       [](Args x) { return Results{floor_divide(x[0] - 5, x[1] - 20)}; }},
      {"remainder",
       {i32({7, 6}), i32({7, 6})},
       [](Args x) { return Results{remainder(x[0] - 5, x[1] - 20)}; }},
      {"remainder_float",
       {f32({7, 6}), f32({7, 6})},
       [](Args x) { return Results{remainder(x[0], x[1])}; }},
      {"pow", {f32({7, 6}), f32({7, 6})}, [](Args x) { return Results{pow(abs(x[0]), x[1])}; }},
      {"maximum",
       {f32({7, 6}), f32({6})},
       [](Args x) {
         return Results{maximum(x[0], x[1]), minimum(x[0], 0.25)};
       }},
      {"logic",
       {b1({7, 6}), b1({7, 6})},
       [](Args x) {
         return Results{x[0] && x[1], x[0] || x[1], logical_xor(x[0], x[1]), !x[0]};
       }},
      {"bits",
       {i32({7, 6}), i32({7, 6})},
       [](Args x) {
         return Results{bitwise_and(x[0], x[1]), bitwise_or(x[0], x[1]),   bitwise_xor(x[0], x[1]),
                        shift_left(x[0], 2),     shift_right(x[0] - 9, 1), bitwise_not(x[0])};
       }},
      {"compare",
       {i32({7, 6}), i32({6})},
       [](Args x) {
         return Results{x[0] == x[1], x[0] != x[1], x[0]<x[1], x[0] <= x[1], x[0]> x[1], x[0] >= 4};
       }},
      {"where",
       {b1({7, 1}), f32({7, 6}), i32({6})},
       [](Args x) {
         return Results{where(x[0], x[1], x[2]), where(x[0], x[1], 0)};
       }},
      {"clip", {f32({7, 6})}, [](Args x) { return Results{clip(x[0], -0.5, 0.25)}; }},
  };
}

std::vector<Case> function_cases() {
  return {
      // functions
      {"exponents",
       {f32({7, 6})},
       [](Args x) {
         const Tensor a = abs(x[0]) + 0.1;
         return Results{exp(x[0]), expm1(x[0]), log(a),   log1p(a),
                        log2(a),   sqrt(a),     rsqrt(a), cbrt(x[0])};
       }},
      {"angles",
       {f32({7, 6})},
       [](Args x) {
         const Tensor a = tanh(x[0]);
         return Results{sin(x[0]),     cos(x[0]),  tan(a),     asin(a),     acos(a),
                        atan(x[0]),    sinh(x[0]), cosh(x[0]), asinh(x[0]), acosh(abs(x[0]) + 1.5),
                        atanh(a * 0.9)};
       }},
      {"specials",
       {f32({7, 6})},
       [](Args x) {
         return Results{erf(x[0]),
                        erfc(x[0]),
                        erf_inv(tanh(x[0]) * 0.9),
                        lgamma(abs(x[0]) + 0.5),
                        digamma(abs(x[0]) + 0.5),
                        sigmoid(x[0])};
       },
       4000},
      {"rounding",
       {f32({7, 6})},
       [](Args x) {
         const Tensor a = x[0] * 3;
         return Results{floor(a), ceil(a), round(a), sign(a), -a, square(a), reciprocal(a)};
       }},
      {"tests",
       {f32({7, 6})},
       [](Args x) {
         const Tensor a = where(x[0] > 1, INFINITY, where(x[0] < -1, NAN, x[0]));
         return Results{is_finite(a), is_nan(a), is_inf(a)};
       }},
      {"cast",
       {f32({7, 6})},
       [](Args x) {
         return Results{cast(x[0] * 5, DType::I32), cast(x[0], DType::F16)};
       }},
      {"logaddexp", {f32({7, 6}), f32({6})}, [](Args x) { return Results{logaddexp(x[0], x[1])}; }},
      {"complex",
       {f32({7, 6}), f32({7, 6})},
       [](Args x) {
         const Tensor z = complex(x[0], x[1]);
         return Results{z * z, abs(z), real(z), imag(z), conj(z), exp(z)};
       }},
  };
}

std::vector<Case> creation_cases() {
  return {
      // creation
      {"creation",
       {},
       [](Args) {
         return Results{zeros({3, 4}),
                        ones({5}, DType::I32),
                        full({2, 3}, 2.5, DType::F64),
                        arange(10),
                        arange(2, 20, 3),
                        arange(0.0, 1.0, 0.25),
                        linspace(-1, 2, 7),
                        eye(4),
                        eye(3, 5),
                        iota({3, 4}, 1)};
       }},
  };
}

std::vector<Case> reduction_cases() {
  return {
      // reductions
      {"sums",
       {f32({7, 6, 5})},
       [](Args x) {
         return Results{sum(x[0]), sum(x[0], {1}), sum(x[0], {0, -1}, true), prod(x[0], {2})};
       }},
      {"sum_small_ints",
       {u8({7, 6})},
       [](Args x) {
         return Results{sum(x[0]), sum(x[0], {0})};
       }},
      {"extremes",
       {f32({7, 6})},
       [](Args x) {
         return Results{max(x[0]), max(x[0], {1}, true), min(x[0], {0})};
       }},
      {"any_all",
       {b1({7, 6})},
       [](Args x) {
         return Results{any(x[0], {1}), all(x[0], {0}), any(x[0]), all(x[0])};
       }},
      {"moments",
       {f32({7, 6})},
       [](Args x) {
         return Results{mean(x[0]), mean(x[0], {0}), var(x[0], {1}), var(x[0], {0}, true, 1),
                        stddev(x[0])};
       }},
      {"mean_int", {i32({7, 6})}, [](Args x) { return Results{mean(x[0], {1})}; }},
      {"norms",
       {f32({7, 6})},
       [](Args x) {
         return Results{norm(x[0]), norm(x[0], 1, {1}), norm(x[0], 3, {0}),
                        norm(x[0], INFINITY, {1})};
       }},
      {"logsumexp",
       {f32({7, 6})},
       [](Args x) {
         return Results{logsumexp(x[0], {1}), logsumexp(x[0] * 50, {0}, true)};
       }},
      {"argmax",
       {i32({7, 6})},
       [](Args x) {
         return Results{argmax(x[0], 1), argmax(x[0], 0, true), argmin(x[0], -1)};
       }},
      {"running",
       {f32({7, 6})},
       [](Args x) {
         return Results{cumsum(x[0], 0), cumsum(x[0], 1), cumprod(x[0], 1),
                        cummax(x[0], 0), cummin(x[0], 1), cumsum(x[0], 0, true)};
       }},
      {"sort",
       {f32({7, 6})},
       [](Args x) {
         return Results{sort(x[0]), sort(x[0], 0, true), argsort(x[0], 1), argsort(x[0], 0, true)};
       }},
      {"top_k",
       {f32({7, 6})},
       [](Args x) {
         const TopK top = top_k(x[0], 3);
         return Results{top.values, top.indices};
       }},
  };
}

std::vector<Case> shape_cases() {
  return {
      // shape
      {"reshape",
       {f32({8, 6})},
       [](Args x) {
         return Results{reshape(x[0], {4, 12}), reshape(x[0], {2, -1, 3}), flatten(x[0]),
                        expand_dims(x[0], 1), squeeze(reshape(x[0], {8, 1, 6, 1}))};
       }},
      {"transpose",
       {f32({3, 4, 5})},
       [](Args x) {
         return Results{transpose(x[0]), transpose(x[0], {1, 0, 2}), swap_dims(x[0], -1, 0)};
       }},
      {"broadcast",
       {f32({6}), f32({7, 1})},
       [](Args x) {
         return Results{broadcast_to(x[0], {7, 6}), broadcast_to(x[1], {2, 7, 6})};
       }},
      {"concat",
       {f32({3, 6}), f32({4, 6}), i32({2, 6})},
       [](Args x) {
         return Results{concat({x[0], x[1], x[2]}, 0)};
       }},
      {"stack",
       {f32({3, 6}), f32({3, 6})},
       [](Args x) {
         return Results{stack({x[0], x[1]}), stack({x[0], x[1]}, -1)};
       }},
      {"split",
       {f32({8, 6})},
       [](Args x) {
         Results parts = split(x[0], 4);
         for (const Tensor& part : split(x[0], {1, 5}, 1)) parts.push_back(part);
         return parts;
       }},
      {"slice",
       {f32({8, 6})},
       [](Args x) {
         return Results{slice(x[0], {1, 0}, {7, 5}, {2, 1}), slice_dim(x[0], 0, -3),
                        slice_dim(x[0], 1, 1, -1)};
       }},
      {"pad",
       {f32({5, 6})},
       [](Args x) {
         return Results{pad(x[0], {1, 0}, {2, 3}, 1.5), pad(x[0], {0, 0}, {0, 0}, 0, {1, 2})};
       }},
      {"flip_roll",
       {f32({7, 6})},
       [](Args x) {
         return Results{flip(x[0]), flip(x[0], {1}), roll(x[0], 2, 0), roll(x[0], -1, 1)};
       }},
      {"repeat_tile",
       {f32({4, 6})},
       [](Args x) {
         return Results{repeat(x[0], 3, 1), tile(x[0], {2, 3})};
       }},
      {"triangles",
       {f32({5, 6})},
       [](Args x) {
         return Results{triu(x[0]), tril(x[0]), triu(x[0], 2), tril(x[0], -1)};
       }},
  };
}

std::vector<Case> indexing_cases() {
  return {
      // indexing
      {"take",
       {f32({9, 6}), i32({5, 2})},
       [](Args x) {
         return Results{take(x[0], minimum(x[1], 8), 0), take(x[0], minimum(x[1], 5), 1),
                        take(x[0], -1 - minimum(x[1], 5), 0)};
       }},
      {"take_along",
       {f32({5, 6}), i32({5, 3})},
       [](Args x) { return Results{take_along(x[0], minimum(x[1], 5), 1)}; }},
      {"embedding",
       {f32({10, 4}), i32({3, 5})},
       [](Args x) { return Results{embedding(x[0], x[1])}; }},
      {"one_hot", {i32({7})}, [](Args x) { return Results{one_hot(x[0], 10)}; }},
      {"scatter",
       {f32({10, 4}), i32({7}), f32({7, 4})},
       [](Args x) {
         return Results{scatter_add(x[0], x[1], x[2]), scatter_max(x[0], x[1], x[2])};
       }},
      {"dynamic_slice",
       {f32({9, 6}), f32({2, 3}), i32({}), i32({})},
       [](Args x) {
         const std::vector<Tensor> starts{x[2], x[3]};
         return Results{dynamic_slice(x[0], starts, {4, 2}),
                        dynamic_update_slice(x[0], x[1], starts)};
       }},
  };
}

std::vector<Case> linalg_cases() {
  return {
      // linear algebra
      {"matmul", {f32({8, 6}), f32({6, 4})}, [](Args x) { return Results{matmul(x[0], x[1])}; }},
      {"matmul_vectors",
       {f32({6}), f32({6, 4}), f32({4})},
       [](Args x) {
         return Results{matmul(x[0], x[1]), matmul(x[1], x[2]), matmul(x[2], x[2])};
       }},
      {"matmul_batches",
       {f32({2, 1, 5, 6}), f32({3, 6, 4}), f32({6, 4})},
       [](Args x) {
         return Results{matmul(x[0], x[1]), matmul(x[0], x[2])};
       }},
      {"einsum",
       {f32({2, 5, 4}), f32({2, 3, 4}), f32({3, 5})},
       [](Args x) {
         return Results{einsum("bqd,bkd->bqk", {x[0], x[1]}), einsum("bqd->db", {x[0]}),
                        einsum("bqd,bkd,kq->b", {x[0], x[1], x[2]}),
                        einsum("kq,bqd->bkd", {x[2], x[0]}), einsum("ij", {x[2]})};
       }},
      {"cholesky",
       {f32({4, 4})},
       [](Args x) {
         const Tensor a = matmul(x[0], transpose(x[0])) + eye(4) * 4;
         const Tensor l = tril(cholesky(a));
         return Results{l, triangular_solve(l, x[0])};
       }},
      {"fft",
       {f32({3, 8})},
       [](Args x) {
         return Results{fft(x[0]), rfft(x[0]), irfft(rfft(x[0]), 8)};
       }},
  };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = [] {
    std::vector<Case> all;
    for (auto family : {arithmetic_cases, function_cases, creation_cases, reduction_cases,
                        shape_cases, indexing_cases, linalg_cases, layer_cases, index_cases,
                        place_cases, literal_cases, factor_cases, factor_use_cases, matrix_cases,
                        more_cases, arrange_cases, order_cases, norm_cases})
      for (Case& each : family()) all.push_back(std::move(each));
    return all;
  }();
  return list;
}

std::vector<Tensor> inputs_of(const Case& test) {
  std::vector<Tensor> inputs;
  for (const Type& type : test.inputs)
    inputs.push_back(Tensor::from(make_array(type, fmt::format("random:{}", inputs.size() + 1))));
  return inputs;
}

void dump(const Case& test, const std::vector<Tensor>& inputs, const Results& results) {
  const char* folder = std::getenv("CLEAVE_DUMP");
  if (!folder) return;
  const std::filesystem::path path(folder);
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i].save(path / fmt::format("{}.in{}.npy", test.name, i));
  for (size_t i = 0; i < results.size(); ++i)
    results[i].save(path / fmt::format("{}.out{}.npy", test.name, i));
}

// The k-th way to shard a tensor over axes x and y: every dimension, one axis or both, or not.
PartitionSpec spec_of(const Shape& shape, size_t k) {
  PartitionSpec spec;
  spec.entries.resize(shape.size());
  const SpecEntry ways[] = {"x", "y", {"x", "y"}, {"y", "x"}};
  if (shape.empty() || k % 5 == 4) return spec;
  const size_t dim = (k / 5) % shape.size();
  spec.entries[dim] = ways[k % 4];
  if (shape.size() > 1 && k % 4 == 0 && k % 3 == 0) spec.entries[(dim + 1) % shape.size()] = "y";
  return spec;
}

class TensorOps : public testing::TestWithParam<size_t> {};

TEST_P(TensorOps, mean_the_same_in_every_layout) {
  const Case& test = cases()[GetParam()];
  const std::vector<Tensor> inputs = inputs_of(test);
  const Results plain = test.run(inputs);
  evaluate(plain);
  dump(test, inputs, plain);
  const Mesh mesh{{"x", 2}, {"y", 3}};
  for (size_t k = 0; k < 6 && !inputs.empty(); ++k) {
    std::vector<Tensor> sharded;
    std::string layouts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      sharded.push_back(
          inputs[i].shard(mesh, spec_of(inputs[i].shape(), 3 * k + 7 * i + GetParam())));
      layouts += to_string(sharded[i].sharding()) + " ";
    }
    const Results results = test.run(sharded);
    ASSERT_EQ(results.size(), plain.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].type(), plain[i].type()) << test.name;
      const Comparison comparison = compare(results[i].to_host(), plain[i].to_host(), test.units);
      EXPECT_TRUE(comparison.same)
          << test.name << ", result " << i << ", inputs " << layouts << ": " << comparison.first;
    }
  }
}

// x as a sum over axis z that is pending: each device along it holds a half.
Tensor as_pending(const Tensor& x, const Mesh& mesh, const PartitionSpec& spec) {
  const Tensor half = x * 0.5;
  PartitionSpec parts = spec;
  parts.entries.insert(parts.entries.begin(), "z");
  return sum(stack({half, half}).shard(mesh, parts), {0});
}

TEST_P(TensorOps, mean_the_same_on_lines_and_cubes_and_of_pending_sums) {
  const Case& test = cases()[GetParam()];
  const std::vector<Tensor> inputs = inputs_of(test);
  const Results plain = test.run(inputs);
  const Mesh line{{"x", 5}}, cube{{"x", 2}, {"y", 3}, {"z", 2}};
  for (size_t k = 0; k < 4 && !inputs.empty(); ++k) {
    std::vector<Tensor> sharded;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = inputs[i].shape();
      PartitionSpec spec = spec_of(shape, k + 3 * i + GetParam());
      if (k == 0) {
        spec = P();
        spec.entries.resize(shape.size());
        if (!shape.empty()) spec.entries[(i + GetParam()) % shape.size()] = "x";
        sharded.push_back(inputs[i].shard(line, spec));
      } else if (is_float(inputs[i].dtype()) && (k + i) % 3 != 0) {
        sharded.push_back(as_pending(inputs[i], cube, spec));
      } else {
        sharded.push_back(inputs[i].shard(cube, spec));
      }
    }
    const Results results = test.run(sharded);
    for (size_t i = 0; i < results.size(); ++i) {
      const Comparison comparison = compare(results[i].to_host(), plain[i].to_host(), test.units);
      EXPECT_TRUE(comparison.same)
          << test.name << ", result " << i << ", layouts " << k << ": " << comparison.first;
    }
  }
}

// All results as one number, each element with a weight of its own.
Tensor weighted_sum(const Results& results) {
  Tensor total = zeros({});
  for (const Tensor& result : results)
    if (is_float(result.dtype()))
      total = total + sum(reshape(result, {-1}) * cos(arange(0.0, 1.0 * result.size())));
  return cast(total, DType::F32);
}

std::vector<Tensor> gradients(const Case& test, const std::vector<Tensor>& inputs) {
  return grad([&](const std::vector<Tensor>& x) { return weighted_sum(test.run(x)); })(inputs);
}

TEST_P(TensorOps, has_the_same_gradient_in_every_layout) {
  const Case& test = cases()[GetParam()];
  if (!test.smooth) return;
  const std::vector<Tensor> inputs = inputs_of(test);
  const std::vector<Tensor> plain = gradients(test, inputs);
  if (const char* folder = std::getenv("CLEAVE_DUMP"))
    for (size_t i = 0; i < plain.size(); ++i)
      if (plain[i].valid())
        plain[i].save(std::filesystem::path(folder) / fmt::format("{}.grad{}.npy", test.name, i));
  const Mesh mesh{{"x", 2}, {"y", 3}};
  for (size_t k = 0; k < 3; ++k) {
    std::vector<Tensor> sharded;
    for (size_t i = 0; i < inputs.size(); ++i)
      sharded.push_back(
          inputs[i].shard(mesh, spec_of(inputs[i].shape(), 5 * k + 7 * i + GetParam())));
    const std::vector<Tensor> split = gradients(test, sharded);
    for (size_t i = 0; i < plain.size(); ++i) {
      if (!plain[i].valid()) continue;
      const Comparison comparison =
          compare(split[i].to_host(), plain[i].to_host(), 10 * test.units);
      EXPECT_TRUE(comparison.same)
          << test.name << ", gradient of input " << i << ": " << comparison.first;
    }
  }
}

TEST_P(TensorOps, maps_over_examples) {
  const Case& test = cases()[GetParam()];
  if (!test.smooth) return;
  std::vector<Tensor> stacked, parts[2];
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    for (size_t k = 0; k < 2; ++k)
      parts[k].push_back(
          Tensor::from(make_array(test.inputs[i], fmt::format("random:{}", 10 * k + i + 1))));
    stacked.push_back(stack({parts[0][i], parts[1][i]}));
  }
  const Results all = vmap([&](const std::vector<Tensor>& x) { return test.run(x); })(stacked);
  const Results first = test.run(parts[0]), second = test.run(parts[1]);
  ASSERT_EQ(all.size(), first.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor expected = stack({first[i], second[i]});
    ASSERT_EQ(all[i].type(), expected.type()) << test.name;
    const Comparison comparison = compare(all[i].to_host(), expected.to_host(), test.units);
    EXPECT_TRUE(comparison.same) << test.name << ", result " << i << ": " << comparison.first;
  }
}

TEST_P(TensorOps, mean_the_same_when_planned) {
  const Case& test = cases()[GetParam()];
  const std::vector<Tensor> inputs = inputs_of(test);
  if (inputs.empty() || !test.traced) return;
  const Results plain = test.run(inputs);
  const auto function = [&](const std::vector<Tensor>& x) { return test.run(x); };
  const Results results = autoshard(function, Mesh{{"x", 2}, {"y", 3}})(inputs);
  ASSERT_EQ(results.size(), plain.size());
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].type(), plain[i].type()) << test.name;
    const Comparison comparison = compare(results[i].to_host(), plain[i].to_host(), test.units);
    EXPECT_TRUE(comparison.same) << test.name << ", result " << i << ": " << comparison.first;
  }
}

// Every pair of dtypes, for the reference to read: "i8 f16 f16".
TEST(TensorOpsTable, promotion_is_symmetric_and_idempotent) {
  std::string lines;
  for (int i = 0; i <= static_cast<int>(DType::C128); ++i)
    for (int j = 0; j <= static_cast<int>(DType::C128); ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, promote(a, b)), promote(a, b));
      lines += fmt::format("{} {} {}\n", name(a), name(b), name(promote(a, b)));
    }
  if (const char* folder = std::getenv("CLEAVE_DUMP"))
    std::ofstream(std::filesystem::path(folder) / "promotion.txt") << lines;
}

INSTANTIATE_TEST_SUITE_P(Library, TensorOps, testing::Range<size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

}  // namespace
}  // namespace cleave
