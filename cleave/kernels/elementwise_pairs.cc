#include <array>
#include <optional>

#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/loop_pairs.h"

namespace cleave {
namespace {

enum Arithmetic : size_t { kAdd, kSubtract, kMultiply, kDivide, kCount };

template <size_t op>
float apply(float a, float b) {
  if constexpr (op == kAdd)
    return a + b;
  else if constexpr (op == kSubtract)
    return a - b;
  else if constexpr (op == kMultiply)
    return a * b;
  else
    return a / b;
}

template <size_t first, size_t second, bool left>
void pair_loop(const std::byte* const* in, std::byte* out, int64_t n) {
  const auto* a = reinterpret_cast<const float*>(in[0]);
  const auto* b = reinterpret_cast<const float*>(in[1]);
  const auto* c = reinterpret_cast<const float*>(in[2]);
  auto* r = reinterpret_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float inner = apply<first>(a[i], b[i]);
    r[i] = left ? apply<second>(inner, c[i]) : apply<second>(c[i], inner);
  }
}

template <size_t... index>
constexpr std::array<Loop, sizeof...(index)> make_table(std::index_sequence<index...>) {
  return {&pair_loop<index / 2 / kCount, index / 2 % kCount, index % 2 == 1>...};
}
constexpr auto kPairs = make_table(std::make_index_sequence<2 * kCount * kCount>{});

std::optional<size_t> kind_of(Loop loop) {
  static const std::array<Loop, kCount> kLoops = {binary_loop(BinaryOp::Add, DType::F32).loop,
                                                  binary_loop(BinaryOp::Subtract, DType::F32).loop,
                                                  binary_loop(BinaryOp::Multiply, DType::F32).loop,
                                                  binary_loop(BinaryOp::Divide, DType::F32).loop};
  for (size_t kind = 0; kind < kCount; ++kind)
    if (kLoops[kind] == loop) return kind;
  return std::nullopt;
}

}  // namespace

Loop paired_loop(Loop first, Loop second, bool first_is_left) {
  const auto inner = kind_of(first), outer = kind_of(second);
  if (!inner || !outer) return nullptr;
  return kPairs[(*inner * kCount + *outer) * 2 + first_is_left];
}

}  // namespace cleave
