#include "cleave/plan/plan.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/core/units.h"

namespace cleave::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string spec_text(const ShardingSpec& spec) { return spec.mesh ? to_string(spec) : ""; }

ShardingSpec spec_of(const std::string& text, const MeshPtr& mesh) {
  return text.empty() ? ShardingSpec{} : parse_sharding(text, mesh);
}

Json json_of(const PlanTotals& totals) {
  Json json = {{"seconds", totals.seconds},
               {"compute_seconds", totals.compute_seconds},
               {"step_seconds", totals.step_seconds},
               {"communication_seconds", totals.communication_seconds},
               {"exposed_seconds", totals.exposed_seconds},
               {"slowed_seconds", totals.slowed_seconds},
               {"collectives", Json::array()}};
  for (const CollectiveTotal& c : totals.collectives)
    json["collectives"].push_back({{"kind", c.kind},
                                   {"axes", c.axes},
                                   {"count", c.count},
                                   {"bytes", c.bytes},
                                   {"seconds", c.seconds}});
  return json;
}

// What is counted in seconds, bytes or times.
double amount(const Json& json, const char* field, double fallback = -1) {
  const double value = fallback >= 0 ? json.value(field, fallback) : json.at(field).get<double>();
  constexpr double kMost = 9e18;  // what a 64-bit count holds
  if (!(value >= 0) || value > kMost)
    throw_user("plan: {} is {}, not an amount from 0 to {:g}", field, value, kMost);
  return value;
}

PlanTotals totals_from(const Json& json) {
  PlanTotals totals;
  totals.seconds = amount(json, "seconds");
  totals.compute_seconds = amount(json, "compute_seconds");
  for (const Json& c : json.at("collectives"))
    totals.collectives.push_back(
        {c.at("kind"), c.at("axes"), amount(c, "count"), amount(c, "bytes"), amount(c, "seconds")});
  // Plans of earlier versions overlap nothing.
  const double sent = std::max(0.0, totals.seconds - totals.compute_seconds);
  totals.step_seconds = amount(json, "step_seconds", totals.seconds);
  totals.communication_seconds = amount(json, "communication_seconds", sent);
  totals.exposed_seconds = amount(json, "exposed_seconds", sent);
  totals.slowed_seconds = amount(json, "slowed_seconds", 0);
  return totals;
}

// {"model": [2, 4]}: the sizes of the parts, major to minor.
Json json_of(const std::vector<AxisList>& parts, const Mesh& mesh) {
  Json json = Json::object();
  for (size_t a = 0; a < parts.size(); ++a)
    for (const AxisRef& part : parts[a]) json[mesh.axes[a].name].push_back(part.size);
  return json;
}

std::vector<AxisList> parts_from(const Json& json, const Mesh& mesh) {
  std::vector<AxisList> parts(mesh.axes.size());
  for (const auto& [name, sizes] : json.items()) {
    const int axis = mesh.axis_index(name);
    int64_t pre = 1;
    for (const Json& size : sizes) {
      const int64_t n = size.get<int64_t>();
      if (n < 2 || n > mesh.axes[axis].size)
        throw_user("plan: the parts of \"{}\" do not make up its {} devices", name,
                   mesh.axes[axis].size);
      parts[axis].push_back({axis, static_cast<int32_t>(pre), static_cast<int32_t>(n)});
      pre *= n;
    }
    if (pre != mesh.axes[axis].size)
      throw_user("plan: the parts of \"{}\" do not make up its {} devices", name,
                 mesh.axes[axis].size);
  }
  return parts;
}

PlanFigures figures_from(const Json& json) {
  PlanFigures figures;
  figures.model_flops = 1e12 * amount(json, "model_tflop");
  figures.recomputed_flops = 1e12 * amount(json, "recomputed_tflop");
  figures.is_of_program = json.at("of_program");
  figures.dtype = json.at("dtype");
  figures.peak_flops = 1e12 * amount(json, "peak_tflops");
  figures.utilization = amount(json, "utilization");
  figures.items = json.at("items");
  figures.items_per_second = amount(json, "items_per_second");
  for (const auto& [what, seconds] : json.at("limits").items())
    figures.limits.push_back({what, amount(json.at("limits"), what.c_str())});
  return figures;
}

Json figures_json(const PlanFigures& figures) {
  Json limits = Json::object();
  for (const PlanFigures::Share& share : figures.limits) limits[share.what] = share.seconds;
  return {{"model_tflop", figures.model_flops / 1e12},
          {"recomputed_tflop", figures.recomputed_flops / 1e12},
          {"of_program", figures.is_of_program},
          {"dtype", figures.dtype},
          {"peak_tflops", figures.peak_flops / 1e12},
          {"utilization", figures.utilization},
          {"items", figures.items},
          {"items_per_second", figures.items_per_second},
          {"limits", limits}};
}

Plan plan_of(const Json& json) {
  Plan plan;
  if (json.value("format", "") != "cleave-plan")
    throw_user("plan: the field format is not \"cleave-plan\"");
  plan.version = json.at("version");
  if (plan.version != Plan::kVersion)
    throw_user("plan: version {} is not known; this is version {}", plan.version, Plan::kVersion);
  plan.module = json.at("module").at("name");
  plan.source = json.at("module").value("source", "");
  plan.entry = json.at("module").at("entry");
  plan.fingerprint = json.at("module").at("fingerprint");
  plan.mesh = std::make_shared<const Mesh>(parse_mesh(json.at("mesh").get<std::string>()));
  if (json.contains("sub_axes")) plan.parts = parts_from(json["sub_axes"], *plan.mesh);
  plan.machine = json.at("machine");
  plan.objective = objective_from_name(json.value("objective", std::string("step")));
  plan.trips = json.value("trips", int64_t{1});
  plan.totals = totals_from(json.at("totals"));
  const Json& bound = json.at("bound");
  plan.bound = PlanBound::none(bound.at("solver"));
  plan.bound.exists = !bound.at("lower_bound").is_null();
  if (plan.bound.exists) {
    plan.bound.lower_bound = bound.at("lower_bound");
    plan.bound.gap = bound.at("gap");
    plan.bound.step_bound = bound.value("step_bound", plan.bound.lower_bound);
    plan.bound.step_gap = bound.value("step_gap", plan.bound.gap);
    plan.bound.model_gap = bound.value("model_gap", plan.bound.gap);
  }
  plan.bound.proven = bound.at("proven");
  plan.bound.cut = bound.at("cut");
  plan.bound.alike = bound.value("alike", false);
  const Json& memory = json.at("memory");
  if (!memory.at("limit").is_null())
    plan.memory.limit = static_cast<int64_t>(amount(memory, "limit"));
  plan.memory.share = memory.contains("share") ? amount(memory, "share") : 1;
  if (plan.memory.share <= 0 || plan.memory.share > 1)
    throw_user("plan: memory.share is {:g}; it must be above 0 and at most 1", plan.memory.share);
  plan.memory.peak = static_cast<int64_t>(amount(memory, "peak"));
  plan.memory.peak_at = memory.at("peak_at");
  plan.memory.arguments = static_cast<int64_t>(amount(memory, "arguments"));
  if (json.contains("figures")) plan.figures = figures_from(json["figures"]);
  // Layouts repeat; each text is parsed once.
  std::map<std::string, ShardingSpec> specs;
  auto spec = [&](const Json& text) -> const ShardingSpec& {
    auto [it, is_new] = specs.try_emplace(text.get<std::string>());
    if (is_new) it->second = spec_of(it->first, plan.mesh);
    return it->second;
  };
  for (const auto& [name, text] : json.at("values").items())
    plan.values.push_back({name, spec(text)});
  for (const auto& [name, copy] : json.at("copies").items())
    plan.copies.push_back({name, copy.at("source"), spec(copy.at("spec")), copy.at("before")});
  for (const auto& [name, entry] : json.at("ops").items()) {
    PlannedOp op;
    op.name = name;
    op.op = entry.at("op");
    for (const Json& operand : entry.at("operands"))
      op.operands.push_back({operand.at(0), spec(operand.at(1))});
    for (const Json& result : entry.at("results")) op.results.push_back(spec(result));
    op.seconds = amount(entry, "seconds");
    op.times = amount(entry, "times", 1);
    plan.ops.push_back(std::move(op));
  }
  for (const Json& note : json.at("notes")) plan.notes.push_back(note);
  return plan;
}

template <typename T>
const T* find_named(const std::vector<T>& list, std::string_view name) {
  auto it = std::find_if(list.begin(), list.end(), [&](const T& e) { return e.name == name; });
  return it == list.end() ? nullptr : &*it;
}

std::string op_text(const PlannedOp& op) {
  std::string text;
  for (const PlannedOperand& operand : op.operands)
    text += (text.empty() ? "" : ", ") + spec_text(operand.spec);
  text += " ->";
  for (const ShardingSpec& result : op.results) text += " " + spec_text(result);
  return text;
}

void diff_times(const char* what, double before, double after, std::vector<std::string>& lines) {
  if (before == after) return;
  const double percent = before > 0 ? 100 * (after / before - 1) : 0;
  lines.push_back(fmt::format("{}: {:.6g} ms -> {:.6g} ms ({:+.1f}%)", what, before * 1e3,
                              after * 1e3, percent));
}

void diff_collectives(const PlanTotals& before, const PlanTotals& after,
                      std::vector<std::string>& lines) {
  auto text = [](const PlanTotals& totals, const CollectiveTotal& which) -> std::string {
    for (const CollectiveTotal& c : totals.collectives)
      if (c.kind == which.kind && c.axes == which.axes)
        return fmt::format("x{:.0f}, {:.6g} ms", c.count, c.seconds * 1e3);
    return "none";
  };
  auto compare = [&](const CollectiveTotal& which) {
    const std::string old = text(before, which), now = text(after, which);
    if (old != now)
      lines.push_back(fmt::format("{} {}: {} -> {}", which.kind, which.axes, old, now));
  };
  for (const CollectiveTotal& c : before.collectives) compare(c);
  for (const CollectiveTotal& c : after.collectives)
    if (text(before, c) == "none") compare(c);
}

// Names of either list in the order of the first, then what is only in the second.
template <typename T, typename Text>
void diff_lists(const std::vector<T>& before, const std::vector<T>& after, Text&& text,
                std::vector<std::string>& lines) {
  std::map<std::string_view, const T*> old, now;
  for (const T& e : before) old.emplace(e.name, &e);
  for (const T& e : after) now.emplace(e.name, &e);
  for (const T& e : before) {
    auto it = now.find(e.name);
    if (it == now.end())
      lines.push_back(fmt::format("{}: gone ({})", e.name, text(e)));
    else if (text(e) != text(*it->second))
      lines.push_back(fmt::format("{}: {} -> {}", e.name, text(e), text(*it->second)));
  }
  for (const T& e : after)
    if (!old.count(e.name)) lines.push_back(fmt::format("{}: new ({})", e.name, text(e)));
}

}  // namespace

PlanBound PlanBound::none(std::string solver) {
  PlanBound bound;
  bound.solver = std::move(solver);
  bound.exists = false;
  bound.gap = 1;
  bound.step_gap = bound.model_gap = 1;
  return bound;
}

std::string to_string(const PlanBound& bound, const std::string& least) {
  if (!bound.exists) return fmt::format("; {} gives no bound", bound.solver);
  return fmt::format(", at least {}{} (gap {:.3f}%{}{})", least,
                     bound.alike ? " with layers alike" : "", 100 * bound.gap,
                     bound.proven ? ", optimal" : "", bound.cut ? ", cut short" : "");
}

double PlanTotals::received_bytes() const {
  double bytes = 0;
  for (const CollectiveTotal& total : collectives) bytes += total.bytes;
  return bytes;
}

double bounded_value(const Plan& plan) {
  return plan.objective == Objective::Bytes ? plan.totals.received_bytes() : plan.totals.seconds;
}

double objective_value(const Plan& plan) {
  return plan.objective == Objective::Step ? plan.totals.step_seconds : bounded_value(plan);
}

std::string step_text(const Plan& plan, int decimals) {
  const PlanTotals& totals = plan.totals;
  const PlanBound& bound = plan.bound;
  const auto text = [&](double seconds) { return seconds_text(seconds, decimals); };
  if (plan.objective == Objective::Bytes)
    return fmt::format("{}, {} received by a device{}", text(totals.step_seconds),
                       bytes_text(totals.received_bytes(), BytesStyle::Log),
                       to_string(bound, bytes_text(bound.lower_bound, BytesStyle::Log)));
  if (plan.objective == Objective::Sum)
    return fmt::format("{}, {} without overlap{}", text(totals.step_seconds), text(totals.seconds),
                       to_string(bound, text(bound.lower_bound)));
  // Where collectives can be hidden, another plan may hide some, so that the bound of the sum is
  // none of the step, even if this plan hides nothing.
  constexpr double kRounding = 1e-6;
  const bool is_of_step = !bound.exists || bound.step_gap <= bound.gap + kRounding;
  if (totals.step_seconds == totals.seconds && is_of_step)
    return text(totals.seconds) + to_string(bound, text(bound.lower_bound));
  const char* alike = bound.alike ? " with layers alike" : "";
  const std::string least = bound.exists
                                ? fmt::format(", at least {}{} (gap {:.3f}%)",
                                              text(bound.step_bound), alike, 100 * bound.step_gap)
                                : std::string();
  const std::string model =
      bound.exists ? fmt::format("; the additive model of its schedule has a gap of {:.3f}%{}{}",
                                 100 * bound.model_gap, alike, bound.cut ? ", cut short" : "")
                   : fmt::format("; {} gives no bound", bound.solver);
  const std::string slowed =
      totals.slowed_seconds > 0
          ? fmt::format(" and {} more beside collectives", text(totals.slowed_seconds))
          : std::string();
  return fmt::format(
      "{}{}\n  {} compute{}, {} communication of which {} exposed\n  without overlap {}{}",
      text(totals.step_seconds), least,
      text(totals.step_seconds - totals.exposed_seconds - totals.slowed_seconds), slowed,
      text(totals.communication_seconds), text(totals.exposed_seconds), text(totals.seconds),
      model);
}

const PlannedValue* Plan::find_value(std::string_view name) const {
  return find_named(values, name);
}
const PlannedOp* Plan::find_op(std::string_view name) const { return find_named(ops, name); }

std::string to_json(const Plan& plan, int indent) {
  Json json = {{"format", "cleave-plan"},
               {"version", plan.version},
               {"module",
                {{"name", plan.module},
                 {"source", plan.source},
                 {"entry", plan.entry},
                 {"fingerprint", plan.fingerprint}}},
               {"mesh", to_string(*plan.mesh)},
               {"machine", plan.machine},
               {"totals", json_of(plan.totals)},
               {"bound",
                {{"solver", plan.bound.solver},
                 {"lower_bound", plan.bound.exists ? Json(plan.bound.lower_bound) : Json(nullptr)},
                 {"gap", plan.bound.exists ? Json(plan.bound.gap) : Json(nullptr)},
                 {"proven", plan.bound.proven},
                 {"cut", plan.bound.cut},
                 {"alike", plan.bound.alike},
                 {"step_bound", plan.bound.exists ? Json(plan.bound.step_bound) : Json(nullptr)},
                 {"step_gap", plan.bound.exists ? Json(plan.bound.step_gap) : Json(nullptr)},
                 {"model_gap", plan.bound.exists ? Json(plan.bound.model_gap) : Json(nullptr)}}},
               {"memory",
                {{"limit", plan.memory.limit ? Json(*plan.memory.limit) : Json(nullptr)},
                 {"share", plan.memory.share},
                 {"peak", plan.memory.peak},
                 {"peak_at", plan.memory.peak_at},
                 {"arguments", plan.memory.arguments}}},
               {"values", Json::object()},
               {"copies", Json::object()},
               {"ops", Json::object()},
               {"notes", plan.notes}};
  if (plan.figures) json["figures"] = figures_json(*plan.figures);
  if (plan.objective != Objective::Step) json["objective"] = name(plan.objective);
  if (plan.trips != 1) json["trips"] = plan.trips;
  if (!plan.parts.empty()) json["sub_axes"] = json_of(plan.parts, *plan.mesh);
  // Looking a key up in an ordered object is linear, so entries are appended.
  auto append = [](Json& object, const std::string& name, Json value) {
    object.get_ref<Json::object_t&>().emplace_back(name, std::move(value));
  };
  for (const PlannedValue& value : plan.values)
    append(json["values"], value.name, spec_text(value.spec));
  for (const PlannedCopy& copy : plan.copies)
    append(json["copies"], copy.name,
           {{"source", copy.source}, {"spec", spec_text(copy.spec)}, {"before", copy.before}});
  for (const PlannedOp& op : plan.ops) {
    Json entry = {{"op", op.op}, {"operands", Json::array()}, {"results", Json::array()}};
    for (const PlannedOperand& operand : op.operands)
      entry["operands"].push_back(Json::array({operand.source, spec_text(operand.spec)}));
    for (const ShardingSpec& result : op.results) entry["results"].push_back(spec_text(result));
    entry["seconds"] = op.seconds;
    if (op.times != 1) entry["times"] = op.times;
    append(json["ops"], op.name, std::move(entry));
  }
  return json.dump(indent);
}

Plan plan_from_json(std::string_view text) {
  try {
    return plan_of(Json::parse(text));
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    throw_user("this is no plan of `cleave plan --out`: {}", what.substr(what.find("] ") + 2));
  }
}

Plan read_plan(const std::string& path) {
  const std::string text = read_input_file(path);
  try {
    return plan_from_json(text);
  } catch (const UserError& error) {
    throw_user("{}: {}", path, error.what());
  }
}

void write_plan(const Plan& plan, const std::string& path) {
  write_file(path, to_json(plan) + "\n");
}

std::string limit_text(int64_t limit, double share, BytesStyle style) {
  const std::string usable = bytes_text(static_cast<double>(limit), style);
  if (share >= 1) return usable;
  return fmt::format("{}, of which programs can use {}",
                     bytes_text(static_cast<double>(limit) / share, style), usable);
}

std::vector<std::string> diff(const Plan& before, const Plan& after) {
  std::vector<std::string> lines;
  auto field = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) lines.push_back(fmt::format("{}: {} -> {}", name, a, b));
  };
  field("module", before.fingerprint, after.fingerprint);
  field("mesh", to_string(*before.mesh), to_string(*after.mesh));
  field("machine", before.machine, after.machine);
  field("objective", name(before.objective), name(after.objective));
  auto limit = [](const Plan& plan) {
    return plan.memory.limit ? limit_text(*plan.memory.limit, plan.memory.share, BytesStyle::Limit)
                             : std::string("none");
  };
  field("memory limit", limit(before), limit(after));
  diff_times("step", before.totals.step_seconds, after.totals.step_seconds, lines);
  diff_times("exposed", before.totals.exposed_seconds, after.totals.exposed_seconds, lines);
  diff_times("slowed", before.totals.slowed_seconds, after.totals.slowed_seconds, lines);
  diff_times("without overlap", before.totals.seconds, after.totals.seconds, lines);
  diff_times("compute", before.totals.compute_seconds, after.totals.compute_seconds, lines);
  diff_collectives(before.totals, after.totals, lines);
  field("memory peak", bytes_text(before.memory.peak, BytesStyle::Limit),
        bytes_text(after.memory.peak, BytesStyle::Limit));
  diff_lists(
      before.values, after.values, [](const PlannedValue& v) { return spec_text(v.spec); }, lines);
  diff_lists(
      before.copies, after.copies,
      [](const PlannedCopy& c) { return c.source + " as " + spec_text(c.spec); }, lines);
  diff_lists(before.ops, after.ops, op_text, lines);
  return lines;
}

}  // namespace cleave::plan
