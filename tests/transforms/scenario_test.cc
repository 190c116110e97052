#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/graph/text/text.h"
#include "cleave/rules/explain.h"
#include "cleave/rules/pipelines.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// Small graphs of the shapes that break propagation: a transformer block, attention, a residual, a
// diamond, forks. Each has the numbers of loops over doubles, a sharding on every value, settles
// after few visits, and says how it came about.
namespace cleave {
namespace {

// A reference that shares nothing with the library: matrices of doubles.
struct Matrix {
  size_t rows, columns;
  std::vector<double> data;
  Matrix(size_t r, size_t c) : rows(r), columns(c), data(r * c) {}
  double& at(size_t i, size_t j) { return data[i * columns + j]; }
  double at(size_t i, size_t j) const { return data[i * columns + j]; }
};
Matrix host(const Tensor& x) {
  Matrix m(static_cast<size_t>(x.dim(0)), static_cast<size_t>(x.dim(1)));
  m.data = x.to_vector<double>();
  return m;
}
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < b.columns; ++j)
      for (size_t k = 0; k < a.columns; ++k) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}
template <typename F>
Matrix each(const F& f, const Matrix& a) {
  Matrix c = a;
  for (double& x : c.data) x = f(x);
  return c;
}
Matrix operator+(const Matrix& a, const Matrix& b) {
  Matrix c = a;
  for (size_t i = 0; i < c.data.size(); ++i) c.data[i] += b.data[i];
  return c;
}
Matrix flipped(const Matrix& a) {
  Matrix c(a.columns, a.rows);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.columns; ++j) c.at(j, i) = a.at(i, j);
  return c;
}
Matrix soft(const Matrix& a) {
  Matrix c = a;
  for (size_t i = 0; i < a.rows; ++i) {
    double total = 0;
    for (size_t j = 0; j < a.columns; ++j) total += c.at(i, j) = std::exp(a.at(i, j));
    for (size_t j = 0; j < a.columns; ++j) c.at(i, j) /= total;
  }
  return c;
}
Matrix normed(const Matrix& a) {
  Matrix c = a;
  for (size_t i = 0; i < a.rows; ++i) {
    double square = 0;
    for (size_t j = 0; j < a.columns; ++j) square += a.at(i, j) * a.at(i, j);
    const double scale = 1 / std::sqrt(square / static_cast<double>(a.columns) + 1e-6);
    for (size_t j = 0; j < a.columns; ++j) c.at(i, j) *= scale;
  }
  return c;
}
Matrix columns(const Matrix& a, size_t first, size_t count) {
  Matrix c(a.rows, count);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < count; ++j) c.at(i, j) = a.at(i, first + j);
  return c;
}
Matrix heads_of(const Matrix& q, const Matrix& k, const Matrix& v, size_t heads) {
  Matrix result(q.rows, q.columns);
  const size_t size = q.columns / heads;
  for (size_t h = 0; h < heads; ++h) {
    const Matrix a = columns(q, h * size, size), b = columns(k, h * size, size);
    const Matrix scores =
        each([&](double x) { return x / std::sqrt(static_cast<double>(size)); }, a * flipped(b));
    const Matrix mixed = soft(scores) * columns(v, h * size, size);
    for (size_t i = 0; i < q.rows; ++i)
      for (size_t j = 0; j < size; ++j) result.at(i, h * size + j) = mixed.at(i, j);
  }
  return result;
}

Tensor ramp(Shape shape, double start = 0.1) {
  std::vector<double> values(static_cast<size_t>(num_elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.5 * std::sin(start + 0.7 * static_cast<double>(i * i % 31));
  return Tensor::from(DType::F64, std::move(shape), values);
}
Tensor scaled(const Tensor& x) { return x / sqrt(mean(x * x, {1}, /*keep=*/true) + 1e-6); }
Tensor many_heads(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads) {
  const auto split = [&](const Tensor& x) {
    return transpose(reshape(x, {x.dim(0), heads, x.dim(1) / heads}), {1, 0, 2});
  };
  const Tensor scores = matmul(split(q), transpose(split(k), {0, 2, 1}));
  const Tensor weights = softmax(scores / std::sqrt(static_cast<double>(q.dim(1) / heads)));
  return reshape(transpose(matmul(weights, split(v)), {1, 0, 2}), q.shape());
}

struct Scenario {
  std::string name;
  std::vector<Tensor> args;
  std::vector<PartitionSpec> specs;
  std::function<Tensor(const std::vector<Tensor>&)> f;
  std::function<Matrix(const std::vector<Matrix>&)> reference;
};
void PrintTo(const Scenario& s, std::ostream* out) { *out << s.name; }

const double kE = 12;  // the width: not a multiple of 8
std::vector<Scenario> scenarios() {
  using T = const std::vector<Tensor>&;
  using M = const std::vector<Matrix>&;
  const auto d = static_cast<int64_t>(kE);
  const Tensor h = ramp({10, d}), w1 = ramp({d, d}, 0.3), w2 = ramp({d, 20}, 0.5),
               w3 = ramp({20, d}, 0.7);
  const PartitionSpec rows = P("data", {}), column = P({}, "model"), row = P("model", {});
  std::vector<Scenario> all;
  all.push_back(
      {"diamond",
       {h, w1},
       {rows, column},
       [](T a) { return matmul(matmul(a[0], a[1]) + (a[0] + 1.0), transpose(a[0] * 2.0)); },
       [](M a) {
         return (a[0] * a[1] + each([](double x) { return x + 1; }, a[0])) *
                flipped(each([](double x) { return 2 * x; }, a[0]));
       }});
  all.push_back(
      {"residual",
       {h, w2, w3},
       {rows, column, row},
       [](T a) { return a[0] + matmul(tanh(matmul(a[0], a[1])), a[2]); },
       [](M a) { return a[0] + each([](double x) { return std::tanh(x); }, a[0] * a[1]) * a[2]; }});
  all.push_back({"fork",
                 {h, w1, ramp({d, d}, 0.9)},
                 {rows, column, row},
                 [](T a) {
                   const Tensor left = tanh(matmul(a[0], a[1])), right = matmul(a[0], a[2]);
                   return concat({left + right, right}, 1);
                 },
                 [](M a) {
                   const Matrix left = each([](double x) { return std::tanh(x); }, a[0] * a[1]);
                   const Matrix right = a[0] * a[2], sum = left + right;
                   Matrix both(sum.rows, 2 * sum.columns);
                   for (size_t i = 0; i < sum.rows; ++i)
                     for (size_t j = 0; j < sum.columns; ++j) {
                       both.at(i, j) = sum.at(i, j);
                       both.at(i, sum.columns + j) = right.at(i, j);
                     }
                   return both;
                 }});
  all.push_back({"attention",
                 {h, w1, ramp({d, d}, 0.2), ramp({d, d}, 0.4), ramp({d, d}, 0.6)},
                 {rows, column, column, column, row},
                 [](T a) {
                   return matmul(
                       many_heads(matmul(a[0], a[1]), matmul(a[0], a[2]), matmul(a[0], a[3]), 4),
                       a[4]);
                 },
                 [](M a) { return heads_of(a[0] * a[1], a[0] * a[2], a[0] * a[3], 4) * a[4]; }});
  all.push_back(
      {"transformer_block",
       {h, w1, ramp({d, d}, 0.2), ramp({d, d}, 0.4), ramp({d, d}, 0.6), w2, w3},
       {rows, column, column, column, row, column, row},
       [](T a) {
         const Tensor n = scaled(a[0]);
         const Tensor y =
             a[0] + matmul(many_heads(matmul(n, a[1]), matmul(n, a[2]), matmul(n, a[3]), 4), a[4]);
         return y + matmul(tanh(matmul(scaled(y), a[5])), a[6]);
       },
       [](M a) {
         const Matrix n = normed(a[0]);
         const Matrix y = a[0] + heads_of(n * a[1], n * a[2], n * a[3], 4) * a[4];
         return y + each([](double x) { return std::tanh(x); }, normed(y) * a[5]) * a[6];
       }});
  return all;
}

class Scenarios : public testing::TestWithParam<Scenario> {};

TEST_P(Scenarios, HaveTheNumbersOfLoops) {
  const Scenario& s = GetParam();
  std::vector<Matrix> whole;
  for (const Tensor& arg : s.args) whole.push_back(host(arg));
  const Matrix expected = s.reference(whole);
  for (const char* text :
       {"data=1,model=1", "data=2,model=2", "data=2,model=4", "data=3,model=2"}) {
    const Mesh mesh = parse_mesh(text);
    const auto check = [&](const Tensor& actual, const char* how) {
      const auto values = actual.to_vector<double>();
      ASSERT_EQ(values.size(), expected.data.size());
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected.data[i], 1e-9) << text << ' ' << how << ' ' << i;
    };
    ShardMapOptions options;
    // One tree of all arguments: a spec for each by its name.
    TreeSpec tree;
    for (size_t i = 0; i < s.specs.size(); ++i)
      tree.by_name["[" + std::to_string(i) + "]"] = s.specs[i];
    options.in = {tree};
    const auto mapped =
        shard_map([&](const std::vector<Tensor>& a) { return s.f(a); }, mesh, options);
    check(mapped(s.args), "shard_map");
    check(compile(mapped)(s.args), "compiled");
    std::vector<Tensor> sharded;
    for (size_t i = 0; i < s.args.size(); ++i) sharded.push_back(s.args[i].shard(mesh, s.specs[i]));
    check(s.f(sharded), "op by op");
  }
}

TEST_P(Scenarios, ShardEveryValueSoonAndWithoutWarnings) {
  const Scenario& s = GetParam();
  const Mesh mesh = parse_mesh("data=2,model=4");
  std::vector<Tensor> sharded;
  for (size_t i = 0; i < s.args.size(); ++i) sharded.push_back(s.args[i].shard(mesh, s.specs[i]));
  Trace traced = trace([&](const std::vector<Tensor>& a) { return s.f(a); })(sharded);
  Graph graph = traced.graph;
  const std::vector<std::string> names = value_names(graph);
  prepare_for_propagation(graph, {});
  PropagationEngine engine(graph, {});
  engine.run();
  const Explainer explainer(engine, names);
  EXPECT_THAT(explainer.warnings(), testing::IsEmpty());
  size_t ops = 0;
  for (const PropagationTables::Op& op : engine.tables().ops) ops += !op.erased;
  EXPECT_GE(ops, s.name == "transformer_block" ? 20u : 4u);
  // Five stages, in each of which an op is visited about once.
  EXPECT_LE(engine.visits(), 6 * ops) << explainer.trace();
  EXPECT_THAT(explainer.trace(), testing::HasSubstr("every tensor has a sharding"));

  Graph result = traced.graph;
  run_propagation_pipeline(result, {});
  result.walk([&](NodeId id) {
    const Node& node = result.node(id);
    if (node.results.empty() || result.type(node.results[0]).rank() == 0) return;
    const auto owner = result.region(node.parent).owner;
    if (owner.valid()) return;  // scalar code
    EXPECT_TRUE(node.attrs.has("sdy.sharding") || node.name() == "sdy.reshard") << node.name();
  });
}

INSTANTIATE_TEST_SUITE_P(Graphs, Scenarios, testing::ValuesIn(scenarios()),
                         [](const auto& info) { return info.param.name; });

TEST(ScenarioTrace, ReadsLikeAnExplanation) {
  Graph graph = parse_module(R"(sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @main(%h: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
})");
  const std::vector<std::string> names = value_names(graph);
  prepare_for_propagation(graph, {});
  PropagationEngine engine(graph, {});
  engine.run();
  EXPECT_EQ(Explainer(engine, names).trace(), R"(given
  %arg0  [{"data"}, {}]
  %arg1  [{}, {"model"}]
priority 0, stage 2: pass-through factors of all ops, and broadcasts backward
  visit 3: %0  none => [{"data", ?}, {"model", ?}]  through stablehlo.dot_general (%arg0, %arg1) -> %0
    dimension 0 takes "data" from %arg0 dimension 0
    dimension 1 takes "model" from %arg1 dimension 1
  visit 4: %1  none => [{"data", ?}, {"model", ?}]  through stablehlo.tanh (%0) -> %1
    dimension 0 takes "data" from %0 dimension 0
    dimension 1 takes "model" from %0 dimension 1
  visit 4: result 0 of @main  none => [{"data", ?}, {"model", ?}]
    dimension 0 takes "data" from %1 dimension 0
    dimension 1 takes "model" from %1 dimension 1
settled after 8 visits of 2 ops and 3 changes; every tensor has a sharding
)");
}

}  // namespace
}  // namespace cleave
