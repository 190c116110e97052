#include <gtest/gtest.h>

#include <string>

#include "cleave/compile/lowering_table.h"

// Which ops the compiler writes as steps of its own, and which call their kernel as the interpreter
// does. An op that is new shows here: give it a row of the LoweringTable, or add it to the list.
namespace cleave {
namespace {

// One to a line. Elementwise ops with a loop are members of fusions and are left out.
std::string ops_by_default() {
  std::string names;
  for (const auto& [name, op] : op_registry().ops())
    if (op.eval && !op.loop && !op.has(kTerminator) && !lowering_table().find(&op))
      names += name + "\n";
  return names;
}

constexpr const char* kExpected = R"(
check.expect_almost_eq
check.expect_almost_eq_const
check.expect_close
check.expect_eq
check.expect_eq_const
check.expect_serialized_eq
chlo.broadcast_add
chlo.broadcast_and
chlo.broadcast_atan2
chlo.broadcast_compare
chlo.broadcast_complex
chlo.broadcast_divide
chlo.broadcast_maximum
chlo.broadcast_minimum
chlo.broadcast_multiply
chlo.broadcast_next_after
chlo.broadcast_or
chlo.broadcast_polygamma
chlo.broadcast_power
chlo.broadcast_remainder
chlo.broadcast_select
chlo.broadcast_shift_left
chlo.broadcast_shift_right_arithmetic
chlo.broadcast_shift_right_logical
chlo.broadcast_subtract
chlo.broadcast_xor
chlo.broadcast_zeta
chlo.constant_like
chlo.ragged_dot
chlo.scan
cleave.halo
cleave.layer_norm
cleave.softmax
func.call
interpreter.print
interpreter.probe
interpreter.run_parallel
sdy.all_gather
sdy.all_reduce
sdy.all_slice
sdy.all_to_all
sdy.collective_permute
sdy.data_flow_edge
sdy.func_data_flow_edge
sdy.manual_computation
sdy.named_computation
sdy.propagation_barrier
sdy.reduce_scatter
sdy.replicated_to_unreduced
sdy.reshard
sdy.sharded_to_unreduced
sdy.sharding_constraint
sdy.sharding_group
stablehlo.after_all
stablehlo.all_gather
stablehlo.all_reduce
stablehlo.all_to_all
stablehlo.batch_norm_grad
stablehlo.batch_norm_inference
stablehlo.batch_norm_training
stablehlo.clamp
stablehlo.collective_broadcast
stablehlo.collective_permute
stablehlo.collective_reduce
stablehlo.composite
stablehlo.create_token
stablehlo.cross-replica-sum
stablehlo.custom_call
stablehlo.dot
stablehlo.dynamic_broadcast_in_dim
stablehlo.dynamic_conv
stablehlo.dynamic_gather
stablehlo.dynamic_iota
stablehlo.dynamic_pad
stablehlo.dynamic_reshape
stablehlo.einsum
stablehlo.get_dimension_size
stablehlo.get_tuple_element
stablehlo.infeed
stablehlo.map
stablehlo.outfeed
stablehlo.partition_id
stablehlo.real_dynamic_slice
stablehlo.recv
stablehlo.reduce_precision
stablehlo.reduce_scatter
stablehlo.replica_id
stablehlo.rng
stablehlo.send
stablehlo.set_dimension_size
stablehlo.torch_index_select
stablehlo.tuple
stablehlo.unary_einsum
)";

TEST(LoweringCoverage, OpsThatCallTheirKernel) { EXPECT_EQ("\n" + ops_by_default(), kExpected); }

TEST(LoweringCoverage, ConstantsViewsAndFlowHaveRows) {
  for (const auto& [name, op] : op_registry().ops()) {
    const bool stated = op.has(kConstantLike) || op.has(kViewLike) || op.flow == Flow::Loop ||
                        op.flow == Flow::Branches || op.flow == Flow::Barrier;
    EXPECT_TRUE(!stated || lowering_table().find(&op)) << name;
  }
}

TEST(LoweringCoverage, AnOpHasOneRow) {
  LoweringTable table;
  EXPECT_EQ(table.find(&def_of<op::Pad>()), nullptr);
  table.set<op::Pad>(lowering_table().find(&def_of<op::Pad>()));
  EXPECT_NE(table.find(&def_of<op::Pad>()), nullptr);
  EXPECT_ANY_THROW(table.set<op::Pad>(nullptr));
}

}  // namespace
}  // namespace cleave
