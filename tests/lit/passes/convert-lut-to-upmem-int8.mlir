// A product of bytes is tiled like a table of one row an input; rounding and scaling are the host's.
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=8 f_m=8 c_m=8 f_l=8 c_l=8 tasklets=4 order=nfc load=coarse variant=int8 out=i32 idx_bits=8 residency=resident split_cb=1 groups=1"}' %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: inr-opt -t dpu-c %t.mlir | filecheck --check-prefix=DPU %s
// RUN: inr-opt -t upmem-host-c %t.mlir | filecheck --check-prefix=HOST %s

// CHECK: upmem.symbol @index : memref<128xi8, #upmem.mram>
// CHECK: upmem.symbol @fc1_table resident : memref<96xi8, #upmem.mram>
// CHECK: upmem.kernel @fc1(
// CHECK-SAME: variant = int8
// CHECK-SAME: shape #upmem.shape<rows = 16, codebooks = 10, centroids = 1, features = 10, bits = 8, acc_low = -3810, acc_high = 3810, in_features = 10, vec = 1, activation = 127>
// CHECK: upmem.int8_accumulate %indices[{{.*}}] pitch %{{.*}} rows %own_rows count %{{.*}} of %entries[{{.*}}] into %accumulators[{{.*}}] pitch %{{.*}} fresh %{{.*}} inputs 8 columns 8
// CHECK: func.func @upmem_open()
// CHECK: upmem.pack_table %{{.*}} for @fc1 : tensor<10x10xi8> -> tensor<2x96xi8>
// CHECK: func.func @main(%grid: !upmem.grid<dpus = 4, groups = 1, tasklets = 4>, %x: tensor<16x10xf64>)
// CHECK: %activations = lut.to_int8 %x by %{{.*}} : (tensor<16x10xf64>, tensor<1xf32>) -> tensor<16x10xi8>
// CHECK: upmem.pack_indices %activations rows %rows for @fc1
// CHECK: upmem.launch @fc1
// CHECK: %sums = upmem.unpack_sums
// CHECK: lut.dequant %sums : tensor<16x10xi32> scale %{{.*}} -> tensor<16x10xf64>
// CHECK-NOT: lut.int8_linear
// CHECK: func.return

// DPU: sum0[f] = add_product(sum0[f], a0[u], weight);
// DPU-NEXT: sum1[f] = add_product(sum1[f], a1[u], weight);
// DPU: An int8 product of 10 inputs, 10 outputs, up to 16 rows a call.
// DPU: multiply_int8_8_i32(

// HOST: .product = 1,
// HOST: .steps = {
func.func @main(%x: tensor<16x10xf64>) -> tensor<16x10xf64> {
  %w = arith.constant dense<-3> : tensor<10x10xi8>
  %step = arith.constant dense<0.5> : tensor<1xf32>
  %scale = arith.constant dense<0.25> : tensor<10xf32>
  %y = lut.int8_linear layer "fc1" %x : tensor<16x10xf64> step %step : tensor<1xf32> weight %w : tensor<10x10xi8> scale %scale : tensor<10xf32> -> tensor<16x10xf64>
  func.return %y : tensor<16x10xf64>
}
