#include "cleave/kernels/combine.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/blocked_sum.h"
#include "cleave/kernels/float16.h"
#include "cleave/kernels/narrow.h"

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

constexpr int64_t kBlock = 1024;
using Parts = std::span<const std::byte* const>;

// block[i] = parts[0][start + i] op parts[1][start + i] op ...
template <typename Element, typename Op>
void fold(Parts parts, int64_t start, int64_t n, typename Element::Wide* block, Op op) {
  using Stored = typename Element::Stored;
  const auto* first = reinterpret_cast<const Stored*>(parts[0]) + start;
  for (int64_t i = 0; i < n; ++i) block[i] = Element::load(first[i]);
  for (const std::byte* part : parts.subspan(1)) {
    const auto* next = reinterpret_cast<const Stored*>(part) + start;
    for (int64_t i = 0; i < n; ++i) block[i] = op(block[i], Element::load(next[i]));
  }
}

// Sums of many parts are blocked, so that their error does not grow with the number of devices.
template <typename Element, typename Op>
void fold_blocked(Parts parts, int64_t start, int64_t n, typename Element::Wide* block, Op op) {
  using reduce_detail::Total;
  using Wide = typename Element::Wide;
  constexpr size_t kChain = reduce_detail::kChain;
  Total<Wide> totals[kBlock];
  for (size_t p = 0; p < parts.size(); p += kChain) {
    fold<Element>(parts.subspan(p, std::min(kChain, parts.size() - p)), start, n, block, op);
    if (p == 0)
      for (int64_t i = 0; i < n; ++i) totals[i] = Total<Wide>::of(block[i]);
    else
      for (int64_t i = 0; i < n; ++i) totals[i].add(block[i]);
  }
  for (int64_t i = 0; i < n; ++i) block[i] = totals[i].value();
}

template <typename Element, typename Op>
void fold_all(Parts parts, std::byte* out, int64_t begin, int64_t end, Op op, bool is_sum,
              bool average) {
  using Wide = typename Element::Wide;
  auto* target = reinterpret_cast<typename Element::Stored*>(out);
  Wide block[kBlock];
  for (int64_t start = begin; start < end; start += kBlock) {
    const int64_t n = std::min(kBlock, end - start);
    const bool is_long = parts.size() > static_cast<size_t>(reduce_detail::kChain);
    if constexpr (std::is_integral_v<Wide>)
      fold<Element>(parts, start, n, block, op);
    else if (is_sum && is_long)
      fold_blocked<Element>(parts, start, n, block, op);
    else
      fold<Element>(parts, start, n, block, op);
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
  auto run = [&](auto f) {
    fold_all<Element>(parts, out, begin, end, f, op == ReduceOp::Sum || op == ReduceOp::Avg,
                      op == ReduceOp::Avg);
  };
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return run([](T a, T b) { return added(a, b); });
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

// In the wide type; a narrow element takes a byte.
void combine_narrow(ReduceOp op, DType dtype, std::span<const std::byte* const> parts,
                    std::byte* out, int64_t begin, int64_t end) {
  const DType wide = wide_type(dtype);
  const Loop widen = narrow_convert_loop(dtype, wide), narrow = narrow_convert_loop(wide, dtype);
  const int64_t n = end - begin;
  std::vector<std::vector<std::byte>> wides;
  std::vector<const std::byte*> pointers;
  for (const std::byte* part : parts) {
    const std::byte* from = part + begin;
    wides.emplace_back(static_cast<size_t>(n * byte_size(wide)));
    widen(&from, wides.back().data(), n);
  }
  for (const auto& bytes : wides) pointers.push_back(bytes.data());
  std::vector<std::byte> result(static_cast<size_t>(n * byte_size(wide)));
  combine_parts(op, wide, pointers, result.data(), 0, n);
  const std::byte* from = result.data();
  narrow(&from, out + begin, n);
}

}  // namespace

void combine_parts(ReduceOp op, DType dtype, std::span<const std::byte* const> parts,
                   std::byte* out, int64_t begin, int64_t end) {
  if (is_narrow(dtype)) return combine_narrow(op, dtype, parts, out, begin, end);
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
