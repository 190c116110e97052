#include "cleave/transforms/resize.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/ops/op.h"
#include "cleave/transforms/resize_attributes.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {
namespace {

// The dimensions of values that are one index: the same size before and after.
struct Place {
  ValueId value;
  size_t dim;
};
// An index of an op: the dimensions that it is alone in, and those that are a product with others.
struct OpIndex {
  std::vector<Place> alone;
  int64_t size = 0;  // before
};
struct Product {
  Place place;
  std::vector<size_t> factors;  // of OpLinks::indices
};
struct OpLinks {
  NodeId node;
  std::vector<OpIndex> indices;
  std::vector<Product> products;
};

class Resizer {
 public:
  Resizer(const Graph& traced, const std::vector<std::string>& names)
      : before_(traced), after_(traced), names_(names) {
    add_region(before_.functions[0].body);
  }

  Graph run(std::span<const Type> types) {
    const Function& function = before_.functions[0];
    const std::vector<ValueId>& args = before_.region(function.body).args;
    for (size_t i = 0; i < types.size(); ++i) {
      check_argument(i, types[i]);
      after_.value(args[i]).type = types[i];
    }
    find_changes(args);
    do {
      while (spread()) {
      }
    } while (infer_one());
    check_free_sizes();
    count_anew(before_, after_);
    finish();
    return std::move(after_);
  }

  std::vector<std::vector<ArgumentSize>> linked_arguments(size_t count) const {
    Indices all = indices();
    std::map<size_t, std::vector<ArgumentSize>> lists;
    const std::vector<ValueId>& args = before_.region(before_.functions[0].body).args;
    for (size_t i = 0; i < count; ++i)
      for (size_t d = 0; d < old_shape(args[i]).size(); ++d)
        lists[all.root({args[i], d})].push_back({i, d});
    std::vector<std::vector<ArgumentSize>> result;
    for (auto& [root, list] : lists) result.push_back(std::move(list));
    return result;
  }

 private:
  const Shape& old_shape(ValueId value) const { return before_.type(value).shape; }
  const Shape& new_shape(ValueId value) const { return after_.type(value).shape; }
  int64_t old_size(const Place& p) const { return old_shape(p.value)[p.dim]; }
  int64_t new_size(const Place& p) const { return new_shape(p.value)[p.dim]; }
  bool changed(const Place& p) const { return old_size(p) != new_size(p); }
  bool changed(ValueId value) const { return old_shape(value) != new_shape(value); }

  void find_changes(const std::vector<ValueId>& args) {
    std::set<int64_t> ambiguous;
    for (ValueId arg : args)
      for (size_t d = 0; d < old_shape(arg).size(); ++d) {
        const auto [it, is_new] = changes_.emplace(old_size({arg, d}), new_size({arg, d}));
        if (!is_new && it->second != new_size({arg, d})) ambiguous.insert(it->first);
      }
    for (int64_t size : ambiguous) changes_.erase(size);
  }
  void check_argument(size_t i, const Type& type) const {
    const Type& traced = before_.functions[0].arg_types[i];
    if (type.dtype == traced.dtype && type.rank() == traced.rank()) return;
    throw_user("a trace is replayed with {} for argument {}{}, which was {}: only sizes may change",
               to_string(type), i, names_.at(i).empty() ? "" : " (" + names_[i] + ")",
               to_string(traced));
  }

  // Collects what the rules and regions say, from the shapes that were traced.
  void add_region(RegionId region) {
    for (NodeId id : before_.region(region).nodes) {
      const Node& node = before_.node(id);
      if (node.def->has(kTerminator)) continue;
      nodes_.push_back(id);
      switch (flow_of(node)) {
        case Flow::Loop:
        case Flow::Branches:
        case Flow::Named:
        case Flow::Barrier:
          for (const FlowEdge& edge : flow_edges(before_, node)) add_edge(id, edge);
          for (RegionId inner : node.regions) add_region(inner);
          break;
        case Flow::Scan:
          add_scan(id);
          add_region(node.regions[0]);
          break;
        case Flow::None:
        case Flow::Manual:
        case Flow::Call:
          if (const auto rule = op_rule(before_, node).propagation) add_rule(id, *rule);
          break;
      }
    }
  }
  void add_same(NodeId id, const std::vector<std::pair<ValueId, size_t>>& values, size_t rank) {
    OpLinks links{id, {}, {}};
    for (size_t d = 0; d < rank; ++d) {
      OpIndex index;
      for (const auto& [value, skipped] : values)
        index.alone.push_back({value, d >= skipped ? d + 1 : d});
      index.size = old_size(index.alone[0]);
      links.indices.push_back(std::move(index));
    }
    links_.push_back(std::move(links));
  }
  void add_edge(NodeId id, const FlowEdge& edge) {
    if (before_.type(edge.to).is_tensor())
      add_same(id, {{edge.to, SIZE_MAX}, {edge.from, SIZE_MAX}}, before_.type(edge.to).rank());
  }
  void add_scan(NodeId id) {
    const Node& node = before_.node(id);
    const auto [inputs, carries, outputs] = scan_parts(node);
    const auto dim = static_cast<size_t>(node.attrs.get_int("dimension"));
    const std::vector<ValueId>& args = before_.region(node.regions[0]).args;
    const std::vector<ValueId>& returned =
        before_.node(before_.terminator(node.regions[0])).operands;
    OpIndex length;
    for (size_t i = 0; i < inputs; ++i) {
      add_same(id, {{args[i], SIZE_MAX}, {node.operands[i], dim}}, old_shape(args[i]).size());
      length.alone.push_back({node.operands[i], dim});
    }
    for (size_t i = 0; i < outputs; ++i) {
      add_same(id, {{returned[i], SIZE_MAX}, {node.results[i], dim}},
               old_shape(returned[i]).size());
      length.alone.push_back({node.results[i], dim});
    }
    for (size_t i = 0; i < carries; ++i)
      add_same(id,
               {{node.operands[inputs + i], SIZE_MAX},
                {args[inputs + i], SIZE_MAX},
                {returned[outputs + i], SIZE_MAX},
                {node.results[outputs + i], SIZE_MAX}},
               old_shape(args[inputs + i]).size());
    if (!length.alone.empty()) {
      length.size = old_size(length.alone[0]);
      links_.push_back({id, {std::move(length)}, {}});
    }
  }
  void add_rule(NodeId id, const OpShardingRule& rule) {
    const Node& node = before_.node(id);
    OpLinks links{id, std::vector<OpIndex>(rule.factors.size()), {}};
    for (size_t f = 0; f < rule.factors.size(); ++f) links.indices[f].size = rule.factors[f].size;
    for (size_t t = 0; t < rule.num_tensors(); ++t) {
      const ValueId value =
          t < node.operands.size() ? node.operands[t] : node.results[t - node.operands.size()];
      const TensorFactors& dims = rule.tensor(t);
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].size() > 1) {
          links.products.push_back({{value, d}, {dims[d].begin(), dims[d].end()}});
        } else if (dims[d].size() == 1 && rule.factors[dims[d][0]].size == old_shape(value)[d]) {
          links.indices[dims[d][0]].alone.push_back({value, d});
        }
      }
    }
    links_.push_back(std::move(links));
  }

  // One sweep there and one back; true if something changed.
  bool spread() {
    bool any = false;
    for (const OpLinks& links : links_) any |= spread(links);
    for (size_t i = links_.size(); i-- > 0;) any |= spread(links_[i]);
    return any;
  }
  bool spread(const OpLinks& links) {
    bool any = false;
    std::vector<int64_t> sizes;
    for (const OpIndex& index : links.indices) {
      int64_t size = index.size;
      for (const Place& place : index.alone)
        if (changed(place)) size = new_size(place);
      sizes.push_back(size);
      if (size == index.size) continue;
      for (const Place& place : index.alone) any |= set(links.node, place, size);
    }
    for (const Product& product : links.products) {
      int64_t size = 1;
      bool is_new = false;
      for (size_t f : product.factors) {
        size *= sizes[f];
        is_new |= sizes[f] != links.indices[f].size;
      }
      if (is_new) any |= set(links.node, product.place, size);
      if (!is_new && new_size(product.place) != size) any |= split(links, product);
    }
    return any;
  }
  // A product that has changed, and whose factors nobody knows: a flattened array that gets its
  // shape back. They change as the arguments of their sizes do, if that gives the product.
  bool split(const OpLinks& links, const Product& product) {
    int64_t size = 1;
    std::vector<int64_t> sizes;
    for (size_t f : product.factors) {
      const auto found = changes_.find(links.indices[f].size);
      sizes.push_back(found == changes_.end() ? links.indices[f].size : found->second);
      size *= sizes.back();
    }
    if (size != new_size(product.place)) return false;
    bool any = false;
    for (size_t i = 0; i < sizes.size(); ++i)
      for (const Place& place : links.indices[product.factors[i]].alone)
        any |= set(links.node, place, sizes[i]);
    return any;
  }
  bool set(NodeId by, const Place& place, int64_t size) {
    if (new_size(place) == size) return false;
    const Node& node = before_.node(by);
    const Value& value = before_.value(place.value);
    if (changed(place))
      throw_user(
          "{}: dimension {} of {} would have to be {} and {}; the trace needs these sizes to be "
          "one",
          node.name(), place.dim, to_string(value.type), new_size(place), size);
    if (!value.producer.valid() && !before_.region(value.region).owner.valid())
      throw_user("{}: with these arguments, dimension {} of {} would have to be {} instead of {}",
                 node.name(), place.dim,
                 value.index < names_.size()
                     ? fmt::format("argument '{}', {},", names_[value.index], to_string(value.type))
                     : fmt::format("a captured {} (pass it as an argument)", to_string(value.type)),
                 size, old_size(place));
    if (value.producer.valid() && is<op::Constant>(before_.node(value.producer)))
      check_constant(before_.node(value.producer), place.dim, size);
    after_.value(place.value).type.shape[place.dim] = size;
    return true;
  }

  // Sizes that follow from operands and attributes alone. True if one is new.
  bool infer_one() {
    for (NodeId id : nodes_) {
      const Node& node = before_.node(id);
      bool touched = false;
      for (ValueId value : node.operands) touched |= changed(value);
      for (ValueId value : node.results) touched |= changed(value);
      const Flow flow = flow_of(node);
      if (touched && flow == Flow::Manual) refuse(node, "its parts are of fixed sizes");
      if (!touched || (flow != Flow::None && flow != Flow::Call)) continue;
      if (!node.def->infer || node.def->has(kCall))
        refuse(node, "nobody knows how its results follow");
      resize_attributes(before_, node, after_, id);
      std::vector<Type> types;
      try {
        types = node.def->infer(after_, after_.node(id));
      } catch (const UserError& error) {
        throw_user("the trace can not be replayed with these shapes; {}", error.what());
      }
      bool any = false;
      for (size_t i = 0; i < types.size(); ++i)
        for (size_t d = 0; d < types[i].shape.size(); ++d)
          any |= set(id, {node.results[i], d}, types[i].shape[d]);
      if (any) return true;
    }
    return false;
  }
  [[noreturn]] void refuse(const Node& node, const char* why) const {
    throw_user("{}: can not be replayed with other shapes, {}; trace the function again",
               node.name(), why);
  }

  // All dimensions of all values, those that are one index joined.
  struct Indices {
    std::vector<size_t> first;  // by value: the number of its dimension 0
    std::vector<size_t> parent;
    size_t number(const Place& p) const { return first[p.value.index] + p.dim; }
    size_t root(size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    }
    size_t root(const Place& p) { return root(number(p)); }
  };
  Indices indices() const {
    Indices all;
    all.first.resize(before_.num_values() + 1);
    for (uint32_t v = 0; v < before_.num_values(); ++v)
      all.first[v + 1] = all.first[v] + old_shape(ValueId{v}).size();
    all.parent.resize(all.first.back());
    std::iota(all.parent.begin(), all.parent.end(), 0);
    for (const OpLinks& links : links_)
      for (const OpIndex& index : links.indices)
        for (const Place& place : index.alone)
          all.parent[all.root(place)] = all.root(index.alone[0]);
    return all;
  }

  // Sizes that the function gave (zeros, broadcasts, iota) and that nothing ties to an argument: if
  // an argument had that size and has another now, nobody knows which one was meant.
  void check_free_sizes() const {
    Indices all = indices();
    std::vector<bool> linked(all.parent.size());  // results that a rule ties to operands
    for (const OpLinks& links : links_)
      for (const OpIndex& index : links.indices)
        for (const Place& place : index.alone)
          if (index.alone.size() > 1 && before_.value(place.value).producer == links.node)
            linked[all.number(place)] = true;

    std::set<int64_t> changes;
    std::vector<bool> tied(all.parent.size());
    auto tie = [&](ValueId value) {
      for (size_t d = 0; d < old_shape(value).size(); ++d) {
        tied[all.root({value, d})] = true;
        if (changed({value, d})) changes.insert(old_size({value, d}));
      }
    };
    for (ValueId arg : before_.region(before_.functions[0].body).args) tie(arg);
    auto gives_sizes = [](const Node& node) {
      return node.operands.empty() || node.def->has(kRepeats);
    };
    for (NodeId id : nodes_)
      if (!gives_sizes(before_.node(id)))
        for (ValueId result : before_.node(id).results)
          for (size_t d = 0; d < old_shape(result).size(); ++d)
            if (!linked[all.number({result, d})]) tied[all.root({result, d})] = true;
    for (NodeId id : nodes_) {
      const Node& node = before_.node(id);
      if (!gives_sizes(node)) continue;
      for (ValueId result : node.results)
        for (size_t d = 0; d < old_shape(result).size(); ++d) {
          const Place place{result, d};
          if (changed(place) || tied[all.root(place)] || !changes.contains(old_size(place)))
            continue;
          throw_user(
              "{}: dimension {} of {} may come from the size {} of an argument, which has another "
              "size now, or may not; trace the function again",
              node.name(), d, to_string(before_.type(result)), old_size(place));
        }
    }
  }
  void finish() {
    Function& function = after_.functions[0];
    const std::vector<ValueId> args = after_.region(function.body).args;
    for (size_t i = 0; i < args.size(); ++i) function.arg_types[i] = after_.type(args[i]);
    const std::vector<ValueId> returned = after_.node(after_.terminator(function.body)).operands;
    for (size_t i = 0; i < returned.size(); ++i)
      function.result_types[i] = after_.type(returned[i]);
  }

  const Graph& before_;
  Graph after_;
  const std::vector<std::string>& names_;
  std::vector<NodeId> nodes_;
  std::vector<OpLinks> links_;
  std::map<int64_t, int64_t> changes_;  // of sizes that all arguments changed alike
};

}  // namespace

Graph with_argument_types(const Graph& graph, std::span<const Type> types,
                          const std::vector<std::string>& names) {
  return Resizer(graph, names).run(types);
}

std::vector<std::vector<ArgumentSize>> linked_sizes(const Graph& graph, size_t count) {
  return Resizer(graph, {}).linked_arguments(count);
}

}  // namespace cleave
