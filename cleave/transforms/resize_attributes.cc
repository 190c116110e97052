#include "cleave/transforms/resize_attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/ops/op_table.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/runtime/form_util.h"

namespace cleave {
namespace {

[[noreturn]] void refuse_number(const Node& node, std::string_view attribute,
                                const std::vector<int64_t>& numbers, size_t dim, int64_t before,
                                int64_t after) {
  throw_user(
      "{}: {} = [{}] is a number that may come from the size {} of dimension {}, which is {} now; "
      "trace the function again",
      node.name(), attribute, fmt::join(numbers, ", "), before, dim, after);
}

void resize_slice(const Graph& before, const Node& node, Graph& after, NodeId id) {
  const Shape& was = before.operand_type(node, 0).shape;
  const Shape is = after.operand_type(node, 0).shape;
  const auto start = node.attrs.get_ints("start_indices"), step = node.attrs.get_ints("strides");
  const auto limit = node.attrs.get_ints("limit_indices");
  std::vector<int64_t> next = limit;
  for (size_t d = 0; d < was.size(); ++d) {
    if (was[d] == is[d]) continue;
    const bool first = start[d] == 0 && limit[d] <= 1;
    if (!first && (start[d] != 0 || step[d] != 1 || limit[d] != was[d]))
      refuse_number(node, "limit_indices", limit, d, was[d], is[d]);
    if (!first) next[d] = is[d];
  }
  after.node(id).attrs.set("limit_indices", ints_attr(std::move(next)));
}

// Slices of all of a dimension, or of one element of it.
void resize_slice_sizes(const Graph& before, const Node& node, Graph& after, NodeId id) {
  const Shape& was = before.operand_type(node, 0).shape;
  const Shape is = after.operand_type(node, 0).shape;
  const std::vector<int64_t> sizes = node.attrs.get_ints("slice_sizes");
  std::vector<int64_t> next = sizes;
  for (size_t d = 0; d < was.size(); ++d) {
    if (was[d] == is[d] || sizes[d] == 1) continue;
    if (sizes[d] != was[d]) refuse_number(node, "slice_sizes", sizes, d, was[d], is[d]);
    next[d] = is[d];
  }
  after.node(id).attrs.set("slice_sizes", ints_attr(std::move(next)));
}

// A window over all that came before: a running sum.
void resize_window(const Graph& before, const Node& node, Graph& after, NodeId id) {
  const Shape& was = before.operand_type(node, 0).shape;
  const Shape is = after.operand_type(node, 0).shape;
  std::vector<int64_t> window = node.attrs.get_ints("window_dimensions");
  std::vector<int64_t> padding = node.attrs.get_ints_or_empty("padding");
  if (padding.empty()) padding.resize(2 * was.size());
  for (size_t d = 0; d < was.size(); ++d) {
    if (was[d] == is[d] || window[d] == 1) continue;
    const bool running = window[d] == was[d] && padding[2 * d] + padding[2 * d + 1] == was[d] - 1;
    if (!running && window[d] == was[d])
      refuse_number(node, "window_dimensions", window, d, was[d], is[d]);
    if (!running) continue;
    window[d] = is[d];
    for (size_t side : {2 * d, 2 * d + 1})
      if (padding[side] == was[d] - 1) padding[side] = is[d] - 1;
  }
  after.node(id).attrs.set("window_dimensions", ints_attr(std::move(window)));
  after.node(id).attrs.set("padding", pairs_attr(padding));
}

void resize_broadcast(const Graph&, const Node& node, Graph& after, NodeId id) {
  const Shape& shape = after.result_type(node).shape;
  const size_t more = shape.size() - after.operand_type(node, 0).rank();
  after.node(id).attrs.set(
      "broadcast_sizes", ints_attr({shape.begin(), shape.begin() + static_cast<ptrdiff_t>(more)}));
}

void resize_constant(const Graph&, const Node& node, Graph& after, NodeId id) {
  Literal literal = *splat_of(node.attrs.get_literal("value"));
  literal.type = after.result_type(node);
  literal.splat = true;
  after.node(id).attrs.set("value", literal_attr(std::move(literal)));
}

const Node* producer(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.valid() ? &graph.node(id) : nullptr;
}
// The constant that a value is a copy of, in another shape.
const Node* constant_behind(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  while (node && (node->def->has(kRepeats) || node->def->has(kRelabels)))
    node = producer(graph, node->operands[0]);
  return node && is<op::Constant>(*node) ? node : nullptr;
}

Shape sizes_of(const Graph& graph, const Node& reduce) {
  Shape sizes;
  for (int64_t d : reduce.attrs.get_ints("dimensions"))
    sizes.push_back(graph.operand_type(reduce, 0).shape[static_cast<size_t>(d)]);
  return sizes;
}

// What each list of sizes that a sum goes over, and each size of any value, has become. Several
// answers: some dimensions of that size have another one now, and others do not.
struct NewSizes {
  std::map<Shape, std::set<Shape>> of_sums;
  std::map<int64_t, std::set<int64_t>> of_dims;

  NewSizes(const Graph& before, const Graph& after) {
    auto add = [&](ValueId value) {
      const Shape &was = before.type(value).shape, &is = after.type(value).shape;
      for (size_t d = 0; d < was.size(); ++d) of_dims[was[d]].insert(is[d]);
    };
    for (ValueId arg : before.region(before.functions[0].body).args) add(arg);
    before.walk(before.functions[0].body, [&](NodeId id) {
      const Node& node = before.node(id);
      for (ValueId result : node.results) add(result);
      if (is<op::Reduce>(node)) of_sums[sizes_of(before, node)].insert(sizes_of(after, node));
    });
  }

  // The list of sizes now. Throws UserError if that is not certain.
  Shape now(const Shape& sizes) const {
    const auto sums = of_sums.find(sizes);
    if (sums != of_sums.end() && sums->second.size() == 1) return *sums->second.begin();
    Shape result;
    for (int64_t size : sizes) {
      const auto dims = of_dims.find(size);
      if (dims == of_dims.end()) {
        result.push_back(size);
        continue;
      }
      if (dims->second.size() > 1)
        throw_user(
            "stablehlo.constant: a count of elements comes from the size {}, and of the dimensions "
            "that had this size some have {} now and others {}; trace the function again",
            size, *dims->second.begin(), *dims->second.rbegin());
      result.push_back(*dims->second.begin());
    }
    return result;
  }
};

int64_t product(const Shape& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

}  // namespace

void check_constant(const Node& constant, size_t dim, int64_t size) {
  const Literal& literal = constant.attrs.get_literal("value");
  if (literal.splat || splat_of(literal)) return;
  throw_user(
      "stablehlo.constant: dimension {} of a constant {} with values of its own would have to be "
      "{}; make it an argument, or trace the function again",
      dim, to_string(literal.type), size);
}

void resize_attributes(const Graph& before, const Node& node, Graph& after, NodeId id) {
  using Resize = void (*)(const Graph&, const Node&, Graph&, NodeId);
  static const auto table = OpTable<Resize>()
                                .set<op::Slice>(resize_slice)
                                .set<op::DynamicSlice, op::Gather>(resize_slice_sizes)
                                .set<op::ReduceWindow>(resize_window)
                                .set<op::Broadcast>(resize_broadcast)
                                .set<op::Constant>(resize_constant);
  if (const Resize* resize = table.find(node)) (*resize)(before, node, after, id);
}

void count_anew(const Graph& before, Graph& after) {
  const NewSizes sizes(before, after);
  std::set<int64_t> counts;  // of sums that add up another number of elements now
  for (const auto& [was, all] : sizes.of_sums)
    for (const Shape& is : all)
      if (product(was) != product(is)) counts.insert(product(was));
  std::vector<NodeId> marked;
  before.walk(before.functions[0].body, [&](NodeId id) {
    const Node& node = before.node(id);
    if (is<op::Constant>(node) && node.attrs.has(kSizes)) marked.push_back(id);
    const bool divides = is<op::Divide>(node);
    if (!divides && !is<op::Multiply>(node)) return;
    for (size_t i = divides ? 1 : 0; i < 2; ++i) {
      const Node* constant = constant_behind(before, node.operands[i]);
      if (!constant || constant->attrs.has(kSizes)) continue;
      const auto value = splat_value(constant->attrs.get_literal("value"));
      for (int64_t count : counts) {
        const double wanted = divides ? static_cast<double>(count) : 1 / static_cast<double>(count);
        if (!value || count < 3 || std::abs(*value - wanted) > 1e-6 * wanted) continue;
        throw_user(
            "{} by the constant {}: stablehlo.reduce adds up {} elements, and their number "
            "changes; divide by what mean does, or trace the function again",
            node.name(), *value, count);
      }
    }
  });
  for (NodeId id : marked) {
    const Node& node = before.node(id);
    auto count = static_cast<double>(product(sizes.now(node.attrs.get_ints(kSizes))));
    if (const Attribute* less = node.attrs.find(kSizesLess)) count -= less->as<FloatAttr>()->value;
    after.node(id).attrs.set("value", literal_attr(splat_literal(after.result_type(node), count)));
  }
}

}  // namespace cleave
