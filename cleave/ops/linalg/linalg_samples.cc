#include "cleave/ops/linalg/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_linalg_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.triangular_solve", R"mlir(
func.func @triangular_solve(%arg0: tensor<5x3x3xf64>, %arg1: tensor<5x3x2xf64>) -> tensor<5x3x2xf64> {
  %0 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<5x3x3xf64>, tensor<5x3x2xf64>) -> tensor<5x3x2xf64>
  return %0 : tensor<5x3x2xf64>
}
)mlir");
  set_samples(r, "stablehlo.cholesky", R"mlir(
func.func @cholesky(%arg0: tensor<5x3x3xf64> {discover.domain = "definite"}) -> tensor<5x3x3xf64> {
  %0 = stablehlo.cholesky %arg0, lower = true : tensor<5x3x3xf64>
  return %0 : tensor<5x3x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.fft", R"mlir(
func.func @fft(%arg0: tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = FFT, length = [4] : (tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>>
  return %0 : tensor<5x4xcomplex<f64>>
}
func.func @ifft(%arg0: tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = IFFT, length = [4] : (tensor<5x4xcomplex<f64>>) -> tensor<5x4xcomplex<f64>>
  return %0 : tensor<5x4xcomplex<f64>>
}
func.func @rfft(%arg0: tensor<5x4xf64>) -> tensor<5x3xcomplex<f64>> {
  %0 = stablehlo.fft %arg0, type = RFFT, length = [4] : (tensor<5x4xf64>) -> tensor<5x3xcomplex<f64>>
  return %0 : tensor<5x3xcomplex<f64>>
}
)mlir");
}

}  // namespace cleave
