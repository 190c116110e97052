#include "cleave/ops/collective/collective_check.h"

#include <algorithm>

#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// Throws unless the attribute is a matrix of integers. Null if it is absent, or names the axes of a
// mesh instead.
const ElementsAttr* id_matrix(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  if (!attribute || attribute->as<StructAttr>() || attribute->as<OpaqueAttr>()) return nullptr;
  const auto* elements = attribute->as<ElementsAttr>();
  require(elements && is_integer(elements->literal.type.dtype), node,
          "'{}' is no matrix of integers", name);
  require(elements->literal.type.rank() == 2, node, "'{}' must be a matrix, got {}", name,
          to_string(elements->literal.type));
  return elements;
}

// The first number that is there twice.
std::optional<int64_t> repeated(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  const auto at = std::adjacent_find(ids.begin(), ids.end());
  return at == ids.end() ? std::nullopt : std::optional(*at);
}

bool has_global_ids(const Node& node) {
  return node.attrs.has("use_global_device_ids") &&
         node.attrs.get_bool("use_global_device_ids", true);
}

}  // namespace

void verify_groups(const Node& node, const GroupsCheck& check) {
  require(!has_global_ids(node) || channel_of(node) >= check.least_channel, node,
          "use_global_device_ids needs a channel of {} or more, got {}", check.least_channel,
          channel_of(node));
  const ElementsAttr* groups = id_matrix(node, "replica_groups");
  if (!groups) return;
  const Shape& shape = groups->literal.type.shape;
  std::vector<int64_t> ids = node.attrs.get_ints("replica_groups");
  require(!has_global_ids(node) || !ids.empty(), node,
          "use_global_device_ids needs replica_groups, which are empty");
  if (check.size)
    require(shape[0] > 0 && shape[1] == *check.size, node,
            "replica_groups is a {}, and each group must have {} devices",
            to_string(groups->literal.type), *check.size);
  if (!check.filled) std::erase(ids, -1);
  for (int64_t id : ids)
    require(id >= 0, node, "replica_groups {} has the id {}", ints_text(ids), id);
  if (const auto twice = repeated(ids))
    fail(node, "replica_groups {} names {} twice", ints_text(ids), *twice);
  if (!check.every_id || ids.empty()) return;
  const auto count = static_cast<int64_t>(ids.size());
  require(*std::max_element(ids.begin(), ids.end()) == count - 1, node,
          "replica_groups {} must name each of 0 to {} once", ints_text(ids), count - 1);
}

void verify_pairs(const Node& node) {
  const ElementsAttr* pairs = id_matrix(node, "source_target_pairs");
  if (!pairs) return;
  const Shape& shape = pairs->literal.type.shape;
  require(shape[1] == 2 || shape[0] == 0, node,
          "source_target_pairs must be an n x 2 matrix, got {}", to_string(pairs->literal.type));
  const std::vector<int64_t> ids = node.attrs.get_ints("source_target_pairs");
  std::vector<int64_t> ends[2];
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0, node, "source_target_pairs {} has the id {}", ints_text(ids), ids[i]);
    ends[i % 2].push_back(ids[i]);
  }
  if (const auto twice = repeated(ends[0]))
    fail(node, "source_target_pairs {} has two pairs with the source {}", ints_text(ids), *twice);
  if (const auto twice = repeated(ends[1]))
    fail(node, "source_target_pairs {} has two pairs with the target {}", ints_text(ids), *twice);
}

void verify_last_operand_is_token(const Graph& graph, const Node& node) {
  require(!node.operands.empty() &&
              graph.operand_type(node, node.operands.size() - 1).kind == Type::Kind::Token,
          node, "the last operand must be a token, got ({})", operand_types_text(graph, node));
}

void verify_tensors_and_token(const Graph& graph, const Node& node) {
  verify_last_operand_is_token(graph, node);
  require(!node.results.empty(), node, "has no result; the last one is a token");
  for (size_t i = 0; i + 1 < node.results.size(); ++i) declared_result(graph, node, i);
  const Type& last = graph.result_type(node, node.results.size() - 1);
  require(last.kind == Type::Kind::Token, node, "the last result must be a token, got {}",
          to_string(last));
}

void verify_channel_type(const Node& node, int64_t host_type) {
  const Attribute* attribute = node.attrs.find("channel_handle");
  const auto* handle = attribute ? attribute->as<StructAttr>() : nullptr;
  if (!handle) return;
  const bool host = node.attrs.get_bool("is_host_transfer", false);
  const int64_t type = handle->get_int("type", 0), expected = host ? host_type : 1;
  require(type == expected, node, "a channel {} has the type {}, got {}",
          host ? "to or from the host" : "between devices", expected, type);
}

void verify_infeed_layout(const Node& node) {
  const Attribute* attribute = node.attrs.find("layout");
  if (!attribute) return;
  const auto* layouts = attribute->as<ArrayAttr>();
  require(layouts, node, "'layout' must be a list");
  require(layouts->elements.size() + 1 == node.results.size(), node,
          "{} layouts for {} results beside the token", layouts->elements.size(),
          node.results.size() - 1);
  for (const Attribute& element : layouts->elements) {
    const auto* order = element.as<ArrayAttr>();
    require(order, node, "'layout' must have a list of integers for each result");
    for (const Attribute& dim : order->elements)
      require(dim.as<IntegerAttr>(), node, "'layout' must have a list of integers for each result");
  }
}

}  // namespace cleave
