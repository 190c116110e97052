#include <fmt/core.h>

#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::cli {
namespace {

struct HloArguments {
  std::string file, temporaries;
  int64_t devices = 0;
  size_t most = 10;
  bool json = false;
  xla::CompiledOptions options;
};

void run(HloArguments arguments) {
  if (arguments.devices < 0)
    throw_user("--devices {}: a positive number of devices is needed", arguments.devices);
  if (arguments.devices > 0) arguments.options.devices = arguments.devices;
  if (!arguments.temporaries.empty())
    arguments.options.temporaries = parse_bytes(arguments.temporaries);
  const std::string text = read_text(arguments.file, "the text of a compiled HLO module");
  const xla::CompiledProgram program = xla::read_compiled(text, arguments.options);
  if (arguments.json)
    fmt::print("{}\n", to_json(program));
  else
    fmt::print("{}", to_string(program, arguments.most));
}

}  // namespace

void add_hlo_command(CLI::App& app) {
  auto a = std::make_shared<HloArguments>();
  CLI::App* command = app.add_subcommand(
      "hlo",
      "The collectives of a module that XLA compiled, with the bytes that a device receives");
  command->add_option("file", a->file, "HLO text, as compiled.as_text() of JAX; - reads stdin")
      ->required();
  command->add_option("--devices", a->devices, "how many there are, if the text does not say");
  command
      ->add_option("--trips", a->options.trips,
                   "trips assumed for loops whose number of trips XLA does not know")
      ->capture_default_str();
  command->add_option("--temporaries", a->temporaries,
                      "bytes of temp_size_in_bytes in memory_analysis(), which the text has not");
  auto* most = command->add_option("--most", a->most, "how many collectives are listed one by one")
                   ->capture_default_str();
  command->add_flag("--json", a->json, "everything, as JSON")->excludes(most);
  command->callback([a] { run(*a); });
}

}  // namespace cleave::cli
