module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x14x14x8xf32>, %arg1: tensor<3x3x8x16xf32>) -> (tensor<2x28x41x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[3, 2], [1, 4]], lhs_dilate = [2, 3], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x8xf32>, tensor<3x3x8x16xf32>) -> tensor<2x28x41x16xf32>
    return %0 : tensor<2x28x41x16xf32>
  }
}
