#include "cleave/xla/replica_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"

namespace cleave::xla {
namespace {

using testing::HasSubstr;

TEST(ReplicaGroups, AreListed) {
  EXPECT_EQ(replica_groups(", channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}"),
            (DeviceGroups{{0, 1}, {2, 3}}));
  EXPECT_EQ(replica_groups(", replica_groups={}"), DeviceGroups{});
  EXPECT_EQ(replica_groups(", channel_id=1"), DeviceGroups{});
}

TEST(ReplicaGroups, AreAnIota) {
  EXPECT_EQ(replica_groups(", replica_groups=[2,4]<=[8]"),
            (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=[4,2]<=[2,4]T(1,0)"),
            (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  // As XLA prints it for devices 2x2x2 whose last two axes change places.
  EXPECT_EQ(replica_groups(", replica_groups=[4,2]<=[2,2,2]T(0,2,1)"),
            (DeviceGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=[1,8]<=[8]"),
            (DeviceGroups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(ReplicaGroups, AreAxesOfAMesh) {
  EXPECT_EQ(
      replica_groups(", replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}, dimensions={0}"),
      (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}"),
            (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=mesh['a'=2,'b'=2,'c'=2] {'a','c'}"),
            (DeviceGroups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  // Parts of an axis: 8 as 2x4, of which the first and the second.
  EXPECT_EQ(replica_groups(", replica_groups=mesh['a'=8] {'a':(1)2}"),
            (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=mesh['a'=8] {'a':(2)4}"),
            (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(replica_groups(", replica_groups=mesh['data-parallel'=2] {'data-parallel'}"),
            (DeviceGroups{{0, 1}}));
}

TEST(ReplicaGroups, OfAMeshWithDevicesInAnotherOrder) {
  EXPECT_EQ(replica_groups(", replica_groups=mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}, "
                           "use_global_device_ids=true"),
            (DeviceGroups{{0, 2}, {1, 3}}));
  EXPECT_EQ(replica_groups(", replica_groups=mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}"),
            (DeviceGroups{{0, 2}, {1, 3}}));
}

std::string error_of(const char* attributes) {
  try {
    replica_groups(attributes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ReplicaGroups, ErrorsNameTheText) {
  EXPECT_THAT(error_of(", replica_groups=[2,4]<=[9]"), HasSubstr("the two shapes differ in size"));
  EXPECT_THAT(error_of(", replica_groups=[2,4]<=[2,4]T(0,0)"), HasSubstr("every dimension once"));
  EXPECT_THAT(error_of(", replica_groups=mesh['a'=2] {'b'}"), HasSubstr("no axis 'b'"));
  EXPECT_THAT(error_of(", replica_groups=mesh['a'=8] {'a':(3)2}"),
              HasSubstr("no part of the axis"));
  EXPECT_THAT(error_of(", replica_groups=mesh['a'=2], device_ids=(0,1,2) {'a'}"),
              HasSubstr("another size"));
  EXPECT_THAT(error_of(", replica_groups=mesh['a'=2,'b'=2] {'a','a'}"), HasSubstr("twice"));
  EXPECT_THAT(error_of(", replica_groups={{0,-1}}"), HasSubstr("no device"));
  EXPECT_THAT(error_of(", replica_groups=everyone"), HasSubstr("replica_groups=everyone"));
  EXPECT_THAT(error_of(", replica_groups=[1048577]<=[1048577]"), HasSubstr("it is no device"));
}

TEST(SourceTargetPairs, AreListed) {
  EXPECT_EQ(source_target_pairs("{{0,1},{1,0}}"), (DevicePairs{{0, 1}, {1, 0}}));
  EXPECT_THROW(source_target_pairs("{{0,1,2}}"), UserError);
  EXPECT_THROW(source_target_pairs("{{0,1}"), UserError);
}

TEST(GroupsText, NamesTheFirstGroup) {
  EXPECT_EQ(groups_text({{0, 4}, {1, 5}}), "2 groups of 2: {0,4}, ...");
  EXPECT_EQ(groups_text({{0, 1}}), "1 group of 2: {0,1}");
  EXPECT_EQ(groups_text({{0, 1, 2, 3, 4, 5, 6, 7, 8}}), "1 group of 9: {0,1,2,3,4,5,6,7,...}");
}

}  // namespace
}  // namespace cleave::xla
