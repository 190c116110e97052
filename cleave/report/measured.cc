#include "cleave/report/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/flow.h"

namespace cleave::report {
namespace {

nlohmann::json parsed(const std::string& text, const std::string& file) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    throw_user("{}: it is not JSON, or no object", file);
  return json;
}

const nlohmann::json& field(const nlohmann::json& json, const char* name, const std::string& file) {
  const auto found = json.find(name);
  if (found == json.end()) throw_user("{}: it has no field \"{}\"", file, name);
  return *found;
}

std::string text_field(const nlohmann::json& json, const char* name, const std::string& file) {
  const nlohmann::json& value = field(json, name, file);
  if (!value.is_string()) throw_user("{}: \"{}\" is not a text", file, name);
  return value.get<std::string>();
}

void require_same_module(const nlohmann::json& json, const PlannedProgram& planned,
                         const std::string& file, const char* what) {
  const std::string theirs = text_field(json, "fingerprint", file);
  if (theirs == planned.plan.fingerprint) return;
  throw_user("{}: it is {} of another module (fingerprint {}, the plan's is {})", file, what,
             theirs, planned.plan.fingerprint);
}

// Seconds of a row, all devices and executions together.
struct Sum {
  double seconds = 0;
  int64_t events = 0;       // of the op itself, or of the step
  int64_t more_events = 0;  // of what else it becomes on a device
};

// The events of a timeline by rows of the report.
class Timeline {
 public:
  Timeline(const nlohmann::json& json, const std::string& file, const PlannedProgram& planned,
           const ChangeTable& changes)
      : file_(file), planned_(planned) {
    find_rows(changes);
    const nlohmann::json& events = field(json, "traceEvents", file);
    if (!events.is_array()) throw_user("{}: \"traceEvents\" is not a list", file);
    for (const nlohmann::json& event : events)
      if (event.is_object() && event.value("ph", "") == "X") add(event);
    if (begin_ > end_) throw_user("{}: it has no events of ops", file);
  }

  Json ops() const { return columns(ops_, "op"); }
  Json changes() const { return columns(changes_, "change"); }
  double total() const { return end_ - begin_; }
  size_t devices() const { return devices_.size(); }

 private:
  // Rows of changes by the number of the change and what the step is called.
  void find_rows(const ChangeTable& changes) {
    const Graph& graph = planned_.program.graph;
    for (uint32_t i = 0; i < changes.of_node.size(); ++i) {
      const int number = planned_.change_of({i});
      if (changes.of_node[i] < 0 || number < 0) continue;
      const Node& node = graph.node({i});
      rows_.try_emplace({number, "cleave." + std::string(node.attrs.get_string("cleave.step"))},
                        changes.of_node[i]);
    }
  }

  void add(const nlohmann::json& event) {
    const nlohmann::json& args = field(event, "args", file_);
    const double start = number(event, "ts"), length = number(event, "dur");
    if (!args.contains("op") && !args.contains("change")) return;
    begin_ = std::min(begin_, start * 1e-6);
    end_ = std::max(end_, (start + length) * 1e-6);
    devices_.insert(static_cast<int64_t>(number(event, "tid")));
    const std::string called = text_field(event, "name", file_);
    if (args.contains("change")) {
      const auto row = rows_.find({static_cast<int>(number(args, "change")), called});
      if (row == rows_.end()) return;  // what computes beside it, such as a sum that is rounded
      count(changes_[row->second], length, true);
      return;
    }
    const std::string name = text_field(args, "op", file_);
    const int op = planned_.op_named(name);
    if (op < 0) throw_user("{}: the plan has no op {}", file_, name);
    // Ops inside count for themselves.
    const Flow flow = flow_of(planned_.flat.node(planned_.bound.ops[static_cast<size_t>(op)].node));
    if (flow == Flow::Loop || flow == Flow::Branches) return;
    count(ops_[op], length, called == planned_.plan.ops[static_cast<size_t>(op)].op);
  }

  static void count(Sum& sum, double microseconds, bool is_own) {
    sum.seconds += microseconds * 1e-6;
    ++(is_own ? sum.events : sum.more_events);
  }

  double number(const nlohmann::json& json, const char* name) const {
    const nlohmann::json& value = field(json, name, file_);
    if (!value.is_number()) throw_user("{}: \"{}\" is not a number", file_, name);
    return value.get<double>();
  }

  Json columns(const std::map<int, Sum>& sums, const char* key) const {
    const auto devices = static_cast<double>(std::max<size_t>(1, devices_.size()));
    Columns rows({key, "seconds", "times"});
    for (const auto& [row, sum] : sums) {
      rows.add(key, row);
      rows.add("seconds", rounded(sum.seconds / devices));
      rows.add("times", rounded(static_cast<double>(sum.events > 0 ? sum.events : sum.more_events) /
                                devices));
    }
    return rows.take();
  }

  const std::string& file_;
  const PlannedProgram& planned_;
  std::map<std::pair<int, std::string>, int> rows_;
  std::map<int, Sum> ops_, changes_;
  std::set<int64_t> devices_;
  double begin_ = 1e300, end_ = -1e300;
};

Json checks_of(const nlohmann::json& json, const std::string& file) {
  const nlohmann::json& checks = field(json, "checks", file);
  if (!checks.is_array()) throw_user("{}: \"checks\" is not a list", file);
  Json list = Json::array();
  for (const nlohmann::json& check : checks) {
    const nlohmann::json& ok = field(check, "ok", file);
    if (!ok.is_boolean() && !ok.is_null()) throw_user("{}: \"ok\" is neither true nor false", file);
    list.push_back({{"ok", ok.is_null() ? Json(nullptr) : Json(ok.get<bool>())},
                    {"text", text_field(check, "text", file)}});
  }
  return list;
}

}  // namespace

Json measured_report(const MeasuredInputs& inputs, const PlannedProgram& planned,
                     const ChangeTable& changes) {
  Json report = {{"source", ""},       {"text", ""},       {"ops", nullptr},
                 {"changes", nullptr}, {"total", nullptr}, {"checks", Json::array()}};
  std::vector<std::string> sources, texts;
  if (!inputs.timeline.empty()) {
    const nlohmann::json json = parsed(inputs.timeline, inputs.timeline_name);
    if (!json.contains("otherData"))
      throw_user(
          "{}: it does not say of which plan it is; `cleave run MODULE --plan PLAN --timeline {}` "
          "writes one that does",
          inputs.timeline_name, inputs.timeline_name);
    const nlohmann::json& about = json["otherData"];
    require_same_module(about, planned, inputs.timeline_name, "a run");
    const Timeline timeline(json, inputs.timeline_name, planned, changes);
    report["ops"] = timeline.ops();
    report["changes"] = timeline.changes();
    report["total"] = rounded(timeline.total());
    sources.push_back(inputs.timeline_name);
    const std::string host = text_field(about, "host", inputs.timeline_name);
    texts.push_back(fmt::format(
        "Predicted for {}; run op by op on {} virtual devices of {}. Seconds are those of one "
        "device on average. These are different machines unless the plan is priced with a profile "
        "that `cleave calibrate` measured on this host.",
        planned.plan.machine, timeline.devices(), host));
  }
  if (!inputs.checks.empty()) {
    const nlohmann::json json = parsed(inputs.checks, inputs.checks_name);
    require_same_module(json, planned, inputs.checks_name, "a check");
    report["checks"] = checks_of(json, inputs.checks_name);
    sources.push_back(inputs.checks_name);
    texts.push_back(fmt::format("The checks {}.", text_field(json, "ran", inputs.checks_name)));
  }
  report["source"] = fmt::format("{}", fmt::join(sources, ", "));
  report["text"] = fmt::format("{}", fmt::join(texts, " "));
  if (report["ops"].is_null()) report["ops"] = Columns({"op", "seconds", "times"}).take();
  if (report["changes"].is_null())
    report["changes"] = Columns({"change", "seconds", "times"}).take();
  return report;
}

}  // namespace cleave::report
