#include "cleave/ops/convolution/family.h"
#include "cleave/ops/samples.h"

namespace cleave {

void add_convolution_samples(OpRegistry& r) {
  set_samples(r, "stablehlo.convolution", R"mlir(
func.func @convolution(%arg0: tensor<3x7x2xf64>, %arg1: tensor<2x2x5xf64>) -> tensor<3x6x5xf64> {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x7x2xf64>, tensor<2x2x5xf64>) -> tensor<3x6x5xf64>
  return %0 : tensor<3x6x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.dynamic_conv", R"mlir(
func.func @dynamic_conv(%arg0: tensor<3x7x2xf64>, %arg1: tensor<2x2x5xf64>) -> tensor<3x6x5xf64> {
  %c = stablehlo.constant dense<0> : tensor<1x2xi64>
  %0 = "stablehlo.dynamic_conv"(%arg0, %arg1, %c) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<3x7x2xf64>, tensor<2x2x5xf64>, tensor<1x2xi64>) -> tensor<3x6x5xf64>
  return %0 : tensor<3x6x5xf64>
}
)mlir");
}

}  // namespace cleave
