#include "cleave/reshard/reordered_bytes.h"

#include <gtest/gtest.h>

#include "cleave/core/mesh_text.h"

namespace cleave {
namespace {

// On eight devices: 16 x 32 x 64 floats are 128 KiB.
int64_t reordered(const char* from, const char* to, const Shape& shape = {16, 32, 64}) {
  Mesh parsed = parse_mesh("x=2,y=4");
  parsed.name = "mesh";
  const auto mesh = std::make_shared<const Mesh>(parsed);
  return reordered_bytes(parse_sharding(from, mesh), parse_sharding(to, mesh), shape, DType::F32);
}

TEST(ReorderedBytes, DimensionsBetweenOthersAreCopied) {
  EXPECT_EQ(reordered(R"([{"x"}, {}, {}])", "[{}, {}, {}]"), 0);
  EXPECT_EQ(reordered(R"([{}, {}, {"x"}])", "[{}, {}, {}]"), 0);
  EXPECT_EQ(reordered(R"([{}, {"x"}, {}])", "[{}, {}, {}]"), 16 * 32 * 64 * 4);
  EXPECT_EQ(reordered(R"([{"y"}, {"x"}, {}])", R"([{"y"}, {}, {}])"), 4 * 32 * 64 * 4);
  // Dimensions of one element are none.
  EXPECT_EQ(reordered(R"([{}, {"x"}, {}])", "[{}, {}, {}]", {1, 32, 64}), 0);
  EXPECT_EQ(reordered(R"([{}, {"x"}, {}])", "[{}, {}, {}]", {16, 32, 1}), 0);
}

TEST(ReorderedBytes, ScattersCopyTheirOperand) {
  EXPECT_EQ(reordered(R"([{}, {}, {}], unreduced={"x"})", R"([{}, {"x"}, {}])"), 16 * 32 * 64 * 4);
  EXPECT_EQ(reordered(R"([{}, {}, {}], unreduced={"x"})", R"([{"x"}, {}, {}])"), 0);
  EXPECT_EQ(reordered(R"([{}, {}, {}], unreduced={"x"})", "[{}, {}, {}]"), 0);
  EXPECT_EQ(reordered("[{}, {}, {}]", R"([{}, {"x"}, {}])"), 0);  // a slice sends nothing
}

TEST(ReorderedBytes, AllToAllsCopyTheirOperand) {
  EXPECT_EQ(reordered(R"([{"y"}, {}, {}])", R"([{}, {}, {"y"}])"), 4 * 32 * 64 * 4);
  EXPECT_EQ(reordered(R"([{"x"}, {}])", R"([{}, {"x"}])", {16, 32}), 8 * 32 * 4);
  EXPECT_EQ(reordered(R"([{"x"}, {}])", R"([{"x"}, {}])", {16, 32}), 0);
}

}  // namespace
}  // namespace cleave
