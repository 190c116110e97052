#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/xla_cpu/hlo.h"
#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reducer.h"

namespace cleave::analyze::hlo {
namespace {

// Attributes that say what an op computes, as text.
std::string detail_of(const Graph& graph, const Node& node) {
  std::string text;
  for (const NamedAttribute& entry : node.attrs.entries())
    if (entry.name.find('.') == std::string::npos && entry.name != "channel_handle")
      text += entry.name + to_string(entry.value) + ";";
  for (RegionId region : node.regions) {
    const std::optional<ReduceOp> reducer = common_reducer(graph, region, false);
    text +=
        reducer ? std::to_string(static_cast<int>(*reducer)) : std::to_string(region.index) + "r";
  }
  return text;
}

std::vector<int64_t> order_of(const std::vector<std::vector<int64_t>>& groups) {
  std::vector<int64_t> order;
  for (const auto& group : groups) order.insert(order.end(), group.begin(), group.end());
  return order;
}

Shape picked(const Shape& shape, const std::vector<int64_t>& dims) {
  Shape result;
  for (int64_t dim : dims) result.push_back(shape[static_cast<size_t>(dim)]);
  return result;
}

// The dimensions that are in neither list.
std::vector<int64_t> free_dims(size_t rank, const std::vector<int64_t>& a,
                               const std::vector<int64_t>& b) {
  std::vector<int64_t> free;
  for (int64_t dim = 0; dim < static_cast<int64_t>(rank); ++dim)
    if (std::find(a.begin(), a.end(), dim) == a.end() &&
        std::find(b.begin(), b.end(), dim) == b.end())
      free.push_back(dim);
  return free;
}

Op op_of_node(const Node& node) {
  static const std::map<const OpDef*, Op> kOps = {
      {&def_of<op::Transpose>(), Op::Transpose},
      {&def_of<op::Reshape>(), Op::Reshape},
      {&def_of<op::Slice>(), Op::Slice},
      {&def_of<op::Pad>(), Op::Pad},
      {&def_of<op::Reverse>(), Op::Reverse},
      {&def_of<op::Concatenate>(), Op::Concatenate},
      {&def_of<op::DynamicSlice>(), Op::DynamicSlice},
      {&def_of<op::DynamicUpdateSlice>(), Op::Update},
      {&def_of<op::Gather>(), Op::Gather},
      {&def_of<op::Scatter>(), Op::Scatter},
      {&def_of<op::Reduce>(), Op::Reduce},
      {&def_of<op::ReduceWindow>(), Op::Window},
      {&def_of<op::Sort>(), Op::Sort},
      {&def_of<op::OptimizationBarrier>(), Op::Barrier},
  };
  const auto known = kOps.find(node.def);
  if (known != kOps.end()) return known->second;
  if (node.def->has(kCollective)) return Op::Collective;
  if (is<op::BitcastConvert>(node)) return Op::Elementwise;
  return node.def->has(kElementwise) ? Op::Elementwise : Op::Other;
}

class Lowering {
 public:
  Lowering(const Graph& graph, Module& module) : graph_(graph), module_(module) {}

  int region(RegionId id, const std::vector<ValueId>& captured, bool passes_captured) {
    const int number = static_cast<int>(module_.computations.size());
    module_.computations.emplace_back();
    Computation outer;
    std::swap(outer, now_);
    const std::map<ValueId, int> before = values_;
    std::vector<ValueId> arguments = graph_.region(id).args;
    arguments.insert(arguments.end(), captured.begin(), captured.end());
    for (size_t i = 0; i < arguments.size(); ++i) {
      Inst param{.op = Op::Parameter, .types = {graph_.type(arguments[i])}};
      param.number = static_cast<int>(i);
      values_[arguments[i]] = now_.add(std::move(param));
      now_.params.push_back(values_[arguments[i]]);
    }
    for (NodeId node : graph_.region(id).nodes) {
      if (!graph_.node(node).def->has(kTerminator)) {
        visit(graph_.node(node));
        continue;
      }
      Inst root{.op = Op::Tuple};
      for (ValueId value : graph_.node(node).operands) add_result(root, values_.at(value));
      if (passes_captured)
        for (ValueId value : captured) add_result(root, values_.at(value));
      now_.root = now_.add(std::move(root));
    }
    std::swap(outer, now_);
    values_ = before;
    module_.computations[static_cast<size_t>(number)] = std::move(outer);
    return number;
  }

 private:
  void add_result(Inst& root, int id) const {
    root.operands.push_back(id);
    root.types.push_back(now_.insts[static_cast<size_t>(id)].type());
  }

  const Type& type_of(int id) const { return now_.insts[static_cast<size_t>(id)].type(); }

  int scalar_constant(const Type& type, std::string detail) {
    return now_.add(
        {.op = Op::Constant, .detail = std::move(detail), .types = {Type::tensor(type.dtype, {})}});
  }

  int broadcast(int operand, const Shape& shape, std::vector<int64_t> dims) {
    const Type from = type_of(operand);
    if (num_elements(shape) == num_elements(from.shape)) return reshape(operand, shape);
    std::vector<int64_t> kept;
    Shape narrow;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (from.shape[i] == 1 && shape[static_cast<size_t>(dims[i])] != 1) continue;
      kept.push_back(dims[i]);
      narrow.push_back(from.shape[i]);
    }
    const int source = reshape(operand, narrow);
    return now_.add({.op = Op::Broadcast,
                     .types = {Type::tensor(from.dtype, shape)},
                     .operands = {source},
                     .dims = std::move(kept)});
  }

  int reshape(int operand, const Shape& shape) {
    const Type from = type_of(operand);
    if (from.shape == shape) return operand;
    return now_.add(
        {.op = Op::Reshape, .types = {Type::tensor(from.dtype, shape)}, .operands = {operand}});
  }

  int transpose(int operand, const std::vector<int64_t>& permutation, Op op = Op::Transpose) {
    const Type from = type_of(operand);
    if (std::is_sorted(permutation.begin(), permutation.end())) return operand;
    return now_.add({.op = op,
                     .types = {Type::tensor(from.dtype, picked(from.shape, permutation))},
                     .operands = {operand},
                     .dims = permutation});
  }

  template <typename Function>
  int apply(const Type& type, std::vector<int> operands) {
    return now_.add({.op = Op::Elementwise,
                     .def = &def_of<Function>(),
                     .types = {type},
                     .operands = std::move(operands)});
  }

  void visit(const Node& node) {
    if (is<op::Constant>(node)) return constant(node);
    if (is<op::Logistic>(node)) return logistic(node);
    if (is<op::BroadcastInDim>(node)) {
      values_[node.results[0]] =
          broadcast(values_.at(node.operands[0]), graph_.result_type(node).shape,
                    node.attrs.get_ints_or_empty("broadcast_dimensions"));
      return;
    }
    if (is<op::DotGeneral>(node)) return dot(node);
    if (is<op::Convolution>(node)) return convolution(node);
    if (is<op::While>(node)) return loop(node);
    if (flow_of(node) == Flow::Branches) return branches(node);
    if (is<op::Reshape>(node)) {
      values_[node.results[0]] =
          reshape(values_.at(node.operands[0]), graph_.result_type(node).shape);
      return;
    }
    if (is<op::Transpose>(node)) {
      values_[node.results[0]] =
          transpose(values_.at(node.operands[0]), node.attrs.get_ints("permutation"));
      return;
    }
    if (is<op::AllGather, op::ReduceScatter>(node)) return moved_to_front(node);
    if (is<op::AllToAll>(node)) return all_to_all(node);
    if (is<op::SelectAndScatter>(node)) return select_and_scatter(node);
    if (is<op::RngBitGenerator>(node)) return random_bits(node);
    plain(node);
  }

  void constant(const Node& node) {
    const Literal& literal = node.attrs.get_literal("value");
    const Type& type = graph_.result_type(node);
    std::string detail;  // its bytes
    if (literal.bytes)
      for (std::byte byte : *literal.bytes) detail.push_back(static_cast<char>(byte));
    if (num_elements(type.shape) > 1 && literal.splat) {
      const int scalar = scalar_constant(type, std::move(detail));
      values_[node.results[0]] = broadcast(scalar, type.shape, {});
      return;
    }
    values_[node.results[0]] =
        now_.add({.op = Op::Constant, .detail = std::move(detail), .types = {type}});
  }

  // 1 / (1 + exp(-x))
  void logistic(const Node& node) {
    const Type& type = graph_.result_type(node);
    const int one = broadcast(scalar_constant(type, "one"), type.shape, {});
    const int negated = apply<op::Negate>(type, {values_.at(node.operands[0])});
    const int power = apply<op::Exponential>(type, {negated});
    const int sum = apply<op::Add>(type, {power, one});
    values_[node.results[0]] = apply<op::Divide>(type, {one, sum});
  }

  // A function of the place of each number and of the key, with which others are computed in one
  // loop.
  void random_bits(const Node& node) {
    const int key = values_.at(node.operands[0]);
    const Type state = type_of(key), bits = graph_.type(node.results[1]);
    values_[node.results[0]] = apply<op::Add>(state, {key, key});
    const int number = now_.add({.op = Op::Slice,
                                 .def = &def_of<op::Slice>(),
                                 .types = {Type::tensor(state.dtype, {1})},
                                 .operands = {key}});
    const Type scalar = Type::tensor(bits.dtype, {});
    const int seed = apply<op::Convert>(scalar, {reshape(number, {})});
    const int places = now_.add({.op = Op::Iota, .types = {bits}});
    values_[node.results[1]] = apply<op::Add>(bits, {places, broadcast(seed, bits.shape, {})});
  }

  // Batch dimensions first, then what is kept of lhs, then what is contracted; rhs the other way
  // round. Products of two matrices stay as they are.
  void dot(const Node& node) {
    const DotDims dims = dot_dims(node);
    const Type &l = graph_.operand_type(node, 0), &r = graph_.operand_type(node, 1);
    const Type& result = graph_.result_type(node);
    int lhs = values_.at(node.operands[0]), rhs = values_.at(node.operands[1]);
    Inst dot{.op = Op::Dot, .def = node.def};
    if (dims.lhs_batch.empty() && dims.lhs_contract.size() == 1 && l.rank() == 2 && r.rank() == 2) {
      dot.is_lhs_turned = dims.lhs_contract[0] == 0;
      dot.is_rhs_turned = dims.rhs_contract[0] == 1;
      dot.operands = {lhs, rhs};
      dot.types = {result};
      values_[node.results[0]] = now_.add(std::move(dot));
      return;
    }
    const auto lhs_free = free_dims(l.rank(), dims.lhs_batch, dims.lhs_contract);
    const auto rhs_free = free_dims(r.rank(), dims.rhs_batch, dims.rhs_contract);
    const int64_t k = num_elements(picked(l.shape, dims.lhs_contract));
    const int64_t m = num_elements(picked(l.shape, lhs_free));
    const int64_t n = num_elements(picked(r.shape, rhs_free));
    Shape batch;  // dimensions of size 1 are no batch
    for (int64_t size : picked(l.shape, dims.lhs_batch))
      if (size != 1) batch.push_back(size);
    Shape left = batch, right = batch, made = batch;
    if (!lhs_free.empty()) left.push_back(m), made.push_back(m);
    left.push_back(k);
    right.push_back(k);
    if (!rhs_free.empty()) right.push_back(n), made.push_back(n);
    lhs = reshape(transpose(lhs, order_of({dims.lhs_batch, lhs_free, dims.lhs_contract})), left);
    rhs = reshape(transpose(rhs, order_of({dims.rhs_batch, dims.rhs_contract, rhs_free})), right);
    dot.operands = {lhs, rhs};
    dot.types = {Type::tensor(result.dtype, made)};
    values_[node.results[0]] = reshape(now_.add(std::move(dot)), result.shape);
  }

  // Features last, batch first, and kernels with their outputs last.
  void convolution(const Node& node) {
    const ConvDims dims = conv_dims(node);
    const Type& result = graph_.result_type(node);
    Inst made{.op = Op::Convolution, .def = node.def, .detail = detail_of(graph_, node)};
    const auto input = order_of({{dims.input_batch}, dims.input_spatial, {dims.input_feature}});
    const auto kernel =
        order_of({dims.kernel_spatial, {dims.kernel_input_feature, dims.kernel_output_feature}});
    const auto output = order_of({{dims.output_batch}, dims.output_spatial, {dims.output_feature}});
    const bool is_mirrored = has_reversal(node);
    const bool is_canonical = std::is_sorted(input.begin(), input.end()) &&
                              std::is_sorted(kernel.begin(), kernel.end()) &&
                              std::is_sorted(output.begin(), output.end());
    // Only the entry's are put in order.
    if (is_canonical || depth_ > 0) {
      made.operands = {values_.at(node.operands[0]), values_.at(node.operands[1])};
      made.types = {result};
      made.is_taken = is_canonical && !is_mirrored;
      values_[node.results[0]] = now_.add(std::move(made));
      return;
    }
    made.operands = {transpose(values_.at(node.operands[0]), input),
                     transpose(values_.at(node.operands[1]), kernel)};
    made.types = {Type::tensor(result.dtype, picked(result.shape, output))};
    made.is_taken = !is_mirrored;
    std::vector<int64_t> back(output.size());
    for (size_t i = 0; i < output.size(); ++i)
      back[static_cast<size_t>(output[i])] = static_cast<int64_t>(i);
    values_[node.results[0]] = transpose(now_.add(std::move(made)), back);
  }

  static bool has_reversal(const Node& node) {
    const std::vector<int64_t> reversed = node.attrs.get_ints_or_empty("window_reversal");
    return std::any_of(reversed.begin(), reversed.end(), [](int64_t v) { return v != 0; });
  }

  // Collectives are along the outermost dimension in memory.
  void moved_to_front(const Node& node) {
    const bool gathers = is<op::AllGather>(node);
    const auto dim =
        static_cast<size_t>(node.attrs.get_int(gathers ? "all_gather_dim" : "scatter_dimension"));
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Type& result = graph_.result_type(node, i);
      std::vector<int64_t> front(result.rank()), back(result.rank());
      std::iota(front.begin(), front.end(), 0);
      std::rotate(front.begin(), front.begin() + static_cast<ptrdiff_t>(dim),
                  front.begin() + static_cast<ptrdiff_t>(dim) + 1);
      for (size_t d = 0; d < front.size(); ++d)
        back[static_cast<size_t>(front[d])] = static_cast<int64_t>(d);
      const int source = transpose(values_.at(node.operands[i]), front, Op::Reorder);
      const int made = now_.add({.op = Op::Collective,
                                 .def = node.def,
                                 .detail = detail_of(graph_, node),
                                 .types = {Type::tensor(result.dtype, picked(result.shape, front))},
                                 .operands = {source}});
      values_[node.results[i]] = transpose(made, back, Op::Reorder);
    }
  }

  // In pieces, one for each device, which are put together along the dimension that was whole.
  void all_to_all(const Node& node) {
    const Type& result = graph_.result_type(node);
    const auto split = static_cast<size_t>(node.attrs.get_int("split_dimension"));
    const auto concat = static_cast<size_t>(node.attrs.get_int("concat_dimension"));
    const int64_t count = node.attrs.get_int("split_count");
    const int source = values_.at(node.operands[0]);
    Shape apart = type_of(source).shape;
    apart[split] /= count;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(split), count);
    std::vector<int64_t> front(apart.size());
    std::iota(front.begin(), front.end(), 0);
    std::rotate(front.begin(), front.begin() + static_cast<ptrdiff_t>(split),
                front.begin() + static_cast<ptrdiff_t>(split) + 1);
    const int pieces = transpose(reshape(source, apart), front);
    const Shape shape = type_of(pieces).shape;
    const int made = now_.add({.op = Op::Collective,
                               .def = node.def,
                               .detail = detail_of(graph_, node),
                               .types = {Type::tensor(result.dtype, shape)},
                               .operands = {pieces}});
    std::vector<int64_t> back(shape.size() - 1);
    std::iota(back.begin(), back.end(), 1);
    back.insert(back.begin() + static_cast<ptrdiff_t>(concat), 0);
    values_[node.results[0]] = reshape(transpose(made, back), result.shape);
  }

  // The place of the element that each window selects, an array for each dimension, and a scatter.
  void select_and_scatter(const Node& node) {
    const Type &operand = graph_.operand_type(node, 0), &source = graph_.operand_type(node, 1);
    const int init = values_.at(node.operands[2]);
    Inst window{.op = Op::Window, .def = node.def, .detail = detail_of(graph_, node)};
    window.operands = {values_.at(node.operands[0])};
    window.types = {Type::tensor(operand.dtype, source.shape)};
    for (size_t d = 0; d < operand.rank(); ++d) {
      window.operands.push_back(now_.add({.op = Op::Iota,
                                          .types = {Type::tensor(DType::I32, operand.shape)},
                                          .dims = {static_cast<int64_t>(d)}}));
      window.types.push_back(Type::tensor(DType::I32, source.shape));
    }
    window.operands.push_back(init);
    const std::vector<Type> types = window.types;
    const int selected = now_.add(std::move(window));
    Shape column = source.shape;
    column.push_back(1);
    Inst joined{.op = Op::Concatenate, .dims = {static_cast<int64_t>(source.rank())}};
    for (size_t d = 0; d < operand.rank(); ++d) {
      Inst element{.op = Op::Element, .types = {types[d + 1]}, .operands = {selected}};
      element.number = static_cast<int>(d) + 1;
      joined.operands.push_back(reshape(now_.add(std::move(element)), column));
    }
    column.back() = static_cast<int64_t>(operand.rank());
    joined.types = {Type::tensor(DType::I32, column)};
    const int places = now_.add(std::move(joined));
    const int start = broadcast(init, operand.shape, {});
    values_[node.results[0]] =
        now_.add({.op = Op::Scatter,
                  .types = {operand},
                  .operands = {start, places, values_.at(node.operands[1])}});
  }

  void loop(const Node& node) {
    const LoopRegions parts = *loop_of(node);
    const std::vector<ValueId> captured = captured_values(graph_, node.regions);
    Inst made{.op = Op::Loop, .def = node.def};
    for (ValueId operand : node.operands) add_result(made, values_.at(operand));
    for (ValueId value : captured) add_result(made, values_.at(value));
    ++depth_;
    made.called = {region(parts.condition, captured, false), region(parts.body, captured, true)};
    --depth_;
    results_of(node, std::move(made));
  }

  void branches(const Node& node) {
    Inst made{.op = Op::Branches, .def = node.def};
    const std::vector<ValueId> captured = captured_values(graph_, node.regions);
    made.operands.push_back(values_.at(node.operands[0]));
    for (ValueId value : captured) made.operands.push_back(values_.at(value));
    ++depth_;
    for (RegionId id : node.regions) made.called.push_back(region(id, captured, false));
    --depth_;
    for (ValueId result : node.results) made.types.push_back(graph_.type(result));
    results_of(node, std::move(made));
  }

  void plain(const Node& node) {
    Inst made{.op = op_of_node(node), .def = node.def, .detail = detail_of(graph_, node)};
    for (ValueId operand : node.operands) made.operands.push_back(values_.at(operand));
    for (ValueId result : node.results) made.types.push_back(graph_.type(result));
    if (node.results.empty()) return;
    if (made.op == Op::Elementwise) {
      for (int& operand : made.operands)
        if (type_of(operand).rank() == 0 && made.type().rank() > 0)
          operand = broadcast(operand, made.shape(), {});
      made.op = Op::Elementwise;
    }
    if (is<op::Iota>(node)) made.op = Op::Iota;
    if (made.op == Op::Reduce) made.dims = node.attrs.get_ints("dimensions");
    if (made.op == Op::Concatenate) made.dims = {node.attrs.get_int("dimension")};
    if (made.op == Op::Scatter)
      made.adds = common_reducer(graph_, node.regions[0], false) == ReduceOp::Sum;
    if (made.op == Op::Reduce || made.op == Op::Window) {
      const std::optional<ReduceOp> reducer = common_reducer(graph_, node.regions[0], false);
      made.is_taken = reducer && (*reducer == ReduceOp::Sum || *reducer == ReduceOp::Max ||
                                  *reducer == ReduceOp::Min);
      made.adds = reducer == ReduceOp::Sum;
    }
    results_of(node, std::move(made));
  }

  void results_of(const Node& node, Inst made) {
    const bool is_tuple = made.types.size() != 1 || made.op == Op::Loop ||
                          made.op == Op::Branches || made.op == Op::Barrier;
    const std::vector<Type> types = made.types;
    const int id = now_.add(std::move(made));
    if (!is_tuple) {
      values_[node.results[0]] = id;
      return;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      Inst element{.op = Op::Element, .types = {types[i]}, .operands = {id}};
      element.number = static_cast<int>(i);
      values_[node.results[i]] = now_.add(std::move(element));
    }
  }

  const Graph& graph_;
  Module& module_;
  Computation now_;
  std::map<ValueId, int> values_;
  int depth_ = 0;
};

// Donated arguments that name no result take the place of one of their size.
void alias_donors(const Function& function, const Inst& root, Module& module) {
  for (size_t i = 0; i < module.is_donated.size(); ++i) {
    if (!module.is_donated[i] || function.arg_attrs[i].has("tf.aliasing_output")) continue;
    for (size_t j = 0; j < module.alias_of.size(); ++j) {
      if (module.alias_of[j] >= 0 || bytes_of(root.types[j]) != bytes_of(function.arg_types[i]))
        continue;
      module.alias_of[j] = static_cast<int>(i);
      break;
    }
  }
}

}  // namespace

Module lower(const Graph& graph, const std::string& entry) {
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{}", entry);
  Module module;
  Lowering(graph, module).region(function->body, {}, false);
  module.entry = 0;
  const Inst& root = module.computations[0].insts[static_cast<size_t>(module.computations[0].root)];
  module.alias_of.assign(root.operands.size(), -1);
  for (size_t i = 0; i < function->arg_types.size(); ++i) {
    const AttrDict none;
    const AttrDict& attrs = i < function->arg_attrs.size() ? function->arg_attrs[i] : none;
    module.is_donated.push_back(is_donated_argument(attrs));
    const int64_t result = attrs.get_int("tf.aliasing_output", -1);
    if (result >= 0 && static_cast<size_t>(result) < module.alias_of.size())
      module.alias_of[static_cast<size_t>(result)] = static_cast<int>(i);
  }
  alias_donors(*function, root, module);
  return module;
}

}  // namespace cleave::analyze::hlo
