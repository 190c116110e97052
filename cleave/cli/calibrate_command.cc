#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "cleave/cli/commands.h"
#include "cleave/core/error.h"
#include "cleave/machine/fit.h"
#include "cleave/plan/program_cost.h"
#include "cleave/runtime/measure_host.h"

namespace cleave::cli {
namespace {

struct CalibrateCommand {
  std::string out;
  std::string name = "this host";
  double seconds = 40;
  int64_t devices = 8;
};

void print_row(const std::string& what, double measured, double predicted) {
  fmt::print("  {:<44} {:>10} {:>10}  {:>+6.0f}%\n", what, plan::seconds_text(measured),
             plan::seconds_text(predicted), 100 * (predicted / measured - 1));
}

void print_table(const HostTimings& timings, const MachineProfile& profile) {
  fmt::print("  {:<44} {:>10} {:>10}  {:>7}\n", "", "measured", "predicted", "");
  for (const KernelTiming& timing : timings.kernels)
    print_row(timing.what, timing.seconds, op_seconds(timing.cost, timing.dtype, profile));
  for (const CollectiveTiming& timing : timings.collectives)
    print_row(fmt::format("{} of {:.0f} KiB, {} devices", name(timing.kind), timing.bytes / 1024,
                          timing.ranks),
              timing.seconds, predicted_seconds(timing, profile));
  fmt::print(
      "{} kernels within {:.0f}% at the median, {} collectives within {:.0f}%\n"
      "{} cores; devices at the same time compute like {:.2f} of them\n",
      timings.kernels.size(), 100 * median_error(timings.kernels, profile),
      timings.collectives.size(), 100 * median_error(timings.collectives, profile), timings.cores,
      profile.concurrent_devices);
}

void run(const CalibrateCommand& command) {
  if (command.seconds <= 0) throw_user("--seconds must be positive");
  MeasureOptions options;
  options.seconds = command.seconds;
  options.most_devices = command.devices;
  const bool terminal = isatty(fileno(stderr));
  int last = -1;
  options.progress = [&](std::string_view what, double done) {
    const int percent = static_cast<int>(100 * done);
    if (terminal)
      fmt::print(stderr, "\r\x1b[K{:3}%  {}", percent, what);
    else if (percent / 10 != last / 10 || last < 0)
      fmt::print(stderr, "{:3}%  {}\n", percent, what);
    last = percent;
    std::fflush(stderr);
  };
  HostTimings timings = measure_host(options);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  timings.name = command.name;
  const MachineProfile profile = fit_profile(timings);
  print_table(timings, profile);
  if (command.out.empty()) return;
  std::ofstream file(command.out);
  file << to_json(profile) << "\n";
  if (!file.flush()) throw_user("{}: cannot be written", command.out);
  fmt::print("wrote {}; use it as --machine {}\n", command.out, command.out);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure this machine's kernels and local collectives, and write its profile");
  auto options = std::make_shared<CalibrateCommand>();
  command->add_option("--out", options->out, "the profile, as JSON");
  command->add_option("--name", options->name, "its name (default: this host)");
  command->add_option("--seconds", options->seconds, "how long to measure (default: 40)");
  command->add_option("--devices", options->devices,
                      "virtual devices of the largest collectives (default: 8)");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
