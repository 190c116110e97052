#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "cleave/analyze/program_cost.h"
#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/measure_scripts.h"
#include "cleave/cli/xla_run.h"
#include "cleave/compile/measure_host.h"
#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/core/units.h"
#include "cleave/machine/fit.h"
#include "cleave/machine/host_profile.h"
#include "cleave/machine/measurements.h"
#include "cleave/pjrt/engine.h"
#include "cleave/pjrt/measure_device.h"

namespace cleave::cli {
namespace {

struct CalibrateCommand {
  std::string out, emit, from, base, engine, keep;
  std::string name;
  double seconds = 25;
  int64_t devices = 0;  // 0: eight of this host, or all of an engine
  bool quick = false;
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
  std::vector<FusionTiming> other;
  for (const FusionTiming& timing : timings.fusions) {
    print_row(timing.what, timing.seconds, predicted_seconds(timing, profile), timing.is_check);
    if (timing.is_check) other.push_back(timing);
  }
  for (const CollectiveTiming& timing : timings.collectives)
    print_row(fmt::format("{} of {:.0f} KiB, {} devices", name(timing.kind), timing.bytes / 1024,
                          timing.ranks),
              timing.seconds, predicted_seconds(timing, profile), false);
  print_errors(timings, profile);
  fmt::print(
      "{} kernels within {:.0f}% at the median, {} that the fit did not see within {:.0f}%; {} "
      "fused ones within {:.0f}%, {} that the fit did not see within {:.0f}%; {} collectives "
      "within {:.0f}%\n"
      "{} cores; devices at the same time compute like {:.2f} of them, {:.2f} from memory\n",
      timings.kernels.size(), 100 * median_error(timings.kernels, profile), checks.size(),
      100 * median_error(checks, profile), timings.fusions.size(),
      100 * median_error(timings.fusions, profile), other.size(),
      100 * median_error(other, profile), timings.collectives.size(),
      100 * median_error(timings.collectives, profile), timings.cores, profile.concurrent_devices,
      profile.concurrent_memory);
}

// The built-in profile that a device's own name speaks of.
std::string base_of(const std::string& device) {
  std::string lower = device;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(c == ' ' ? '-' : std::tolower(c));
  });
  for (const std::string& known : builtin_profile_names())
    if (lower.find(known) != std::string::npos) return known;
  throw_user(
      "'{}' is none of the machines that are built in; name the one that is most like it: "
      "--base h100",
      device);
}

void print_change(const char* what, double before, double after) {
  fmt::print("  {:<28} {:>10.4g} {:>10.4g}\n", what, before, after);
}

void print_fit(const MachineProfile& base, const MachineProfile& fitted) {
  fmt::print("  {:<28} {:>10} {:>10}\n", "", base.name, "fitted");
  print_change("memory_gbps", base.memory_gbps, fitted.memory_gbps);
  for (const auto& [dtype, tflops] : fitted.tiles.tflops) {
    const auto before = base.tiles.tflops.find(dtype);
    print_change(fmt::format("tiles.tflops.{}", name(dtype)).c_str(),
                 before == base.tiles.tflops.end() ? 0 : before->second, tflops);
  }
  const TileModel &old_tiles = base.tiles, &tiles = fitted.tiles;
  print_change("tiles.launch_us", old_tiles.launch_us, tiles.launch_us);
  print_change("tiles.small_share", old_tiles.small_share, tiles.small_share);
  print_change("tiles.last_wave", old_tiles.last_wave, tiles.last_wave);
  print_change("tiles.odd_rows", old_tiles.odd_rows, tiles.odd_rows);
  print_change("tiles.convolution_share", old_tiles.convolution_share, tiles.convolution_share);
  const ExecutorProfile &old = base.executor, &now = fitted.executor;
  print_change("executor.launch_us", old.launch_us, now.launch_us);
  print_change("executor.argument_us", old.argument_us, now.argument_us);
  print_change("executor.reduction_share", old.reduction_share, now.reduction_share);
  print_change("executor.rows_share", old.rows_share, now.rows_share);
  print_change("executor.transpose_share", old.transpose_share, now.transpose_share);
  print_change("executor.strided_share", old.strided_share, now.strided_share);
  print_change("executor.vector_tops", old.vector_tops, now.vector_tops);
}

// On a terminal a line that changes, elsewhere a line for every tenth.
class Progress {
 public:
  void tell(std::string_view what, double done) {
    const int percent = static_cast<int>(100 * done);
    if (terminal_)
      fmt::print(stderr, "\r\x1b[K{:3}%  {}", percent, what);
    else if (percent / 10 != last_ / 10 || last_ < 0)
      fmt::print(stderr, "{:3}%  {}\n", percent, what);
    last_ = percent;
    std::fflush(stderr);
  }
  void end() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  const bool terminal_ = isatty(fileno(stderr));
  int last_ = -1;
};

// The profile that a device's measurements are fitted from: the built-in one of its name, and for
// this host's processors the profile of the host.
MachineProfile base_profile(const CalibrateCommand& command, const DeviceMeasurements& measured) {
  if (!command.base.empty()) return load_profile(command.base);
  if (measured.device != "cpu") return load_profile(base_of(measured.device));
  if (!std::filesystem::exists(host_profile_path()))
    throw_user(
        "the profile of a CPU is fitted from that of its host; run `cleave calibrate` first, or "
        "name another: --base h100");
  return load_profile("host");
}

void fit_and_write(const CalibrateCommand& command, const DeviceMeasurements& measured) {
  const MachineProfile base = base_profile(command, measured);
  MachineProfile profile = fit_device(measured, base);
  if (!command.name.empty()) profile.name = command.name;
  fmt::print("{}, {} kernels and {} collectives with {}\n", measured.device,
             measured.kernels.size(), measured.collectives.size(), measured.framework);
  print_fit(base, profile);
  auto cell = [](const FitErrors::Row& row) {
    return row.count ? fmt::format("{:>3}  {:>4.0f}% {:>4.0f}%", row.count, 100 * row.median,
                                   100 * row.worst)
                     : std::string();
  };
  fmt::print("\nerrors: median, worst           fitted            checked\n");
  for (const FitErrors& row : fit_errors(measured, profile))
    fmt::print("  {:<22} {:>16} {:>18}\n", row.what, cell(row.fitted), cell(row.checked));
  if (profile.executor.name == "xla-cpu")
    fmt::print(
        "note: a profile of XLA on a CPU is rough. The errors above are those of single kernels, "
        "in "
        "f32; steps may be several times off\n");
  if (command.out.empty()) {
    fmt::print("nothing was written; --out FILE keeps the profile\n");
    return;
  }
  write_profile(command.out, profile);
  fmt::print("wrote {0}; use it as --machine {0}\n", command.out);
}

void fit_from(const CalibrateCommand& command) {
  if (!command.out.empty()) check_writable(command.out);
  DeviceMeasurements measured;
  try {
    measured = measurements_from_json(read_input_file(command.from));
  } catch (const UserError& error) {
    throw_user("{}: {}", command.from, error.what());
  }
  fit_and_write(command, measured);
}

void measure_engine(const CalibrateCommand& command) {
  if (!pjrt::is_xla_engine(command.engine))
    throw_user("--engine cleave: it is what is measured without --engine");
  for (const std::string* path : {&command.out, &command.keep})
    if (!path->empty()) check_writable(*path);
  quiet_plugins();
  Progress progress;
  const DeviceMeasurements measured = pjrt::measure_device(
      command.engine,
      {.devices = command.devices,
       .small = command.quick,
       .progress = [&](std::string_view what, double done) { progress.tell(what, done); }});
  progress.end();
  if (!command.keep.empty()) write_file(command.keep, measurements_to_json(measured));
  fit_and_write(command, measured);
}

void run(const CalibrateCommand& command) {
  if (!command.emit.empty()) {
    if (command.emit != "jax" && command.emit != "torch")
      throw_user("--emit {}: there are jax and torch", command.emit);
    fmt::print("{}", command.emit == "jax" ? kMeasureWithJax : kMeasureWithTorch);
    return;
  }
  if (!command.from.empty()) return fit_from(command);
  if (!command.base.empty() && command.engine.empty())
    throw CLI::RequiresError("--base", "--from or --engine");
  if (!command.engine.empty()) return measure_engine(command);
  if (command.seconds < 1 || command.seconds > 3600) throw_user("--seconds must be from 1 to 3600");
  const int64_t devices = command.devices == 0 ? 8 : command.devices;
  if (devices < 2 || devices > 64) throw_user("--devices must be from 2 to 64");
  MeasureOptions options;
  options.seconds = command.seconds;
  options.most_devices = devices;
  Progress progress;
  options.progress = [&](std::string_view what, double done) { progress.tell(what, done); };
  const std::string path = command.out.empty() ? host_profile_path() : command.out;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder)) check_writable(path);
  HostTimings timings = measure_host(options);
  progress.end();
  timings.name = command.name.empty() ? "this host" : command.name;
  const MachineProfile profile = fit_profile(timings);
  print_table(timings, profile);
  write_profile(path, profile);
  fmt::print("wrote {}; use it as --machine {}\n", path, command.out.empty() ? "host" : path);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Measure this machine's kernels and local collectives, or fit what was measured on GPUs, and "
      "write its profile");
  auto options = std::make_shared<CalibrateCommand>();
  command->add_option("-o,--out", options->out,
                      "where to write the profile, as JSON (default: the place that --machine host "
                      "reads)");
  command->add_option("--name", options->name, "its name (default: this host)");
  CLI::Option* emit = command->add_option(
      "--emit", options->emit,
      "jax or torch: print a script that measures a machine with GPUs, to be run there");
  CLI::Option* from = command->add_option(
      "--from", options->from, "fit a profile to the measurements that such a script wrote");
  CLI::Option* engine = command->add_option(
      "--engine", options->engine,
      "xla[:PLUGIN]: measure XLA's kernels on its devices through PJRT, and fit a profile to them");
  command->add_option("--base", options->base,
                      "with --from and --engine: the profile that has what was not measured "
                      "(default: by the device's name)");
  command
      ->add_option("--keep", options->keep,
                   "with --engine: write the measurements as well, which --from reads")
      ->needs(engine);
  command->add_flag("--quick", options->quick, "with --engine: small sizes, to see that it works")
      ->needs(engine);
  engine->excludes(from)->excludes(emit);
  emit->excludes(from);
  command->add_option("--seconds", options->seconds, "how long to measure (default: 25)");
  command->add_option(
      "--devices", options->devices,
      "virtual devices of the largest collectives (default: 8; with --engine all that it "
      "has, and of a CPU none)");
  for (const char* host : {"--seconds", "--devices"}) {
    from->excludes(command->get_option(host));
    emit->excludes(command->get_option(host));
  }
  engine->excludes(command->get_option("--seconds"));
  emit->excludes(command->get_option("--base"));
  emit->excludes(command->get_option("--out"))->excludes(command->get_option("--name"));
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
