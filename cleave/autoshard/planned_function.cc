#include "cleave/autoshard/planned_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/pjrt/engine.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/infeasible.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/solvers.h"
#include "cleave/plan/verify_on_xla.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/world.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {

std::string Extracted::json() const { return graph_to_json(graph); }
std::string Extracted::text() const { return print_module(graph); }

std::string FunctionPlan::explain_op(const std::string& op) const {
  return plan::explain_op(planned_->plan(), planned_->graph(), planned_->profile(), op);
}

namespace autoshard_detail {
namespace {

constexpr const char* kDonated = "jax.buffer_donor";
constexpr const char* kAliased = "tf.aliasing_output";

// Of every product, so many ways to run it are said.
constexpr size_t kMostShown = 4;
// A size that every axis divides, for layouts of values that are not known yet.
constexpr int64_t kAnySize = int64_t{1} << 40;

// A donated argument gives its memory to the next result of its type: state that a step takes and
// gives back stands in the same order on both sides.
void mark_donated(Function& function, std::span<const size_t> donated) {
  std::vector<bool> taken(function.result_types.size());
  size_t next = 0;
  auto find = [&](const Type& type, size_t from, size_t to) {
    for (size_t r = from; r < to; ++r)
      if (!taken[r] && function.result_types[r] == type) return r;
    return taken.size();
  };
  for (size_t leaf : donated) {
    size_t r = find(function.arg_types[leaf], next, taken.size());
    if (r == taken.size()) r = find(function.arg_types[leaf], 0, next);
    if (r == taken.size()) {
      function.arg_attrs[leaf].set(kDonated, int_attr(1, DType::Bool));
      continue;
    }
    taken[r] = true;
    next = r + 1;
    function.arg_attrs[leaf].set(kAliased, int_attr(static_cast<int64_t>(r), DType::I32));
  }
}

// Leaves the changes of layout of a plan, and takes away what only `partition` understands: every
// op then follows from its operands, as it does whenever it is recorded.
void forget_marks(Graph& graph) {
  graph.walk([&](NodeId id) {
    AttrDict& attrs = graph.node(id).attrs;
    if (attrs.has(kPlannedAttr)) attrs.erase(kShardingAttr);
    attrs.erase(kPlannedAttr);
    attrs.erase(kSeparateAttr);
  });
}

}  // namespace

std::vector<Type> types_of(std::span<const Tensor> leaves) {
  std::vector<Type> types;
  for (const Tensor& leaf : leaves) {
    if (!leaf.valid())
      throw_user("autoshard: an argument is, or holds, an empty Tensor: assign it a value first");
    types.push_back(leaf.type());
  }
  return types;
}

void throw_not_planned() {
  throw_user("autoshard: nothing is planned yet; call the function first, or prepare(arguments)");
}

void check_devices(int64_t devices, const AutoshardOptions& options) {
  if (devices < 1) throw_user("autoshard: {} devices; a positive number is needed", devices);
  if (!options.in.empty() || !options.out.empty() || !options.pins.empty())
    throw_user(
        "autoshard: specs and pins speak of axes of a mesh, and for a number of devices ({}) the "
        "mesh is chosen; give a mesh instead",
        devices);
}

Tensor WholeArguments::stand_in(const Type& type) const {
  if (!mesh_) return scope_.placeholder(type);
  return scope_.placeholder(type, ShardingSpec::closed_replicated(mesh_, type.shape.size()));
}

PlannedFunction::PlannedFunction(Trace trace, const MeshPtr& mesh, int64_t devices,
                                 std::vector<ArgumentTree> arguments, GivenSpecs specs,
                                 const AutoshardOptions& options)
    : options_(options),
      arguments_(std::move(arguments)),
      arg_names_(std::move(trace.arg_names)),
      captures_(std::move(trace.captures)),
      graph_(std::move(trace.graph)),
      profile_(load_profile(options.machine)),
      mesh_(mesh) {
  std::vector<size_t> counts;
  for (const ArgumentTree& argument : arguments_) counts.push_back(argument.leaves);
  donated_ = compile_detail::leaves_of(options_.donate, counts);
  annotate(specs);
  say(fmt::format("Phase 1: traced {} arguments, {} captured tensors, {} results",
                  arg_names_.size(), captures_.size(), graph_.functions[0].result_types.size()));
  make_plan(devices);
  say_choices();
}

std::vector<std::string> PlannedFunction::argument_names() const {
  std::vector<std::string> names = arg_names_;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = fmt::format("arg{}", i);
  return names;
}

// What was given, as annotations of arguments and results, which the planner takes for pins.
void PlannedFunction::annotate(const GivenSpecs& specs) {
  Function& function = graph_.functions[0];
  function.arg_attrs.resize(function.arg_types.size());
  function.result_attrs.resize(function.result_types.size());
  for (AttrDict& attrs : function.arg_attrs) attrs.erase(kShardingAttr);
  if (!mesh_) return mark_donated(function, donated_);
  graph_.meshes = {mesh_};
  std::vector<std::optional<PartitionSpec>> in = specs.in;
  const std::vector<std::string> names = argument_names();
  for (const auto& [pattern, spec] : options_.pins) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!plan::matches_pattern(names[i], pattern)) continue;
      const bool any_rank = pattern.find('*') != std::string::npos;
      if (any_rank && spec.entries.size() > function.arg_types[i].shape.size()) continue;
      in[i] = spec;
    }
  }
  auto set = [&](AttrDict& attrs, const std::optional<PartitionSpec>& spec, const Type& type) {
    if (spec) attrs.set(kShardingAttr, ShardingAttr{to_sharding(*spec, mesh_, type.shape)});
  };
  for (size_t i = 0; i < in.size(); ++i) set(function.arg_attrs[i], in[i], function.arg_types[i]);
  for (size_t i = 0; i < specs.out.size(); ++i)
    set(function.result_attrs[i], specs.out[i], function.result_types[i]);
  mark_donated(function, donated_);
}

void PlannedFunction::say(const std::string& line) const {
  if (options_.trace) return options_.trace("[autoshard] " + line);
  if (options_.debug) fmt::print(stderr, "[autoshard] {}\n", line);
}

// Pins that name no argument are for the planner, which knows all values.
std::vector<plan::Pin> PlannedFunction::value_pins() const {
  std::vector<plan::Pin> pins;
  for (const auto& [pattern, spec] : options_.pins) {
    const bool is_argument = std::ranges::any_of(
        argument_names(),
        [&, &p = pattern](const auto& name) { return plan::matches_pattern(name, p); });
    if (is_argument) continue;
    plan::Pin pin{.pattern = pattern, .spec = {}, .text = {}};
    pin.spec = to_sharding(spec, mesh_, Shape(spec.entries.size(), kAnySize));
    pin.text = pattern + "=" + to_string(pin.spec);
    pins.push_back(std::move(pin));
  }
  return pins;
}

plan::PlannerOptions PlannedFunction::planner_options() const {
  plan::PlannerOptions how;
  how.mesh = mesh_;
  how.profile = &profile_;
  how.machine = options_.machine;
  how.memory_share = options_.memory_share.value_or(profile_.executor.memory_share);
  if (!(how.memory_share > 0 && how.memory_share <= 1))
    throw_user("autoshard: memory_share {}: it must be above 0 and at most 1", how.memory_share);
  const double bytes = options_.memory.empty() ? profile_.memory_bytes
                                               : static_cast<double>(parse_bytes(options_.memory));
  how.memory = static_cast<int64_t>(how.memory_share * bytes);
  if (mesh_) how.pins = value_pins();
  how.entry = graph_.functions[0].name;
  how.objective = options_.objective;
  how.every_layout = options_.every_layout;
  how.sub_axes = options_.sub_axes;
  how.time_limit = options_.time_limit;
  how.gap = options_.gap;
  how.stop = options_.stop;
  // All ranks must find the same plan, so that the clock of none of them may end the search.
  if (World::of_process()) {
    how.effort = solver::default_effort(options_.time_limit);
    how.time_limit = 1e6;
  }
  if (options_.debug || options_.trace)
    how.trace = [this](const std::string& line) { say("  solver: " + line); };
  return how;
}

// The fastest plan of all meshes of so many devices.
plan::PlannerResult PlannedFunction::solve_for_any_mesh(const plan::PlannerOptions& how,
                                                        int64_t devices) const {
  const std::vector<int64_t> limits{*how.memory};
  std::vector<plan::MeshCandidate> candidates =
      plan::search_meshes(graph_, plan::mesh_shapes(devices, 2), limits, how);
  for (const plan::MeshCandidate& c : candidates)
    say(fmt::format(
        "  {}: {}", to_string(*c.mesh),
        c.result.plan ? seconds_text(c.result.plan->totals.step_seconds, 3) : c.result.reason));
  const int best = plan::fastest_by_limit(candidates, limits)[0];
  if (best < 0) return candidates.empty() ? plan::PlannerResult{} : candidates[0].result;
  return std::move(candidates[static_cast<size_t>(best)].result);
}

void PlannedFunction::make_plan(int64_t devices) {
  const plan::PlannerOptions how = planner_options();
  if (!options_.plan.empty()) {
    say("Phase 2: the plan of " + options_.plan);
    plan_ = plan::read_plan(options_.plan);
    if (mesh_ && plan_.mesh->axes != mesh_->axes)
      throw_user("autoshard: {} is a plan for {}, and the function is for {}", options_.plan,
                 to_string(*plan_.mesh), to_string(*mesh_));
    profile_ = load_profile(plan_.machine);
  } else {
    say(fmt::format("Phase 2: plan by {} for {}", options_.solver, options_.machine));
    plan::PlannerResult result =
        mesh_ ? plan::plan_by(options_.solver, graph_, how) : solve_for_any_mesh(how, devices);
    if (!result.plan) {
      const bool knows_why = mesh_ && options_.solver == "cleave" && !result.cut;
      throw_user("autoshard: {}",
                 knows_why ? plan::explain_infeasible(graph_, how).line() : result.reason);
    }
    plan_ = std::move(*result.plan);
    plan_.source = "autoshard";
  }
  if (!mesh_) mesh_ = shared_mesh(*plan_.mesh);
  plan::bind(plan_, plan::flatten(graph_, plan_.entry));  // a plan of another function is refused
}

// When it first runs: a program holds its memory, and what is only planned may be of any size.
compile_detail::Compiled& PlannedFunction::compiled() {
  if (compiled_) return *compiled_;
  const Graph flat = plan::flatten(graph_, plan_.entry, profile_);
  Program program = plan::partition_planned(plan::bind(plan_, flat), profile_);
  CompileOptions how;
  how.donate = donated_;
  how.engine = options_.engine;
  if (!options_.compiled) how.passes.clear();
  for (size_t i = 0; i < captures_.size(); ++i)
    captures_[i] = captures_[i].with_sharding(layout(arg_names_.size() + i));
  const std::vector<Type>& types = graph_.functions[0].arg_types;
  compiled_ = std::make_unique<compile_detail::Compiled>(
      std::move(program), std::span(types).first(arg_names_.size()), captures_, how);
  return *compiled_;
}

ShardingSpec PlannedFunction::layout(size_t argument) const {
  ShardingSpec spec = plan_.values[argument].spec;
  spec.mesh = mesh_;
  return spec;
}

std::vector<Tensor> PlannedFunction::run(std::span<const Tensor> leaves) {
  std::lock_guard lock(running_);
  return compiled().run(leaves);
}

std::vector<Tensor> PlannedFunction::replay(std::span<const Tensor> leaves) const {
  std::vector<Tensor> operands(leaves.begin(), leaves.end());
  operands.insert(operands.end(), captures_.begin(), captures_.end());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = operands[i].with_sharding(layout(i));
  Graph applied = plan::apply(plan_, graph_);
  forget_marks(applied);
  return cleave::replay(applied, *applied.find_function(plan_.entry), operands);
}

std::vector<Tensor> PlannedFunction::place(std::vector<Tensor> leaves,
                                           const std::type_info& type) const {
  const std::vector<Type>& types = graph_.functions[0].arg_types;
  size_t first = 0;
  for (const ArgumentTree& argument : arguments_) {
    bool same = *argument.type == type && argument.leaves == leaves.size();
    for (size_t i = 0; same && i < leaves.size(); ++i)
      same = leaves[i].valid() && leaves[i].type() == types[first + i];
    if (!same) {
      first += argument.leaves;
      continue;
    }
    for (size_t i = 0; i < leaves.size(); ++i)
      leaves[i] = leaves[i].with_sharding(layout(first + i));
    evaluate(leaves);
    return leaves;
  }
  throw_user(
      "place: no argument of the function is such a tree, of these types: the plan is for other "
      "sizes, or for another function");
}

std::string PlannedFunction::explain() const { return plan::explain_plan(plan_, graph_, profile_); }

std::string PlannedFunction::description() {
  std::lock_guard lock(running_);
  return compiled().description();
}

std::string PlannedFunction::verify() const {
  std::string text;
  bool good = false;
  if (pjrt::is_xla_engine(options_.engine)) {
    const plan::XlaVerification found =
        plan::verify_on_xla(plan_, graph_, profile_, options_.engine);
    good = found.good();
    text = to_string(found);
  } else {
    const plan::PlanVerification found = plan::verify_plan(plan_, graph_, profile_);
    good = found.good();
    text = to_string(found);
  }
  if (!good) throw InternalError("autoshard: the plan is not what runs:\n" + text);
  return text;
}

// What was chosen for every product, beside the next best ways.
void PlannedFunction::say_choices() const {
  if (!options_.debug && !options_.trace) return;
  say("Phase 3: choices");
  const Graph flat = plan::flatten(graph_, plan_.entry, profile_);
  for (const plan::NamedPattern& pattern : plan::named_patterns(plan::bind(plan_, flat))) {
    std::string names;
    for (const std::string& name : pattern.names) names += (names.empty() ? "" : ", ") + name;
    say(fmt::format(
        "  {}{}: {}", pattern.ops[0],
        pattern.ops.size() > 1 ? fmt::format(" and {} more", pattern.ops.size() - 1) : "",
        names.empty() ? "replicated" : names));
    const std::vector<plan::Alternative> ways =
        plan::alternatives(plan_, graph_, profile_, pattern.ops[0]);
    for (size_t i = 0; i < ways.size() && i < kMostShown; ++i)
      say(fmt::format("    {} {:>10}  {}", ways[i].chosen ? "->" : "  ",
                      seconds_text(ways[i].seconds(), 3), ways[i].layouts));
  }
  for (const plan::CollectiveTotal& total : plan_.totals.collectives)
    say(fmt::format("  {} {} x{:.0f}, {} received", total.kind, total.axes, total.count,
                    bytes_text(total.bytes, BytesStyle::Table)));
  for (const std::string& note : plan_.notes) say("  note: " + note);
  say("Phase 4: " + plan::step_text(plan_, 3));
}

}  // namespace autoshard_detail
}  // namespace cleave
