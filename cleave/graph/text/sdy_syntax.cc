#include <array>

#include "cleave/graph/text/op_tables.h"

namespace cleave::text {
namespace {

constexpr std::array kRows = {
    OpRow{"sdy.all_gather",
          " {gathering_axes:axis_lists} {operands} out_sharding={out_sharding:sharding}{attrs} : "
          "{first_type}"},
    OpRow{"sdy.all_reduce",
          "{reduction_op:enum(sdy.reduction_op)? } {reduction_axes:axes} {operands} "
          "out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.all_slice",
          " {slicing_axes:axis_lists} {operands} out_sharding={out_sharding:sharding}{attrs} : "
          "{first_type}"},
    OpRow{"sdy.all_to_all",
          " {params:moves} {operands} out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.collective_permute",
          " {operands} out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.constant", "", "value"},
    OpRow{"sdy.data_flow_edge", " {operands}{sharding:sharding? sharding=}{attrs} : {first_type}"},
    OpRow{"sdy.func_data_flow_edge", " {operands}{attrs} : {first_type}"},
    OpRow{"sdy.manual_computation", "", "in_shardings out_shardings manual_axes"},
    OpRow{"sdy.named_computation", "", "name in_shardings out_shardings"},
    OpRow{
        "sdy.propagation_barrier",
        " {operands} allowed_direction={allowed_direction:enum(sdy.propagation_direction)}{attrs} "
        ": {first_type}"},
    OpRow{"sdy.reduce_scatter",
          "{reduction_op:enum(sdy.reduction_op)? } {reduce_scatter_axes:axis_lists} {operands} "
          "out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.replicated_to_unreduced",
          " {axes:axes} {operands} out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.reshard", " {operands} {sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.return", "{return_attrs_first}"},
    OpRow{
        "sdy.sharded_to_unreduced",
        " {axes:axis_lists} {operands} out_sharding={out_sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.sharding_constraint", " {operands} {sharding:sharding}{attrs} : {first_type}"},
    OpRow{"sdy.sharding_group", " {operands} group_id={group_id:i64}{attrs} : {operand_types}"},
};

}  // namespace

std::span<const OpRow> sdy_rows() { return kRows; }

}  // namespace cleave::text
