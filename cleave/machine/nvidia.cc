#include "cleave/machine/nvidia.h"

#include <initializer_list>

namespace cleave {
namespace {

// A protocol between the GPUs of one node, fitted to nccl-tests and to XLA's table of collectives.
struct InsideLine {
  double base_us, rank_us, gbps;
};
// The same way across nodes, in hops of the network and shares of its rate: what is paid once, by
// each further node, by each level of a tree over the nodes, and the share of the rate.
struct AcrossLine {
  double once, node, level, share;
};

struct KindLines {
  InsideLine ll, ll128, simple;
  double local_gbps;
};
struct Generation {
  KindLines all_gather, reduce_scatter, all_reduce, all_to_all;
  InsideLine in_switch;  // all_reduce; 0 if the switch cannot reduce
  InsideLine send_ll, send_ll128, send_simple;
};

constexpr Generation kNvLink3 = {
    .all_gather = {{8.2, 0.84, 4.9}, {11, 1, 80}, {37.9, 0.05, 204}, 547},
    .reduce_scatter = {{7.8, 0.99, 4.2}, {11, 0.61, 84}, {26.1, 3.6, 222}, 642},
    .all_reduce = {{8.1, 1.84, 8.6}, {9.6, 2.4, 107}, {35, 7, 230}, 530},
    .all_to_all = {{10, 0.69, 5.4}, {13.3, 0.11, 75}, {24.5, 2.2, 208}, 640},
    .in_switch = {0, 0, 0},
    .send_ll = {14, 0, 10},
    .send_ll128 = {25, 0, 110},
    .send_simple = {150, 0, 198},
};
constexpr Generation kNvLink4 = {
    .all_gather = {{4.3, 0.9, 9}, {5.4, 1.06, 119}, {22.7, 1.16, 357}, 900},
    .reduce_scatter = {{4.4, 0.88, 16.7}, {5.7, 0.85, 160}, {13.3, 2, 366}, 490},
    .all_reduce = {{4.4, 1.66, 13}, {5.5, 1.87, 157}, {15.6, 3, 365}, 620},
    .all_to_all = {{6.3, 0.2, 11}, {12.9, 0.05, 235}, {38, 0.22, 333}, 3100},
    .in_switch = {79, 0, 296},
    .send_ll = {11.5, 0, 20},
    .send_ll128 = {22, 0, 95},
    .send_simple = {250, 0, 290},
};
// Measured of all_reduce only: rings at 680 GB/s, in the switch at 510. The others are those of the
// fourth generation at twice the rate.
constexpr Generation kNvLink5 = {
    .all_gather = {{4.3, 0.9, 18}, {5.4, 1.06, 238}, {22.7, 1.16, 680}, 1800},
    .reduce_scatter = {{4.4, 0.88, 33}, {5.7, 0.85, 320}, {13.3, 2, 680}, 980},
    .all_reduce = {{4.4, 1.66, 26}, {5.5, 1.87, 314}, {15.6, 3, 680}, 1090},
    .all_to_all = {{6.3, 0.2, 22}, {12.9, 0.05, 470}, {38, 0.22, 660}, 6200},
    .in_switch = {79, 0, 510},
    .send_ll = {11.5, 0, 40},
    .send_ll128 = {22, 0, 190},
    .send_simple = {250, 0, 580},
};

const Generation& generation_of(NvLink links) {
  switch (links) {
    case NvLink::Third:
      return kNvLink3;
    case NvLink::Fourth:
      return kNvLink4;
    default:
      return kNvLink5;
  }
}

CollectiveProtocol protocol_of(const char* name, const InsideLine& inside, const AcrossLine& across,
                               double local_gbps, const Network& network) {
  CollectiveProtocol protocol;
  protocol.name = name;
  protocol.base_us = inside.base_us;
  protocol.ring_us = inside.rank_us;
  protocol.inside_gbps = inside.gbps;
  protocol.local_gbps = local_gbps;
  protocol.across_base_us = across.once * network.hop_us;
  protocol.across_us = across.node * network.hop_us;
  protocol.across_log2_us = across.level * network.hop_us;
  protocol.across_gbps = across.share * network.gbps;
  return protocol;
}

// A chain inside the node under a tree over the nodes, or the switch in place of the chain.
CollectiveProtocol tree_of(const char* name, const InsideLine& inside, const AcrossLine& across,
                           double local_gbps, const Network& network, bool in_switch = false) {
  CollectiveProtocol protocol = protocol_of(name, inside, across, local_gbps, network);
  protocol.inside_us = protocol.ring_us;
  protocol.ring_us = 0;
  protocol.tree = true;
  protocol.in_switch = in_switch;
  return protocol;
}

std::vector<CollectiveProtocol> rings(const KindLines& lines, const Network& network) {
  return {
      protocol_of("ring LL", lines.ll, {0, 0.75, 0, 0.15}, lines.local_gbps, network),
      protocol_of("ring LL128", lines.ll128, {0, 1, 0, 0.3}, lines.local_gbps, network),
      protocol_of("ring Simple", lines.simple, {0.5, 1, 0, 0.84}, lines.local_gbps, network),
  };
}

std::vector<CollectiveProtocol> all_reduces(const Generation& gpu, const Network& network) {
  const KindLines& lines = gpu.all_reduce;
  const double local = lines.local_gbps;
  std::vector<CollectiveProtocol> result = {
      protocol_of("ring LL", lines.ll, {0, 1.5, 0, 0.15}, local, network),
      tree_of("tree LL", lines.ll128, {0, 0, 1.5, 0.08}, local, network),
      protocol_of("ring LL128", lines.ll128, {0, 2, 0, 0.3}, local, network),
      tree_of("tree Simple", lines.simple, {3.8, 0, 1.5, 0.9}, local, network),
      protocol_of("ring Simple", lines.simple, {1.5, 1.5, 0, 0.94}, local, network),
  };
  if (gpu.in_switch.gbps > 0)
    result.push_back(tree_of("NVLS tree", gpu.in_switch, {2.9, 0, 1.5, 0.9}, 0, network, true));
  return result;
}

}  // namespace

void set_nccl_collectives(MachineProfile& profile, NvLink links) {
  const Generation& gpu = generation_of(links);
  const Network& network = profile.network;
  auto of = [&](CollectiveKind kind) -> auto& {
    return profile.collectives[static_cast<size_t>(kind)];
  };
  of(CollectiveKind::AllGather) = rings(gpu.all_gather, network);
  of(CollectiveKind::ReduceScatter) = rings(gpu.reduce_scatter, network);
  of(CollectiveKind::AllReduce) = all_reduces(gpu, network);
  const KindLines& all = gpu.all_to_all;
  of(CollectiveKind::AllToAll) = {
      protocol_of("pairs LL", all.ll, {0.5, 0.3, 0, 0.2}, all.local_gbps, network),
      protocol_of("pairs LL128", all.ll128, {0.5, 0.34, 0, 0.64}, all.local_gbps, network),
      protocol_of("pairs Simple", all.simple, {0.75, 2.05, 0, 0.92}, all.local_gbps, network),
  };
  of(CollectiveKind::Permute) = {
      protocol_of("send LL", gpu.send_ll, {0, 0.65, 0, 0.15}, 0, network),
      protocol_of("send LL128", gpu.send_ll128, {0, 1, 0, 0.5}, 0, network),
      protocol_of("send Simple", gpu.send_simple, {0, 1.5, 0, 0.9}, 0, network),
  };
}

}  // namespace cleave
