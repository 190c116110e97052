#include <algorithm>
#include <string>

#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/dot/family.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"

// einsum and unary_einsum as products, sums and transposes.
namespace cleave {
namespace {

// "ab, bc -> ac" without spaces.
std::string einsum_text(const Node& node) {
  std::string text(node.attrs.get_string("einsum_config"));
  std::erase(text, ' ');
  return text;
}

// "ab,bc->ac", if every letter is in the result or in both operands, and in none twice.
std::vector<ValueId> expand_einsum(GraphBuilder& b, const Node& node,
                                   std::span<const ValueId> operands, ExpandUse) {
  const std::string text = einsum_text(node);
  const size_t comma = text.find(','), arrow = text.find("->");
  const std::string names[2] = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)};
  const std::string out = text.substr(arrow + 2);
  std::string product[3];  // batch, free of each side
  std::vector<int64_t> batch[2], contract[2];
  for (size_t i : {0, 1})
    for (size_t d = 0; d < names[i].size(); ++d) {
      const char label = names[i][d];
      const bool shared = names[1 - i].find(label) != std::string::npos;
      const bool kept = out.find(label) != std::string::npos;
      if (std::ranges::count(names[i], label) > 1 || (!shared && !kept)) return {};
      if (!shared) product[1 + i] += label;
      if (!shared || i == 1) continue;
      (kept ? batch : contract)[0].push_back(static_cast<int64_t>(d));
      (kept ? batch : contract)[1].push_back(static_cast<int64_t>(names[1].find(label)));
      if (kept) product[0] += label;
    }
  const std::string order = product[0] + product[1] + product[2];
  const Type type = b.type(node.results[0]);
  Shape sizes;
  std::vector<int64_t> permutation;
  for (char label : order) sizes.push_back(type.shape[out.find(label)]);
  for (char label : out) permutation.push_back(static_cast<int64_t>(order.find(label)));
  const ValueId dot = b.emit_as(Type::tensor(type.dtype, sizes), "stablehlo.dot_general",
                                {operands[0], operands[1]},
                                dot_attrs({batch[0], batch[1], contract[0], contract[1]}));
  return {transpose(expr(b, dot), permutation)};
}

// "abc->ca": letters that are not in the result are summed; no letter is there twice.
std::vector<ValueId> expand_unary_einsum(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId> operands, ExpandUse) {
  const std::string text = einsum_text(node);
  const size_t arrow = text.find("->");
  const std::string names = text.substr(0, arrow), out = text.substr(arrow + 2);
  std::string kept;
  std::vector<int64_t> summed, permutation;
  for (size_t d = 0; d < names.size(); ++d) {
    if (std::ranges::count(names, names[d]) > 1) return {};
    if (out.find(names[d]) == std::string::npos)
      summed.push_back(static_cast<int64_t>(d));
    else
      kept += names[d];
  }
  for (char label : out) permutation.push_back(static_cast<int64_t>(kept.find(label)));
  return {transpose(sum(expr(b, operands[0]), summed), permutation)};
}

}  // namespace

void add_einsum_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.einsum", expand_einsum, kInPrograms);  // derivatives have a rule
  set_expansion(r, "stablehlo.unary_einsum", expand_unary_einsum, kInPrograms | kInDerivatives);
}

}  // namespace cleave
