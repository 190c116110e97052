// Time of sharding propagation over a module's text: parse, then the whole pipeline, then
// propagation alone with its rules.
//
//   bench_propagation [FILE]      without a file: a chain of matmuls, adds and reshapes
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "cleave/graph/text/text.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/pipelines.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/spmd/reshard_passes.h"

namespace {

using cleave::Graph;
// Time of this process, so that the neighbours of a busy machine do not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string layered_module(int layers) {
  std::string text = R"(sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w1: tensor<128x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %w2: tensor<512x128xf32>) -> tensor<32x128xf32> {
)";
  std::string x = "%x";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  %a{0} = stablehlo.dot_general {1}, %w1, contracting_dims = [1] x [0] : "
        "(tensor<32x128xf32>, tensor<128x512xf32>) -> tensor<32x512xf32>\n"
        "  %b{0} = stablehlo.tanh %a{0} : tensor<32x512xf32>\n"
        "  %c{0} = stablehlo.reshape %b{0} : (tensor<32x512xf32>) -> tensor<32x8x64xf32>\n"
        "  %d{0} = stablehlo.multiply %c{0}, %c{0} : tensor<32x8x64xf32>\n"
        "  %e{0} = stablehlo.reshape %d{0} : (tensor<32x8x64xf32>) -> tensor<32x512xf32>\n"
        "  %f{0} = stablehlo.dot_general %e{0}, %w2, contracting_dims = [1] x [0] : "
        "(tensor<32x512xf32>, tensor<512x128xf32>) -> tensor<32x128xf32>\n"
        "  %g{0} = stablehlo.add %f{0}, {1} : tensor<32x128xf32>\n",
        i, x);
    x = fmt::format("%g{}", i);
  }
  return text + fmt::format("  return {} : tensor<32x128xf32>\n}}\n", x);
}

size_t count_ops(const Graph& graph) {
  size_t count = 0;
  graph.walk([&](cleave::NodeId) { ++count; });
  return count;
}

// The best of several runs, in seconds; `run` gets a fresh copy of the graph.
template <typename Run>
double best_of(const Graph& graph, int repetitions, Run run) {
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    Graph copy = graph;
    const double begin = cpu_seconds();
    run(copy);
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::string text;
  if (argc > 1) {
    std::ifstream file(argv[1], std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  } else {
    text = layered_module(400);
  }
  const double begin = cpu_seconds();
  const Graph graph = cleave::parse_module(text);
  const double parse = cpu_seconds() - begin;
  const auto ops = static_cast<double>(count_ops(graph));
  const double pipeline = best_of(graph, 15, [](Graph& copy) {
    cleave::run_propagation_pipeline(copy, {});
    cleave::insert_explicit_reshards(copy, false);
    cleave::remove_dead_ops(copy);
  });
  Graph prepared = graph;
  cleave::prepare_for_propagation(prepared, {});
  const double alone =
      best_of(prepared, 15, [](Graph& copy) { cleave::propagate_shardings(copy, {}); });
  fmt::print(
      "ops {:.0f}  parse {:.3f} ms  pipeline {:.3f} ms ({:.2f} us per op)  propagation {:.3f} ms "
      "({:.2f} us per op)\n",
      ops, parse * 1e3, pipeline * 1e3, pipeline * 1e6 / ops, alone * 1e3, alone * 1e6 / ops);
}
