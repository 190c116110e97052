#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;

std::vector<int64_t> all_but(size_t rank, int64_t dim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}

AttrDict without(const AttrDict& attrs, std::initializer_list<std::string_view> names) {
  AttrDict rest = attrs;
  for (std::string_view name : names) rest.erase(name);
  return rest;
}

// One node, written as other ops into the body of a function that takes its operands. Gives its
// results, or nothing where it has no such form.
class Expansion {
 public:
  Expansion(GraphBuilder& b, const Node& node) : b_(b), node_(node) {
    for (ValueId result : node.results) types_.push_back(b.graph().type(result));
  }

  std::optional<Values> run() {
    const std::string& name = node_.name;
    if (name.starts_with("chlo.broadcast_")) return {{broadcasting()}};
    if (name == "chlo.constant_like") return {{constant_like()}};
    if (name == "stablehlo.map") return map();
    if (name == "stablehlo.get_dimension_size")
      return {{b_.constant(static_cast<double>(shape(0)[node_.attrs.get_int("dimension")]),
                           DType::I32)}};
    if (name == "stablehlo.dynamic_reshape") return {{b_.reshape(in(0), types_[0].shape)}};
    if (name == "stablehlo.dynamic_iota")
      return {{b_.iota(types_[0].dtype, types_[0].shape, node_.attrs.get_int("iota_dimension"))}};
    if (name == "stablehlo.dynamic_broadcast_in_dim")
      return {{b_.broadcast(in(0), types_[0].shape, node_.attrs.get_ints("broadcast_dimensions"))}};
    if (name == "stablehlo.dynamic_gather") return {{dynamic_gather()}};
    if (name == "stablehlo.torch_index_select") return {{index_select()}};
    if (name == "stablehlo.batch_norm_inference")
      return {{narrow(normalised(wide(0), wide(1), wide(2), wide(3), wide(4)), 0)}};
    if (name == "stablehlo.batch_norm_training") return batch_norm_training();
    if (name == "stablehlo.batch_norm_grad") return batch_norm_grad();
    if (name == "stablehlo.select") return spread_select();
    if (name == "stablehlo.einsum") return einsum();
    if (name == "stablehlo.unary_einsum") return unary_einsum();
    if (name == "chlo.scan") return scan();
    if (name == "cleave.softmax") return {{softmax()}};
    if (name == "cleave.layer_norm") return {{layer_norm()}};
    if (name == "stablehlo.custom_call") return {{b_.emit("chlo.erf", {in(0)})}};
    return std::nullopt;
  }

 private:
  ValueId in(size_t i) const { return b_.arg(i); }
  const Shape& shape(size_t i) const { return b_.shape(in(i)); }
  ValueId op(const char* name, ValueId a, ValueId b) { return b_.emit(name, {a, b}); }
  ValueId add(ValueId a, ValueId b) { return op("stablehlo.add", a, b); }
  ValueId sub(ValueId a, ValueId b) { return op("stablehlo.subtract", a, b); }
  ValueId mul(ValueId a, ValueId b) { return op("stablehlo.multiply", a, b); }
  ValueId div(ValueId a, ValueId b) { return op("stablehlo.divide", a, b); }
  ValueId scaled(ValueId a, double by) { return mul(a, b_.constant_like(by, a)); }

  // Operands go to the last dimensions, or where broadcast_dimensions says.
  ValueId broadcasting() {
    const std::string base = node_.name.substr(std::string_view("chlo.broadcast_").size());
    const size_t rank = types_[0].rank();
    Values operands;
    for (size_t i = 0; i < node_.operands.size(); ++i) {
      std::vector<int64_t> dims;
      for (size_t d = 0; d < shape(i).size(); ++d)
        dims.push_back(static_cast<int64_t>(rank - shape(i).size() + d));
      if (dims.size() < rank && node_.attrs.has("broadcast_dimensions"))
        dims = node_.attrs.get_ints("broadcast_dimensions");
      operands.push_back(b_.broadcast(in(i), types_[0].shape, dims));
    }
    return b_.emit((find_op("stablehlo." + base) ? "stablehlo." : "chlo.") + base, operands,
                   without(node_.attrs, {"broadcast_dimensions"}));
  }

  ValueId constant_like() {
    const Attribute& value = *node_.attrs.find("value");
    double number = 0;
    if (auto* real = value.as<FloatAttr>()) number = real->value;
    if (auto* integer = value.as<IntegerAttr>()) number = static_cast<double>(integer->value);
    if (auto* boolean = value.as<bool>()) number = *boolean;
    return b_.constant(number, types_[0].dtype, types_[0].shape);
  }

  // One predicate for all elements.
  std::optional<Values> spread_select() {
    if (!shape(0).empty() || types_[0].rank() == 0) return std::nullopt;
    return Values{
        b_.emit("stablehlo.select", {b_.broadcast(in(0), types_[0].shape, {}), in(1), in(2)})};
  }

  // "ab,bc->ac" where every letter is in the result or in both operands, and in none twice.
  std::optional<Values> einsum() {
    std::string text(node_.attrs.get_string("einsum_config"));
    std::erase(text, ' ');
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
        if (std::ranges::count(names[i], label) > 1 || (!shared && !kept)) return std::nullopt;
        if (!shared) product[1 + i] += label;
        if (!shared || i == 1) continue;
        (kept ? batch : contract)[0].push_back(static_cast<int64_t>(d));
        (kept ? batch : contract)[1].push_back(static_cast<int64_t>(names[1].find(label)));
        if (kept) product[0] += label;
      }
    const std::string order = product[0] + product[1] + product[2];
    Shape sizes;
    std::vector<int64_t> permutation;
    for (char label : order) sizes.push_back(types_[0].shape[out.find(label)]);
    for (char label : out) permutation.push_back(static_cast<int64_t>(order.find(label)));
    const ValueId dot =
        b_.emit_as(Type::tensor(types_[0].dtype, sizes), "stablehlo.dot_general", {in(0), in(1)},
                   dot_attrs({batch[0], batch[1], contract[0], contract[1]}));
    return Values{b_.transpose(dot, permutation)};
  }

  // "abc->ca": what is not in the result is summed; no letter twice.
  std::optional<Values> unary_einsum() {
    std::string text(node_.attrs.get_string("einsum_config"));
    std::erase(text, ' ');
    const size_t arrow = text.find("->");
    const std::string names = text.substr(0, arrow), out = text.substr(arrow + 2);
    std::string kept;
    std::vector<int64_t> summed, permutation;
    for (size_t d = 0; d < names.size(); ++d) {
      if (std::ranges::count(names, names[d]) > 1) return std::nullopt;
      if (out.find(names[d]) == std::string::npos)
        summed.push_back(static_cast<int64_t>(d));
      else
        kept += names[d];
    }
    for (char label : out) permutation.push_back(static_cast<int64_t>(kept.find(label)));
    const ValueId sum = summed.empty() ? in(0) : b_.reduce(in(0), "stablehlo.add", 0, summed);
    return Values{b_.transpose(sum, permutation)};
  }

  // A loop over the steps. The body becomes that of the loop, between slices and updates.
  std::optional<Values> scan() {
    Graph& graph = b_.graph();
    const RegionId from = node_.regions[0];
    bool moves = true;  // nothing in it is known by its place
    graph.walk(from, [&](NodeId id) {
      const OpDef* def = graph.node(id).def;
      moves = moves && def && !def->has(kCollective) && !is<op::Transfer>(graph.node(id));
    });
    if (!moves) return std::nullopt;
    const auto segments = node_.attrs.get_ints_or_empty("operandSegmentSizes");
    const size_t inputs =
        segments.size() == 2 ? static_cast<size_t>(segments[0]) : node_.operands.size() / 2;
    const size_t carries = node_.operands.size() - inputs;
    const size_t outputs = node_.results.size() - carries;
    const int64_t dim = node_.attrs.get_int("dimension"), steps = shape(0)[dim];
    // The number of the step, then carries, then outputs.
    Values start = {b_.constant(0, DType::I32)};
    for (size_t i = 0; i < carries; ++i) start.push_back(in(inputs + i));
    for (size_t i = 0; i < outputs; ++i)
      start.push_back(b_.constant(0, types_[i].dtype, types_[i].shape));
    std::vector<Type> types;
    for (ValueId value : start) types.push_back(graph.type(value));
    const NodeId loop = graph.add_node("stablehlo.while", start, types);
    GraphBuilder condition(graph, graph.add_region(loop)), body(graph, graph.add_region(loop));
    for (const Type& type : types) {
      graph.add_argument(condition.region(), type);
      graph.add_argument(body.region(), type);
    }
    condition.finish({condition.compare(
        "LT", condition.arg(0), condition.constant(static_cast<double>(steps), DType::I32))});
    const ValueId number = body.arg(0);
    const ValueId zero = body.constant(0, DType::I32);
    const ValueId last = body.constant(static_cast<double>(steps - 1), DType::I32);
    const ValueId at = node_.attrs.get_bool("is_reverse", false)
                           ? body.emit("stablehlo.subtract", {last, number})
                           : number;
    auto starts = [&](size_t rank) {
      Values result(rank, zero);
      result[static_cast<size_t>(dim)] = at;
      return result;
    };
    std::map<uint32_t, ValueId> mapped;
    const Values args = graph.region(from).args;
    for (size_t i = 0; i < inputs; ++i) {
      Shape sizes = shape(i);
      sizes[static_cast<size_t>(dim)] = 1;
      Values operands = starts(sizes.size());
      operands.insert(operands.begin(), in(i));
      AttrDict attrs;
      attrs.set("slice_sizes", ints_attr(sizes));
      const ValueId part = body.emit("stablehlo.dynamic_slice", operands, attrs);
      mapped[args[i].index] = body.reshape(part, graph.type(args[i]).shape);
    }
    for (size_t i = 0; i < carries; ++i) mapped[args[inputs + i].index] = body.arg(1 + i);
    const std::vector<NodeId> nodes = graph.region(from).nodes;
    graph.walk(from, [&](NodeId id) {
      for (ValueId& operand : graph.node(id).operands)
        if (const auto it = mapped.find(operand.index); it != mapped.end()) operand = it->second;
    });
    for (size_t i = 0; i + 1 < nodes.size(); ++i) graph.append(body.region(), nodes[i]);
    const Values returned = graph.node(nodes.back()).operands;
    Values next = {body.emit("stablehlo.add", {number, body.constant(1, DType::I32)})};
    for (size_t i = 0; i < carries; ++i) next.push_back(returned[outputs + i]);
    for (size_t i = 0; i < outputs; ++i) {
      Shape sizes = types_[i].shape;
      sizes[static_cast<size_t>(dim)] = 1;
      Values operands = starts(sizes.size());
      operands.insert(operands.begin(),
                      {body.arg(1 + carries + i), body.reshape(returned[i], sizes)});
      next.push_back(body.emit("stablehlo.dynamic_update_slice", operands));
    }
    body.finish(next);
    graph.append(b_.region(), loop);
    const Values ended = graph.node(loop).results;
    Values results(ended.begin() + 1 + static_cast<int64_t>(carries), ended.end());
    results.insert(results.end(), ended.begin() + 1,
                   ended.begin() + 1 + static_cast<int64_t>(carries));
    return results;
  }

  // The body's ops on whole tensors.
  std::optional<Values> map() {
    Graph& graph = b_.graph();
    const Region body = graph.region(node_.regions[0]);
    std::map<uint32_t, ValueId> whole;
    for (size_t i = 0; i < body.args.size(); ++i) whole[body.args[i].index] = in(i);
    for (NodeId id : body.nodes) {
      const Node node = graph.node(id);
      if (node.def && node.def->has(kTerminator)) {
        const auto it = whole.find(node.operands[0].index);
        return it == whole.end() ? std::nullopt : std::optional(Values{it->second});
      }
      if (!node.def || node.results.size() != 1 || !node.regions.empty()) return std::nullopt;
      const Type scalar = graph.type(node.results[0]);
      const Type type = Type::tensor(scalar.dtype, types_[0].shape);
      Values operands;
      for (ValueId operand : node.operands) {
        const auto it = whole.find(operand.index);
        if (it == whole.end()) return std::nullopt;
        operands.push_back(it->second);
      }
      ValueId& result = whole[node.results[0].index];
      if (is<op::Constant>(node) && scalar.rank() == 0)
        result = b_.broadcast(b_.emit_as(scalar, node.name, {}, node.attrs), type.shape, {});
      else if (node.def->has(kElementwise) && scalar.rank() == 0)
        result = b_.emit_as(type, node.name, operands, node.attrs);
      else
        return std::nullopt;
    }
    return std::nullopt;
  }

  ValueId dynamic_gather() {
    const WindowMap map = gather_map(node_);
    std::vector<int64_t> window(shape(0).size(), 1);
    const std::vector<int64_t> dims = map.window_operand_dims(window.size());
    for (size_t w = 0; w < dims.size(); ++w) window[dims[w]] = types_[0].shape[map.window_dims[w]];
    AttrDict attrs = node_.attrs;
    attrs.set("slice_sizes", ints_attr(window));
    return b_.emit_as(types_[0], "stablehlo.gather", {in(0), in(1)}, attrs);
  }

  ValueId index_select() {
    const int64_t dim = node_.attrs.get_int("dim"), batch = node_.attrs.get_int("batch_dims");
    const auto rank = static_cast<int64_t>(shape(0).size());
    const auto width = static_cast<int64_t>(shape(1).size()) - batch;
    WindowMap map;
    map.collapsed_dims = map.index_map = {dim};
    map.index_vector_dim = static_cast<int64_t>(shape(1).size());
    std::vector<int64_t> window = shape(0);
    window[dim] = 1;
    for (int64_t d = 0; d < batch; ++d) {
      map.operand_batching_dims.push_back(d);
      map.indices_batching_dims.push_back(d);
      window[d] = 1;
    }
    for (int64_t d = batch; d < rank; ++d)
      if (d != dim) map.window_dims.push_back(d < dim ? d : d - 1 + width);
    AttrDict attrs;
    attrs.set(kGatherDims, gather_attr(map));
    attrs.set("slice_sizes", ints_attr(window));
    return b_.emit_as(types_[0], "stablehlo.gather", {in(0), in(1)}, attrs);
  }

  // ---- normalisation ----

  int64_t feature() const { return node_.attrs.get_int("feature_index"); }
  ValueId wide(size_t i) {
    return b_.dtype(in(i)) == DType::F64 ? in(i) : b_.convert(in(i), DType::F32);
  }
  ValueId narrow(ValueId value, size_t result) {
    return b_.dtype(value) == types_[result].dtype ? value
                                                   : b_.convert(value, types_[result].dtype);
  }
  // One element by feature, over the shape of x.
  ValueId spread(ValueId value) { return b_.broadcast(value, shape(0), {feature()}); }
  ValueId summed(ValueId value) {
    return b_.reduce(value, "stablehlo.add", 0, all_but(shape(0).size(), feature()));
  }
  double count() const { return static_cast<double>(num_elements(shape(0)) / shape(0)[feature()]); }
  ValueId deviation(ValueId variance) {
    const double epsilon = node_.attrs.get_float("epsilon");
    return b_.emit("stablehlo.sqrt", {add(variance, b_.constant_like(epsilon, variance))});
  }
  ValueId normalised(ValueId x, ValueId scale, ValueId offset, ValueId mean, ValueId variance) {
    const ValueId unit = div(sub(x, spread(mean)), spread(deviation(variance)));
    return add(mul(spread(scale), unit), spread(offset));
  }

  std::optional<Values> batch_norm_training() {
    if (num_elements(shape(0)) == 0) return std::nullopt;
    const ValueId x = wide(0);
    const ValueId mean = scaled_down(summed(x));
    const ValueId centred = sub(x, spread(mean));
    const ValueId variance = scaled_down(summed(mul(centred, centred)));
    const ValueId out = normalised(x, wide(1), wide(2), mean, variance);
    return Values{narrow(out, 0), narrow(mean, 1), narrow(variance, 2)};
  }
  ValueId scaled_down(ValueId sum) { return div(sum, b_.constant_like(count(), sum)); }

  std::optional<Values> batch_norm_grad() {
    if (num_elements(shape(0)) == 0) return std::nullopt;
    const ValueId x = wide(0), scale = wide(1), mean = wide(2), variance = wide(3), grad = wide(4);
    const double epsilon = node_.attrs.get_float("epsilon");
    const ValueId centred = sub(x, spread(mean));
    const ValueId root = deviation(variance);
    const ValueId sum = summed(grad), weighted = summed(mul(grad, centred));
    const ValueId factor = scaled(div(scale, root), 1 / count());
    const ValueId slope = div(weighted, add(variance, b_.constant_like(epsilon, variance)));
    const ValueId inner = sub(sub(scaled(grad, count()), spread(sum)), mul(spread(slope), centred));
    return Values{narrow(mul(spread(factor), inner), 0), narrow(div(weighted, root), 1),
                  narrow(sum, 2)};
  }

  std::vector<int64_t> last() const { return {static_cast<int64_t>(shape(0).size()) - 1}; }

  ValueId softmax() {
    const ValueId most = b_.reduce_and_broadcast(in(0), "stablehlo.maximum", -INFINITY, last());
    const ValueId e = b_.emit("stablehlo.exponential", {sub(in(0), most)});
    return div(e, b_.reduce_and_broadcast(e, "stablehlo.add", 0, last()));
  }

  ValueId layer_norm() {
    const double size = static_cast<double>(shape(0).back());
    auto mean = [&](ValueId value) {
      return scaled(b_.reduce_and_broadcast(value, "stablehlo.add", 0, last()), 1 / size);
    };
    const ValueId centred = sub(in(0), mean(in(0)));
    const ValueId variance = mean(mul(centred, centred));
    const double epsilon = node_.attrs.get_float("epsilon");
    ValueId out = mul(
        centred, b_.emit("stablehlo.rsqrt", {add(variance, b_.constant_like(epsilon, variance))}));
    if (node_.operands.size() == 1) return out;
    out = mul(out, b_.broadcast(in(1), shape(0), last()));
    return add(out, b_.broadcast(in(2), shape(0), last()));
  }

  GraphBuilder& b_;
  const Node node_;  // a copy: emitting moves the table of nodes
  std::vector<Type> types_;
};

bool has_expansion(const Graph& graph, const Node& node) {
  static const std::set<std::string_view> kNames = {"chlo.constant_like",
                                                    "chlo.scan",
                                                    "cleave.layer_norm",
                                                    "cleave.softmax",
                                                    "stablehlo.batch_norm_grad",
                                                    "stablehlo.batch_norm_inference",
                                                    "stablehlo.batch_norm_training",
                                                    "stablehlo.dynamic_broadcast_in_dim",
                                                    "stablehlo.dynamic_gather",
                                                    "stablehlo.dynamic_iota",
                                                    "stablehlo.dynamic_reshape",
                                                    "stablehlo.einsum",
                                                    "stablehlo.get_dimension_size",
                                                    "stablehlo.map",
                                                    "stablehlo.torch_index_select",
                                                    "stablehlo.unary_einsum"};
  if (is<op::Select>(node))
    return graph.operand_type(node, 0).rank() == 0 && graph.result_type(node).rank() > 0;
  if (is<op::CustomCall>(node)) return node.attrs.get_string("call_target_name") == "mhlo.erf";
  return kNames.contains(node.name) || node.name.starts_with("chlo.broadcast_");
}

bool has_static_types(const Graph& graph, const Values& values) {
  return std::all_of(values.begin(), values.end(), [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
  });
}

}  // namespace

bool expand(Graph& graph) {
  std::vector<NodeId> nodes;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.def && has_expansion(graph, node) && !is_pinned(node) &&
        has_static_types(graph, node.operands) && has_static_types(graph, node.results))
      nodes.push_back(id);
  });
  bool changed = false;
  for (NodeId id : nodes) {
    // A function of its own, which is inlined in the end.
    std::vector<Type> args;
    for (ValueId operand : graph.node(id).operands) args.push_back(graph.type(operand));
    const std::string name = "cleave.expanded." + std::to_string(id.index);
    const size_t functions = graph.functions.size();
    GraphBuilder b = GraphBuilder::function(graph, name, args);
    const auto results = Expansion(b, graph.node(id)).run();
    if (!results) {
      graph.functions.resize(functions);
      continue;
    }
    b.finish(*results);
    graph.find_function(name)->visibility = "private";
    Node& node = graph.node(id);
    node.name = "func.call";
    node.def = find_op("func.call");
    node.attrs = {};
    node.attrs.set("callee", SymbolRefAttr{name, {}});
    node.regions.clear();
    changed = true;
  }
  if (changed) inline_calls(graph);
  return changed;
}

}  // namespace cleave
