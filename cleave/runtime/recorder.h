#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/world.h"

namespace cleave {

// Writes down what runs: for a table of times by op, and a timeline.
class Recorder : public Observer {
 public:
  struct Event {
    std::string op;
    int64_t device;
    double begin, end;  // seconds since the recorder was made
    int64_t bytes;      // of the results
    // Of a change of layout: the axes that it goes over, and the op that asked for it.
    std::string axes, asked_by;
    // It ran from begin to end beside other ops; its `.start` and `.wait` are events as well.
    bool beside = false;
    // Of a program that was partitioned as planned with numbers (spmd/planned_marks.h): the op of
    // the plan, and the change of layout.
    int64_t planned_op = -1, change = -1;
  };

  // What runs, for the timeline; and the names of the plan's ops by their number there.
  std::vector<std::pair<std::string, std::string>> about;
  std::vector<std::string> planned_ops;

  // Called with each line of the trace as it happens, and with what the program prints.
  std::function<void(std::string_view)> on_trace, on_print;
  std::function<void(std::string_view name, int64_t iteration, const Array& value)> on_probe;

  bool record_ops = true;  // off: only prints and probes are passed on

  bool wants_ops() const override { return record_ops || on_trace; }
  void executed(const Graph& graph, const Node& node, int64_t device,
                std::span<const Array> results, double begin, double end) override;
  void started(const Graph& graph, const Node& node, int64_t device, double begin,
               double end) override;
  void under_way(const Graph& graph, const Node& node, int64_t device, double begin,
                 double end) override;
  void print(std::string_view text) override;
  void probe(std::string_view name, int64_t iteration, const Array& value) override;

  const std::vector<Event>& events() const { return events_; }
  // Adds what the other ranks have recorded, with their times moved to this rank's clock. All ranks
  // call it.
  void merge(World& world);
  // Calls, seconds (with the ops in regions and calls inside them), share and result bytes by op,
  // the longest first.
  std::string stats() const;
  // Chrome's and Perfetto's trace format, one track per device; what ran beside other ops is drawn
  // above it.
  std::string timeline() const;

 private:
  Event event_of(const Node& node, int64_t device, double begin, double end) const;
  void add(Event event, const Graph& graph, const Node& node);

  std::mutex mutex_;
  std::map<int64_t, std::set<const Node*>> started_;  // by device
  std::vector<Event> events_;
  double start_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
};

}  // namespace cleave
