#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cleave/autoshard/planned_function.h"
#include "cleave/autoshard/tree_spec.h"

#include "cleave/plan/plan.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/runtime/manual_scope.h"
#include "cleave/transforms/call_key.h"
#include "cleave/transforms/compile.h"
#include "cleave/transforms/trace.h"

namespace cleave {

// A function over whole Tensors, planned and run over a mesh: see `autoshard`.
template <typename F>
class AutoshardedFunction {
 public:
  AutoshardedFunction(F f, MeshPtr mesh, int64_t devices, AutoshardOptions options)
      : f_(std::move(f)),
        mesh_(std::move(mesh)),
        devices_(devices),
        options_(std::move(options)),
        state_(std::make_shared<State>()) {}

  template <typename... Args>
  auto operator()(const Args&... args) const {
    using R = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    if (manual_scope() != nullptr) return R(f_(args...));
    const Entry entry = entry_for<R>(args...);
    return with_leaves(*static_cast<const R*>(entry.result.get()),
                       compile_detail::inside_another(leaves) ? entry.planned->replay(leaves)
                                                              : entry.planned->run(leaves));
  }

  // Plans for arguments like these, without running anything.
  template <typename... Args>
  void prepare(const Args&... args) const {
    using R = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
    entry_for<R>(args...);
  }

  // The plan of the last call (or `prepare`). Throws UserError if there was none.
  FunctionPlan plan() const { return FunctionPlan(last()); }
  // Runs the plan on virtual devices (or by the function's engine) and on one device, on smaller
  // tensors if they are large, and compares results, collectives, bytes and memory with what was
  // planned. Throws InternalError with the report if anything differs; returns the report.
  std::string verify() const { return last()->verify(); }
  void save_plan(const std::string& path) const { plan::write_plan(last()->plan(), path); }
  // How the planned function is made up: steps, memory, times of passes.
  std::string description() const { return last()->description(); }
  // Plans that were made or read so far.
  size_t num_plans() const {
    std::lock_guard lock(state_->mutex);
    return state_->made;
  }

  // A tree that is an argument of the function, laid out as planned for it. Before the first call
  // (or `prepare`) nothing is planned, and the tree is returned as it is: the call lays it out.
  template <typename T>
  T place(const T& tree) const {
    std::shared_ptr<autoshard_detail::PlannedFunction> planned;
    {
      std::lock_guard lock(state_->mutex);
      if (state_->entries.empty()) return tree;
      planned = state_->entries.front().planned;
    }
    return with_leaves(tree, planned->place(leaves(tree), typeid(T)));
  }

 private:
  struct Entry {
    std::optional<CallKey> key;
    std::vector<Type> types;
    const std::type_info* result_type = nullptr;
    std::shared_ptr<const void> result;  // a tree whose leaves are filled in
    std::shared_ptr<autoshard_detail::PlannedFunction> planned;
  };
  struct State {
    std::mutex mutex;
    std::list<Entry> entries;  // by signature, the last that ran first
    size_t made = 0;
  };

  std::shared_ptr<autoshard_detail::PlannedFunction> last() const {
    std::lock_guard lock(state_->mutex);
    if (state_->entries.empty()) autoshard_detail::throw_not_planned();
    return state_->entries.front().planned;
  }

  template <typename R, typename... Args>
  Entry entry_for(const Args&... args) const {
    CallKey key = CallKey::of(args...);
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    std::vector<Type> types = autoshard_detail::types_of(leaves);
    std::lock_guard lock(state_->mutex);
    std::list<Entry>& entries = state_->entries;
    for (auto entry = entries.begin(); entry != entries.end(); ++entry)
      if (*entry->result_type == typeid(R) && *entry->key == key && entry->types == types) {
        entries.splice(entries.begin(), entries, entry);
        return entries.front();
      }
    using namespace autoshard_detail;
    const WholeArguments whole(mesh_);
    size_t next = 0;
    auto inside = [&](const auto& tree) {
      return map_leaves([&](const Tensor&) { return whole.stand_in(types[next++]); }, tree);
    };
    const std::tuple<std::decay_t<Args>...> trees{inside(args)...};
    auto call =
        std::apply([&](const auto&... a) { return trace_detail::trace_call(f_, a...); }, trees);
    GivenSpecs specs;
    spec_detail::check_count("argument", options_.in.size(), sizeof...(Args));
    size_t index = 0;
    (spec_detail::add_specs(specs.in, options_.in, index++, args), ...);
    specs.out = spec_detail::result_specs(options_.out, call.result);
    std::vector<ArgumentTree> arguments{
        {&typeid(std::decay_t<Args>), cleave::leaves(args).size()}...};
    entries.push_front(
        {std::move(key), std::move(types), &typeid(R), std::make_shared<R>(std::move(call.result)),
         std::make_shared<PlannedFunction>(std::move(call.trace), mesh_, devices_,
                                           std::move(arguments), std::move(specs), options_)});
    ++state_->made;
    if (entries.size() > compile_detail::kMaxPrograms) entries.pop_back();
    return entries.front();
  }

  F f_;
  MeshPtr mesh_;  // null: chosen for `devices_`
  int64_t devices_;
  AutoshardOptions options_;
  std::shared_ptr<State> state_;
};

// f, written for whole tensors, over a mesh, in the layouts of the best plan for a machine: traced,
// planned and made ready once for each signature of its arguments, then run.
//
//   auto step = autoshard(train_step, mesh, {.machine = "h100", .memory = "80GiB"});
//   auto [state, loss] = step(place(step, state), batch);
//   print("{}", step.plan().explain());    // what was chosen, what it costs, why
//   step.verify();                         // as the function on one device; moved bytes as planned
//
// Arguments lie in any layout, or on no mesh; they are moved to where the plan wants them. What the
// caller fixes (`in`, `out`, `pins`, `with_sharding` inside f, the memory) holds, or there is a
// UserError that names what does not fit together. Inside another trace (grad, vmap, compile) the
// ops are recorded with the layouts of the plan.
template <typename F>
auto autoshard(F f, const Mesh& mesh, AutoshardOptions options = {}) {
  return AutoshardedFunction<F>(std::move(f), shared_mesh(mesh), mesh.num_devices(),
                                std::move(options));
}
// The same over so many devices; the mesh is chosen as well. Its axes are called "x" and "y".
template <typename F>
auto autoshard(F f, int64_t devices, AutoshardOptions options = {}) {
  autoshard_detail::check_devices(devices, options);
  return AutoshardedFunction<F>(std::move(f), nullptr, devices, std::move(options));
}

// place(step, state): see AutoshardedFunction::place.
template <typename F, typename T>
T place(const AutoshardedFunction<F>& function, const T& tree) {
  return function.place(tree);
}

// f as a graph, as the planner sees it.
//   extract(f, x, w).json()    docs/graph-json.md
template <typename F, typename... Args>
Extracted extract(const F& f, const Args&... args) {
  return {trace(f, TraceOptions{.other_sizes = false})(args...).graph};
}

}  // namespace cleave
