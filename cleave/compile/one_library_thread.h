#pragma once

#include <omp.h>

#include "cleave/kernels/library_threads.h"

namespace cleave {

// While it lives, libraries that this thread calls use no threads of their own.
class OneLibraryThread {
 public:
  OneLibraryThread() {
    apply_library_threads();
    before_ = omp_get_max_threads();
    omp_set_num_threads(1);
  }
  ~OneLibraryThread() { omp_set_num_threads(before_); }
  OneLibraryThread(const OneLibraryThread&) = delete;
  OneLibraryThread& operator=(const OneLibraryThread&) = delete;

 private:
  int before_ = 1;
};

}  // namespace cleave
