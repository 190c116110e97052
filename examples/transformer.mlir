module @jit_train_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: tensor<256x64xf32>, %arg1: tensor<64xf32>, %arg2: tensor<64xf32>, %arg3: tensor<256x64xf32>, %arg4: tensor<64x4x16xf32>, %arg5: tensor<64xf32>, %arg6: tensor<4x16x64xf32>, %arg7: tensor<64x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, %arg8: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg9: tensor<64x4x16xf32>, %arg10: tensor<64xf32>, %arg11: tensor<256x64xf32>, %arg12: tensor<64x4x16xf32>, %arg13: tensor<64xf32>, %arg14: tensor<4x16x64xf32>, %arg15: tensor<64x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, %arg16: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg17: tensor<64x4x16xf32>, %arg18: tensor<256x64xf32>, %arg19: tensor<64xf32>, %arg20: tensor<64xf32>, %arg21: tensor<256x64xf32>, %arg22: tensor<64x4x16xf32>, %arg23: tensor<64xf32>, %arg24: tensor<4x16x64xf32>, %arg25: tensor<64x4x16xf32>, %arg26: tensor<64x256xf32>, %arg27: tensor<64x4x16xf32>, %arg28: tensor<64xf32>, %arg29: tensor<256x64xf32>, %arg30: tensor<64x4x16xf32>, %arg31: tensor<64xf32>, %arg32: tensor<4x16x64xf32>, %arg33: tensor<64x4x16xf32>, %arg34: tensor<64x256xf32>, %arg35: tensor<64x4x16xf32>, %arg36: tensor<256x64xf32>, %arg37: tensor<64xf32>, %arg38: tensor<64xf32>, %arg39: tensor<256x64xf32>, %arg40: tensor<64x4x16xf32>, %arg41: tensor<64xf32>, %arg42: tensor<4x16x64xf32>, %arg43: tensor<64x4x16xf32>, %arg44: tensor<64x256xf32>, %arg45: tensor<64x4x16xf32>, %arg46: tensor<64xf32>, %arg47: tensor<256x64xf32>, %arg48: tensor<64x4x16xf32>, %arg49: tensor<64xf32>, %arg50: tensor<4x16x64xf32>, %arg51: tensor<64x4x16xf32>, %arg52: tensor<64x256xf32>, %arg53: tensor<64x4x16xf32>, %arg54: tensor<f32> {sdy.sharding = #sdy.sharding<@empty_mesh, []>}, %arg55: tensor<8x33xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<256x64xf32> {jax.result_info = "result[0]['embedding']"}, tensor<64xf32> {jax.result_info = "result[0]['final_norm']"}, tensor<64xf32> {jax.result_info = "result[0]['layers'][0]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[0]['layers'][0]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][0]['key']"}, tensor<64xf32> {jax.result_info = "result[0]['layers'][0]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[0]['layers'][0]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][0]['query']"}, tensor<64x256xf32> {jax.result_info = "result[0]['layers'][0]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][0]['value']"}, tensor<64xf32> {jax.result_info = "result[0]['layers'][1]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[0]['layers'][1]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][1]['key']"}, tensor<64xf32> {jax.result_info = "result[0]['layers'][1]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[0]['layers'][1]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][1]['query']"}, tensor<64x256xf32> {jax.result_info = "result[0]['layers'][1]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[0]['layers'][1]['value']"}, tensor<256x64xf32> {jax.result_info = "result[1]['embedding']"}, tensor<64xf32> {jax.result_info = "result[1]['final_norm']"}, tensor<64xf32> {jax.result_info = "result[1]['layers'][0]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[1]['layers'][0]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][0]['key']"}, tensor<64xf32> {jax.result_info = "result[1]['layers'][0]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[1]['layers'][0]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][0]['query']"}, tensor<64x256xf32> {jax.result_info = "result[1]['layers'][0]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][0]['value']"}, tensor<64xf32> {jax.result_info = "result[1]['layers'][1]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[1]['layers'][1]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][1]['key']"}, tensor<64xf32> {jax.result_info = "result[1]['layers'][1]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[1]['layers'][1]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][1]['query']"}, tensor<64x256xf32> {jax.result_info = "result[1]['layers'][1]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[1]['layers'][1]['value']"}, tensor<256x64xf32> {jax.result_info = "result[2]['embedding']"}, tensor<64xf32> {jax.result_info = "result[2]['final_norm']"}, tensor<64xf32> {jax.result_info = "result[2]['layers'][0]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[2]['layers'][0]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][0]['key']"}, tensor<64xf32> {jax.result_info = "result[2]['layers'][0]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[2]['layers'][0]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][0]['query']"}, tensor<64x256xf32> {jax.result_info = "result[2]['layers'][0]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][0]['value']"}, tensor<64xf32> {jax.result_info = "result[2]['layers'][1]['attention_norm']"}, tensor<256x64xf32> {jax.result_info = "result[2]['layers'][1]['down']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][1]['key']"}, tensor<64xf32> {jax.result_info = "result[2]['layers'][1]['mlp_norm']"}, tensor<4x16x64xf32> {jax.result_info = "result[2]['layers'][1]['out']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][1]['query']"}, tensor<64x256xf32> {jax.result_info = "result[2]['layers'][1]['up']"}, tensor<64x4x16xf32> {jax.result_info = "result[2]['layers'][1]['value']"}, tensor<f32> {jax.result_info = "result[3]"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.slice %arg55 [0:8, 0:32] : (tensor<8x33xi32>) -> tensor<8x32xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x32xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<8x32xi32>, tensor<8x32xi32>) -> tensor<8x32xi1>
    %c_0 = stablehlo.constant dense<256> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8x32xi32>
    %4 = stablehlo.add %0, %3 : tensor<8x32xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<8x32xi1>, tensor<8x32xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<8x32xi32>) -> tensor<8x32x1xi32>
    %7 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x32x1xi32>) -> tensor<8x32x64xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<8x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_1 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<8x32x1xf32>
    %cst_2 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %14 = stablehlo.add %12, %13 : tensor<8x32x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<8x32x1xf32>
    %16 = stablehlo.divide %15, %14 : tensor<8x32x1xf32>
    %cst_3 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %18 = stablehlo.multiply %17, %16 : tensor<8x32x1xf32>
    %19 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %20 = stablehlo.multiply %7, %19 : tensor<8x32x64xf32>
    %21 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %23 = stablehlo.multiply %20, %22 : tensor<8x32x64xf32>
    %24 = stablehlo.dot_general %23, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %25 = stablehlo.dot_general %23, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %26 = stablehlo.dot_general %23, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %27 = stablehlo.dot_general %24, %25, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x32xf32>
    %cst_4 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %29 = stablehlo.divide %27, %28 : tensor<8x4x32x32xf32>
    %c_5 = stablehlo.constant dense<true> : tensor<i1>
    %30 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %31 = call @tril(%30) : (tensor<32x32xi1>) -> tensor<32x32xi1>
    %cst_6 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %32:2 = call @_where(%31, %29, %cst_6) : (tensor<32x32xi1>, tensor<8x4x32x32xf32>, tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>)
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %33 = stablehlo.reduce(%32#0 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8x4x32xf32>
    %35 = stablehlo.maximum %34, %33 : tensor<8x4x32xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %38 = stablehlo.subtract %32#0, %37 : tensor<8x4x32x32xf32>
    %39 = stablehlo.exponential %38 : tensor<8x4x32x32xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %43 = stablehlo.divide %39, %42 : tensor<8x4x32x32xf32>
    %44 = stablehlo.multiply %41, %41 : tensor<8x4x32x1xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x4x32x1xf32>
    %46 = stablehlo.divide %45, %44 : tensor<8x4x32x1xf32>
    %47 = stablehlo.dot_general %26, %43, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x16x32xf32>
    %48 = stablehlo.transpose %47, dims = [0, 3, 1, 2] : (tensor<8x4x16x32xf32>) -> tensor<8x32x4x16xf32>
    %49 = stablehlo.dot_general %48, %arg6, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<4x16x64xf32>) -> tensor<8x32x64xf32>
    %50 = stablehlo.add %7, %49 : tensor<8x32x64xf32>
    %51 = stablehlo.multiply %50, %50 : tensor<8x32x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%51 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %55 = stablehlo.divide %53, %54 : tensor<8x32x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %57 = stablehlo.add %55, %56 : tensor<8x32x1xf32>
    %58 = stablehlo.rsqrt %57 : tensor<8x32x1xf32>
    %59 = stablehlo.divide %58, %57 : tensor<8x32x1xf32>
    %cst_14 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %61 = stablehlo.multiply %60, %59 : tensor<8x32x1xf32>
    %62 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %63 = stablehlo.multiply %50, %62 : tensor<8x32x64xf32>
    %64 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %66 = stablehlo.multiply %63, %65 : tensor<8x32x64xf32>
    %67 = stablehlo.dot_general %66, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x256xf32>) -> tensor<8x32x256xf32>
    %68:3 = call @silu(%67) : (tensor<8x32x256xf32>) -> (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>)
    %69 = stablehlo.dot_general %68#0, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<256x64xf32>) -> tensor<8x32x64xf32>
    %70 = stablehlo.add %50, %69 : tensor<8x32x64xf32>
    %71 = stablehlo.multiply %70, %70 : tensor<8x32x64xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_16 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %75 = stablehlo.divide %73, %74 : tensor<8x32x1xf32>
    %cst_17 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %77 = stablehlo.add %75, %76 : tensor<8x32x1xf32>
    %78 = stablehlo.rsqrt %77 : tensor<8x32x1xf32>
    %79 = stablehlo.divide %78, %77 : tensor<8x32x1xf32>
    %cst_18 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %81 = stablehlo.multiply %80, %79 : tensor<8x32x1xf32>
    %82 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %83 = stablehlo.multiply %70, %82 : tensor<8x32x64xf32>
    %84 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %86 = stablehlo.multiply %83, %85 : tensor<8x32x64xf32>
    %87 = stablehlo.dot_general %86, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %88 = stablehlo.dot_general %86, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %89 = stablehlo.dot_general %86, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x4x16xf32>) -> tensor<8x32x4x16xf32>
    %90 = stablehlo.dot_general %87, %88, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x32xf32>
    %cst_19 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %92 = stablehlo.divide %90, %91 : tensor<8x4x32x32xf32>
    %c_20 = stablehlo.constant dense<true> : tensor<i1>
    %93 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %94 = call @tril(%93) : (tensor<32x32xi1>) -> tensor<32x32xi1>
    %cst_21 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %95:2 = call @_where(%94, %92, %cst_21) : (tensor<32x32xi1>, tensor<8x4x32x32xf32>, tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>)
    %cst_22 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %96 = stablehlo.reduce(%95#0 init: %cst_22) applies stablehlo.maximum across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<8x4x32xf32>
    %98 = stablehlo.maximum %97, %96 : tensor<8x4x32xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %101 = stablehlo.subtract %95#0, %100 : tensor<8x4x32x32xf32>
    %102 = stablehlo.exponential %101 : tensor<8x4x32x32xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_24) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %106 = stablehlo.divide %102, %105 : tensor<8x4x32x32xf32>
    %107 = stablehlo.multiply %104, %104 : tensor<8x4x32x1xf32>
    %cst_25 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<8x4x32x1xf32>
    %109 = stablehlo.divide %108, %107 : tensor<8x4x32x1xf32>
    %110 = stablehlo.dot_general %89, %106, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x16x32xf32>
    %111 = stablehlo.transpose %110, dims = [0, 3, 1, 2] : (tensor<8x4x16x32xf32>) -> tensor<8x32x4x16xf32>
    %112 = stablehlo.dot_general %111, %arg14, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<4x16x64xf32>) -> tensor<8x32x64xf32>
    %113 = stablehlo.add %70, %112 : tensor<8x32x64xf32>
    %114 = stablehlo.multiply %113, %113 : tensor<8x32x64xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_27 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %118 = stablehlo.divide %116, %117 : tensor<8x32x1xf32>
    %cst_28 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %120 = stablehlo.add %118, %119 : tensor<8x32x1xf32>
    %121 = stablehlo.rsqrt %120 : tensor<8x32x1xf32>
    %122 = stablehlo.divide %121, %120 : tensor<8x32x1xf32>
    %cst_29 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %124 = stablehlo.multiply %123, %122 : tensor<8x32x1xf32>
    %125 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %126 = stablehlo.multiply %113, %125 : tensor<8x32x64xf32>
    %127 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %129 = stablehlo.multiply %126, %128 : tensor<8x32x64xf32>
    %130 = stablehlo.dot_general %129, %arg16, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<64x256xf32>) -> tensor<8x32x256xf32>
    %131:3 = call @silu(%130) : (tensor<8x32x256xf32>) -> (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>)
    %132 = stablehlo.dot_general %131#0, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<256x64xf32>) -> tensor<8x32x64xf32>
    %133 = stablehlo.add %113, %132 : tensor<8x32x64xf32>
    %134 = stablehlo.multiply %133, %133 : tensor<8x32x64xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %135 = stablehlo.reduce(%134 init: %cst_30) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %cst_31 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %137 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %138 = stablehlo.divide %136, %137 : tensor<8x32x1xf32>
    %cst_32 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %140 = stablehlo.add %138, %139 : tensor<8x32x1xf32>
    %141 = stablehlo.rsqrt %140 : tensor<8x32x1xf32>
    %142 = stablehlo.divide %141, %140 : tensor<8x32x1xf32>
    %cst_33 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %144 = stablehlo.multiply %143, %142 : tensor<8x32x1xf32>
    %145 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %146 = stablehlo.multiply %133, %145 : tensor<8x32x64xf32>
    %147 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %149 = stablehlo.multiply %146, %148 : tensor<8x32x64xf32>
    %150 = stablehlo.dot_general %149, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<256x64xf32>) -> tensor<8x32x256xf32>
    %151:3 = call @log_softmax(%150) : (tensor<8x32x256xf32>) -> (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x1xf32>)
    %152 = stablehlo.slice %arg55 [0:8, 1:33] : (tensor<8x33xi32>) -> tensor<8x32xi32>
    %153 = stablehlo.broadcast_in_dim %152, dims = [0, 1] : (tensor<8x32xi32>) -> tensor<8x32x1xi32>
    %154:2 = call @take_along_axis(%151#0, %153) : (tensor<8x32x256xf32>, tensor<8x32x1xi32>) -> (tensor<8x32x1xf32>, tensor<8x32x1x1xi32>)
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %155 = stablehlo.reduce(%154#0 init: %cst_34) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_35 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %156 = stablehlo.divide %155, %cst_35 : tensor<f32>
    %157 = stablehlo.negate %156 : tensor<f32>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %158 = stablehlo.negate %cst_36 : tensor<f32>
    %cst_37 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %159 = stablehlo.divide %158, %cst_37 : tensor<f32>
    %160 = stablehlo.broadcast_in_dim %159, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %161 = call @take_along_axis_0(%154#1, %160) : (tensor<8x32x1x1xi32>, tensor<8x32x1xf32>) -> tensor<8x32x256xf32>
    %162 = call @log_softmax_1(%151#1, %151#2, %161) : (tensor<8x32x256xf32>, tensor<8x32x1xf32>, tensor<8x32x256xf32>) -> tensor<8x32x256xf32>
    %163 = stablehlo.dot_general %162, %149, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<8x32x64xf32>) -> tensor<256x64xf32>
    %164 = stablehlo.dot_general %162, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<256x64xf32>) -> tensor<8x32x64xf32>
    %165 = stablehlo.multiply %146, %164 : tensor<8x32x64xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %166 = stablehlo.reduce(%165 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %167 = stablehlo.reshape %166 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %168 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %169 = stablehlo.multiply %164, %168 : tensor<8x32x64xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %170 = stablehlo.reduce(%167 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %171 = stablehlo.multiply %133, %169 : tensor<8x32x64xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.reduce(%171 init: %cst_40) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %173 = stablehlo.reshape %172 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %174 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %175 = stablehlo.multiply %169, %174 : tensor<8x32x64xf32>
    %176 = stablehlo.multiply %173, %144 : tensor<8x32x1xf32>
    %cst_41 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %178 = stablehlo.divide %176, %177 : tensor<8x32x1xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %179 = stablehlo.reduce(%178 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x64xf32>
    %181 = stablehlo.multiply %133, %180 : tensor<8x32x64xf32>
    %182 = stablehlo.add %175, %181 : tensor<8x32x64xf32>
    %183 = stablehlo.multiply %180, %133 : tensor<8x32x64xf32>
    %184 = stablehlo.add %182, %183 : tensor<8x32x64xf32>
    %185 = stablehlo.dot_general %184, %131#0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<8x32x256xf32>) -> tensor<64x256xf32>
    %186 = stablehlo.transpose %185, dims = [1, 0] : (tensor<64x256xf32>) -> tensor<256x64xf32>
    %187 = stablehlo.dot_general %184, %arg11, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<256x64xf32>) -> tensor<8x32x256xf32>
    %188 = call @silu_2(%131#1, %131#2, %130, %187) : (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>) -> tensor<8x32x256xf32>
    %189 = stablehlo.dot_general %188, %129, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<8x32x64xf32>) -> tensor<256x64xf32>
    %190 = stablehlo.transpose %189, dims = [1, 0] : (tensor<256x64xf32>) -> tensor<64x256xf32>
    %191 = stablehlo.dot_general %188, %arg16, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<64x256xf32>) -> tensor<8x32x64xf32>
    %192 = stablehlo.multiply %126, %191 : tensor<8x32x64xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_43) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %194 = stablehlo.reshape %193 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %195 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %196 = stablehlo.multiply %191, %195 : tensor<8x32x64xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %197 = stablehlo.reduce(%194 init: %cst_44) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %198 = stablehlo.multiply %113, %196 : tensor<8x32x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %199 = stablehlo.reduce(%198 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %200 = stablehlo.reshape %199 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %201 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %202 = stablehlo.multiply %196, %201 : tensor<8x32x64xf32>
    %203 = stablehlo.add %184, %202 : tensor<8x32x64xf32>
    %204 = stablehlo.multiply %200, %124 : tensor<8x32x1xf32>
    %cst_46 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %205 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %206 = stablehlo.divide %204, %205 : tensor<8x32x1xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %207 = stablehlo.reduce(%206 init: %cst_47) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %208 = stablehlo.broadcast_in_dim %207, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x64xf32>
    %209 = stablehlo.multiply %113, %208 : tensor<8x32x64xf32>
    %210 = stablehlo.add %203, %209 : tensor<8x32x64xf32>
    %211 = stablehlo.multiply %208, %113 : tensor<8x32x64xf32>
    %212 = stablehlo.add %210, %211 : tensor<8x32x64xf32>
    %213 = stablehlo.dot_general %212, %111, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<8x32x4x16xf32>) -> tensor<64x4x16xf32>
    %214 = stablehlo.transpose %213, dims = [1, 2, 0] : (tensor<64x4x16xf32>) -> tensor<4x16x64xf32>
    %215 = stablehlo.dot_general %212, %arg14, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<4x16x64xf32>) -> tensor<8x32x4x16xf32>
    %216 = stablehlo.transpose %215, dims = [0, 2, 3, 1] : (tensor<8x32x4x16xf32>) -> tensor<8x4x16x32xf32>
    %217 = stablehlo.dot_general %216, %89, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x4x16x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x32xf32>
    %218 = stablehlo.dot_general %216, %106, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x4x16x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x16x32xf32>
    %219 = stablehlo.transpose %218, dims = [0, 3, 1, 2] : (tensor<8x4x16x32xf32>) -> tensor<8x32x4x16xf32>
    %220 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %221 = stablehlo.multiply %217, %220 : tensor<8x4x32x32xf32>
    %222 = stablehlo.multiply %221, %102 : tensor<8x4x32x32xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.reduce(%222 init: %cst_48) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %224 = stablehlo.reshape %223 : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %225 = stablehlo.negate %224 : tensor<8x4x32x1xf32>
    %226 = stablehlo.broadcast_in_dim %104, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %227 = stablehlo.divide %217, %226 : tensor<8x4x32x32xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.reduce(%225 init: %cst_49) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x1xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %229 = stablehlo.broadcast_in_dim %228, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x32xf32>
    %230 = stablehlo.add %227, %229 : tensor<8x4x32x32xf32>
    %231 = stablehlo.multiply %230, %102 : tensor<8x4x32x32xf32>
    %232 = call @_where_3(%95#1, %231) : (tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
    %cst_50 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %233 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %234 = stablehlo.divide %232, %233 : tensor<8x4x32x32xf32>
    %235 = stablehlo.dot_general %234, %87, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
    %236 = stablehlo.transpose %235, dims = [0, 2, 1, 3] : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
    %237 = stablehlo.dot_general %234, %88, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
    %238 = stablehlo.transpose %237, dims = [0, 2, 1, 3] : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
    %239 = stablehlo.dot_general %219, %86, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %240 = stablehlo.transpose %239, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %241 = stablehlo.dot_general %219, %arg17, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %242 = stablehlo.dot_general %236, %86, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %243 = stablehlo.transpose %242, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %244 = stablehlo.dot_general %236, %arg12, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %245 = stablehlo.add %241, %244 : tensor<8x32x64xf32>
    %246 = stablehlo.dot_general %238, %86, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %247 = stablehlo.transpose %246, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %248 = stablehlo.dot_general %238, %arg15, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %249 = stablehlo.add %245, %248 : tensor<8x32x64xf32>
    %250 = stablehlo.multiply %83, %249 : tensor<8x32x64xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %251 = stablehlo.reduce(%250 init: %cst_51) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %252 = stablehlo.reshape %251 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %253 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %254 = stablehlo.multiply %249, %253 : tensor<8x32x64xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %255 = stablehlo.reduce(%252 init: %cst_52) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %256 = stablehlo.multiply %70, %254 : tensor<8x32x64xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %257 = stablehlo.reduce(%256 init: %cst_53) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %258 = stablehlo.reshape %257 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %259 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %260 = stablehlo.multiply %254, %259 : tensor<8x32x64xf32>
    %261 = stablehlo.add %212, %260 : tensor<8x32x64xf32>
    %262 = stablehlo.multiply %258, %81 : tensor<8x32x1xf32>
    %cst_54 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %263 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %264 = stablehlo.divide %262, %263 : tensor<8x32x1xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %265 = stablehlo.reduce(%264 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %266 = stablehlo.broadcast_in_dim %265, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x64xf32>
    %267 = stablehlo.multiply %70, %266 : tensor<8x32x64xf32>
    %268 = stablehlo.add %261, %267 : tensor<8x32x64xf32>
    %269 = stablehlo.multiply %266, %70 : tensor<8x32x64xf32>
    %270 = stablehlo.add %268, %269 : tensor<8x32x64xf32>
    %271 = stablehlo.dot_general %270, %68#0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<8x32x256xf32>) -> tensor<64x256xf32>
    %272 = stablehlo.transpose %271, dims = [1, 0] : (tensor<64x256xf32>) -> tensor<256x64xf32>
    %273 = stablehlo.dot_general %270, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<256x64xf32>) -> tensor<8x32x256xf32>
    %274 = call @silu_2(%68#1, %68#2, %67, %273) : (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>) -> tensor<8x32x256xf32>
    %275 = stablehlo.dot_general %274, %66, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<8x32x64xf32>) -> tensor<256x64xf32>
    %276 = stablehlo.transpose %275, dims = [1, 0] : (tensor<256x64xf32>) -> tensor<64x256xf32>
    %277 = stablehlo.dot_general %274, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x256xf32>, tensor<64x256xf32>) -> tensor<8x32x64xf32>
    %278 = stablehlo.multiply %63, %277 : tensor<8x32x64xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %279 = stablehlo.reduce(%278 init: %cst_56) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %280 = stablehlo.reshape %279 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %281 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %282 = stablehlo.multiply %277, %281 : tensor<8x32x64xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.reduce(%280 init: %cst_57) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %284 = stablehlo.multiply %50, %282 : tensor<8x32x64xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %285 = stablehlo.reduce(%284 init: %cst_58) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %286 = stablehlo.reshape %285 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %287 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %288 = stablehlo.multiply %282, %287 : tensor<8x32x64xf32>
    %289 = stablehlo.add %270, %288 : tensor<8x32x64xf32>
    %290 = stablehlo.multiply %286, %61 : tensor<8x32x1xf32>
    %cst_59 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %291 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %292 = stablehlo.divide %290, %291 : tensor<8x32x1xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %293 = stablehlo.reduce(%292 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %294 = stablehlo.broadcast_in_dim %293, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x64xf32>
    %295 = stablehlo.multiply %50, %294 : tensor<8x32x64xf32>
    %296 = stablehlo.add %289, %295 : tensor<8x32x64xf32>
    %297 = stablehlo.multiply %294, %50 : tensor<8x32x64xf32>
    %298 = stablehlo.add %296, %297 : tensor<8x32x64xf32>
    %299 = stablehlo.dot_general %298, %48, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<8x32x4x16xf32>) -> tensor<64x4x16xf32>
    %300 = stablehlo.transpose %299, dims = [1, 2, 0] : (tensor<64x4x16xf32>) -> tensor<4x16x64xf32>
    %301 = stablehlo.dot_general %298, %arg6, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x64xf32>, tensor<4x16x64xf32>) -> tensor<8x32x4x16xf32>
    %302 = stablehlo.transpose %301, dims = [0, 2, 3, 1] : (tensor<8x32x4x16xf32>) -> tensor<8x4x16x32xf32>
    %303 = stablehlo.dot_general %302, %26, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x4x16x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x32xf32>
    %304 = stablehlo.dot_general %302, %43, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x4x16x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x16x32xf32>
    %305 = stablehlo.transpose %304, dims = [0, 3, 1, 2] : (tensor<8x4x16x32xf32>) -> tensor<8x32x4x16xf32>
    %306 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %307 = stablehlo.multiply %303, %306 : tensor<8x4x32x32xf32>
    %308 = stablehlo.multiply %307, %39 : tensor<8x4x32x32xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %309 = stablehlo.reduce(%308 init: %cst_61) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x32xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %310 = stablehlo.reshape %309 : (tensor<8x4x32xf32>) -> tensor<8x4x32x1xf32>
    %311 = stablehlo.negate %310 : tensor<8x4x32x1xf32>
    %312 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<8x4x32x1xf32>) -> tensor<8x4x32x32xf32>
    %313 = stablehlo.divide %303, %312 : tensor<8x4x32x32xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %314 = stablehlo.reduce(%311 init: %cst_62) applies stablehlo.add across dimensions = [3] : (tensor<8x4x32x1xf32>, tensor<f32>) -> tensor<8x4x32xf32>
    %315 = stablehlo.broadcast_in_dim %314, dims = [0, 1, 2] : (tensor<8x4x32xf32>) -> tensor<8x4x32x32xf32>
    %316 = stablehlo.add %313, %315 : tensor<8x4x32x32xf32>
    %317 = stablehlo.multiply %316, %39 : tensor<8x4x32x32xf32>
    %318 = call @_where_3(%32#1, %317) : (tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
    %cst_63 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %319 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %320 = stablehlo.divide %318, %319 : tensor<8x4x32x32xf32>
    %321 = stablehlo.dot_general %320, %24, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
    %322 = stablehlo.transpose %321, dims = [0, 2, 1, 3] : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
    %323 = stablehlo.dot_general %320, %25, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x4x32x32xf32>, tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
    %324 = stablehlo.transpose %323, dims = [0, 2, 1, 3] : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
    %325 = stablehlo.dot_general %305, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %326 = stablehlo.transpose %325, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %327 = stablehlo.dot_general %305, %arg9, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %328 = stablehlo.dot_general %322, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %329 = stablehlo.transpose %328, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %330 = stablehlo.dot_general %322, %arg4, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %331 = stablehlo.add %327, %330 : tensor<8x32x64xf32>
    %332 = stablehlo.dot_general %324, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<8x32x64xf32>) -> tensor<4x16x64xf32>
    %333 = stablehlo.transpose %332, dims = [2, 0, 1] : (tensor<4x16x64xf32>) -> tensor<64x4x16xf32>
    %334 = stablehlo.dot_general %324, %arg7, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
    %335 = stablehlo.add %331, %334 : tensor<8x32x64xf32>
    %336 = stablehlo.multiply %20, %335 : tensor<8x32x64xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %337 = stablehlo.reduce(%336 init: %cst_64) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %338 = stablehlo.reshape %337 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %339 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<8x32x64xf32>
    %340 = stablehlo.multiply %335, %339 : tensor<8x32x64xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %341 = stablehlo.reduce(%338 init: %cst_65) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %342 = stablehlo.multiply %7, %340 : tensor<8x32x64xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %343 = stablehlo.reduce(%342 init: %cst_66) applies stablehlo.add across dimensions = [2] : (tensor<8x32x64xf32>, tensor<f32>) -> tensor<8x32xf32>
    %344 = stablehlo.reshape %343 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %345 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
    %346 = stablehlo.multiply %340, %345 : tensor<8x32x64xf32>
    %347 = stablehlo.add %298, %346 : tensor<8x32x64xf32>
    %348 = stablehlo.multiply %344, %18 : tensor<8x32x1xf32>
    %cst_67 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %349 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %350 = stablehlo.divide %348, %349 : tensor<8x32x1xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %351 = stablehlo.reduce(%350 init: %cst_68) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %352 = stablehlo.broadcast_in_dim %351, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x64xf32>
    %353 = stablehlo.multiply %7, %352 : tensor<8x32x64xf32>
    %354 = stablehlo.add %347, %353 : tensor<8x32x64xf32>
    %355 = stablehlo.multiply %352, %7 : tensor<8x32x64xf32>
    %356 = stablehlo.add %354, %355 : tensor<8x32x64xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %357 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %358 = "stablehlo.scatter"(%357, %6, %356) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg56: tensor<f32>, %arg57: tensor<f32>):
      %883 = stablehlo.add %arg56, %arg57 : tensor<f32>
      stablehlo.return %883 : tensor<f32>
    }) : (tensor<256x64xf32>, tensor<8x32x1xi32>, tensor<8x32x64xf32>) -> tensor<256x64xf32>
    %359 = stablehlo.add %163, %358 : tensor<256x64xf32>
    %cst_70 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %360 = stablehlo.add %arg54, %cst_70 : tensor<f32>
    %cst_71 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %361 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %362 = stablehlo.multiply %361, %arg18 : tensor<256x64xf32>
    %cst_72 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %363 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %364 = stablehlo.multiply %363, %359 : tensor<256x64xf32>
    %365 = stablehlo.add %362, %364 : tensor<256x64xf32>
    %cst_73 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %366 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %367 = stablehlo.multiply %366, %arg19 : tensor<64xf32>
    %cst_74 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %369 = stablehlo.multiply %368, %170 : tensor<64xf32>
    %370 = stablehlo.add %367, %369 : tensor<64xf32>
    %cst_75 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %371 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %372 = stablehlo.multiply %371, %arg20 : tensor<64xf32>
    %cst_76 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %373 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %374 = stablehlo.multiply %373, %341 : tensor<64xf32>
    %375 = stablehlo.add %372, %374 : tensor<64xf32>
    %cst_77 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %376 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %377 = stablehlo.multiply %376, %arg21 : tensor<256x64xf32>
    %cst_78 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %379 = stablehlo.multiply %378, %272 : tensor<256x64xf32>
    %380 = stablehlo.add %377, %379 : tensor<256x64xf32>
    %cst_79 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %381 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %382 = stablehlo.multiply %381, %arg22 : tensor<64x4x16xf32>
    %cst_80 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %383 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %384 = stablehlo.multiply %383, %329 : tensor<64x4x16xf32>
    %385 = stablehlo.add %382, %384 : tensor<64x4x16xf32>
    %cst_81 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %386 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %387 = stablehlo.multiply %386, %arg23 : tensor<64xf32>
    %cst_82 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %389 = stablehlo.multiply %388, %283 : tensor<64xf32>
    %390 = stablehlo.add %387, %389 : tensor<64xf32>
    %cst_83 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %391 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %392 = stablehlo.multiply %391, %arg24 : tensor<4x16x64xf32>
    %cst_84 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %394 = stablehlo.multiply %393, %300 : tensor<4x16x64xf32>
    %395 = stablehlo.add %392, %394 : tensor<4x16x64xf32>
    %cst_85 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %396 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %397 = stablehlo.multiply %396, %arg25 : tensor<64x4x16xf32>
    %cst_86 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %399 = stablehlo.multiply %398, %333 : tensor<64x4x16xf32>
    %400 = stablehlo.add %397, %399 : tensor<64x4x16xf32>
    %cst_87 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %401 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %402 = stablehlo.multiply %401, %arg26 : tensor<64x256xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %403 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %404 = stablehlo.multiply %403, %276 : tensor<64x256xf32>
    %405 = stablehlo.add %402, %404 : tensor<64x256xf32>
    %cst_89 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %407 = stablehlo.multiply %406, %arg27 : tensor<64x4x16xf32>
    %cst_90 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %409 = stablehlo.multiply %408, %326 : tensor<64x4x16xf32>
    %410 = stablehlo.add %407, %409 : tensor<64x4x16xf32>
    %cst_91 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %411 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %412 = stablehlo.multiply %411, %arg28 : tensor<64xf32>
    %cst_92 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %413 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %414 = stablehlo.multiply %413, %255 : tensor<64xf32>
    %415 = stablehlo.add %412, %414 : tensor<64xf32>
    %cst_93 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %416 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %417 = stablehlo.multiply %416, %arg29 : tensor<256x64xf32>
    %cst_94 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %419 = stablehlo.multiply %418, %186 : tensor<256x64xf32>
    %420 = stablehlo.add %417, %419 : tensor<256x64xf32>
    %cst_95 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %421 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %422 = stablehlo.multiply %421, %arg30 : tensor<64x4x16xf32>
    %cst_96 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %423 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %424 = stablehlo.multiply %423, %243 : tensor<64x4x16xf32>
    %425 = stablehlo.add %422, %424 : tensor<64x4x16xf32>
    %cst_97 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %426 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %427 = stablehlo.multiply %426, %arg31 : tensor<64xf32>
    %cst_98 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %428 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %429 = stablehlo.multiply %428, %197 : tensor<64xf32>
    %430 = stablehlo.add %427, %429 : tensor<64xf32>
    %cst_99 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %431 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %432 = stablehlo.multiply %431, %arg32 : tensor<4x16x64xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %433 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %434 = stablehlo.multiply %433, %214 : tensor<4x16x64xf32>
    %435 = stablehlo.add %432, %434 : tensor<4x16x64xf32>
    %cst_101 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %437 = stablehlo.multiply %436, %arg33 : tensor<64x4x16xf32>
    %cst_102 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %438 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %439 = stablehlo.multiply %438, %247 : tensor<64x4x16xf32>
    %440 = stablehlo.add %437, %439 : tensor<64x4x16xf32>
    %cst_103 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %441 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %442 = stablehlo.multiply %441, %arg34 : tensor<64x256xf32>
    %cst_104 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %443 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %444 = stablehlo.multiply %443, %190 : tensor<64x256xf32>
    %445 = stablehlo.add %442, %444 : tensor<64x256xf32>
    %cst_105 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %447 = stablehlo.multiply %446, %arg35 : tensor<64x4x16xf32>
    %cst_106 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %448 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %449 = stablehlo.multiply %448, %240 : tensor<64x4x16xf32>
    %450 = stablehlo.add %447, %449 : tensor<64x4x16xf32>
    %cst_107 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %451 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %452 = stablehlo.multiply %451, %arg36 : tensor<256x64xf32>
    %cst_108 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %453 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %454 = stablehlo.multiply %453, %359 : tensor<256x64xf32>
    %455 = stablehlo.multiply %454, %359 : tensor<256x64xf32>
    %456 = stablehlo.add %452, %455 : tensor<256x64xf32>
    %cst_109 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %457 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %458 = stablehlo.multiply %457, %arg37 : tensor<64xf32>
    %cst_110 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %460 = stablehlo.multiply %459, %170 : tensor<64xf32>
    %461 = stablehlo.multiply %460, %170 : tensor<64xf32>
    %462 = stablehlo.add %458, %461 : tensor<64xf32>
    %cst_111 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %463 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %464 = stablehlo.multiply %463, %arg38 : tensor<64xf32>
    %cst_112 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %465 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %466 = stablehlo.multiply %465, %341 : tensor<64xf32>
    %467 = stablehlo.multiply %466, %341 : tensor<64xf32>
    %468 = stablehlo.add %464, %467 : tensor<64xf32>
    %cst_113 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %469 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %470 = stablehlo.multiply %469, %arg39 : tensor<256x64xf32>
    %cst_114 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %471 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %472 = stablehlo.multiply %471, %272 : tensor<256x64xf32>
    %473 = stablehlo.multiply %472, %272 : tensor<256x64xf32>
    %474 = stablehlo.add %470, %473 : tensor<256x64xf32>
    %cst_115 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %475 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %476 = stablehlo.multiply %475, %arg40 : tensor<64x4x16xf32>
    %cst_116 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %477 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %478 = stablehlo.multiply %477, %329 : tensor<64x4x16xf32>
    %479 = stablehlo.multiply %478, %329 : tensor<64x4x16xf32>
    %480 = stablehlo.add %476, %479 : tensor<64x4x16xf32>
    %cst_117 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %482 = stablehlo.multiply %481, %arg41 : tensor<64xf32>
    %cst_118 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %483 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %484 = stablehlo.multiply %483, %283 : tensor<64xf32>
    %485 = stablehlo.multiply %484, %283 : tensor<64xf32>
    %486 = stablehlo.add %482, %485 : tensor<64xf32>
    %cst_119 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %487 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %488 = stablehlo.multiply %487, %arg42 : tensor<4x16x64xf32>
    %cst_120 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %489 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %490 = stablehlo.multiply %489, %300 : tensor<4x16x64xf32>
    %491 = stablehlo.multiply %490, %300 : tensor<4x16x64xf32>
    %492 = stablehlo.add %488, %491 : tensor<4x16x64xf32>
    %cst_121 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %493 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %494 = stablehlo.multiply %493, %arg43 : tensor<64x4x16xf32>
    %cst_122 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %495 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %496 = stablehlo.multiply %495, %333 : tensor<64x4x16xf32>
    %497 = stablehlo.multiply %496, %333 : tensor<64x4x16xf32>
    %498 = stablehlo.add %494, %497 : tensor<64x4x16xf32>
    %cst_123 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %499 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %500 = stablehlo.multiply %499, %arg44 : tensor<64x256xf32>
    %cst_124 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %502 = stablehlo.multiply %501, %276 : tensor<64x256xf32>
    %503 = stablehlo.multiply %502, %276 : tensor<64x256xf32>
    %504 = stablehlo.add %500, %503 : tensor<64x256xf32>
    %cst_125 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %505 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %506 = stablehlo.multiply %505, %arg45 : tensor<64x4x16xf32>
    %cst_126 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %508 = stablehlo.multiply %507, %326 : tensor<64x4x16xf32>
    %509 = stablehlo.multiply %508, %326 : tensor<64x4x16xf32>
    %510 = stablehlo.add %506, %509 : tensor<64x4x16xf32>
    %cst_127 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %511 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %512 = stablehlo.multiply %511, %arg46 : tensor<64xf32>
    %cst_128 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %513 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %514 = stablehlo.multiply %513, %255 : tensor<64xf32>
    %515 = stablehlo.multiply %514, %255 : tensor<64xf32>
    %516 = stablehlo.add %512, %515 : tensor<64xf32>
    %cst_129 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %517 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %518 = stablehlo.multiply %517, %arg47 : tensor<256x64xf32>
    %cst_130 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %519 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %520 = stablehlo.multiply %519, %186 : tensor<256x64xf32>
    %521 = stablehlo.multiply %520, %186 : tensor<256x64xf32>
    %522 = stablehlo.add %518, %521 : tensor<256x64xf32>
    %cst_131 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %523 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %524 = stablehlo.multiply %523, %arg48 : tensor<64x4x16xf32>
    %cst_132 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %525 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %526 = stablehlo.multiply %525, %243 : tensor<64x4x16xf32>
    %527 = stablehlo.multiply %526, %243 : tensor<64x4x16xf32>
    %528 = stablehlo.add %524, %527 : tensor<64x4x16xf32>
    %cst_133 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %529 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %530 = stablehlo.multiply %529, %arg49 : tensor<64xf32>
    %cst_134 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %531 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %532 = stablehlo.multiply %531, %197 : tensor<64xf32>
    %533 = stablehlo.multiply %532, %197 : tensor<64xf32>
    %534 = stablehlo.add %530, %533 : tensor<64xf32>
    %cst_135 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %535 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %536 = stablehlo.multiply %535, %arg50 : tensor<4x16x64xf32>
    %cst_136 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %537 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %538 = stablehlo.multiply %537, %214 : tensor<4x16x64xf32>
    %539 = stablehlo.multiply %538, %214 : tensor<4x16x64xf32>
    %540 = stablehlo.add %536, %539 : tensor<4x16x64xf32>
    %cst_137 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %541 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %542 = stablehlo.multiply %541, %arg51 : tensor<64x4x16xf32>
    %cst_138 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %543 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %544 = stablehlo.multiply %543, %247 : tensor<64x4x16xf32>
    %545 = stablehlo.multiply %544, %247 : tensor<64x4x16xf32>
    %546 = stablehlo.add %542, %545 : tensor<64x4x16xf32>
    %cst_139 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %547 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %548 = stablehlo.multiply %547, %arg52 : tensor<64x256xf32>
    %cst_140 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %549 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %550 = stablehlo.multiply %549, %190 : tensor<64x256xf32>
    %551 = stablehlo.multiply %550, %190 : tensor<64x256xf32>
    %552 = stablehlo.add %548, %551 : tensor<64x256xf32>
    %cst_141 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %554 = stablehlo.multiply %553, %arg53 : tensor<64x4x16xf32>
    %cst_142 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %555 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %556 = stablehlo.multiply %555, %240 : tensor<64x4x16xf32>
    %557 = stablehlo.multiply %556, %240 : tensor<64x4x16xf32>
    %558 = stablehlo.add %554, %557 : tensor<64x4x16xf32>
    %cst_143 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %559 = stablehlo.power %cst_143, %360 : tensor<f32>
    %cst_144 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %560 = stablehlo.subtract %cst_144, %559 : tensor<f32>
    %561 = stablehlo.broadcast_in_dim %560, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %562 = stablehlo.divide %365, %561 : tensor<256x64xf32>
    %cst_145 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %563 = stablehlo.power %cst_145, %360 : tensor<f32>
    %cst_146 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %564 = stablehlo.subtract %cst_146, %563 : tensor<f32>
    %565 = stablehlo.broadcast_in_dim %564, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %566 = stablehlo.divide %456, %565 : tensor<256x64xf32>
    %567 = stablehlo.sqrt %566 : tensor<256x64xf32>
    %cst_147 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %568 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %569 = stablehlo.add %567, %568 : tensor<256x64xf32>
    %570 = stablehlo.divide %562, %569 : tensor<256x64xf32>
    %cst_148 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %571 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %572 = stablehlo.multiply %571, %arg0 : tensor<256x64xf32>
    %573 = stablehlo.add %570, %572 : tensor<256x64xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %574 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %575 = stablehlo.multiply %574, %573 : tensor<256x64xf32>
    %576 = stablehlo.subtract %arg0, %575 : tensor<256x64xf32>
    %cst_150 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %577 = stablehlo.power %cst_150, %360 : tensor<f32>
    %cst_151 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %578 = stablehlo.subtract %cst_151, %577 : tensor<f32>
    %579 = stablehlo.broadcast_in_dim %578, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %580 = stablehlo.divide %370, %579 : tensor<64xf32>
    %cst_152 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %581 = stablehlo.power %cst_152, %360 : tensor<f32>
    %cst_153 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %582 = stablehlo.subtract %cst_153, %581 : tensor<f32>
    %583 = stablehlo.broadcast_in_dim %582, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %584 = stablehlo.divide %462, %583 : tensor<64xf32>
    %585 = stablehlo.sqrt %584 : tensor<64xf32>
    %cst_154 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %586 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %587 = stablehlo.add %585, %586 : tensor<64xf32>
    %588 = stablehlo.divide %580, %587 : tensor<64xf32>
    %cst_155 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %589 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %590 = stablehlo.multiply %589, %arg1 : tensor<64xf32>
    %591 = stablehlo.add %588, %590 : tensor<64xf32>
    %cst_156 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %592 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %593 = stablehlo.multiply %592, %591 : tensor<64xf32>
    %594 = stablehlo.subtract %arg1, %593 : tensor<64xf32>
    %cst_157 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %595 = stablehlo.power %cst_157, %360 : tensor<f32>
    %cst_158 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %596 = stablehlo.subtract %cst_158, %595 : tensor<f32>
    %597 = stablehlo.broadcast_in_dim %596, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %598 = stablehlo.divide %375, %597 : tensor<64xf32>
    %cst_159 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %599 = stablehlo.power %cst_159, %360 : tensor<f32>
    %cst_160 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %600 = stablehlo.subtract %cst_160, %599 : tensor<f32>
    %601 = stablehlo.broadcast_in_dim %600, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %602 = stablehlo.divide %468, %601 : tensor<64xf32>
    %603 = stablehlo.sqrt %602 : tensor<64xf32>
    %cst_161 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %604 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %605 = stablehlo.add %603, %604 : tensor<64xf32>
    %606 = stablehlo.divide %598, %605 : tensor<64xf32>
    %cst_162 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %607 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %608 = stablehlo.multiply %607, %arg2 : tensor<64xf32>
    %609 = stablehlo.add %606, %608 : tensor<64xf32>
    %cst_163 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %610 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %611 = stablehlo.multiply %610, %609 : tensor<64xf32>
    %612 = stablehlo.subtract %arg2, %611 : tensor<64xf32>
    %cst_164 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %613 = stablehlo.power %cst_164, %360 : tensor<f32>
    %cst_165 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %614 = stablehlo.subtract %cst_165, %613 : tensor<f32>
    %615 = stablehlo.broadcast_in_dim %614, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %616 = stablehlo.divide %380, %615 : tensor<256x64xf32>
    %cst_166 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %617 = stablehlo.power %cst_166, %360 : tensor<f32>
    %cst_167 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %618 = stablehlo.subtract %cst_167, %617 : tensor<f32>
    %619 = stablehlo.broadcast_in_dim %618, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %620 = stablehlo.divide %474, %619 : tensor<256x64xf32>
    %621 = stablehlo.sqrt %620 : tensor<256x64xf32>
    %cst_168 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %622 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %623 = stablehlo.add %621, %622 : tensor<256x64xf32>
    %624 = stablehlo.divide %616, %623 : tensor<256x64xf32>
    %cst_169 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %625 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %626 = stablehlo.multiply %625, %arg3 : tensor<256x64xf32>
    %627 = stablehlo.add %624, %626 : tensor<256x64xf32>
    %cst_170 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %628 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %629 = stablehlo.multiply %628, %627 : tensor<256x64xf32>
    %630 = stablehlo.subtract %arg3, %629 : tensor<256x64xf32>
    %cst_171 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %631 = stablehlo.power %cst_171, %360 : tensor<f32>
    %cst_172 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %632 = stablehlo.subtract %cst_172, %631 : tensor<f32>
    %633 = stablehlo.broadcast_in_dim %632, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %634 = stablehlo.divide %385, %633 : tensor<64x4x16xf32>
    %cst_173 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %635 = stablehlo.power %cst_173, %360 : tensor<f32>
    %cst_174 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %636 = stablehlo.subtract %cst_174, %635 : tensor<f32>
    %637 = stablehlo.broadcast_in_dim %636, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %638 = stablehlo.divide %480, %637 : tensor<64x4x16xf32>
    %639 = stablehlo.sqrt %638 : tensor<64x4x16xf32>
    %cst_175 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %640 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %641 = stablehlo.add %639, %640 : tensor<64x4x16xf32>
    %642 = stablehlo.divide %634, %641 : tensor<64x4x16xf32>
    %cst_176 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %644 = stablehlo.multiply %643, %arg4 : tensor<64x4x16xf32>
    %645 = stablehlo.add %642, %644 : tensor<64x4x16xf32>
    %cst_177 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %646 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %647 = stablehlo.multiply %646, %645 : tensor<64x4x16xf32>
    %648 = stablehlo.subtract %arg4, %647 : tensor<64x4x16xf32>
    %cst_178 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %649 = stablehlo.power %cst_178, %360 : tensor<f32>
    %cst_179 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %650 = stablehlo.subtract %cst_179, %649 : tensor<f32>
    %651 = stablehlo.broadcast_in_dim %650, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %652 = stablehlo.divide %390, %651 : tensor<64xf32>
    %cst_180 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %653 = stablehlo.power %cst_180, %360 : tensor<f32>
    %cst_181 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %654 = stablehlo.subtract %cst_181, %653 : tensor<f32>
    %655 = stablehlo.broadcast_in_dim %654, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %656 = stablehlo.divide %486, %655 : tensor<64xf32>
    %657 = stablehlo.sqrt %656 : tensor<64xf32>
    %cst_182 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %658 = stablehlo.broadcast_in_dim %cst_182, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %659 = stablehlo.add %657, %658 : tensor<64xf32>
    %660 = stablehlo.divide %652, %659 : tensor<64xf32>
    %cst_183 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %661 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %662 = stablehlo.multiply %661, %arg5 : tensor<64xf32>
    %663 = stablehlo.add %660, %662 : tensor<64xf32>
    %cst_184 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %664 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %665 = stablehlo.multiply %664, %663 : tensor<64xf32>
    %666 = stablehlo.subtract %arg5, %665 : tensor<64xf32>
    %cst_185 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %667 = stablehlo.power %cst_185, %360 : tensor<f32>
    %cst_186 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %668 = stablehlo.subtract %cst_186, %667 : tensor<f32>
    %669 = stablehlo.broadcast_in_dim %668, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %670 = stablehlo.divide %395, %669 : tensor<4x16x64xf32>
    %cst_187 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %671 = stablehlo.power %cst_187, %360 : tensor<f32>
    %cst_188 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %672 = stablehlo.subtract %cst_188, %671 : tensor<f32>
    %673 = stablehlo.broadcast_in_dim %672, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %674 = stablehlo.divide %492, %673 : tensor<4x16x64xf32>
    %675 = stablehlo.sqrt %674 : tensor<4x16x64xf32>
    %cst_189 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %676 = stablehlo.broadcast_in_dim %cst_189, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %677 = stablehlo.add %675, %676 : tensor<4x16x64xf32>
    %678 = stablehlo.divide %670, %677 : tensor<4x16x64xf32>
    %cst_190 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %679 = stablehlo.broadcast_in_dim %cst_190, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %680 = stablehlo.multiply %679, %arg6 : tensor<4x16x64xf32>
    %681 = stablehlo.add %678, %680 : tensor<4x16x64xf32>
    %cst_191 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %682 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %683 = stablehlo.multiply %682, %681 : tensor<4x16x64xf32>
    %684 = stablehlo.subtract %arg6, %683 : tensor<4x16x64xf32>
    %cst_192 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %685 = stablehlo.power %cst_192, %360 : tensor<f32>
    %cst_193 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %686 = stablehlo.subtract %cst_193, %685 : tensor<f32>
    %687 = stablehlo.broadcast_in_dim %686, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %688 = stablehlo.divide %400, %687 : tensor<64x4x16xf32>
    %cst_194 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %689 = stablehlo.power %cst_194, %360 : tensor<f32>
    %cst_195 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %690 = stablehlo.subtract %cst_195, %689 : tensor<f32>
    %691 = stablehlo.broadcast_in_dim %690, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %692 = stablehlo.divide %498, %691 : tensor<64x4x16xf32>
    %693 = stablehlo.sqrt %692 : tensor<64x4x16xf32>
    %cst_196 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %694 = stablehlo.broadcast_in_dim %cst_196, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %695 = stablehlo.add %693, %694 : tensor<64x4x16xf32>
    %696 = stablehlo.divide %688, %695 : tensor<64x4x16xf32>
    %cst_197 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %697 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %698 = stablehlo.multiply %697, %arg7 : tensor<64x4x16xf32>
    %699 = stablehlo.add %696, %698 : tensor<64x4x16xf32>
    %cst_198 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %700 = stablehlo.broadcast_in_dim %cst_198, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %701 = stablehlo.multiply %700, %699 : tensor<64x4x16xf32>
    %702 = stablehlo.subtract %arg7, %701 : tensor<64x4x16xf32>
    %cst_199 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %703 = stablehlo.power %cst_199, %360 : tensor<f32>
    %cst_200 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %704 = stablehlo.subtract %cst_200, %703 : tensor<f32>
    %705 = stablehlo.broadcast_in_dim %704, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %706 = stablehlo.divide %405, %705 : tensor<64x256xf32>
    %cst_201 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %707 = stablehlo.power %cst_201, %360 : tensor<f32>
    %cst_202 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %708 = stablehlo.subtract %cst_202, %707 : tensor<f32>
    %709 = stablehlo.broadcast_in_dim %708, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %710 = stablehlo.divide %504, %709 : tensor<64x256xf32>
    %711 = stablehlo.sqrt %710 : tensor<64x256xf32>
    %cst_203 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %712 = stablehlo.broadcast_in_dim %cst_203, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %713 = stablehlo.add %711, %712 : tensor<64x256xf32>
    %714 = stablehlo.divide %706, %713 : tensor<64x256xf32>
    %cst_204 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %715 = stablehlo.broadcast_in_dim %cst_204, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %716 = stablehlo.multiply %715, %arg8 : tensor<64x256xf32>
    %717 = stablehlo.add %714, %716 : tensor<64x256xf32>
    %cst_205 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %718 = stablehlo.broadcast_in_dim %cst_205, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %719 = stablehlo.multiply %718, %717 : tensor<64x256xf32>
    %720 = stablehlo.subtract %arg8, %719 : tensor<64x256xf32>
    %cst_206 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %721 = stablehlo.power %cst_206, %360 : tensor<f32>
    %cst_207 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %722 = stablehlo.subtract %cst_207, %721 : tensor<f32>
    %723 = stablehlo.broadcast_in_dim %722, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %724 = stablehlo.divide %410, %723 : tensor<64x4x16xf32>
    %cst_208 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %725 = stablehlo.power %cst_208, %360 : tensor<f32>
    %cst_209 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %726 = stablehlo.subtract %cst_209, %725 : tensor<f32>
    %727 = stablehlo.broadcast_in_dim %726, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %728 = stablehlo.divide %510, %727 : tensor<64x4x16xf32>
    %729 = stablehlo.sqrt %728 : tensor<64x4x16xf32>
    %cst_210 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %730 = stablehlo.broadcast_in_dim %cst_210, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %731 = stablehlo.add %729, %730 : tensor<64x4x16xf32>
    %732 = stablehlo.divide %724, %731 : tensor<64x4x16xf32>
    %cst_211 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %733 = stablehlo.broadcast_in_dim %cst_211, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %734 = stablehlo.multiply %733, %arg9 : tensor<64x4x16xf32>
    %735 = stablehlo.add %732, %734 : tensor<64x4x16xf32>
    %cst_212 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %736 = stablehlo.broadcast_in_dim %cst_212, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %737 = stablehlo.multiply %736, %735 : tensor<64x4x16xf32>
    %738 = stablehlo.subtract %arg9, %737 : tensor<64x4x16xf32>
    %cst_213 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %739 = stablehlo.power %cst_213, %360 : tensor<f32>
    %cst_214 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %740 = stablehlo.subtract %cst_214, %739 : tensor<f32>
    %741 = stablehlo.broadcast_in_dim %740, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %742 = stablehlo.divide %415, %741 : tensor<64xf32>
    %cst_215 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %743 = stablehlo.power %cst_215, %360 : tensor<f32>
    %cst_216 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %744 = stablehlo.subtract %cst_216, %743 : tensor<f32>
    %745 = stablehlo.broadcast_in_dim %744, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %746 = stablehlo.divide %516, %745 : tensor<64xf32>
    %747 = stablehlo.sqrt %746 : tensor<64xf32>
    %cst_217 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %748 = stablehlo.broadcast_in_dim %cst_217, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %749 = stablehlo.add %747, %748 : tensor<64xf32>
    %750 = stablehlo.divide %742, %749 : tensor<64xf32>
    %cst_218 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %751 = stablehlo.broadcast_in_dim %cst_218, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %752 = stablehlo.multiply %751, %arg10 : tensor<64xf32>
    %753 = stablehlo.add %750, %752 : tensor<64xf32>
    %cst_219 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %754 = stablehlo.broadcast_in_dim %cst_219, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %755 = stablehlo.multiply %754, %753 : tensor<64xf32>
    %756 = stablehlo.subtract %arg10, %755 : tensor<64xf32>
    %cst_220 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %757 = stablehlo.power %cst_220, %360 : tensor<f32>
    %cst_221 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %758 = stablehlo.subtract %cst_221, %757 : tensor<f32>
    %759 = stablehlo.broadcast_in_dim %758, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %760 = stablehlo.divide %420, %759 : tensor<256x64xf32>
    %cst_222 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %761 = stablehlo.power %cst_222, %360 : tensor<f32>
    %cst_223 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %762 = stablehlo.subtract %cst_223, %761 : tensor<f32>
    %763 = stablehlo.broadcast_in_dim %762, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %764 = stablehlo.divide %522, %763 : tensor<256x64xf32>
    %765 = stablehlo.sqrt %764 : tensor<256x64xf32>
    %cst_224 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %766 = stablehlo.broadcast_in_dim %cst_224, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %767 = stablehlo.add %765, %766 : tensor<256x64xf32>
    %768 = stablehlo.divide %760, %767 : tensor<256x64xf32>
    %cst_225 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %769 = stablehlo.broadcast_in_dim %cst_225, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %770 = stablehlo.multiply %769, %arg11 : tensor<256x64xf32>
    %771 = stablehlo.add %768, %770 : tensor<256x64xf32>
    %cst_226 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %772 = stablehlo.broadcast_in_dim %cst_226, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %773 = stablehlo.multiply %772, %771 : tensor<256x64xf32>
    %774 = stablehlo.subtract %arg11, %773 : tensor<256x64xf32>
    %cst_227 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %775 = stablehlo.power %cst_227, %360 : tensor<f32>
    %cst_228 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %776 = stablehlo.subtract %cst_228, %775 : tensor<f32>
    %777 = stablehlo.broadcast_in_dim %776, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %778 = stablehlo.divide %425, %777 : tensor<64x4x16xf32>
    %cst_229 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %779 = stablehlo.power %cst_229, %360 : tensor<f32>
    %cst_230 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %780 = stablehlo.subtract %cst_230, %779 : tensor<f32>
    %781 = stablehlo.broadcast_in_dim %780, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %782 = stablehlo.divide %528, %781 : tensor<64x4x16xf32>
    %783 = stablehlo.sqrt %782 : tensor<64x4x16xf32>
    %cst_231 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %784 = stablehlo.broadcast_in_dim %cst_231, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %785 = stablehlo.add %783, %784 : tensor<64x4x16xf32>
    %786 = stablehlo.divide %778, %785 : tensor<64x4x16xf32>
    %cst_232 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %787 = stablehlo.broadcast_in_dim %cst_232, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %788 = stablehlo.multiply %787, %arg12 : tensor<64x4x16xf32>
    %789 = stablehlo.add %786, %788 : tensor<64x4x16xf32>
    %cst_233 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %790 = stablehlo.broadcast_in_dim %cst_233, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %791 = stablehlo.multiply %790, %789 : tensor<64x4x16xf32>
    %792 = stablehlo.subtract %arg12, %791 : tensor<64x4x16xf32>
    %cst_234 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %793 = stablehlo.power %cst_234, %360 : tensor<f32>
    %cst_235 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %794 = stablehlo.subtract %cst_235, %793 : tensor<f32>
    %795 = stablehlo.broadcast_in_dim %794, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %796 = stablehlo.divide %430, %795 : tensor<64xf32>
    %cst_236 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %797 = stablehlo.power %cst_236, %360 : tensor<f32>
    %cst_237 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %798 = stablehlo.subtract %cst_237, %797 : tensor<f32>
    %799 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %800 = stablehlo.divide %534, %799 : tensor<64xf32>
    %801 = stablehlo.sqrt %800 : tensor<64xf32>
    %cst_238 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %802 = stablehlo.broadcast_in_dim %cst_238, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %803 = stablehlo.add %801, %802 : tensor<64xf32>
    %804 = stablehlo.divide %796, %803 : tensor<64xf32>
    %cst_239 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %805 = stablehlo.broadcast_in_dim %cst_239, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %806 = stablehlo.multiply %805, %arg13 : tensor<64xf32>
    %807 = stablehlo.add %804, %806 : tensor<64xf32>
    %cst_240 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %808 = stablehlo.broadcast_in_dim %cst_240, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %809 = stablehlo.multiply %808, %807 : tensor<64xf32>
    %810 = stablehlo.subtract %arg13, %809 : tensor<64xf32>
    %cst_241 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %811 = stablehlo.power %cst_241, %360 : tensor<f32>
    %cst_242 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %812 = stablehlo.subtract %cst_242, %811 : tensor<f32>
    %813 = stablehlo.broadcast_in_dim %812, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %814 = stablehlo.divide %435, %813 : tensor<4x16x64xf32>
    %cst_243 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %815 = stablehlo.power %cst_243, %360 : tensor<f32>
    %cst_244 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %816 = stablehlo.subtract %cst_244, %815 : tensor<f32>
    %817 = stablehlo.broadcast_in_dim %816, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %818 = stablehlo.divide %540, %817 : tensor<4x16x64xf32>
    %819 = stablehlo.sqrt %818 : tensor<4x16x64xf32>
    %cst_245 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %820 = stablehlo.broadcast_in_dim %cst_245, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %821 = stablehlo.add %819, %820 : tensor<4x16x64xf32>
    %822 = stablehlo.divide %814, %821 : tensor<4x16x64xf32>
    %cst_246 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %823 = stablehlo.broadcast_in_dim %cst_246, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %824 = stablehlo.multiply %823, %arg14 : tensor<4x16x64xf32>
    %825 = stablehlo.add %822, %824 : tensor<4x16x64xf32>
    %cst_247 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %826 = stablehlo.broadcast_in_dim %cst_247, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %827 = stablehlo.multiply %826, %825 : tensor<4x16x64xf32>
    %828 = stablehlo.subtract %arg14, %827 : tensor<4x16x64xf32>
    %cst_248 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %829 = stablehlo.power %cst_248, %360 : tensor<f32>
    %cst_249 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %830 = stablehlo.subtract %cst_249, %829 : tensor<f32>
    %831 = stablehlo.broadcast_in_dim %830, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %832 = stablehlo.divide %440, %831 : tensor<64x4x16xf32>
    %cst_250 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %833 = stablehlo.power %cst_250, %360 : tensor<f32>
    %cst_251 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %834 = stablehlo.subtract %cst_251, %833 : tensor<f32>
    %835 = stablehlo.broadcast_in_dim %834, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %836 = stablehlo.divide %546, %835 : tensor<64x4x16xf32>
    %837 = stablehlo.sqrt %836 : tensor<64x4x16xf32>
    %cst_252 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %838 = stablehlo.broadcast_in_dim %cst_252, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %839 = stablehlo.add %837, %838 : tensor<64x4x16xf32>
    %840 = stablehlo.divide %832, %839 : tensor<64x4x16xf32>
    %cst_253 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %841 = stablehlo.broadcast_in_dim %cst_253, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %842 = stablehlo.multiply %841, %arg15 : tensor<64x4x16xf32>
    %843 = stablehlo.add %840, %842 : tensor<64x4x16xf32>
    %cst_254 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %844 = stablehlo.broadcast_in_dim %cst_254, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %845 = stablehlo.multiply %844, %843 : tensor<64x4x16xf32>
    %846 = stablehlo.subtract %arg15, %845 : tensor<64x4x16xf32>
    %cst_255 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %847 = stablehlo.power %cst_255, %360 : tensor<f32>
    %cst_256 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %848 = stablehlo.subtract %cst_256, %847 : tensor<f32>
    %849 = stablehlo.broadcast_in_dim %848, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %850 = stablehlo.divide %445, %849 : tensor<64x256xf32>
    %cst_257 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %851 = stablehlo.power %cst_257, %360 : tensor<f32>
    %cst_258 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %852 = stablehlo.subtract %cst_258, %851 : tensor<f32>
    %853 = stablehlo.broadcast_in_dim %852, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %854 = stablehlo.divide %552, %853 : tensor<64x256xf32>
    %855 = stablehlo.sqrt %854 : tensor<64x256xf32>
    %cst_259 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %856 = stablehlo.broadcast_in_dim %cst_259, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %857 = stablehlo.add %855, %856 : tensor<64x256xf32>
    %858 = stablehlo.divide %850, %857 : tensor<64x256xf32>
    %cst_260 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %859 = stablehlo.broadcast_in_dim %cst_260, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %860 = stablehlo.multiply %859, %arg16 : tensor<64x256xf32>
    %861 = stablehlo.add %858, %860 : tensor<64x256xf32>
    %cst_261 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %862 = stablehlo.broadcast_in_dim %cst_261, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %863 = stablehlo.multiply %862, %861 : tensor<64x256xf32>
    %864 = stablehlo.subtract %arg16, %863 : tensor<64x256xf32>
    %cst_262 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %865 = stablehlo.power %cst_262, %360 : tensor<f32>
    %cst_263 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %866 = stablehlo.subtract %cst_263, %865 : tensor<f32>
    %867 = stablehlo.broadcast_in_dim %866, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %868 = stablehlo.divide %450, %867 : tensor<64x4x16xf32>
    %cst_264 = stablehlo.constant dense<9.900000e-01> : tensor<f32>
    %869 = stablehlo.power %cst_264, %360 : tensor<f32>
    %cst_265 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %870 = stablehlo.subtract %cst_265, %869 : tensor<f32>
    %871 = stablehlo.broadcast_in_dim %870, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %872 = stablehlo.divide %558, %871 : tensor<64x4x16xf32>
    %873 = stablehlo.sqrt %872 : tensor<64x4x16xf32>
    %cst_266 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %874 = stablehlo.broadcast_in_dim %cst_266, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %875 = stablehlo.add %873, %874 : tensor<64x4x16xf32>
    %876 = stablehlo.divide %868, %875 : tensor<64x4x16xf32>
    %cst_267 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %877 = stablehlo.broadcast_in_dim %cst_267, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %878 = stablehlo.multiply %877, %arg17 : tensor<64x4x16xf32>
    %879 = stablehlo.add %876, %878 : tensor<64x4x16xf32>
    %cst_268 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %880 = stablehlo.broadcast_in_dim %cst_268, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %881 = stablehlo.multiply %880, %879 : tensor<64x4x16xf32>
    %882 = stablehlo.subtract %arg17, %881 : tensor<64x4x16xf32>
    return %576, %594, %612, %630, %648, %666, %684, %702, %720, %738, %756, %774, %792, %810, %828, %846, %864, %882, %365, %370, %375, %380, %385, %390, %395, %400, %405, %410, %415, %420, %425, %430, %435, %440, %445, %450, %456, %462, %468, %474, %480, %486, %492, %498, %504, %510, %516, %522, %528, %534, %540, %546, %552, %558, %360, %157 : tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<256x64xf32>, tensor<64x4x16xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x256xf32>, tensor<64x4x16xf32>, tensor<f32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<32x32xi1>) -> tensor<32x32xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<32x32xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32x32xi32>
    %2 = stablehlo.add %0, %1 : tensor<32x32xi32>
    %3 = stablehlo.iota dim = 1 : tensor<32x32xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<32x32xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<32x32xi1>, tensor<32x32xi1>
    return %6 : tensor<32x32xi1>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<8x4x32x32xf32>, %arg2: tensor<f32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<8x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>
    return %3, %1 : tensor<8x4x32x32xf32>, tensor<8x4x32x32xi1>
  }
  func.func private @silu(%arg0: tensor<8x32x256xf32>) -> (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>) {
    %0 = stablehlo.negate %arg0 : tensor<8x32x256xf32>
    %1 = stablehlo.exponential %0 : tensor<8x32x256xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32x256xf32>
    %3 = stablehlo.add %2, %1 : tensor<8x32x256xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32x256xf32>
    %5 = stablehlo.divide %4, %3 : tensor<8x32x256xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x32x256xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<8x32x256xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<8x32x256xf32>
    %9 = stablehlo.multiply %arg0, %5 : tensor<8x32x256xf32>
    return %9, %8, %5 : tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x256xf32>
  }
  func.func private @log_softmax(%arg0: tensor<8x32x256xf32>) -> (tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<8x32x256xf32>, tensor<f32>) -> tensor<8x32xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<8x32xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x256xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x32x256xf32>
    %6 = stablehlo.exponential %5 : tensor<8x32x256xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x32x256xf32>, tensor<f32>) -> tensor<8x32xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %9 = stablehlo.log %8 : tensor<8x32x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<8x32x1xf32>) -> tensor<8x32x256xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<8x32x256xf32>
    return %11, %6, %8 : tensor<8x32x256xf32>, tensor<8x32x256xf32>, tensor<8x32x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<8x32x256xf32>, %arg1: tensor<8x32x1xi32>) -> (tensor<8x32x1xf32>, tensor<8x32x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x32x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<8x32x1xi32>, tensor<8x32x1xi32>) -> tensor<8x32x1xi1>
    %c_0 = stablehlo.constant dense<256> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8x32x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<8x32x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<8x32x1xi1>, tensor<8x32x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<8x32x1xi32>) -> tensor<8x32x1x1xi32>
    %c_1 = stablehlo.constant dense<255> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8x32x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<8x32x1x1xi32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<8x32x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<8x32x1x1xi32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<8x32x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<8x32x1x1xi1>, tensor<i1>) -> tensor<8x32x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<8x32x256xf32>, tensor<8x32x1x1xi32>) -> tensor<8x32x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<8x32x1xi1>, tensor<8x32x1xf32>
    return %15, %5 : tensor<8x32x1xf32>, tensor<8x32x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<8x32x1x1xi32>, %arg1: tensor<8x32x1xf32>) -> tensor<8x32x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32x256xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<8x32x256xf32>, tensor<8x32x1x1xi32>, tensor<8x32x1xf32>) -> tensor<8x32x256xf32>
    return %1 : tensor<8x32x256xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<8x32x256xf32>, %arg1: tensor<8x32x1xf32>, %arg2: tensor<8x32x256xf32>) -> tensor<8x32x256xf32> {
    %0 = stablehlo.negate %arg2 : tensor<8x32x256xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x32x256xf32>, tensor<f32>) -> tensor<8x32xf32>
    %2 = stablehlo.reshape %1 : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<8x32x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<8x32x1xf32>, tensor<f32>) -> tensor<8x32xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x32xf32>) -> tensor<8x32x256xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<8x32x256xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<8x32x256xf32>
    return %7 : tensor<8x32x256xf32>
  }
  func.func private @silu_2(%arg0: tensor<8x32x256xf32>, %arg1: tensor<8x32x256xf32>, %arg2: tensor<8x32x256xf32>, %arg3: tensor<8x32x256xf32>) -> tensor<8x32x256xf32> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<8x32x256xf32>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<8x32x256xf32>
    %2 = stablehlo.multiply %0, %arg0 : tensor<8x32x256xf32>
    %3 = stablehlo.add %1, %2 : tensor<8x32x256xf32>
    return %3 : tensor<8x32x256xf32>
  }
  func.func private @_where_3(%arg0: tensor<8x4x32x32xi1>, %arg1: tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4x32x32xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>
    return %1 : tensor<8x4x32x32xf32>
  }
}

