#include "cleave/plan/jax_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cleave/analyze/program_cost.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/constraints.h"
#include "cleave/plan/names.h"
#include "cleave/rules/pipelines.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/reshard_passes.h"

namespace cleave::plan {
namespace {

constexpr double kAsPlanned = 0.02;  // of the plan's bytes

// The module with what JAX would be told of arguments and results.
Graph with_borders(const Plan& plan, const Graph& graph) {
  Graph result = graph;
  Mesh named = *plan.mesh;
  if (named.name.empty()) named.name = "mesh";
  const MeshPtr mesh = std::make_shared<const Mesh>(std::move(named));
  if (!result.find_mesh(mesh->name)) result.meshes.push_back(mesh);
  const Graph flat = flatten(graph, plan.entry);
  const BoundPlan bound = bind(plan, flat);
  Function& function = *result.find_function(plan.entry);
  const auto set = [&](AttrDict& attrs, const ShardingSpec& spec, const Shape& shape) {
    if (!spec.mesh) return;
    ShardingSpec even = even_part(spec, shape);
    even.mesh = mesh;
    attrs.set(kShardingAttr, ShardingAttr{std::move(even)});
  };
  function.arg_attrs.resize(function.arg_types.size());
  function.result_attrs.resize(function.result_types.size());
  for (size_t i = 0; i < function.arg_types.size(); ++i)
    set(function.arg_attrs[i], plan.values[i].spec, function.arg_types[i].shape);
  for (size_t i = 0; i < function.result_types.size(); ++i)
    set(function.result_attrs[i], bound.end->operands[i].spec, function.result_types[i].shape);
  return result;
}

std::string share(double bytes, double of) {
  return of > 0 ? fmt::format(" ({:+.0f}%)", 100 * (bytes / of - 1)) : "";
}

}  // namespace

bool JaxForecast::is_the_plan() const {
  const double near = kAsPlanned * planned_bytes;
  if (std::abs(bytes - planned_bytes) > near) return false;
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) {
    return std::abs(row.bytes - row.planned_bytes) <= near;
  });
}

JaxForecast forecast_of_jax(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  Graph propagated = with_borders(plan, graph);
  run_propagation_pipeline(propagated, {});
  insert_explicit_reshards(propagated, true);  // completes sums where they stand, as XLA does
  const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
  PartitionOptions options;
  options.entry = plan.entry;
  options.profile = &shared;
  options.wide_sums = false;  // XLA sums in the type of the value
  const Program program = partition(propagated, options);
  const analyze::ProgramCost cost = analyze::program_cost(program, shared, plan.trips);
  JaxForecast forecast;
  forecast.seconds = cost.seconds;
  forecast.planned_seconds = plan.totals.seconds;
  std::map<std::pair<std::string, std::string>, JaxForecast::Row> rows;
  for (const CollectiveTotal& total : plan.totals.collectives) {
    JaxForecast::Row& row = rows[{total.kind, total.axes}];
    row.planned_bytes += total.bytes;
    row.planned_count += total.count;
    forecast.planned_bytes += total.bytes;
  }
  for (const analyze::CollectiveCostSum& sum : cost.transfers) {
    JaxForecast::Row& row = rows[{sum.kind, sum.axes}];
    row.bytes += sum.bytes;
    row.count += sum.executions;
    forecast.bytes += sum.bytes;
  }
  for (auto& [key, row] : rows) {
    if (row.planned_bytes == 0 && row.bytes == 0) continue;
    row.kind = key.first;
    row.axes = key.second;
    forecast.rows.push_back(std::move(row));
  }
  const auto gap = [](const JaxForecast::Row& row) {
    return std::abs(row.bytes - row.planned_bytes);
  };
  std::stable_sort(forecast.rows.begin(), forecast.rows.end(),
                   [&](const auto& a, const auto& b) { return gap(a) > gap(b); });
  return forecast;
}

std::string to_string(const JaxForecast& forecast) {
  const auto size = [](double bytes) { return bytes_text(bytes, BytesStyle::Table); };
  if (forecast.is_the_plan())
    return fmt::format(
        "From these layouts XLA is forecast to follow the plan: {} received by a device, {} were "
        "planned.\n",
        size(forecast.bytes), size(forecast.planned_bytes));
  std::string text = fmt::format(
      "XLA is forecast not to follow the plan from these layouts alone: {} received by a device, "
      "{} "
      "were planned{}. --export manual is followed exactly.\n",
      size(forecast.bytes), size(forecast.planned_bytes),
      share(forecast.bytes, forecast.planned_bytes));
  for (const JaxForecast::Row& row : forecast.rows)
    text += fmt::format("  {:<34} planned {:>10} x{:<5.0f} forecast {:>10} x{:.0f}\n",
                        row.kind + " " + row.axes, size(row.planned_bytes), row.planned_count,
                        size(row.bytes), row.count);
  return text;
}

}  // namespace cleave::plan
