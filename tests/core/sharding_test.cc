#include "cleave/core/sharding.h"

#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

MeshPtr mesh(std::string_view text) { return std::make_shared<const Mesh>(parse_mesh(text)); }

TEST(ShardingSpec, OfATensorOnNoMeshPrints) {
  ShardingSpec spec;
  spec.dims.resize(2);
  EXPECT_EQ(to_string(spec), "[{}, {}]");
}

TEST(ShardingSpec, PrintsAsParsed) {
  const MeshPtr m = mesh("x=4,y=2,z=2,w=2");
  for (const char* text :
       {"[]", "[{}, {?}]", "[{\"x\"}, {\"y\", ?}p1]", "[{\"x\":(1)2, \"y\"}, {\"x\":(2)2}]",
        "[{\"x\"}], replicated={\"z\"}, unreduced={\"w\"}", "[{\"x\"}], unreduced=max{\"w\"}"})
    EXPECT_EQ(to_string(parse_sharding(text, m)), text);
}

std::string error_of(std::string_view text, const MeshPtr& m) {
  return cleave::error_of([&] { parse_sharding(text, m); });
}

TEST(ShardingSpec, SaysWhichInvariantIsBroken) {
  const MeshPtr m = mesh("x=4,y=2");
  EXPECT_NE(error_of("[{\"q\"}]", m).find("unknown axis \"q\""), std::string::npos);
  EXPECT_NE(error_of("[{\"x\"}, {\"x\":(1)2}]", m).find("used twice"), std::string::npos);
  EXPECT_NE(error_of("[{\"x\":(1)2, \"x\":(2)2}]", m).find("write them as \"x\""),
            std::string::npos);
  EXPECT_NE(error_of("[{\"x\":(1)4}]", m).find("is the whole axis"), std::string::npos);
  EXPECT_NE(error_of("[{\"x\":(3)2}]", m).find("must divide"), std::string::npos);
  EXPECT_NE(error_of("[{}p1]", m).find("no meaning"), std::string::npos);
  EXPECT_NE(error_of("[{}], replicated={\"y\", \"x\"}", m).find("order of the mesh"),
            std::string::npos);
  EXPECT_NE(error_of("[{\"x\"", m).find("expected ','"), std::string::npos);
}

}  // namespace
}  // namespace cleave
