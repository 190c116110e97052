#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/reshard/reshard.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/program.h"

namespace cleave {

struct OpRule;  // graph/op_rule.h

// How one op runs over a mesh: the layouts that its operands must have, and those of its results,
// pending reductions included. The local op follows from them (`instantiate`).
//
//   dot_general, operands [{}, {"x"}] and [{"x"}, {}]:
//     operands as they are; result [{}, {}] unreduced={"x"}
//   exponential of [{"y"}] unreduced={"x"}:
//     operand [{"y"}] (an all_reduce before it); result [{"y"}]
//   concatenate along 0 of [{"x"}] and [{"x"}], which can't run along that factor:
//     it has `needs`, so operands stay, `halo` is set, and each device gets what its part takes
struct OpPartition : OpLayouts {
  bool halo = false;  // operands are to hold the boxes of OpDef::needs
};

// Decides how one op runs sharded. `partition` calls it for every op of a graph, inside manual
// regions too, and eager execution partitions what was recorded, so that both get the same answer.
// `wanted` may ask for layouts of results; they decide between ways that are equally near to the
// operands, and the caller reshards results that lie otherwise.
//
// Factors that can't run sharded are gathered, and only they. If tensors disagree, what counts is
// said in factor_axes.h: axes that an operand holds explicitly replicated (its spec's
// `replicated`), priorities, more shards, more bytes. The specs of results have the priority of
// what they follow from. Operands keep pending reductions that the op carries to its results
// (OpDef::partial); others are completed first.
//
// `rule` is op_rule(graph, node).
OpPartition partition_op(const Graph& graph, const Node& node, const OpRule& rule,
                         const MeshPtr& mesh, std::span<const ShardingSpec> operands,
                         std::span<const std::optional<ShardingSpec>> wanted);

// Which factors of a rule the op can run cut along, as partition_op sees it: along all others its
// operands are gathered.
std::vector<bool> runs_along(const Graph& graph, const Node& node, const OpShardingRule& rule);

struct PartitionOptions {
  std::string entry = "main";
  // Used if the module has no mesh of its own.
  MeshPtr mesh = nullptr;
  // The machine for which the cheapest reshards are chosen; null: the default profile. It is read
  // while partition runs.
  const MachineProfile* profile = nullptr;
  ReshardOptions reshard = {};
  // Results without an attribute stay as the program has them, pending reductions included; one
  // that something in the program completed is returned completed.
  bool keep_results = false;
  // With keep_results: the attributes of results were propagated, and the user did not ask for
  // them. A result gets such a layout if that moves nothing, and stays as the program has it
  // otherwise.
  bool results_are_wishes = false;
  // Sums of 16-bit floats that are pending over devices are kept in 32 bits until they are
  // completed, which moves twice the bytes; off: each device rounds its part first. Planned ops
  // always round, as their communication was priced.
  bool wide_sums = true;
  // The graph was verified, or recorded op by op; otherwise it is verified first (graph/verify.h).
  bool verified = false;
};

// Graph + shardings -> Program. Shardings are the attributes `sdy.sharding` of arguments, results
// and op results; what has none follows from the operands. A function's results are laid out as
// their attributes say, else whole on every device. Calls are partitioned per layout of their
// operands; loops and branches inside.
//
// A planned module has marks that say how exactly to follow it (planned_marks.h).
Program partition(const Graph& graph, const PartitionOptions& options);

}  // namespace cleave
