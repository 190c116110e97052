#include "cleave/train/loop.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/world.h"

namespace cleave::train::loop_detail {

bool agreed_to_stop(const std::stop_token& stop) {
  World* world = World::of_process();
  if (!world || world->size() == 1) return stop.stop_requested();
  const auto own = static_cast<int32_t>(stop.stop_requested());
  bool any = false;
  for (const std::vector<Array>& rank :
       world->gather({Array::scalar<int32_t>(DType::I32, own)}, "the wish to stop"))
    any |= *rank[0].data<int32_t>() != 0;
  return any;
}

std::string not_finite_text(const StepRecord& record, int64_t last_save, int64_t in_a_row) {
  std::string text = fmt::format("the loss is {} at step {}", record.loss, record.step);
  if (in_a_row > 1) text += fmt::format(", and was not finite {} times in a row", in_a_row);
  text += last_save >= 0 ? fmt::format("; the last checkpoint is that of step {}", last_save)
                         : "; there is no checkpoint of this run yet";
  return text + "; a lower rate, a longer warmup or clipped gradients may help";
}

void check(const LoopOptions& options) {
  if (options.steps < 0 || options.first < 0)
    throw_user("a loop from step {} to step {}: there are no negative steps", options.first,
               options.steps);
  if (options.read_every < 1)
    throw_user("metrics are read every {} steps: it must be at least 1", options.read_every);
}

bool StepReader::read(LoopEnd& end) {
  const auto count = static_cast<double>(waiting_.size());
  if (waiting_.empty()) return true;
  std::vector<StepRecord> records;
  for (auto& [step, metrics] : waiting_) {
    StepRecord record{.step = step};
    if (!metrics.contains("loss"))
      throw_user("the step of a loop gives no metric 'loss'; it must be among its metrics");
    for (const auto& [name, value] : metrics)
      (name == "loss" ? record.loss : record.metrics[name]) = value.item();
    records.push_back(std::move(record));
  }
  waiting_.clear();
  const double now = seconds_now(), seconds = (now - last_) / count;
  last_ = now;
  const std::vector<int64_t> memory = memory_in_use();
  for (StepRecord& record : records) {
    record.seconds = seconds;
    if (seconds > 0) record.tokens_per_second = options_.tokens / seconds;
    if (seconds > 0 && options_.peak_flops > 0)
      record.utilization = options_.flops / seconds / options_.peak_flops;
    if (!memory.empty()) record.memory = *std::max_element(memory.begin(), memory.end());
    const bool is_finite = std::isfinite(record.loss);
    in_a_row_ = is_finite ? 0 : in_a_row_ + 1;
    record.skipped = !is_finite && options_.most_skipped > 0;
    end.loss = record.loss;
    observer_.on_step(record);
    if (is_finite || in_a_row_ <= options_.most_skipped) continue;
    end.kind = LoopEndKind::NotFinite;
    end.step = record.step;
    end.reason = not_finite_text(record, end.last_save, in_a_row_);
    return false;
  }
  return true;
}

}  // namespace cleave::train::loop_detail
