#include "cleave/plan/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/ops/op.h"
#include "cleave/plan/path.h"
#include "cleave/plan/size_classes.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {
namespace {

bool is_ranked(const Type& type) {
  return type.is_tensor() && !type.unranked && type.has_static_shape();
}

// Ties the sizes of a Program's values together, op by op.
class Sizes {
 public:
  explicit Sizes(const Program& program)
      : program_(program), graph_(program.graph), dims_(graph_.num_values()) {
    for (uint32_t v = 0; v < graph_.num_values(); ++v)
      if (is_ranked(graph_.type({v})))
        for (int64_t size : graph_.type({v}).shape) dims_[v].push_back(classes_.add(size));
  }

  void run(int64_t least) {
    graph_.walk([&](NodeId id) { visit(graph_.node(id)); });
    for (uint32_t v = 0; v < graph_.num_values(); ++v) {
      const ShardingSpec& spec = program_.layouts[v].spec;
      if (!spec.mesh) continue;
      for (size_t d = 0; d < dims_[v].size() && d < spec.dims.size(); ++d)
        if (!spec.dims[d].axes.empty()) classes_.shard(dims_[v][d], total_size(spec.dims[d].axes));
    }
    classes_.shrink(least);
  }

  Shape new_shape(ValueId value) const {
    Shape shape = graph_.type(value).shape;
    for (size_t d = 0; d < dims_[value.index].size(); ++d)
      shape[d] = classes_.new_size(dims_[value.index][d]);
    return shape;
  }

 private:
  const std::vector<int>& dims(ValueId value) const { return dims_[value.index]; }

  void tie(ValueId a, ValueId b) {
    for (size_t d = 0; d < dims(a).size() && d < dims(b).size(); ++d)
      classes_.tie({dims(a)[d]}, {dims(b)[d]});
  }
  void freeze(ValueId value) {
    for (int dim : dims(value)) classes_.freeze(dim);
  }
  void freeze_all(const Node& node) {
    for (ValueId value : node.operands) freeze(value);
    for (ValueId value : node.results) freeze(value);
  }

  void visit(const Node& node) {
    if (is_transfer(node)) return transfer(node);
    if (node.def->has(kDataFlow)) {
      for (const FlowEdge& edge : flow_edges(graph_, node)) tie(edge.from, edge.to);
      return;
    }
    if (node.def->has(kTerminator) || node.def->has(kConstantLike)) return;
    (this->*meaning_of(node).visit)(node);
  }

  // What the sizes of an op mean to it.
  struct Meaning {
    void (Sizes::*visit)(const Node&) = &Sizes::by_rule;
    bool any_size = false;   // none, even along factors that it cannot be cut along
    bool has_table = false;  // operand 0 has rows that indices choose from: an index beyond the end
                             // is brought back, or dropped, by the op
  };
  static const Meaning& meaning_of(const Node& node) {
    static const Meaning by_rule;
    static const std::map<const OpDef*, Meaning> others = {
        {&def_of<op::Slice>(), {.visit = &Sizes::slice}},
        {&def_of<op::Pad>(), {.visit = &Sizes::pad}},
        {&def_of<op::DynamicSlice>(), {.visit = &Sizes::dynamic_slice}},
        {&def_of<op::DynamicUpdateSlice>(), {.visit = &Sizes::dynamic_update_slice}},
        {&def_of<op::Convolution>(), {.visit = &Sizes::convolution}},
        {&def_of<op::Sort>(), {.any_size = true}},
        {&def_of<op::Reverse>(), {.any_size = true}},
        {&def_of<op::Gather>(), {.has_table = true}},
        {&def_of<op::Scatter>(), {.has_table = true}},
    };
    const auto it = others.find(node.def);
    return it == others.end() ? by_rule : it->second;
  }

  void transfer(const Node& node) {
    tie(node.operands[0], node.results[0]);
    // Boxes of a halo are numbers of elements.
    if (program_.layout(node.results[0]).boxes) freeze(node.results[0]);
  }

  void near(int a, int b, bool with_offset) {
    if (classes_.size(a) == classes_.size(b)) return classes_.tie({a}, {b});
    if (with_offset && classes_.size(a) > 1 && classes_.size(b) > 1)
      return classes_.tie_with_offset(a, b);
    classes_.freeze(a);
    classes_.freeze(b);
  }
  void slice(const Node& node) {
    const std::vector<int64_t> strides = node.attrs.get_ints("strides");
    for (size_t d = 0; d < strides.size(); ++d)
      near(dims(node.operands[0])[d], dims(node.results[0])[d], strides[d] == 1);
  }
  void pad(const Node& node) {
    const std::vector<int64_t> low = node.attrs.get_ints("edge_padding_low");
    const std::vector<int64_t> high = node.attrs.get_ints("edge_padding_high");
    const std::vector<int64_t> interior = node.attrs.get_ints("interior_padding");
    for (size_t d = 0; d < low.size(); ++d)
      near(dims(node.operands[0])[d], dims(node.results[0])[d],
           interior[d] == 0 && low[d] >= 0 && high[d] >= 0);
  }
  void window_of(ValueId whole, ValueId part) {
    for (size_t d = 0; d < dims(whole).size(); ++d) near(dims(whole)[d], dims(part)[d], false);
  }

  void dynamic_slice(const Node& node) { window_of(node.operands[0], node.results[0]); }
  void dynamic_update_slice(const Node& node) {
    tie(node.operands[0], node.results[0]);
    window_of(node.operands[0], node.operands[1]);
  }
  void convolution(const Node& node) {
    by_rule(node);
    if (node.attrs.get_int("feature_group_count", 1) > 1) freeze_all(node);
  }

  void by_rule(const Node& node) {
    const OpRule rules = op_rule(graph_, node);
    const OpShardingRule* rule = rules.to_run(node);
    if (!rule) return freeze_all(node);
    tie_factors(node, *rule, meaning_of(node));
  }

  // Along factors that the op can't be cut along, sizes may mean something to it.
  static bool may_change(const Factor& factor, const Meaning& meaning) {
    return factor.kind == FactorKind::PassThrough || factor.kind == FactorKind::Reduction ||
           meaning.any_size;
  }

  void tie_factors(const Node& node, const OpShardingRule& rule, const Meaning& meaning) {
    std::vector<int> factors;
    for (const Factor& factor : rule.factors) {
      factors.push_back(classes_.add(factor.size));
      if (!may_change(factor, meaning)) classes_.freeze(factors.back());
    }
    for (size_t t = 0; t < rule.num_tensors(); ++t) {
      const ValueId value =
          t < node.operands.size() ? node.operands[t] : node.results[t - node.operands.size()];
      const TensorFactors& tensor = rule.tensor(t);
      for (size_t d = 0; d < dims(value).size(); ++d) {
        const int dim = dims(value)[d];
        int64_t product = 1;
        std::vector<int> list;
        if (d < tensor.size())
          for (FactorIndex f : tensor[d]) {
            list.push_back(factors[f]);
            product *= rule.factors[f].size;
          }
        if (product == classes_.size(dim) && !list.empty())
          classes_.tie({dim}, list);
        else if (t > 0 || !meaning.has_table)
          classes_.freeze(dim);
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
  SizeClasses classes_;
  std::vector<std::vector<int>> dims_;  // by value
};

Literal part_of(const Literal& literal, const Shape& shape) {
  Literal part = literal;
  part.type.shape = shape;
  if (literal.splat || !literal.bytes) return part;
  const Shape& whole = literal.type.shape;
  const int64_t item = byte_size(literal.type.dtype);
  auto bytes = std::make_shared<std::vector<std::byte>>(num_elements(shape) * item);
  Shape index(shape.size(), 0);
  const Shape strides = row_major_strides(whole);
  for (int64_t i = 0; i < num_elements(shape); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) offset += index[d] * strides[d];
    std::copy_n(literal.data() + offset * item, item, bytes->data() + i * item);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  part.bytes = std::move(bytes);
  return part;
}

// Attributes that repeat sizes.
void fit_attributes(Graph& graph, Node& node, const std::vector<Shape>& before) {
  auto shape_before = [&](ValueId value) { return before[value.index]; };
  if (node.attrs.has("value") && node.def->has(kConstantLike)) {
    const Literal literal = node.attrs.get_literal("value");
    node.attrs.set("value", literal_attr(part_of(literal, graph.result_type(node).shape)));
  } else if (is<op::Slice>(node)) {
    const std::vector<int64_t> start = node.attrs.get_ints("start_indices");
    std::vector<int64_t> limit = node.attrs.get_ints("limit_indices");
    const Shape& result = graph.result_type(node).shape;
    for (size_t d = 0; d < limit.size(); ++d)
      if (result[d] != shape_before(node.results[0])[d]) limit[d] = start[d] + result[d];
    node.attrs.set("limit_indices", ints_attr(limit));
  } else if (node.attrs.has("slice_sizes")) {
    std::vector<int64_t> sizes = node.attrs.get_ints("slice_sizes");
    const Shape old_shape = shape_before(node.operands[0]);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == old_shape[d] && sizes[d] != 1)
        sizes[d] = graph.operand_type(node, 0).shape[d];
    node.attrs.set("slice_sizes", ints_attr(sizes));
  }
}

// The largest of 2, 3, 4 ... that keeps the parity of a size and is not larger.
int64_t shorter_axis(int64_t size) { return size <= 3 ? size : size % 2 == 0 ? 2 : 3; }

// Every list of axes in the layouts.
void for_each_axes(Program& program, const std::function<void(AxisList&)>& visit) {
  for (Layout& layout : program.layouts) {
    for (DimSpec& dim : layout.spec.dims) visit(dim.axes);
    visit(layout.spec.partial);
  }
}

// Where an axis is cut into sub-axes, from 1 to its size; empty if cuts do not nest.
std::vector<int64_t> cuts_of(Program& program, int axis) {
  std::set<int64_t> cuts{1, program.mesh->axes[axis].size};
  for_each_axes(program, [&](AxisList& axes) {
    for (const AxisRef& ref : axes)
      if (ref.axis == axis) cuts.insert({int64_t{ref.pre}, ref.next_pre()});
  });
  std::vector<int64_t> sorted(cuts.begin(), cuts.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] % sorted[i - 1] != 0) return {};
  return sorted;
}

// Every part between two cuts becomes shorter.
void shrink_mesh(Program& program, std::vector<std::string>& changes) {
  Mesh smaller = *program.mesh;
  smaller.device_ids.clear();
  std::vector<std::map<int64_t, int64_t>> new_cut(smaller.axes.size());
  for (size_t a = 0; a < smaller.axes.size(); ++a) {
    const std::vector<int64_t> cuts = cuts_of(program, static_cast<int>(a));
    if (cuts.empty()) return;
    int64_t size = 1;
    new_cut[a][1] = 1;
    for (size_t i = 1; i < cuts.size(); ++i)
      new_cut[a][cuts[i]] = size *= shorter_axis(cuts[i] / cuts[i - 1]);
    MeshAxis& axis = smaller.axes[a];
    if (size != axis.size)
      changes.push_back(fmt::format("{}: {} -> {}", axis.name, axis.size, size));
    axis.size = size;
  }
  const MeshPtr mesh = std::make_shared<const Mesh>(std::move(smaller));
  for_each_axes(program, [&](AxisList& axes) {
    for (AxisRef& ref : axes) {
      const int64_t begin = new_cut[ref.axis].at(ref.pre),
                    end = new_cut[ref.axis].at(ref.next_pre());
      ref.pre = static_cast<int32_t>(begin);
      ref.size = static_cast<int32_t>(end / begin);
    }
  });
  for (Layout& layout : program.layouts) {
    if (!layout.spec.mesh) continue;
    layout.spec.mesh = mesh;
    layout.spec.replicated.clear();
  }
  program.mesh = mesh;
  program.graph.meshes = {mesh};
}

bool has_halos(const Program& program) {
  return std::any_of(program.layouts.begin(), program.layouts.end(),
                     [](const Layout& layout) { return layout.boxes != nullptr; });
}

}  // namespace

Shrunk shrink(const Program& program, const ShrinkOptions& options) {
  Shrunk result{program, {}};
  if (has_manual_parts(program.graph)) return result;
  if (program.mesh->num_devices() > options.most_devices && !has_halos(program))
    shrink_mesh(result.program, result.changes);
  Sizes sizes(result.program);
  sizes.run(options.least);
  Graph& graph = result.program.graph;
  std::vector<Shape> before(graph.num_values());
  std::map<std::pair<int64_t, int64_t>, int> counts;
  for (uint32_t v = 0; v < graph.num_values(); ++v) {
    Type& type = graph.value({v}).type;
    before[v] = type.shape;
    if (!is_ranked(type)) continue;
    type.shape = sizes.new_shape({v});
    for (size_t d = 0; d < type.shape.size(); ++d)
      if (type.shape[d] != before[v][d]) ++counts[{before[v][d], type.shape[d]}];
  }
  graph.walk([&](NodeId id) { fit_attributes(graph, graph.node(id), before); });
  for (Function& function : graph.functions) {
    if (!function.body.valid()) continue;
    const std::vector<ValueId>& args = graph.region(function.body).args;
    for (size_t i = 0; i < args.size(); ++i) function.arg_types[i] = graph.type(args[i]);
    const Node& end = graph.node(graph.terminator(function.body));
    for (size_t i = 0; i < end.operands.size(); ++i)
      function.result_types[i] = graph.operand_type(end, i);
  }
  for (auto it = counts.rbegin(); it != counts.rend(); ++it)
    result.changes.push_back(fmt::format("{} -> {} ({} dimension{})", it->first.first,
                                         it->first.second, it->second, it->second > 1 ? "s" : ""));
  return result;
}

Graph without_transfers(const Program& program) {
  Graph graph = program.graph;
  std::vector<ValueId> same(graph.num_values());
  for (uint32_t v = 0; v < same.size(); ++v) same[v] = {v};
  for (uint32_t v = 0; v < same.size(); ++v) {
    ValueId at{v};
    while (true) {
      const NodeId id = graph.value(at).producer;
      if (!id.valid() || !is_transfer(graph.node(id))) break;
      at = graph.node(id).operands[0];
    }
    same[v] = at;
  }
  std::vector<NodeId> gone;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (is_transfer(node)) gone.push_back(id);
    for (ValueId& operand : node.operands) operand = same[operand.index];
  });
  for (NodeId id : gone) graph.remove(id);
  for (Function& function : graph.functions) {
    for (AttrDict& attrs : function.arg_attrs) attrs.erase("sdy.sharding");
    for (AttrDict& attrs : function.result_attrs) attrs.erase("sdy.sharding");
  }
  return graph;
}

}  // namespace cleave::plan
