#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/type.h"
#include "cleave/machine/profile.h"
#include "cleave/reshard/reshard.h"

namespace cleave::plan {

// A spec of the planner's mesh by number: equal numbers, equal layouts. kNoSpec: not a ranked
// tensor.
using SpecId = int32_t;
inline constexpr SpecId kNoSpec = -1;

// Which layouts are tried; see place_axes.
struct LayoutChoice {
  bool every = false;  // all ways to put axes on dimensions, also on large meshes
  // By axis the parts that it may be used in, major to minor; empty: only as a whole
  // (axis_parts.h).
  std::vector<AxisList> parts = {};
};

// All layouts that a planning talks about, each once; what they take on a device; and what it costs
// to get from one to another. Not to be shared between threads.
class Layouts {
 public:
  Layouts(MeshPtr mesh, const MachineProfile& profile, LayoutChoice choice = {});

  const MeshPtr& mesh() const { return mesh_; }
  const LayoutChoice& choice() const { return choice_; }
  const MachineProfile& profile() const { return pricers_[0].resharder.profile(); }

  SpecId intern(const ShardingSpec& spec);
  const ShardingSpec& spec(SpecId id) const { return specs_[id]; }
  bool is_partial(SpecId id) const { return id >= 0 && specs_[id].is_partial(); }
  SpecId replicated(size_t rank);

  // Whether strategies may split a dimension of n into this many shards: if no more than a
  // quarter is wasted (splits_well); on meshes of four axes and more also evenly, or no further
  // than one axis does. Uneven reshards are searched one by one, and there would be too many.
  bool splits(int64_t n, int64_t shards) const;

  // Every layout of a tensor by whole axes without pending reductions: each axis on a dimension
  // that it divides well enough, or on none.
  //
  //   [3, 8] on x=4:   [{}, {}], [{}, {"x"}]        3 rows over 4 would waste a third
  const std::vector<SpecId>& candidates(const Shape& shape);
  std::vector<ShardingSpec> candidate_specs(const Shape& shape) const;  // the same as specs

  // Bytes of the largest shard.
  int64_t bytes(SpecId id, const Type& type) const;
  // How many parts the tensor is cut into.
  int64_t shards(SpecId id) const;

  // Of the cheapest reshard: that of the search, kept by what it depends on (the axes of the
  // dimensions that take part, whatever their order; divisibility; bytes).
  ReshardPrice price(SpecId from, SpecId to, const Type& type);
  double seconds(SpecId from, SpecId to, const Type& type) { return price(from, to, type).seconds; }
  // Searches on several threads what many reshards by whole axes share, so that `price` is quick
  // for them.
  struct Reshard {
    const ShardingSpec *from, *to;
    const Type* type;
  };
  void prepare(const std::vector<Reshard>& reshards, int threads);
  // From each of a list to each of another, row by row.
  struct TableRequest {
    const std::vector<SpecId>* from;
    const std::vector<SpecId>* to;
    const Type* type;
  };
  // On several threads. `stop` is asked now and then; when it says yes, some tables stay empty.
  std::vector<std::vector<ReshardPrice>> tables(const std::vector<TableRequest>& requests,
                                                int threads,
                                                const std::function<bool()>& stop = {});
  // The steps of the cheapest reshard.
  ReshardPlan plan(SpecId from, SpecId to, const Type& type);

 private:
  // Tensors of equal size are priced by the same one, so that two threads share nothing.
  struct Pricer {
    Resharder resharder;
    std::unordered_map<std::string, ReshardPrice> prices;
  };
  static constexpr int kPricers = 2;

  int number(const Type& type);
  Pricer& pricer(int type) { return pricers_[pricer_of_[type]]; }
  // Where the price of a reshard is kept; seconds are NaN if it was not asked for yet.
  ReshardPrice& known(int type, SpecId from, SpecId to);
  ReshardPrice search(Pricer& pricer, SpecId from, SpecId to, const Type& type) const;
  std::vector<ReshardPrice> table(const TableRequest& request, int type);

  MeshPtr mesh_;
  LayoutChoice choice_;
  std::vector<Pricer> pricers_;
  std::vector<ShardingSpec> specs_;
  std::unordered_map<std::string, SpecId> ids_;
  std::unordered_map<std::string, std::vector<SpecId>> candidates_;
  std::unordered_map<std::string, int> types_;
  std::vector<int> pricer_of_;                       // by type
  std::unordered_map<int64_t, int> pricer_of_size_;  // by bytes
  // What is known of a type: layouts are numbered as they are asked for, since few of all are.
  struct Known {
    std::vector<int> place;                         // by spec; -1: not asked for yet
    int count = 0;                                  // of those that were
    std::vector<std::vector<ReshardPrice>> prices;  // by place of one, then of the other
  };
  std::vector<Known> known_;  // by type
  std::string key_;
};

// How plans for a mesh reshard: on three axes and more, and if axes are used in parts, by whole
// axes and those parts, which keeps the number of searches and the time of each in bounds.
ReshardOptions reshard_options(const Mesh& mesh, const std::vector<AxisList>& parts);

// Whether a dimension of n may be split into this many shards: no more than a quarter is wasted.
bool splits_well(int64_t n, int64_t shards);

// All ways to put the axes of a mesh into bins, or into none (-1). For each way the axes of every
// bin, major to minor: in mesh order, and on meshes of two axes without parts also the other way
// round. If there are three axes or more, the last two are free, and each one before goes where the
// next one goes, or nowhere: it extends what that does over more devices, unless a bin has no room
// for both; with `every`, they are as free as the last two. One of the free axes at a time (with
// `every`, any of them) may go in parts, each into a bin of its own or none. `fits` is asked with a
// bin and its shards and cuts the enumeration short.
//
//   data=4,fsdp=4,model=4:   {"data", "fsdp"} on one dimension and {"model"} on another, {"fsdp"}
//                            alone, but not {"data"} alone
//   model=8 in parts 2, 4:   {"model":(1)2} on one dimension, {"model":(2)4} on another
std::vector<std::vector<AxisList>> place_axes(const Mesh& mesh, size_t bins,
                                              const LayoutChoice& choice,
                                              const std::function<bool(size_t, int64_t)>& fits);

}  // namespace cleave::plan
