// What it costs to record one op on sharded tensors, its signature known: the C++ side of
// record_vs_dtensor.py, which sets PyTorch's DTensor beside it.
#include <chrono>
#include <cstring>
#include <functional>

#include "cleave/tensors.h"

using namespace cleave;

namespace {

double nanoseconds(const std::function<Tensor()>& op) {
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    constexpr int kOps = 5000;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kOps; ++i) op();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / kOps);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const Tensor x = randn({64, 64}).shard(mesh, P("data", "model")).evaluate();
  const Tensor y = randn({64, 64}).shard(mesh, P("data", "model")).evaluate();
  const Tensor w = randn({64, 64}).shard(mesh, P("model", {})).evaluate();
  const std::pair<const char*, std::function<Tensor()>> ops[] = {
      {"add", [&] { return x + y; }},
      {"matmul", [&] { return matmul(x, w); }},
      {"reshape",
       [&] {
         return reshape(x, {64, 8, 8});
       }},
      {"add_scalar", [&] { return x + 1.0; }},
  };
  std::string text;
  for (const auto& [name, op] : ops) {
    const double time = nanoseconds(op);
    text += json ? fmt::format("{}\"{}\": {:.1f}", text.empty() ? "{" : ", ", name, time)
                 : fmt::format("{:<11} {:8.0f} ns to record\n", name, time);
  }
  print("{}{}", text, json ? "}\n" : "");
}
