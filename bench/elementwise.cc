// Elementwise ops beside memcpy, in one run: the share of the copy's bandwidth that each reaches,
// counting the bytes that must move (every operand once, the result once). First kernels, one
// thread against one thread, into fresh memory; then compiled functions with all cores against a
// copy by as many threads, into memory that is there.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/shape.h"

using namespace cleave;

namespace {

double best_seconds(const std::function<void()>& action) {
  double best = 1e30;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    action();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

Array ramp(DType dtype, int64_t n) {
  Array x(DType::F32, {n});
  for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = 0.001f * static_cast<float>(i % 4001) - 2.f;
  return convert(x, dtype);
}

void compare_at(int64_t n) {
  const Array a = ramp(DType::F32, n), b = ramp(DType::F32, n), half = ramp(DType::BF16, n);
  const Array scalar = Array::scalar<float>(DType::F32, 1.5f);
  const auto bytes = static_cast<double>(a.num_bytes());
  // Copies into fresh memory, as every op returns fresh memory.
  const double copy = 2 * bytes / best_seconds([&] {
                        Array target(DType::F32, {n});
                        std::memcpy(target.raw(), a.raw(), a.num_bytes());
                      });
  fmt::print("\n{} floats ({:.1f} MB an array); memcpy moves {:.1f} GB/s\n", n, bytes / 1e6,
             copy / 1e9);
  auto report = [&](const char* name, double moved, const std::function<void()>& action) {
    const double rate = moved / best_seconds(action);
    fmt::print("  {:<28} {:>6.1f} GB/s  {:>5.0f}% of memcpy\n", name, rate / 1e9,
               100 * rate / copy);
  };
  report("add", 3 * bytes, [&] { binary(BinaryOp::Add, a, b); });
  report("multiply by a scalar", 2 * bytes,
         [&] { binary(BinaryOp::Multiply, a, splat(scalar, a.shape())); });
  report("maximum", 3 * bytes, [&] { binary(BinaryOp::Maximum, a, b); });
  report("exponential", 2 * bytes, [&] { unary(UnaryOp::Exp, a); });
  report("tanh", 2 * bytes, [&] { unary(UnaryOp::Tanh, a); });
  report("logistic", 2 * bytes, [&] { unary(UnaryOp::Logistic, a); });
  report("log", 2 * bytes, [&] { unary(UnaryOp::Log, a); });
  report("sine", 2 * bytes, [&] { unary(UnaryOp::Sin, a); });
  report("rsqrt", 2 * bytes, [&] { unary(UnaryOp::Rsqrt, a); });
  report("convert to bf16", 1.5 * bytes, [&] { convert(a, DType::BF16); });
  report("add of bf16", 1.5 * bytes, [&] { binary(BinaryOp::Add, half, half); });
  report("compare and select", 3 * bytes + 2 * bytes / 4 + bytes,
         [&] { select(compare(CompareOp::Lt, a, b), a, b); });
  report("exp(a + b) * a, three ops", 8 * bytes,
         [&] { binary(BinaryOp::Multiply, unary(UnaryOp::Exp, binary(BinaryOp::Add, a, b)), a); });
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  const Array matrix = a.slice({0}, {side * side}).reshape({side, side});
  report("transpose to contiguous", 2.0 * static_cast<double>(matrix.num_bytes()), [&] {
    matrix.transpose({1, 0}).copy();
  });
}

// A copy by all cores, each its own part.
void copy_by_all(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t count = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = bytes * i / count, end = bytes * (i + 1) / count;
    threads.emplace_back([=] { std::memcpy(to + begin, from + begin, end - begin); });
  }
}

void compare_compiled(int64_t n) {
  const Array a = ramp(DType::F32, n), b = ramp(DType::F32, n);
  const auto bytes = static_cast<double>(a.num_bytes());
  Array target(DType::F32, {n});
  const double copy =
      2 * bytes / best_seconds([&] { copy_by_all(target.raw(), a.raw(), a.num_bytes()); });
  fmt::print("\nCompiled, all cores, {} floats; memcpy by as many threads moves {:.1f} GB/s\n", n,
             copy / 1e9);
  const std::string type = fmt::format("tensor<{}xf32>", n);
  auto report = [&](const char* name, double arrays, const std::string& ops) {
    std::string text =
        fmt::format("func.func @main(%a: T, %b: T) -> T {{\n{}  return %r : T\n}}", ops);
    for (size_t at = 0; (at = text.find(": T", at)) != std::string::npos; ++at)
      text.replace(at, 3, ": " + type);
    for (size_t at = 0; (at = text.find("-> T", at)) != std::string::npos; ++at)
      text.replace(at, 4, "-> " + type);
    Executable executable(parse_module(text), "main");
    std::vector<std::vector<Array>> args = {{a, b}}, results;
    executable.run_shards_into(args, results);
    const double rate =
        arrays * bytes / best_seconds([&] { executable.run_shards_into(args, results); });
    fmt::print("  {:<28} {:>6.1f} GB/s  {:>5.0f}% of memcpy\n", name, rate / 1e9,
               100 * rate / copy);
  };
  report("add", 3, "  %r = stablehlo.add %a, %b : T\n");
  report("maximum", 3, "  %r = stablehlo.maximum %a, %b : T\n");
  report("exponential", 2, "  %r = stablehlo.exponential %a : T\n");
  report("tanh", 2, "  %r = stablehlo.tanh %a : T\n");
  report("logistic", 2, "  %r = stablehlo.logistic %a : T\n");
  report("log", 2, "  %r = stablehlo.log %a : T\n");
  report("sine", 2, "  %r = stablehlo.sine %a : T\n");
  report("rsqrt", 2, "  %r = stablehlo.rsqrt %a : T\n");
  report("exp(a + b) * a, fused", 3,
         "  %0 = stablehlo.add %a, %b : T\n  %1 = stablehlo.exponential %0 : T\n"
         "  %r = stablehlo.multiply %1, %a : T\n");
}

}  // namespace

int main() {
  compare_at(1 << 14);
  compare_at(1 << 20);
  compare_at(1 << 24);
  compare_compiled(1 << 24);
}
