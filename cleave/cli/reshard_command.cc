#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cleave/cli/commands.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/reshard/reshard.h"

namespace cleave::cli {
namespace {

struct ReshardArguments {
  std::string mesh, to_mesh, shape, dtype = "f32", from, to, machine = "default";
  std::vector<std::string> via;
  std::string memory;
  bool json = false;
};

// Steps that the user gives as kind=spec, priced and not searched; a spec that ends in `@to` is on
// the target's mesh.
ReshardPlan price(const ReshardArguments& options, const ShardingSpec& from, const ShardingSpec& to,
                  const Shape& shape, DType dtype, const MachineProfile& profile) {
  ReshardPlan plan;
  ShardingSpec before = from;
  for (const std::string& text : options.via) {
    const size_t equals = text.find('=');
    auto kind = step_kind_from_name(text.substr(0, equals));
    if (!kind || equals == std::string::npos)
      throw_user("--via '{}': expected kind=spec, such as all_gather='[{{\"x\"}}, {{}}]'", text);
    std::string spec = text.substr(equals + 1);
    const bool on_target = spec.ends_with("@to");
    if (on_target) spec.resize(spec.size() - 3);
    const ShardingSpec after = parse_sharding(spec, on_target ? to.mesh : before.mesh);
    plan.steps.push_back(make_step(*kind, before, after, shape, dtype, profile));
    plan.seconds += plan.steps.back().seconds;
    plan.bytes += plan.steps.back().bytes;
    const int64_t held =
        num_elements(local_shape(before, shape)) + num_elements(local_shape(after, shape));
    plan.peak_bytes = std::max(plan.peak_bytes, held * byte_size(dtype));
    before = after;
  }
  if (!before.same_layout(to) && !(before.is_fully_replicated() && to.is_fully_replicated()))
    throw_user("--via ends at {} and not at {}", to_string(before), to_string(to));
  return plan;
}

void print_text(const ReshardPlan& plan, const ShardingSpec& from) {
  struct Line {
    std::string what, spec, cost;
  };
  std::vector<Line> lines = {{"", to_string(from), ""}};
  size_t what = 0, spec = 0;
  for (const ReshardStep& step : plan.steps) {
    const std::string text = to_string(step);
    lines.push_back({text.substr(0, text.find(" -> [")), to_string(step.after),
                     fmt::format("{} bytes, {}", step.bytes, seconds_text(step.seconds, 3))});
  }
  for (const Line& line : lines) {
    what = std::max(what, line.what.size());
    spec = std::max(spec, line.spec.size());
  }
  for (const Line& line : lines) {
    std::string text =
        fmt::format("{:<{}}  {:<{}}  {}", line.what, what, line.spec, spec, line.cost);
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print("{}\n", text);
  }
  fmt::print("{} step{}, {} bytes received, {} peak, {}\n", plan.steps.size(),
             plan.steps.size() == 1 ? "" : "s", plan.bytes, plan.peak_bytes,
             seconds_text(plan.seconds, 3));
}

void print_json(const ReshardPlan& plan, const ShardingSpec& from, const std::string& machine) {
  nlohmann::ordered_json json = {{"machine", machine},
                                 {"from", to_string(from)},
                                 {"seconds", plan.seconds},
                                 {"bytes", plan.bytes},
                                 {"peak_bytes", plan.peak_bytes},
                                 {"steps", nlohmann::ordered_json::array()}};
  for (const ReshardStep& step : plan.steps) {
    const std::string text = to_string(step);
    json["steps"].push_back({{"kind", name(step.kind)},
                             {"text", text.substr(0, text.find(" -> ["))},
                             {"axes", "{" + to_string(step.axes, *step.after.mesh) + "}"},
                             {"spec", to_string(step.after)},
                             {"mesh", to_string(*step.after.mesh)},
                             {"bytes", step.bytes},
                             {"seconds", step.seconds}});
  }
  fmt::print("{}\n", json.dump(2));
}

void run(const ReshardArguments& options) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(options.mesh));
  const auto to_mesh =
      options.to_mesh.empty() ? mesh : std::make_shared<const Mesh>(parse_mesh(options.to_mesh));
  const Shape shape = parse_shape(options.shape);
  const DType dtype = parse_dtype(options.dtype);
  const ShardingSpec from = parse_sharding(options.from, mesh);
  const ShardingSpec to = parse_sharding(options.to, to_mesh);
  const MachineProfile profile = load_profile(options.machine);
  ReshardOptions limits;
  if (!options.memory.empty()) limits.memory = parse_bytes(options.memory);
  verify(from, shape);
  verify(to, shape);
  const ReshardPlan plan = options.via.empty()
                               ? plan_reshard(from, to, shape, dtype, profile, limits)
                               : price(options, from, to, shape, dtype, profile);
  if (options.json)
    print_json(plan, from, profile.name);
  else
    print_text(plan, from);
}

}  // namespace

void add_reshard_command(CLI::App& app) {
  auto options = std::make_shared<ReshardArguments>();
  CLI::App* command =
      app.add_subcommand("reshard", "The cheapest collectives from one sharding to another");
  command->add_option("--mesh", options->mesh, "x=2,y=4")->required();
  command->add_option("--to-mesh", options->to_mesh, "the mesh of --to, if it differs");
  command->add_option("--shape", options->shape, "16x16; empty for a scalar")->required();
  command->add_option("--dtype", options->dtype, "element type (default: f32)");
  command->add_option("--from", options->from, "[{\"x\"}, {}]")->required();
  command->add_option("--to", options->to, "[{}, {\"x\"}], unreduced={\"y\"}")->required();
  command->add_option("--machine", options->machine, "a built-in name, or a JSON file");
  command->add_option("--memory", options->memory,
                      "bound on the bytes of a step's operand and result on one device; 2GiB");
  command->add_option("--via", options->via,
                      "price these steps instead of searching: all_gather='[{}, {}]' ...; a spec "
                      "followed by @to is on the mesh of --to");
  command->add_flag("--json", options->json, "print JSON");
  command->get_option("--via")->excludes(command->get_option("--memory"));
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
