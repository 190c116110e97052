#include "cleave/discover/justify.h"

#include <fmt/core.h>

#include <algorithm>

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;

// Of operands in parts under `from`, results in parts under `to`.
std::string justify_parts(ReduceOp from, ReduceOp to, int operands, size_t which) {
  auto is_sum = [](ReduceOp op) { return op == ReduceOp::Sum || op == ReduceOp::Avg; };
  auto is_extreme = [](ReduceOp op) { return op == ReduceOp::Max || op == ReduceOp::Min; };
  const std::string in_one = operands == 1 ? fmt::format(" in operand {}", which) : "";
  if (is_sum(from) && is_sum(to))
    return operands == 1 ? "linear" + in_one : "additive in the partial operands";
  if (is_sum(from) && to == ReduceOp::Prod) return "turns sums into products";
  if (from == ReduceOp::Prod && is_sum(to)) return "turns products into sums";
  if (from == ReduceOp::Prod && to == ReduceOp::Prod) return "multiplicative";
  if (from == to) return "monotone" + in_one;
  if (is_extreme(from) && is_extreme(to)) return "antitone" + in_one;
  return "holds for every decomposition tested";
}

}  // namespace

std::string justify(const std::vector<PlacePattern>& operands, const PlacePattern& out,
                    bool any_parts) {
  int partial = 0, sharded = 0;
  bool mixed = false;
  size_t which = 0;
  ReduceOp op = ReduceOp::Sum;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind == Kind::Partial) {
      mixed |= partial > 0 && op != operands[i].reduce;
      ++partial;
      which = i;
      op = operands[i].reduce;
    }
    if (operands[i].is_shard()) ++sharded;
  }
  if (partial == 0 && sharded == 0)
    return out.kind == Kind::Replicate ? "every device computes the same"
           : out.kind == Kind::Partial ? "equal parts are also the value"
                                       : "a constant along the dimension";
  const bool stays = out.is_anchored() ? std::ranges::count(operands, out) > 0 : out.dim == 0;
  if (partial == 0 && out.is_shard())
    return stays ? "batch dimension" : "batch dimension, moved by the op";
  if (partial == 0 && out.kind == Kind::Partial)
    return fmt::format("reduction ({}) over the sharded dimension", name(out.reduce));
  if (partial > 0 && out.kind == Kind::Replicate)
    return partial == 1 ? fmt::format("does not depend on operand {}", which)
                        : "does not depend on the partial operands";
  if (any_parts && sharded > 0)
    return (out.kind == Kind::Partial
                ? fmt::format("reduction ({}) over the sharded dimension", name(out.reduce))
                : std::string("batch dimension")) +
           (partial == 1 ? fmt::format("; does not depend on operand {}", which)
                         : "; does not depend on the partial operands");
  if (mixed) return "does not depend on some of the partial operands";
  if (partial > 0 && out.kind == Kind::Partial)
    return justify_parts(op, out.reduce, partial, which);
  return "holds for every decomposition tested";
}

}  // namespace cleave
