module @shards attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=4]>
  func.func public @main(%arg0: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<256x32xf32>) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {"b"}]>] out_shardings=[<@mesh, [{"a"}, {"b"}]>] manual_axes={"a", "b"} (%arg1: tensor<32x32xf32>) {
      %2 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %3 = stablehlo.multiply %2, %arg1 : tensor<32x32xf32>
      sdy.return %3 : tensor<32x32xf32>
    } : (tensor<64x128xf32>) -> tensor<64x128xf32>
    %1 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"b"}, {}]>] out_shardings=[<@mesh, [{"b"}, {}]>] manual_axes={"a", "b"} (%arg1: tensor<16x128xf32>) {
      %2 = "stablehlo.all_to_all"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<16x128xf32>) -> tensor<64x32xf32>
      sdy.return %2 : tensor<64x32xf32>
    } : (tensor<64x128xf32>) -> tensor<256x32xf32>
    return %0, %1 : tensor<64x128xf32>, tensor<256x32xf32>
  }
}
