#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "cleave/core/seconds_now.h"
#include "cleave/transforms/tree.h"

// The loop around a train step: it calls the step with one batch after the other, and tells an
// observer what happened. It prints nothing and writes nothing; what saves, evaluates and listens
// is given.
//
//   auto step = compile(train_step, {.donate = {0}});          // (state, tokens) -> (metrics,
//   state) TrainLoop<State> loop{.step = step, .batch = [&](int64_t n) { return batches.tensor(n);
//   },
//                    .save = [&](const State& s, int64_t n) { ... }};
//   const LoopEnd end = run_loop(state, loop, {.steps = 1000, .save_every = 100}, observer);
namespace cleave::train {

// What a step says about itself: numbers by name. "loss" must be among them.
using Metrics = std::map<std::string, Tensor>;

struct StepRecord {
  int64_t step = 0;  // steps made, this one included
  double loss = 0;
  std::map<std::string, double> metrics = {};  // the others: "rate", "norm", ...
  double seconds = 0;            // from the end of the step before to the end of this one
  double tokens_per_second = 0;  // 0: not known
  double utilization = 0;        // MFU; 0: not known
  int64_t memory = 0;            // bytes of tensors on the fullest device, between steps
  bool skipped = false;          // the loss was not finite, and the loop went on
};
struct EvaluationRecord {
  int64_t step = 0;
  double loss = 0;
  double seconds = 0;
};
struct SaveRecord {
  int64_t step = 0;
  double seconds = 0;
};

class LoopObserver {
 public:
  virtual ~LoopObserver() = default;
  virtual void on_step(const StepRecord&) {}
  virtual void on_evaluation(const EvaluationRecord&) {}
  virtual void on_save(const SaveRecord&) {}
};

struct LoopOptions {
  int64_t first = 0;  // steps that were made before: 0, or those of the checkpoint
  int64_t steps = 0;  // steps made at the end, those before included
  // Metrics are read after so many steps, of all of them, in order. Engines that do not wait keep
  // working until then.
  int64_t read_every = 1;
  int64_t evaluate_every = 0;  // 0: only at the end, if there is something to evaluate with
  int64_t save_every = 0;      // 0: only at the end
  double tokens = 0;           // of a batch
  double flops = 0;            // of the model, a step
  double peak_flops = 0;       // of all devices, a second
  // A loss that is not finite ends the loop, unless the step leaves such batches out by itself, as
  // with a scaled loss; then this many in a row end it.
  int64_t most_skipped = 0;
  std::stop_token stop = {};  // ends the loop after the step that runs, and saves
};

enum class LoopEndKind : uint8_t { Done, Stopped, NotFinite };
struct LoopEnd {
  LoopEndKind kind = LoopEndKind::Done;
  int64_t step = 0;         // steps made
  int64_t last_save = -1;   // the step of the last checkpoint that this loop made; -1: none
  double loss = 0;          // of the last step
  std::string reason = {};  // of NotFinite, one line
};

template <typename State>
struct TrainLoop {
  // (state, batch) -> (metrics, next state). The state may be donated.
  std::function<std::pair<Metrics, State>(const State&, const Tensor&)> step;
  std::function<Tensor(int64_t)> batch;  // of step n, from 0 on; called once each, in order
  std::function<double(const State&)> evaluate = {};
  std::function<void(const State&, int64_t)> save = {};
};

namespace loop_detail {

// Whether all ranks go on: if one of them was asked to stop, all of them do, after the same step.
bool agreed_to_stop(const std::stop_token& stop);
std::string not_finite_text(const StepRecord& record, int64_t last_save, int64_t in_a_row);
void check(const LoopOptions& options);

// Reads metrics, and passes them on.
class StepReader {
 public:
  StepReader(const LoopOptions& options, LoopObserver& observer)
      : options_(options), observer_(observer), last_(seconds_now()) {}
  void add(int64_t step, Metrics metrics) { waiting_.emplace_back(step, std::move(metrics)); }
  bool is_due() const { return static_cast<int64_t>(waiting_.size()) >= options_.read_every; }
  // False: the loop must end; `end` says why.
  bool read(LoopEnd& end);
  void forget_time() { last_ = seconds_now(); }  // what was done between two steps is not theirs

 private:
  const LoopOptions& options_;
  LoopObserver& observer_;
  std::deque<std::pair<int64_t, Metrics>> waiting_;
  double last_;
  int64_t in_a_row_ = 0;  // losses that were not finite
};

}  // namespace loop_detail

// `state` is that of the last step when it returns. On Done and Stopped it has been saved; on
// NotFinite it has not, so that the checkpoint before is the last one.
template <typename State>
LoopEnd run_loop(State& state, const TrainLoop<State>& loop, const LoopOptions& options,
                 LoopObserver& observer) {
  using namespace loop_detail;
  check(options);
  LoopEnd end{.step = options.first};
  StepReader reader(options, observer);
  const auto is_due = [&](int64_t every) { return every > 0 && end.step % every == 0; };
  const auto save = [&] {
    if (!loop.save || end.last_save == end.step) return;
    const double start = seconds_now();
    loop.save(state, end.step);
    end.last_save = end.step;
    observer.on_save({end.step, seconds_now() - start});
  };
  const auto evaluate = [&] {
    if (!loop.evaluate) return;
    const double start = seconds_now();
    const double loss = loop.evaluate(state);
    observer.on_evaluation({end.step, loss, seconds_now() - start});
  };
  while (end.step < options.steps) {
    auto [metrics, next] = loop.step(state, loop.batch(end.step));
    state = std::move(next);
    reader.add(++end.step, std::move(metrics));
    const bool is_last = end.step == options.steps;
    const bool stops = agreed_to_stop(options.stop);
    const bool saves = is_due(options.save_every) || is_last || stops;
    const bool evaluates = is_due(options.evaluate_every) || is_last;
    if ((reader.is_due() || saves || evaluates) && !reader.read(end)) return end;
    if (saves) save();
    if (evaluates && !stops) evaluate();
    if (saves || evaluates) reader.forget_time();
    if (stops && !is_last) {
      end.kind = LoopEndKind::Stopped;
      return end;
    }
  }
  return end;
}

}  // namespace cleave::train
