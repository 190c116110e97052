#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

// One change of layout that a program executed.
struct CommEvent {
  std::string kind;         // "all_reduce", "all_gather", ..., "halo"; "all_slice" moves nothing
  std::string axes;         // "x", "y":(1)2
  std::string asked_by;     // the op that needed it
  int64_t bytes = 0;        // received by one device, at most
  int64_t total_bytes = 0;  // received by all devices together

  bool is_local() const { return total_bytes == 0; }
};

// What devices send each other: everything that tensors of its thread communicate while it lives,
// and what an executor is told to enter:
//
//   CommLog log;
//   relu(y).to_host();
//   log.count("all_reduce")  ->  1
//   executor.run(args, {.log = &log});
//
// Events are in the order of the program, whatever the timing of devices.
class CommLog {
 public:
  struct Unheard {};  // for a log that only gets what it is given

  CommLog();
  explicit CommLog(Unheard) {}
  CommLog(const CommLog&) = delete;
  CommLog& operator=(const CommLog&) = delete;
  ~CommLog();

  static bool anyone_listens();
  static void tell_listeners(const std::vector<CommEvent>& events);

  void add(CommEvent event) { events_.push_back(std::move(event)); }
  void clear() { events_.clear(); }

  const std::vector<CommEvent>& events() const { return events_; }
  // Events that moved bytes: all of them, and those of one kind.
  int64_t count() const;
  int64_t count(std::string_view kind) const;
  int64_t bytes() const;  // received by one device, at most
  int64_t bytes(std::string_view kind) const;
  int64_t total_bytes() const;

 private:
  std::vector<CommEvent> events_;
};

// One line for each kind, axes and asking op, in the order of first occurrence:
//   all_reduce      "model"     x2      32.0 KiB  for stablehlo.tanh
std::string to_string(const CommLog& log);

}  // namespace cleave
