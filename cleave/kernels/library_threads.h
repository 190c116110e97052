#pragma once

namespace cleave {

// How many threads one call into oneDNN or OpenBLAS may use. The default is 1: a mesh runs one
// thread per device already, and a library that starts its own threads below them only gets in the
// way. A program that computes on a single device may raise it.
void set_library_threads(int threads);
int library_threads();

// Makes the libraries obey on the calling thread. Kernels call it before they enter a library;
// costs a comparison when nothing changed.
void apply_library_threads();

}  // namespace cleave
