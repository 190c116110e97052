#include "cleave/discover/split_integers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

// Splits one element after another. Arithmetic is that of 64 bits without a sign, cut to T at the
// end, which is the arithmetic of T modulo its range.
template <typename T>
class Splitter {
 public:
  using Limits = std::numeric_limits<T>;

  Splitter(Decomposition how, NumberStream& random) : how_(how), random_(random) {}

  void split(T x, ReduceOp op, std::span<T> parts) {
    holder_ = static_cast<size_t>(random_.below(static_cast<int64_t>(parts.size())));
    switch (op) {
      case ReduceOp::Sum:
        return split_sum(x, parts);
      case ReduceOp::Prod:
        return split_prod(x, parts);
      case ReduceOp::Max:
        return split_extreme(x, parts, true);
      case ReduceOp::Min:
        return split_extreme(x, parts, false);
      case ReduceOp::And:
      case ReduceOp::Or:
        return split_bits(x, parts, op == ReduceOp::And);
      case ReduceOp::Avg:
        break;
    }
    throw_internal("an average of whole numbers is no reduction of them");
  }

 private:
  static T cut(uint64_t bits) { return static_cast<T>(bits); }
  static uint64_t bits_of(T x) { return static_cast<uint64_t>(x); }
  static double size_of(T x) { return std::fabs(static_cast<double>(x)); }
  bool coin(double p = 0.5) { return random_.chance(p); }

  // A distance over many scales, now and then 1 or 2.
  uint64_t gap(T x) {
    if (coin(0.3)) return static_cast<uint64_t>(1 + random_.below(2));
    const double scale = std::max(size_of(x), 0.5);
    const double size = scale * std::pow(10.0, random_.uniform() * 4 - 2);
    return static_cast<uint64_t>(std::min(std::round(size), 0x1p62)) +
           static_cast<uint64_t>(random_.below(2));
  }
  // The ends of the range, and any pattern of bits.
  uint64_t far() {
    if (coin(0.4)) return bits_of(coin() ? Limits::max() : Limits::min());
    return random_.next();
  }

  void split_sum(T x, std::span<T> parts) {
    uint64_t rest = bits_of(x);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == holder_) continue;
      uint64_t part = 0;
      switch (how_) {
        case Decomposition::Holder:
          break;
        case Decomposition::Gaps:
          part = coin() ? gap(x) : 0 - gap(x);
          break;
        case Decomposition::Ties:
          part = coin() ? bits_of(x) : 0;
          break;
        case Decomposition::Equal:
          part = bits_of(static_cast<T>(x / static_cast<T>(parts.size())));
          break;
        case Decomposition::Opposite:
          part = coin() ? far() : i % 2 ? 0 - uint64_t{16} : 16;
          break;
      }
      parts[i] = cut(part);
      rest -= bits_of(parts[i]);
    }
    parts[holder_] = cut(rest);
  }

  // The inverse of an odd number modulo 2^64; each step doubles the bits that are right.
  static uint64_t inverse(uint64_t odd) {
    uint64_t x = odd;
    for (int step = 0; step < 6; ++step) x *= 2 - odd * x;
    return x;
  }

  void split_prod(T x, std::span<T> parts) {
    std::fill(parts.begin(), parts.end(), T{1});
    parts[holder_] = x;
    if (how_ == Decomposition::Holder) return;
    if (x == 0) return split_zero(parts);
    if (how_ == Decomposition::Opposite) {
      // Odd factors can be divided by, whatever the range.
      uint64_t rest = bits_of(x);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i == holder_) continue;
        parts[i] = cut((coin() ? static_cast<uint64_t>(random_.below(8)) : far()) | 1);
        rest *= inverse(bits_of(parts[i]));
      }
      parts[holder_] = cut(rest);
      return;
    }
    share_factors(x, parts);
    if constexpr (std::is_signed_v<T>)
      if (how_ != Decomposition::Equal)
        for (size_t i = 0; i < parts.size(); ++i)
          if (i != holder_ && coin()) {
            parts[i] = cut(0 - bits_of(parts[i]));
            parts[holder_] = cut(0 - bits_of(parts[holder_]));
          }
  }

  // Every small prime factor goes to some device; under Equal, to one after the other.
  void share_factors(T x, std::span<T> parts) {
    T rest = x;
    size_t next = holder_;
    for (int p = 2; p < (sizeof(T) == 1 ? 127 : 320); p += p == 2 ? 1 : 2)
      while (rest % static_cast<T>(p) == 0) {
        rest = static_cast<T>(rest / static_cast<T>(p));
        next = how_ == Decomposition::Equal
                   ? (next + 1) % parts.size()
                   : static_cast<size_t>(random_.below(static_cast<int64_t>(parts.size())));
        if (next == holder_) continue;
        parts[next] = cut(bits_of(parts[next]) * static_cast<uint64_t>(p));
        parts[holder_] = static_cast<T>(parts[holder_] / static_cast<T>(p));
      }
  }

  // One factor is zero and the others are anything; or powers of two whose product leaves the
  // range.
  void split_zero(std::span<T> parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      if (i != holder_)
        parts[i] = cut(static_cast<uint64_t>(random_.below(10)) -
                       (std::is_signed_v<T> && coin() ? uint64_t{4} : 0));
    if (how_ != Decomposition::Opposite || coin()) return;
    const uint64_t half = uint64_t{1} << (sizeof(T) * 4);
    parts[holder_] = cut(half);
    parts[holder_ ? 0 : 1] = cut(half);
  }

  // x and numbers on one side of it, as far as the end of the range, which is the identity.
  void split_extreme(T x, std::span<T> parts, bool maximum) {
    const T end = maximum ? Limits::min() : Limits::max();
    const uint64_t room = maximum ? bits_of(x) - bits_of(end) : bits_of(end) - bits_of(x);
    for (size_t i = 0; i < parts.size(); ++i) {
      uint64_t away = 0;
      switch (how_) {
        case Decomposition::Holder:
          away = coin(0.3) ? room
                           : gap(cut(static_cast<uint64_t>(std::min(100 * std::max(size_of(x), 1.0),
                                                                    size_of(Limits::max()) / 2))));
          break;
        case Decomposition::Gaps:
          away = gap(x);
          break;
        case Decomposition::Ties:
          away = coin() ? 0 : gap(x);
          break;
        case Decomposition::Equal:
          break;
        case Decomposition::Opposite:
          away = static_cast<uint64_t>(std::min(2 * size_of(x) + 1, 0x1p62));
          break;
      }
      away = std::min(away, room);
      parts[i] = cut(maximum ? bits_of(x) - away : bits_of(x) + away);
    }
    parts[holder_] = x;
  }

  // Under Or each part has some bits of x, under And some bits more.
  void split_bits(T x, std::span<T> parts, bool all) {
    for (T& part : parts)
      part = cut(all ? bits_of(x) | random_.next() : bits_of(x) & random_.next());
    parts[holder_] = x;
  }

  Decomposition how_;
  NumberStream& random_;
  size_t holder_ = 0;
};

}  // namespace

std::vector<Array> split_integers(const Array& value, ReduceOp op, int w, Decomposition how,
                                  NumberStream& random) {
  std::vector<Array> devices;
  for (int i = 0; i < w; ++i) devices.emplace_back(value.dtype(), value.shape());
  const Array packed = value.contiguous();
  visit_integer(value.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Splitter<T> splitter(how, random);
    std::vector<T> parts(static_cast<size_t>(w));
    std::vector<T*> out;
    for (Array& device : devices) out.push_back(device.template data<T>());
    for (int64_t e = 0; e < packed.num_elements(); ++e) {
      splitter.split(packed.data<T>()[e], op, parts);
      for (size_t i = 0; i < parts.size(); ++i) out[i][e] = parts[i];
    }
  });
  return devices;
}

}  // namespace cleave
