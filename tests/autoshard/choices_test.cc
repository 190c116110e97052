#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/models.h"
#include "cleave/plan.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/tensor_checks.h"

// What `autoshard` chooses is what people choose, and gives what hand-given specs give.
namespace cleave {
namespace {

const Mesh kMesh{{"data", 2}, {"model", 4}};
const Mesh kModel{{"model", 8}};

std::string spec_of(const plan::Plan& plan, size_t argument) {
  return to_string(plan.values[argument].spec);
}
std::string collectives_of(const plan::Plan& plan) {
  std::string text;
  for (const plan::CollectiveTotal& total : plan.totals.collectives)
    if (total.bytes > 0)
      text += fmt::format("{}{} x{:.0f}", text.empty() ? "" : ", ", total.kind, total.count);
  return text;
}

Tensor two_layers(const Tensor& x, const Tensor& w, const Tensor& v) {
  return matmul(gelu(matmul(x, w)), v);
}
// Never computed: tensors that are only planned for.
Tensor planned_only(Shape shape) { return zeros(std::move(shape), DType::F32); }

TEST(Choices, LargeBatchesAreSplit) {
  const auto f = autoshard(two_layers, kMesh, {.machine = "h100"});
  f.prepare(planned_only({65536, 512}), planned_only({512, 2048}), planned_only({2048, 512}));
  EXPECT_EQ(spec_of(f.plan(), 0), "[{\"data\", \"model\"}, {}]");
  EXPECT_EQ(spec_of(f.plan(), 1), "[{}, {}]");
  EXPECT_EQ(collectives_of(f.plan()), "");
}

TEST(Choices, ALargeBatchTrainsDataParallel) {
  const auto step = [](const Tensor& w, const Tensor& v, const Tensor& x) {
    const auto loss = [&](const Tensor& a, const Tensor& b) {
      return mean(square(two_layers(x, a, b)));
    };
    auto [dw, dv] = grad<0, 1>(loss)(w, v);
    return std::make_pair(w - dw * 0.1, v - dv * 0.1);
  };
  const auto f = autoshard(step, Mesh{{"data", 8}}, {.machine = "h100", .donate = {0, 1}});
  f.prepare(planned_only({512, 2048}), planned_only({2048, 512}), planned_only({65536, 512}));
  EXPECT_EQ(spec_of(f.plan(), 2), "[{\"data\"}, {}]");
}

TEST(Choices, WhereWeightsDominateTheContractionIsSplit) {
  const auto f = autoshard(two_layers, kModel, {.machine = "h100", .out = {P()}});
  f.prepare(planned_only({16, 8192}), planned_only({8192, 32768}), planned_only({32768, 8192}));
  EXPECT_EQ(spec_of(f.plan(), 1), "[{}, {\"model\"}]");  // by columns
  EXPECT_EQ(spec_of(f.plan(), 2), "[{\"model\"}, {}]");  // by rows
  EXPECT_EQ(collectives_of(f.plan()), "all_reduce x1");
}

TEST(Choices, AModelParallelProductTakesOneAllReduce) {
  const Tensor x = ramp({6, 16}), w = ramp({16, 10}, 0.2);
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const auto f = autoshard(product, kMesh, {.in = {P({}, "model"), P("model", {})}, .out = {P()}});
  CommLog log;
  const Tensor y = f(x, w);
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.count(), 1);
  expect_near(y, matmul(x, w));
}

// By the plan's own layouts of arguments and results, given by hand.
template <typename F, typename... Args>
void expect_like_hand_given(const F& f, const Mesh& mesh, const Args&... args) {
  const auto planned = autoshard(f, mesh);
  const Tensor y = planned(args...);
  expect_near(y, f(args...));
  const auto step = autoshard(f, mesh);
  std::vector<Tensor> given{args...};
  const plan::Plan& plan = planned.plan();
  for (size_t i = 0; i < given.size(); ++i) {
    ShardingSpec spec = plan.values[i].spec;
    spec.mesh = shared_mesh(mesh);
    given[i] = given[i].with_sharding(spec);
  }
  [&]<size_t... i>(std::index_sequence<i...>) { expect_near(f(given[i]...), y); }
  (std::index_sequence_for<Args...>());
  EXPECT_THAT(planned.verify(), testing::HasSubstr("verified"));
  for (const plan::PlannedValue& value : plan.values) EXPECT_TRUE(value.spec.mesh) << value.name;
  for (const std::string& note : plan.notes) EXPECT_EQ(note, "");
}

TEST(Choices, DiamondAndFork) {
  const Tensor x = ramp({7, 6}), w = ramp({6, 9}, 0.2), v = ramp({6, 9}, 0.4);
  for (const Mesh& mesh : {kMesh, Mesh{{"x", 3}}, Mesh{{"x", 2}, {"y", 2}, {"z", 2}}}) {
    expect_like_hand_given(
        [](const Tensor& a, const Tensor& b, const Tensor& c) {
          return tanh(matmul(a, b)) * sigmoid(matmul(a, c));
        },
        mesh, x, w, v);
    expect_like_hand_given(
        [](const Tensor& a, const Tensor& b, const Tensor& c) {
          const Tensor h = matmul(a, b);
          return matmul(h, transpose(c)) + sum(h, {1}, true) - matmul(exp(h), transpose(b));
        },
        mesh, x, w, v);
  }
}

TEST(Choices, AttentionWithResiduals) {
  const Tensor x = ramp({4, 6, 8}), qkv = ramp({8, 24}, 0.2), out = ramp({8, 8}, 0.3);
  const auto block = [](const Tensor& a, const Tensor& w, const Tensor& o) {
    const Tensor projected = matmul(a, w);
    const auto heads = [&](int64_t i) {
      const Tensor part = slice(projected, {0, 0, 8 * i}, {4, 6, 8 * i + 8});
      return transpose(reshape(part, {4, 6, 2, 4}), {0, 2, 1, 3});
    };
    const Tensor scores = softmax(matmul(heads(0), transpose(heads(1), {0, 1, 3, 2})) * 0.5, -1);
    const Tensor mixed = transpose(matmul(scores, heads(2)), {0, 2, 1, 3});
    return a + matmul(reshape(mixed, {4, 6, 8}), o);
  };
  for (const Mesh& mesh : {kMesh, Mesh{{"x", 3}}}) expect_like_hand_given(block, mesh, x, qkv, out);
}

TEST(Choices, HalfPrecision) {
  const Tensor x = cast(ramp({7, 6}), DType::F16), w = cast(ramp({6, 9}, 0.2), DType::F16);
  const auto f = [](const Tensor& a, const Tensor& b) { return tanh(matmul(a, b)); };
  const auto planned = autoshard(f, kMesh);
  expect_near(cast(planned(x, w), DType::F64), cast(f(x, w), DType::F64), 2e-3);
  EXPECT_EQ(planned(x, w).dtype(), DType::F16);
}

}  // namespace
}  // namespace cleave
