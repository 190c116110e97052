#include "cleave/ops/sort/comparator.h"

#include <cmath>

#include "cleave/kernels/elementwise.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/literal_array.h"

namespace cleave {
namespace {

using Part = ComparatorKey::Part;

// One side of a comparison: an argument of the region and what happened to it.
struct Side {
  size_t arg = 0;
  Part part = Part::Whole;
  bool merge_zeros = false, merge_nans = false;
};

class Matcher {
 public:
  Matcher(const Graph& graph, RegionId region) : graph_(graph), region_(region) {}

  // The value says whether the first tuple comes before the second.
  std::optional<std::vector<ComparatorKey>> before(ValueId value) const {
    if (const auto key = comparison(value, {"LT", "GT"})) return std::vector{*key};
    // or(less on the first key, and(equal on it, less on the others)), in any order of operands
    const Node* either = producer(value, "stablehlo.or");
    if (!either) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const auto first = comparison(either->operands[i], {"LT", "GT"});
      const Node* both = producer(either->operands[1 - i], "stablehlo.and");
      if (!first || !both) continue;
      for (size_t j = 0; j < 2; ++j) {
        const auto equal = comparison(both->operands[j], {"EQ"});
        if (!equal || !(*equal == *first)) continue;
        auto rest = before(both->operands[1 - j]);
        if (!rest) continue;
        rest->insert(rest->begin(), *first);
        return rest;
      }
    }
    return std::nullopt;
  }

 private:
  const Node* producer(ValueId value, std::string_view op) const {
    const NodeId id = graph_.value(behind_identities(graph_, value)).producer;
    if (!id.valid()) return nullptr;
    const Node& node = graph_.node(id);
    return node.name() == op && node.parent == region_ ? &node : nullptr;
  }

  std::string_view direction(const Node& compare) const {
    return compare.attrs.get_string("comparison_direction");
  }

  std::optional<ComparatorKey> comparison(
      ValueId value, std::initializer_list<std::string_view> directions) const {
    const Node* node = producer(value, "stablehlo.compare");
    if (!node) return std::nullopt;
    const std::string_view wanted = direction(*node);
    bool fits = false;
    for (std::string_view d : directions) fits |= d == wanted;
    const auto left = side(node->operands[0]), right = side(node->operands[1]);
    if (!fits || !left || !right || left->arg / 2 != right->arg / 2 || left->arg == right->arg ||
        left->part != right->part || left->merge_zeros != right->merge_zeros ||
        left->merge_nans != right->merge_nans)
      return std::nullopt;
    ComparatorKey key;
    key.operand = left->arg / 2;
    key.part = left->part;
    key.total_order =
        node->attrs.has("compare_type") && node->attrs.get_string("compare_type") == "TOTALORDER";
    const bool swapped = left->arg > right->arg;
    key.order = {(wanted == "GT") != swapped, left->merge_zeros, left->merge_nans};
    return key;
  }

  std::optional<Side> side(ValueId value) const {
    value = behind_identities(graph_, value);
    const Value& v = graph_.value(value);
    if (!v.producer.valid()) {
      if (v.region != region_) return std::nullopt;
      return Side{v.index};
    }
    for (auto [op, part] :
         {std::pair{"stablehlo.real", Part::Real}, {"stablehlo.imag", Part::Imag}})
      if (const Node* node = producer(value, op)) {
        auto inner = side(node->operands[0]);
        if (!inner || inner->part != Part::Whole || inner->merge_zeros || inner->merge_nans)
          return std::nullopt;
        inner->part = part;
        return inner;
      }
    // select(x == 0, 0, x) and select(x != x, NaN, x)
    const Node* node = producer(value, "stablehlo.select");
    if (!node) return std::nullopt;
    const Node* test = producer(node->operands[0], "stablehlo.compare");
    auto inner = side(node->operands[2]);
    const auto fixed = constant(node->operands[1]);
    if (!test || !inner || !fixed) return std::nullopt;
    const auto tested = side(test->operands[0]);
    if (!tested || tested->arg != inner->arg || tested->part != inner->part) return std::nullopt;
    if (direction(*test) == "EQ" && constant(test->operands[1]) == 0.0 && *fixed == 0.0) {
      inner->merge_zeros = true;
      return inner;
    }
    if (direction(*test) == "NE" && test->operands[0] == test->operands[1] && std::isnan(*fixed) &&
        !std::signbit(*fixed)) {
      inner->merge_nans = true;
      return inner;
    }
    return std::nullopt;
  }

  // The value of a scalar constant of a float type.
  std::optional<double> constant(ValueId value) const {
    const Node* node = producer(value, "stablehlo.constant");
    const Attribute* attribute = node ? node->attrs.find("value") : nullptr;
    const ElementsAttr* elements = attribute ? attribute->as<ElementsAttr>() : nullptr;
    if (!elements || !is_float(elements->literal.type.dtype) ||
        !has_kernels(elements->literal.type.dtype) || elements->literal.num_elements() != 1)
      return std::nullopt;
    return *convert(array_of(elements->literal).contiguous(), DType::F64).data<double>();
  }

  const Graph& graph_;
  RegionId region_;
};

}  // namespace

std::optional<std::vector<ComparatorKey>> recognise_comparator(const Graph& graph,
                                                               RegionId region) {
  const Region& body = graph.region(region);
  if (body.nodes.empty()) return std::nullopt;
  const Node& terminator = graph.node(body.nodes.back());
  if (terminator.operands.size() != 1) return std::nullopt;
  return Matcher(graph, region).before(terminator.operands[0]);
}

}  // namespace cleave
