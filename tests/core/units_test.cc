#include "cleave/core/units.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Units, BytesInTheStylesOfTheHeader) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1 << 30), "1.00 GiB");
  EXPECT_EQ(bytes_text(80.0 * (1 << 30)), "80.00 GiB");
  EXPECT_EQ(bytes_text(0, BytesStyle::Table), "0.0 KiB");
  EXPECT_EQ(bytes_text(3 << 20, BytesStyle::Table), "3.0 MiB");
  EXPECT_EQ(bytes_text(1 << 30, BytesStyle::Table), "1.00 GiB");
  EXPECT_EQ(bytes_text(1536, BytesStyle::Limit), "1536 bytes");
  EXPECT_EQ(bytes_text((1 << 20) - 1, BytesStyle::Limit), "1048575 bytes");
  EXPECT_EQ(bytes_text(3 << 20, BytesStyle::Limit), "3.00 MiB");
  EXPECT_EQ(bytes_text(1536, BytesStyle::Estimate), "1.5 KiB");
  EXPECT_EQ(bytes_text(3 << 20, BytesStyle::Estimate), "3 MiB");
}

TEST(Units, Seconds) {
  EXPECT_EQ(seconds_text(1.23e-5), "12.30 us");
  EXPECT_EQ(seconds_text(4.567e-3), "4.57 ms");
  EXPECT_EQ(seconds_text(8.9012), "8.90 s");
  EXPECT_EQ(seconds_text(1.23e-5, 3), "12.30 us");
  EXPECT_EQ(seconds_text(4.567e-3, 3), "4.567 ms");
  EXPECT_EQ(seconds_text(8.9012, 3), "8.901 s");
}

}  // namespace
}  // namespace cleave
