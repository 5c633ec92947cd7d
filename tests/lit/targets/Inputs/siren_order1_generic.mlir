"builtin.module"() ({
  "func.func"() <{arg_attrs = [{inr.name = "x"}], function_type = (!torch.vtensor<[8,2],f32>) -> (!torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>), res_attrs = [{inr.name = "y"}, {inr.name = "dy_dx0"}, {inr.name = "dy_dx1"}], sym_name = "siren_tiny"}> ({
  ^bb0(%arg0: !torch.vtensor<[8,2],f32>):
    %0 = "torch.vtensor.literal"() <{value = dense<[[-0.223203421, 0.399826646], [-0.404047608, 0.0536524653], [-0.104684353, 0.35705632], [0.139572263, 0.240252674], [0.176579475, -0.12023735], [-0.105152726, -0.41204071], [0.270922065, 0.396989048], [0.342112422, -0.352689147]]> : tensor<8x2xf32>}> {inr.name = "layers.0.weight"} : () -> !torch.vtensor<[8,2],f32>
    %1 = "torch.aten.t"(%0) : (!torch.vtensor<[8,2],f32>) -> !torch.vtensor<[2,8],f32>
    %2 = "torch.vtensor.literal"() <{value = dense<[0.279544204, 0.424280167, -0.479376733, -0.307918727, 0.256833285, 0.587172925, -0.145522699, 0.5291363]> : tensor<8xf32>}> {inr.name = "layers.0.bias"} : () -> !torch.vtensor<[8],f32>
    %3 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %4 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %5 = "torch.aten.addmm"(%2, %arg0, %1, %3, %4) : (!torch.vtensor<[8],f32>, !torch.vtensor<[8,2],f32>, !torch.vtensor<[2,8],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8,8],f32>
    %6 = "torch.constant.float"() <{value = 3.000000e+01 : f64}> : () -> !torch.float
    %7 = "torch.aten.mul.Scalar"(%5, %6) : (!torch.vtensor<[8,8],f32>, !torch.float) -> !torch.vtensor<[8,8],f32>
    %8 = "torch.aten.sin"(%7) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %9 = "torch.vtensor.literal"() <{value = dense<[[-5.18868677E-4, -0.0217389371, -0.0222671498, -0.0015905886, 0.00433431426, -0.0118221203, 0.0171293356, -0.0175670106], [0.0261935182, 0.0197829027, -0.0243434813, -0.00718467123, 0.0013025779, 0.00421180157, 0.00684663141, 0.0113284281], [0.00172916881, -0.0140852891, 0.0136597892, -0.0276911296, -0.0171099678, -7.226400e-03, -0.0140617508, -0.0100988196], [-0.02366044, -0.00614055712, 0.00617061695, -0.0188061967, -0.00148146227, 0.0206648335, -0.00296758744, 8.02292139E-4], [-0.00249036867, 0.00584224705, 0.0183551032, 0.0273446422, 0.0183324851, 0.0274072085, -0.00208774628, -0.0259323083], [-0.0136854304, 0.0196560398, -1.87133133E-4, -0.014348492, -0.0221215151, -0.0270157214, -0.0243644174, -0.00585539266], [0.0158311166, 0.0156069631, -0.0278407503, 0.0180070363, -0.0225891024, -0.00610288931, -0.0117049869, -0.0055603236], [-0.00566792581, -0.0259042606, -0.0249253046, -0.00451717339, 3.73319926E-4, -0.0131137865, 0.0108743692, -0.025982447]]> : tensor<8x8xf32>}> {inr.name = "layers.1.weight"} : () -> !torch.vtensor<[8,8],f32>
    %10 = "torch.aten.t"(%9) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %11 = "torch.vtensor.literal"() <{value = dense<[0.13596113, -0.209410906, 0.1296096, 0.178794816, 0.253098816, 0.132197544, -0.349924237, -0.229348987]> : tensor<8xf32>}> {inr.name = "layers.1.bias"} : () -> !torch.vtensor<[8],f32>
    %12 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %13 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %14 = "torch.aten.addmm"(%11, %8, %10, %12, %13) : (!torch.vtensor<[8],f32>, !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8,8],f32>
    %15 = "torch.constant.float"() <{value = 3.000000e+01 : f64}> : () -> !torch.float
    %16 = "torch.aten.mul.Scalar"(%14, %15) : (!torch.vtensor<[8,8],f32>, !torch.float) -> !torch.vtensor<[8,8],f32>
    %17 = "torch.aten.sin"(%16) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %18 = "torch.vtensor.literal"() <{value = dense<[[-0.00194818876, 0.025386652, -0.0117748277, 0.0260674544, 0.0104544787, -0.0260518026, 0.018264398, -0.00333115156]]> : tensor<1x8xf32>}> {inr.name = "last.weight"} : () -> !torch.vtensor<[1,8],f32>
    %19 = "torch.aten.t"(%18) : (!torch.vtensor<[1,8],f32>) -> !torch.vtensor<[8,1],f32>
    %20 = "torch.vtensor.literal"() <{value = dense<-0.336794287> : tensor<1xf32>}> {inr.name = "last.bias"} : () -> !torch.vtensor<[1],f32>
    %21 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %22 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %23 = "torch.aten.addmm"(%20, %17, %19, %21, %22) : (!torch.vtensor<[1],f32>, !torch.vtensor<[8,8],f32>, !torch.vtensor<[8,1],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8,1],f32>
    %24 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %25 = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
    %26 = "torch.aten.select.int"(%23, %24, %25) : (!torch.vtensor<[8,1],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8],f32>
    %27 = "torch.constant.int"() <{value = 8 : i64}> : () -> !torch.int
    %28 = "torch.prim.ListConstruct"(%27) : (!torch.int) -> !torch.list<int>
    %29 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %30 = "torch.constant.int"() <{value = 6 : i64}> : () -> !torch.int
    %31 = "torch.constant.none"() : () -> !torch.none
    %32 = "torch.constant.device"() <{value = "cpu"}> : () -> !torch.Device
    %33 = "torch.constant.bool"() <{value = false}> : () -> !torch.bool
    %34 = "torch.aten.full"(%28, %29, %30, %31, %32, %33) : (!torch.list<int>, !torch.int, !torch.int, !torch.none, !torch.Device, !torch.bool) -> !torch.vtensor<[8],f32>
    %35 = "torch.constant.int"() <{value = 8 : i64}> : () -> !torch.int
    %36 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %37 = "torch.prim.ListConstruct"(%35, %36) : (!torch.int, !torch.int) -> !torch.list<int>
    %38 = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
    %39 = "torch.constant.int"() <{value = 6 : i64}> : () -> !torch.int
    %40 = "torch.constant.none"() : () -> !torch.none
    %41 = "torch.constant.device"() <{value = "cpu"}> : () -> !torch.Device
    %42 = "torch.constant.bool"() <{value = false}> : () -> !torch.bool
    %43 = "torch.aten.full"(%37, %38, %39, %40, %41, %42) : (!torch.list<int>, !torch.int, !torch.int, !torch.none, !torch.Device, !torch.bool) -> !torch.vtensor<[8,1],f32>
    %44 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %45 = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
    %46 = "torch.aten.select_scatter"(%43, %34, %44, %45) : (!torch.vtensor<[8,1],f32>, !torch.vtensor<[8],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8,1],f32>
    %47 = "torch.aten.t"(%19) : (!torch.vtensor<[8,1],f32>) -> !torch.vtensor<[1,8],f32>
    %48 = "torch.aten.mm"(%46, %47) : (!torch.vtensor<[8,1],f32>, !torch.vtensor<[1,8],f32>) -> !torch.vtensor<[8,8],f32>
    %49 = "torch.aten.cos"(%16) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %50 = "torch.aten.mul.Tensor"(%48, %49) : (!torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %51 = "torch.constant.float"() <{value = 3.000000e+01 : f64}> : () -> !torch.float
    %52 = "torch.aten.mul.Scalar"(%50, %51) : (!torch.vtensor<[8,8],f32>, !torch.float) -> !torch.vtensor<[8,8],f32>
    %53 = "torch.aten.t"(%10) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %54 = "torch.aten.mm"(%52, %53) : (!torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %55 = "torch.aten.cos"(%7) : (!torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %56 = "torch.aten.mul.Tensor"(%54, %55) : (!torch.vtensor<[8,8],f32>, !torch.vtensor<[8,8],f32>) -> !torch.vtensor<[8,8],f32>
    %57 = "torch.constant.float"() <{value = 3.000000e+01 : f64}> : () -> !torch.float
    %58 = "torch.aten.mul.Scalar"(%56, %57) : (!torch.vtensor<[8,8],f32>, !torch.float) -> !torch.vtensor<[8,8],f32>
    %59 = "torch.aten.t"(%1) : (!torch.vtensor<[2,8],f32>) -> !torch.vtensor<[8,2],f32>
    %60 = "torch.aten.mm"(%58, %59) : (!torch.vtensor<[8,8],f32>, !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[8,2],f32>
    %61 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %62 = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
    %63 = "torch.aten.select.int"(%60, %61, %62) : (!torch.vtensor<[8,2],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8],f32>
    %64 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %65 = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
    %66 = "torch.aten.select.int"(%60, %64, %65) : (!torch.vtensor<[8,2],f32>, !torch.int, !torch.int) -> !torch.vtensor<[8],f32>
    "func.return"(%26, %63, %66) : (!torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>) -> ()
  }) : () -> ()
}) : () -> ()
