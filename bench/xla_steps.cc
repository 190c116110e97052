// Train steps that JAX printed, run from C++ through a PJRT plugin:
//   bench_xla_steps PLUGIN STEPS NAME=FILE.mlir[=MILLISECONDS] ...
// An argument that a result takes the place of (tf.aliasing_output) is that result in the next
// step, so that nothing leaves the device. Prints the median step, its ratio to MILLISECONDS if
// that is given (JAX's own time), and the memory that the compiler states.
//
// bench/xla_steps_jax.py gives JAX's times of the same modules on numbers of the same kind: of the
// floating-point arguments, the first third are small numbers of both signs (weights), the others
// small positive ones (AdamW's moments); whole numbers are below 1000, and below 32000 (tokens) in
// arrays of 1024 and more. Kernels that write where numbers say take longer if few are different.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/pjrt/client.h"
#include "cleave/pjrt/find_plugins.h"
#include "cleave/pjrt/xla_executable.h"
#include "cleave/runtime/fill.h"

namespace {

using namespace cleave;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Random numbers for large arrays in little time: a block of them, again and again.
Array made_up(const Type& type, bool is_weight, uint64_t seed) {
  constexpr int64_t kBlock = 1 << 20;
  const int64_t count = num_elements(type.shape);
  Array block = make_array(Type::tensor(DType::F32, {std::min(count, kBlock)}),
                           fmt::format("random:{}", seed));
  if (!is_float(type.dtype)) {
    std::mt19937_64 random(seed);
    Array numbers(DType::I64, block.shape());
    for (int64_t i = 0; i < numbers.num_elements(); ++i)
      numbers.data<int64_t>()[i] = static_cast<int64_t>(random() % (count < 1024 ? 1000 : 32000));
    block = convert(numbers, type.dtype);
  } else {
    for (int64_t i = 0; i < block.num_elements(); ++i) {
      float& x = block.data<float>()[i];
      x = is_weight ? 0.02f * x : 1e-4f * x * x;
    }
    if (type.dtype != DType::F32) block = convert(block, type.dtype);
  }
  Array array(type.dtype, type.shape);
  for (size_t at = 0; at < array.num_bytes(); at += block.num_bytes())
    std::memcpy(array.raw() + at, block.raw(), std::min(block.num_bytes(), array.num_bytes() - at));
  return array;
}

// By argument: the result that takes its place, or -1.
std::vector<int64_t> places_of_results(const Function& main) {
  std::vector<int64_t> places;
  for (const AttrDict& attrs : main.arg_attrs)
    places.push_back(attrs.get_int("tf.aliasing_output", -1));
  places.resize(main.arg_types.size(), -1);
  return places;
}

void measure(const std::shared_ptr<pjrt::Client>& client, const std::string& name,
             const std::string& file, int steps, double reference) {
  std::ifstream in(file);
  if (!in) throw_user("{}: the file cannot be read", file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Graph graph = parse_module(text, file);
  const double began = now();
  const pjrt::XlaExecutable executable(client, pjrt::one_device_module(graph, "main"));
  const double compiled = now() - began;
  const std::vector<Type>& types = executable.module().arg_types;
  const auto floats = std::count_if(types.begin(), types.end(),
                                    [](const Type& type) { return is_float(type.dtype); });
  std::vector<pjrt::BufferPtr> args;
  int64_t seen = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_weight = is_float(types[i].dtype) && 3 * seen++ < floats;
    args.push_back(executable.to_device(made_up(types[i], is_weight, i), i, 0));
  }
  const std::vector<int64_t> places = places_of_results(*graph.find_function("main"));
  // A result that takes no argument's place: the loss.
  size_t first_new = 0;
  while (first_new + 1 < executable.module().result_types.size() &&
         std::count(places.begin(), places.end(), static_cast<int64_t>(first_new)) > 0)
    ++first_new;
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    for (const pjrt::BufferPtr& arg : args) arg->wait();
    const double start = now();
    std::vector<pjrt::BufferPtr> results = executable.start(std::span(&args, 1))[0];
    results[first_new]->wait();  // all come at once
    times.push_back(now() - start);
    for (size_t i = 0; i < args.size(); ++i)
      if (places[i] >= 0) args[i] = results[static_cast<size_t>(places[i])];
  }
  times.erase(times.begin(), times.begin() + std::min(3, steps - 1));
  std::sort(times.begin(), times.end());
  const double median = 1e3 * times[times.size() / 2];
  const pjrt::ProgramMemory memory = executable.program().memory_stats();
  fmt::print(
      "{:<12} {:9.3f} ms (least {:.3f}){}  {:.3f} GiB held  compiled in {:.1f} s\n", name, median,
      1e3 * times[0],
      reference > 0 ? fmt::format(", {:.3f} of {:.3f} ms", median / reference, reference) : "",
      static_cast<double>(memory.total()) / (1 << 30), compiled);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "bench_xla_steps PLUGIN STEPS NAME=FILE.mlir[=MILLISECONDS] ...\n");
    return 2;
  }
  try {
    const auto client = pjrt::Client::shared(pjrt::plugin_path(argv[1]), 1);
    for (int i = 3; i < argc; ++i) {
      const std::string text = argv[i];
      const size_t first = text.find('='), second = text.find('=', first + 1);
      if (first == std::string::npos) throw_user("{}: write NAME=FILE.mlir", text);
      const double reference =
          second == std::string::npos ? 0 : std::atof(text.c_str() + second + 1);
      measure(client, text.substr(0, first), text.substr(first + 1, second - first - 1),
              std::max(2, std::atoi(argv[2])), reference);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
