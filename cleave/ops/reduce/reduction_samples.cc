#include "cleave/ops/reduce/family.h"
#include "cleave/ops/samples.h"

namespace cleave {
namespace {

void add_reduction_samples_1(OpRegistry& r) {
  set_samples(r, "stablehlo.reduce", R"mlir(
func.func @reduce_add(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<5xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<5x4xf64>, tensor<f64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @reduce_max(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @reduce_min(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<5xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.minimum across dimensions = [1] : (tensor<5x4xf64>, tensor<f64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @reduce_mul(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.multiply across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @reduce_add0(%arg0: tensor<5x4xf64>, %arg1: tensor<f64>) -> tensor<4xf64> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0] : (tensor<5x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
)mlir");
  set_samples(r, "stablehlo.reduce_window", R"mlir(
func.func @reduce_window(%arg0: tensor<5x6xf64>, %arg1: tensor<f64>) -> tensor<5x5xf64> {
  %0 = "stablehlo.reduce_window"(%arg0, %arg1) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<5x6xf64>, tensor<f64>) -> tensor<5x5xf64>
  return %0 : tensor<5x5xf64>
}
)mlir");
  set_samples(r, "stablehlo.sort", R"mlir(
func.func @sort(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<5x4xf64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
func.func @sort_rows(%arg0: tensor<5x4xf64>) -> tensor<5x4xf64> {
  %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<5x4xf64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
)mlir");
  set_samples(r, "stablehlo.select_and_scatter", R"mlir(
func.func @select_and_scatter(%arg0: tensor<3x4xf64>, %arg1: tensor<3x2xf64>, %arg2: tensor<f64>) -> tensor<3x4xf64> {
  %0 = "stablehlo.select_and_scatter"(%arg0, %arg1, %arg2) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }, {
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<3x4xf64>, tensor<3x2xf64>, tensor<f64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}
)mlir");
  set_samples(r, "chlo.top_k", R"mlir(
func.func @chlo_top_k(%arg0: tensor<5x4xf64>) -> (tensor<5x2xf64>, tensor<5x2xi32>) {
  %0:2 = "chlo.top_k"(%arg0) <{k = 2 : i64}> : (tensor<5x4xf64>) -> (tensor<5x2xf64>, tensor<5x2xi32>)
  return %0#0, %0#1 : tensor<5x2xf64>, tensor<5x2xi32>
}
)mlir");
}

void add_reduction_samples_2(OpRegistry& r) {
  set_samples(r, "chlo.scan", R"mlir(
func.func @chlo_scan(%arg0: tensor<4x3xf64>, %arg1: tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>) {
  %0:2 = "chlo.scan"(%arg0, %arg1) <{dimension = 0 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: tensor<3xf64>, %c: tensor<3xf64>):
    %s = stablehlo.add %x, %c : tensor<3xf64>
    stablehlo.return %s, %s : tensor<3xf64>, tensor<3xf64>
  }) : (tensor<4x3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
  return %0#0, %0#1 : tensor<4x3xf64>, tensor<3xf64>
}
)mlir");
  set_samples(r, "stablehlo.batch_norm_inference", R"mlir(
func.func @batch_norm_inference(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>, %arg3: tensor<3xf64>, %arg4: tensor<3xf64> {discover.domain = "positive"}) -> tensor<5x3xf64> {
  %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
)mlir");
  set_samples(r, "stablehlo.batch_norm_training", R"mlir(
func.func @batch_norm_training(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>
}
)mlir");
  set_samples(r, "stablehlo.batch_norm_grad", R"mlir(
func.func @batch_norm_grad(%arg0: tensor<5x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<3xf64>, %arg3: tensor<3xf64> {discover.domain = "positive"}, %arg4: tensor<5x3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<5x3xf64>) -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<5x3xf64>, tensor<3xf64>, tensor<3xf64>
}
)mlir");
}

}  // namespace

void add_reduction_samples(OpRegistry& r) {
  add_reduction_samples_1(r);
  add_reduction_samples_2(r);
}

}  // namespace cleave
