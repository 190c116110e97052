#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/machine/collective.h"
#include "cleave/reshard/reshard.h"

// The states of the reshard search: where each of a few *atoms* (axes or sub-axes) stands. Internal
// to cleave/reshard.

namespace cleave::reshard {

inline constexpr int kMaxAtoms = 12;
inline constexpr int kMaxBins = 12;        // dimensions that the search may shard
inline constexpr int kTargetPartial = 13;  // partial under the target's reduction, if it differs
inline constexpr int kPartial = 14;        // partial under the source's reduction
inline constexpr int kReplicated = 15;

// One byte per atom: its bin (a dimension, partial or replicated) and its place there, 0 the most
// major.
struct State {
  std::array<uint8_t, 16> code;

  State() { code.fill(kReplicated << 4); }
  int bin(int atom) const { return code[atom] >> 4; }
  int place(int atom) const { return code[atom] & 15; }
  void set(int atom, int bin, int place) { code[atom] = static_cast<uint8_t>(bin << 4 | place); }
  bool operator==(const State& other) const {
    return std::memcmp(code.data(), other.code.data(), sizeof(code)) == 0;
  }
  uint64_t hash() const {
    uint64_t lo, hi;
    std::memcpy(&lo, code.data(), 8);
    std::memcpy(&hi, code.data() + 8, 8);
    uint64_t h = lo * 0x9E3779B97F4A7C15ull ^ (hi + 0x7F4A7C15ull) * 0xC2B2AE3D27D4EB4Full;
    return h ^ h >> 29;
  }
};

// A state spelled out: the atoms of each bin in order, and how many shards they make.
struct Layout {
  std::array<uint8_t, 16> length{};
  std::array<std::array<uint8_t, kMaxAtoms>, 16> atoms;
  std::array<int64_t, 16> shards;
};

// The costs of all collectives over one group of axes.
using GroupCosts = std::array<CollectiveCost, kNumCollectiveKinds>;

// What was learnt about the links of a mesh's axes; lives as long as the Resharder.
class LinkCache {
 public:
  LinkCache(MeshPtr mesh, const MachineProfile& profile) : mesh_(mesh), profile_(&profile) {}
  const Mesh& mesh() const { return *mesh_; }
  const GroupCosts& costs(AxisList axes) { return group(std::move(axes)).alone; }  // in any order
  ReshardPrice price(CollectiveKind kind, AxisList axes, double buffer);
  const GroupLinks& links(const AxisList& axes);

 private:
  struct Group {
    GroupCosts alone;
    GroupCosts shares;  // as some of many that run as one
    bool is_across = false;
  };
  const Group& group(AxisList axes);

  MeshPtr mesh_;
  const MachineProfile* profile_;
  std::map<AxisList, std::unique_ptr<Group>> groups_;
  std::map<AxisList, GroupLinks> links_;
};

// What both ends of a reshard share: the tensor, and the dimensions that take part.
struct Tensor {
  Shape shape;
  std::vector<int> bin_dim;       // the dimension of each bin
  std::vector<int64_t> bin_size;  // its size
  double other_bytes = 0;         // bytes of one element times all other dimensions
};

// The states over the atoms of one mesh.
class Space {
 public:
  Space(MeshPtr mesh, AxisList atoms, const Tensor& tensor, ReduceOp source_op, ReduceOp target_op,
        LinkCache& links);

  int num_atoms() const { return static_cast<int>(atoms_.size()); }
  int num_bins() const { return static_cast<int>(tensor_->bin_dim.size()); }
  const MeshPtr& mesh() const { return mesh_; }
  const AxisRef& atom(int i) const { return atoms_[i]; }
  // Whether the target's reduction has an identity to pad a shard with.
  bool can_pad() const { return target_op_ != ReduceOp::Avg; }
  int64_t bin_size(int bin) const { return tensor_->bin_size[bin]; }

  State state_of(const ShardingSpec& spec, int partial_bin) const;  // atoms must fit
  ShardingSpec spec_of(const State& state) const;                   // closed
  Layout layout_of(const State& state) const;
  double bytes(const Layout& layout) const;  // of the largest shard
  const GroupCosts& costs(uint32_t atom_mask);
  double seconds(CollectiveKind kind, uint32_t atom_mask, double bytes) {
    return costs(atom_mask)[static_cast<size_t>(kind)].seconds(bytes);
  }
  uint32_t all_atoms() const { return (1u << num_atoms()) - 1; }

 private:
  MeshPtr mesh_;
  AxisList atoms_;
  const Tensor* tensor_;
  ReduceOp source_op_, target_op_;
  LinkCache* links_;
  std::vector<const GroupCosts*> costs_;  // by mask; null: not asked yet
};

// Whether the axes of both specs can be cut into one list of atoms.
bool can_share_atoms(const ShardingSpec& a, const ShardingSpec& b);
// The axes of the specs, cut at every border of any of them; in mesh order.
AxisList atoms_of(const Mesh& mesh, const std::vector<const ShardingSpec*>& specs);
// The atoms of two specs over one mesh whose place differs: the axes along which a permute moves
// shards.
AxisList changed_axes(const ShardingSpec& from, const ShardingSpec& to);
// Cuts atoms that change their place where that lets one take the place of another: moving "x"=8
// and "y"=4 become "x":(1)2, "x":(2)4 and "y".
AxisList cut_moving_atoms(const AxisList& atoms, const ShardingSpec& from, const ShardingSpec& to);

}  // namespace cleave::reshard
