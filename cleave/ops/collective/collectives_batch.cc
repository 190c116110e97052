#include "cleave/ops/batch_util.h"
#include "cleave/ops/collective/family.h"
#include "cleave/ops/infer_util.h"

// Collectives carry the examples along, in front of the dimensions that they move.
namespace cleave {
namespace {

template <typename... Names>
AttrDict shifted_attrs(const BatchContext& c, Names... names) {
  AttrDict attrs = c.node.attrs;
  (attrs.set(names, int_attr(attrs.get_int(names) + 1)), ...);
  return attrs;
}

std::vector<Batched> batch_all_gather(const BatchContext& c) {
  return emit_self(c, all_at_front(c), shifted_attrs(c, "all_gather_dim"));
}
std::vector<Batched> batch_reduce_scatter(const BatchContext& c) {
  return emit_self(c, all_at_front(c), shifted_attrs(c, "scatter_dimension"));
}
std::vector<Batched> batch_all_to_all(const BatchContext& c) {
  return emit_self(c, all_at_front(c), shifted_attrs(c, "split_dimension", "concat_dimension"));
}

// With a root of its own for each operand as the last operand, which must be the same for all.
std::vector<Batched> batch_broadcast(const BatchContext& c) {
  if (c.node.results.size() == c.operands.size()) return batch_identity(c);
  require(!c.operands.back().batched(), c.node, "the root differs between examples");
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (const Batched& operand : c.operands) {
    operands.push_back(operand.value);
    types.push_back(c.b.type(operand.value));
  }
  types.pop_back();
  const auto results = emit_self(c, std::move(operands), std::move(types), c.node.attrs);
  std::vector<Batched> batched;
  for (size_t i = 0; i < results.size(); ++i) batched.push_back({results[i], c.operands[i].dim});
  return batched;
}

}  // namespace

std::vector<Batched> batch_effect(const BatchContext& c) {
  fail(c.node,
       "talks to the host or to another program, once, and {} examples are batched; call it "
       "outside of vmap",
       c.size);
}

void add_collective_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.all_gather", batch_all_gather);
  add("stablehlo.reduce_scatter", batch_reduce_scatter);
  add("stablehlo.all_to_all", batch_all_to_all);
  for (const char* name : {"stablehlo.all_reduce", "stablehlo.cross-replica-sum",
                           "stablehlo.collective_reduce", "stablehlo.collective_permute"})
    add(name, batch_identity);
  add("stablehlo.collective_broadcast", batch_broadcast);
  for (const char* name :
       {"stablehlo.infeed", "stablehlo.outfeed", "stablehlo.recv", "stablehlo.send"})
    add(name, batch_effect);
}

}  // namespace cleave
