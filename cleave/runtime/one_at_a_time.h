#pragma once

#include <mutex>

#include "cleave/runtime/interpreter.h"

namespace cleave {

// Devices tell what they do from their own threads; the observer, which may be null, hears one at a
// time.
class OneAtATime : public Observer {
 public:
  explicit OneAtATime(Observer* observer) : observer_(observer) {}
  bool wants_ops() const override { return observer_ && observer_->wants_ops(); }
  void executed(const Graph& graph, const Node& node, int64_t device,
                std::span<const Array> results, double begin, double end) override {
    std::lock_guard lock(mutex_);
    observer_->executed(graph, node, device, results, begin, end);
  }
  void started(const Graph& graph, const Node& node, int64_t device, double begin,
               double end) override {
    std::lock_guard lock(mutex_);
    observer_->started(graph, node, device, begin, end);
  }
  void under_way(const Graph& graph, const Node& node, int64_t device, double begin,
                 double end) override {
    std::lock_guard lock(mutex_);
    observer_->under_way(graph, node, device, begin, end);
  }
  void print(std::string_view text) override {
    std::lock_guard lock(mutex_);
    observer_->print(text);
  }
  void probe(std::string_view name, int64_t iteration, const Array& value) override {
    std::lock_guard lock(mutex_);
    observer_->probe(name, iteration, value);
  }

 private:
  Observer* observer_;
  std::mutex mutex_;
};

}  // namespace cleave
