#include "cleave/plan/annotations.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/graph/location.h"
#include "cleave/graph/value_sharding.h"

namespace cleave::plan {
namespace {

constexpr size_t kLongestLocation = 100;

bool fixes_something(const ShardingSpec& spec) {
  if (!spec.replicated.empty() || !spec.partial.empty()) return true;
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSpec& dim) { return !dim.open || !dim.axes.empty(); });
}

std::string place_of(const Node& node) {
  const std::string line = source_line(node.location);
  if (line.empty()) return node.name();
  return "at " + line.substr(0, kLongestLocation) + (line.size() > kLongestLocation ? "..." : "");
}

}  // namespace

std::string result_name(size_t index) { return fmt::format("return#{}", index); }

std::vector<Annotation> annotations_of(const Graph& flat, const Names& names,
                                       const std::string& entry, const Mesh& mesh) {
  std::vector<Annotation> list;
  auto add = [&](const ShardingSpec* spec, const Type& type, std::string name,
                 const std::string& of) {
    if (!spec || !spec->mesh || spec->mesh->axes != mesh.axes || !fixes_something(*spec)) return;
    list.push_back(
        {std::move(name), *spec, type, fmt::format("annotation {} of {}", to_string(*spec), of)});
  };
  const Function& function = *flat.find_function(entry);
  const std::vector<ValueId>& args = flat.region(function.body).args;
  for (size_t i = 0; i < args.size() && i < function.arg_attrs.size(); ++i) {
    const std::string& name = names.values[args[i].index];
    add(sharding_in(function.arg_attrs[i]), flat.type(args[i]), name,
        fmt::format("{} (argument {} of @{})", name, i, function.name));
  }
  flat.walk(function.body, [&](NodeId id) {
    const Node& node = flat.node(id);
    const std::string_view own = own_sharding_attr(node);
    const std::vector<ShardingSpec> specs = get_shardings(node, own.empty() ? kShardingAttr : own);
    for (size_t i = 0; i < specs.size() && i < node.results.size(); ++i) {
      const std::string& name = names.values[node.results[i].index];
      if (name.empty()) continue;
      add(&specs[i], flat.type(node.results[i]), name,
          fmt::format("{} ({})", name, place_of(node)));
    }
  });
  const Node& end = flat.node(flat.terminator(function.body));
  for (size_t i = 0; i < end.operands.size() && i < function.result_attrs.size(); ++i)
    add(sharding_in(function.result_attrs[i]), flat.operand_type(end, i), result_name(i),
        fmt::format("{} (result {} of @{})", names.values[end.operands[i].index], i,
                    function.name));
  return list;
}

}  // namespace cleave::plan
