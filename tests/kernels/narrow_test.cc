#include "cleave/kernels/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cleave/graph/text/float_text.h"
#include "cleave/kernels/array.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

constexpr DType kFloats[] = {DType::F4E2M1FN,  DType::F6E2M3FN,   DType::F6E3M2FN,
                             DType::F8E3M4,    DType::F8E4M3,     DType::F8E4M3FN,
                             DType::F8E5M2,    DType::F8E4M3FNUZ, DType::F8E4M3B11FNUZ,
                             DType::F8E8M0FNU, DType::F8E5M2FNUZ};

TEST(Narrow, EveryFloatIsReadAndWrittenBack) {
  for (DType dtype : kFloats)
    for (unsigned bits = 0; bits < 1u << bit_width(dtype); ++bits) {
      const float value = narrow_float_value(dtype, static_cast<uint8_t>(bits));
      EXPECT_TRUE(value == text::decode_float(dtype, bits) ||
                  (std::isnan(value) && std::isnan(text::decode_float(dtype, bits))))
          << name(dtype) << " " << bits;
      if (!std::isnan(value)) {
        EXPECT_EQ(narrow_float_bits(dtype, value), bits) << name(dtype);
      }
    }
}

TEST(Narrow, TiesGoToTheEvenOneAndTheRestIsAsTheTypeSays) {
  EXPECT_EQ(narrow_float_bits(DType::F8E4M3FN, 464), 0x7e);  // 448
  EXPECT_EQ(narrow_float_bits(DType::F8E4M3FN, 465), 0x7f);  // NaN
  EXPECT_EQ(narrow_float_bits(DType::F8E4M3FN, -1e9), 0xff);
  EXPECT_EQ(narrow_float_bits(DType::F8E5M2, 61440), 0x7c);  // infinity
  EXPECT_EQ(narrow_float_bits(DType::F8E5M2, 61439), 0x7b);
  EXPECT_EQ(narrow_float_bits(DType::F8E4M3FNUZ, -0.0), 0);
  EXPECT_EQ(narrow_float_bits(DType::F8E4M3FNUZ, INFINITY), 0x80);
  EXPECT_EQ(narrow_float_bits(DType::F4E2M1FN, 100), 7);
  EXPECT_EQ(narrow_float_bits(DType::F4E2M1FN, -INFINITY), 15);
  EXPECT_EQ(narrow_float_bits(DType::F8E8M0FNU, 3), 129);  // 4
  EXPECT_EQ(narrow_float_bits(DType::F8E8M0FNU, 0), 255);
}

TEST(Narrow, IntegersWrapAndFloatsSaturate) {
  const int32_t values[] = {7, 8, -9, 100};
  const Array narrow = convert(Array::from_bytes(DType::I32, {4}, values), DType::I4);
  const Array back = convert(narrow, DType::I32);
  EXPECT_EQ(back.data<int32_t>()[0], 7);
  EXPECT_EQ(back.data<int32_t>()[1], -8);
  EXPECT_EQ(back.data<int32_t>()[2], 7);
  EXPECT_EQ(back.data<int32_t>()[3], 4);
  const float floats[] = {7.9f, 1e20f, -1e20f, std::numeric_limits<float>::quiet_NaN()};
  const Array cut =
      convert(convert(Array::from_bytes(DType::F32, {4}, floats), DType::U4), DType::I32);
  EXPECT_EQ(cut.data<int32_t>()[0], 7);
  EXPECT_EQ(cut.data<int32_t>()[1], 15);
  EXPECT_EQ(cut.data<int32_t>()[2], 0);
  EXPECT_EQ(cut.data<int32_t>()[3], 0);
}

}  // namespace
}  // namespace cleave
