#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Something on a timeline, for Chrome's and Perfetto's trace format.
struct TraceEvent {
  std::string name;
  int64_t track = 0;
  double begin = 0, end = 0;  // seconds
  std::vector<std::pair<std::string, std::variant<int64_t, std::string>>> args{};
  bool beside = false;  // it ran beside others of its track, and is drawn above it
};

struct ChromeTrace {
  std::vector<std::pair<int64_t, std::string>> tracks;  // with their names
  std::vector<TraceEvent> events;
  std::vector<std::pair<std::string, std::string>> about{};  // the whole, as "otherData"
};
std::string to_json(const ChromeTrace& trace);

// What a node is called there: a change of layout goes by what it is, "cleave.all_reduce".
std::string traced_name(const Node& node);

}  // namespace cleave
