#include "cleave/transforms/vmap.h"

#include <algorithm>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/batch_util.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {
namespace {

constexpr const char* kSharding = "sdy.sharding";
constexpr const char* kAliasing = "tf.aliasing_output";

std::string fresh_name(const Graph& graph, const std::string& base) {
  std::string name = base;
  for (int i = 1; graph.find_function(name); ++i) name = base + "_" + std::to_string(i);
  return name;
}

// The module text of a derivative that a computation carries, for all examples at once: @fwd takes
// the operands, which all have examples in front, and @bwd what that leaves and the cotangents.
std::string batched_rules(std::string_view text, const std::vector<Batched>& results,
                          const std::vector<Type>& result_types, int64_t size) {
  Graph rules = parse_module(text, "<custom_vjp>");
  auto replace = [&](const char* name, const std::vector<int64_t>& in,
                     const std::vector<int64_t>& out) {
    VmapOptions options;
    options.size = size;
    auto dims = [](const std::vector<int64_t>& list) {
      std::vector<VmapOptions::Dim> made;
      for (int64_t d : list) made.push_back(d == Batched::kNone ? VmapOptions::Dim{} : d);
      return made;
    };
    options.in_dims = dims(in);
    options.out_dims = dims(out);
    const std::string made = vmap(rules, name, options);
    std::erase_if(rules.functions, [&](const Function& function) { return function.name == name; });
    rules.find_function(made)->name = name;
  };
  const Function* fwd = rules.find_function("fwd");
  const Function* bwd = rules.find_function("bwd");
  if (!fwd || !bwd) throw_user("custom_vjp: the functions @fwd and @bwd are missing");
  std::vector<int64_t> fwd_out(fwd->result_types.size(), 0);
  for (size_t i = 0; i < results.size(); ++i) fwd_out[i] = results[i].dim;
  std::vector<int64_t> bwd_in(fwd_out.size() - results.size(), 0);
  for (size_t i = 0; i < results.size(); ++i)
    if (is_float(result_types[i].dtype) || is_complex(result_types[i].dtype))
      bwd_in.push_back(results[i].dim);
  const std::vector<int64_t> bwd_out(bwd->result_types.size(), 0);
  replace("fwd", std::vector<int64_t>(fwd->arg_types.size(), 0), fwd_out);
  replace("bwd", bwd_in, bwd_out);
  return print_module(rules);
}

// What all functions of one call of vmap share: callees are batched once for each combination of
// batch dimensions.
struct VmapSession {
  Graph& graph;
  int64_t size;
  std::string spmd_axis;
  std::map<std::pair<std::string, std::vector<int64_t>>, BatchedFunction> functions = {};
};

class Batcher : public BatchTransform {
 public:
  // `outer` knows values from around the regions that this one batches; their dimensions are those
  // of another number of examples, so they must have none.
  explicit Batcher(VmapSession& session, int64_t size, const Batcher* outer = nullptr)
      : session_(session), graph_(session.graph), size_(size), outer_(outer) {}

  std::string_view spmd_axis() const override { return session_.spmd_axis; }
  std::vector<Batched> inline_region(GraphBuilder& b, RegionId region,
                                     std::span<const Batched> args) override;
  std::vector<ValueId> map_region(GraphBuilder& b, RegionId region, std::span<const ValueId> args,
                                  int64_t count) override;
  void copy_regions(const Node& from, NodeId to) override;
  BatchedFunction batch_function(std::string_view name, std::vector<int64_t> in_dims) override;

 private:
  void write(GraphBuilder& b, const Node& node);
  std::vector<Batched> copy(GraphBuilder& b, const Node& node);
  std::vector<Batched> batch(GraphBuilder& b, const Node& node, std::span<const Batched> operands);
  std::vector<Batched> batch_custom(BatchFn rule, GraphBuilder& b, const Node& node,
                                    std::span<const Batched> operands);
  void keep_shardings(const Node& node, const std::vector<Batched>& results, uint32_t first_node);
  bool uses_batched(const Node& node) const;
  Batched find(ValueId value) const;

  VmapSession& session_;
  Graph& graph_;
  int64_t size_;
  const Batcher* outer_;
  std::map<ValueId, Batched> values_;
};

Batched Batcher::find(ValueId value) const {
  if (const auto it = values_.find(value); it != values_.end()) return it->second;
  internal_check(outer_ != nullptr, "vmap: a value is used before it is batched");
  const Batched found = outer_->find(value);
  if (found.batched())
    throw_user(
        "vmap: the body of a reduction uses a value from outside that differs between "
        "examples; give it as an operand");
  return found;
}

// Also inside the regions of the node; what is defined there is not known yet.
bool Batcher::uses_batched(const Node& node) const {
  auto batched = [&](ValueId value) {
    const auto it = values_.find(value);
    return it != values_.end() && it->second.batched();
  };
  if (std::ranges::any_of(node.operands, batched)) return true;
  bool found = false;
  for (RegionId region : node.regions) {
    std::set<ValueId> inside;
    for (ValueId arg : graph_.region(region).args) inside.insert(arg);
    graph_.walk(region, [&](NodeId id) {
      const Node& user = graph_.node(id);
      for (ValueId operand : user.operands) found |= !inside.contains(operand) && batched(operand);
      inside.insert(user.results.begin(), user.results.end());
      for (RegionId nested : user.regions)
        for (ValueId arg : graph_.region(nested).args) inside.insert(arg);
    });
  }
  return found;
}

std::vector<Batched> Batcher::inline_region(GraphBuilder& b, RegionId region,
                                            std::span<const Batched> args) {
  const Region source = graph_.region(region);
  internal_check(args.size() == source.args.size(), "vmap: a region gets too few arguments");
  for (size_t i = 0; i < args.size(); ++i) {
    values_[source.args[i]] = args[i];
    std::string& name = graph_.value(args[i].value).name;
    if (name.empty()) name = graph_.value(source.args[i]).name;
  }
  for (NodeId id : source.nodes) {
    const Node node = graph_.node(id);
    if (node.def->has(kTerminator)) {
      std::vector<Batched> returned;
      for (ValueId value : node.operands) returned.push_back(find(value));
      return returned;
    }
    write(b, node);
  }
  throw_internal("vmap: a region has no terminator");
}

std::vector<ValueId> Batcher::map_region(GraphBuilder& b, RegionId region,
                                         std::span<const ValueId> args, int64_t count) {
  Batcher inside(session_, count, this);
  std::vector<Batched> batched;
  for (ValueId arg : args) batched.push_back({arg, 0});
  GraphBuilder& builder = b;
  const BatchContext context{builder, {}, {}, count, inside};
  std::vector<ValueId> results;
  for (const Batched& result : inside.inline_region(b, region, batched))
    results.push_back(batched_at(context, result, 0));
  return results;
}

void Batcher::copy_regions(const Node& from, NodeId to) {
  for (RegionId region : from.regions) {
    GraphBuilder b(graph_, graph_.add_region(to));
    const Region source = graph_.region(region);
    for (ValueId arg : source.args) {
      const Value value = graph_.value(arg);
      values_[arg] = {graph_.add_argument(b.region(), value.type, value.name)};
    }
    for (NodeId id : source.nodes) {
      const Node node = graph_.node(id);
      if (uses_batched(node))
        throw_user(
            "vmap: {}: its region uses a value from outside that differs between examples; "
            "give it as an operand",
            from.name());
      copy(b, node);
    }
  }
}

std::vector<Batched> Batcher::copy(GraphBuilder& b, const Node& node) {
  if (node.def->batch == batch_effect) return batch(b, node, {});
  std::vector<ValueId> operands;
  for (ValueId operand : node.operands) operands.push_back(find(operand).value);
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph_.type(result));
  const NodeId id = graph_.add_node_like(node, std::move(operands), std::move(types), node.attrs);
  copy_regions(node, id);
  graph_.append(b.region(), id);
  std::vector<Batched> results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = graph_.node(id).results[i];
    graph_.value(result).name = graph_.value(node.results[i]).name;
    values_[node.results[i]] = {result};
    results.push_back({result});
  }
  return results;
}

void Batcher::write(GraphBuilder& b, const Node& node) {
  if (!uses_batched(node)) {
    copy(b, node);
    return;
  }
  std::vector<Batched> operands;
  for (ValueId operand : node.operands) operands.push_back(find(operand));
  const auto first = static_cast<uint32_t>(graph_.num_nodes());
  const std::vector<Batched> results = batch(b, node, operands);
  internal_check(results.size() == node.results.size(), "vmap: a rule gave too few results");
  for (size_t i = 0; i < results.size(); ++i) {
    values_[node.results[i]] = results[i];
    Value& value = graph_.value(results[i].value);
    if (value.name.empty() && value.producer.valid() && value.producer.index >= first)
      value.name = graph_.value(node.results[i]).name;
  }
  for (uint32_t i = first; i < graph_.num_nodes(); ++i)
    if (Node& made = graph_.node(NodeId{i}); made.location.empty()) made.location = node.location;
  keep_shardings(node, results, first);
}

std::vector<Batched> Batcher::batch(GraphBuilder& b, const Node& node,
                                    std::span<const Batched> operands) {
  BatchFn rule = node.def->batch;
  if (!rule && node.def->has(kElementwise)) rule = batch_elementwise;
  if (!rule)
    throw_user("vmap: {} has no batching rule{}; run it outside of vmap", node.name(),
               node.def->opaque ? ", and nobody knows the op" : "");
  try {
    return node.attrs.has(kCustomVjpRules) ? batch_custom(rule, b, node, operands)
                                           : rule({b, node, operands, size_, *this});
  } catch (const UserError& error) {
    if (std::string_view(error.what()).starts_with("vmap: ")) throw;
    throw_user("vmap: {}", error.what());
  }
}

// A computation with a derivative of its own. Operands that all examples share are broadcast, so
// that the sum of their cotangents over the examples is the business of the broadcast.
std::vector<Batched> Batcher::batch_custom(BatchFn rule, GraphBuilder& b, const Node& node,
                                           std::span<const Batched> operands) {
  std::vector<Batched> own;
  for (const Batched& operand : operands)
    own.push_back({at_front({b, node, operands, size_, *this}, operand), 0});
  const std::vector<Batched> results = rule({b, node, own, size_, *this});
  if (results.empty()) return results;
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph_.type(result));
  const NodeId made = graph_.value(results[0].value).producer;
  graph_.node(made).attrs.set(
      kCustomVjpRules,
      string_attr(batched_rules(node.attrs.get_string(kCustomVjpRules), results, types, size_)));
  return results;
}

// The shardings that the op stated of its results, with the examples.
void Batcher::keep_shardings(const Node& node, const std::vector<Batched>& results,
                             uint32_t first_node) {
  const Attribute* attribute = node.attrs.find(kSharding);
  const auto* stated = attribute ? attribute->as<ShardingsAttr>() : nullptr;
  if (!stated || stated->specs.size() != results.size() || results.empty()) return;
  const NodeId producer = graph_.value(results[0].value).producer;
  if (!producer.valid() || producer.index < first_node) return;
  std::vector<ShardingSpec> specs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (graph_.value(results[i].value).producer != producer) return;
    specs.push_back(results[i].batched() ? with_batch_dim(stated->specs[i], results[i].dim,
                                                          session_.spmd_axis, node.name())
                                         : stated->specs[i]);
  }
  if (graph_.node(producer).results.size() == specs.size())
    graph_.node(producer).attrs.set(kSharding, ShardingsAttr{std::move(specs)});
}

// ---- functions ----

MeshPtr mesh_with(const Graph& graph, std::string_view axis) {
  for (const MeshPtr& mesh : graph.meshes)
    for (const auto& candidate : mesh->axes)
      if (candidate.name == axis) return mesh;
  throw_user(
      "vmap: the examples are to be sharded over the axis \"{}\", which no mesh of the "
      "module has",
      axis);
}

// The attributes of an argument or result that has the examples at `dim`.
AttrDict batched_attrs(const Graph& graph, AttrDict attrs, int64_t dim, size_t rank,
                       const std::string& spmd_axis, const std::string& what) {
  attrs.erase("mhlo.sharding");
  const Attribute* attribute = attrs.find(kSharding);
  const auto* given = attribute ? attribute->as<ShardingAttr>() : nullptr;
  if (given) {
    attrs.set(kSharding, ShardingAttr{with_batch_dim(given->spec, dim, spmd_axis, what)});
  } else if (!spmd_axis.empty()) {
    const ShardingSpec open = ShardingSpec::fully_open(mesh_with(graph, spmd_axis), rank);
    attrs.set(kSharding, ShardingAttr{with_batch_dim(open, dim, spmd_axis, what)});
  }
  return attrs;
}

// Writes a function of batched arguments. `out_dims` is what is asked of the results; without it
// they stay as they come.
BatchedFunction write_function(VmapSession& session, const Function& source,
                               const std::string& name, const std::string& visibility,
                               const std::vector<int64_t>& in_dims,
                               const std::vector<int64_t>* out_dims) {
  Graph& graph = session.graph;
  std::vector<Type> types;
  for (size_t i = 0; i < source.arg_types.size(); ++i)
    types.push_back(in_dims[i] == Batched::kNone
                        ? source.arg_types[i]
                        : with_dim(source.arg_types[i], in_dims[i], session.size));
  GraphBuilder b = GraphBuilder::function(graph, name, std::move(types));
  Batcher batcher(session, session.size);
  std::vector<Batched> args;
  for (size_t i = 0; i < in_dims.size(); ++i) {
    graph.value(b.arg(i)).name = graph.value(graph.region(source.body).args[i]).name;
    args.push_back({b.arg(i), in_dims[i]});
  }
  const std::vector<Batched> results = batcher.inline_region(b, source.body, args);
  const Node end = graph.node(graph.terminator(source.body));
  const BatchContext context{b, end, {}, session.size, batcher};
  BatchedFunction made{name, {}};
  std::vector<ValueId> returned;
  for (size_t i = 0; i < results.size(); ++i) {
    int64_t dim = results[i].dim;
    ValueId value = results[i].value;
    if (out_dims) {
      dim = (*out_dims)[i];
      if (dim != Batched::kNone)
        value = batched_at(context, results[i], dim);
      else if (results[i].batched())
        throw_user(
            "vmap: result {} depends on the examples, and the out dimensions say that it does not; "
            "give it a dimension",
            i);
    }
    made.out_dims.push_back(dim);
    returned.push_back(value);
  }
  b.finish(std::move(returned));
  Function& function = *graph.find_function(name);
  function.visibility = visibility;
  function.location = source.location;
  function.attrs = source.attrs;
  auto attrs_of = [&](const std::vector<AttrDict>& all, size_t i, int64_t dim, size_t rank,
                      const char* what) {
    const AttrDict attrs = i < all.size() ? all[i] : AttrDict{};
    if (dim == Batched::kNone) return attrs;
    return batched_attrs(graph, attrs, dim, rank, session.spmd_axis,
                         fmt::format("{} {} of @{}", what, i, source.name));
  };
  for (size_t i = 0; i < in_dims.size(); ++i) {
    AttrDict& attrs = function.arg_attrs[i];
    attrs = attrs_of(source.arg_attrs, i, in_dims[i], source.arg_types[i].rank(), "argument");
    // Memory that a result takes over must have its type.
    if (!attrs.has(kAliasing)) continue;
    const auto result = static_cast<size_t>(attrs.get_int(kAliasing));
    if (result >= made.out_dims.size() || made.out_dims[result] != in_dims[i])
      attrs.erase(kAliasing);
  }
  for (size_t i = 0; i < made.out_dims.size(); ++i)
    function.result_attrs[i] =
        attrs_of(source.result_attrs, i, made.out_dims[i], source.result_types[i].rank(), "result");
  return made;
}

BatchedFunction Batcher::batch_function(std::string_view name, std::vector<int64_t> in_dims) {
  const auto key = std::pair(std::string(name), in_dims);
  if (const auto it = session_.functions.find(key); it != session_.functions.end())
    return it->second;
  const Function* callee = graph_.find_function(name);
  if (!callee || !callee->body.valid())
    throw_user("vmap: @{} is called and has no body that could be batched", name);
  const Function source = *callee;
  const BatchedFunction made = write_function(
      session_, source, fresh_name(graph_, source.name + "_vmap"), "private", in_dims, nullptr);
  session_.functions[key] = made;
  return made;
}

// Loops are batched again until it is known what they carry; callees of the tries before stay.
void drop_unused(Graph& graph, const VmapSession& session, const std::string& entry) {
  std::set<std::string> used{entry};
  std::vector<std::string> todo{entry};
  while (!todo.empty()) {
    const Function* function = graph.find_function(todo.back());
    todo.pop_back();
    graph.walk(function->body, [&](NodeId id) {
      const Node& node = graph.node(id);
      if (!node.def->has(kCall) || !node.attrs.has("callee")) return;
      const std::string callee(node.attrs.get_string("callee"));
      if (used.insert(callee).second && graph.find_function(callee)) todo.push_back(callee);
    });
  }
  std::set<std::string> made;
  for (const auto& [key, function] : session.functions) made.insert(function.name);
  std::erase_if(graph.functions, [&](const Function& function) {
    return made.contains(function.name) && !used.contains(function.name);
  });
}

int64_t checked_dim(const VmapOptions::Dim& dim, size_t rank, const Type& type, const char* what,
                    size_t i) {
  if (!dim) return Batched::kNone;
  const auto batched_rank = static_cast<int64_t>(rank) + 1;
  if (!type.is_tensor() || *dim < -batched_rank || *dim >= batched_rank)
    throw_user("vmap: dimension {} of {} {} is outside of [{}, {}); one example is {}", *dim, what,
               i, -batched_rank, batched_rank, to_string(type));
  return *dim < 0 ? *dim + batched_rank : *dim;
}

}  // namespace

std::string vmap(Graph& graph, std::string_view name, const VmapOptions& options) {
  if (!options.verified) verify_graph(graph);
  const Function* found = graph.find_function(name);
  if (!found) throw_user("vmap: there is no function @{}", name);
  if (!found->body.valid()) throw_user("vmap: the function @{} has no body", name);
  const Function source = *found;
  if (options.in_dims.size() != source.arg_types.size() ||
      options.out_dims.size() != source.result_types.size())
    throw_user(
        "vmap: @{} has {} arguments and {} results, and {} in_dims and {} out_dims are given", name,
        source.arg_types.size(), source.result_types.size(), options.in_dims.size(),
        options.out_dims.size());
  if (options.size <= 0)
    throw_user("vmap: the number of examples must be positive, got {}", options.size);
  std::vector<int64_t> in, out;
  for (size_t i = 0; i < options.in_dims.size(); ++i)
    in.push_back(checked_dim(options.in_dims[i], source.arg_types[i].rank(), source.arg_types[i],
                             "argument", i));
  for (size_t i = 0; i < options.out_dims.size(); ++i)
    out.push_back(checked_dim(options.out_dims[i], source.result_types[i].rank(),
                              source.result_types[i], "result", i));
  VmapSession session{graph, options.size, options.spmd_axis};
  const std::string made =
      fresh_name(graph, options.name.empty() ? source.name + "_vmap" : options.name);
  const size_t functions = graph.functions.size();
  try {
    write_function(session, source, made, source.visibility, in, &out);
  } catch (...) {
    graph.functions.resize(functions);  // the graph is as it was, but for dead nodes
    throw;
  }
  drop_unused(graph, session, made);
  return made;
}

}  // namespace cleave
