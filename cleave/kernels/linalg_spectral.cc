#include "cleave/kernels/lapack.h"
#include "cleave/kernels/linalg.h"
#include "cleave/kernels/linalg_batch.h"

namespace cleave {

using namespace linalg_detail;
using lapack::Lapack;

std::vector<Array> lapack_gesdd(const Array& a, char mode, bool square) {
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  const int64_t m = rows(a), n = cols(a), k = std::min(m, n);
  const bool full = mode == 'A' || (mode == 'N' && square);
  Array out(a.dtype(), a.shape()), info(DType::I32, batch);
  Array s(real_part_type(a.dtype()), with(batch, {k}));
  Array u = Array::zeros(a.dtype(), with(batch, {m, full ? m : k}));
  Array vt = Array::zeros(a.dtype(), with(batch, {full ? n : k, n}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    using R = lapack::Real<T>;
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), m, n), left(m, cols(u)), right(rows(vt), n);
      const int lead = x.lead(), left_lead = left.lead(), right_lead = right.lead();
      std::vector<int> iwork(static_cast<size_t>(8 * k + 1));
      const auto real_size = static_cast<size_t>(
          std::max<int64_t>(1, k * std::max(5 * k + 7, 2 * std::max(m, n) + 2 * k + 1)));
      std::vector<R> rwork(std::is_floating_point_v<T> ? 0 : real_size);
      with_work<T>([&](T* work, int size) {
        if constexpr (std::is_floating_point_v<T>)
          Lapack<T>::gesdd(&mode, &x.m, &x.n, x.data.data(), &lead, vector<T>(s, b),
                           left.data.data(), &left_lead, right.data.data(), &right_lead, work,
                           &size, iwork.data(), info.data<int>() + b);
        else
          Lapack<T>::gesdd(&mode, &x.m, &x.n, x.data.data(), &lead, vector<R>(s, b),
                           left.data.data(), &left_lead, right.data.data(), &right_lead, work,
                           &size, rwork.data(), iwork.data(), info.data<int>() + b);
      });
      x.store(matrix<T>(out, b));
      left.store(matrix<T>(u, b));
      right.store(matrix<T>(vt, b));
    }
  });
  return {out, s, u, vt, info};
}

std::vector<Array> lapack_syevd(const Array& a, char mode, char uplo) {
  require_square("syevd", a);
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  Array out(a.dtype(), a.shape()), info(DType::I32, batch);
  Array w(real_part_type(a.dtype()), with(batch, {rows(a)}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    using R = lapack::Real<T>;
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), rows(a), cols(a));
      const int lead = x.lead(), ask = -1;
      int* status = info.data<int>() + b;
      T wanted{};
      R real_wanted{};
      int int_wanted = 0;
      auto call = [&](T* work, int size, R* real_work, int real_size, int* int_work, int int_size) {
        if constexpr (std::is_floating_point_v<T>) {
          Lapack<T>::syevd(&mode, &uplo, &x.n, x.data.data(), &lead, vector<R>(w, b), work, &size,
                           int_work, &int_size, status);
        } else {
          Lapack<T>::syevd(&mode, &uplo, &x.n, x.data.data(), &lead, vector<R>(w, b), work, &size,
                           real_work, &real_size, int_work, &int_size, status);
        }
      };
      call(&wanted, ask, &real_wanted, ask, &int_wanted, ask);
      std::vector<T> work(static_cast<size_t>(work_size(wanted)));
      std::vector<R> real_work(static_cast<size_t>(work_size(real_wanted)));
      std::vector<int> int_work(static_cast<size_t>(std::max(1, int_wanted)));
      call(work.data(), static_cast<int>(work.size()), real_work.data(),
           static_cast<int>(real_work.size()), int_work.data(), static_cast<int>(int_work.size()));
      x.store(matrix<T>(out, b));
    }
  });
  return {out, w, info};
}

std::vector<Array> lapack_geev(const Array& a, char left, char right) {
  require_square("geev", a);
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  const int64_t n = rows(a);
  const DType real_type = real_part_type(a.dtype());
  const DType complex_type = real_type == DType::F64 ? DType::C128 : DType::C64;
  Array info(DType::I32, batch), wr(a.dtype(), with(batch, {n})), wi(a.dtype(), with(batch, {n}));
  Array vl(complex_type, a.shape()), vr(complex_type, a.shape());
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    using R = lapack::Real<T>;
    using C = std::complex<R>;
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), n, n), l(n, n), r(n, n);
      const int lead = x.lead();
      int* status = info.data<int>() + b;
      with_work<T>([&](T* work, int size) {
        if constexpr (std::is_floating_point_v<T>) {
          Lapack<T>::geev(&left, &right, &x.n, x.data.data(), &lead, vector<T>(wr, b),
                          vector<T>(wi, b), l.data.data(), &lead, r.data.data(), &lead, work, &size,
                          status);
        } else {
          std::vector<R> real_work(static_cast<size_t>(2 * n + 1));
          Lapack<T>::geev(&left, &right, &x.n, x.data.data(), &lead, vector<T>(wr, b),
                          l.data.data(), &lead, r.data.data(), &lead, work, &size, real_work.data(),
                          status);
        }
      });
      // Real routines hold a conjugate pair of vectors as real and imaginary part in two columns.
      auto unpack = [&](const Columns<T>& vectors, C* out) {
        for (int64_t j = 0; j < n; ++j)
          for (int64_t i = 0; i < n; ++i) {
            auto at = [&](int64_t column) {
              return vectors.data[static_cast<size_t>(column * n + i)];
            };
            if constexpr (std::is_floating_point_v<T>) {
              const R imaginary = vector<T>(wi, b)[j];
              if (imaginary == 0)
                out[i * n + j] = at(j);
              else if (imaginary > 0)
                out[i * n + j] = C(at(j), at(j + 1));
              else
                out[i * n + j] = C(at(j - 1), -at(j));
            } else {
              out[i * n + j] = at(j);
            }
          }
      };
      unpack(l, matrix<C>(vl, b));
      unpack(r, matrix<C>(vr, b));
    }
  });
  if (is_complex(a.dtype())) return {wr, vl, vr, info};
  return {wr, wi, vl, vr, info};
}

std::vector<Array> lapack_gehrd(const Array& a, int low, int high) {
  require_square("gehrd", a);
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  Array out(a.dtype(), a.shape()), info(DType::I32, batch);
  Array tau = Array::zeros(a.dtype(), with(batch, {std::max<int64_t>(rows(a) - 1, 0)}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), rows(a), cols(a));
      const int lead = x.lead();
      with_work<T>([&](T* work, int size) {
        Lapack<T>::gehrd(&x.n, &low, &high, x.data.data(), &lead, vector<T>(tau, b), work, &size,
                         info.data<int>() + b);
      });
      x.store(matrix<T>(out, b));
    }
  });
  return {out, tau, info};
}

std::vector<Array> lapack_sytrd(const Array& a, char uplo) {
  require_square("sytrd", a);
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  const int64_t n = rows(a), below = std::max<int64_t>(n - 1, 0);
  const DType real = real_part_type(a.dtype());
  Array out(a.dtype(), a.shape()), info(DType::I32, batch);
  Array d(real, with(batch, {n})), e(real, with(batch, {below})),
      tau(a.dtype(), with(batch, {below}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    using R = lapack::Real<T>;
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), n, n);
      const int lead = x.lead();
      with_work<T>([&](T* work, int size) {
        Lapack<T>::sytrd(&uplo, &x.n, x.data.data(), &lead, vector<R>(d, b), vector<R>(e, b),
                         vector<T>(tau, b), work, &size, info.data<int>() + b);
      });
      x.store(matrix<T>(out, b));
    }
  });
  return {out, d, e, tau, info};
}

std::vector<Array> lapack_gtsv(const Array& lower, const Array& diagonal, const Array& upper,
                               const Array& right) {
  apply_library_threads();
  // LAPACK's lower diagonal has no first entry and its upper one no last; JAX's have, unused.
  Array dl = lower.copy(), d = diagonal.copy(), du = upper.copy(), x(right.dtype(), right.shape());
  const Array in = right.contiguous();
  Array info(DType::I32, batch_shape(right));
  const int n = static_cast<int>(rows(right)), count = static_cast<int>(cols(right));
  visit_lapack(right.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> m(matrix<T>(in, b), n, count);
      const int lead = m.lead();
      Lapack<T>::gtsv(&n, &count, vector<T>(dl, b) + 1, vector<T>(d, b), vector<T>(du, b),
                      m.data.data(), &lead, info.data<int>() + b);
      m.store(matrix<T>(x, b));
    }
  });
  return {dl, d, du, x, info};
}

}  // namespace cleave
