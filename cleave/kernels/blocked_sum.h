#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

// Sums whose error does not grow with their length. At most kChain terms are added one after the
// other in the type of the elements; such partial sums are then added up in a Total.
//
//   10^8 times 0.1f    one after the other: 2097152    in a float, blocked: 10000000
//
// The order depends on the shape alone, so equal sums have equal bits.
namespace cleave::reduce_detail {

inline constexpr int64_t kChain = 16;

// Partial sums of float32 are added up in double. A default-constructed Total has no value.
template <typename W>
struct Total {
  static_assert(std::is_same_v<W, float>);
  double sum;

  static Total of(float first) { return {first}; }
  void add(float x) { sum += static_cast<double>(x); }
  void merge(const Total& other) { sum += other.sum; }
  float value() const { return static_cast<float>(sum); }
};

// What rounding loses of a sum of doubles is added up as well (Knuth's two-sum).
template <>
struct Total<double> {
  double sum, lost;

  static Total of(double first) { return {first, 0}; }
  void add(double x) {
    const double next = sum + x, added = next - sum;
    lost += (sum - (next - added)) + (x - added);
    sum = next;
  }
  void merge(const Total& other) {
    add(other.sum);
    lost += other.lost;
  }
  // If the sum is not finite, `lost` is NaN and is left out.
  double value() const { return std::isfinite(sum) ? sum + lost : sum; }
};

template <typename T>
struct Total<std::complex<T>> {
  Total<T> real, imag;

  static Total of(std::complex<T> first) {
    return {Total<T>::of(first.real()), Total<T>::of(first.imag())};
  }
  void add(std::complex<T> x) {
    real.add(x.real());
    imag.add(x.imag());
  }
  void merge(const Total& other) {
    real.merge(other.real);
    imag.merge(other.imag);
  }
  std::complex<T> value() const { return {real.value(), imag.value()}; }
};

// The sum of a few elements: at most kLanes * kChain, in kLanes chains side by side.
template <int64_t kLanes, bool kDense, typename W, typename T>
W sum_lanes(const T* row, int64_t n, int64_t stride) {
  const auto at = [&](int64_t i) { return static_cast<W>(kDense ? row[i] : row[i * stride]); };
  if (n < 2 * kLanes) {
    W sum = at(0);
    for (int64_t i = 1; i < n; ++i) sum += at(i);
    return sum;
  }
  W lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = at(l);
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += at(i + l);
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += at(i + l);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

inline constexpr int64_t kFewLanes = 8, kManyLanes = 32;

// Sums up to this long need no Total.
inline int64_t short_sum(int64_t stride) { return (stride == 1 ? kManyLanes : kFewLanes) * kChain; }
template <typename W, typename T>
W sum_short_row(const T* row, int64_t n, int64_t stride) {
  if (stride != 1) return sum_lanes<kFewLanes, false, W>(row, n, stride);
  if (n < 2 * kManyLanes) return sum_lanes<kFewLanes, true, W>(row, n, 1);
  return sum_lanes<kManyLanes, true, W>(row, n, 1);
}

// Adds whole blocks of a row to totals[0 .. kTotals), element i to totals[i % kTotals], and returns
// the number of elements that were added.
template <int64_t kLanes, bool kDense, int64_t kTotals, typename W, typename T>
int64_t add_blocks(const T* row, int64_t n, int64_t stride, Total<W>* totals) {
  constexpr int64_t kBlock = kLanes * kChain;
  const auto at = [&](int64_t i) { return static_cast<W>(kDense ? row[i] : row[i * stride]); };
  Total<W> sums[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) sums[l] = Total<W>::of(W{});
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    W lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = at(i + l);
    for (int64_t c = 1; c < kChain; ++c)
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += at(i + c * kLanes + l);
    for (int64_t l = 0; l < kLanes; ++l) sums[l].add(lanes[l]);
  }
  for (int64_t width = kLanes / 2; width >= kTotals; width /= 2)
    for (int64_t l = 0; l < width; ++l) sums[l].merge(sums[l + width]);
  for (int64_t t = 0; t < kTotals; ++t) totals[t].merge(sums[t]);
  return i;
}

// Adds `n` elements, `stride` apart, to a total.
template <typename W, typename T>
void add_row(const T* row, int64_t n, int64_t stride, Total<W>& total) {
  int64_t done = 0;
  if (n >= short_sum(stride)) {
    if (stride != 1) {
      done = add_blocks<kFewLanes, false, 1>(row, n, stride, &total);
    } else if constexpr (std::is_same_v<W, T> && !std::is_arithmetic_v<T>) {
      using Real = typename T::value_type;  // of complex numbers, whose two sums go side by side
      done = add_blocks<kManyLanes, true, 2>(reinterpret_cast<const Real*>(row), 2 * n, 1,
                                             reinterpret_cast<Total<Real>*>(&total)) /
             2;
    } else {
      done = add_blocks<kManyLanes, true, 1>(row, n, 1, &total);
    }
  }
  if (done < n) total.add(sum_short_row<W>(row + done * stride, n - done, stride));
}

inline constexpr int64_t kColumns = 512;  // that are folded together

// Adds up many rows of up to kColumns elements, column by column. Eight rows at a time are added in
// a tree, and four such sums one after the other.
template <typename W, typename T>
class ColumnSums {
 public:
  static constexpr int64_t kTree = 8;

  // `sums` has kColumns elements and receives the result.
  ColumnSums(int64_t columns, int64_t stride, W* sums)
      : columns_(columns), stride_(stride), block_(sums) {}

  void add(const T* row) {
    rows_[num_rows_++] = row;
    if (num_rows_ == kTree) add_tree();
  }

  // Adds init as well.
  void finish(W init) {
    const int64_t rest = num_rows_;
    for (int64_t r = 0; r < rest; ++r) {
      rows_[0] = rows_[r];
      num_rows_ = 1;
      fill_or_add([](auto at) { return at(0); });
    }
    if (has_totals_) {
      if (has_block_) flush();
      for (int64_t j = 0; j < columns_; ++j) block_[j] = (totals_[j].add(init), totals_[j].value());
    } else {
      for (int64_t j = 0; j < columns_; ++j) block_[j] += init;
    }
  }

 private:
  static constexpr int64_t kTrees = 4;

  void add_tree() {
    if (num_trees_ == kTrees) flush();
    fill_or_add([](auto at) {
      return ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
    });
    ++num_trees_;
    num_rows_ = 0;
  }

  // Calls loop(number of elements, block, totals, rows): complex numbers that lie together are
  // passed as pairs of real ones.
  template <typename Loop>
  void with_elements(Loop loop) {
    if constexpr (std::is_same_v<W, T> && !std::is_arithmetic_v<T>) {
      using Real = typename T::value_type;
      if (stride_ == 1) {
        const Real* rows[kTree];
        for (int64_t r = 0; r < num_rows_; ++r) rows[r] = reinterpret_cast<const Real*>(rows_[r]);
        return loop(2 * columns_, reinterpret_cast<Real*>(block_),
                    reinterpret_cast<Total<Real>*>(totals_), rows);
      }
    }
    loop(columns_, block_, totals_, rows_);
  }

  template <typename Term>
  void fill_or_add(Term term) {
    with_elements([&]<typename E, typename S>(int64_t n, E* block, auto*, const S* const* rows) {
      const S* r[kTree];
      for (int64_t k = 0; k < num_rows_; ++k) r[k] = rows[k];
      const auto at_dense = [&](int64_t j) {
        return term([&](int64_t k) { return static_cast<E>(r[k][j]); });
      };
      const int64_t stride = stride_;
      const auto at_strided = [&](int64_t j) {
        return term([&](int64_t k) { return static_cast<E>(r[k][j * stride]); });
      };
      stride == 1 ? fill_or_add(n, block, at_dense) : fill_or_add(n, block, at_strided);
    });
    has_block_ = true;
  }
  template <typename E, typename At>
  void fill_or_add(int64_t n, E* block, At at) {
    if (has_block_) {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) block[j] += at(j);
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) block[j] = at(j);
    }
  }

  void flush() {
    with_elements([&]<typename E>(int64_t n, const E* block, Total<E>* totals, auto) {
      if (!has_totals_)
        for (int64_t j = 0; j < n; ++j) totals[j] = Total<E>::of(block[j]);
      else
        for (int64_t j = 0; j < n; ++j) totals[j].add(block[j]);
    });
    has_totals_ = true;
    has_block_ = false;
    num_trees_ = 0;
  }

  int64_t columns_, stride_, num_rows_ = 0, num_trees_ = 0;
  bool has_block_ = false, has_totals_ = false;
  const T* rows_[kTree];
  W* block_;
  Total<W> totals_[kColumns];
};

}  // namespace cleave::reduce_detail
