#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"

// Functions of functions that are given what does not fit: refused, where a part of it used to be
// left out.
namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Tensor squares(const Tensor& x) { return sum(x * x); }

TEST(TransformMisuse, jacobians_are_of_one_tensor_by_one) {
  using List = std::vector<Tensor>;
  const auto first = [](const List& x) { return x[0]; };
  EXPECT_EQ(error_of([&] { jacfwd(first)(List{}); }),
            "jacfwd: argument 0 holds 0 tensors; a Jacobian is by one Tensor");
  EXPECT_EQ(error_of([&] {
              jacrev(first)(List{ones({2}), ones({2})});
            }),
            "jacrev: argument 0 holds 2 tensors; a Jacobian is by one Tensor");
  EXPECT_EQ(error_of([&] { jacrev([](const Tensor& x) {
                             return List{x, x};
                           })(ones({2})); }),
            "jacrev: the function returns 2 tensors; a Jacobian is of one Tensor");
}

TEST(TransformMisuse, loops_that_i32_does_not_count) {
  const auto next = [](const Tensor&, const Tensor& x) { return x + 1; };
  EXPECT_THAT(error_of([&] { fori_loop(0, int64_t{1} << 40, next, ones({2})); }),
              HasSubstr("fori_loop: from 0 to 1099511627776; the index is i32"));
}

TEST(TransformMisuse, rules_of_custom_vjp_fit_the_function) {
  const auto twice = [](const Tensor& x) { return x * 2; };
  const auto forward = [](const Tensor& x) { return std::make_pair(x * 2, x); };
  const auto other = custom_vjp(
      twice, [](const Tensor& x) { return std::make_pair(sum(x), x); },
      [](const Tensor& x, const Tensor& g) { return x * g; });
  EXPECT_THAT(
      error_of([&] { other(ones({2})); }),
      HasSubstr("the function returns tensor<2xf32>, and the forward function tensor<f32>"));
  const auto more = custom_vjp(
      twice, forward, [](const Tensor&, const Tensor& g) { return std::make_tuple(g, g); });
  EXPECT_THAT(error_of([&] { more(ones({2})); }),
              HasSubstr("gives 2 cotangents, and the arguments hold 1 tensors of floats"));
}

TEST(TransformMisuse, trees_of_two_shapes) {
  const std::vector<Tensor> one{ones({2})}, two{ones({2}), ones({2})};
  const auto plus = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_EQ(error_of([&] { map_leaves(plus, one, two); }),
            "trees of two shapes: one has 1 leaves and the other 2");
}

TEST(TransformMisuse, options_of_compile) {
  const auto next = [](const Tensor& x) { return x + 1; };
  EXPECT_THAT(error_of([&] { compile(next, {.threads = 1 << 30})(ones({2})); }),
              HasSubstr("compile: 1073741824 threads; give 0 (one per core) to 4096"));
  EXPECT_THAT(error_of([&] { compile(next, {.threads = -1})(ones({2})); }),
              HasSubstr("compile: -1 threads"));
  EXPECT_THAT(compile(next, {.donate = {0, 0}})(ones({2})).to_vector<float>(), ElementsAre(2, 2));
}

TEST(TransformMisuse, messages_name_no_inner_function) {
  EXPECT_THAT(
      error_of([] { grad([](const Tensor& x) { return x; })(ones({3})); }),
      AllOf(HasSubstr("grad: the first result must be one real number"), Not(HasSubstr("main"))));
  EXPECT_THAT(error_of([] {
                vmap(squares, {.out = {std::nullopt}})(ones({2, 2}));
              }),
              AllOf(HasSubstr("vmap: result 0 depends on the examples"), Not(HasSubstr("main"))));
  const Trace t = trace(squares)(ones({2}));
  EXPECT_THAT(error_of([&] { t(ones({2}, DType::I32)); }), HasSubstr("for argument 0, which was"));
}

// A function that throws leaves no trace behind, so that the next one works.
TEST(TransformMisuse, functions_that_throw) {
  struct Stop {};
  const auto stop = [](const Tensor& x) -> Tensor {
    const Tensor half = x * 0.5;
    throw Stop();
  };
  EXPECT_THROW(grad(stop)(ones({2})), Stop);
  EXPECT_THROW(vmap(stop)(ones({2})), Stop);
  EXPECT_THROW(compile(stop)(ones({2})), Stop);
  EXPECT_THROW(
      shard_map(stop, Mesh{{"x", 2}}, {.in = {P("x")}, .mode = ShardMapMode::Manual})(ones({2})),
      Stop);
  EXPECT_THAT(error_of([] { axis_index("x"); }), HasSubstr("only in shard_map"));
  EXPECT_THAT((ones({2}) + 1).to_vector<float>(), ElementsAre(2, 2));
  EXPECT_THAT(grad(squares)(ones({2})).to_vector<float>(), ElementsAre(2, 2));
}

}  // namespace
}  // namespace cleave
