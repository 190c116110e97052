#pragma once

#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/eval.h"
#include "tests/support/error_of.h"

namespace cleave {

// One op in a graph of its own: operands are arguments of a function.
//   OneOp op("stablehlo.add", {f32({2}), f32({2})}, {f32({2})});
//   op.infer(), op.rule(), op.run({x, y})
class OneOp {
 public:
  OneOp(std::string_view name, const std::vector<Type>& operands, std::vector<Type> results,
        AttrDict attrs = {}) {
    const RegionId body = graph_.add_region();
    std::vector<ValueId> args;
    for (const Type& type : operands) args.push_back(graph_.add_argument(body, type));
    node_ = graph_.add_node(name, args, std::move(results), std::move(attrs));
    graph_.append(body, node_);
  }

  const Graph& graph() const { return graph_; }
  const Node& node() const { return graph_.node(node_); }
  const OpDef& def() const { return *node().def; }
  std::vector<Type> infer() const { return def().infer(graph_, node()); }
  OpShardingRule rule() const { return def().rule(graph_, node()); }
  PartialTransfer partial() const { return def().partial(graph_, node()); }
  std::vector<Array> run(std::vector<Array> args) const {
    struct Context : EvalContext {
      using EvalContext::EvalContext;
      std::vector<Array> run_region(RegionId, std::span<const Array>) override { return {}; }
      std::vector<Array> call(std::string_view, std::span<const Array>) override { return {}; }
    } context(graph_);
    return def().eval(context, node(), args);
  }

 private:
  Graph graph_;
  NodeId node_;
};

inline Type tensor(DType dtype, Shape shape) { return Type::tensor(dtype, std::move(shape)); }
inline Type f32(Shape shape) { return Type::tensor(DType::F32, std::move(shape)); }
inline Type i64(Shape shape) { return Type::tensor(DType::I64, std::move(shape)); }

inline AttrDict attrs(std::vector<std::pair<const char*, Attribute>> entries) {
  AttrDict dict;
  for (auto& [name, value] : entries) dict.set(name, std::move(value));
  return dict;
}

template <typename T>
Array array(DType dtype, Shape shape, const std::vector<T>& values) {
  return Array::from_bytes(dtype, std::move(shape), values.data());
}
template <typename T>
std::vector<T> values(const Array& x) {
  const Array packed = x.contiguous();
  return std::vector<T>(packed.data<T>(), packed.data<T>() + packed.num_elements());
}

// The factors as letters in order, with sizes: "ab,b->a a=2 b=3", kinds as r (reduction), n
// (need-replication), p (permutation), ! (blocked).
inline std::string text(const OpShardingRule& rule) {
  auto tensors = [](const std::vector<TensorFactors>& list) {
    std::string out;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ",";
      for (size_t d = 0; d < list[i].size(); ++d) {
        if (d) out += " ";
        for (FactorIndex f : list[i][d]) out += static_cast<char>('a' + f);
      }
    }
    return out;
  };
  std::string out = tensors(rule.operands) + "->" + tensors(rule.results);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    out += std::string(" ") + static_cast<char>('a' + f) + "=" + std::to_string(factor.size);
    if (factor.kind == FactorKind::Reduction) out += "r";
    if (factor.kind == FactorKind::NeedReplication) out += "n";
    if (factor.kind == FactorKind::Permutation) out += "p";
    if (factor.blocked) out += "!";
  }
  return out;
}

}  // namespace cleave
