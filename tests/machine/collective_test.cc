#include "cleave/machine/collective.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "cleave/core/error.h"

namespace cleave {
namespace {

AxisList axes_of(const Mesh& mesh, std::initializer_list<const char*> names) {
  AxisList axes;
  for (const char* name : names) axes.push_back(whole_axis(mesh, name));
  return axes;
}

TEST(GroupLinks, NodesHoldConsecutiveDevices) {
  const MachineProfile& h100 = builtin_profile("h100");
  const Mesh mesh{{"x", 2}, {"y", 8}};
  EXPECT_EQ(group_links(mesh, axes_of(mesh, {"y"}), h100), (GroupLinks{8, 8, 1}));
  EXPECT_EQ(group_links(mesh, axes_of(mesh, {"x"}), h100), (GroupLinks{2, 1, 2}));
  EXPECT_EQ(group_links(mesh, axes_of(mesh, {"x", "y"}), h100), (GroupLinks{16, 8, 2}));
  EXPECT_EQ(group_links(mesh, {AxisRef{1, 1, 2}}, h100), (GroupLinks{2, 2, 1}));
}

TEST(GroupLinks, DeviceOrderDecides) {
  const MachineProfile& h100 = builtin_profile("h100");
  Mesh mesh{{"x", 2}, {"y", 8}};
  for (int64_t y = 0; y < 8; ++y)
    for (int64_t x = 0; x < 2; ++x) mesh.device_ids.push_back(0);
  for (int64_t p = 0; p < 16; ++p) mesh.device_ids[p] = p % 8 * 2 + p / 8;
  EXPECT_EQ(group_links(mesh, axes_of(mesh, {"x"}), h100), (GroupLinks{2, 2, 1}));
  EXPECT_EQ(group_links(mesh, axes_of(mesh, {"y"}), h100), (GroupLinks{8, 4, 2}));
}

TEST(GroupLinks, AgreesWithCountingOverAllGroups) {
  EXPECT_TRUE(rc::check([] {
    std::vector<MeshAxis> axes;
    const int rank = *rc::gen::inRange(1, 4);
    for (int i = 0; i < rank; ++i)
      axes.push_back(
          {std::string(1, static_cast<char>('a' + i)), *rc::gen::inRange<int64_t>(1, 7)});
    const Mesh plain(axes, {});
    Mesh ordered(axes, std::vector<int64_t>(plain.num_devices()));
    std::iota(ordered.device_ids.begin(), ordered.device_ids.end(), 0);
    AxisList group;
    for (int i = 0; i < rank; ++i)
      if (*rc::gen::arbitrary<bool>()) group.push_back(whole_axis(plain, i));
    MachineProfile profile = default_profile();
    profile.devices_per_node = *rc::gen::inRange<int64_t>(1, 13);
    RC_ASSERT(group_links(plain, group, profile) == group_links(ordered, group, profile));
  }));
}

// Hand-computed: one protocol of each form over 16 devices on 2 nodes.
TEST(CollectiveSeconds, TermsOfAProtocol) {
  MachineProfile profile = default_profile();
  profile.collectives.fill({{"far too slow", 1e6, 0, 0, 0, 0, 1, 1}});
  CollectiveProtocol ring{"ring", 10, 1, 0, 20, 0, 100, 5};
  ring.across_base_us = 7;
  ring.local_gbps = 50;
  auto& gathers = profile.collectives[static_cast<size_t>(CollectiveKind::AllGather)];
  gathers = {ring};
  const double bytes = 1e9;
  const auto seconds = [&](CollectiveKind kind, const GroupLinks& links) {
    return collective_cost(kind, links, profile).seconds(bytes);
  };
  // 10 + 14 steps inside + 20 + 7 us; 15/16 of 1e9 at 8 x 5 GB/s; 1/16 copied at 50 GB/s
  EXPECT_NEAR(seconds(CollectiveKind::AllGather, {16, 8, 2}), 51e-6 + 15. / 16 / 40 + 1. / 16 / 50,
              1e-12);
  EXPECT_NEAR(seconds(CollectiveKind::AllGather, {8, 8, 1}), 17e-6 + 7. / 8 / 100 + 1. / 8 / 50,
              1e-12);
  CollectiveProtocol tree{"tree", 10, 0, 1, 0, 30, 100, 5};
  tree.tree = true;
  auto& reduces = profile.collectives[static_cast<size_t>(CollectiveKind::AllReduce)];
  reduces = {tree};
  // 10 + 7 + 30 log2(nodes); log2(nodes) times the buffer at 8 x 5 GB/s
  EXPECT_NEAR(seconds(CollectiveKind::AllReduce, {16, 8, 2}), 47e-6 + 1. / 40, 1e-12);
  EXPECT_NEAR(seconds(CollectiveKind::AllReduce, {64, 8, 8}), 107e-6 + 3. / 40, 1e-12);
  EXPECT_NEAR(seconds(CollectiveKind::AllReduce, {8, 8, 1}), 17e-6 + 2 * 7. / 8 / 100, 1e-12);
  reduces[0].in_switch = true;
  EXPECT_NEAR(seconds(CollectiveKind::AllReduce, {8, 8, 1}), 17e-6 + 9. / 8 / 100, 1e-12);
}

TEST(CollectiveSeconds, AnAllReduceMayRunAsItsHalves) {
  MachineProfile profile = default_profile();
  profile.collectives.fill({{"ring", 10, 0, 0, 0, 0, 100, 100}});
  profile.collectives[static_cast<size_t>(CollectiveKind::AllReduce)] = {
      {"slow", 100, 0, 0, 0, 0, 10, 10}};
  EXPECT_NEAR(collective_cost(CollectiveKind::AllReduce, {2, 2, 1}, profile).seconds(1e9),
              20e-6 + 1. / 100, 1e-12);
}

TEST(CollectiveSeconds, OnlyLinesThatAreTheLeastForSomeSize) {
  MachineProfile profile = default_profile();
  auto& gathers = profile.collectives[static_cast<size_t>(CollectiveKind::AllGather)];
  gathers = {{"late", 100, 0, 0, 0, 0, 100, 1},
             {"never", 60, 0, 0, 0, 0, 20, 1},
             {"early", 1, 0, 0, 0, 0, 10, 1},
             {"worse", 2, 0, 0, 0, 0, 9, 1}};
  const CollectiveCost cost = collective_cost(CollectiveKind::AllGather, {2, 2, 1}, profile);
  std::vector<double> latencies;
  for (const CostLine& line : cost.lines()) latencies.push_back(std::round(line.latency * 1e6));
  EXPECT_EQ(latencies, (std::vector<double>{1, 100}));
}

TEST(CollectiveSeconds, AnotherNetwork) {
  const MachineProfile& h100 = builtin_profile("h100");
  const MachineProfile slow = with_network(h100, {h100.network.gbps / 2, h100.network.hop_us * 3});
  const GroupLinks one{8, 8, 1}, two{2, 1, 2};
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    EXPECT_EQ(collective_cost(kind, one, slow).seconds(1e8),
              collective_cost(kind, one, h100).seconds(1e8));
    EXPECT_NEAR(collective_cost(kind, two, slow).seconds(1e12) /
                    collective_cost(kind, two, h100).seconds(1e12),
                2, 0.1);
    EXPECT_GT(collective_cost(kind, two, slow).seconds(1),
              collective_cost(kind, two, h100).seconds(1) * 1.5);
  }
  MachineProfile without = h100;
  without.network = {};
  EXPECT_THROW(with_network(without, {25, 10}), UserError);
}

TEST(CollectiveSeconds, MonotoneInBytesAndRanks) {
  for (const std::string& name : builtin_profile_names()) {
    const MachineProfile& profile = builtin_profile(name);
    for (int k = 0; k < kNumCollectiveKinds; ++k) {
      const auto kind = static_cast<CollectiveKind>(k);
      for (GroupLinks links : {GroupLinks{2, 2, 1}, GroupLinks{8, 8, 1}, GroupLinks{16, 8, 2}}) {
        double last = 0;
        for (double bytes = 1; bytes < 1e12; bytes *= 1.7) {
          const double seconds = collective_cost(kind, links, profile).seconds(bytes);
          EXPECT_GT(seconds, last);
          last = seconds;
        }
      }
      EXPECT_LE(collective_cost(kind, {2, 2, 1}, profile).seconds(1e9),
                collective_cost(kind, {2, 1, 2}, profile).seconds(1e9))
          << name << ": across nodes is not faster than inside";
    }
  }
}

TEST(CollectiveSeconds, AllReduceIsAtMostScatterAndGather) {
  for (const std::string& name : builtin_profile_names()) {
    const MachineProfile& profile = builtin_profile(name);
    for (GroupLinks links : {GroupLinks{2, 2, 1}, GroupLinks{8, 8, 1}, GroupLinks{64, 8, 8}})
      for (double bytes : {1e3, 1e6, 1e9}) {
        const double all_reduce =
            collective_cost(CollectiveKind::AllReduce, links, profile).seconds(bytes);
        const double scatter =
            collective_cost(CollectiveKind::ReduceScatter, links, profile).seconds(bytes);
        const double gather =
            collective_cost(CollectiveKind::AllGather, links, profile).seconds(bytes);
        EXPECT_LE(all_reduce, (scatter + gather) * 1.0001) << name;
        EXPECT_GE(all_reduce, scatter) << name;
      }
  }
}

TEST(CollectiveSeconds, AxisLinksFormAHierarchy) {
  MachineProfile profile = default_profile();
  profile.axis_links["slow"].fill({10, 1});
  profile.axis_links["fast"].fill({1, 100});
  const Mesh mesh{{"slow", 4}, {"fast", 8}};
  const double bytes = 1e9;
  const double both = collective_seconds(CollectiveKind::AllGather, bytes, mesh,
                                         axes_of(mesh, {"slow", "fast"}), profile);
  const double launch = profile.executor.launch_us * 1e-6;
  const double slow_part = 30e-6 + bytes / 8 * 3 / 4 / 1e9;
  const double fast_part = 7e-6 + bytes * 7 / 8 / 100e9;
  EXPECT_NEAR(both, launch + slow_part + fast_part, 1e-12);
  EXPECT_NEAR(
      collective_seconds(CollectiveKind::AllReduce, bytes, mesh, axes_of(mesh, {"fast"}), profile),
      launch + 14e-6 + 2 * bytes * 7 / 8 / 100e9, 1e-12);
  EXPECT_EQ(collective_seconds(CollectiveKind::AllGather, bytes, mesh, {}, profile), 0);
}

// Every built-in machine, one with links by axis, and one whose devices share memory.
MachineProfile any_profile() {
  std::vector<std::string> names = builtin_profile_names();
  names.push_back("links by axis");
  names.push_back("shared memory");
  const std::string chosen = *rc::gen::elementOf(names);
  RC_TAG(chosen);
  MachineProfile profile =
      builtin_profile(chosen.find(' ') == std::string::npos ? chosen : "default");
  if (chosen == "links by axis") {
    profile.axis_links["a"].fill({10, 25});
    profile.axis_links["c"].fill({1, 300});
  } else if (chosen == "shared memory") {
    profile.devices_per_node = 1 << 20;
    for (auto& protocols : profile.collectives)
      protocols = {{"threads", 2, 1, 0, 0, 0, 8, 8, true}};
  } else if (*rc::gen::arbitrary<bool>()) {
    profile.devices_per_node = *rc::gen::element<int64_t>(1, 2, 4, 8, 16);
  }
  return profile;
}

Mesh any_mesh() {
  std::vector<MeshAxis> axes;
  const int rank = *rc::gen::inRange(1, 5);
  for (int i = 0; i < rank; ++i)
    axes.push_back(
        {std::string(1, static_cast<char>('a' + i)), *rc::gen::element<int64_t>(1, 2, 3, 4, 8)});
  return Mesh(axes, {});
}

AxisList any_axes(const Mesh& mesh) {
  AxisList group;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].size > 1 && *rc::gen::arbitrary<bool>())
      group.push_back(whole_axis(mesh, static_cast<int>(i)));
  return group;
}

RC_GTEST_PROP(CollectiveProperties, MonotoneAndConcaveInBytes, ()) {
  const MachineProfile profile = any_profile();
  const Mesh mesh = any_mesh();
  const AxisList axes = any_axes(mesh);
  const auto kind = static_cast<CollectiveKind>(*rc::gen::inRange(0, kNumCollectiveKinds));
  const CollectiveCost cost = collective_cost(kind, mesh, axes, profile);
  const double bytes = std::pow(2.0, *rc::gen::inRange(0, 36)) * *rc::gen::inRange(100, 200) / 100;
  const double more = bytes * *rc::gen::inRange(101, 400) / 100;
  if (axes.empty()) {
    RC_ASSERT(cost.seconds(bytes) == 0);
    return;
  }
  RC_ASSERT(cost.seconds(0) > 0);
  RC_ASSERT(cost.seconds(bytes) < cost.seconds(more));
  RC_ASSERT(cost.seconds(more) * bytes <= cost.seconds(bytes) * more * (1 + 1e-12));
}

RC_GTEST_PROP(CollectiveProperties, AllReduceLiesBetweenItsPartAndItsParts, ()) {
  const MachineProfile profile = any_profile();
  const Mesh mesh = any_mesh();
  const AxisList axes = any_axes(mesh);
  const double bytes = std::pow(2.0, *rc::gen::inRange(4, 34));
  auto seconds = [&](CollectiveKind kind) {
    return collective_seconds(kind, bytes, mesh, axes, profile);
  };
  const double both = seconds(CollectiveKind::ReduceScatter) + seconds(CollectiveKind::AllGather);
  RC_ASSERT(seconds(CollectiveKind::AllReduce) <= both * (1 + 1e-9));
  RC_ASSERT(seconds(CollectiveKind::AllReduce) >=
            seconds(CollectiveKind::ReduceScatter) * (1 - 1e-9));
}

// The same devices on fewer nodes, or with more of the network each.
RC_GTEST_PROP(CollectiveProperties, BetterLinksAreNotSlower, ()) {
  const MachineProfile profile = any_profile();
  RC_PRE(!profile.collectives[0][0].shared_memory);  // one node
  const auto kind = static_cast<CollectiveKind>(*rc::gen::inRange(0, kNumCollectiveKinds));
  const int64_t nodes = *rc::gen::element<int64_t>(2, 4, 8);
  const int64_t per_node = *rc::gen::element<int64_t>(1, 2, 4);
  RC_PRE(nodes * per_node <= 8);  // more are in no node
  const double bytes = std::pow(2.0, *rc::gen::inRange(4, 34));
  const double across =
      collective_cost(kind, {nodes * per_node, per_node, nodes}, profile).seconds(bytes);
  const double inside =
      collective_cost(kind, {nodes * per_node, nodes * per_node, 1}, profile).seconds(bytes);
  // An all_to_all counts its peers on other nodes by the node.
  if (kind != CollectiveKind::AllToAll) RC_ASSERT(inside <= across * (1 + 1e-9));
  MachineProfile better = profile;
  for (auto& protocols : better.collectives)
    for (CollectiveProtocol& protocol : protocols) {
      protocol.across_gbps *= 2;
      protocol.across_us /= 2;
    }
  RC_ASSERT(collective_cost(kind, {nodes * per_node, per_node, nodes}, better).seconds(bytes) <=
            across * (1 + 1e-9));
}

// Links by axis: the order in which a mesh lists its axes does not matter, and a faster link is
// never slower.
RC_GTEST_PROP(CollectiveProperties, HierarchyOverLinks, ()) {
  MachineProfile profile = default_profile();
  const Mesh mesh{{"a", 4}, {"b", 2}, {"c", 8}};
  const Mesh turned{{"c", 8}, {"a", 4}, {"b", 2}};
  for (const char* axis : {"a", "b", "c"})
    profile.axis_links[axis].fill({static_cast<double>(*rc::gen::inRange(0, 20)),
                                   static_cast<double>(*rc::gen::inRange(1, 400))});
  MachineProfile faster = profile;
  for (AxisLink& link : faster.axis_links["b"]) link.gbps *= 2;
  const auto kind = static_cast<CollectiveKind>(*rc::gen::inRange(0, kNumCollectiveKinds));
  const double bytes = std::pow(2.0, *rc::gen::inRange(4, 34));
  const double seconds =
      collective_seconds(kind, bytes, mesh, axes_of(mesh, {"a", "b", "c"}), profile);
  RC_ASSERT(
      std::abs(collective_seconds(kind, bytes, turned, axes_of(turned, {"c", "a", "b"}), profile) -
               seconds) <= 1e-12 * seconds);
  RC_ASSERT(collective_seconds(kind, bytes, mesh, axes_of(mesh, {"a", "b", "c"}), faster) <=
            seconds * (1 + 1e-9));
}

}  // namespace
}  // namespace cleave
