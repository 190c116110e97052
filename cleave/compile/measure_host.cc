#include "cleave/compile/measure_host.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <optional>
#include <thread>

#include "cleave/compile/convolution_loops.h"
#include "cleave/compile/executable.h"
#include "cleave/compile/host_samples.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

// Processor time of the calling thread: what a kernel takes on a core of its own, whatever else
// runs.
double busy() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Processor time of all threads.
double busy_together() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The fastest of many: for `budget` seconds, at least three times.
double fastest(double budget, double (*clock)(), const std::function<void()>& run) {
  run();
  double best = 1e300;
  const double end = clock() + budget;
  for (int i = 0; i < 3 || (clock() < end && i < 2000); ++i) {
    const double begin = clock();
    run();
    best = std::min(best, clock() - begin);
  }
  return best;
}

// Numbers of rows jump about; everything else is any number.
Array argument(const Type& type, size_t index) {
  if (type.dtype != DType::I32) return make_array(type, fmt::format("random:{}", index + 1));
  Array rows(type.dtype, type.shape);
  auto* numbers = reinterpret_cast<int32_t*>(rows.raw());
  for (int64_t i = 0; i < rows.num_elements(); ++i)
    numbers[i] = static_cast<int32_t>(i * 2654435761 % kTableRows);
  return rows;
}

class Prepared {
 public:
  Prepared(const std::string& text, const std::string& passes)
      : graph_(parse_module(text)),
        executable_(graph_, "main", {.passes = passes, .threads = 1}),
        args_(1) {
    for (const Type& type : graph_.find_function("main")->arg_types)
      args_[0].push_back(argument(type, args_[0].size()));
  }
  void run() { executable_.run_shards_into(args_, results_); }
  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
  Executable executable_;
  std::vector<std::vector<Array>> args_, results_;
};

// The work of a function that counts as one kernel: what enters and leaves it.
OpCost whole_cost(const Graph& graph, KernelClass kernel) {
  OpCost cost{.kernel = kernel};
  const Function& main = *graph.find_function("main");
  for (const Type& type : main.arg_types) cost.bytes_read += static_cast<double>(type.byte_count());
  for (const Type& type : main.result_types)
    cost.bytes_written += static_cast<double>(type.byte_count());
  return cost;
}

KernelTiming time_sample(const HostSample& sample, double budget) {
  Prepared prepared(sample.text, sample.passes);
  KernelTiming timing;
  timing.what = sample.what;
  timing.is_check = sample.is_check;
  int count = 0;
  const Graph& graph = prepared.graph();
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.name() != sample.op) return;
    ++count;
    timing.cost = op_cost(graph, node);
    timing.dtype = graph.operand_type(node, 0).dtype;
  });
  if (sample.op.empty()) {
    count = 1;
    timing.cost = whole_cost(graph, sample.kernel);
    timing.dtype = graph.find_function("main")->arg_types[0].dtype;
  }
  timing.seconds = fastest(budget, busy, [&] { prepared.run(); });
  if (!sample.without.empty()) {
    Prepared without(sample.without, sample.passes);
    const double rest = fastest(budget / 2, busy, [&] { without.run(); });
    timing.seconds = std::max(timing.seconds - rest, timing.seconds * 0.05);
  }
  timing.seconds /= count;
  return timing;
}

FusionTiming time_fused(const FusedSample& sample, double budget) {
  Prepared prepared(sample.text, kFusedPasses);
  const Function& main = *prepared.graph().find_function("main");
  FusionTiming timing{sample.what, main.arg_types[0].dtype, sample.loops, {}, 0, sample.is_check};
  if (timing.loops.empty())
    prepared.graph().walk([&](NodeId id) {
      const Node& node = prepared.graph().node(id);
      if (is<op::Convolution>(node)) timing.loops = convolution_loops(prepared.graph(), node);
    });
  for (const auto* types : {&main.arg_types, &main.result_types})
    for (const Type& type : *types) timing.bytes.push_back(static_cast<double>(type.byte_count()));
  timing.seconds = fastest(budget, busy, [&] { prepared.run(); });
  return timing;
}

// On all cores at the same time, against one alone.
double measure_slowdown(int64_t cores, const HostSample& sample) {
  Prepared alone(sample.text, sample.passes);
  const double one = fastest(0.2, busy, [&] { alone.run(); });
  std::barrier start(cores);
  std::vector<double> together(static_cast<size_t>(cores));
  std::vector<std::jthread> threads;
  for (int64_t c = 0; c < cores; ++c)
    threads.emplace_back([&, c] {
      Prepared own(sample.text, sample.passes);
      start.arrive_and_wait();
      together[static_cast<size_t>(c)] = fastest(0.3, busy, [&] { own.run(); });
    });
  threads.clear();
  const double worst = *std::max_element(together.begin(), together.end()) / one;
  return std::clamp(worst, 1.0, static_cast<double>(cores));
}

struct CollectiveSample {
  CollectiveKind kind;
  const char* from;
  const char* to;
};
constexpr CollectiveSample kNothing = {CollectiveKind::AllGather, "[{}, {}]", "[{}, {}]"};
constexpr CollectiveSample kCollectives[] = {
    {CollectiveKind::AllGather, R"([{"x", "y"}, {}])", R"([{}, {}])"},
    {CollectiveKind::AllReduce, R"([{}, {}], unreduced={"x", "y"})", R"([{}, {}])"},
    {CollectiveKind::ReduceScatter, R"([{}, {}], unreduced={"x", "y"})", R"([{"x", "y"}, {}])"},
    {CollectiveKind::AllToAll, R"([{"x", "y"}, {}])", R"([{}, {"x", "y"}])"},
    {CollectiveKind::Permute, R"([{"x", "y"}, {}])", R"([{"y", "x"}, {}])"},
};
// So many that no cache holds what they move, as in a step.
int copies_of(int64_t rows) { return rows > 4096 ? 8 : 32; }

// Changes of layout with a product of every device between them: as in a step, devices come to
// them at different times and wait, and find what others have written in another core's cache.
Program reshard_program(int64_t ranks, int64_t rows, int copies, const CollectiveSample& sample) {
  std::string args = "%w: tensor<32x256xf32>, %m: tensor<256x256xf32>", body, last = "%w";
  std::string types, names, plain;
  for (int i = 0; i < copies; ++i) {
    args += fmt::format(", %a{}: tensor<{}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}", i,
                        rows, sample.from);
    types += fmt::format("tensor<{}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}, ", rows,
                         sample.to);
    body += fmt::format(
        "  %r{0} = sdy.sharding_constraint %a{0} <@mesh, {1}> : tensor<{2}x64xf32>\n"
        "  %w{0} = stablehlo.dot_general {3}, %m, contracting_dims = [1] x [0] : "
        "(tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>\n",
        i, sample.to, rows, last);
    last = fmt::format("%w{}", i);
    names += fmt::format("%r{}, ", i);
    plain += fmt::format("tensor<{}x64xf32>, ", rows);
  }
  return partition(
      parse_module(fmt::format("sdy.mesh @mesh = <[\"x\"=2, \"y\"={}]>\nfunc.func @main({}) -> "
                               "({}tensor<32x256xf32>) {{\n{}  return {}{} : "
                               "{}tensor<32x256xf32>\n}}",
                               ranks / 2, args, types, body, names, last, plain)),
      {.entry = "main", .verified = true});
}

// A Program and its arguments.
class PreparedProgram {
 public:
  explicit PreparedProgram(Program program) : executable_(std::move(program)) {
    args_.resize(static_cast<size_t>(executable_.num_devices()));
    for (size_t device = 0; device < args_.size(); ++device)
      for (const Type& type :
           executable_.graph(static_cast<int64_t>(device)).find_function("main")->arg_types)
        args_[device].push_back(make_array(type, "random:1"));
  }
  // How many cores the devices use.
  double workers() const {
    return static_cast<double>(
        std::min<int64_t>(executable_.num_devices(), std::thread::hardware_concurrency()));
  }
  // What the cores spend on one run together.
  double time() {
    const double begin = busy_together();
    executable_.run_shards_into(args_, results_);
    return busy_together() - begin;
  }

 private:
  Executable executable_;
  std::vector<std::vector<Array>> args_, results_;
};

// Whether the search found no other way for it.
bool is_only(const Program& program, CollectiveKind kind) {
  bool only = true;
  program.graph.walk([&](NodeId id) {
    const Node& node = program.graph.node(id);
    if (is<op::Transfer>(node)) only &= node.attrs.get_string("cleave.step") == name(kind);
  });
  return only;
}

std::optional<CollectiveTiming> time_collective(const CollectiveSample& sample, int64_t ranks,
                                                int64_t rows, double budget) {
  CollectiveTiming timing{sample.kind, ranks, static_cast<double>(rows * 64 * 4), 0};
  if (sample.kind == CollectiveKind::AllToAll || sample.kind == CollectiveKind::Permute)
    timing.bytes /= static_cast<double>(ranks);
  const int copies = copies_of(rows);
  PreparedProgram without(reshard_program(ranks, 64, copies, kNothing));
  Program program = reshard_program(ranks, rows, copies, sample);
  if (!is_only(program, sample.kind)) return std::nullopt;
  PreparedProgram with(std::move(program));
  // By turns, so that what else the machine does hits both. Threads wait for each other in a run,
  // so that its fastest time is luck.
  std::vector<double> all, nothing;
  const double end = busy_together() + with.workers() * budget;
  for (int i = 0; i < 9 || (busy_together() < end && i < 500); ++i) {
    nothing.push_back(without.time());
    all.push_back(with.time());
  }
  auto usual = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 4),
                     times.end());
    return times[times.size() / 4];
  };
  timing.seconds = std::max((usual(all) - usual(nothing)) / with.workers() / copies, 1e-7);
  return timing;
}

}  // namespace

HostTimings measure_host(const MeasureOptions& options) {
  HostTimings timings;
  timings.cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  timings.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  auto tell = [&](std::string_view what, double done) {
    if (options.progress) options.progress(what, done);
  };
  const std::vector<HostSample> samples = host_samples();
  const double kernel_share = 0.55 * options.seconds;
  for (size_t i = 0; i < samples.size(); ++i) {
    tell(samples[i].what, 0.55 * static_cast<double>(i) / static_cast<double>(samples.size()));
    timings.kernels.push_back(
        time_sample(samples[i], 0.35 * kernel_share / static_cast<double>(samples.size())));
  }
  const std::vector<FusedSample> fused = fused_samples();
  for (const FusedSample& sample : fused) {
    tell(sample.what, 0.58);
    timings.fusions.push_back(
        time_fused(sample, 0.08 * options.seconds / static_cast<double>(fused.size())));
  }
  tell("devices that run at the same time", 0.6);
  timings.slowdown = measure_slowdown(timings.cores, compute_sample());
  timings.memory_slowdown = measure_slowdown(timings.cores, memory_sample());

  std::vector<int64_t> ranks;
  for (int64_t n = 2; n <= options.most_devices; n *= 2) ranks.push_back(n);
  const std::vector<int64_t> rows{64, 1024, 8192};  // of 64 f32
  const auto count = static_cast<double>(ranks.size() * rows.size() * std::size(kCollectives));
  size_t done = 0;
  for (int64_t n : ranks) {
    const double each = 0.25 * options.seconds / count;
    for (int64_t r : rows)
      for (const CollectiveSample& sample : kCollectives) {
        tell(fmt::format("{} of {} KiB over {} devices", name(sample.kind), r / 4, n),
             0.65 + 0.35 * static_cast<double>(done++) / count);
        if (sample.kind == CollectiveKind::Permute && n == 2) continue;  // nothing moves
        if (const auto timing = time_collective(sample, n, r, each))
          timings.collectives.push_back(*timing);
      }
  }
  return timings;
}

}  // namespace cleave
