#include "cleave/graph/verify_tables.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "cleave/core/error.h"

namespace cleave {
namespace {

class TableCheck {
 public:
  explicit TableCheck(const Graph& graph)
      : graph_(graph), seen_nodes_(graph.num_nodes()), seen_regions_(graph.num_regions()) {}

  void run() {
    for (const Function& function : graph_.functions) {
      function_ = &function;
      for (const std::vector<Type>* types : {&function.arg_types, &function.result_types})
        for (const Type& type : *types) check_sizes(type, "a type of the signature");
      if (!function.body.valid()) continue;
      visit_later(function.body, NodeId{}, function.name);
      if (graph_.region(function.body).nodes.empty())
        throw_user("the body of @{} is empty; it needs a terminator", function.name);
      while (!regions_.empty()) {
        const RegionId region = regions_.back();
        regions_.pop_back();
        visit(region);
      }
    }
  }

 private:
  // `what` is of the op `of`.
  template <typename Tag>
  void require_in(Id<Tag> id, size_t count, std::string_view what, std::string_view of) const {
    if (id.index >= count)
      throw_user("function @{}: {} of {} is {}, and the graph has {}", function_->name, what, of,
                 id.valid() ? "number " + std::to_string(id.index) : "nothing", count);
  }

  void visit_later(RegionId region, NodeId owner, std::string_view of) {
    require_in(region, graph_.num_regions(), "a region", of);
    if (seen_regions_[region.index])
      throw_user("function @{}: a region of {} stands elsewhere too", function_->name, of);
    seen_regions_[region.index] = true;
    if (graph_.region(region).owner != owner)
      throw_user("function @{}: a region of {} says that it belongs to another op", function_->name,
                 of);
    regions_.push_back(region);
  }

  void visit(RegionId id) {
    const Region& region = graph_.region(id);
    for (uint32_t i = 0; i < region.args.size(); ++i) {
      require_in(region.args[i], graph_.num_values(), "an argument", "a region");
      const Value& value = graph_.value(region.args[i]);
      if (value.producer.valid() || value.region != id || value.index != i)
        throw_user("function @{}: argument {} of a region is defined elsewhere", function_->name,
                   i);
      check_sizes(value.type, "an argument of a region");
    }
    for (NodeId node : region.nodes) {
      require_in(node, graph_.num_nodes(), "an op", "a region");
      if (seen_nodes_[node.index])
        throw_user("function @{}: {} stands in two places", function_->name,
                   graph_.node(node).name());
      seen_nodes_[node.index] = true;
      visit(node);
    }
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.def) throw_user("function @{}: an op has no definition", function_->name);
    for (ValueId operand : node.operands)
      require_in(operand, graph_.num_values(), "an operand", node.name());
    for (uint32_t i = 0; i < node.results.size(); ++i) {
      require_in(node.results[i], graph_.num_values(), "a result", node.name());
      const Value& value = graph_.value(node.results[i]);
      if (value.producer != id || value.index != i)
        throw_user("function @{}: result {} of {} is defined elsewhere", function_->name, i,
                   node.name());
      check_sizes(value.type, node.name());
    }
    for (RegionId region : node.regions) visit_later(region, id, node.name());
    for (const NamedAttribute& entry : node.attrs.entries())
      if (const auto* elements = entry.value.as<ElementsAttr>())
        check_literal(elements->literal, node.name(), entry.name);
  }

  void check_literal(const Literal& literal, std::string_view op, std::string_view name) const {
    const Type& type = literal.type;
    check_sizes(type, op);
    if (!literal.bytes) {
      if (!literal.resource.empty()) return;  // kept elsewhere
      throw_user("function @{}: '{}' of {} has no elements", function_->name, name, op);
    }
    if (!type.is_tensor() || type.dtype == DType::Other || !type.has_static_shape()) return;
    const auto size = static_cast<uint64_t>(byte_size(type.dtype));
    if (size == 0) return;
    const uint64_t count = literal.splat ? 1 : static_cast<uint64_t>(literal.num_elements());
    if (literal.bytes->size() / size != count || literal.bytes->size() % size != 0)
      throw_user("function @{}: '{}' of {} holds {} bytes, and {} elements of {} take {} each",
                 function_->name, name, op, literal.bytes->size(), count, cleave::name(type.dtype),
                 size);
  }

  void check_sizes(const Type& type, std::string_view what) const {
    if (!type.is_tensor()) return;
    const bool good = std::all_of(type.shape.begin(), type.shape.end(),
                                  [](int64_t size) { return size >= 0 || size == kDynamicSize; });
    if (!good)
      throw_user("function @{}: {}: {} has a negative size", function_->name, what,
                 to_string(type));
  }

  const Graph& graph_;
  const Function* function_ = nullptr;
  std::vector<bool> seen_nodes_, seen_regions_;
  std::vector<RegionId> regions_;  // to be visited
};

}  // namespace

void verify_tables(const Graph& graph) { TableCheck(graph).run(); }

}  // namespace cleave
