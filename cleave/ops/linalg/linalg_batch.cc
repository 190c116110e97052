#include "cleave/ops/batch_util.h"
#include "cleave/ops/linalg/family.h"

namespace cleave {
namespace {

// One matrix for all examples: they become columns of b, or rows where a stands on the right.
std::vector<Batched> batch_triangular_solve(const BatchContext& c) {
  if (c.operands[0].batched()) return batch_in_front(c);
  const bool left = c.node.attrs.get_bool("left_side", true);
  const auto rank = static_cast<int64_t>(operand_type(c, 1).rank());
  const int64_t dim = left ? rank - 1 : rank - 2;
  const ValueId b = merge_dims(c.b, batched_at(c, c.operands[1], dim), dim);
  const ValueId x =
      emit_self(c, {c.operands[0].value, b}, std::vector<Type>{c.b.type(b)}, c.node.attrs)[0];
  return {{split_dim(c.b, x, dim, c.size), dim}};
}

// Mean and variance are by feature: examples become features.
std::vector<Batched> batch_norm(const BatchContext& c) {
  const int64_t feature = c.node.attrs.get_int("feature_index");
  const size_t rank = operand_type(c, 0).rank();
  const size_t last = c.operands.size() - 1;
  const bool gradient = c.node.name() == "stablehlo.batch_norm_grad";
  auto is_full = [&](size_t i) { return i == 0 || (gradient && i == last); };
  auto place = [&](bool full) { return full && rank > 1 ? feature : 0; };
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const int64_t dim = place(is_full(i));
    operands.push_back(merge_dims(c.b, batched_at(c, c.operands[i], dim), dim));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    types.push_back(result_type(c, i));
    types.back().shape[place(i == 0)] *= c.size;
  }
  const auto results = emit_self(c, std::move(operands), std::move(types), c.node.attrs);
  std::vector<Batched> batched;
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t dim = place(i == 0);
    batched.push_back({split_dim(c.b, results[i], dim, c.size), dim});
  }
  return batched;
}

}  // namespace

void add_linalg_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.cholesky", batch_in_front);
  add("stablehlo.fft", batch_in_front);
  add("stablehlo.triangular_solve", batch_triangular_solve);
  for (const char* name : {"stablehlo.batch_norm_inference", "stablehlo.batch_norm_training",
                           "stablehlo.batch_norm_grad"})
    add(name, batch_norm);
}

}  // namespace cleave
