#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cleave/analyze/program_cost.h"
#include "cleave/cli/commands.h"
#include "cleave/compile/measure_host.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/core/units.h"
#include "cleave/machine/fit.h"
#include "cleave/machine/host_profile.h"

namespace cleave::cli {
namespace {

struct CalibrateCommand {
  std::string out;
  std::string name = "this host";
  double seconds = 25;
  int64_t devices = 8;
};

void print_row(const std::string& what, double measured, double predicted, bool is_check) {
  fmt::print("  {:<44} {:>10} {:>10}  {:>+6.0f}%{}\n", what, seconds_text(measured),
             seconds_text(predicted), 100 * (predicted / measured - 1), is_check ? "  check" : "");
}

void print_errors(const HostTimings& timings, const MachineProfile& profile) {
  auto cell = [](size_t count, double error) {
    return count ? fmt::format("{:>4.0f}% of {:<3}", 100 * error, count) : std::string(11, ' ');
  };
  fmt::print("\nmedian error by kind         fitted       checked\n");
  for (const ErrorSummary& row : errors_by_class(timings.kernels, profile))
    fmt::print("  {:<24} {:>12} {:>12}\n", fmt::format("{} {}", name(row.kernel), name(row.dtype)),
               cell(row.fitted, row.fitted_error), cell(row.checked, row.checked_error));
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    std::vector<CollectiveTiming> own;
    for (const CollectiveTiming& timing : timings.collectives)
      if (timing.kind == static_cast<CollectiveKind>(k)) own.push_back(timing);
    fmt::print("  {:<24} {:>12}\n", name(static_cast<CollectiveKind>(k)),
               cell(own.size(), median_error(own, profile)));
  }
}

void print_table(const HostTimings& timings, const MachineProfile& profile) {
  fmt::print("  {:<44} {:>10} {:>10}  {:>7}\n", "", "measured", "predicted", "");
  std::vector<KernelTiming> checks;
  for (const KernelTiming& timing : timings.kernels) {
    print_row(timing.what, timing.seconds, op_seconds(timing.cost, timing.dtype, profile),
              timing.is_check);
    if (timing.is_check) checks.push_back(timing);
  }
  for (const CollectiveTiming& timing : timings.collectives)
    print_row(fmt::format("{} of {:.0f} KiB, {} devices", name(timing.kind), timing.bytes / 1024,
                          timing.ranks),
              timing.seconds, predicted_seconds(timing, profile), false);
  print_errors(timings, profile);
  fmt::print(
      "{} kernels within {:.0f}% at the median, {} that the fit did not see within {:.0f}%, {} "
      "collectives within {:.0f}%\n"
      "{} cores; devices at the same time compute like {:.2f} of them, {:.2f} from memory\n",
      timings.kernels.size(), 100 * median_error(timings.kernels, profile), checks.size(),
      100 * median_error(checks, profile), timings.collectives.size(),
      100 * median_error(timings.collectives, profile), timings.cores, profile.concurrent_devices,
      profile.concurrent_memory);
}

void run(const CalibrateCommand& command) {
  if (command.seconds < 1 || command.seconds > 3600) throw_user("--seconds must be from 1 to 3600");
  if (command.devices < 2 || command.devices > 64) throw_user("--devices must be from 2 to 64");
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
  const std::string path = command.out.empty() ? host_profile_path() : command.out;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder)) check_writable(path);
  HostTimings timings = measure_host(options);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  timings.name = command.name;
  const MachineProfile profile = fit_profile(timings);
  print_table(timings, profile);
  write_profile(path, profile);
  fmt::print("wrote {}; use it as --machine {}\n", path, command.out.empty() ? "host" : path);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure this machine's kernels and local collectives, and write its profile");
  auto options = std::make_shared<CalibrateCommand>();
  command->add_option("--out", options->out,
                      "where to write the profile, as JSON (default: the place that --machine host "
                      "reads)");
  command->add_option("--name", options->name, "its name (default: this host)");
  command->add_option("--seconds", options->seconds, "how long to measure (default: 25)");
  command->add_option("--devices", options->devices,
                      "virtual devices of the largest collectives (default: 8)");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
