#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "cleave/core/error.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// What comes from the host, and goes there, is what the caller says it is.
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

TEST(HostValues, AreOfTheStorageTypeOfTheirDtype) {
  EXPECT_EQ(error_of([] {
              Tensor::from(DType::F32, {2}, std::vector<int32_t>{1, 2});
            }),
            "Tensor::from: elements of f32 are float, and the values are int32_t; give that dtype, "
            "and `cast` the tensor");
  EXPECT_THAT(error_of([] {
                Tensor::from(DType::I32, {2}, std::vector<float>{1, 2});
              }),
              HasSubstr("elements of i32 are int32_t, and the values are float"));
  EXPECT_THAT(error_of([] {
                Tensor::from(DType::I64, {2}, std::vector<double>{1, 2});
              }),
              HasSubstr("elements of i64 are int64_t, and the values are double"));
  EXPECT_THAT(error_of([] { Tensor::from(DType::I32, {1}, std::vector<uint32_t>{1}); }),
              HasSubstr("i32 are int32_t, and the values are uint32_t"));
  // As many bytes, and as many elements.
  EXPECT_THAT(error_of([] { Tensor::from(DType::F64, {2}, std::vector<float>(4)); }),
              HasSubstr("f64 are double, and the values are float"));
  EXPECT_THAT(error_of([] { Tensor::from(DType::F64, {2}, std::vector<std::complex<float>>(2)); }),
              HasSubstr("f64 are double, and the values are std::complex<float>"));
  EXPECT_THAT(error_of([] { Tensor::from(DType::C64, {2}, std::vector<double>(2)); }),
              HasSubstr("complex<f32> are std::complex<float>, and the values are double"));
  EXPECT_THAT(error_of([] { Tensor::from(DType::BF16, {2}, std::vector<int16_t>(2)); }),
              HasSubstr("bf16 are uint16_t, and the values are int16_t"));
  EXPECT_THAT(error_of([] { Tensor::from(DType::F32, {3}, std::vector<float>(2)); }),
              HasSubstr("tensor<3xf32> has 3 elements, 2 are given"));
  EXPECT_EQ(Tensor::from(DType::BF16, {1}, std::vector<uint16_t>{0x3f80}).item(), 1);
  EXPECT_EQ(Tensor::from(DType::C64, {1}, std::vector<std::complex<float>>{{1, 2}})
                .to_vector<std::complex<float>>()[0],
            std::complex<float>(1, 2));
}

TEST(HostValues, BoolsAreTrueOrFalse) {
  const Tensor bytes = Tensor::from(DType::Bool, {3}, std::vector<uint8_t>{0, 1, 4});
  EXPECT_EQ(bytes.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 1}));
  const Tensor bits = Tensor::from(DType::Bool, {3}, std::vector<bool>{false, true, true});
  EXPECT_EQ(sum(cast(bits, DType::I32)).item(), 2);
}

TEST(HostValues, AreReadAsWhatTheyAre) {
  EXPECT_THAT(error_of([] { zeros({2}, DType::C64).to_vector<double>(); }),
              HasSubstr("elements of complex<f32> are std::complex<float>, not double"));
  EXPECT_THAT(error_of([] { zeros({2}, DType::I64).to_vector<double>(); }),
              HasSubstr("not double"));
}

TEST(HostValues, AnArrayMayBeRefilled) {
  Array buffer(DType::F32, {2});
  auto fill = [&](float value) { buffer.data<float>()[0] = buffer.data<float>()[1] = value; };
  fill(1);
  const Tensor a = Tensor::from(buffer), later = a * 2;
  fill(5);
  const Tensor b = Tensor::from(buffer);
  fill(7);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(later.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{5, 5}));
  // A view of a larger buffer.
  Array rows(DType::F32, {2, 2});
  for (int i = 0; i < 4; ++i) rows.data<float>()[i] = static_cast<float>(i);
  const Tensor column = Tensor::from(rows.slice({0, 1}, {2, 1}));
  for (int i = 0; i < 4; ++i) rows.data<float>()[i] = -1;
  EXPECT_EQ(column.to_vector<float>(), (std::vector<float>{1, 3}));
}

TEST(HostValues, ShardsMayBeRefilled) {
  Array buffer = Array::zeros(DType::F32, {2});
  const ShardingSpec spec = to_sharding(P("x"), shared_mesh(Mesh{{"x", 2}}), {4});
  const Tensor x = Tensor::from_shards({buffer, buffer}, {4}, spec);
  buffer.data<float>()[0] = 7;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(HostValues, AnArrayThatNobodyElseHoldsIsTakenOver) {
  Array array = Array::zeros(DType::F32, {1024});
  const std::byte* memory = array.raw();
  EXPECT_EQ(Tensor::from(std::move(array)).addressable_shards()[0].data.raw(), memory);
}

TEST(HostValues, WhatIsReadMayBeWritten) {
  const Tensor x = Tensor::from(DType::F32, {2}, std::vector<float>{1, 2});
  x.to_host().data<float>()[0] = 9;
  Array host = x.to_host();
  host.data<float>()[1] = 9;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  const Tensor replicated = x.shard(Mesh{{"x", 2}}, P()).evaluate();
  Array copy = replicated.to_host();
  copy.data<float>()[0] = 9;
  EXPECT_EQ(replicated.to_vector<float>(), (std::vector<float>{1, 2}));
}

// ---- labels ----

Tensor labels(std::vector<int32_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Tensor::from(DType::I32, shape, values);
}

TEST(CrossEntropy, RefusesLabelsThatAreNoClass) {
  const Tensor logits = randn({3, 4}, 1);
  EXPECT_THAT(error_of([&] {
                cross_entropy(logits, labels({0, 4, 1}));
              }),
              HasSubstr("cross_entropy: there is a label 4, and the logits have 4 classes"));
  EXPECT_THAT(error_of([&] {
                cross_entropies(logits, labels({0, -1, 1}));
              }),
              HasSubstr("label -1"));
  EXPECT_THAT(error_of([&] {
                cross_entropy(logits, labels({0, 9, 1}).shard(Mesh{{"x", 3}}, P("x")).evaluate());
              }),
              HasSubstr("label 9"));
  EXPECT_TRUE(std::isfinite(cross_entropy(logits, labels({0, 3, 1})).item()));
}

TEST(CrossEntropy, IsNaNInGraphsAndSoIsItsGradient) {
  const Tensor logits = randn({3, 4}, 1), bad = labels({0, 4, 1}), good = labels({0, 3, 1});
  const auto losses =
      compile([](const Tensor& x, const Tensor& y) { return cross_entropies(x, y); });
  const std::vector<float> rows = losses(logits, bad).to_vector<float>();
  EXPECT_TRUE(std::isnan(rows[1]));
  EXPECT_TRUE(std::isfinite(rows[0]) && std::isfinite(rows[2]));
  const auto loss = [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); };
  const std::vector<float> g = grad(loss)(logits, bad).to_vector<float>();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(g[i]), i / 4 == 1) << i;
  for (float value : grad(loss)(logits, good).to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
  // Labels that are recorded, and not computed.
  EXPECT_TRUE(std::isnan(cross_entropy(logits, bad * 1).item()));
  EXPECT_TRUE(std::isnan(cross_entropy(logits, -1 - good).item()));
  const Mesh mesh{{"x", 2}};
  EXPECT_TRUE(std::isnan(cross_entropy(logits.shard(mesh, P({}, "x")), bad * 1).item()));
  EXPECT_NEAR(cross_entropy(logits.shard(mesh, P({}, "x")), good).item(),
              cross_entropy(logits, good).item(), 1e-6);
}

TEST(CrossEntropy, NarrowLabelsMeetOneClass) {
  const Tensor logits = randn({2, 600}, 1), wide = labels({5, 100});
  const double expected = cross_entropy(logits, wide).item();
  for (DType dtype : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I64, DType::U32})
    EXPECT_EQ(cross_entropy(logits, cast(wide, dtype)).item(), expected) << name(dtype);
}

// ---- names of axes ----

TEST(Specs, NamesThatAreNone) {
  EXPECT_THAT(error_of([] {
                zeros({4}).shard(Mesh{{"x", 2}}, P(""));
              }),
              HasSubstr("a spec names an axis \"\""));
  EXPECT_THAT(error_of([] { zeros({4}).shard(Mesh{{"", 2}}, P()); }), HasSubstr("has no name"));
}

}  // namespace
}  // namespace cleave
