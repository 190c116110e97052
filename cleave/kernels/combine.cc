#include "cleave/kernels/combine.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "cleave/core/error.h"
#include "cleave/kernels/float16.h"

namespace cleave {
namespace {

// Elements as they lie in memory, with the type that they are accumulated in.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static Wide load(Stored x) { return x; }
  static Stored store(Wide x) { return x; }
};
template <typename T>
struct Narrow {
  using Stored = T;
  using Wide = float;
  static Wide load(Stored x) { return static_cast<float>(x); }
  static Stored store(Wide x) { return static_cast<Stored>(x); }
};

// Integers wrap around: signed ones are added and multiplied as unsigned ones.
template <typename T>
T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <typename T>
T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

template <typename Element, typename Op>
void fold(std::span<const std::byte* const> parts, std::byte* out, int64_t begin, int64_t end,
          Op op, bool average = false) {
  using Stored = typename Element::Stored;
  using Wide = typename Element::Wide;
  auto* target = reinterpret_cast<Stored*>(out);
  constexpr int64_t kBlock = 1024;
  Wide block[kBlock];
  for (int64_t start = begin; start < end; start += kBlock) {
    const int64_t n = std::min(kBlock, end - start);
    const auto* first = reinterpret_cast<const Stored*>(parts[0]) + start;
    for (int64_t i = 0; i < n; ++i) block[i] = Element::load(first[i]);
    for (size_t p = 1; p < parts.size(); ++p) {
      const auto* next = reinterpret_cast<const Stored*>(parts[p]) + start;
      for (int64_t i = 0; i < n; ++i) block[i] = op(block[i], Element::load(next[i]));
    }
    if (average) {
      const auto count = static_cast<Wide>(static_cast<double>(parts.size()));
      for (int64_t i = 0; i < n; ++i) block[i] = block[i] / count;
    }
    for (int64_t i = 0; i < n; ++i) target[start + i] = Element::store(block[i]);
  }
}

template <typename Element>
void combine_typed(ReduceOp op, DType dtype, std::span<const std::byte* const> parts,
                   std::byte* out, int64_t begin, int64_t end) {
  using T = typename Element::Wide;
  auto run = [&](auto f, bool average = false) {
    fold<Element>(parts, out, begin, end, f, average);
  };
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return run([](T a, T b) { return added(a, b); }, op == ReduceOp::Avg);
    case ReduceOp::Prod:
      return run([](T a, T b) { return multiplied(a, b); });
    case ReduceOp::Max:
    case ReduceOp::Min:
      if constexpr (std::is_arithmetic_v<T>) {
        // A NaN wins.
        if (op == ReduceOp::Max) return run([](T a, T b) { return a != a || a > b ? a : b; });
        return run([](T a, T b) { return a != a || a < b ? a : b; });
      }
      break;
    case ReduceOp::And:
      if constexpr (std::is_integral_v<T>)
        return run([](T a, T b) { return static_cast<T>(a & b); });
      break;
    case ReduceOp::Or:
      if constexpr (std::is_integral_v<T>)
        return run([](T a, T b) { return static_cast<T>(a | b); });
      break;
  }
  throw_user("the parts of {} arrays cannot be combined by {}", name(dtype), name(op));
}

ReduceOp boolean_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
      return ReduceOp::Or;
    case ReduceOp::Prod:
    case ReduceOp::Min:
      return ReduceOp::And;
    default:
      return op;
  }
}

}  // namespace

void combine_parts(ReduceOp op, DType dtype, std::span<const std::byte* const> parts,
                   std::byte* out, int64_t begin, int64_t end) {
  auto run = [&](auto element) {
    combine_typed<decltype(element)>(op, dtype, parts, out, begin, end);
  };
  switch (dtype) {
    case DType::Bool:
      op = boolean_op(op);
      return run(Plain<uint8_t>{});
    case DType::I8:
      return run(Plain<int8_t>{});
    case DType::I16:
      return run(Plain<int16_t>{});
    case DType::I32:
      return run(Plain<int32_t>{});
    case DType::I64:
      return run(Plain<int64_t>{});
    case DType::U8:
      return run(Plain<uint8_t>{});
    case DType::U16:
      return run(Plain<uint16_t>{});
    case DType::U32:
      return run(Plain<uint32_t>{});
    case DType::U64:
      return run(Plain<uint64_t>{});
    case DType::F16:
      return run(Narrow<float16>{});
    case DType::BF16:
      return run(Narrow<bfloat16>{});
    case DType::F32:
      return run(Plain<float>{});
    case DType::F64:
      return run(Plain<double>{});
    case DType::C64:
      return run(Plain<std::complex<float>>{});
    case DType::C128:
      return run(Plain<std::complex<double>>{});
    default:
      throw_user("arrays of {} cannot be combined", name(dtype));
  }
}

}  // namespace cleave
