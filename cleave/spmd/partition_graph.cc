#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/partition_width.h"
#include "cleave/spmd/partitioner.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {
namespace {

const ShardingSpec* sharding_of(const AttrDict& attrs) {
  const Attribute* attr = attrs.find("sdy.sharding");
  const auto* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
  return sharding ? &sharding->spec : nullptr;
}

// A broadcast to more elements: the row maxima of a softmax, the mean of a norm.
bool spreads(const Graph& graph, const Node& node) {
  return node.def->has(kViewLike) && node.operands.size() == 1 && node.results.size() == 1 &&
         graph.operand_type(node, 0).has_static_shape() &&
         graph.result_type(node).has_static_shape() &&
         num_elements(graph.result_type(node).shape) >
             num_elements(graph.operand_type(node, 0).shape);
}

void append_symbols(const Attribute& attribute, std::vector<std::string>& names) {
  if (const auto* symbol = attribute.as<SymbolRefAttr>()) names.push_back(symbol->root);
  if (const auto* list = attribute.as<ArrayAttr>())
    for (const Attribute& element : list->elements) append_symbols(element, names);
}

}  // namespace

// A maximal mesh means one device; the axes of another mesh mean nothing on the program's.
bool Partitioner::usable(const ShardingSpec& spec, std::string_view what) const {
  if (!spec.mesh || spec.mesh->axes.empty()) return false;
  if (spec.mesh->axes == program_.mesh->axes) return true;
  if (spec.mesh->num_devices() == 1) return false;
  throw_user(
      "{}: {} is a sharding of the mesh @{} = {}, and the program is split over {}; split it over "
      "its own mesh, or remove the sharding",
      what, to_string(spec), spec.mesh->name, to_string(*spec.mesh), to_string(*program_.mesh));
}

Program partition(const Graph& graph, const PartitionOptions& options) {
  if (!options.verified) verify_graph(graph);
  return Partitioner(graph, options).run();
}

Partitioner::Partitioner(const Graph& source, const PartitionOptions& options)
    : source_(source),
      uses_(source),
      rules_(source),
      options_(options),
      versions_(source.num_values()),
      latest_(source.num_values()),
      resharder_(options.profile ? *options.profile : default_profile(), options.reshard) {
  program_.graph.name = source.name;
  program_.graph.attrs = source.attrs;
  program_.graph.meshes = source.meshes;
  program_.mesh = options.mesh;
  if (!program_.mesh) program_.mesh = mesh_in_use();
  if (!program_.mesh) program_.mesh = std::make_shared<Mesh>();
  copy_scalar_functions();
  if (program_.graph.meshes.empty() && !program_.mesh->name.empty())
    program_.graph.meshes.push_back(program_.mesh);
}

// The mesh that the entry's shardings speak of; else the first of the module.
MeshPtr Partitioner::mesh_in_use() const {
  MeshPtr found;
  auto consider = [&](const MeshPtr& mesh) {
    if (!found && mesh && !mesh->axes.empty()) found = mesh;
  };
  if (const Function* entry = source_.find_function(options_.entry)) {
    for (const auto* list : {&entry->arg_attrs, &entry->result_attrs})
      for (const AttrDict& attrs : *list)
        if (const ShardingSpec* spec = sharding_of(attrs)) consider(spec->mesh);
    if (entry->body.valid() && !found)
      source_.walk(entry->body, [&](NodeId id) {
        for (const NamedAttribute& entry : source_.node(id).attrs.entries()) {
          if (const auto* one = entry.value.as<ShardingAttr>()) consider(one->spec.mesh);
          if (const auto* many = entry.value.as<ShardingsAttr>())
            for (const ShardingSpec& spec : many->specs) consider(spec.mesh);
        }
      });
  }
  for (const MeshPtr& mesh : source_.meshes) consider(mesh);
  return found;
}

// Functions that the bodies of reductions, sorts and the like call, or that an op names in a list
// (the programs of interpreter.run_parallel): they run on one device, and are kept as they are.
void Partitioner::copy_scalar_functions() {
  std::vector<std::string> names;
  auto collect = [&](RegionId region) {
    source_.walk(region, [&](NodeId id) {
      const std::string_view callee = callee_name(source_.node(id));
      if (!callee.empty()) names.emplace_back(callee);
    });
  };
  source_.walk([&](NodeId id) {
    const Node& node = source_.node(id);
    for (const NamedAttribute& attr : node.attrs.entries())
      if (attr.value.as<ArrayAttr>()) append_symbols(attr.value, names);
    if (node.def->has(kDataFlow)) return;
    for (RegionId region : node.regions) collect(region);
  });
  for (size_t i = 0; i < names.size(); ++i) {
    const Function* function = source_.find_function(names[i]);
    if (!function || !function->body.valid() || program_.graph.find_function(names[i])) continue;
    Cloner(source_, program_.graph, &latest_).function(*function);
    remove_identities(program_.graph, program_.graph.functions.back().body);
    collect(function->body);
  }
  program_.layouts.resize(program_.graph.num_values());
}

Program Partitioner::run() {
  const Function* entry = source_.find_function(options_.entry);
  if (!entry) throw_user("the module has no function @{}", options_.entry);
  if (!entry->body.valid()) throw_user("function @{} has no body", options_.entry);
  std::vector<ShardingSpec> args;
  for (size_t i = 0; i < entry->arg_types.size(); ++i) {
    const ShardingSpec* spec =
        i < entry->arg_attrs.size() ? sharding_of(entry->arg_attrs[i]) : nullptr;
    const std::string what = fmt::format("argument {} of @{}", i, entry->name);
    args.push_back(spec && usable(*spec, what) ? *spec : replicated(entry->arg_types[i]));
  }
  Wanted results;
  for (size_t i = 0; i < entry->result_types.size(); ++i) {
    const ShardingSpec* spec =
        i < entry->result_attrs.size() ? sharding_of(entry->result_attrs[i]) : nullptr;
    const std::string what = fmt::format("result {} of @{}", i, entry->name);
    results.push_back(spec && usable(*spec, what) ? std::optional(*spec) : std::nullopt);
  }
  specialize(*entry, args, results, entry->name);
  program_.entry = entry->name;
  // The entry first, as in the source.
  auto& functions = program_.graph.functions;
  auto it = std::find_if(functions.begin(), functions.end(),
                         [&](const Function& f) { return f.name == program_.entry; });
  std::rotate(functions.begin(), it, it + 1);
  return std::move(program_);
}

const Partitioner::Special& Partitioner::specialize(const Function& function,
                                                    const std::vector<ShardingSpec>& args,
                                                    const Wanted& results,
                                                    const std::string& name) {
  std::string key = function.name;
  for (const ShardingSpec& spec : args) key += "|" + (spec.mesh ? to_string(spec) : std::string());
  for (const auto& spec : results) key += ">" + (spec ? to_string(*spec) : std::string());
  if (auto it = specials_.find(key); it != specials_.end()) return it->second;

  Special special{name, {}};
  for (int n = 1; program_.graph.find_function(special.name); ++n)
    special.name = fmt::format("{}_{}", name, n);
  // The name is taken before functions that this one calls.
  const size_t index = program_.graph.functions.size();
  Function copy = function;
  copy.name = special.name;
  copy.body = program_.graph.add_region();
  program_.graph.functions.push_back(copy);

  const std::vector<ValueId> source_args = source_.region(function.body).args;
  for (size_t i = 0; i < source_args.size(); ++i) {
    const ValueId arg = add_argument(copy.body, source_args[i], args[i]);
    wish(source_args[i], args[i]);
    if (spec_of(arg).mesh) copy.arg_attrs.resize(source_args.size());
    if (spec_of(arg).mesh) copy.arg_attrs[i].set("sdy.sharding", ShardingAttr{spec_of(arg)});
  }
  const Node& terminator = source_.node(source_.terminator(function.body));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i] && results[i]->is_partial()) pending_.insert(terminator.operands[i]);
  // Of this specialisation alone.
  const std::map<ValueId, bool> outer = std::exchange(completed_later_, {});
  region_nodes(function.body, copy.body);
  completed_later_ = outer;
  const bool keeps = options_.keep_results && function.name == options_.entry;
  std::vector<ShardingSpec> specs;
  for (size_t i = 0; i < terminator.operands.size(); ++i) {
    const ValueId returned = terminator.operands[i];
    const bool asked = i < results.size() && results[i] &&
                       !(keeps && options_.results_are_wishes && moves(returned, *results[i]));
    specs.push_back(asked   ? *results[i]
                    : keeps ? with_wishes(returned, kept_spec(returned))
                            : complete_spec(returned));
  }
  terminate(function.body, copy.body, specs);
  copy.result_attrs.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].mesh) copy.result_attrs[i].set("sdy.sharding", ShardingAttr{specs[i]});
    special.results.push_back({specs[i], nullptr});
  }
  program_.graph.functions[index] = std::move(copy);
  return specials_.emplace(key, std::move(special)).first->second;
}

void Partitioner::region_nodes(RegionId source, RegionId target) {
  for (NodeId id : source_.region(source).nodes)
    if (!source_.node(id).def->has(kTerminator)) visit(id, target);
}

void Partitioner::ask_for(const Node& node) {
  asking_ = node.name();
  marks_ = {};
  for (std::string_view mark : {kOpAttr, kChangeAttr})
    if (const Attribute* attr = node.attrs.find(mark)) marks_.set(mark, *attr);
}

void Partitioner::terminate(RegionId source, RegionId target,
                            const std::vector<ShardingSpec>& specs) {
  const Node& terminator = source_.node(source_.terminator(source));
  ask_for(terminator);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < terminator.operands.size(); ++i)
    operands.push_back(use(terminator.operands[i], specs[i], target));
  emit(terminator, std::move(operands), {}, target);
}

void Partitioner::visit(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  ask_for(node);
  switch (flow_of(node)) {
    case Flow::Call:
      return visit_call(id, target);
    case Flow::Loop:
      return visit_while(id, target);
    case Flow::Branches:
      return visit_branches(id, target);
    case Flow::Manual:
      return visit_manual(id, target);
    case Flow::Named:
      return visit_named(id, target);
    case Flow::Barrier:
      return visit_barrier(id, target);
    case Flow::Scan:
    case Flow::None:
      break;
  }
  if (is<op::ShardingGroup>(node)) return;
  if (node.def->has(kSameValue) && visit_same_value(node, target)) return;
  visit_plain(id, target);
}

// The op only says how its operand is laid out from here on. False if that layout means nothing on
// this mesh, and the value is to be whole.
bool Partitioner::visit_same_value(const Node& node, RegionId target) {
  for (const char* key : {"out_sharding", "sharding"}) {
    const Attribute* attr = node.attrs.find(key);
    const auto* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
    if (!sharding || !usable(sharding->spec, node.name())) continue;
    define(node.results[0], in_layout(node, sharding->spec, target));
    wish(node.results[0], sharding->spec);
    return true;
  }
  if (!node.def->has(kSteersPropagation)) return false;
  define(node.results[0], current(node.operands[0]));
  return true;
}

ValueId Partitioner::in_layout(const Node& node, const ShardingSpec& spec, RegionId target) {
  if (!node.attrs.has(kSeparateAttr)) return use(node.operands[0], spec, target);
  const ValueId from = use_as_is(node.operands[0], target);
  if (spec_of(from).same_layout(spec)) return from;
  return reshard(from, spec, target, source_.type(node.results[0]).dtype);
}

bool Partitioner::has_several_users(ValueId source) const {
  NodeId first;
  for (const Use& use : uses_.uses(source)) {
    // Who keeps results takes them as they are.
    if (options_.keep_results && is<op::FuncReturn>(source_.node(use.node))) continue;
    if (first.valid() && use.node != first) return true;
    first = use.node;
  }
  return false;
}

// What an op only spreads is completed before it, while it is small, unless the result is to be
// pending.
bool Partitioner::spreads_complete(const Node& node, const Wanted& wanted) const {
  return spreads(source_, node) && !(wanted[0] && wanted[0]->is_partial()) &&
         !pending_.contains(node.results[0]);
}

void Partitioner::visit_plain(NodeId id, RegionId target) {
  const Node& node = source_.node(id);
  // The body of a reducer computes with whole values, whatever it takes from outside.
  for (ValueId captured : captured_values(source_, node.regions))
    use(captured, replicated(source_.type(captured)), target);
  const Wanted wanted = wanted_results(node);
  const bool planned = node.attrs.has(kPlannedAttr);
  const bool follows =
      !planned && std::none_of(wanted.begin(), wanted.end(), [](const auto& w) { return w; });
  bool is_held = false;
  std::vector<ShardingSpec> have;
  for (ValueId operand : node.operands) {
    have.push_back(spec_of(current(operand)));
    // Completed once for all its users; pending for a single one, or for several that combine it
    // with others.
    if (!planned && ((has_several_users(operand) && !completes_later(operand)) ||
                     spreads_complete(node, wanted)))
      have.back().partial.clear();
    // Results that were laid out by propagation have heeded the wishes already.
    if (follows) have.back() = with_wishes(operand, std::move(have.back()));
    is_held |= !have.back().replicated.empty();
  }
  const OpRule& rule = rules_.of(id);
  OpPartition how = partition_op(source_, node, rule, program_.mesh, have, wanted);
  for (size_t i = 0; i < node.results.size(); ++i) wish(node.results[i], how.results[i]);
  // Other ways to run it may use axes that an operand holds replicated.
  if (!is_held) {
    if (visit_in_rounds(node, how, have, wanted, target)) return;
    if (visit_running(node, how, wanted, target)) return;
    if (const auto moved = moved_to_another_dim(node, rule, how, have)) how = *moved;
  }
  const Width width = width_of(node, how);
  std::vector<ValueId> operands;
  if (how.halo && node.def->needs)
    operands = use_with_borders(node, how, width, target);
  else
    for (size_t i = 0; i < node.operands.size(); ++i)
      operands.push_back(use_at(width, node.operands[i], how.operands[i], target));
  const NodeId emitted = emit(node, std::move(operands), how.results, target, width);
  define_results(node, program_.graph.node(emitted).results, wanted, target);
}

void Partitioner::define_results(const Node& node, std::vector<ValueId> values,
                                 const Wanted& wanted, RegionId target) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId value = values[i];
    define(node.results[i], value);
    if (!wanted[i] || !spec_of(value).mesh) continue;
    ShardingSpec spec = *wanted[i];
    if (!spec.is_partial()) {
      AxisList used;
      for (const DimSpec& dim : spec.dims)
        used.insert(used.end(), dim.axes.begin(), dim.axes.end());
      spec.partial = without(spec_of(value).partial, used);
      spec.partial_op = spec_of(value).partial_op;
    }
    if (options_.results_are_wishes && is_only_returned(node.results[i]) &&
        moves(node.results[i], spec))
      continue;
    if (!spec.same_layout(spec_of(value))) use(node.results[i], spec, target);
  }
}

ValueId Partitioner::use(ValueId source, const ShardingSpec& spec, RegionId target) {
  std::vector<ValueId>& versions = versions_[source.index];
  internal_check(!versions.empty(), "a value is used before it is partitioned");
  if (!spec.mesh) return versions.back();
  const Type& type = source_.type(source);
  auto keep = [&](ValueId made) {
    versions.push_back(made);
    made_.push_back(source);
    return made;
  };
  ValueId wide;
  for (ValueId version : versions) {
    if (!spec_of(version).mesh || !spec_of(version).same_layout(spec)) continue;
    if (!is_wide(source, version)) return version;
    wide = version;
  }
  if (wide.valid()) return keep(convert(wide, type.dtype, target));
  ValueId from = versions.back();
  if (versions.size() > 1) {
    const bool has_wide_sum = has_wide(source);
    double best = std::numeric_limits<double>::infinity();
    for (ValueId version : versions) {
      // Parts that have been rounded already are no source while there are others.
      if (has_wide_sum && !is_wide(source, version) && spec_of(version).is_partial()) continue;
      const double seconds = resharder_.seconds(spec_of(version), spec, type.shape,
                                                program_.graph.type(version).dtype);
      if (seconds < best) from = version;
      best = std::min(best, seconds);
    }
  }
  if (is_remade(source) && moves(source, spec))
    if (const std::optional<ValueId> again = remake(source, spec, target)) return keep(*again);
  const ValueId made = keep(reshard(from, spec, target, type.dtype));
  return is_wide(source, made) ? keep(convert(made, type.dtype, target)) : made;
}

bool Partitioner::moves(ValueId source, const ShardingSpec& spec) {
  const std::vector<ValueId>& versions = versions_[source.index];
  return std::none_of(versions.begin(), versions.end(), [&](ValueId version) {
    if (!spec.mesh || !spec_of(version).mesh || spec_of(version).same_layout(spec)) return true;
    const Type& type = program_.graph.type(version);
    return resharder_.plan(spec_of(version), spec, type.shape, type.dtype).bytes == 0;
  });
}

bool Partitioner::is_only_returned(ValueId source) const {
  const auto uses = uses_.uses(source);
  return !uses.empty() && std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return is<op::FuncReturn>(source_.node(use.node));
  });
}

ShardingSpec Partitioner::complete_spec(ValueId source) const {
  ShardingSpec spec = spec_of(current(source));
  spec.partial.clear();
  return spec;
}

ShardingSpec Partitioner::kept_spec(ValueId source) const {
  const std::vector<ValueId>& versions = versions_[source.index];
  const ShardingSpec& made = spec_of(versions.front());
  for (ValueId version : versions)
    if (made.is_partial() && !spec_of(version).is_partial() && spec_of(version).dims == made.dims)
      return spec_of(version);
  return made;
}

ShardingSpec Partitioner::replicated(const Type& type) const {
  return whole_layout(program_.mesh, type);
}

Partitioner::Wanted Partitioner::wanted_results(const Node& node) const {
  Wanted wanted(node.results.size());
  const Attribute* attr = node.attrs.find("sdy.sharding");
  if (!attr) return wanted;
  if (const auto* per_value = attr->as<ShardingsAttr>())
    for (size_t i = 0; i < wanted.size() && i < per_value->specs.size(); ++i)
      if (usable(per_value->specs[i], node.name())) wanted[i] = per_value->specs[i];
  if (const auto* one = attr->as<ShardingAttr>(); one && wanted.size() == 1)
    if (usable(one->spec, node.name())) wanted[0] = one->spec;
  for (auto& spec : wanted)
    if (spec)
      for (DimSpec& dim : spec->dims) dim.priority.reset();  // they have had their say
  return wanted;
}

NodeId Partitioner::emit(const Node& like, std::vector<ValueId> operands,
                         std::vector<ShardingSpec> results, RegionId target, Width width) {
  std::vector<Type> types;
  for (ValueId result : like.results) {
    types.push_back(source_.type(result));
    if (width != Width::AsIs && is_half(types.back().dtype)) types.back().dtype = DType::F32;
  }
  AttrDict attrs = like.attrs;
  attrs.erase("sdy.sharding");
  attrs.erase(kPlannedAttr);
  const NodeId id = add(like.name(), std::move(operands), std::move(types), std::move(attrs),
                        std::move(results), target);
  program_.graph.node(id).location = like.location;
  for (size_t i = 0; i < like.results.size(); ++i)
    program_.graph.value(program_.graph.node(id).results[i]).name =
        source_.value(like.results[i]).name;
  const bool flows = like.def->has(kDataFlow);
  if (flows || like.regions.empty()) return id;
  // Regions of scalar code see only their own arguments, and values from outside as a whole.
  if (width == Width::Wide)
    add_sum_body(program_.graph, program_.graph.add_region(id));
  else
    copy_regions(like, id);
  program_.layouts.resize(program_.graph.num_values());
  return id;
}

void Partitioner::copy_regions(const Node& like, NodeId to) {
  const std::vector<ValueId> captured = captured_values(source_, like.regions);
  std::vector<ValueId> before;
  Cloner clone(source_, program_.graph, &latest_);
  for (ValueId value : captured) {
    before.push_back(latest_[value]);
    const ShardingSpec whole = replicated(source_.type(value));
    for (ValueId version : versions_[value.index])
      if (!whole.mesh || spec_of(version).same_layout(whole)) latest_.set(value, version);
  }
  for (RegionId region : like.regions) {
    const RegionId copy = program_.graph.add_region(to);
    clone.region(region, copy);
    remove_identities(program_.graph, copy);  // a scalar has no layout
  }
  latest_.set(captured, before);
  program_.layouts.resize(program_.graph.num_values());
}

NodeId Partitioner::add(std::string_view op, std::vector<ValueId> operands, std::vector<Type> types,
                        AttrDict attrs, std::vector<ShardingSpec> layouts, RegionId target) {
  for (const NamedAttribute& mark : marks_.entries())
    if (!attrs.has(mark.name)) attrs.set(mark.name, mark.value);
  const NodeId id =
      program_.graph.add_node(op, std::move(operands), std::move(types), std::move(attrs));
  program_.graph.append(target, id);
  program_.layouts.resize(program_.graph.num_values());
  for (size_t i = 0; i < layouts.size(); ++i)
    set_layout(program_.graph.node(id).results[i], std::move(layouts[i]));
  return id;
}

ValueId Partitioner::add_argument(RegionId region, ValueId source, const ShardingSpec& spec) {
  const ValueId value =
      program_.graph.add_argument(region, source_.type(source), source_.value(source).name);
  set_layout(value, spec);
  define(source, value);
  return value;
}

void Partitioner::define(ValueId source, ValueId value) {
  versions_[source.index] = {value};
  latest_.set(source, value);
}

void Partitioner::set_layout(ValueId value, ShardingSpec spec) {
  program_.layouts.resize(program_.graph.num_values());
  for (DimSpec& dim : spec.dims) {
    dim.open = false;
    dim.priority.reset();
  }
  spec.replicated.clear();
  program_.layouts[value.index] = {std::move(spec), nullptr};
}

}  // namespace cleave
