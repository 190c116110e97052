#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/runtime/compare.h"
#include "cleave/tensors.h"

// What goes over the wire, and what comes out: every scenario is compared with the same program on
// one device, and its collectives are counted with their bytes.
namespace cleave {
namespace {

const Mesh kMesh{{"data", 2}, {"model", 4}};

void expect_same(const Tensor& actual, const Tensor& expected, const std::string& what = {}) {
  const Comparison comparison = compare(actual.to_host(), expected.to_host());
  EXPECT_TRUE(comparison.same) << what << ": " << comparison.first;
}

Tensor random(Shape shape, uint64_t seed) { return randn(shape, seed); }

std::string layout(const Tensor& x) { return to_string(x.sharding()); }

// ---- sums of differently sharded tensors ----

TEST(Scenarios, sharded_with_replicated_unsharded_and_another_axis_needs_nothing) {
  const Tensor a = random({8, 12}, 1), b = random({8, 12}, 2);
  const Tensor x = a.shard(kMesh, P("data", {}));
  for (const Tensor& y : {b, b.shard(kMesh, P()), b.shard(kMesh, P("data")),
                          b.shard(kMesh, P({}, "model")), b.shard(kMesh, P("data", "model"))}) {
    CommLog log;
    expect_same(x + y, a + b);
    EXPECT_EQ(log.count(), 0) << to_string(log);
  }
  EXPECT_EQ(layout(x + b.shard(kMesh, P({}, "model"))), R"([{"data"}, {"model"}])");
}

TEST(Scenarios, one_axis_on_different_dimensions_moves_one_operand) {
  const Tensor a = random({1024, 2048}, 1), b = random({1024, 2048}, 2);
  CommLog log;
  expect_same(a.shard(kMesh, P("model", {})) * b.shard(kMesh, P({}, "model")), a * b);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.count("all_to_all"), 1) << to_string(log);
  // A device has 1024 x 512 elements and gets what it lacks of its 256 x 2048.
  EXPECT_EQ(log.bytes(), 256 * 1536 * 4);
}

TEST(Scenarios, elementwise_on_equal_layouts_is_local) {
  const Tensor a = random({8, 12}, 1);
  const Tensor x = a.shard(kMesh, P("data", "model"));
  CommLog log;
  expect_same(gelu(x * x + 1) / (abs(x) + 2), gelu(a * a + 1) / (abs(a) + 2));
  EXPECT_EQ(log.count(), 0) << to_string(log);
}

// ---- contractions ----

TEST(Scenarios, a_contraction_over_two_axes_is_one_sum) {
  const Tensor a = random({4, 16}, 1), b = random({16, 6}, 2);
  const Tensor y =
      matmul(a.shard(kMesh, P({}, {"data", "model"})), b.shard(kMesh, P({"data", "model"}, {})));
  EXPECT_EQ(layout(y), R"([{}, {}], unreduced={"data", "model"})");
  CommLog log;
  expect_same(tanh(y), tanh(matmul(a, b)));
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.bytes(), 7 * 4 * 6 * 4);
}

TEST(Scenarios, one_axis_asked_for_two_factors_goes_to_one) {
  const Tensor a = random({16, 8}, 1), b = random({8, 4}, 2);
  CommLog log;
  const Tensor y = matmul(a.shard(kMesh, P("model", {})), b.shard(kMesh, P({}, "model")));
  expect_same(y, matmul(a, b));
  EXPECT_EQ(layout(y), R"([{"model"}, {}])");  // the larger operand keeps its layout
  EXPECT_EQ(log.count("all_gather"), 1);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.bytes(), 3 * 8 * 1 * 4);
}

TEST(Scenarios, megatron_mlp_takes_one_all_reduce) {
  const Tensor a = random({16, 32}, 1), b = random({32, 64}, 2), c = random({64, 32}, 3);
  CommLog log;
  const Tensor y = matmul(gelu(matmul(a.shard(kMesh, P("data")), b.shard(kMesh, P({}, "model")))),
                          c.shard(kMesh, P("model")));
  EXPECT_EQ(layout(y), R"([{"data"}, {}], unreduced={"model"})");
  expect_same(relu(y), relu(matmul(gelu(matmul(a, b)), c)));
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.bytes(), 3 * 8 * 32 * 4);
  EXPECT_THAT(to_string(log), testing::HasSubstr("\"model\"        x1"));
}

TEST(Scenarios, sequence_parallelism_takes_one_all_gather_and_one_reduce_scatter) {
  const Tensor a = random({2, 8, 16}, 1), b = random({16, 32}, 2), c = random({32, 16}, 3);
  const Tensor x = a.shard(kMesh, P("data", "model"));
  CommLog log;
  const Tensor whole = rms_norm(x).with_sharding(P("data"));
  const Tensor h = gelu(matmul(whole, b.shard(kMesh, P({}, "model"))));
  const Tensor y = x + matmul(h, c.shard(kMesh, P("model"))).with_sharding(P("data", "model"));
  expect_same(y, a + matmul(gelu(matmul(rms_norm(a), b)), c));
  EXPECT_EQ(log.count("all_gather"), 1);
  EXPECT_EQ(log.count("reduce_scatter"), 1);
  EXPECT_EQ(log.count(), 2) << to_string(log);
  EXPECT_EQ(log.bytes("all_gather"), 3 * 2 * 16 * 4);
  EXPECT_EQ(log.bytes("reduce_scatter"), 3 * 2 * 16 * 4);
}

// ---- pending sums ----

struct Pending {
  Tensor plain = matmul(random({8, 16}, 1), random({16, 12}, 2));
  Tensor sharded = matmul(random({8, 16}, 1).shard(kMesh, P("data", "model")),
                          random({16, 12}, 2).shard(kMesh, P("model")));
};

TEST(Pending, stays_pending_through_what_is_linear) {
  const Pending p, q;
  const Tensor s = random({8, 12}, 3), ids = arange(3);
  const std::vector<std::pair<Tensor, Tensor>> cases = {
      {p.sharded + q.sharded, p.plain + q.plain},
      {p.sharded * s, p.plain * s},
      {p.sharded / 7.0, p.plain / 7.0},
      {-p.sharded * 3, -p.plain * 3},
      {concat({p.sharded, q.sharded}, 1), concat({p.plain, q.plain}, 1)},
      {slice_dim(p.sharded, 1, 2, 9), slice_dim(p.plain, 1, 2, 9)},
      {take(p.sharded, ids, 1), take(p.plain, ids, 1)},
      {transpose(p.sharded), transpose(p.plain)},
      {reshape(p.sharded, {8, 3, 4}), reshape(p.plain, {8, 3, 4})},
      {sum(p.sharded, {1}), sum(p.plain, {1})},
  };
  for (const auto& [sharded, plain] : cases) {
    EXPECT_THAT(layout(sharded), testing::HasSubstr("unreduced={\"model\"}"));
    CommLog log;
    expect_same(relu(sharded), relu(plain));
    EXPECT_EQ(log.count("all_reduce"), 1) << to_string(log);
    EXPECT_EQ(log.count(), 1) << to_string(log);
  }
}

TEST(Pending, is_completed_before_what_is_not) {
  const auto ops = std::to_array<Tensor (*)(const Tensor&)>({
      [](const Tensor& x) { return exp(x); },
      [](const Tensor& x) { return relu(x); },
      [](const Tensor& x) { return softmax(x); },
      [](const Tensor& x) { return cast(x, DType::I32); },
      [](const Tensor& x) { return x + 1; },
      [](const Tensor& x) { return x * x; },
      [](const Tensor& x) { return max(x, {1}); },
  });
  for (auto* op : ops) {
    const Pending p;
    CommLog log;
    const Tensor y = op(p.sharded);
    EXPECT_THAT(layout(y), testing::Not(testing::HasSubstr("unreduced")));
    expect_same(y, op(p.plain));
    EXPECT_EQ(log.count("all_reduce"), 1) << to_string(log);
    EXPECT_EQ(log.count(), 1) << to_string(log);
  }
}

TEST(Pending, and_sharded_at_once_is_looked_at_as_the_sum) {
  const Pending p;
  EXPECT_EQ(layout(p.sharded), R"([{"data"}, {}], unreduced={"model"})");
  expect_same(p.sharded, p.plain);
  EXPECT_EQ(p.sharded.addressable_shards()[0].data.shape(), (Shape{4, 12}));
}

TEST(Pending, two_sums_are_added_before_one_all_reduce) {
  const Pending p, q;
  CommLog log;
  expect_same((p.sharded + q.sharded).reshard(P("data")), p.plain + q.plain);
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.bytes(), 3 * 4 * 12 * 4);
}

TEST(Pending, is_scattered_where_a_shard_is_enough) {
  const Pending p;
  CommLog log;
  expect_same(p.sharded.reshard(P("data", "model")), p.plain);
  EXPECT_EQ(log.count("reduce_scatter"), 1);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.bytes(), 3 * 4 * 3 * 4);
}

TEST(Pending, a_maximum_is_completed_by_a_maximum) {
  const Tensor a = random({8, 12}, 5) - 10;
  const Tensor y = max(a.shard(kMesh, P("data", "model")), {1});
  EXPECT_EQ(layout(y), R"([{"data"}], unreduced=max{"model"})");
  CommLog log;
  expect_same(sin(y), sin(max(a, {1})));
  EXPECT_EQ(log.count("all_reduce"), 1);
  EXPECT_EQ(log.bytes(), 3 * 4 * 4);
}

TEST(Pending, mean_over_uneven_shards_counts_every_element_once) {
  const Tensor a = random({7, 9}, 6);
  expect_same(mean(a.shard(kMesh, P("data", "model"))) + 0, mean(a) + 0);
  expect_same(var(a.shard(kMesh, P("data", "model")), {0}), var(a, {0}));
}

// ---- layouts ----

TEST(Layouts, the_order_of_axes_is_a_permutation_of_devices) {
  const Tensor a = random({16, 3}, 1);
  const Tensor x = a.shard(kMesh, P({"data", "model"})).evaluate();
  CommLog log;
  const Tensor y = x.reshard(P({"model", "data"}));
  expect_same(y, a);
  EXPECT_EQ(log.count("collective_permute"), 1);
  EXPECT_EQ(log.count(), 1) << to_string(log);
  EXPECT_EQ(log.bytes(), 2 * 3 * 4);
}

TEST(Layouts, parts_of_axes) {
  const Tensor a = random({8, 6}, 1);
  const Tensor x = a.shard(kMesh, P("model:(1)2", "model:(2)2"));
  EXPECT_EQ(layout(x), R"([{"model":(1)2}, {"model":(2)2}])");
  CommLog log;
  expect_same(x + a.shard(kMesh, P("model:(1)2")), a + a);
  EXPECT_EQ(log.count(), 0) << to_string(log);
}

TEST(Layouts, ops_that_look_along_a_sharded_dimension) {
  using Op = Tensor (*)(const Tensor&);
  const std::vector<std::pair<const char*, Op>> ops = {
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"reverse cumsum", [](const Tensor& x) { return cumsum(x, 0, true); }},
      {"flip", [](const Tensor& x) { return flip(x, {0}); }},
      {"concat",
       [](const Tensor& x) {
         return concat({x, x * 2}, 0);
       }},
      {"gather", [](const Tensor& x) { return take(x, remainder(arange(5) * 3, x.dim(0)), 0); }},
      {"sort", [](const Tensor& x) { return sort(x, 0); }},
      {"argsort", [](const Tensor& x) { return argsort(x, 0, true); }},
      {"argmax", [](const Tensor& x) { return argmax(x, 0); }},
      {"argmin", [](const Tensor& x) { return argmin(x, 0, true); }},
      {"roll", [](const Tensor& x) { return roll(x, 1, 0); }},
      {"pad",
       [](const Tensor& x) {
         return pad(x, {2, 0}, {1, -1}, 7);
       }},
      {"strided slice", [](const Tensor& x) { return slice_dim(x, 0, 1, {}, 2); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {0}); }},
      {"top_k", [](const Tensor& x) { return top_k(transpose(x), 2).indices; }},
      {"scatter_add",
       [](const Tensor& x) {
         return scatter_add(x, Tensor::from(DType::I32, {3}, std::vector<int32_t>{1, 1, 0}),
                            ones({3, x.dim(1)}));
       }},
      {"var", [](const Tensor& x) { return var(x, {0}); }},
      {"triu", [](const Tensor& x) { return triu(x, -1); }},
      {"reshape",
       [](const Tensor& x) {
         return reshape(x, {-1, 2});
       }},
  };
  const std::vector<std::pair<int64_t, Mesh>> rows = {
      {7, {{"x", 2}}}, {9, {{"x", 4}}}, {2, {{"x", 8}}}, {8, {{"x", 4}}}};
  for (const auto& [size, mesh] : rows)
    for (const auto& [name, op] : ops) {
      const Tensor a = random({size, 4}, 11);
      expect_same(op(a.shard(mesh, P("x"))), op(a),
                  fmt::format("{} of {} rows over {}", name, size, mesh.num_devices()));
    }
}

TEST(Layouts, sums_of_half_precision_are_accumulated_in_single) {
  const Tensor a = cast(random({4, 512}, 1), DType::F16), b = cast(random({512, 8}, 2), DType::F16);
  const Tensor y = matmul(a.shard(kMesh, P({}, "model")), b.shard(kMesh, P("model")));
  EXPECT_EQ(y.dtype(), DType::F16);
  const Array exact = matmul(cast(a, DType::F64), cast(b, DType::F64)).to_host();
  const Array actual = cast(y + 0, DType::F64).to_host();
  for (int64_t i = 0; i < exact.num_elements(); ++i)
    EXPECT_NEAR(actual.data<double>()[i], exact.data<double>()[i], 0.06);
  const Tensor ones_sum = sum(ones({4096}, DType::F16).shard(kMesh, P("model")));
  EXPECT_EQ(ones_sum.item(), 4096);
}

TEST(Layouts, random_numbers_do_not_depend_on_them) {
  const Tensor key = random_key(7), x = ones({9, 6});
  const Tensor plain = dropout(key, x, 0.5);
  for (const PartitionSpec& spec : {P("data"), P("model", "data"), P({}, {"data", "model"})}) {
    const Tensor sharded = dropout(key, x.shard(kMesh, spec), 0.5);
    EXPECT_EQ(sharded.to_vector<float>(), plain.to_vector<float>());
  }
  EXPECT_NE(normal(random_key(1), {8}).to_vector<float>(),
            normal(random_key(2), {8}).to_vector<float>());
}

}  // namespace
}  // namespace cleave
