#include <array>

#include "cleave/graph/text/op_tables.h"

namespace cleave::text {
namespace {

constexpr std::string_view kSame = " {operands}{attrs} : {same}";
constexpr std::string_view kSignature = " {operands}{attrs} : {signature}";

constexpr std::array kRows = {
    OpRow{"chlo._asin_acos_kernel", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.acos", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.acosh", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.asin", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.asinh", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.atan", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.atanh", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.bessel_i1e", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.broadcast_add", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_and", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_atan2", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_compare", kSignature,
          "broadcast_dimensions comparison_direction compare_type"},
    OpRow{"chlo.broadcast_complex", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_divide", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_maximum", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_minimum", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_multiply", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_next_after", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_or", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_polygamma", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_power", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_remainder", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_select", kSignature},
    OpRow{"chlo.broadcast_shift_left", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_shift_right_arithmetic", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_shift_right_logical", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_subtract", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_xor", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.broadcast_zeta", kSignature, "broadcast_dimensions"},
    OpRow{"chlo.conj", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.constant", "{attrs} {value:elements}"},
    OpRow{"chlo.constant_like", "", "value"},
    OpRow{"chlo.cosh", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.digamma", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.erf", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.erf_inv", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.erfc", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.is_inf", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.is_neg_inf", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.is_pos_inf", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.lgamma", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.mulhi", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.next_after", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.polygamma", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.ragged_dot", "", "ragged_dot_dimension_numbers precision_config"},
    OpRow{
        "chlo.scan", "",
        "dimension scan_dim_size is_reverse is_associative operandSegmentSizes resultSegmentSizes"},
    OpRow{"chlo.sinh", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.square", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.tan", " {operands}{attrs} : {operand_types} -> {results}"},
    OpRow{"chlo.top_k",
          "({operands}, k = {k:i64}{is_stable:bool?, is_stable = }){attrs} : {operand_types} -> "
          "({results})"},
    OpRow{"chlo.zeta", " {operands}{attrs} : {operand_types} -> {results}"},
};

}  // namespace

std::span<const OpRow> chlo_rows() { return kRows; }

}  // namespace cleave::text
