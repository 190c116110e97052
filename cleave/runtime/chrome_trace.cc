#include "cleave/runtime/chrome_trace.h"

#include <nlohmann/json.hpp>

namespace cleave {

std::string to_json(const ChromeTrace& trace) {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& [track, name] : trace.tracks)
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", track},
                      {"args", {{"name", name}}}});
  int64_t flight = 0;
  for (const TraceEvent& event : trace.events) {
    nlohmann::json args = nlohmann::json::object();
    for (const auto& [key, value] : event.args)
      std::visit([&, &key = key](const auto& v) { args[key] = v; }, value);
    if (event.beside) {
      ++flight;
      for (const bool begins : {true, false})
        events.push_back({{"name", event.name},
                          {"cat", "collective"},
                          {"ph", begins ? "b" : "e"},
                          {"id", flight},
                          {"pid", 0},
                          {"tid", event.track},
                          {"ts", (begins ? event.begin : event.end) * 1e6},
                          {"args", args}});
      continue;
    }
    events.push_back({{"name", event.name},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", event.track},
                      {"ts", event.begin * 1e6},
                      {"dur", (event.end - event.begin) * 1e6},
                      {"args", std::move(args)}});
  }
  nlohmann::json json = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  for (const auto& [key, value] : trace.about) json["otherData"][key] = value;
  return json.dump();
}

std::string traced_name(const Node& node) {
  if (!node.attrs.has("cleave.step")) return node.name();
  return "cleave." + std::string(node.attrs.get_string("cleave.step"));
}

}  // namespace cleave
