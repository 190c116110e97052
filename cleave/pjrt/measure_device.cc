#include "cleave/pjrt/measure_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/pjrt/engine.h"
#include "cleave/pjrt/measure_cases.h"

namespace cleave::pjrt {
namespace {

using Rows = std::vector<std::vector<BufferPtr>>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait(const Rows& rows) {
  for (const std::vector<BufferPtr>& row : rows)
    for (const BufferPtr& buffer : row) buffer->wait();
}

class Meter {
 public:
  Meter(const std::string& engine, const MeasureDeviceOptions& options)
      : client_(engine_client(engine, std::max<int64_t>(1, options.devices))), options_(options) {
    is_cpu_ = client_->platform() == "cpu" || client_->platform() == "Host";
    small_ = options.small || is_cpu_;
  }

  DeviceMeasurements measure() {
    DeviceMeasurements measured;
    measured.device = client_->devices().at(0).kind;
    measured.framework = "PJRT " + client_->platform();
    measured.executor = is_cpu_ ? "xla-cpu" : client_->platform() == "tpu" ? "xla-tpu" : "xla-gpu";
    if (const std::optional<DeviceMemory> memory = client_->memory(0); memory && memory->limit)
      measured.memory_bytes = static_cast<double>(*memory->limit);
    const std::vector<MeasureCase> cases =
        measure_cases(small_, client_->platform() == "cuda" || client_->platform() == "gpu",
                      is_cpu_ ? DType::F32 : DType::BF16);
    for (size_t i = 0; i < cases.size(); ++i) {
      tell(name(cases[i].row.kind),
           0.8 * static_cast<double>(i) / static_cast<double>(cases.size()));
      MeasuredKernel row = cases[i].row;
      row.seconds = kernel_seconds(cases[i]);
      measured.kernels.push_back(row);
    }
    tell("launches", 0.8);
    add_launches(measured);
    add_arguments(measured);
    add_collectives(measured);
    tell("done", 1);
    return measured;
  }

 private:
  void tell(std::string_view what, double done) const {
    if (options_.progress) options_.progress(what, done);
  }

  XlaExecutable compile(const std::string& text, int64_t devices = 1) const {
    return {client_, every_device_module(parse_module(text), "main", devices)};
  }

  BufferPtr numbers(const Type& type) const {
    return compile(numbers_module(type)).start(Rows(1))[0][0];
  }

  // Of one call, if `calls` are started before the last is waited for. The best of some tries.
  double seconds(const XlaExecutable& executable, const Rows& args, int calls) const {
    wait(executable.start(args));
    double best = 1e9;
    for (int tries = 0; tries < 8; ++tries) {
      const double begin = now();
      Rows last;
      for (int i = 0; i < calls; ++i) last = executable.start(args);
      wait(last);
      best = std::min(best, (now() - begin) / calls);
    }
    return best;
  }
  // As many calls as take two milliseconds.
  double seconds(const XlaExecutable& executable, const Rows& args) const {
    const double once = std::max(seconds(executable, args, 1), 1e-6);
    return seconds(executable, args, std::clamp(static_cast<int>(0.002 / once), 1, 50));
  }

  // A program with the kernel several times against one with it once. Both are called equally often
  // before they are waited for, so that what starting and waiting take is not the kernel's.
  double kernel_seconds(const MeasureCase& measured) const {
    // A millisecond of kernels, as far as their arguments and results fit.
    const double alone = run_times(measured, 1, 1);
    const double budget = small_ ? 256e6 : 4e9;
    const double room = std::floor(budget / measured.bytes());
    const auto times =
        static_cast<int64_t>(std::clamp(std::min(1e-3 / alone, room), 2.0, 16.0)) + 1;
    constexpr int kCalls = 3;
    const double more = (run_times(measured, times, kCalls) - run_times(measured, 1, kCalls)) /
                        static_cast<double>(times - 1);
    return more > 0 ? more : alone;
  }

  double run_times(const MeasureCase& measured, int64_t times, int calls) const {
    Rows args(1);
    for (int64_t t = 0; t < times; ++t)
      for (const Type& type : measured.arguments) args[0].push_back(numbers(type));
    return seconds(compile(repeated_module(measured, times)), args, calls);
  }

  static int64_t count_kernels(const std::string& text) {
    int64_t count = 0;
    for (size_t at = text.find(" fusion("); at != std::string::npos;
         at = text.find(" fusion(", at + 1))
      ++count;
    return count;
  }

  void add_launches(DeviceMeasurements& measured) const {
    const int64_t size = small_ ? 64 : 4096;
    const Type x = Type::tensor(DType::F32, {64, 64}), a = Type::tensor(DType::BF16, {size, size});
    const Rows args = {{numbers(x), numbers(a)}};
    double times[2];
    int64_t kernels[2];
    for (const int i : {0, 1}) {
      const XlaExecutable executable = compile(launches_module(i ? 72 : 8, size));
      kernels[i] = count_kernels(executable.program().compiled_text());
      times[i] = 1e9;
      for (int tries = 0; tries < 20; ++tries) {
        const double begin = now();
        wait(executable.start(args));
        if (tries > 0) times[i] = std::min(times[i], now() - begin);
      }
    }
    if (kernels[1] <= kernels[0] || times[1] <= times[0]) return;
    MeasuredKernel row;
    row.kind = MeasuredKind::Launch;
    row.count = static_cast<double>(kernels[1] - kernels[0]);
    row.seconds = times[1] - times[0];
    measured.kernels.push_back(row);
  }

  void add_arguments(DeviceMeasurements& measured) const {
    for (const int64_t count : {8, 256}) {
      const XlaExecutable executable = compile(arguments_module(count));
      Rows args(1);
      for (int64_t i = 0; i < count; ++i) args[0].push_back(numbers(Type::tensor(DType::F32, {8})));
      double best = 1e9;
      for (int tries = 0; tries < 15; ++tries) {
        const double begin = now();
        for (int i = 0; i < 10; ++i) args = executable.start(args);
        wait(args);
        best = std::min(best, (now() - begin) / 10);
      }
      MeasuredKernel row;
      row.kind = MeasuredKind::Arguments;
      row.count = static_cast<double>(count);
      row.seconds = best;
      measured.kernels.push_back(row);
    }
  }

  void add_collectives(DeviceMeasurements& measured) const {
    const int64_t all = options_.devices > 0 ? options_.devices : client_->num_local_devices();
    if (all < 2) return;
    std::vector<int64_t> groups = {2};
    if (all > 2) groups.push_back(all);
    constexpr int64_t kLinks = 8;
    for (const int64_t ranks : groups)
      for (int k = 0; k < kNumCollectiveKinds; ++k)
        for (const int shift :
             small_ ? std::vector<int>{14, 18, 20, 22} : std::vector<int>{16, 20, 23, 26, 28}) {
          const auto kind = static_cast<CollectiveKind>(k);
          tell(name(kind), 0.9);
          // The larger side of a device's buffer has so many bytes.
          const int64_t bytes = int64_t{1} << shift;
          const int64_t elements =
              (kind == CollectiveKind::AllGather ? bytes / ranks : bytes) / 4 / ranks * ranks;
          const XlaExecutable executable =
              compile(collectives_module(kind, ranks, elements, kLinks), ranks);
          Rows args;
          const Array ones = Array::zeros(DType::F32, {elements});
          for (int64_t d = 0; d < ranks; ++d) args.push_back({executable.to_device(ones, 0, d)});
          measured.collectives.push_back(
              {kind, ranks, static_cast<double>(bytes), seconds(executable, args) / kLinks});
        }
  }

  std::shared_ptr<Client> client_;
  const MeasureDeviceOptions& options_;
  bool is_cpu_ = false, small_ = false;
};

}  // namespace

DeviceMeasurements measure_device(const std::string& engine, const MeasureDeviceOptions& options) {
  return Meter(engine, options).measure();
}

}  // namespace cleave::pjrt
