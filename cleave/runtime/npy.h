#pragma once

#include <filesystem>
#include <optional>

#include "cleave/kernels/array.h"

namespace cleave {

// NumPy's .npy files. NumPy has no bfloat16: such arrays are written as raw two-byte elements
// ('V2', as ml_dtypes writes them), and 'V2' or 'u2' is read as bfloat16 if the caller says that
// it is.
//   np.load("x.npy").view(ml_dtypes.bfloat16)
Array load_npy(const std::filesystem::path& path, std::optional<DType> expected = std::nullopt);
void save_npy(const std::filesystem::path& path, const Array& array);

}  // namespace cleave
