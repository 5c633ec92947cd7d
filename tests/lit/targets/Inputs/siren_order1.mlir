module {
  func.func @siren_tiny(%arg0: !torch.vtensor<[8,2],f32> {inr.name = "x"}) -> (!torch.vtensor<[8],f32> {inr.name = "y"}, !torch.vtensor<[8],f32> {inr.name = "dy_dx0"}, !torch.vtensor<[8],f32> {inr.name = "dy_dx1"}) {
    %0 = torch.vtensor.literal(dense<[[-0.223203421, 0.399826646], [-0.404047608, 0.0536524653], [-0.104684353, 0.35705632], [0.139572263, 0.240252674], [0.176579475, -0.12023735], [-0.105152726, -0.41204071], [0.270922065, 0.396989048], [0.342112422, -0.352689147]]> : tensor<8x2xf32>) {inr.name = "layers.0.weight"} : !torch.vtensor<[8,2],f32>
    %1 = torch.aten.t %0 : !torch.vtensor<[8,2],f32> -> !torch.vtensor<[2,8],f32>
    %2 = torch.vtensor.literal(dense<[0.279544204, 0.424280167, -0.479376733, -0.307918727, 0.256833285, 0.587172925, -0.145522699, 0.5291363]> : tensor<8xf32>) {inr.name = "layers.0.bias"} : !torch.vtensor<[8],f32>
    %int1 = torch.constant.int 1
    %int1_0 = torch.constant.int 1
    %3 = torch.aten.addmm %2, %arg0, %1, %int1, %int1_0 : !torch.vtensor<[8],f32>, !torch.vtensor<[8,2],f32>, !torch.vtensor<[2,8],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,8],f32>
    %float3.000000e01 = torch.constant.float 3.000000e+01
    %4 = torch.aten.mul.Scalar %3, %float3.000000e01 : !torch.vtensor<[8,8],f32>, !torch.float -> !torch.vtensor<[8,8],f32>
    %5 = torch.aten.sin %4 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %6 = torch.vtensor.literal(dense<[[-5.18868677E-4, -0.0217389371, -0.0222671498, -0.0015905886, 0.00433431426, -0.0118221203, 0.0171293356, -0.0175670106], [0.0261935182, 0.0197829027, -0.0243434813, -0.00718467123, 0.0013025779, 0.00421180157, 0.00684663141, 0.0113284281], [0.00172916881, -0.0140852891, 0.0136597892, -0.0276911296, -0.0171099678, -7.226400e-03, -0.0140617508, -0.0100988196], [-0.02366044, -0.00614055712, 0.00617061695, -0.0188061967, -0.00148146227, 0.0206648335, -0.00296758744, 8.02292139E-4], [-0.00249036867, 0.00584224705, 0.0183551032, 0.0273446422, 0.0183324851, 0.0274072085, -0.00208774628, -0.0259323083], [-0.0136854304, 0.0196560398, -1.87133133E-4, -0.014348492, -0.0221215151, -0.0270157214, -0.0243644174, -0.00585539266], [0.0158311166, 0.0156069631, -0.0278407503, 0.0180070363, -0.0225891024, -0.00610288931, -0.0117049869, -0.0055603236], [-0.00566792581, -0.0259042606, -0.0249253046, -0.00451717339, 3.73319926E-4, -0.0131137865, 0.0108743692, -0.025982447]]> : tensor<8x8xf32>) {inr.name = "layers.1.weight"} : !torch.vtensor<[8,8],f32>
    %7 = torch.aten.t %6 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %8 = torch.vtensor.literal(dense<[0.13596113, -0.209410906, 0.1296096, 0.178794816, 0.253098816, 0.132197544, -0.349924237, -0.229348987]> : tensor<8xf32>) {inr.name = "layers.1.bias"} : !torch.vtensor<[8],f32>
    %int1_1 = torch.constant.int 1
    %int1_2 = torch.constant.int 1
    %9 = torch.aten.addmm %8, %5, %7, %int1_1, %int1_2 : !torch.vtensor<[8],f32>, !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,8],f32>
    %float3.000000e01_3 = torch.constant.float 3.000000e+01
    %10 = torch.aten.mul.Scalar %9, %float3.000000e01_3 : !torch.vtensor<[8,8],f32>, !torch.float -> !torch.vtensor<[8,8],f32>
    %11 = torch.aten.sin %10 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %12 = torch.vtensor.literal(dense<[[-0.00194818876, 0.025386652, -0.0117748277, 0.0260674544, 0.0104544787, -0.0260518026, 0.018264398, -0.00333115156]]> : tensor<1x8xf32>) {inr.name = "last.weight"} : !torch.vtensor<[1,8],f32>
    %13 = torch.aten.t %12 : !torch.vtensor<[1,8],f32> -> !torch.vtensor<[8,1],f32>
    %14 = torch.vtensor.literal(dense<-0.336794287> : tensor<1xf32>) {inr.name = "last.bias"} : !torch.vtensor<[1],f32>
    %int1_4 = torch.constant.int 1
    %int1_5 = torch.constant.int 1
    %15 = torch.aten.addmm %14, %11, %13, %int1_4, %int1_5 : !torch.vtensor<[1],f32>, !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,1],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,1],f32>
    %int1_6 = torch.constant.int 1
    %int0 = torch.constant.int 0
    %16 = torch.aten.select.int %15, %int1_6, %int0 : !torch.vtensor<[8,1],f32>, !torch.int, !torch.int -> !torch.vtensor<[8],f32>
    %int8 = torch.constant.int 8
    %17 = torch.prim.ListConstruct %int8 : (!torch.int) -> !torch.list<int>
    %int1_7 = torch.constant.int 1
    %int6 = torch.constant.int 6
    %none = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %18 = torch.aten.full %17, %int1_7, %int6, %none, %cpu, %false : !torch.list<int>, !torch.int, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8],f32>
    %int8_8 = torch.constant.int 8
    %int1_9 = torch.constant.int 1
    %19 = torch.prim.ListConstruct %int8_8, %int1_9 : (!torch.int, !torch.int) -> !torch.list<int>
    %int0_10 = torch.constant.int 0
    %int6_11 = torch.constant.int 6
    %none_12 = torch.constant.none
    %cpu_13 = torch.constant.device "cpu"
    %false_14 = torch.constant.bool false
    %20 = torch.aten.full %19, %int0_10, %int6_11, %none_12, %cpu_13, %false_14 : !torch.list<int>, !torch.int, !torch.int, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[8,1],f32>
    %int1_15 = torch.constant.int 1
    %int0_16 = torch.constant.int 0
    %21 = torch.aten.select_scatter %20, %18, %int1_15, %int0_16 : !torch.vtensor<[8,1],f32>, !torch.vtensor<[8],f32>, !torch.int, !torch.int -> !torch.vtensor<[8,1],f32>
    %22 = torch.aten.t %13 : !torch.vtensor<[8,1],f32> -> !torch.vtensor<[1,8],f32>
    %23 = torch.aten.mm %21, %22 : !torch.vtensor<[8,1],f32>, !torch.vtensor<[1,8],f32> -> !torch.vtensor<[8,8],f32>
    %24 = torch.aten.cos %10 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %25 = torch.aten.mul.Tensor %23, %24 : !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %float3.000000e01_17 = torch.constant.float 3.000000e+01
    %26 = torch.aten.mul.Scalar %25, %float3.000000e01_17 : !torch.vtensor<[8,8],f32>, !torch.float -> !torch.vtensor<[8,8],f32>
    %27 = torch.aten.t %7 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %28 = torch.aten.mm %26, %27 : !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %29 = torch.aten.cos %4 : !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %30 = torch.aten.mul.Tensor %28, %29 : !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32> -> !torch.vtensor<[8,8],f32>
    %float3.000000e01_18 = torch.constant.float 3.000000e+01
    %31 = torch.aten.mul.Scalar %30, %float3.000000e01_18 : !torch.vtensor<[8,8],f32>, !torch.float -> !torch.vtensor<[8,8],f32>
    %32 = torch.aten.t %1 : !torch.vtensor<[2,8],f32> -> !torch.vtensor<[8,2],f32>
    %33 = torch.aten.mm %31, %32 : !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[8,2],f32>
    %int1_19 = torch.constant.int 1
    %int0_20 = torch.constant.int 0
    %34 = torch.aten.select.int %33, %int1_19, %int0_20 : !torch.vtensor<[8,2],f32>, !torch.int, !torch.int -> !torch.vtensor<[8],f32>
    %int1_21 = torch.constant.int 1
    %int1_22 = torch.constant.int 1
    %35 = torch.aten.select.int %33, %int1_21, %int1_22 : !torch.vtensor<[8,2],f32>, !torch.int, !torch.int -> !torch.vtensor<[8],f32>
    return %16, %34, %35 : !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>
  }
}
