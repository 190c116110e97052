#include "cleave/spmd/local_forms.h"

#include <algorithm>

#include "cleave/graph/cloner.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// Attributes that may differ between devices: each is read from a table.
bool same_but_for_tables(const Node& a, const Node& b) {
  if (a.attrs == b.attrs) return true;
  if (is<op::Constant>(a)) return true;  // types of results are compared
  if (!is<op::Slice>(a)) return false;
  AttrDict rest_a = a.attrs, rest_b = b.attrs;
  for (const char* name : {"start_indices", "limit_indices"}) {
    rest_a.erase(name);
    rest_b.erase(name);
  }
  return rest_a == rest_b;
}

bool are_alike(const Graph& a, const Graph& b) {
  if (a.num_nodes() != b.num_nodes() || a.num_values() != b.num_values() ||
      a.num_regions() != b.num_regions())
    return false;
  for (uint32_t i = 0; i < a.num_values(); ++i)
    if (a.type({i}) != b.type({i})) return false;
  for (uint32_t i = 0; i < a.num_nodes(); ++i) {
    const Node &x = a.node({i}), &y = b.node({i});
    if (x.def != y.def || x.operands != y.operands || x.results != y.results ||
        x.regions != y.regions || !same_but_for_tables(x, y))
      return false;
  }
  return true;
}

// A slice that begins elsewhere on each device. With strides, all that it spans is taken first.
ValueId own_slice(const Graph& graph, const Node& slice, ValueId operand,
                  const std::vector<ByDevice>& starts, OwnValues& own) {
  const Shape& size = graph.result_type(slice).shape;
  const std::vector<int64_t> strides = slice.attrs.get_ints("strides");
  Shape span = size;
  for (size_t d = 0; d < span.size(); ++d)
    span[d] = size[d] == 0 ? 0 : (size[d] - 1) * strides[d] + 1;
  const ValueId window = own.window(operand, starts, span);
  if (span == size) return window;
  AttrDict attrs;
  attrs.set("start_indices", ints_attr(Shape(span.size())));
  attrs.set("limit_indices", ints_attr(span));
  attrs.set("strides", ints_attr(strides));
  return own.builder().emit("stablehlo.slice", {window}, std::move(attrs));
}

}  // namespace

bool are_alike(const LocalForm& a, const LocalForm& b) {
  return a.results == b.results && are_alike(a.graph, b.graph);
}

std::vector<ValueId> write_group(const FormGroup& group, std::span<const ValueId> inputs,
                                 OwnValues& own) {
  const LocalForm& first = *group.forms[0];
  const RegionId target = own.region();
  ValueMap values(first.graph.num_values());
  Cloner clone(first.graph, own.graph(), &values);
  clone.map(first.graph.region(first.body).args, inputs);
  clone.rewrite = [&](NodeId id, RegionId to) {
    const Node& node = first.graph.node(id);
    const bool differs = std::ranges::any_of(
        group.forms, [&](const LocalForm* f) { return f->graph.node(id).attrs != node.attrs; });
    if (!differs) return false;
    own.in(to);
    ValueId result;
    if (is<op::Constant>(node)) {
      std::vector<Literal> literals;
      for (int64_t form : group.form_of)
        literals.push_back(
            group.forms[static_cast<size_t>(form)]->graph.node(id).attrs.get_literal("value"));
      result = own.literal(literals);
    } else {
      std::vector<ByDevice> starts(first.graph.result_type(node).rank());
      for (int64_t form : group.form_of) {
        const std::vector<int64_t> start =
            group.forms[static_cast<size_t>(form)]->graph.node(id).attrs.get_ints("start_indices");
        for (size_t d = 0; d < starts.size(); ++d) starts[d].push_back(start[d]);
      }
      result = own_slice(first.graph, node, clone.mapped(node.operands[0]), starts, own);
    }
    clone.map(node.results[0], result);
    own.in(target);
    return true;
  };
  for (NodeId id : first.graph.region(first.body).nodes) clone.node(id, target);
  return clone.mapped(first.results);
}

}  // namespace cleave
