module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x128xf32>, %arg1: tensor<7x128x128xf32>) -> (tensor<64x128xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg1 [0:1, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %2 = stablehlo.dot_general %arg0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %3 = stablehlo.tanh %2 : tensor<64x128xf32>
    %4 = stablehlo.slice %arg1 [1:2, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %6 = stablehlo.dot_general %3, %5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %7 = stablehlo.tanh %6 : tensor<64x128xf32>
    %8 = stablehlo.slice %arg1 [2:3, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %9 = stablehlo.reshape %8 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %10 = stablehlo.dot_general %7, %9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %11 = stablehlo.tanh %10 : tensor<64x128xf32>
    %12 = stablehlo.slice %arg1 [3:4, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %14 = stablehlo.dot_general %11, %13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %15 = stablehlo.tanh %14 : tensor<64x128xf32>
    %16 = stablehlo.slice %arg1 [4:5, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %17 = stablehlo.reshape %16 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %18 = stablehlo.dot_general %15, %17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %19 = stablehlo.tanh %18 : tensor<64x128xf32>
    %20 = stablehlo.slice %arg1 [5:6, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %21 = stablehlo.reshape %20 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %22 = stablehlo.dot_general %19, %21, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %23 = stablehlo.tanh %22 : tensor<64x128xf32>
    %24 = stablehlo.slice %arg1 [6:7, 0:128, 0:128] : (tensor<7x128x128xf32>) -> tensor<1x128x128xf32>
    %25 = stablehlo.reshape %24 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    %26 = stablehlo.dot_general %23, %25, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %27 = stablehlo.tanh %26 : tensor<64x128xf32>
    return %27 : tensor<64x128xf32>
  }
}
