#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "cleave/kernels/dot.h"
#include "cleave/kernels/reduce.h"
#include "cleave/ops/dot/family.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

// "ab,bc->ac": one letter for each dimension.
struct Labels {
  std::vector<std::string> operands;
  std::string result;
};

Labels parse_labels(const Node& node) {
  std::string text(node.attrs.get_string("einsum_config"));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  require(arrow != std::string::npos, node, "einsum_config '{}' has no '->'", text);
  require(text.find('.') == std::string::npos, node, "einsum_config '{}': '...' is not supported",
          text);
  Labels labels;
  labels.result = text.substr(arrow + 2);
  std::string_view rest = std::string_view(text).substr(0, arrow);
  while (true) {
    const size_t comma = rest.find(',');
    labels.operands.emplace_back(rest.substr(0, comma));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  require(labels.operands.size() == node.operands.size(), node,
          "einsum_config '{}' names {} operand(s), got {}", text, labels.operands.size(),
          node.operands.size());
  return labels;
}

// The size of every label; throws where a label has two.
std::map<char, int64_t> label_sizes(const Graph& graph, const Node& node, const Labels& labels) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < labels.operands.size(); ++i) {
    const Type& type = tensor_operand(graph, node, i);
    const std::string& names = labels.operands[i];
    require(type.rank() == names.size(), node, "labels '{}' do not fit {}", names, to_string(type));
    for (size_t d = 0; d < names.size(); ++d) {
      const auto [it, fresh] = sizes.emplace(names[d], type.shape[d]);
      require(compatible(it->second, type.shape[d]), node, "label '{}' has sizes {} and {} in {}",
              names[d], it->second, type.shape[d], operand_types_text(graph, node));
      if (is_dynamic(it->second)) it->second = type.shape[d];
    }
  }
  return sizes;
}

std::vector<Type> infer_einsum(const Graph& graph, const Node& node) {
  const Labels labels = parse_labels(node);
  const auto sizes = label_sizes(graph, node, labels);
  Shape shape;
  for (char label : labels.result) {
    const auto it = sizes.find(label);
    require(it != sizes.end(), node, "label '{}' of the result is in no operand", label);
    shape.push_back(it->second);
  }
  const DType dtype =
      node.results.empty() ? graph.operand_type(node, 0).dtype : graph.result_type(node).dtype;
  return {Type::tensor(dtype, std::move(shape))};
}

OpShardingRule einsum_rule(const Graph& graph, const Node& node) {
  const Labels labels = parse_labels(node);
  const auto sizes = label_sizes(graph, node, labels);
  // Labels of the result first, then those that are summed, each in order of appearance.
  std::string order;
  auto add = [&](const std::string& names) {
    for (char label : names)
      if (order.find(label) == std::string::npos) order += label;
  };
  add(labels.result);
  for (const std::string& names : labels.operands) add(names);
  auto dim_of = [](const std::string& names, char label) {
    const size_t at = names.find(label);
    return at == std::string::npos ? kNoDim : static_cast<int>(at);
  };
  RuleBuilder builder(graph, node);
  for (char label : order) {
    std::vector<int> dims;
    bool diagonal = false;
    for (const std::string& names : labels.operands) {
      dims.push_back(dim_of(names, label));
      diagonal |= std::ranges::count(names, label) > 1;
    }
    const int result = dim_of(labels.result, label);
    builder.factor(dims, {result}, sizes.at(label),
                   diagonal           ? FactorKind::NeedReplication
                   : result == kNoDim ? FactorKind::Reduction
                                      : FactorKind::PassThrough,
                   diagonal);
  }
  return builder.build();
}

PartialTransfer einsum_partial(const Graph& graph, const Node& node) {
  const DType dtype = graph.operand_type(node, 0).dtype;
  if (!is_float(dtype) && !is_complex(dtype)) return {};
  return bilinear_partial(graph, node);
}

OpCost einsum_cost(const Graph& graph, const Node& node) {
  OpCost cost{.kernel = KernelClass::Matmul};
  cost.flops = 2;
  for (auto [label, size] : label_sizes(graph, node, parse_labels(node)))
    cost.flops *= static_cast<double>(size);
  for (ValueId id : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(id).byte_count());
  cost.bytes_written = static_cast<double>(graph.result_type(node).byte_count());
  return cost;
}

// An operand with each label once: a label that appears twice becomes a view of the diagonal, and
// one that nobody else has is summed.
Array simplified(Array array, std::string& names, const std::string& others) {
  for (size_t d = 0; d < names.size();) {
    const size_t first = names.find(names[d]);
    if (first == d) {
      ++d;
      continue;
    }
    Shape shape = array.shape(), strides = array.strides();
    strides[first] += strides[d];
    shape.erase(shape.begin() + static_cast<int64_t>(d));
    strides.erase(strides.begin() + static_cast<int64_t>(d));
    const int64_t offset = (array.raw() - array.buffer().get()) / byte_size(array.dtype());
    array = Array(array.dtype(), shape, strides, offset, array.buffer());
    names.erase(d, 1);
  }
  std::vector<int64_t> summed;
  std::string kept;
  for (size_t d = 0; d < names.size(); ++d) {
    if (others.find(names[d]) == std::string::npos)
      summed.push_back(static_cast<int64_t>(d));
    else
      kept += names[d];
  }
  names = kept;
  if (summed.empty()) return array;
  return reduce(array, summed, Reducer::Sum, reduce_identity(Reducer::Sum, array.dtype()));
}

Array in_order(const Array& array, const std::string& names, const std::string& wanted) {
  Shape order;
  for (char label : wanted) order.push_back(static_cast<int64_t>(names.find(label)));
  return array.transpose(order).contiguous();
}

std::vector<Array> eval_einsum(EvalContext& context, const Node& node,
                               std::span<const Array> operands) {
  Labels labels = parse_labels(node);
  const DType dtype = context.graph().result_type(node).dtype;
  std::string& a = labels.operands[0];
  if (operands.size() == 1)
    return {in_order(simplified(operands[0], a, labels.result), a, labels.result)};
  std::string& b = labels.operands[1];
  const Array lhs = simplified(operands[0], a, labels.result + b);
  const Array rhs = simplified(operands[1], b, labels.result + a);
  DotDims dims;
  std::string batch, free;
  for (size_t d = 0; d < a.size(); ++d) {
    const size_t other = b.find(a[d]);
    const bool in_result = labels.result.find(a[d]) != std::string::npos;
    if (other == std::string::npos) {
      free += a[d];
      continue;
    }
    (in_result ? dims.lhs_batch : dims.lhs_contract).push_back(static_cast<int64_t>(d));
    (in_result ? dims.rhs_batch : dims.rhs_contract).push_back(static_cast<int64_t>(other));
    if (in_result) batch += a[d];
  }
  for (char label : b)
    if (a.find(label) == std::string::npos) free += label;
  return {in_order(dot_general(lhs, rhs, dims, dtype), batch + free, labels.result)};
}

}  // namespace

void register_einsum_ops(OpRegistry& registry) {
  for (const char* name : {"stablehlo.einsum", "stablehlo.unary_einsum"})
    registry.add({.name = name,
                  .traits = kPure,
                  .infer = infer_einsum,
                  .rule = einsum_rule,
                  .partial = einsum_partial,
                  .cost = einsum_cost,
                  .eval = eval_einsum});
}

}  // namespace cleave
