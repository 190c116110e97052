#include "cleave/runtime/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cleave/runtime/chrome_trace.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {
namespace {

std::string types_text(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId result : node.results)
    text += (text.empty() ? "" : ", ") + to_string(graph.type(result));
  return text;
}

}  // namespace

Recorder::Event Recorder::event_of(const Node& node, int64_t device, double begin,
                                   double end) const {
  Event event{traced_name(node), device, begin - start_, end - start_, 0, {}, {}};
  if (node.attrs.has("cleave.step")) {
    event.axes = node.attrs.get_string("cleave.axes");
    event.asked_by = node.attrs.get_string("cleave.for");
  }
  event.planned_op = node.attrs.get_int(kOpAttr, -1);
  event.change = node.attrs.get_int(kChangeAttr, -1);
  return event;
}

void Recorder::add(Event event, const Graph& graph, const Node& node) {
  if (on_trace && !event.beside)
    on_trace(fmt::format(
        "device {}  {:10.3f} ms  {:9.3f} ms  {}  {}{}", event.device, event.begin * 1e3,
        (event.end - event.begin) * 1e3, event.op, types_text(graph, node),
        event.asked_by.empty() ? "" : fmt::format("  over {} for {}", event.axes, event.asked_by)));
  if (record_ops) events_.push_back(std::move(event));
}

void Recorder::executed(const Graph& graph, const Node& node, int64_t device,
                        std::span<const Array> results, double begin, double end) {
  Event event = event_of(node, device, begin, end);
  for (const Array& result : results)
    if (result.valid()) event.bytes += static_cast<int64_t>(result.num_bytes());
  std::lock_guard lock(mutex_);
  if (!started_.empty() && started_[device].erase(&node)) event.op += ".wait";
  add(std::move(event), graph, node);
}

void Recorder::started(const Graph& graph, const Node& node, int64_t device, double begin,
                       double end) {
  Event event = event_of(node, device, begin, end);
  event.op += ".start";
  std::lock_guard lock(mutex_);
  started_[device].insert(&node);
  add(std::move(event), graph, node);
}

void Recorder::under_way(const Graph& graph, const Node& node, int64_t device, double begin,
                         double end) {
  Event event = event_of(node, device, begin, end);
  event.beside = true;
  std::lock_guard lock(mutex_);
  add(std::move(event), graph, node);
}

void Recorder::merge(World& world) {
  nlohmann::json own = nlohmann::json::array();
  for (const Event& event : events_)
    own.push_back({event.op, event.device, event.begin, event.end, event.bytes, event.axes,
                   event.asked_by, event.beside, event.planned_op, event.change});
  const std::vector<uint8_t> bytes = nlohmann::json::to_cbor(own);
  const Array text =
      Array::from_bytes(DType::U8, {static_cast<int64_t>(bytes.size())}, bytes.data());
  const auto texts = world.gather({text}, "the merging of timelines");
  // Everybody leaves the gathering above at about the same time, which is the best that is known of
  // the clocks of different machines. On one machine there is one clock.
  const Array clock = Array::scalar(
      DType::F64, world.one_host()
                      ? start_
                      : start_ - std::chrono::duration<double>(
                                     std::chrono::steady_clock::now().time_since_epoch())
                                     .count());
  const auto clocks = world.gather({clock}, "the merging of timelines");
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    const double later = *clocks[rank][0].data<double>() - *clock.data<double>();
    const auto* begin = texts[rank][0].data<uint8_t>();
    for (const auto& e : nlohmann::json::from_cbor(begin, begin + texts[rank][0].num_elements()))
      events_.push_back({e[0], e[1], e[2].get<double>() + later, e[3].get<double>() + later, e[4],
                         e[5], e[6], e[7], e[8], e[9]});
  }
}

void Recorder::print(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (on_print) on_print(text);
}

void Recorder::probe(std::string_view name, int64_t iteration, const Array& value) {
  std::lock_guard lock(mutex_);
  if (on_probe) on_probe(name, iteration, value);
}

std::string Recorder::stats() const {
  struct Row {
    std::string op;
    int64_t calls = 0, bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, Row> by_op;
  double last = 0;
  size_t ops = 0;
  for (const Event& event : events_) {
    if (event.beside) continue;
    ++ops;
    Row& row = by_op[event.op];
    row.op = event.op;
    ++row.calls;
    row.bytes += event.bytes;
    row.seconds += event.end - event.begin;
    last = std::max(last, event.end);
  }
  std::vector<Row> rows;
  for (auto& [op, row] : by_op) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  std::string text =
      fmt::format("{:<36} {:>8} {:>12} {:>7} {:>14}\n", "op", "calls", "ms", "%", "result bytes");
  for (const Row& row : rows)
    text += fmt::format("{:<36} {:>8} {:>12.3f} {:>6.1f}% {:>14}\n", row.op, row.calls,
                        row.seconds * 1e3, last > 0 ? 100 * row.seconds / last : 0, row.bytes);
  return text + fmt::format("{} ops in {:.3f} ms\n", ops, last * 1e3);
}

std::string Recorder::timeline() const {
  ChromeTrace trace;
  trace.about = about;
  std::set<int64_t> devices;
  for (const Event& event : events_) devices.insert(event.device);
  for (int64_t device : devices) trace.tracks.push_back({device, fmt::format("device {}", device)});
  for (const Event& event : events_) {
    TraceEvent drawn{event.op, event.device, event.begin, event.end, {}, event.beside};
    drawn.args.emplace_back("bytes", event.bytes);
    if (!event.asked_by.empty()) {
      drawn.args.emplace_back("axes", event.axes);
      drawn.args.emplace_back("for", event.asked_by);
    }
    if (event.change >= 0)
      drawn.args.emplace_back("change", event.change);
    else if (const auto op = static_cast<size_t>(event.planned_op);
             event.planned_op >= 0 && op < planned_ops.size())
      drawn.args.emplace_back("op", planned_ops[op]);
    trace.events.push_back(std::move(drawn));
  }
  return to_json(trace);
}

}  // namespace cleave
