#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/runtime/record.h"
#include "cleave/transforms/call_key.h"
#include "cleave/transforms/trace.h"

namespace cleave {

namespace pjrt {
class TensorProgram;
}

namespace compile_detail {

// A traced function made ready to run: propagated and partitioned if its arguments are on a
// mesh, simplified, fused, with a memory plan.
class Compiled {
 public:
  // `options.donate` counts leaves.
  Compiled(Trace trace, std::span<const Tensor> leaves, const CompileOptions& options);
  // A program that exists, of a function of arguments of these types; `captures` come after them.
  Compiled(Program program, std::span<const Type> args, std::vector<Tensor> captures,
           const CompileOptions& options);
  ~Compiled();

  // Whether the leaves have the same types and layouts, or are laid out as the program lays out
  // what was on no mesh.
  bool fits(std::span<const Tensor> leaves) const;
  std::vector<Tensor> run(std::span<const Tensor> leaves);
  // Whether the program takes the leaves in the layouts that they have, and gives this alone.
  bool keeps_layouts(std::span<const Tensor> leaves, const AvalPtr& result) const;
  std::string description() const;

 private:
  void take(Program program, std::span<const Type> result_types, const CompileOptions& options);
  void check_donated(std::span<const Tensor> inputs) const;
  std::vector<Tensor> run_xla(std::span<const Tensor> inputs, std::span<const Tensor> leaves);

  std::vector<AvalPtr> args_;          // as the caller has them
  std::vector<ShardingSpec> layouts_;  // as the program wants them; captures included
  std::vector<AvalPtr> results_;
  std::vector<Tensor> captures_;
  std::vector<size_t> donated_;  // leaves
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<pjrt::TensorProgram> xla_;  // one of the two
  std::string engine_;
};

bool any_traced(std::span<const Tensor> leaves);
// Whether ops that are called here belong to a trace, a branch or a function of one device: a
// compiled function is then f itself.
bool inside_another(std::span<const Tensor> leaves);

// A compiled function keeps this many programs, those that ran last.
inline constexpr size_t kMaxPrograms = 64;
// It warns when it has made this many for Tensors of the same types and layouts.
inline constexpr int64_t kManyPrograms = 5;
std::string many_programs_text(int64_t programs, const CallKey& key, const CallKey& before);

// The leaves of some arguments; argument i has counts[i] of them.
std::vector<size_t> leaves_of(std::span<const size_t> arguments, std::span<const size_t> counts);

}  // namespace compile_detail

// What a compiled function did so far.
struct CompiledStats {
  int64_t traces = 0;  // times that f ran: once per signature
  int64_t runs = 0;
  std::string last;     // of the program that ran last: steps, memory, times of passes
  std::string warning;  // the last one; see CompileOptions::warning
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
    const CallKey key = CallKey::of(args...);
    const std::vector<Tensor> leaves = trace_detail::flatten(args...);
    if (compile_detail::inside_another(leaves)) return R(f_(args...));
    std::lock_guard lock(state_->mutex);
    std::list<Entry>& entries = state_->entries;
    for (auto entry = entries.begin(); entry != entries.end(); ++entry)
      if (entry->result_type == &typeid(R) && entry->key == key && entry->program->fits(leaves)) {
        entries.splice(entries.begin(), entries, entry);
        return with_leaves(*static_cast<const R*>(entry->result.get()), run(*entry, leaves));
      }
    warn_of_many(key, leaves);
    CompileOptions options = options_;
    options.donate = compile_detail::leaves_of(options_.donate,
                                               std::vector<size_t>{cleave::leaves(args).size()...});
    auto call = trace_detail::trace_call(f_, args...);
    ++state_->traces;
    entries.push_front(
        {key, &typeid(R), std::make_shared<R>(std::move(call.result)),
         std::make_shared<compile_detail::Compiled>(std::move(call.trace), leaves, options)});
    if (entries.size() > compile_detail::kMaxPrograms) entries.pop_back();
    Entry& entry = entries.front();
    return with_leaves(*static_cast<const R*>(entry.result.get()), run(entry, leaves));
  }

  CompiledStats stats() const {
    std::lock_guard lock(state_->mutex);
    return {state_->traces, state_->runs,
            state_->last ? state_->last->description() : std::string(), state_->warning};
  }

 private:
  struct Entry {
    CallKey key;
    const std::type_info* result_type;
    std::shared_ptr<const void> result;  // a tree whose leaves are filled in
    std::shared_ptr<compile_detail::Compiled> program;
  };
  struct State {
    std::mutex mutex;
    std::list<Entry> entries;  // by signature, the last that ran first
    int64_t traces = 0, runs = 0;
    std::string warning;
    std::shared_ptr<const compile_detail::Compiled> last;
  };

  std::vector<Tensor> run(Entry& entry, std::span<const Tensor> leaves) const {
    ++state_->runs;
    state_->last = entry.program;
    return entry.program->run(leaves);
  }

  // Warns once for each signature of Tensors, when its programs become many.
  void warn_of_many(const CallKey& key, std::span<const Tensor> leaves) const {
    int64_t programs = 1;
    const CallKey* before = nullptr;
    for (const Entry& entry : state_->entries) {
      if (!entry.program->fits(leaves)) continue;
      ++programs;
      if (!before) before = &entry.key;
    }
    if (programs != compile_detail::kManyPrograms) return;
    state_->warning = compile_detail::many_programs_text(programs, key, *before);
    if (options_.warning) options_.warning(state_->warning);
  }

  F f_;
  CompileOptions options_;
  std::shared_ptr<State> state_;
};

// f, traced once for each signature of its arguments and run as one program. Arguments are computed
// first, results are computed when it returns.
//
//   auto step = compile(shard_map(value_and_grad(loss), mesh, {.in = {specs, P("data", {})}}));
//   auto [value, grads] = step(params, tokens);
//
// The signature has the types and layouts of the Tensors, the structure of the arguments and every
// value in them that is not a Tensor (cleave/transforms/call_key.h): another number is another
// program. What changes from call to call is passed as a Tensor, which is an input of one program:
//
//   auto step = compile([](const Tensor& w, const Tensor& g, const Tensor& rate) { ... });
//   for (...) w = step(w, g, scalar(schedule(i), DType::F32));    // and not double rate
//
// `warning` of the options is told when the same Tensors have led to five programs. The 64 programs
// that ran last are kept.
//
// Arguments that are donated give their memory to results, so that a training step updates its
// parameters in place; they have no value afterwards, and using them is a UserError:
//
//   auto train = compile(step, {.donate = {0, 1}});
//   std::tie(params, state) = train(params, state, batch);
//
// With {.engine = "xla"} XLA compiles and runs the program, on as many devices of its plugin as the
// mesh has. It does not wait: results are Tensors whose shards are on those devices, which the next
// call takes from there, and which are fetched when they are read.
//
// Tensors that f takes from outside keep the values that they have when f is traced. Inside
// another trace a compiled function is f itself, so that derivatives and batches of it are those
// of f. A function that reads values (item, to_host) cannot be traced, and gives a UserError.
template <typename F>
auto compile(F f, CompileOptions options = {}) {
  return CompiledFunction<F>(std::move(f), std::move(options));
}

}  // namespace cleave
