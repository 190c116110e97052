#include "cleave/ops/batch_util.h"
#include "cleave/ops/check.h"
#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/ops/custom_call/family.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// Layouts are dimensions from minor to major; examples are the most major one.
Attribute batched_layouts(const ArrayAttr& layouts, const std::vector<bool>& batched) {
  ArrayAttr result;
  for (size_t i = 0; i < layouts.elements.size(); ++i) {
    AttrDict one;
    one.set("layout", layouts.elements[i]);
    std::vector<int64_t> order = one.get_ints("layout");
    if (i < batched.size() && batched[i]) {
      order = shifted(std::move(order));
      order.push_back(0);
    }
    result.elements.push_back(layout_attr(order));
  }
  return result;
}

AttrDict batched_attrs(const BatchContext& c, const std::vector<bool>& operands) {
  AttrDict attrs = c.node.attrs;
  attrs.erase("sdy.sharding_rule");
  for (const char* name : {"operand_layouts", "result_layouts"}) {
    const Attribute* attribute = attrs.find(name);
    const auto* layouts = attribute ? attribute->as<ArrayAttr>() : nullptr;
    if (!layouts) continue;
    const bool of_results = std::string_view(name) == "result_layouts";
    attrs.set(name,
              batched_layouts(*layouts, of_results ? std::vector<bool>(c.node.results.size(), true)
                                                   : operands));
  }
  return attrs;
}

// Kernels that take any number of leading dimensions.
std::vector<Batched> in_front(const BatchContext& c) {
  return emit_self(c, all_at_front(c),
                   batched_attrs(c, std::vector<bool>(c.operands.size(), true)));
}

// The examples of matrices may be split, as other dimensions before the matrices.
std::vector<Batched> batch_linalg(const BatchContext& c) {
  const std::vector<ValueId> operands = all_at_front(c);
  std::vector<Shape> in, out;
  for (ValueId operand : operands) in.push_back(c.b.shape(operand));
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    out.push_back(result_type(c, i).shape);
    out.back().insert(out.back().begin(), c.size);
  }
  const std::string_view target = c.node.attrs.get_string("call_target_name");
  const size_t batch = in[0].size() - linalg_matrix_dims(target);
  AttrDict attrs = batched_attrs(c, std::vector<bool>(operands.size(), true));
  attrs.set(
      "sdy.sharding_rule",
      ShardingRuleAttr{std::make_shared<const OpShardingRule>(matrix_call_rule(in, out, batch))});
  return emit_self(c, operands, std::move(attrs));
}

// Operand, indices and two initial values, which must be the same for all examples.
std::vector<Batched> batch_approx_top_k(const BatchContext& c) {
  if (any_batched(c.operands.subspan(2))) return batch_by_loop(c);
  AttrDict attrs = batched_attrs(c, {true, true, false, false});
  if (const Attribute* attribute = attrs.find("mhlo.backend_config"))
    if (const auto* dict = attribute->as<DictAttr>()) {
      DictAttr config = *dict;
      const Attribute* dim = config.dict.find("reduction_dim");
      const auto* number = dim ? dim->as<IntegerAttr>() : nullptr;
      if (number && number->value >= 0)
        config.dict.set("reduction_dim", IntegerAttr{number->value + 1, number->type});
      attrs.set("mhlo.backend_config", std::move(config));
    }
  return emit_self(c,
                   {at_front(c, c.operands[0]), at_front(c, c.operands[1]), c.operands[2].value,
                    c.operands[3].value},
                   std::move(attrs));
}

// What is known batches at once; anything else is called once for each example.
std::vector<Batched> batch_custom_call(const BatchContext& c) {
  const std::string_view target = c.node.attrs.get_string("call_target_name");
  if (target == "Sharding") return {c.operands.begin(), c.operands.end()};
  if (is_identity_call(target) && c.node.results.size() == c.operands.size())
    return batch_identity(c);
  if (is_linalg_call(target)) return batch_linalg(c);
  if (is_check_call(target) || target == "mhlo.topk") return in_front(c);
  if (target == "mhlo.erf" || target == "X64SplitLow" || target == "X64SplitHigh" ||
      target == "X64Combine")
    return batch_elementwise(c);
  if ((target == "ApproxTopK" || target == "PartialReduce") && c.operands.size() == 4)
    return batch_approx_top_k(c);
  require(!c.node.attrs.get_bool("has_side_effect", false), c.node,
          "@{} has a side effect, and vmap cannot tell what it means for {} examples; call it "
          "outside of vmap",
          target, c.size);
  return batch_by_loop(c);
}

}  // namespace

void add_custom_call_batch_rules(OpRegistry& r) {
  r.extend("stablehlo.custom_call", [](OpDef& def) { def.batch = batch_custom_call; });
}

}  // namespace cleave
