#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "../support/random_specs.h"
#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/runtime/partition_spec.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

std::vector<Shape> shards_of(const ShardingSpec& spec, const Shape& shape) {
  std::vector<Shape> locals;
  for (int64_t p = 0; p < spec.mesh->num_devices(); ++p)
    locals.push_back(shard_slice(spec, shape, p).size);
  return locals;
}

RC_GTEST_PROP(GlobalShape, IsTheInverseOfCutting, ()) {
  const MeshPtr mesh = random::mesh();
  const Shape shape = random::shape(3, 13, 1);
  const ShardingSpec spec = random::spec(mesh, shape, {true, true, true});
  RC_ASSERT(compute_global_shape(shards_of(spec, shape), spec) == shape);
  if (is_even(spec, shape))
    RC_ASSERT(compute_global_shape(shard_slice(spec, shape, 0).size, spec) == shape);
}

// Shards that are accepted are those of the shape that is given.
RC_GTEST_PROP(GlobalShape, RefusesShardsThatNoShapeHas, ()) {
  const MeshPtr mesh = random::mesh();
  Shape shape = random::shape(2, 9, 1);
  shape.push_back(7);
  const ShardingSpec spec = random::spec(mesh, shape);
  std::vector<Shape> locals = shards_of(spec, shape);
  const size_t device = *rc::gen::inRange<size_t>(0, locals.size());
  const size_t d = *rc::gen::inRange<size_t>(0, shape.size());
  locals[device][d] += *rc::gen::element<int64_t>(-1, 1, 2);
  try {
    const Shape whole = compute_global_shape(locals, spec);
    RC_ASSERT(shards_of(spec, whole) == locals);
  } catch (const UserError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("compute_global_shape: "));
  }
}

TEST(GlobalShape, Examples) {
  const auto mesh = std::make_shared<const Mesh>(Mesh{{"x", 4}, {"y", 2}});
  const auto line = std::make_shared<const Mesh>(Mesh{{"x", 4}});
  const ShardingSpec rows = parse_sharding(R"([{"x"}])", line);
  EXPECT_EQ(compute_global_shape(std::vector<Shape>{{3}, {3}, {3}, {0}}, rows), Shape{9});
  EXPECT_EQ(compute_global_shape(Shape{3, 5}, parse_sharding(R"([{"y"}, {"x"}])", mesh)),
            (Shape{6, 20}));
  EXPECT_EQ(compute_global_shape(Shape{3}, parse_sharding(R"([{"x":(1)2}])", line)), Shape{6});
  EXPECT_THAT(error_of([&] {
                compute_global_shape(std::vector<Shape>{{3}, {2}, {3}, {1}}, rows);
              }),
              HasSubstr("dimension 0: the shards have 9 elements together, of which shard 1 of 4 "
                        "has 3"));
  EXPECT_THAT(error_of([&] {
                compute_global_shape(std::vector<Shape>{{3}, {3}}, rows);
              }),
              HasSubstr("2 shapes are given for the 4 devices"));
  EXPECT_THAT(error_of([&] {
                compute_global_shape(Shape{3, 3}, rows);
              }),
              HasSubstr("a shard <3x3> of 2 dimensions"));
  EXPECT_THAT(error_of([&] { compute_global_shape(Shape{-1}, rows); }), HasSubstr("negative"));
  EXPECT_THAT(error_of([&] { compute_global_shape(Shape{int64_t{1} << 62}, rows); }),
              HasSubstr("too large"));
  const ShardingSpec columns = parse_sharding(R"([{"y"}])", mesh);
  std::vector<Shape> locals(8, {2});
  locals[2] = {3};
  EXPECT_THAT(error_of([&] { compute_global_shape(locals, columns); }),
              HasSubstr("device 2 has 3 of it, and another device has 2 of the same part"));
}

}  // namespace
}  // namespace cleave
