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
  std::string axes;         // as text: "x", "y":(1)2
  std::string asked_by;     // the op that needed it
  int64_t bytes = 0;        // received by one device, at most
  int64_t total_bytes = 0;  // received by all devices together

  bool is_local() const { return total_bytes == 0; }
};

// What programs say to each other while it is listening:
//
//   CommLog log;
//   executor.run(args, {.log = &log});
//   log.count("all_reduce")  ->  1
//
// Events are in the order of the program, whatever the timing of devices.
class CommLog {
 public:
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
// 1536 -> "1.5 KiB"
std::string bytes_text(int64_t bytes);

}  // namespace cleave
