#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "../support/random_specs.h"
#include "cleave/core/error.h"
#include "cleave/core/picture.h"
#include "cleave/core/placement.h"
#include "cleave/core/shard_layout.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

RC_GTEST_PROP(Spec, PrintsAndParses, ()) {
  const MeshPtr mesh = random::mesh({3, 64, true});
  const Shape shape = random::shape();
  const ShardingSpec spec = random::spec(mesh, shape, {true, true, true});
  RC_ASSERT(parse_sharding(to_string(spec), mesh) == spec);
}

RC_GTEST_PROP(Mesh, PrintsAndParses, ()) {
  const MeshPtr mesh = random::mesh({4, 64, true});
  RC_ASSERT(parse_mesh(to_string(*mesh)).same_devices(*mesh));
}

// Every element is held by every part of the partial, each as often as unused axes replicate it.
RC_GTEST_PROP(Layout, CoversEveryElementAsOftenAsTheSpecSays, ()) {
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape(3, 9, 0);
  const ShardingSpec spec = random::spec(mesh, shape);
  std::vector<int64_t> held(num_elements(shape), 0);
  const Shape strides = row_major_strides(shape);
  const Shape room = local_shape(spec, shape);
  for (int64_t p = 0; p < mesh->num_devices(); ++p) {
    const ShardSlice slice = shard_slice(spec, shape, p);
    for (size_t d = 0; d < shape.size(); ++d) RC_ASSERT(slice.size[d] <= room[d]);
    for (int64_t i = 0; i < num_elements(slice.size); ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = shape.size(); d-- > 0; rest /= slice.size[d])
        at += (slice.offset[d] + rest % slice.size[d]) * strides[d];
      ++held[at];
    }
  }
  int64_t shards = 1;
  for (const DimSpec& dim : spec.dims) shards *= total_size(dim.axes);
  for (int64_t count : held) RC_ASSERT(count == mesh->num_devices() / shards);
}

RC_GTEST_PROP(Layout, ChunksAreCeilAndInOrder, ()) {
  const int64_t n = *rc::gen::inRange<int64_t>(0, 50), w = *rc::gen::inRange<int64_t>(1, 20);
  int64_t at = 0;
  for (int64_t i = 0; i < w; ++i) {
    const Chunk chunk = chunk_of(n, w, i);
    RC_ASSERT(chunk.offset == at);
    RC_ASSERT(chunk.size == std::min(ceil_div(n, w), n - at));
    at += chunk.size;
  }
  RC_ASSERT(at == n);
}

RC_GTEST_PROP(Placement, GoesThereAndBack, ()) {
  const MeshPtr mesh = random::mesh({4, 64});
  const Shape shape = random::shape();
  const ShardingSpec spec = random::spec(mesh, shape, {false, true});
  const Placements placements = to_placements(spec);
  RC_ASSERT(from_placements(placements, mesh, shape.size()) == spec);
  RC_ASSERT(parse_placements(to_string(placements)) == placements);
}

// DTensor's own reading: mesh axes split one after the other, a strided one as if later axes had
// already split; checked by doing just that to the indices of a dimension.
TEST(Placement, StridedShardIsWhatSplittingRightToLeftGives) {
  const auto mesh = std::make_shared<Mesh>(Mesh{{"dp", 2}, {"tp", 4}});
  const ShardingSpec spec = from_placements(parse_placements("SS(0,4), S(0)"), mesh, 1);
  EXPECT_EQ(to_string(spec), R"([{"tp", "dp"}])");
  for (int64_t dp = 0; dp < 2; ++dp)
    for (int64_t tp = 0; tp < 4; ++tp) {
      const ShardSlice slice = shard_slice(spec, {16}, dp * 4 + tp);
      EXPECT_EQ(slice.offset[0], tp * 4 + dp * 2);
      EXPECT_EQ(slice.size[0], 2);
    }
}

TEST(Placement, SayLayoutsOfUnevenChunks) {
  const MeshPtr mesh = std::make_shared<const Mesh>(parse_mesh(R"(<["x"=2, "y"=2]>)"));
  auto lies = [&](const char* spec, Shape shape) {
    return lies_as_placements(parse_sharding(spec, mesh), shape);
  };
  EXPECT_TRUE(lies(R"([{"x", "y"}, {}])", {8, 3}));
  EXPECT_TRUE(lies(R"([{"x", "y"}, {}])", {7, 3}));   // 2, 2, 2, 1
  EXPECT_FALSE(lies(R"([{"x", "y"}, {}])", {5, 3}));  // 2, 2, 1, 0 and 2, 1, 1, 1
  EXPECT_FALSE(lies(R"([{"y", "x"}, {}])", {8, 3}));
  EXPECT_TRUE(lies(R"([{"y"}, {"x"}])", {5, 3}));
  EXPECT_FALSE(lies(R"([{}, {"x"}], unreduced={"y"})", {8, 3}));
}

TEST(Placement, SaysWhatItCannotSay) {
  const auto mesh = std::make_shared<Mesh>(Mesh{{"x", 4}, {"y", 2}});
  EXPECT_EQ(
      error_of([&] { to_placements(parse_sharding(R"([{"x":(1)2}])", mesh)); }),
      R"(sharding [{"x":(1)2}]: "x":(1)2 is a part of an axis, and placements speak of whole )"
      R"(axes; split the axis "x" of the mesh in two)");
  EXPECT_EQ(error_of([&] { from_placements(parse_placements("S(0), R"), mesh, 0); }),
            R"(placement S(0) on axis "x": the tensor has 0 dimensions)");
  EXPECT_EQ(
      error_of([&] { from_placements(parse_placements("SS(0,3), S(0)"), mesh, 1); }),
      R"(placement SS(0,3) on axis "x": the later axes of dimension 0 do not split it into 3)");
  EXPECT_EQ(error_of([&] { from_placements(parse_placements("P(sum), P(max)"), mesh, 1); }),
            "placements P(sum), P(max): a spec has one reduction, not sum and max");
  EXPECT_EQ(error_of([&] { from_placements(parse_placements("R"), mesh, 1); }),
            R"(1 placements for the mesh <["x"=4, "y"=2]> with 2 axes)");
  EXPECT_EQ(error_of([&] { parse_placements("Q(0)"); }),
            "unknown placement 'Q'; expected R, S(dim), SS(dim,factor) or P(op)");
}

TEST(Picture, ShowsUnevenAndEmptyShards) {
  const auto mesh = std::make_shared<Mesh>(Mesh{{"x", 2}, {"y", 2}});
  EXPECT_EQ(picture(parse_sharding(R"([{}, {"y", "x"}])", mesh), {2, 9}),
            "          [0,3)   [3,6)   [6,9)   empty\n"
            "        +-------+-------+-------+-------+\n"
            "  [0,2) | 0     | 2     | 1     | 3     |\n"
            "        +-------+-------+-------+-------+\n");
}

TEST(Picture, ShowsReplicasAndParts) {
  const auto mesh = std::make_shared<Mesh>(Mesh{{"x", 2}, {"y", 2}, {"z", 2}});
  EXPECT_EQ(picture(parse_sharding(R"([{"x"}], unreduced=max{"y"})", mesh), {5}),
            "     [0,3)             [3,5)\n"
            "   +-----------------+-----------------+\n"
            "   | (0,1) max (2,3) | (4,5) max (6,7) |\n"
            "   +-----------------+-----------------+\n");
}

TEST(Picture, DrawsOneGridPerLeadingShard) {
  const auto mesh = std::make_shared<Mesh>(Mesh{{"x", 2}});
  EXPECT_EQ(picture(parse_sharding(R"([{"x"}, {}, {}])", mesh), {2, 3, 4}),
            "dim 0 [0,1)\n"
            "          [0,4)\n"
            "        +-------+\n"
            "  [0,3) | 0     |\n"
            "        +-------+\n"
            "\n"
            "dim 0 [1,2)\n"
            "          [0,4)\n"
            "        +-------+\n"
            "  [0,3) | 1     |\n"
            "        +-------+\n");
  EXPECT_EQ(picture(parse_sharding("[]", mesh), {}), "   +-----+\n   | 0,1 |\n   +-----+\n");
}

}  // namespace
}  // namespace cleave
