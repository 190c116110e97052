#include "cleave/runtime/measure_host.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/cost.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of the calling thread: what a kernel takes on a core of its own, whatever else
// runs.
double busy() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The fastest of many: for `budget` seconds, at least three times.
double fastest(double budget, double (*clock)(), const std::function<void()>& run) {
  run();
  double best = 1e300;
  const double end = now() + budget;
  for (int i = 0; i < 3 || (now() < end && i < 2000); ++i) {
    const double begin = clock();
    run();
    best = std::min(best, clock() - begin);
  }
  return best;
}

// A function whose ops all do the same, so that what a call costs is spread over them.
struct Sample {
  std::string what;
  std::string text;  // a module with @main
  std::string op;    // the ops to count
  int copies = 1;
  KernelClass kernel = KernelClass::Elementwise;  // of a group of ops that counts as one kernel
  bool is_group = false;
};

std::vector<Array> make_arguments(const Graph& graph) {
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "random:" + std::to_string(args.size() + 1)));
  return args;
}

struct Prepared {
  explicit Prepared(const std::string& text)
      : graph(parse_module(text)),
        schedule(std::make_shared<const Schedule>(graph)),
        args(make_arguments(graph)) {}
  void run() const { Interpreter(graph, schedule, {}).call("main", args); }

  Graph graph;
  std::shared_ptr<const Schedule> schedule;
  std::vector<Array> args;
};

// The work of a group: what enters and leaves it, and the flops of all its ops.
OpCost group_cost(const Graph& graph, KernelClass kernel) {
  OpCost cost{.kernel = kernel};
  const Function& main = *graph.find_function("main");
  for (const Type& type : main.arg_types) cost.bytes_read += static_cast<double>(type.byte_count());
  for (const Type& type : main.result_types)
    cost.bytes_written += static_cast<double>(type.byte_count());
  return cost;
}

KernelTiming time_sample(const Sample& sample, double budget) {
  const Prepared prepared(sample.text);
  KernelTiming timing;
  timing.what = sample.what;
  int count = 0;
  prepared.graph.walk([&](NodeId id) {
    const Node& node = prepared.graph.node(id);
    if (node.name != sample.op) return;
    ++count;
    timing.cost = op_cost(prepared.graph, node);
    timing.dtype = prepared.graph.operand_type(node, 0).dtype;
  });
  if (sample.is_group) timing.cost = group_cost(prepared.graph, sample.kernel);
  timing.seconds =
      fastest(budget, busy, [&] { prepared.run(); }) / (sample.is_group ? sample.copies : count);
  return timing;
}

int copies_for(double bytes) { return bytes > 1e6 ? 1 : bytes > 1e4 ? 8 : 32; }

// %1 = op %0, %x  chained, on a vector of n elements.
Sample binary_sample(const std::string& op, const std::string& dtype, int64_t n) {
  const int copies = copies_for(static_cast<double>(n) * 4);
  const std::string type = fmt::format("tensor<{}x{}>", n, dtype);
  std::string body;
  for (int i = 0; i < copies; ++i)
    body += fmt::format("  %{0} = stablehlo.{1} {2}, %x : {3}\n", i, op,
                        i ? fmt::format("%{}", i - 1) : "%x", type);
  return {fmt::format("{} {} {}", op, dtype, n),
          fmt::format("func.func @main(%x: {0}) -> {0} {{\n{1}  return %{2} : {0}\n}}", type, body,
                      copies - 1),
          "stablehlo." + op, copies};
}

Sample unary_sample(const std::string& op, int64_t n) {
  const int copies = copies_for(static_cast<double>(n) * 4);
  const std::string type = fmt::format("tensor<{}xf32>", n);
  std::string body;
  for (int i = 0; i < copies; ++i)
    body += fmt::format("  %{0} = stablehlo.{1} {2} : {3}\n", i, op,
                        i ? fmt::format("%{}", i - 1) : "%x", type);
  return {fmt::format("{} f32 {}", op, n),
          fmt::format("func.func @main(%x: {0}) -> {0} {{\n{1}  return %{2} : {0}\n}}", type, body,
                      copies - 1),
          "stablehlo." + op, copies};
}

Sample matmul_sample(const std::string& dtype, int64_t m, int64_t k, int64_t n) {
  const int copies = m * k * n > (1 << 22) ? 1 : 8;
  const std::string result = fmt::format("tensor<{}x{}x{}>", m, n, dtype);
  std::string body, names;
  for (int i = 0; i < copies; ++i)
    body += fmt::format(
        "  %{0} = stablehlo.dot %x, %w : (tensor<{1}x{2}x{4}>, tensor<{2}x{3}x{4}>) -> {5}\n", i, m,
        k, n, dtype, result);
  return {fmt::format("matmul {} {}x{}x{}", dtype, m, k, n),
          fmt::format("func.func @main(%x: tensor<{0}x{1}x{3}>, %w: tensor<{1}x{2}x{3}>) -> {4} "
                      "{{\n{5}  return %{6} : {4}\n}}",
                      m, k, n, dtype, result, body, copies - 1),
          "stablehlo.dot", copies};
}

Sample reduce_sample(int64_t rows, int64_t cols, int dim) {
  const int64_t kept = dim == 0 ? cols : rows;
  return {fmt::format("sum of {}x{} over {}", rows, cols, dim == 0 ? "rows" : "columns"),
          fmt::format("func.func @main(%x: tensor<{0}x{1}xf32>) -> tensor<{2}xf32> {{\n"
                      "  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
                      "  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across "
                      "dimensions = [{3}] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{2}xf32>\n"
                      "  return %0 : tensor<{2}xf32>\n}}",
                      rows, cols, kept, dim),
          "stablehlo.reduce"};
}

// A view alone moves nothing: what reads it does.
Sample transpose_sample(int64_t n) {
  return {fmt::format("transpose {0}x{0}", n),
          fmt::format("func.func @main(%x: tensor<{0}x{0}xf32>) -> tensor<{0}x{0}xf32> {{\n"
                      "  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<{0}x{0}xf32>) -> "
                      "tensor<{0}x{0}xf32>\n"
                      "  %1 = stablehlo.negate %0 : tensor<{0}x{0}xf32>\n"
                      "  return %1 : tensor<{0}x{0}xf32>\n}}",
                      n),
          "stablehlo.transpose"};
}

Sample softmax_sample(int64_t rows, int64_t cols) {
  return {fmt::format("softmax {}x{}", rows, cols),
          fmt::format(
              "func.func @main(%x: tensor<{0}x{1}xf32>) -> tensor<{0}x{1}xf32> {{\n"
              "  %l = stablehlo.constant dense<-1.0e30> : tensor<f32>\n"
              "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
              "  %m = stablehlo.reduce(%x init: %l) applies stablehlo.maximum across dimensions = "
              "[1] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>\n"
              "  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<{0}xf32>) -> "
              "tensor<{0}x{1}xf32>\n"
              "  %s = stablehlo.subtract %x, %mb : tensor<{0}x{1}xf32>\n"
              "  %e = stablehlo.exponential %s : tensor<{0}x{1}xf32>\n"
              "  %d = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] "
              ": (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>\n"
              "  %db = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<{0}xf32>) -> "
              "tensor<{0}x{1}xf32>\n"
              "  %r = stablehlo.divide %e, %db : tensor<{0}x{1}xf32>\n"
              "  return %r : tensor<{0}x{1}xf32>\n}}",
              rows, cols),
          "",
          1,
          KernelClass::Softmax,
          true};
}

Sample norm_sample(int64_t rows, int64_t cols) {
  return {fmt::format("rms norm {}x{}", rows, cols),
          fmt::format(
              "func.func @main(%x: tensor<{0}x{1}xf32>) -> tensor<{0}x{1}xf32> {{\n"
              "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
              "  %q = stablehlo.multiply %x, %x : tensor<{0}x{1}xf32>\n"
              "  %d = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] "
              ": (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>\n"
              "  %i = stablehlo.rsqrt %d : tensor<{0}xf32>\n"
              "  %b = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<{0}xf32>) -> "
              "tensor<{0}x{1}xf32>\n"
              "  %r = stablehlo.multiply %x, %b : tensor<{0}x{1}xf32>\n"
              "  return %r : tensor<{0}x{1}xf32>\n}}",
              rows, cols),
          "",
          1,
          KernelClass::Norm,
          true};
}

std::vector<Sample> all_samples() {
  std::vector<Sample> samples;
  for (int64_t n : {64, 4096, 65536, 524288, 4194304, 16777216}) {
    samples.push_back(binary_sample("add", "f32", n));
    samples.push_back(unary_sample("negate", n));
  }
  for (int64_t n : {4096, 262144, 4194304}) samples.push_back(binary_sample("multiply", "bf16", n));
  for (int64_t n : {4096, 65536, 1048576}) {
    samples.push_back(unary_sample("exponential", n));
    samples.push_back(unary_sample("tanh", n));
  }
  for (const char* dtype : {"f32", "bf16", "f64"})
    for (int64_t n : {8, 32, 64, 128, 256, 512, 1024})
      if (n < 1024 || std::string(dtype) == "f32") samples.push_back(matmul_sample(dtype, n, n, n));
  for (auto [m, k, n] : {std::array<int64_t, 3>{16, 512, 2048}, {512, 32, 512}, {2048, 256, 64}})
    samples.push_back(matmul_sample("f32", m, k, n));
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{64, 64}, {1024, 256}, {2048, 2048}})
    for (int dim : {0, 1}) samples.push_back(reduce_sample(rows, cols, dim));
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{64, 64}, {1024, 256}, {2048, 1024}}) {
    samples.push_back(softmax_sample(rows, cols));
    samples.push_back(norm_sample(rows, cols));
  }
  for (int64_t n : {64, 512, 2048}) samples.push_back(transpose_sample(n));
  return samples;
}

// An elementwise op and a matmul on all cores at the same time, against one alone.
double measure_slowdown(int64_t cores) {
  double worst = 1;
  for (const Sample& sample :
       {binary_sample("add", "f32", 4194304), matmul_sample("f32", 512, 512, 512)}) {
    const Prepared alone(sample.text);
    const double one = fastest(0.2, busy, [&] { alone.run(); });
    std::barrier start(cores);
    std::vector<double> together(cores);
    std::vector<std::jthread> threads;
    for (int64_t c = 0; c < cores; ++c)
      threads.emplace_back([&, c] {
        const Prepared own(sample.text);
        start.arrive_and_wait();
        together[c] = fastest(0.3, busy, [&] { own.run(); });
      });
    threads.clear();
    worst = std::max(worst, *std::max_element(together.begin(), together.end()) / one);
  }
  return std::min(worst, static_cast<double>(cores));
}

// Eight changes of layout one after the other, with nothing else to do.
Program reshard_program(int64_t ranks, int64_t rows, const char* from, const char* to) {
  constexpr int kCopies = 8;
  std::string args, types, names;
  for (int i = 0; i < kCopies; ++i) {
    const char* comma = i ? ", " : "";
    args += fmt::format("{}%a{}: tensor<{}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}",
                        comma, i, rows, from);
    types += fmt::format("{}tensor<{}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}", comma,
                         rows, to);
    names += fmt::format("{}%a{}", comma, i);
  }
  std::string plain;
  for (int i = 0; i < kCopies; ++i)
    plain += fmt::format("{}tensor<{}x64xf32>", i ? ", " : "", rows);
  return partition(
      parse_module(fmt::format("sdy.mesh @mesh = <[\"x\"={}]>\nfunc.func @main({}) -> ({}) {{\n  "
                               "return {} : {}\n}}",
                               ranks, args, types, names, plain)),
      {.entry = "main"});
}

double time_program(Program program, double budget) {
  const Executor executor(std::move(program), nullptr);
  std::vector<std::vector<Array>> shards(executor.num_devices());
  for (int64_t device = 0; device < executor.num_devices(); ++device) {
    const Instance& instance = executor.instance(device);
    for (const Type& type : instance.graph.find_function("main")->arg_types)
      shards[device].push_back(make_array(type, "random:1"));
  }
  return fastest(budget, now, [&] { executor.run_shards(shards); });
}

struct CollectiveSample {
  CollectiveKind kind;
  const char* from;
  const char* to;
};
constexpr CollectiveSample kCollectives[] = {
    {CollectiveKind::AllGather, R"([{"x"}, {}])", R"([{}, {}])"},
    {CollectiveKind::AllReduce, R"([{}, {}], unreduced={"x"})", R"([{}, {}])"},
    {CollectiveKind::ReduceScatter, R"([{}, {}], unreduced={"x"})", R"([{"x"}, {}])"},
    {CollectiveKind::AllToAll, R"([{"x"}, {}])", R"([{}, {"x"}])"},
};

}  // namespace

HostTimings measure_host(const MeasureOptions& options) {
  HostTimings timings;
  timings.cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  timings.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double begin = now();
  auto tell = [&](std::string_view what, double done) {
    if (options.progress) options.progress(what, done);
  };
  const std::vector<Sample> samples = all_samples();
  const double kernel_share = 0.5 * options.seconds;
  for (size_t i = 0; i < samples.size(); ++i) {
    tell(samples[i].what, 0.5 * static_cast<double>(i) / static_cast<double>(samples.size()));
    if (now() - begin > kernel_share) break;
    timings.kernels.push_back(
        time_sample(samples[i], 0.6 * kernel_share / static_cast<double>(samples.size())));
  }
  tell("devices that run at the same time", 0.5);
  timings.slowdown = measure_slowdown(timings.cores);

  std::vector<int64_t> ranks;
  for (int64_t n = 2; n <= options.most_devices; n *= 2) ranks.push_back(n);
  const std::vector<int64_t> rows{64, 1024, 8192};  // of 64 f32
  const double each = 0.3 * options.seconds /
                      static_cast<double>(ranks.size() * rows.size() * std::size(kCollectives));
  size_t done = 0;
  for (int64_t n : ranks) {
    const double nothing = time_program(reshard_program(n, 64, "[{}, {}]", "[{}, {}]"), each);
    for (int64_t r : rows)
      for (const CollectiveSample& sample : kCollectives) {
        tell(fmt::format("{} of {} KiB over {} devices", name(sample.kind), r / 4, n),
             0.55 + 0.45 * static_cast<double>(done++) /
                        static_cast<double>(ranks.size() * rows.size() * std::size(kCollectives)));
        if (now() - begin > options.seconds) return timings;
        const double seconds =
            (time_program(reshard_program(n, r, sample.from, sample.to), each) - nothing) / 8;
        CollectiveTiming timing{sample.kind, n, static_cast<double>(r * 64 * 4), 0};
        if (sample.kind == CollectiveKind::AllToAll) timing.bytes /= static_cast<double>(n);
        timing.seconds = std::max(seconds, 1e-7);
        timings.collectives.push_back(timing);
        // A permute moves what an all_to_all of the same buffer moves, in one piece.
        if (sample.kind == CollectiveKind::AllToAll) {
          timing.kind = CollectiveKind::Permute;
          timings.collectives.push_back(timing);
        }
      }
  }
  return timings;
}

}  // namespace cleave
