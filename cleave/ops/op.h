#pragma once

#include <string_view>

#include "cleave/graph/op_def.h"

// The ops that code outside cleave/ops is about, each as a type:
//
//   if (is<op::Reshape>(node)) ...
//   if (const Node* scalar = producer_if<op::Constant>(graph, value)) ...
//
// A pass that asks this of an op is about that op. What several ops have in common is a trait or a
// slot of OpDef, and is asked of `node.def`.
namespace cleave::op {

#define CLEAVE_OP(Type, name)                       \
  struct Type {                                     \
    static constexpr std::string_view kName = name; \
  }

// Control flow.
CLEAVE_OP(While, "stablehlo.while");
CLEAVE_OP(If, "stablehlo.if");
CLEAVE_OP(Case, "stablehlo.case");
CLEAVE_OP(Call, "func.call");
CLEAVE_OP(Composite, "stablehlo.composite");
CLEAVE_OP(FuncReturn, "func.return");
CLEAVE_OP(OptimizationBarrier, "stablehlo.optimization_barrier");
CLEAVE_OP(Exponential, "stablehlo.exponential");
CLEAVE_OP(Tuple, "stablehlo.tuple");
CLEAVE_OP(GetTupleElement, "stablehlo.get_tuple_element");
CLEAVE_OP(CustomCall, "stablehlo.custom_call");
CLEAVE_OP(Scan, "chlo.scan");

// Shardings.
CLEAVE_OP(ManualComputation, "sdy.manual_computation");
CLEAVE_OP(NamedComputation, "sdy.named_computation");
CLEAVE_OP(DataFlowEdge, "sdy.data_flow_edge");
CLEAVE_OP(FuncDataFlowEdge, "sdy.func_data_flow_edge");
CLEAVE_OP(PropagationBarrier, "sdy.propagation_barrier");
CLEAVE_OP(ShardingConstraint, "sdy.sharding_constraint");
CLEAVE_OP(ShardingGroup, "sdy.sharding_group");
CLEAVE_OP(Reshard, "sdy.reshard");
CLEAVE_OP(SdyConstant, "sdy.constant");
CLEAVE_OP(SdyAllReduce, "sdy.all_reduce");

// Programs.
CLEAVE_OP(Transfer, "cleave.transfer");
CLEAVE_OP(EnterManual, "cleave.enter_manual");
CLEAVE_OP(LeaveManual, "cleave.leave_manual");
CLEAVE_OP(Fusion, "cleave.fusion");
CLEAVE_OP(Softmax, "cleave.softmax");
CLEAVE_OP(LayerNorm, "cleave.layer_norm");

// Constants and numbers.
CLEAVE_OP(Constant, "stablehlo.constant");
CLEAVE_OP(ConstantLike, "chlo.constant_like");
CLEAVE_OP(Iota, "stablehlo.iota");
CLEAVE_OP(DynamicIota, "stablehlo.dynamic_iota");
CLEAVE_OP(Rng, "stablehlo.rng");
CLEAVE_OP(RngBitGenerator, "stablehlo.rng_bit_generator");
CLEAVE_OP(PartitionId, "stablehlo.partition_id");
CLEAVE_OP(ReplicaId, "stablehlo.replica_id");

// Elementwise.
CLEAVE_OP(Add, "stablehlo.add");
CLEAVE_OP(Subtract, "stablehlo.subtract");
CLEAVE_OP(Multiply, "stablehlo.multiply");
CLEAVE_OP(Divide, "stablehlo.divide");
CLEAVE_OP(Maximum, "stablehlo.maximum");
CLEAVE_OP(Minimum, "stablehlo.minimum");
CLEAVE_OP(And, "stablehlo.and");
CLEAVE_OP(Or, "stablehlo.or");
CLEAVE_OP(Not, "stablehlo.not");
CLEAVE_OP(Negate, "stablehlo.negate");
CLEAVE_OP(Tanh, "stablehlo.tanh");
CLEAVE_OP(Logistic, "stablehlo.logistic");
CLEAVE_OP(Select, "stablehlo.select");
CLEAVE_OP(Clamp, "stablehlo.clamp");
CLEAVE_OP(Compare, "stablehlo.compare");
CLEAVE_OP(Convert, "stablehlo.convert");
CLEAVE_OP(BitcastConvert, "stablehlo.bitcast_convert");
CLEAVE_OP(Imag, "stablehlo.imag");
CLEAVE_OP(Abs, "stablehlo.abs");
CLEAVE_OP(Ceil, "stablehlo.ceil");
CLEAVE_OP(Floor, "stablehlo.floor");
CLEAVE_OP(Sign, "stablehlo.sign");
CLEAVE_OP(RoundNearestEven, "stablehlo.round_nearest_even");
CLEAVE_OP(Log, "stablehlo.log");
CLEAVE_OP(Log1p, "stablehlo.log_plus_one");
CLEAVE_OP(Expm1, "stablehlo.exponential_minus_one");
CLEAVE_OP(Sqrt, "stablehlo.sqrt");
CLEAVE_OP(Rsqrt, "stablehlo.rsqrt");
CLEAVE_OP(Cbrt, "stablehlo.cbrt");
CLEAVE_OP(Power, "stablehlo.power");
CLEAVE_OP(Remainder, "stablehlo.remainder");
CLEAVE_OP(Atan2, "stablehlo.atan2");
CLEAVE_OP(Erf, "chlo.erf");
CLEAVE_OP(Popcnt, "stablehlo.popcnt");
CLEAVE_OP(CountLeadingZeros, "stablehlo.count_leading_zeros");
CLEAVE_OP(ShiftRightLogical, "stablehlo.shift_right_logical");
CLEAVE_OP(NextAfter, "chlo.next_after");

// Views.
CLEAVE_OP(Reshape, "stablehlo.reshape");
CLEAVE_OP(Transpose, "stablehlo.transpose");
CLEAVE_OP(Broadcast, "stablehlo.broadcast");
CLEAVE_OP(BroadcastInDim, "stablehlo.broadcast_in_dim");
CLEAVE_OP(Slice, "stablehlo.slice");
CLEAVE_OP(Pad, "stablehlo.pad");
CLEAVE_OP(Reverse, "stablehlo.reverse");
CLEAVE_OP(Concatenate, "stablehlo.concatenate");
CLEAVE_OP(DynamicSlice, "stablehlo.dynamic_slice");
CLEAVE_OP(DynamicUpdateSlice, "stablehlo.dynamic_update_slice");

// Shapes known at run time.
CLEAVE_OP(DynamicReshape, "stablehlo.dynamic_reshape");
CLEAVE_OP(DynamicBroadcastInDim, "stablehlo.dynamic_broadcast_in_dim");
CLEAVE_OP(DynamicGather, "stablehlo.dynamic_gather");
CLEAVE_OP(DynamicPad, "stablehlo.dynamic_pad");
CLEAVE_OP(RealDynamicSlice, "stablehlo.real_dynamic_slice");
CLEAVE_OP(GetDimensionSize, "stablehlo.get_dimension_size");
CLEAVE_OP(SetDimensionSize, "stablehlo.set_dimension_size");

// Contractions.
CLEAVE_OP(Dot, "stablehlo.dot");
CLEAVE_OP(DotGeneral, "stablehlo.dot_general");
CLEAVE_OP(Einsum, "stablehlo.einsum");
CLEAVE_OP(UnaryEinsum, "stablehlo.unary_einsum");
CLEAVE_OP(Convolution, "stablehlo.convolution");

// Reductions and windows.
CLEAVE_OP(Reduce, "stablehlo.reduce");
CLEAVE_OP(ReduceWindow, "stablehlo.reduce_window");
CLEAVE_OP(SelectAndScatter, "stablehlo.select_and_scatter");
CLEAVE_OP(Map, "stablehlo.map");
CLEAVE_OP(BatchNormInference, "stablehlo.batch_norm_inference");
CLEAVE_OP(BatchNormTraining, "stablehlo.batch_norm_training");
CLEAVE_OP(BatchNormGrad, "stablehlo.batch_norm_grad");

// Indices and order.
CLEAVE_OP(Gather, "stablehlo.gather");
CLEAVE_OP(Scatter, "stablehlo.scatter");
CLEAVE_OP(TorchIndexSelect, "stablehlo.torch_index_select");
CLEAVE_OP(Sort, "stablehlo.sort");
CLEAVE_OP(TopK, "chlo.top_k");

// Linear algebra.
CLEAVE_OP(Cholesky, "stablehlo.cholesky");
CLEAVE_OP(TriangularSolve, "stablehlo.triangular_solve");
CLEAVE_OP(Fft, "stablehlo.fft");

// Collectives.
CLEAVE_OP(AllReduce, "stablehlo.all_reduce");
CLEAVE_OP(AllGather, "stablehlo.all_gather");
CLEAVE_OP(AllToAll, "stablehlo.all_to_all");
CLEAVE_OP(ReduceScatter, "stablehlo.reduce_scatter");
CLEAVE_OP(CollectivePermute, "stablehlo.collective_permute");

#undef CLEAVE_OP

}  // namespace cleave::op

namespace cleave {

template <typename Op>
const OpDef& def_of() {
  static const OpDef& def = required_op(Op::kName);
  return def;
}

// Whether a node is one of these ops: a comparison of pointers.
template <typename... Ops>
bool is(const Node& node) {
  return ((node.def == &def_of<Ops>()) || ...);
}

// The node that makes a value, if it is one of these ops; null if it is not, and for arguments.
template <typename... Ops>
const Node* producer_if(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.valid() && is<Ops...>(graph.node(id)) ? &graph.node(id) : nullptr;
}

}  // namespace cleave
