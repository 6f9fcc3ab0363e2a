#loc1 = loc("param_0")
#loc2 = loc("param_1")
#loc3 = loc("raise.py":8:32)
#loc4 = loc("raise.py":9:49)
#loc5 = loc("raise.py":9:28)
#loc6 = loc("raise.py":15:8)
#loc7 = loc("param_0.2")
#loc8 = loc("param_1.1")
#loc9 = loc("param_0.3")
#loc10 = loc("param_1.2")
#loc11 = loc("param_0.4")
#loc12 = loc("raise.py":8:23)
#loc13 = loc("arg_tuple.1")
#loc16 = loc("param_0.5")
#loc17 = loc("param_1.3")
#loc18 = loc("arg_tuple.3")
#loc20 = loc("x")
#loc21 = loc("ws")
#loc25 = loc("layer"(#loc3))
#loc26 = loc("<lambda>.<locals>.<lambda>"(#loc4))
#loc27 = loc("<lambda>"(#loc5))
#loc28 = loc("<module>"(#loc6))
#loc29 = loc("layer"(#loc12))
#loc30 = loc(callsite(#loc27 at #loc28))
#loc31 = loc(callsite(#loc27 at #loc30))
#loc32 = loc(callsite(#loc27 at #loc31))
#loc34 = loc(callsite(#loc26 at #loc32))
#loc36 = loc(callsite(#loc27 at #loc32))
#loc37 = loc("jit(<lambda>)/while/body/add"(#loc32))
#loc38 = loc("jit(<lambda>)/while/cond/lt"(#loc32))
#loc39 = loc(callsite(#loc25 at #loc34))
#loc40 = loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)/dynamic_slice"(#loc36))
#loc41 = loc(callsite(#loc29 at #loc34))
#loc42 = loc("jit(<lambda>)/while/body/closed_call/dot_general"(#loc39))
#loc43 = loc("jit(<lambda>)/while/body/closed_call/tanh"(#loc41))
module @jit__lambda attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func private @fused_computation(%arg0: tensor<64x128xf32> loc("param_0"), %arg1: tensor<128x128xf32> loc("param_1")) -> tensor<64x128xf32> {
    %0 = stablehlo.dot %arg0, %arg1, precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32> loc(#loc42)
    return %0 : tensor<64x128xf32> loc(#loc)
  } loc(#loc)
  func.func private @fused_computation.1(%arg0: tensor<7x128x128xf32> loc("param_0.2"), %arg1: tensor<i32> loc("param_1.1")) -> tensor<128x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc35)
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c, sizes = [1, 128, 128] : (tensor<7x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32> loc(#loc40)
    %1 = mhlo.bitcast %0 {result_layout = dense<[1, 0]> : tensor<2xindex>, source_layout = dense<[2, 1, 0]> : tensor<3xindex>} : (tensor<1x128x128xf32>) -> tensor<128x128xf32> loc(#loc40)
    return %1 : tensor<128x128xf32> loc(#loc)
  } loc(#loc)
  func.func private @wrapped_add_computation(%arg0: tensor<i32> loc("param_0.3"), %arg1: tensor<i32> loc("param_1.2")) -> tensor<i32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<i32> loc(#loc37)
    return %0 : tensor<i32> loc(#loc)
  } loc(#loc)
  func.func private @wrapped_tanh_computation(%arg0: tensor<64x128xf32> loc("param_0.4")) -> tensor<64x128xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<64x128xf32> loc(#loc43)
    return %0 : tensor<64x128xf32> loc(#loc)
  } loc(#loc)
  func.func private @region_0.3(%arg0: tensor<i32> loc("arg_tuple.1"), %arg1: tensor<64x128xf32> loc("arg_tuple.1"), %arg2: tensor<7x128x128xf32> loc("arg_tuple.1")) -> (tensor<i32>, tensor<64x128xf32>, tensor<7x128x128xf32>) {
    %0 = mhlo.copy %arg0 : tensor<i32> loc(#loc14)
    %c = stablehlo.constant dense<1> : tensor<i32> loc(#loc15)
    %1 = "mhlo.fusion"(%0, %c) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%arg3: tensor<i32> loc("jit(<lambda>)/while/body/add"(#loc32)), %arg4: tensor<i32> loc("jit(<lambda>)/while/body/add"(#loc32))):
      %5 = stablehlo.add %arg3, %arg4 : tensor<i32> loc(#loc37)
      mhlo.return %5 : tensor<i32> loc(#loc)
    }) {output_operand_aliasing = []} : (tensor<i32>, tensor<i32>) -> tensor<i32> loc(#loc37)
    %2 = "mhlo.fusion"(%arg2, %0) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%arg3: tensor<7x128x128xf32> loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)/dynamic_slice"(#loc36)), %arg4: tensor<i32> loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)/dynamic_slice"(#loc36))):
      %c_0 = stablehlo.constant dense<0> : tensor<i32> loc(#loc35)
      %5 = stablehlo.dynamic_slice %arg3, %arg4, %c_0, %c_0, sizes = [1, 128, 128] : (tensor<7x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32> loc(#loc40)
      %6 = mhlo.bitcast %5 {result_layout = dense<[1, 0]> : tensor<2xindex>, source_layout = dense<[2, 1, 0]> : tensor<3xindex>} : (tensor<1x128x128xf32>) -> tensor<128x128xf32> loc(#loc40)
      mhlo.return %6 : tensor<128x128xf32> loc(#loc)
    }) {output_operand_aliasing = []} : (tensor<7x128x128xf32>, tensor<i32>) -> tensor<128x128xf32> loc(#loc40)
    %3 = "mhlo.fusion"(%arg1, %2) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
    ^bb0(%arg3: tensor<64x128xf32> loc("jit(<lambda>)/while/body/closed_call/dot_general"(#loc39)), %arg4: tensor<128x128xf32> loc("jit(<lambda>)/while/body/closed_call/dot_general"(#loc39))):
      %5 = stablehlo.dot %arg3, %arg4, precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32> loc(#loc42)
      mhlo.return %5 : tensor<64x128xf32> loc(#loc)
    }) {output_operand_aliasing = []} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32> loc(#loc42)
    %4 = "mhlo.fusion"(%3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%arg3: tensor<64x128xf32> loc("jit(<lambda>)/while/body/closed_call/tanh"(#loc41))):
      %5 = stablehlo.tanh %arg3 : tensor<64x128xf32> loc(#loc43)
      mhlo.return %5 : tensor<64x128xf32> loc(#loc)
    }) {output_operand_aliasing = []} : (tensor<64x128xf32>) -> tensor<64x128xf32> loc(#loc43)
    return %1, %4, %arg2 : tensor<i32>, tensor<64x128xf32>, tensor<7x128x128xf32> loc(#loc)
  } loc(#loc)
  func.func private @wrapped_compare_computation(%arg0: tensor<i32> loc("param_0.5"), %arg1: tensor<i32> loc("param_1.3")) -> tensor<i1> {
    %0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc38)
    return %0 : tensor<i1> loc(#loc)
  } loc(#loc)
  func.func private @region_1.4(%arg0: tensor<i32> loc("arg_tuple.3"), %arg1: tensor<64x128xf32> loc("arg_tuple.3"), %arg2: tensor<7x128x128xf32> loc("arg_tuple.3")) -> tensor<i1> {
    %c = stablehlo.constant dense<7> : tensor<i32> loc(#loc19)
    %0 = "mhlo.fusion"(%arg0, %c) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%arg3: tensor<i32> loc("jit(<lambda>)/while/cond/lt"(#loc32)), %arg4: tensor<i32> loc("jit(<lambda>)/while/cond/lt"(#loc32))):
      %1 = stablehlo.compare LT, %arg3, %arg4 : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc38)
      mhlo.return %1 : tensor<i1> loc(#loc)
    }) {output_operand_aliasing = []} : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc38)
    return %0 : tensor<i1> loc(#loc)
  } loc(#loc)
  func.func @main(%arg0: tensor<64x128xf32> loc("x"), %arg1: tensor<7x128x128xf32> loc("ws")) -> tensor<64x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc22)
    %0 = mhlo.copy %c : tensor<i32> loc(#loc23)
    %1 = mhlo.copy %arg0 : tensor<64x128xf32> loc(#loc24)
    %2:3 = stablehlo.while(%iterArg = %0, %iterArg_0 = %1, %iterArg_1 = %arg1) : tensor<i32>, tensor<64x128xf32>, tensor<7x128x128xf32>
    cond {
      %c_2 = stablehlo.constant dense<7> : tensor<i32> loc(#loc19)
      %3 = "mhlo.fusion"(%iterArg, %c_2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%arg2: tensor<i32> loc("jit(<lambda>)/while/cond/lt"(#loc32)), %arg3: tensor<i32> loc("jit(<lambda>)/while/cond/lt"(#loc32))):
        %4 = stablehlo.compare LT, %arg2, %arg3 : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc38)
        mhlo.return %4 : tensor<i1> loc(#loc)
      }) {output_operand_aliasing = []} : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc38)
      stablehlo.return %3 : tensor<i1> loc(#loc)
    } do {
      %3 = mhlo.copy %iterArg : tensor<i32> loc(#loc14)
      %c_2 = stablehlo.constant dense<1> : tensor<i32> loc(#loc15)
      %4 = "mhlo.fusion"(%3, %c_2) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%arg2: tensor<i32> loc("jit(<lambda>)/while/body/add"(#loc32)), %arg3: tensor<i32> loc("jit(<lambda>)/while/body/add"(#loc32))):
        %8 = stablehlo.add %arg2, %arg3 : tensor<i32> loc(#loc37)
        mhlo.return %8 : tensor<i32> loc(#loc)
      }) {output_operand_aliasing = []} : (tensor<i32>, tensor<i32>) -> tensor<i32> loc(#loc37)
      %5 = "mhlo.fusion"(%iterArg_1, %3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%arg2: tensor<7x128x128xf32> loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)/dynamic_slice"(#loc36)), %arg3: tensor<i32> loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)/dynamic_slice"(#loc36))):
        %c_3 = stablehlo.constant dense<0> : tensor<i32> loc(#loc35)
        %8 = stablehlo.dynamic_slice %arg2, %arg3, %c_3, %c_3, sizes = [1, 128, 128] : (tensor<7x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32> loc(#loc40)
        %9 = mhlo.bitcast %8 {result_layout = dense<[1, 0]> : tensor<2xindex>, source_layout = dense<[2, 1, 0]> : tensor<3xindex>} : (tensor<1x128x128xf32>) -> tensor<128x128xf32> loc(#loc40)
        mhlo.return %9 : tensor<128x128xf32> loc(#loc)
      }) {output_operand_aliasing = []} : (tensor<7x128x128xf32>, tensor<i32>) -> tensor<128x128xf32> loc(#loc40)
      %6 = "mhlo.fusion"(%iterArg_0, %5) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
      ^bb0(%arg2: tensor<64x128xf32> loc("jit(<lambda>)/while/body/closed_call/dot_general"(#loc39)), %arg3: tensor<128x128xf32> loc("jit(<lambda>)/while/body/closed_call/dot_general"(#loc39))):
        %8 = stablehlo.dot %arg2, %arg3, precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32> loc(#loc42)
        mhlo.return %8 : tensor<64x128xf32> loc(#loc)
      }) {output_operand_aliasing = []} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32> loc(#loc42)
      %7 = "mhlo.fusion"(%6) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%arg2: tensor<64x128xf32> loc("jit(<lambda>)/while/body/closed_call/tanh"(#loc41))):
        %8 = stablehlo.tanh %arg2 : tensor<64x128xf32> loc(#loc43)
        mhlo.return %8 : tensor<64x128xf32> loc(#loc)
      }) {output_operand_aliasing = []} : (tensor<64x128xf32>) -> tensor<64x128xf32> loc(#loc43)
      stablehlo.return %4, %7, %iterArg_1 : tensor<i32>, tensor<64x128xf32>, tensor<7x128x128xf32> loc(#loc)
    } loc(#loc33)
    return %2#1 : tensor<64x128xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc14 = loc("copy.2")
#loc15 = loc("constant.4")
#loc19 = loc("constant.6")
#loc22 = loc("constant.7")
#loc23 = loc("copy.7")
#loc24 = loc("copy.6")
#loc33 = loc("jit(<lambda>)/while"(#loc31))
#loc35 = loc("jit(<lambda>)/while/body/jit(dynamic_index_in_dim)"(#loc32))
