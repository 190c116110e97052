#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/available_memory.h"
#include "cleave/core/mesh.h"
#include "cleave/core/shape.h"
#include "cleave/core/units.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

TEST(Sizes, ElementsThatNoMemoryHoldsAreRefused) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(num_elements({big, 0, big}), 0);
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({big, 1024}), big * 1024);
  EXPECT_THAT(error_of([&] {
                num_elements({big, big});
              }),
              HasSubstr("a tensor of 1099511627776x1099511627776: it has more elements"));
  EXPECT_THAT(error_of([] { num_elements({INT64_MAX, 1}); }), HasSubstr("more elements"));
  EXPECT_THAT(error_of([] {
                num_elements({INT64_MAX, INT64_MAX, 2});
              }),
              HasSubstr("more elements"));
  // Strides of nothing are never used, but must not overflow either.
  EXPECT_EQ(row_major_strides({0, big, big})[2], 1);
}

TEST(Sizes, BytesThatDoNotFitAreRefusedWithWhatThereIs) {
  EXPECT_GT(available_memory(), 0);
  check_fits(1024, "a tensor");
  EXPECT_THAT(error_of([] { check_fits(INT64_MAX, "a tensor"); }),
              testing::AllOf(HasSubstr("a tensor: 8 EiB are needed, and "),
                             HasSubstr(" of memory are available")));
  EXPECT_EQ(bytes_text(1000, BytesStyle::Estimate), "1000 bytes");
  EXPECT_EQ(bytes_text(int64_t{1} << 30, BytesStyle::Estimate), "1 GiB");
  EXPECT_EQ(bytes_text(3998000000000, BytesStyle::Estimate), "3.64 TiB");
}

TEST(Sizes, MeshesHaveADeviceAtLeastAndAMillionAtMost) {
  EXPECT_EQ(parse_mesh("x=1024,y=1024").num_devices(), 1 << 20);
  EXPECT_THAT(error_of([] { parse_mesh("x=1024,y=1025"); }), HasSubstr("more than 1048576"));
  EXPECT_THAT(error_of([] { parse_mesh("x=4294967296,y=4294967296"); }),
              HasSubstr("more than 1048576"));
  EXPECT_THAT(error_of([] { parse_mesh("x=0"); }), HasSubstr("must be at least 1"));
}

}  // namespace
}  // namespace cleave
