#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/runtime/partition_spec.h"
#include "cleave/spmd/transfer.h"

// What devices have in common in a change of layout is worked out and kept once.
namespace cleave {
namespace {

std::vector<Transfer> plans(const Layout& from, const Layout& to, const Shape& shape) {
  TransferPlanner planner(from, to, shape, DType::F32);
  std::vector<Transfer> all;
  for (int64_t device = 0; device < from.spec.mesh->num_devices(); ++device)
    all.push_back(planner.plan(device));
  return all;
}

Layout layout(const PartitionSpec& spec, const Mesh& mesh, const Shape& shape) {
  return {to_sharding(spec, shared_mesh(mesh), shape), nullptr};
}

TEST(TransferPlans, a_gather_has_one_list_for_all_devices) {
  const Mesh mesh{{"x", 512}};
  const Shape shape{1000, 3};  // uneven: the last devices have nothing
  const Layout from = layout(P("x"), mesh, shape), to = layout(P(), mesh, shape);
  const std::vector<Transfer> all = plans(from, to, shape);
  for (const Transfer& plan : all) {
    EXPECT_TRUE(plan.is_all_gather);
    EXPECT_TRUE(plan.receives.is_same(all[0].receives));
    EXPECT_TRUE(plan.group.is_same(all[0].group));
    EXPECT_TRUE(plan.sent.empty());
  }
  EXPECT_EQ(all[0].receives.size(), 500u);
  EXPECT_EQ(all[0].sends().size(), 511u);
  EXPECT_TRUE(all[511].sends().empty());
  EXPECT_EQ(all[0].bytes_received, 998 * 3 * 4);
  EXPECT_EQ(all[511].bytes_received, 1000 * 3 * 4);
}

TEST(TransferPlans, a_gather_along_one_axis_has_a_list_for_each_group) {
  const Mesh mesh{{"x", 16}, {"y", 16}};
  const Shape shape{256};
  const Layout from = layout(P({"x", "y"}), mesh, shape), to = layout(P("x"), mesh, shape);
  const std::vector<Transfer> all = plans(from, to, shape);
  for (size_t device = 0; device < all.size(); ++device) {
    EXPECT_TRUE(all[device].is_all_gather);
    EXPECT_EQ(all[device].group.size(), 16u);
    EXPECT_TRUE(all[device].receives.is_same(all[device / 16 * 16].receives));
  }
  EXPECT_FALSE(all[0].receives.is_same(all[16].receives));
}

TEST(TransferPlans, an_all_reduce_lists_no_pieces) {
  const Mesh mesh{{"x", 256}};
  const Shape shape{10};
  const Layout from = layout(P().unreduced("x"), mesh, shape), to = layout(P(), mesh, shape);
  for (const Transfer& plan : plans(from, to, shape)) {
    EXPECT_TRUE(plan.is_all_reduce);
    EXPECT_EQ(plan.group.size(), 256u);
    EXPECT_TRUE(plan.receives.empty());
    EXPECT_EQ(plan.bytes_received, 255 * 10 * 4);
  }
}

// What one device sends to another, the other one receives: for all changes between these layouts.
TEST(TransferPlans, what_is_sent_is_received) {
  const Mesh mesh{{"x", 3}, {"y", 2}};
  const Shape shape{7, 4};
  const PartitionSpec specs[] = {P(),
                                 P("x"),
                                 P("y"),
                                 P({"x", "y"}),
                                 P({"y", "x"}),
                                 P("x", "y"),
                                 P({}, "x"),
                                 P("y").unreduced("x"),
                                 P().unreduced({"x", "y"})};
  for (const PartitionSpec& before : specs)
    for (const PartitionSpec& after : specs) {
      const Layout from = layout(before, mesh, shape), to = layout(after, mesh, shape);
      const std::vector<Transfer> all = plans(from, to, shape);
      SCOPED_TRACE(to_string(from.spec) + " to " + to_string(to.spec));
      for (const Transfer& plan : all) {
        const Transfer alone = plan_transfer(from, to, shape, DType::F32, plan.device);
        EXPECT_EQ(alone.bytes_received, plan.bytes_received);
        EXPECT_TRUE(std::equal(alone.group.begin(), alone.group.end(), plan.group.begin(),
                               plan.group.end()));
        if (plan.is_all_reduce) continue;
        int64_t bytes = 0;
        for (const Transfer::Piece& piece : plan.receives) {
          if (piece.device == plan.device) continue;
          bytes += num_elements(piece.size) * 4;
          const std::vector<Transfer::Piece> sends = all[piece.device].sends();
          EXPECT_TRUE(std::any_of(sends.begin(), sends.end(), [&](const Transfer::Piece& sent) {
            return sent.device == plan.device && sent.size == piece.size &&
                   sent.start == piece.source;
          }));
          EXPECT_EQ(plan.group[plan.place_of(piece.device)], piece.device);
        }
        EXPECT_EQ(bytes, plan.bytes_received);
      }
    }
}

}  // namespace
}  // namespace cleave
