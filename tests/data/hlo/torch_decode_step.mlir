module @decode {
  func.func public @main(%arg0: tensor<12288x4096xbf16>, %arg1: tensor<4096x4096xbf16>, %arg2: tensor<32x4096x128xbf16>, %arg3: tensor<32x4096x128xbf16>, %arg4: tensor<1x4096xbf16>, %arg5: tensor<1xi32>) -> (tensor<1x4096xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_1 = stablehlo.constant dense<8.837890e-02> : tensor<bf16>
    %c = stablehlo.constant dense<4096> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<12288x4096xbf16>) -> tensor<4096x12288xbf16>
    %1 = stablehlo.dot_general %arg4, %0, contracting_dims = [1] x [0] : (tensor<1x4096xbf16>, tensor<4096x12288xbf16>) -> tensor<1x12288xbf16>
    %2 = stablehlo.reshape %1 : (tensor<1x12288xbf16>) -> tensor<3x32x1x128xbf16>
    %3 = stablehlo.slice %2 [0:1, 0:32, 0:1, 0:128] : (tensor<3x32x1x128xbf16>) -> tensor<1x32x1x128xbf16>
    %4 = stablehlo.slice %2 [1:2, 0:32, 0:1, 0:128] : (tensor<3x32x1x128xbf16>) -> tensor<1x32x1x128xbf16>
    %5 = stablehlo.slice %2 [2:3, 0:32, 0:1, 0:128] : (tensor<3x32x1x128xbf16>) -> tensor<1x32x1x128xbf16>
    %6 = stablehlo.reshape %3 : (tensor<1x32x1x128xbf16>) -> tensor<32x1x128xbf16>
    %7 = stablehlo.reshape %4 : (tensor<1x32x1x128xbf16>) -> tensor<32x1x128xbf16>
    %8 = stablehlo.reshape %5 : (tensor<1x32x1x128xbf16>) -> tensor<32x1x128xbf16>
    %9 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %10 = stablehlo.compare LT, %arg5, %9, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %12 = stablehlo.add %arg5, %11 : tensor<1xi32>
    %13 = stablehlo.select %10, %12, %arg5 : tensor<1xi1>, tensor<1xi32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %15 = "stablehlo.scatter"(%arg2, %14, %7) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%arg6: tensor<bf16>, %arg7: tensor<bf16>):
      stablehlo.return %arg7 : tensor<bf16>
    }) : (tensor<32x4096x128xbf16>, tensor<1x1xi32>, tensor<32x1x128xbf16>) -> tensor<32x4096x128xbf16>
    %16 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %17 = stablehlo.compare LT, %arg5, %16, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %18 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %19 = stablehlo.add %arg5, %18 : tensor<1xi32>
    %20 = stablehlo.select %17, %19, %arg5 : tensor<1xi1>, tensor<1xi32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %22 = "stablehlo.scatter"(%arg3, %21, %8) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%arg6: tensor<bf16>, %arg7: tensor<bf16>):
      stablehlo.return %arg7 : tensor<bf16>
    }) : (tensor<32x4096x128xbf16>, tensor<1x1xi32>, tensor<32x1x128xbf16>) -> tensor<32x4096x128xbf16>
    %23 = stablehlo.transpose %15, dims = [0, 2, 1] : (tensor<32x4096x128xbf16>) -> tensor<32x128x4096xbf16>
    %24 = stablehlo.dot_general %6, %23, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<32x1x128xbf16>, tensor<32x128x4096xbf16>) -> tensor<32x1x4096xbf16>
    %25 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<32x1x4096xbf16>
    %26 = stablehlo.multiply %24, %25 : tensor<32x1x4096xbf16>
    %27 = stablehlo.convert %26 : (tensor<32x1x4096xbf16>) -> tensor<32x1x4096xf32>
    %28 = stablehlo.reduce(%27 init: %cst_0) applies stablehlo.maximum across dimensions = [2] : (tensor<32x1x4096xf32>, tensor<f32>) -> tensor<32x1xf32>
    %29 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %30 = stablehlo.maximum %29, %28 : tensor<32x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<32x1x1xf32>) -> tensor<32x1x4096xf32>
    %33 = stablehlo.subtract %27, %32 : tensor<32x1x4096xf32>
    %34 = stablehlo.exponential %33 : tensor<32x1x4096xf32>
    %35 = stablehlo.reduce(%34 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<32x1x4096xf32>, tensor<f32>) -> tensor<32x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x1x1xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<32x1x1xf32>) -> tensor<32x1x4096xf32>
    %38 = stablehlo.divide %34, %37 : tensor<32x1x4096xf32>
    %39 = stablehlo.convert %38 : tensor<32x1x4096xf32>
    %40 = stablehlo.convert %22 : (tensor<32x4096x128xbf16>) -> tensor<32x4096x128xf32>
    %41 = stablehlo.dot_general %39, %40, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<32x1x4096xf32>, tensor<32x4096x128xf32>) -> tensor<32x1x128xf32>
    %42 = stablehlo.reshape %41 : (tensor<32x1x128xf32>) -> tensor<1x4096xf32>
    %43 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %44 = stablehlo.convert %42 : tensor<1x4096xf32>
    %45 = stablehlo.convert %43 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
    %46 = stablehlo.dot_general %44, %45, contracting_dims = [1] x [0] : (tensor<1x4096xf32>, tensor<4096x4096xf32>) -> tensor<1x4096xf32>
    return %46 : tensor<1x4096xf32>
  }
}
