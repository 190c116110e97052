#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// A Tensor that was never assigned is named by the op or function that is given it.
namespace cleave {
namespace {

using testing::HasSubstr;

template <typename F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(EmptyTensors, AreNamedByTheOp) {
  const Tensor x = zeros({2, 2}), none;
  EXPECT_EQ(error_of([&] { relu(none); }),
            "stablehlo.maximum: operand 0 is an empty Tensor: assign it a value first");
  EXPECT_EQ(error_of([&] { x + none; }),
            "stablehlo.add: operand 1 is an empty Tensor: assign it a value first");
  EXPECT_EQ(error_of([&] { exp(none); }),
            "stablehlo.exponential: operand 0 is an empty Tensor: assign it a value first");
  EXPECT_THAT(error_of([&] {
                concat({x, none}, 0);
              }),
              HasSubstr("stablehlo.concatenate: operand 1 is an empty Tensor"));
  EXPECT_THAT(error_of([&] { matmul(x, none); }), HasSubstr("operand 1 is an empty Tensor"));
}

TEST(EmptyTensors, AreNamedByTheMethod) {
  const Tensor none;
  const Mesh mesh{{"x", 2}};
  EXPECT_THAT(error_of([&] { none.shard(mesh, P()); }), HasSubstr("shard: the Tensor is empty"));
  EXPECT_THAT(error_of([&] { none.reshard(P()); }), HasSubstr("reshard: the Tensor is empty"));
  EXPECT_THAT(error_of([&] { none.to_host(); }), HasSubstr("to_host: the Tensor is empty"));
  EXPECT_THAT(error_of([&] { none.item(); }), HasSubstr("item: the Tensor is empty"));
  EXPECT_THAT(error_of([&] { none.dim(0); }), HasSubstr("dim: the Tensor is empty"));
}

TEST(EmptyTensors, AreNamedByTransforms) {
  const auto f = [](const Tensor& a, const Tensor& b) { return sum(a * b); };
  const Tensor x = ones({2}), none;
  const Mesh mesh{{"x", 2}};
  EXPECT_THAT(error_of([&] { grad<1>(f)(x, none); }), HasSubstr("a derivative by argument 1"));
  EXPECT_THAT(error_of([&] { grad<0>(f)(x, none); }),
              HasSubstr("argument 1 of a traced function is an empty Tensor"));
  EXPECT_THAT(error_of([&] {
                shard_map(f, mesh, {.in = {P("x"), P("x")}})(x, none);
              }),
              HasSubstr("shard_map: an argument is, or holds, an empty Tensor"));
}

}  // namespace
}  // namespace cleave
