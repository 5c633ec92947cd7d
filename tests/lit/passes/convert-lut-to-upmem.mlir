// The whole of a layer, held against a module that is kept: the targets' tests read it.
// RUN: inr-opt -p 'convert-lut-to-upmem{dpus=4 mapping="ip=2 lp=2 n_m=6 f_m=8 c_m=8 f_l=8 c_l=4 tasklets=3 order=nfc load=coarse variant=swar16 out=i32 idx_bits=8 residency=resident split_cb=1"}' %S/../targets/Inputs/lut_layer.mlir > %t
// RUN: diff %t %S/../targets/Inputs/lut_tiled.mlir

// The tuner chooses what nobody has said; what the operation says goes before what the option says.
// RUN: inr-opt -p 'convert-lut-to-upmem{dpus=64 mapping="order=cfn tasklets=8"}' %s | filecheck %s

// CHECK: upmem.symbol @encoder_0_query_table resident
// CHECK: upmem.kernel @encoder_0_query(
// CHECK-SAME: order = cfn, load = fine, tasklets = 5,
// CHECK-SAME: shape #upmem.shape<rows = 64, codebooks = 24, centroids = 16, features = 96, bits = 8, acc_low = 0, acc_high = 72>
// CHECK-SAME: attributes {layer = "encoder.0.query"}
// CHECK: upmem.kernel @layer1(
// CHECK-SAME: order = cfn,
// CHECK-SAME: tasklets = 8,
// CHECK: func.func @upmem_open()
// CHECK: func.func @upmem_close(
// CHECK: func.func @main(%grid: !upmem.grid<dpus = {{[0-9]+}}, groups = 1, tasklets = 8>, %i: tensor<64x24xui8>)
// CHECK-NOT: lut.lookup
// CHECK-NOT: arith.constant dense
// CHECK: func.return
func.func @main(%i: tensor<64x24xui8>) -> (tensor<64x96xi32>, tensor<64x96xi32>) {
  %table = arith.constant dense<3> : tensor<24x16x96xi8>
  %s = lut.lookup layer "encoder.0.query" %i in %table quant <bits = 8, scheme = per_column> {upmem.mapping = #upmem.mapping<tasklets = 5, load = fine>} : (tensor<64x24xui8>, tensor<24x16x96xi8>) -> tensor<64x96xi32>
  %t = lut.lookup %i in %table quant <bits = 8, scheme = per_column> : (tensor<64x24xui8>, tensor<24x16x96xi8>) -> tensor<64x96xi32>
  func.return %s, %t : tensor<64x96xi32>, tensor<64x96xi32>
}
