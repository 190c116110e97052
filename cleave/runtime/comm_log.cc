#include "cleave/runtime/comm_log.h"
#include "cleave/core/units.h"

#include <fmt/core.h>

#include <algorithm>

namespace cleave {
namespace {

// The logs that are alive on this thread, oldest first.
std::vector<CommLog*>& listeners() {
  thread_local std::vector<CommLog*> logs;
  return logs;
}

}  // namespace

CommLog::CommLog() { listeners().push_back(this); }
CommLog::~CommLog() { std::erase(listeners(), this); }

bool CommLog::anyone_listens() { return !listeners().empty(); }

void CommLog::tell_listeners(const std::vector<CommEvent>& events) {
  for (CommLog* log : listeners())
    for (const CommEvent& event : events) log->add(event);
}

int64_t CommLog::count() const {
  return std::count_if(events_.begin(), events_.end(),
                       [](const CommEvent& event) { return !event.is_local(); });
}

int64_t CommLog::count(std::string_view kind) const {
  return std::count_if(events_.begin(), events_.end(), [&](const CommEvent& event) {
    return !event.is_local() && event.kind == kind;
  });
}

int64_t CommLog::bytes() const {
  int64_t sum = 0;
  for (const CommEvent& event : events_) sum += event.bytes;
  return sum;
}

int64_t CommLog::bytes(std::string_view kind) const {
  int64_t sum = 0;
  for (const CommEvent& event : events_)
    if (event.kind == kind) sum += event.bytes;
  return sum;
}

int64_t CommLog::total_bytes() const {
  int64_t sum = 0;
  for (const CommEvent& event : events_) sum += event.total_bytes;
  return sum;
}

std::string to_string(const CommLog& log) {
  struct Line {
    CommEvent event;
    int64_t times = 0;
  };
  std::vector<Line> lines;
  for (const CommEvent& event : log.events()) {
    if (event.is_local()) continue;
    auto it = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.event.kind == event.kind && line.event.axes == event.axes &&
             line.event.asked_by == event.asked_by;
    });
    if (it == lines.end()) {
      lines.push_back({event, 1});
    } else {
      it->event.bytes += event.bytes;
      ++it->times;
    }
  }
  std::string text;
  for (const auto& [event, times] : lines)
    text += fmt::format("{:<19} {:<14} x{:<5} {:>10}  for {}\n", event.kind, event.axes, times,
                        bytes_text(event.bytes), event.asked_by);
  return text;
}

}  // namespace cleave
