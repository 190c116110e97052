// How close dot_general comes to the library below it: the same multiplication, through Cleave's
// array and directly. Prints one line per shape; the last column is the ratio of the speeds.
#include <dnnl.h>
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "cleave/kernels/dot.h"

using namespace cleave;

namespace {

double seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int round = 0; round < 7; ++round) {
    int count = 0;
    const auto start = Clock::now();
    double passed = 0;
    do {
      work();
      ++count;
      passed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (passed < 0.05);
    best = std::min(best, passed / count);
  }
  return best;
}

}  // namespace

int main() {
  omp_set_num_threads(1);
  fmt::print("float32 matmul, one thread\n{:>22} {:>12} {:>12} {:>8}\n", "m x k x n", "cleave GF/s",
             "oneDNN GF/s", "ratio");
  struct Case {
    int64_t m, k, n;
  };
  for (auto [m, k, n] : {Case{64, 64, 64}, Case{256, 256, 256}, Case{512, 2048, 512},
                         Case{1024, 1024, 1024}, Case{64, 512, 2048}, Case{1, 1024, 1024}}) {
    Array a = Array::zeros(DType::F32, {m, k}), b = Array::zeros(DType::F32, {k, n});
    std::fill_n(a.data<float>(), m * k, 0.5f);
    std::fill_n(b.data<float>(), k * n, 0.25f);
    Array c(DType::F32, {m, n});
    const double direct = seconds([&] {
      dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.data<float>(), k, b.data<float>(), n, 0.0f,
                 c.data<float>(), n);
    });
    const double ours = seconds([&] { dot_general(a, b, {{}, {}, {1}, {0}}, DType::F32); });
    const double flops = 2.0 * static_cast<double>(m * n * k);
    fmt::print("{:>22} {:>12.1f} {:>12.1f} {:>8.2f}\n", fmt::format("{} x {} x {}", m, k, n),
               flops / ours * 1e-9, flops / direct * 1e-9, direct / ours);
  }
}
