#include "cleave/kernels/lapack.h"
#include "cleave/kernels/linalg.h"
#include "cleave/kernels/linalg_batch.h"

namespace cleave {

using namespace linalg_detail;
using lapack::Lapack;

std::vector<Array> lapack_gees(const Array& a, char mode) {
  require_square("gees", a);
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  const int64_t n = rows(a);
  Array out(a.dtype(), a.shape()), vectors = Array::zeros(a.dtype(), a.shape());
  Array w(a.dtype(), with(batch, {n})), imaginary(a.dtype(), with(batch, {n}));
  Array selected = Array::zeros(DType::I32, batch), info(DType::I32, batch);
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    using R = lapack::Real<T>;
    const char sort = 'N';
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> x(matrix<T>(in, b), n, n), v(n, n);
      const int lead = x.lead();
      int* count = selected.data<int>() + b;
      int* status = info.data<int>() + b;
      with_work<T>([&](T* work, int size) {
        if constexpr (std::is_floating_point_v<T>) {
          Lapack<T>::gees(&mode, &sort, nullptr, &x.n, x.data.data(), &lead, count, vector<T>(w, b),
                          vector<T>(imaginary, b), v.data.data(), &lead, work, &size, nullptr,
                          status);
        } else {
          std::vector<R> real_work(static_cast<size_t>(n + 1));
          Lapack<T>::gees(&mode, &sort, nullptr, &x.n, x.data.data(), &lead, count, vector<T>(w, b),
                          v.data.data(), &lead, work, &size, real_work.data(), nullptr, status);
        }
      });
      x.store(matrix<T>(out, b));
      if (mode == 'V') v.store(matrix<T>(vectors, b));
    }
  });
  if (is_complex(a.dtype())) return {out, vectors, w, selected, info};
  return {out, vectors, w, imaginary, selected, info};
}

}  // namespace cleave
