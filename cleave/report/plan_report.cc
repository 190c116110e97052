#include "cleave/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/units.h"
#include "cleave/machine/collective.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/objective.h"
#include "cleave/report/change_rows.h"
#include "cleave/report/memory_rows.h"
#include "cleave/report/model_blocks.h"
#include "cleave/report/op_rows.h"

namespace cleave::report {
namespace {

// An axis with the links under it: what an all_gather along it alone reaches.
Json axis_json(const Mesh& mesh, int axis, const MachineProfile* profile) {
  const MeshAxis& named = mesh.axes[static_cast<size_t>(axis)];
  Json json = {{"name", named.name}, {"size", named.size}};
  if (!profile || named.size < 2) {
    json.update({{"kind", "inside"},
                 {"nodes", 1},
                 {"ranks", named.size},
                 {"gbps", 0},
                 {"latency_us", 0},
                 {"text", named.size == 1 ? "1 device" : fmt::format("{} devices", named.size)}});
    return json;
  }
  const AxisList axes = {whole_axis(mesh, axis)};
  const GroupLinks links = group_links(mesh, axes, *profile);
  const std::string kind = links.nodes == 1 ? "inside" : links.per_node == 1 ? "across" : "mixed";
  const CollectiveCost cost = collective_cost(CollectiveKind::AllGather, mesh, axes, *profile);
  double latency = 0, per_byte = 0;
  for (const CostLine& line : cost.lines()) {
    latency = latency == 0 ? line.latency : std::min(latency, line.latency);
    per_byte = per_byte == 0 ? line.per_byte : std::min(per_byte, line.per_byte);
  }
  const double traffic = static_cast<double>(links.ranks - 1) / static_cast<double>(links.ranks);
  const double gbps = per_byte > 0 ? traffic / per_byte * 1e-9 : 0;
  const std::string where =
      kind == "inside"   ? "inside a node"
      : kind == "across" ? fmt::format("on {} nodes", links.nodes)
                         : fmt::format("{}{} on each of {} nodes",
                                       links.per_node * links.nodes == links.ranks ? "" : "up to ",
                                       links.per_node, links.nodes);
  json.update({{"kind", kind},
               {"nodes", links.nodes},
               {"ranks", links.ranks},
               {"gbps", rounded(gbps)},
               {"latency_us", rounded(latency * 1e6)},
               {"text", fmt::format("{} devices, {}; an all_gather reaches {:.3g} GB/s, and takes "
                                    "{:.3g} us at least",
                                    links.ranks, where, gbps, latency * 1e6)}});
  return json;
}

Json totals_json(const plan::PlanTotals& totals) {
  Json collectives = Json::array();
  for (const plan::CollectiveTotal& sum : totals.collectives)
    collectives.push_back({{"kind", sum.kind},
                           {"axes", sum.axes},
                           {"count", sum.count},
                           {"bytes", sum.bytes},
                           {"seconds", rounded(sum.seconds)}});
  return {{"seconds", rounded(totals.seconds)},
          {"compute", rounded(totals.compute_seconds)},
          {"step", rounded(totals.step_seconds)},
          {"communication", rounded(totals.communication_seconds)},
          {"exposed", rounded(totals.exposed_seconds)},
          {"slowed", rounded(totals.slowed_seconds)},
          {"received_bytes", totals.received_bytes()},
          {"collectives", std::move(collectives)}};
}

Json bound_json(const Plan& plan) {
  const plan::PlanBound& bound = plan.bound;
  return {{"solver", bound.solver},
          {"exists", bound.exists},
          {"lower", rounded(bound.lower_bound)},
          {"gap", rounded(bound.gap)},
          {"proven", bound.proven},
          {"cut", bound.cut},
          {"alike", bound.alike},
          {"step_bound", rounded(bound.step_bound)},
          {"step_gap", rounded(bound.step_gap)},
          {"model_gap", rounded(bound.model_gap)},
          {"text", step_text(plan)}};
}

Json figures_json(const std::optional<plan::PlanFigures>& figures) {
  if (!figures) return nullptr;
  Json limits = Json::array();
  for (const auto& [what, seconds] : figures->limits)
    limits.push_back({{"what", what}, {"seconds", rounded(seconds)}});
  return {{"model_flops", rounded(figures->model_flops)},
          {"recomputed", rounded(figures->recomputed_flops)},
          {"dtype", figures->dtype},
          {"peak_flops", rounded(figures->peak_flops)},
          {"mfu", rounded(figures->utilization)},
          {"items", figures->items},
          {"items_per_second", rounded(figures->items_per_second)},
          {"limits", std::move(limits)},
          {"text", to_string(*figures)}};
}

Json blocks_json(const ModelBlocks& model, ReportTables& tables) {
  Json list = Json::array();
  for (const ModelBlocks::Block& block : model.blocks)
    list.push_back({{"name", tables.string(block.name)},
                    {"parent", block.parent},
                    {"like", block.like},
                    {"count", block.count}});
  return list;
}

// Before the tables.
Json header(const ReportedPlan& reported) {
  const Plan& plan = *reported.plan;
  Json notes = plan.notes;
  for (const std::string& note : reported.notes) notes.push_back(note);
  return {{"title", reported.title.empty() ? title_of(plan) : reported.title},
          {"module", plan.module},
          {"source", plan.source},
          {"machine", plan.machine},
          {"executor", reported.profile ? reported.profile->executor.name : ""},
          {"entry", plan.entry},
          {"objective", std::string(name(plan.objective))},
          {"trips", plan.trips},
          {"notes", std::move(notes)},
          {"fingerprint", plan.fingerprint},
          {"mesh", mesh_report(*plan.mesh, reported.profile)},
          {"totals", totals_json(plan.totals)},
          {"bound", bound_json(plan)}};
}

Json kernel_classes_json(const PlannedProgram& planned) {
  Json list = Json::array();
  for (int c = 0; c < kNumAllKernelClasses; ++c)
    if (planned.cost.compute[static_cast<size_t>(c)] > 0)
      list.push_back({{"what", std::string(name(static_cast<KernelClass>(c)))},
                      {"seconds", rounded(planned.cost.compute[static_cast<size_t>(c)])}});
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  return list;
}

// Groups are numbered by their cost once all rows are there.
void renumber_groups(Json& rows, const std::vector<int>& place) {
  for (Json& group : rows["group"])
    if (group.get<int>() >= 0) group = place[static_cast<size_t>(group.get<int>())];
}

Json with_module(const ReportedPlan& reported) {
  const PlannedProgram planned(*reported.plan, *reported.graph, *reported.profile);
  const Plan& plan = *reported.plan;
  ReportTables tables(plan.mesh);
  GroupRows groups;
  ArgumentTables arguments = argument_rows(planned, tables);
  const ModelBlocks model = model_blocks(planned.bound, arguments.roles);
  arguments.args["block"] = model.arguments;
  Json ops = op_rows(planned, model.ops, tables, groups);
  ChangeTable changes = change_rows(planned, tables, groups);
  const std::vector<int> place = groups.sort();
  renumber_groups(ops, place);
  renumber_groups(changes.rows, place);
  Json ways = way_rows(planned, tables, ops);
  Json report = header(reported);
  report["memory"] = memory_rows(planned, changes, tables);
  report["figures"] = figures_json(
      plan.figures ? plan.figures : plan::plan_figures(plan, *reported.graph, *reported.profile));
  report["blocks"] = blocks_json(model, tables);
  report["args"] = std::move(arguments.args);
  report["arg_groups"] = std::move(arguments.groups);
  report["measured"] = reported.measured.empty()
                           ? Json(nullptr)
                           : measured_report(reported.measured, planned, changes);
  report["schedule"] = schedule_rows(planned, changes);
  report["ops"] = std::move(ops);
  report["changes"] = std::move(changes.rows);
  report["groups"] = groups.take(tables);
  report["classes"] = kernel_classes_json(planned);
  report["patterns"] = pattern_rows(planned);
  report["ways"] = std::move(ways);
  report["specs"] = tables.specs();
  report["types"] = tables.types();
  report["strings"] = tables.strings();
  return report;
}

Json without_module(const ReportedPlan& reported) {
  const Plan& plan = *reported.plan;
  ReportTables tables(plan.mesh);
  GroupRows groups;
  ArgumentTables arguments = argument_rows(plan, tables);
  Json ops = op_rows(plan, tables, groups);
  for (const plan::CollectiveTotal& sum : plan.totals.collectives)
    groups.add(sum.kind + " " + sum.axes, -1, "", "", sum.count, sum.seconds);
  renumber_groups(ops, groups.sort());
  ModelBlocks model;
  model.blocks.push_back({"step", -1, -1, 1});
  arguments.args["block"] = std::vector<int>(arguments.roles.size(), 0);
  Json report = header(reported);
  report["memory"] = memory_of_plan(plan);
  report["figures"] = figures_json(plan.figures);
  report["blocks"] = blocks_json(model, tables);
  report["args"] = std::move(arguments.args);
  report["arg_groups"] = Json::array();
  report["measured"] = nullptr;
  report["schedule"] = nullptr;
  report["ops"] = std::move(ops);
  report["changes"] = empty_change_rows();
  report["groups"] = groups.take(tables);
  report["classes"] =
      Json::array({{{"what", "compute"}, {"seconds", rounded(plan.totals.compute_seconds)}}});
  report["patterns"] = Json::array();
  report["ways"] = Json::array();
  report["specs"] = tables.specs();
  report["types"] = tables.types();
  report["strings"] = tables.strings();
  return report;
}

}  // namespace

Json mesh_report(const Mesh& mesh, const MachineProfile* profile) {
  Json axes = Json::array();
  for (size_t a = 0; a < mesh.axes.size(); ++a)
    axes.push_back(axis_json(mesh, static_cast<int>(a), profile));
  return {{"axes", std::move(axes)},
          {"devices", mesh.num_devices()},
          {"devices_per_node", profile ? profile->devices_per_node : mesh.num_devices()},
          {"order", mesh.device_ids.empty() ? Json(nullptr) : Json(mesh.device_ids)}};
}

std::string title_of(const Plan& plan) {
  const std::string what = !plan.source.empty()   ? plan.source.substr(plan.source.rfind('/') + 1)
                           : !plan.module.empty() ? "@" + plan.module
                                                  : "@" + plan.entry;
  return fmt::format("{} on {} of {}", what, to_string(*plan.mesh), plan.machine);
}

Json plan_report(const ReportedPlan& reported) {
  return reported.graph ? with_module(reported) : without_module(reported);
}

}  // namespace cleave::report
