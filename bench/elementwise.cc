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
#include <utility>
#include <vector>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/shape.h"

using namespace cleave;

namespace {

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Array ramp(DType dtype, int64_t n, float low = -2, float high = 2) {
  Array x(DType::F32, {n});
  for (int64_t i = 0; i < n; ++i)
    x.data<float>()[i] = low + (high - low) * static_cast<float>(i % 4001) / 4001;
  return convert(x, dtype);
}

struct Function {
  const char* name;  // of the StableHLO or CHLO op
  UnaryOp op;
  float low = -2, high = 2;
};
constexpr Function kFunctions[] = {
    {"stablehlo.exponential", UnaryOp::Exp},
    {"stablehlo.exponential_minus_one", UnaryOp::Expm1},
    {"stablehlo.log", UnaryOp::Log, 0, 4},
    {"stablehlo.log_plus_one", UnaryOp::Log1p, -0.9f, 4},
    {"stablehlo.tanh", UnaryOp::Tanh},
    {"stablehlo.logistic", UnaryOp::Logistic},
    {"stablehlo.rsqrt", UnaryOp::Rsqrt, 0, 4},
    {"stablehlo.cbrt", UnaryOp::Cbrt},
    {"stablehlo.sine", UnaryOp::Sin, -20, 20},
    {"stablehlo.cosine", UnaryOp::Cos, -20, 20},
    {"stablehlo.tan", UnaryOp::Tan, -20, 20},
    {"chlo.asin", UnaryOp::Asin, -1, 1},
    {"chlo.acos", UnaryOp::Acos, -1, 1},
    {"chlo.atan", UnaryOp::Atan},
    {"chlo.sinh", UnaryOp::Sinh},
    {"chlo.cosh", UnaryOp::Cosh},
    {"chlo.asinh", UnaryOp::Asinh},
    {"chlo.acosh", UnaryOp::Acosh, 1, 4},
    {"chlo.atanh", UnaryOp::Atanh, -1, 1},
    {"chlo.erf", UnaryOp::Erf},
    {"chlo.erfc", UnaryOp::Erfc},
    {"chlo.erf_inv", UnaryOp::ErfInv, -1, 1},
    {"chlo.lgamma", UnaryOp::Lgamma, 0, 4},
    {"chlo.digamma", UnaryOp::Digamma, 0, 4},
};

// Bandwidth on a shared machine changes from one second to the next, so each line has copies of its
// own, in turns with what it measures: the best of seven each, or of as many as a second holds (the
// first may wait for fresh memory).
class Report {
 public:
  Report(double bytes, std::function<void()> copy) : bytes_(bytes), copy_(std::move(copy)) {}
  void line(std::string_view name, double bytes, const std::function<void()>& action) const {
    double copy = 1e30, best = 1e30, total = 0;
    for (int repeat = 0; repeat < 7 && (repeat < 2 || total < 1); ++repeat) {
      const double copied = seconds_of(copy_), taken = seconds_of(action);
      copy = std::min(copy, copied);
      best = std::min(best, taken);
      total += copied + taken;
    }
    const double rate = bytes / best, copy_rate = bytes_ / copy;
    fmt::print("  {:<34} {:>6.1f} GB/s  {:>5.0f}% of memcpy's {:.1f}\n", name, rate / 1e9,
               100 * rate / copy_rate, copy_rate / 1e9);
  }

 private:
  double bytes_;
  std::function<void()> copy_;
};

void compare_at(int64_t n) {
  const Array a = ramp(DType::F32, n), b = ramp(DType::F32, n), positive = ramp(DType::F32, n, 0);
  const Array scalar = Array::scalar<float>(DType::F32, 1.5f);
  const auto bytes = static_cast<double>(a.num_bytes());
  // Copies into fresh memory, as every op returns fresh memory.
  const Report report(2 * bytes, [&] {
    Array target(DType::F32, {n});
    std::memcpy(target.raw(), a.raw(), a.num_bytes());
  });
  fmt::print("\n{} floats ({:.1f} MB an array)\n", n, bytes / 1e6);
  report.line("add", 3 * bytes, [&] { binary(BinaryOp::Add, a, b); });
  report.line("divide", 3 * bytes, [&] { binary(BinaryOp::Divide, a, b); });
  report.line("maximum", 3 * bytes, [&] { binary(BinaryOp::Maximum, a, b); });
  report.line("multiply by a scalar", 2 * bytes,
              [&] { binary(BinaryOp::Multiply, a, splat(scalar, a.shape())); });
  report.line("power", 3 * bytes, [&] { binary(BinaryOp::Power, positive, b); });
  report.line("atan2", 3 * bytes, [&] { binary(BinaryOp::Atan2, a, b); });
  report.line("compare and select", 3 * bytes + 2 * bytes / 4 + bytes,
              [&] { select(compare(CompareOp::Lt, a, b), a, b); });
  report.line("exp(a + b) * a, three ops", 8 * bytes, [&] {
    binary(BinaryOp::Multiply, unary(UnaryOp::Exp, binary(BinaryOp::Add, a, b)), a);
  });
  for (const Function& function : kFunctions) {
    const Array x = ramp(DType::F32, n, function.low, function.high);
    report.line(function.name, 2 * bytes, [&] { unary(function.op, x); });
  }
  for (DType dtype : {DType::BF16, DType::F16}) {
    const Array half = ramp(dtype, n);
    const auto of = [&](std::string_view op) { return fmt::format("{} of {}", op, name(dtype)); };
    report.line(fmt::format("convert to {}", name(dtype)), 1.5 * bytes, [&] { convert(a, dtype); });
    report.line(fmt::format("convert from {}", name(dtype)), 1.5 * bytes,
                [&] { convert(half, DType::F32); });
    report.line(of("add"), 1.5 * bytes, [&] { binary(BinaryOp::Add, half, half); });
    report.line(of("multiply"), 1.5 * bytes, [&] { binary(BinaryOp::Multiply, half, half); });
    report.line(of("maximum"), 1.5 * bytes, [&] { binary(BinaryOp::Maximum, half, half); });
    report.line(of("negate"), bytes, [&] { unary(UnaryOp::Negate, half); });
    report.line(of("exponential"), bytes, [&] { unary(UnaryOp::Exp, half); });
    report.line(of("tanh"), bytes, [&] { unary(UnaryOp::Tanh, half); });
  }
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  const Array matrix = a.slice({0}, {side * side}).reshape({side, side});
  const Array odd = a.slice({0}, {side * (side - 1)}).reshape({side, side - 1});
  report.line("transpose to contiguous", 2.0 * static_cast<double>(matrix.num_bytes()), [&] {
    matrix.transpose({1, 0}).copy();
  });
  report.line("transpose, an odd side", 2.0 * static_cast<double>(odd.num_bytes()), [&] {
    odd.transpose({1, 0}).copy();
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

struct Chain {
  const char* name;
  double arrays;
  const char* ops;
};
constexpr Chain kChains[] = {
    {"add", 3, "  %r = stablehlo.add %a, %b : T\n"},
    {"maximum", 3, "  %r = stablehlo.maximum %a, %b : T\n"},
    {"power", 3, "  %0 = stablehlo.abs %a : T\n  %r = stablehlo.power %0, %b : T\n"},
    {"exp(a + b) * a, fused", 3,
     "  %0 = stablehlo.add %a, %b : T\n  %1 = stablehlo.exponential %0 : T\n"
     "  %r = stablehlo.multiply %1, %a : T\n"},
    {"sin(a) * b, fused", 3,
     "  %0 = stablehlo.sine %a : T\n  %r = stablehlo.multiply %0, %b : T\n"},
    {"a * logistic(a), fused", 2,
     "  %0 = stablehlo.logistic %a : T\n  %r = stablehlo.multiply %0, %a : T\n"},
    {"gelu by erf, fused", 2,
     "  %half = stablehlo.constant dense<0.5> : T\n  %root = stablehlo.constant dense<0.70710677> "
     ": T\n"
     "  %one = stablehlo.constant dense<1.0> : T\n  %0 = stablehlo.multiply %a, %root : T\n"
     "  %1 = chlo.erf %0 : T -> T\n  %2 = stablehlo.add %1, %one : T\n"
     "  %3 = stablehlo.multiply %a, %half : T\n  %r = stablehlo.multiply %2, %3 : T\n"},
    {"gelu by tanh, fused", 2,
     "  %half = stablehlo.constant dense<0.5> : T\n  %root = stablehlo.constant dense<0.7978846> : "
     "T\n"
     "  %c = stablehlo.constant dense<0.044715> : T\n  %one = stablehlo.constant dense<1.0> : T\n"
     "  %0 = stablehlo.multiply %a, %a : T\n  %1 = stablehlo.multiply %0, %a : T\n"
     "  %2 = stablehlo.multiply %1, %c : T\n  %3 = stablehlo.add %a, %2 : T\n"
     "  %4 = stablehlo.multiply %3, %root : T\n  %5 = stablehlo.tanh %4 : T\n"
     "  %6 = stablehlo.add %5, %one : T\n  %7 = stablehlo.multiply %a, %half : T\n"
     "  %r = stablehlo.multiply %6, %7 : T\n"},
};
constexpr Chain kHalfChains[] = {
    {"add", 3, "  %r = stablehlo.add %a, %b : T\n"},
    {"exponential", 2, "  %r = stablehlo.exponential %a : T\n"},
    {"exp(a + b) * a, fused", 3,
     "  %0 = stablehlo.add %a, %b : T\n  %1 = stablehlo.exponential %0 : T\n"
     "  %r = stablehlo.multiply %1, %a : T\n"},
};

void compare_compiled(int64_t n) {
  const Array a = ramp(DType::F32, n);
  const auto bytes = static_cast<double>(a.num_bytes());
  Array target(DType::F32, {n});
  const Report report(2 * bytes, [&] { copy_by_all(target.raw(), a.raw(), a.num_bytes()); });
  fmt::print("\nCompiled, all cores, {} floats\n", n);
  auto run = [&](const std::string& name, DType dtype, double arrays, std::string ops, float low,
                 float high) {
    const std::string type = fmt::format("tensor<{}x{}>", n, cleave::name(dtype));
    std::string text =
        fmt::format("func.func @main(%a: T, %b: T) -> T {{\n{}  return %r : T\n}}", ops);
    for (const char* before : {": ", "-> "})
      for (size_t at = 0; (at = text.find(std::string(before) + "T", at)) != std::string::npos;)
        text.replace(at + std::strlen(before), 1, type);
    Executable executable(parse_module(text), "main");
    std::vector<std::vector<Array>> args = {{ramp(dtype, n, low, high), ramp(dtype, n)}}, results;
    executable.run_shards_into(args, results);
    report.line(name, arrays * static_cast<double>(args[0][0].num_bytes()),
                [&] { executable.run_shards_into(args, results); });
  };
  for (const Chain& chain : kChains) run(chain.name, DType::F32, chain.arrays, chain.ops, -2, 2);
  for (const Function& function : kFunctions) {
    const bool chlo = std::string_view(function.name).starts_with("chlo");
    run(function.name, DType::F32, 2,
        fmt::format("  %r = {} %a : {}\n", function.name, chlo ? "T -> T" : "T"), function.low,
        function.high);
  }
  for (DType dtype : {DType::BF16, DType::F16})
    for (const Chain& chain : kHalfChains)
      run(fmt::format("{} of {}", chain.name, name(dtype)), dtype, chain.arrays, chain.ops, -2, 2);
}

}  // namespace

int main() {
  compare_at(1 << 14);
  compare_at(1 << 20);
  compare_at(1 << 24);
  compare_compiled(1 << 24);
}
