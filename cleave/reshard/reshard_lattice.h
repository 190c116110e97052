#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/reshard/reshard.h"
#include "cleave/reshard/reshard_search.h"
#include "cleave/reshard/reshard_space.h"

// Reshards by whole axes of tensors that divide evenly, for callers that ask for all pairs of
// layouts.
// Internal to cleave/reshard.

namespace cleave::reshard {

// Every even layout of one kind of tensor over whole axes, and every step from one to another: what
// a search explores, written out once. Tensors of any size share it, as long as their dimensions
// are divided by the same axes.
//
//   x=2,y=4, a dimension of 4 and one of 8:   rooms {}, {x}, {y} and {}, {x}, {y}, {x, y}
class Lattice {
 public:
  // Bit s: the atoms of set s, together, divide the dimension.
  using Room = uint32_t;

  struct Step {
    int32_t to;
    uint16_t price;  // index into a list of prices
    StepKind kind;
  };

  // The kind of price, which atoms take part, and which ones split the buffer that counts.
  static constexpr int kCopy = kNumCollectiveKinds;
  static size_t price_index(int kind, uint32_t atoms, uint32_t buffer, size_t num_atoms) {
    return (static_cast<size_t>(kind) << 2 * num_atoms) | (atoms << num_atoms) | buffer;
  }
  static size_t num_prices(size_t num_atoms) {
    return static_cast<size_t>(kCopy + 1) << 2 * num_atoms;
  }

  Lattice(std::vector<int64_t> atom_sizes, std::vector<Room> rooms);
  ~Lattice();

  // Whether it is small enough to be of use; empty otherwise.
  bool is_usable() const { return !states_.empty(); }
  size_t size() const { return states_.size(); }
  const State& state(int32_t id) const { return states_[id]; }
  int32_t find(const State& state) const;  // -1: not an even layout
  const Step* begin(int32_t id) const { return steps_.data() + first_[id]; }
  const Step* end(int32_t id) const { return steps_.data() + first_[id + 1]; }

 private:
  struct Arrangement;
  struct Hash {
    size_t operator()(const State& state) const { return state.hash(); }
  };

  bool fits(int bin, uint32_t atoms) const { return rooms_[bin] >> atoms & 1; }
  void enumerate(int atom, Arrangement& now);
  void add_steps(const Arrangement& at);
  void gathers(const Arrangement& at);
  void appends(const Arrangement& at, Arrangement& now, uint32_t left, uint32_t taken, int bin,
               bool scatter);
  void all_to_alls(const Arrangement& at);
  void to_partial(const Arrangement& at);
  void permutes();
  void add(const Arrangement& to, StepKind kind, int price_kind, uint32_t atoms, uint32_t buffer);

  std::vector<int64_t> sizes_;
  std::vector<Room> rooms_;
  std::vector<State> states_;
  std::vector<Arrangement> arrangements_;  // while it is built
  std::unordered_map<State, int32_t, Hash> ids_;
  std::vector<std::vector<Step>> building_;
  std::vector<Step> steps_;
  std::vector<int32_t> first_;
  int32_t at_ = 0;
};

// The cheapest ways between layouts of a mesh, by one pass from each source. By whole axes, and by
// those parts of them that are given; neither other sub-axes nor uneven shards nor averages: for
// those it has no answer, and the search has.
class EvenReshards {
 public:
  EvenReshards(MeshPtr mesh, const MachineProfile& profile, LinkCache& links,
               const AxisList& parts = {});

  const Mesh& mesh() const { return *mesh_; }
  std::optional<ReshardPrice> price(const ShardingSpec& from, const ShardingSpec& to,
                                    const Shape& shape, DType dtype);
  // From each of a list to each of another, row by row; seconds are NaN if it has no answer.
  std::vector<ReshardPrice> table(const std::vector<const ShardingSpec*>& from,
                                  const std::vector<const ShardingSpec*>& to, const Shape& shape,
                                  DType dtype);
  // The specs after each step; the last one is `to`.
  struct Stop {
    StepKind kind;
    ShardingSpec after;
  };
  std::optional<std::vector<Stop>> path(const ShardingSpec& from, const ShardingSpec& to,
                                        const Shape& shape, DType dtype);

 private:
  struct Row {
    std::vector<ReshardPrice> prices;
    std::vector<int32_t> parent;
    std::vector<StepKind> kind;
  };
  // All tensors with the same rooms and bytes.
  struct Sized {
    const Lattice* lattice = nullptr;
    std::vector<ReshardPrice> prices;
    std::vector<std::unique_ptr<Row>> rows;  // by source
  };
  struct Shaped {
    Sized* sized = nullptr;    // null: not for this class
    std::vector<int> bin_dim;  // the dimension of each bin
    std::vector<int> bin_of;   // by dimension; -1: none
  };
  struct Ends {
    Shaped* shaped;
    int32_t from, to;
  };

  Shaped& shaped(const Shape& shape, DType dtype);
  std::optional<State> state_of(const ShardingSpec& spec, const Shaped& shaped) const;
  int32_t find(const ShardingSpec& spec, const Shaped& shaped) const;  // -1: not there
  std::optional<Ends> ends(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                           DType dtype);
  const Row& row(Sized& sized, int32_t source) const;
  ShardingSpec spec_of(const State& state, const Shaped& shaped) const;

  MeshPtr mesh_;
  const MachineProfile* profile_;
  LinkCache* links_;
  AxisList atoms_;  // axes and parts of axes, in mesh order
  std::vector<int64_t> sizes_;
  std::map<std::vector<Lattice::Room>, std::unique_ptr<Lattice>> lattices_;
  std::map<std::pair<std::vector<Lattice::Room>, double>, std::unique_ptr<Sized>> sized_;
  std::unordered_map<std::string, Shaped> shapes_;
  std::string key_;
};

}  // namespace cleave::reshard
