#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cleave/graph/cloner.h"
#include "cleave/graph/op_rule.h"
#include "cleave/reshard/reshard.h"
#include "cleave/spmd/partition.h"

namespace cleave {

// The whole-graph pass, function by function and node by node. A source value may exist in several
// layouts at once (its versions); a use that needs another layout makes it from the cheapest
// version, and later uses find it. Versions that a region made end with the region.
class Partitioner {
 public:
  Partitioner(const Graph& source, const PartitionOptions& options);
  Program run();

 private:
  using Wanted = std::vector<std::optional<ShardingSpec>>;

  MeshPtr mesh_in_use() const;
  // Whether a sharding that `what` asks for says anything; throws UserError if it is of another
  // mesh.
  bool usable(const ShardingSpec& spec, std::string_view what) const;
  void copy_scalar_functions();
  bool has_several_users(ValueId source) const;
  // Whether the users of a pending value carry it on until it meets other pending values
  // (partition_pending.cc).
  bool completes_later(ValueId source);
  struct PendingPaths {
    std::set<ValueId> sources;    // pending values that come together
    std::set<ValueId> carried;    // those, and what ops that carry them make of them
    std::set<ValueId> completed;  // of these, those that some op needs completed
    bool ends = true;
  };
  bool follow_pending(const ShardingSpec& spec, PendingPaths& paths) const;
  bool is_pending_alike(ValueId source, const ShardingSpec& spec) const;
  bool spreads_complete(const Node& node, const Wanted& wanted) const;

  // A function specialised to layouts of its arguments.
  struct Special {
    std::string name;
    std::vector<Layout> results;
  };
  const Special& specialize(const Function& function, const std::vector<ShardingSpec>& args,
                            const Wanted& results, const std::string& name);

  // Partitions the nodes of a region, except for the terminator.
  void region_nodes(RegionId source, RegionId target);
  void visit(NodeId id, RegionId target);
  // What is made from now on is for this node.
  void ask_for(const Node& node);
  void visit_plain(NodeId id, RegionId target);
  bool visit_same_value(const Node& node, RegionId target);
  // The operand of a node that asks for a layout, in it.
  ValueId in_layout(const Node& node, const ShardingSpec& spec, RegionId target);
  // What each device has first, then what that gives (partition_rounds.cc); false if the op is not
  // done so.
  bool visit_in_rounds(const Node& node, const OpPartition& how, std::span<const ShardingSpec> have,
                       const Wanted& wanted, RegionId target);
  // The same with the axes of a dimension that the op needs whole on another one, if that is much
  // cheaper than gathering it (partition_moved.cc).
  std::optional<OpPartition> moved_to_another_dim(const Node& node, const OpRule& rule,
                                                  const OpPartition& how,
                                                  const std::vector<ShardingSpec>& have);
  double seconds_to(const Node& node, const OpPartition& how);  // of bringing the operands there
  bool visit_running(const Node& node, const OpPartition& how, const Wanted& wanted,
                     RegionId target);
  std::vector<ValueId> second_round(const Node& node, std::vector<ValueId> candidates,
                                    std::vector<ValueId> others,
                                    const std::vector<ShardingSpec>& results, RegionId target);
  void visit_call(NodeId id, RegionId target);
  void visit_while(NodeId id, RegionId target);
  void visit_branches(NodeId id, RegionId target);
  void visit_manual(NodeId id, RegionId target);
  void visit_named(NodeId id, RegionId target);
  void visit_barrier(NodeId id, RegionId target);
  // Drops the versions made since `mark`, at the end of a region.
  void forget(size_t mark);
  void terminate(RegionId source, RegionId target, const std::vector<ShardingSpec>& specs);

  // The value in a layout: an existing version, or a new one by the steps of a reshard.
  ValueId use(ValueId source, const ShardingSpec& spec, RegionId target);
  // Whether that takes communication.
  bool moves(ValueId source, const ShardingSpec& spec);
  bool is_only_returned(ValueId source) const;
  // The same as it is now, in the type that the source says.
  ValueId use_as_is(ValueId source, RegionId target);
  // A sum that this completes is rounded to `dtype` then.
  ValueId reshard(ValueId value, const ShardingSpec& spec, RegionId target, DType dtype);
  bool is_marked(ValueId value) const;

  // A value that is computed from constants alone, computed once more in another layout
  // (partition_constants.cc).
  bool is_remade(ValueId source, int depth = 0) const;
  std::optional<ValueId> remake(ValueId source, const ShardingSpec& spec, RegionId target);

  // Sums of 16-bit floats that are pending over devices are kept in 32 bits (partition_width.cc;
  // docs/decisions/0008): a version of a source value may be wide.
  bool is_wide(ValueId source, ValueId version) const;
  bool has_wide(ValueId source) const;
  ValueId convert(ValueId value, DType dtype, RegionId target);
  ValueId use_wide(ValueId source, const ShardingSpec& spec, RegionId target);
  enum class Width { AsIs, WideResult, Wide };
  Width width_of(const Node& node, const OpPartition& how) const;
  ValueId use_at(Width width, ValueId source, const ShardingSpec& spec, RegionId target) {
    return width == Width::Wide ? use_wide(source, spec, target) : use(source, spec, target);
  }
  ValueId current(ValueId source) const { return versions_[source.index].back(); }
  const ShardingSpec& spec_of(ValueId value) const { return program_.layouts[value.index].spec; }
  // Source values in layouts without pending reductions, as they are now.
  ShardingSpec complete_spec(ValueId source) const;
  // The layout in which the op that makes the value leaves it; completed if some user needed that.
  ShardingSpec kept_spec(ValueId source) const;
  ShardingSpec replicated(const Type& type) const;
  // The operands with what devices take from their neighbours (partition_borders.cc).
  std::vector<ValueId> use_with_borders(const Node& node, const OpPartition& how, Width width,
                                        RegionId target);
  ValueId halo(ValueId value, std::vector<ShardSlice> boxes, const Node& user, RegionId target);

  NodeId emit(const Node& like, std::vector<ValueId> operands, std::vector<ShardingSpec> results,
              RegionId target, Width width = Width::AsIs);
  NodeId add(std::string_view op, std::vector<ValueId> operands, std::vector<Type> types,
             AttrDict attrs, std::vector<ShardingSpec> layouts, RegionId target);
  ValueId add_argument(RegionId region, ValueId source, const ShardingSpec& spec);
  void define(ValueId source, ValueId value);
  void define_results(const Node& node, std::vector<ValueId> values, const Wanted& wanted,
                      RegionId target);
  void copy_regions(const Node& like, NodeId to);
  void set_layout(ValueId value, ShardingSpec spec);
  void wish(ValueId source, const ShardingSpec& spec);
  // A layout of the source, with its wishes.
  ShardingSpec with_wishes(ValueId source, ShardingSpec spec) const;
  Wanted wanted_results(const Node& node) const;

  const Graph& source_;
  UseMap uses_;
  OpRules rules_;
  PartitionOptions options_;
  Program program_;
  std::vector<std::vector<ValueId>> versions_;  // by source value
  ValueMap latest_;                             // the same, the last version only
  std::vector<ValueId> made_;                   // sources of versions in the order of their making
  std::map<std::string, Special> specials_;
  std::set<ValueId> pending_;  // sources that functions are to return as pending
  std::map<ValueId, bool> completed_later_;
  // By source: what its layout says that its elements do not show. Axes that are to stay replicated
  // are of the value alone; priorities go on to what follows from it (docs/decisions/0016).
  std::map<ValueId, ShardingSpec> wishes_;
  Resharder resharder_;
  std::string asking_;  // the op that is being partitioned, for the log
  AttrDict marks_;      // its numbers in the plan, if it has any (planned_marks.h)
};

}  // namespace cleave
