#include <array>

#include "cleave/graph/text/op_tables.h"

namespace cleave::text {
namespace {

constexpr std::array kRows = {
    OpRow{"arith.constant", "", "value"},
    OpRow{"tensor.cast", " {operands}{attrs} : {operand_types} to {results}"},
    OpRow{"check.expect_almost_eq",
          " {operands}{tolerance:f64?, tolerance = }{attrs} : {first_type}"},
    OpRow{"check.expect_almost_eq_const",
          " {operands}, {value:elements}{tolerance:f64?, tolerance = }{attrs}"},
    OpRow{"check.expect_close",
          " {operands}, max_ulp_difference = {max_ulp_difference:u64}{min_ulp_difference:u64?, "
          "min_ulp_difference = } :{attrs} {operand_types}"},
    OpRow{"check.expect_eq", " {operands}{attrs} : {first_type}"},
    OpRow{"check.expect_eq_const", " {operands}, {value:elements}{attrs}"},
    OpRow{
        "check.expect_serialized_eq",
        " {operands}, probe_id = {probe_id:str}{iteration:u32?, iter = }{attrs} : {operand_types}"},
    OpRow{"func.call", " {callee:symbol_ref}({operands}){attrs} : {signature}",
          "arg_attrs res_attrs no_inline"},
    OpRow{"func.return", "{return_attrs_first}"},
    OpRow{"interpreter.print", " {operands}{attrs} : {operand_types}"},
    OpRow{"interpreter.probe", " {operands}, probe_id = {probe_id:str}{attrs} : {first_type}"},
    OpRow{"interpreter.run_parallel", "", "infeed programs"},
};

}  // namespace

std::span<const OpRow> other_rows() { return kRows; }

}  // namespace cleave::text
