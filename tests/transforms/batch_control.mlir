// Control flow, calls, checks and custom calls.
func.func @while_common_count(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%v = %x, %i = %zero) : tensor<3xf32>, tensor<i32>
   cond {
    %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.add %v, %y : tensor<3xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %s, %n : tensor<3xf32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<3xf32>, tensor<i32>
}
func.func @while_own_count(%x: tensor<2x3xi32>, %n: tensor<i32>) -> (tensor<2x3xi32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%v = %x, %i = %zero) : tensor<2x3xi32>, tensor<i32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.add %v, %v : tensor<2x3xi32>
    %m = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %s, %m : tensor<2x3xi32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<2x3xi32>, tensor<i32>
}
func.func @while_in_while(%x: tensor<3xi32>, %n: tensor<i32>, %m: tensor<i32>) -> tensor<3xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%v = %x, %i = %zero) : tensor<3xi32>, tensor<i32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1:2 = stablehlo.while(%w = %v, %j = %zero) : tensor<3xi32>, tensor<i32>
     cond {
      %c = stablehlo.compare LT, %j, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %s = stablehlo.add %w, %x : tensor<3xi32>
      %k = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %s, %k : tensor<3xi32>, tensor<i32>
    }
    %k = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %1#0, %k : tensor<3xi32>, tensor<i32>
  }
  return %0#0 : tensor<3xi32>
}
func.func @while_grows(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:4 = stablehlo.while(%a = %x, %b = %y, %c = %y, %i = %zero) : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>
   cond {
    %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.add %b, %c : tensor<3xf32>
    stablehlo.return %a, %a, %s, %n : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>
  }
  return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func @if(%p: tensor<i1>, %x: tensor<3x2xf32>, %y: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %0:2 = "stablehlo.if"(%p) ({
    %1 = stablehlo.add %x, %y : tensor<3x2xf32>
    stablehlo.return %1, %y : tensor<3x2xf32>, tensor<3x2xf32>
  }, {
    %1 = stablehlo.subtract %x, %y : tensor<3x2xf32>
    stablehlo.return %1, %y : tensor<3x2xf32>, tensor<3x2xf32>
  }) : (tensor<i1>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xf32>
}
func.func @case(%i: tensor<i32>, %x: tensor<3xf32>, %y: tensor<f32>) -> (tensor<3xf32>, tensor<f32>) {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %k = stablehlo.subtract %i, %two : tensor<i32>
  %0:2 = "stablehlo.case"(%k) ({
    %1 = stablehlo.negate %x : tensor<3xf32>
    stablehlo.return %1, %y : tensor<3xf32>, tensor<f32>
  }, {
    %1 = stablehlo.cosine %x : tensor<3xf32>
    stablehlo.return %1, %y : tensor<3xf32>, tensor<f32>
  }, {
    %1 = stablehlo.sine %x : tensor<3xf32>
    %2 = stablehlo.exponential %y : tensor<f32>
    stablehlo.return %1, %2 : tensor<3xf32>, tensor<f32>
  }) : (tensor<i32>) -> (tensor<3xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<f32>
}
func.func @scan(%x: tensor<2x5xf32>, %c: tensor<2xf32>, %w: tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0:3 = "chlo.scan"(%x, %c, %w) <{dimension = 1 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 2>, resultSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>, %d: tensor<2xf32>):
    %p = stablehlo.multiply %b, %d : tensor<2xf32>
    %s = stablehlo.add %a, %p : tensor<2xf32>
    stablehlo.return %s, %s, %d : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }) : (tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func private @callee(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  %1 = stablehlo.subtract %0, %y : tensor<3xf32>
  return %1, %y : tensor<3xf32>, tensor<3xf32>
}
func.func @call(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0:2 = func.call @callee(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %1:2 = func.call @callee(%0#0, %0#1) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %1#0, %1#1 : tensor<3xf32>, tensor<3xf32>
}
func.func @composite(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0:2 = stablehlo.composite "test.callee" %x, %y {decomposition = @callee} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}
func.func @tuple(%x: tensor<3xf32>, %y: tensor<2x2xi32>) -> (tensor<2x2xi32>, tensor<3xf32>) {
  %0 = stablehlo.tuple %x, %y : tuple<tensor<3xf32>, tensor<2x2xi32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<3xf32>, tensor<2x2xi32>>) -> tensor<2x2xi32>
  %2 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<3xf32>, tensor<2x2xi32>>) -> tensor<3xf32>
  return %1, %2 : tensor<2x2xi32>, tensor<3xf32>
}
func.func @expect_eq(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  %2 = stablehlo.subtract %1, %x : tensor<3xf32>
  check.expect_eq %1, %x : tensor<3xf32>
  check.expect_almost_eq %1, %x : tensor<3xf32>
  "check.expect_close"(%1, %x) : (tensor<3xf32>, tensor<3xf32>) -> ()
  check.expect_eq_const %2, dense<0.0> : tensor<3xf32>
  check.expect_almost_eq_const %2, dense<0.0> : tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func @probe(%x: tensor<3xf32>) -> tensor<3xf32> {
  "interpreter.print"(%x) : (tensor<3xf32>) -> ()
  %0 = "interpreter.probe"(%x) {probe_id = "p"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @custom_call_erf(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.custom_call @mhlo.erf(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func @custom_call_top_k(%x: tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
func.func @custom_call_approx_top_k(%x: tensor<3x7xf32>, %i: tensor<3x7xi32>, %a: tensor<f32>, %b: tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %a, %b) {mhlo.backend_config = {reduction_dim = 1 : i64}} : (tensor<3x7xf32>, tensor<3x7xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
func.func @custom_call_qr(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {
  %0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%x) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<3xf32>
}
func.func @custom_call_mark(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{devices=[2,1]<=[2]}"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
func.func @broadcast_add(%x: tensor<4x3xf32>, %y: tensor<4xf32>) -> tensor<4x3xf32> {
  %0 = chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64: 0>} : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
func.func @broadcast_compare(%x: tensor<4x1xf32>, %y: tensor<3xf32>) -> tensor<4x3xi1> {
  %0 = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction LT>} : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x3xi1>
  return %0 : tensor<4x3xi1>
}
func.func @broadcast_select(%p: tensor<i1>, %x: tensor<4x3xf32>, %y: tensor<4x1xf32>) -> tensor<4x3xf32> {
  %0 = chlo.broadcast_select %p, %x, %y : (tensor<i1>, tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
