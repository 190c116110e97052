// Searches per second of the reshard search, over the kinds of pairs that a planner asks for.
//
//   build/release/bench/reshard

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>

#include "cleave/reshard/reshard.h"

namespace {

using namespace cleave;

// Every way to put whole axes on dimensions, in order of the axes.
std::vector<ShardingSpec> all_specs(const MeshPtr& mesh, size_t rank, bool partial) {
  std::vector<ShardingSpec> specs = {ShardingSpec::closed_replicated(mesh, rank)};
  for (size_t axis = 0; axis < mesh->axes.size(); ++axis) {
    const AxisRef ref = whole_axis(*mesh, static_cast<int>(axis));
    const size_t count = specs.size();
    for (size_t i = 0; i < count; ++i) {
      for (size_t d = 0; d < rank; ++d) {
        ShardingSpec more = specs[i];
        more.dims[d].axes.push_back(ref);
        specs.push_back(more);
        if (more.dims[d].axes.size() == 2) {
          std::swap(more.dims[d].axes[0], more.dims[d].axes[1]);
          specs.push_back(more);
        }
      }
      if (partial) {
        ShardingSpec more = specs[i];
        more.partial.push_back(ref);
        specs.push_back(more);
      }
    }
  }
  return specs;
}

void measure(const char* what, const Mesh& shape_of_mesh, const Shape& shape, const char* machine) {
  const auto mesh = std::make_shared<const Mesh>(shape_of_mesh);
  const std::vector<ShardingSpec> from = all_specs(mesh, shape.size(), true);
  const std::vector<ShardingSpec> to = all_specs(mesh, shape.size(), false);
  std::mt19937 random(1);
  Resharder resharder(builtin_profile(machine));
  std::vector<double> micros;
  for (int i = 0; i < 300; ++i) {
    const ShardingSpec& a = from[random() % from.size()];
    const ShardingSpec& b = to[random() % to.size()];
    const auto start = std::chrono::steady_clock::now();
    resharder.seconds(a, b, shape, DType::BF16);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    micros.push_back(took.count());
  }
  double sum = 0;
  for (double us : micros) sum += us;
  std::sort(micros.begin(), micros.end());
  fmt::print("{:<44} {:>9.0f} /s   median {:>7.1f} us   p95 {:>8.1f} us   max {:>8.1f} us\n", what,
             1e6 * micros.size() / sum, micros[micros.size() / 2], micros[micros.size() * 95 / 100],
             micros.back());
  std::fflush(stdout);
}

}  // namespace

int main() {
  measure("data=8,model=8, 4096x4096, h100", {{"data", 8}, {"model", 8}}, {4096, 4096}, "h100");
  measure("data=8,model=4, 16x2048x4096, h100", {{"data", 8}, {"model", 4}}, {16, 2048, 4096},
          "h100");
  measure("data=4,model=2 (one node), 16x2048x4096, h100", {{"data", 4}, {"model", 2}},
          {16, 2048, 4096}, "h100");
  measure("x=4,y=4,z=4, 256x512x1024, tpu-v5p", {{"x", 4}, {"y", 4}, {"z", 4}}, {256, 512, 1024},
          "tpu-v5p");
  measure("data=2,fsdp=4,model=8, 64x2048x4096, h100", {{"data", 2}, {"fsdp", 4}, {"model", 8}},
          {64, 2048, 4096}, "h100");
  return 0;
}
