#pragma once

#include <string>
#include <string_view>

#include "cleave/core/shape.h"
#include "cleave/core/sharding_rule.h"

namespace cleave {

// Shardy's text of a rule, the part between the angle brackets of #sdy.op_sharding_rule<...>:
//
//   ([i, k],[k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}
//   ([ij])->([i, j]) {i=2, j=4} need_replication={j} permutation={i} blocked_propagation={i},
//   custom
//
// Factors are i..z, then z_1, z_2, ...; a dimension lists its factors major to minor. The reduction
// operator of a factor is not part of this text; it reads as Sum.
std::string to_string(const OpShardingRule& rule);
// With the angle brackets, at a cursor. Throws ParseError.
OpShardingRule parse_sharding_rule_body(TextCursor& cursor);
// A whole text, with or without the angle brackets and `#sdy.op_sharding_rule`. Throws UserError.
OpShardingRule parse_sharding_rule(std::string_view text);
// "z_2" for 19: i..z, then z_1, ...
std::string factor_symbol(FactorIndex factor);

// The short notation: operands and results separated by commas, dimensions by spaces, compound
// dimensions in parentheses. A factor that is only in operands is a reduction, the others pass
// through. After the arrow and the results, factors may be given a kind, a size or a reduction:
//
//   b m k, b k n -> b m n
//   (h d) -> h d
//   i, -> i                      the second operand is a scalar
//   m k, k n -> m n {k: max}     reduced by max
//   i j -> i j {i: permutation; j: need_replication blocked; j=3}
//
// `1` is a dimension of size 1 without a name (a factor of its own).
std::string to_short_string(const OpShardingRule& rule);
// The sizes of the factors come from the shapes, of operands, then results. A compound dimension
// needs the sizes of all of its factors but one. Throws UserError if the notation and the shapes
// differ.
OpShardingRule parse_short_rule(std::string_view text, const std::vector<Shape>& shapes);

}  // namespace cleave
