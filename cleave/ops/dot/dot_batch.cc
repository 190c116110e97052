#include <algorithm>

#include "cleave/ops/batch_util.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/dot/family.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

struct SideDims {
  std::vector<int64_t> batching, contracting;
  bool has(int64_t d) const {
    return std::ranges::find(batching, d) != batching.end() ||
           std::ranges::find(contracting, d) != contracting.end();
  }
  // As they are where a dimension has been inserted at `dim`.
  void insert(int64_t dim) {
    for (std::vector<int64_t>* list : {&batching, &contracting})
      for (int64_t& d : *list) d += d >= dim;
  }
  // The number of free dimensions before `end`.
  int64_t free_before(int64_t end) const {
    int64_t count = 0;
    for (int64_t d = 0; d < end; ++d) count += !has(d);
    return count;
  }
};

struct DotForm {
  SideDims lhs, rhs;
};

// Both sides batched: one more batching dimension, the first. One side: a free dimension of it.
std::vector<Batched> batch_product(const BatchContext& c, DotForm dims, AttrDict attrs) {
  const Batched &x = c.operands[0], &y = c.operands[1];
  if (x.batched()) dims.lhs.insert(x.dim);
  if (y.batched()) dims.rhs.insert(y.dim);
  int64_t out = 0;
  if (x.batched() && y.batched()) {
    dims.lhs.batching.insert(dims.lhs.batching.begin(), x.dim);
    dims.rhs.batching.insert(dims.rhs.batching.begin(), y.dim);
  } else {
    out = static_cast<int64_t>(dims.lhs.batching.size());
    out += x.batched() ? dims.lhs.free_before(x.dim)
                       : dims.lhs.free_before(static_cast<int64_t>(operand_type(c, 0).rank())) +
                             dims.rhs.free_before(y.dim);
  }
  attrs.erase("sdy.sharding");
  attrs.set(kDotDims, dot_dims_attr({dims.lhs.batching, dims.rhs.batching, dims.lhs.contracting,
                                     dims.rhs.contracting}));
  return {{c.b.emit_as(with_dim(result_type(c), out, c.size), "stablehlo.dot_general",
                       {x.value, y.value}, std::move(attrs)),
           out}};
}

DotForm form_of(const DotDims& dims) {
  return {{dims.lhs_batch, dims.lhs_contract}, {dims.rhs_batch, dims.rhs_contract}};
}

std::vector<Batched> batch_dot_general(const BatchContext& c) {
  return batch_product(c, form_of(dot_dims(c.node)), c.node.attrs);
}

std::vector<Batched> batch_dot(const BatchContext& c) {
  const auto last = static_cast<int64_t>(operand_type(c, 0).rank()) - 1;
  return batch_product(c, {{{}, {last}}, {{}, {0}}}, c.node.attrs);
}

// "ab,bc->ac" -> "ab,xbc->xac": a label that nobody uses.
std::vector<Batched> batch_einsum(const BatchContext& c) {
  std::string config(c.node.attrs.get_string("einsum_config"));
  std::erase(config, ' ');
  char label = 'a';
  while (config.find(label) != std::string::npos) {
    require(label != 'z', c.node, "einsum_config '{}' leaves no letter for the examples", config);
    ++label;
  }
  std::vector<ValueId> operands;
  size_t at = 0;
  for (const Batched& operand : c.operands) {
    operands.push_back(operand.batched() ? at_front(c, operand) : operand.value);
    if (operand.batched()) config.insert(config.begin() + static_cast<int64_t>(at), label);
    at = config.find(',', at) + 1;
  }
  config.insert(config.find("->") + 2, 1, label);
  AttrDict attrs = c.node.attrs;
  attrs.set("einsum_config", string_attr(std::move(config)));
  return emit_self(c, std::move(operands), std::move(attrs));
}

// One more batching dimension. Group sizes of their own for each example need it to be the only
// one.
std::vector<Batched> batch_ragged_dot(const BatchContext& c) {
  const RaggedDotDims dims = ragged_dot_dims(c.node);
  const Batched& groups = c.operands[2];
  const bool simple = operand_type(c, 2).rank() == 1;
  if (!simple || (groups.batched() && !dims.dot.lhs_batch.empty())) return batch_by_loop(c);
  const std::vector<int64_t>& ragged = dims.ragged;
  auto has_ragged = [&](const std::vector<int64_t>& list) {
    return ragged.size() == 1 && std::ranges::find(list, ragged[0]) != list.end();
  };
  if (groups.batched() && has_ragged(dims.dot.lhs_batch)) return batch_by_loop(c);
  const bool contracts = has_ragged(dims.dot.lhs_contract);
  AttrDict attrs = c.node.attrs;
  attrs.set(kRaggedDotDims,
            ragged_dot_dims_attr({{prepended(0, shifted(dims.dot.lhs_batch)),
                                   prepended(0, shifted(dims.dot.rhs_batch)),
                                   shifted(dims.dot.lhs_contract), shifted(dims.dot.rhs_contract)},
                                  shifted(ragged),
                                  shifted(dims.group)}));
  return emit_self(c,
                   {at_front(c, c.operands[0]), at_front(c, c.operands[1]),
                    groups.batched() ? at_front(c, groups) : groups.value},
                   std::move(attrs), contracts ? 1 : 0);
}

}  // namespace

void add_dot_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.dot_general", batch_dot_general);
  add("stablehlo.dot", batch_dot);
  add("stablehlo.einsum", batch_einsum);
  add("stablehlo.unary_einsum", batch_einsum);
  add("chlo.ragged_dot", batch_ragged_dot);
}

}  // namespace cleave
