#include "cleave/kernels/running_fold.h"

#include <algorithm>
#include <cstring>

#include "cleave/kernels/blocked_sum.h"

namespace cleave {
namespace {

using reduce_detail::kChain;
using reduce_detail::Total;

constexpr size_t kHead = 64;  // bytes

// The memory of sums: the rows in the partial sums, the partial sums, the totals. Complex numbers
// are pairs of real ones.
template <typename Real>
struct Sums {
  int64_t& length;
  Real* partial;
  Total<Real>* totals;
  int64_t n;

  static size_t totals_at(int64_t n) {
    return kHead + static_cast<size_t>(ceil_div(n, 16)) * 16 * sizeof(Real);
  }
  static size_t bytes(int64_t n) {
    return totals_at(n) + static_cast<size_t>(n) * sizeof(Total<Real>);
  }

  Sums(std::byte* memory, int64_t columns)
      : length(*reinterpret_cast<int64_t*>(memory)),
        partial(reinterpret_cast<Real*>(memory + kHead)),
        totals(reinterpret_cast<Total<Real>*>(memory + totals_at(columns))),
        n(columns) {}

  void flush() {
    if (length == 0) return;
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) totals[j].add(partial[j]);
    length = 0;
  }

  void add(const Real* row) {
    if (length == 0)
      std::memcpy(partial, row, static_cast<size_t>(n) * sizeof(Real));
    else {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) partial[j] += row[j];
    }
    if (++length == kChain) flush();
  }

  // Four rows with one pass over the partial sums, in the order in which `add` adds them: the bits
  // do not depend on how many rows come at a time.
  void add_four(const Real* row) {
    const Real *a = row, *b = a + n, *c = b + n, *d = c + n;
    if (length == 0) {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) partial[j] = ((a[j] + b[j]) + c[j]) + d[j];
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) partial[j] = (((partial[j] + a[j]) + b[j]) + c[j]) + d[j];
    }
    length += 4;
    if (length == kChain) flush();
  }
};

// Calls go(Real, real numbers per element) for a blocked sum.
template <typename Go>
auto with_real(DType dtype, Go go) {
  const bool is_double = dtype == DType::F64 || dtype == DType::C128;
  const int64_t parts = is_complex(dtype) ? 2 : 1;
  return is_double ? go(double{}, parts) : go(float{}, parts);
}

}  // namespace

RunningFold::RunningFold(DType dtype, Reducer reducer, int64_t columns, Loop combine)
    : dtype_(dtype), reducer_(reducer), columns_(columns), combine_(combine) {
  bytes_ = is_blocked() ? with_real(dtype,
                                    [&]<typename Real>(Real, int64_t parts) {
                                      return Sums<Real>::bytes(columns * parts);
                                    })
                        : static_cast<size_t>(columns * byte_size(dtype));
}

bool RunningFold::is_blocked() const {
  return reducer_ == Reducer::Sum && (is_float(dtype_) || is_complex(dtype_));
}

void RunningFold::start(std::byte* memory, const std::byte* first) const {
  if (!is_blocked()) {
    const auto size = static_cast<size_t>(byte_size(dtype_));
    for (int64_t j = 0; j < columns_; ++j)
      std::memcpy(memory + static_cast<size_t>(j) * size, first, size);
    return;
  }
  with_real(dtype_, [&]<typename Real>(Real, int64_t parts) {
    Sums<Real> sums(memory, columns_ * parts);
    sums.length = 0;
    const Real* values = reinterpret_cast<const Real*>(first);
    for (int64_t j = 0; j < sums.n; ++j) sums.totals[j] = Total<Real>::of(values[j % parts]);
  });
}

void RunningFold::add_rows(std::byte* memory, const std::byte* rows, int64_t n) const {
  if (!is_blocked()) {
    const int64_t step = columns_ * byte_size(dtype_);
    const std::byte* pair[2] = {memory, rows};
    for (int64_t r = 0; r < n; ++r, pair[1] += step) combine_(pair, memory, columns_);
    return;
  }
  with_real(dtype_, [&]<typename Real>(Real, int64_t parts) {
    Sums<Real> sums(memory, columns_ * parts);
    const Real* row = reinterpret_cast<const Real*>(rows);
    int64_t r = 0;
    while (r < n) {
      const bool four = r + 4 <= n && sums.length + 4 <= kChain;
      four ? sums.add_four(row + r * sums.n) : sums.add(row + r * sums.n);
      r += four ? 4 : 1;
    }
  });
}

void RunningFold::add_elements(std::byte* memory, const std::byte* elements, int64_t n) const {
  if (!is_blocked()) return fold_rows(dtype_, reducer_, elements, 1, n, memory, memory);
  with_real(dtype_, [&]<typename Real>(Real, int64_t parts) {
    using reduce_detail::add_row;
    Sums<Real> sums(memory, parts);
    if (parts == 1)
      return add_row<Real>(reinterpret_cast<const Real*>(elements), n, 1, sums.totals[0]);
    using Complex = std::complex<Real>;
    add_row<Complex>(reinterpret_cast<const Complex*>(elements), n, 1,
                     *reinterpret_cast<Total<Complex>*>(sums.totals));
  });
}

void RunningFold::merge(std::byte* memory, std::byte* other) const {
  if (!is_blocked()) {
    const std::byte* pair[2] = {memory, other};
    return combine_(pair, memory, columns_);
  }
  with_real(dtype_, [&]<typename Real>(Real, int64_t parts) {
    Sums<Real> sums(memory, columns_ * parts), added(other, columns_ * parts);
    sums.flush();
    added.flush();
    for (int64_t j = 0; j < sums.n; ++j) sums.totals[j].merge(added.totals[j]);
  });
}

void RunningFold::finish(std::byte* memory, std::byte* out) const {
  if (!is_blocked()) {
    std::memcpy(out, memory, static_cast<size_t>(columns_ * byte_size(dtype_)));
    return;
  }
  with_real(dtype_, [&]<typename Real>(Real, int64_t parts) {
    Sums<Real> sums(memory, columns_ * parts);
    sums.flush();
    Real* target = reinterpret_cast<Real*>(out);
    for (int64_t j = 0; j < sums.n; ++j) target[j] = sums.totals[j].value();
  });
}

}  // namespace cleave
