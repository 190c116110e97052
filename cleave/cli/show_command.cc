#include <fmt/core.h>

#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/cli/terminal.h"
#include "cleave/core/error.h"
#include "cleave/core/picture.h"
#include "cleave/core/placement.h"
#include "cleave/core/shard_layout.h"

namespace cleave::cli {
namespace {

struct ShowArguments {
  std::string mesh, shape, spec, placements;
  bool devices = false;
};

std::string placements_text(const ShardingSpec& spec) {
  try {
    return to_string(to_placements(spec));
  } catch (const UserError&) {
    return "cannot say it: a part of an axis is used";
  }
}

void run(const ShowArguments& options) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(options.mesh));
  const Shape shape = parse_shape(options.shape);
  if (options.spec.empty() == options.placements.empty())
    throw_user("give one of --spec and --placements");
  const ShardingSpec spec =
      options.spec.empty()
          ? from_placements(parse_placements(options.placements), mesh, shape.size())
          : parse_sharding(options.spec, mesh);
  verify(spec, shape);
  std::string text = fmt::format("mesh        {}\n", to_string(*mesh));
  text += fmt::format("tensor      {}\n", shape.empty() ? "scalar" : to_string(shape));
  text += fmt::format("sharding    {}\n", to_string(spec));
  if (!mesh->is_maximal()) {
    text += fmt::format("placements  {}\n", placements_text(spec));
    text += fmt::format("shard       {}{}\n",
                        shape.empty() ? "scalar" : to_string(local_shape(spec, shape)),
                        is_even(spec, shape) ? "" : " at most; uneven");
  }
  print_painted(text, axis_names(*mesh));
  const Terminal terminal = terminal_of_output();
  const std::string drawn = picture(spec, shape);
  const bool is_drawn = fits(drawn, terminal);
  if (is_drawn)
    fmt::print("\n{}", painted_picture(drawn, terminal, spec, shape));
  else
    fmt::print("\nthe picture is wider than the terminal\n");
  if (options.devices || !is_drawn || (!mesh->is_maximal() && !is_even(spec, shape)))
    fmt::print("\n{}", device_table(spec, shape));
}

}  // namespace

void add_show_command(CLI::App& app) {
  auto options = std::make_shared<ShowArguments>();
  CLI::App* command = app.add_subcommand("show", "A picture of which device holds what");
  command->add_option("--mesh", options->mesh, "x=2,y=4")->required();
  command->add_option("--shape", options->shape, "8x16; empty for a scalar")->required();
  command->add_option("--spec", options->spec, "[{\"x\"}, {\"y\"}]");
  command->add_option("--placements", options->placements, "S(0), R, P(sum): one per mesh axis");
  command->add_flag("--devices", options->devices, "also list what each device holds");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
