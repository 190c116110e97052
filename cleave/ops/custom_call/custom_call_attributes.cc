#include <algorithm>
#include <numeric>

#include "cleave/ops/custom_call/custom_call_check.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

const ArrayAttr* list_attr(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  if (!attribute) return nullptr;
  const auto* list = attribute->as<ArrayAttr>();
  require(list, node, "'{}' must be a list", name);
  return list;
}

// A layout is a permutation of a tensor's dimensions; a token has an empty one.
void verify_layouts(const Node& node, const std::vector<Type>& types, const ArrayAttr& layouts,
                    const char* what) {
  require(types.size() == layouts.elements.size(), node, "{} {}_layouts for {} {}s",
          layouts.elements.size(), what, types.size(), what);
  for (size_t i = 0; i < types.size(); ++i) {
    AttrDict one;
    one.set("layout", layouts.elements[i]);
    std::vector<int64_t> order = one.get_ints("layout");
    const std::string text = ints_text(order);
    require(types[i].kind != Type::Kind::Tuple, node, "{} {} is a tuple, which has no layout", what,
            i);
    if (types[i].unranked) continue;
    std::vector<int64_t> all(types[i].is_tensor() ? types[i].rank() : 0);
    std::iota(all.begin(), all.end(), 0);
    std::sort(order.begin(), order.end());
    require(order == all, node, "the layout {} of {} {} is no permutation of the dimensions of {}",
            text, what, i, to_string(types[i]));
  }
}

const Type& part_of(const Node& node, const Type& whole, const std::vector<int64_t>& path,
                    const char* what) {
  const Type* part = &whole;
  for (int64_t i : path) {
    require(part->kind == Type::Kind::Tuple && i >= 0 &&
                i < static_cast<int64_t>(part->elements.size()),
            node, "an output_operand_alias with {} {} for {}", what, ints_text(path),
            to_string(whole));
    part = &part->elements[static_cast<size_t>(i)];
  }
  return *part;
}

void verify_aliases(const Node& node, const std::vector<Type>& operands,
                    const std::vector<Type>& results) {
  const ArrayAttr* aliases = list_attr(node, "output_operand_aliases");
  if (!aliases) return;
  for (const Attribute& element : aliases->elements) {
    const auto* alias = element.as<StructAttr>();
    require(alias, node, "'output_operand_aliases' has an element that is no alias");
    const int64_t index = alias->get_int("operand_index", -1);
    require(index >= 0 && index < static_cast<int64_t>(operands.size()), node,
            "an output_operand_alias of operand {}, and there are {}", index, operands.size());
    require(!results.empty(), node, "an output_operand_alias, and there are no results");
    Type output = results[0];
    if (results.size() > 1) {
      output = Type();
      output.kind = Type::Kind::Tuple;
      output.elements = results;
    }
    const Type& in =
        part_of(node, operands[static_cast<size_t>(index)],
                alias->get_ints_or_empty("operand_tuple_indices"), "operand_tuple_indices");
    const Type& out = part_of(node, output, alias->get_ints_or_empty("output_tuple_indices"),
                              "output_tuple_indices");
    require(in == out, node, "an output_operand_alias of {} with {}", to_string(in),
            to_string(out));
  }
}

}  // namespace

void verify_call_attributes(const Graph& graph, const Node& node) {
  std::vector<Type> operands, results;
  for (ValueId value : node.operands) operands.push_back(graph.type(value));
  for (ValueId value : node.results) results.push_back(graph.type(value));
  const ArrayAttr* in = list_attr(node, "operand_layouts");
  const ArrayAttr* out = list_attr(node, "result_layouts");
  require(!in == !out, node, "operand_layouts and result_layouts go together; one is missing");
  if (in) {
    verify_layouts(node, operands, *in, "operand");
    const bool packed = results.size() == 1 && results[0].kind == Type::Kind::Tuple;
    verify_layouts(node, packed ? results[0].elements : results, *out, "result");
  }
  verify_aliases(node, operands, results);
  const Attribute* config = node.attrs.find("backend_config");
  const Attribute* version = node.attrs.find("api_version");
  if (!config || (version && !version->as<IntegerAttr>())) return;
  const int64_t api = version ? version->as<IntegerAttr>()->value : 1;
  constexpr int64_t kTypedForeignFunction = 4;
  require(api == kTypedForeignFunction ? config->as<DictAttr>() != nullptr
                                       : config->as<StringAttr>() != nullptr,
          node, "backend_config must be a {} with api_version {}",
          api == kTypedForeignFunction ? "dictionary" : "string", api);
}

}  // namespace cleave
