#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/runtime/record.h"
#include "cleave/transforms/trace.h"

namespace cleave {

namespace compile_detail {

// A traced function made ready to run: propagated and partitioned where its arguments are on a
// mesh, simplified, fused, with a memory plan.
class Compiled {
 public:
  // `options.donate` counts leaves.
  Compiled(Trace trace, std::span<const Tensor> leaves, const CompileOptions& options);

  bool fits(std::span<const Tensor> leaves) const;  // of the same types and layouts
  std::vector<Tensor> run(std::span<const Tensor> leaves);
  const Executable& executable() const { return *executable_; }

 private:
  std::vector<AvalPtr> args_;          // as the caller has them
  std::vector<ShardingSpec> layouts_;  // as the program wants them; captures included
  std::vector<AvalPtr> results_;
  std::vector<Tensor> captures_;
  std::vector<size_t> donated_;  // leaves
  std::unique_ptr<Executable> executable_;
};

bool any_traced(std::span<const Tensor> leaves);

// The leaves of some arguments, where argument i has counts[i] of them.
std::vector<size_t> leaves_of(std::span<const size_t> arguments, std::span<const size_t> counts);

}  // namespace compile_detail

// What a compiled function did so far.
struct CompiledStats {
  int64_t traces = 0;  // times that f ran: once per signature
  int64_t runs = 0;
  std::string last;  // of the program that ran last: steps, memory, times of passes
};

// f as a compiled function: see `compile`.
template <typename F>
class CompiledFunction {
 public:
  CompiledFunction(F f, CompileOptions options)
      : f_(std::move(f)), options_(std::move(options)), state_(std::make_shared<State>()) {}

  template <typename... Args>
  auto operator()(const Args&... args) const {
    using R = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    if (compile_detail::any_traced(leaves)) return R(f_(args...));
    std::lock_guard lock(state_->mutex);
    for (Entry& entry : state_->entries)
      if (entry.result_type == &typeid(R) && entry.program.fits(leaves)) {
        return with_leaves(*static_cast<const R*>(entry.result.get()), run(entry, leaves));
      }
    CompileOptions options = options_;
    options.donate = compile_detail::leaves_of(options_.donate,
                                               std::vector<size_t>{cleave::leaves(args).size()...});
    auto call = trace_detail::trace_call(f_, args...);
    ++state_->traces;
    state_->entries.push_back({&typeid(R),
                               std::make_shared<R>(std::move(call.result)),
                               {std::move(call.trace), leaves, options}});
    Entry& entry = state_->entries.back();
    return with_leaves(*static_cast<const R*>(entry.result.get()), run(entry, leaves));
  }

  CompiledStats stats() const {
    std::lock_guard lock(state_->mutex);
    return {state_->traces, state_->runs, state_->last ? describe(*state_->last) : std::string()};
  }

 private:
  struct Entry {
    const std::type_info* result_type;
    std::shared_ptr<const void> result;  // a tree whose leaves are filled in
    compile_detail::Compiled program;
  };
  struct State {
    std::mutex mutex;
    std::list<Entry> entries;  // by signature
    int64_t traces = 0, runs = 0;
    const Executable* last = nullptr;
  };

  std::vector<Tensor> run(Entry& entry, std::span<const Tensor> leaves) const {
    ++state_->runs;
    state_->last = &entry.program.executable();
    return entry.program.run(leaves);
  }

  F f_;
  CompileOptions options_;
  std::shared_ptr<State> state_;
};

// f, traced once for each signature of its arguments (types and layouts of the leaves) and run as
// one program. Arguments are computed first, results are computed when it returns.
//
//   auto step = compile(shard_map(value_and_grad(loss), mesh, {.in = {specs, P("data", {})}}));
//   auto [value, grads] = step(params, tokens);
//
// Arguments that are donated give their memory to results, so that a training step updates its
// parameters in place; they have no value afterwards, and using them is a UserError:
//
//   auto train = compile(step, {.donate = {0, 1}});
//   std::tie(params, state) = train(params, state, batch);
//
// Tensors that f takes from outside keep the values that they have when f is traced. Inside
// another trace a compiled function is f itself, so that derivatives and batches of it are those
// of f. A function that looks at values (item, to_host) cannot be traced: UserError.
template <typename F>
auto compile(F f, CompileOptions options = {}) {
  return CompiledFunction<F>(std::move(f), std::move(options));
}

}  // namespace cleave
