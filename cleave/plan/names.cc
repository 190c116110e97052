#include "cleave/plan/names.h"

#include <fmt/core.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::plan {
namespace {

std::string_view kind_of(const Node& node) {
  const std::string_view name = node.name();
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

class Namer {
 public:
  Namer(const Graph& graph, Names& names) : graph_(graph), names_(names) {
    names_.values.resize(graph.num_values());
    names_.nodes.resize(graph.num_nodes());
    names_.value_of.reserve(graph.num_values());
    names_.node_of.reserve(graph.num_nodes());
  }

  void region(RegionId id, const std::string& prefix) {
    const Region& region = graph_.region(id);
    std::unordered_map<std::string, int> count;
    for (size_t i = 0; i < region.args.size(); ++i) {
      const std::string& given = graph_.value(region.args[i]).name;
      // Names of region arguments are the reader's; only those of functions are the author's.
      std::string name = prefix.empty() && !given.empty() ? given : fmt::format("arg{}", i);
      value(region.args[i], prefix + name);
    }
    for (size_t n = 0; n < region.nodes.size(); ++n) {
      const NodeId id = region.nodes[n];
      const Node& node = graph_.node(id);
      const std::string kind(kind_of(node));
      std::string name = prefix;
      name += n + 1 == region.nodes.size() ? "return" : fmt::format("{}.{}", kind, count[kind]++);
      names_.nodes[id.index] = name;
      names_.node_of.emplace(name, id);
      for (size_t i = 0; i < node.results.size(); ++i)
        value(node.results[i], node.results.size() == 1 ? name : fmt::format("{}#{}", name, i));
      if (!is_planned_inside(node)) continue;
      for (size_t r = 0; r < node.regions.size(); ++r)
        this->region(node.regions[r], fmt::format("{}/{}/", name, r));
    }
  }

 private:
  void value(ValueId id, std::string name) {
    // Text allows any name for an argument; a clash with an op's gets a number.
    for (int n = 1; !names_.value_of.emplace(name, id).second; ++n)
      name = fmt::format("{}_{}", name, n);
    names_.values[id.index] = std::move(name);
  }

  const Graph& graph_;
  Names& names_;
};

class Fingerprint {
 public:
  explicit Fingerprint(const Graph& graph) : graph_(graph), number_(graph.num_values()) {}

  void region(RegionId id) {
    for (ValueId arg : graph_.region(id).args) define(arg);
    for (NodeId node : graph_.region(id).nodes) this->node(graph_.node(node));
  }

  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  void node(const Node& node) {
    mix(node.name());
    for (ValueId operand : node.operands) mix(number_[operand.index]);
    for (const NamedAttribute& attr : node.attrs.entries()) {
      if (attr.name == kShardingAttr || attr.name == kKernelAttr) continue;
      mix(attr.name);
      mix(to_string(attr.value));
    }
    for (ValueId result : node.results) define(result);
    for (RegionId region : node.regions) this->region(region);
  }
  void define(ValueId value) {
    number_[value.index] = ++count_;
    mix(to_string(graph_.type(value)));
  }
  void mix(std::string_view text) {
    for (char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    mix(text.size());
  }
  void mix(uint64_t number) {
    hash_ = (hash_ ^ number) * 0x9E3779B97F4A7C15ull;
    hash_ ^= hash_ >> 32;
  }

  const Graph& graph_;
  std::vector<uint64_t> number_;
  uint64_t count_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325ull;
};

RegionId body_of(const Graph& graph, std::string_view entry) {
  const Function* function = graph.find_function(entry);
  if (!function || !function->body.valid())
    throw_user("the module has no function @{} with a body", entry);
  return function->body;
}

}  // namespace

Names name_everything(const Graph& graph, std::string_view entry) {
  Names names;
  Namer(graph, names).region(body_of(graph, entry), "");
  return names;
}

std::string fingerprint(const Graph& graph, std::string_view entry) {
  Fingerprint print(graph);
  print.region(body_of(graph, entry));
  return print.text();
}

}  // namespace cleave::plan
