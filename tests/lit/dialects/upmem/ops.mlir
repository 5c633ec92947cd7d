// RUN: INR_ROUNDTRIP
// RUN: INR_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !upmem.grid<dpus = 100, groups = 4, tasklets = 16>
// CHECK-SAME: memref<64xi8, #upmem.mram>
// CHECK-SAME: memref<16xi32, #upmem.wram>
func.func private @types(
  !upmem.grid<dpus = 100, groups = 4, tasklets = 16>,
  memref<64xi8, #upmem.mram>,
  memref<16xi32, #upmem.wram>) -> ()

// Fields are printed in one order, whatever the order they are given in.
// CHECK: func.func private @fields() -> () attributes {upmem.mapping = #upmem.mapping<ip = 4, order = cfn, load = fine, out = i16>}
func.func private @fields() attributes {upmem.mapping = #upmem.mapping<out = i16, load = fine, order = cfn, ip = 4>}

// CHECK: upmem.symbol @index : memref<128xi8, #upmem.mram>
// CHECK-NEXT: upmem.symbol @table resident : memref<512xi8, #upmem.mram>
// CHECK-NEXT: upmem.symbol @sums : memref<512xi8, #upmem.mram>
// CHECK-NEXT: upmem.symbol @batch : memref<2xi32, #upmem.wram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table resident : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.symbol @batch : memref<2xi32, #upmem.wram>

// CHECK-LABEL: upmem.kernel @layer(%{{.*}} = @index : memref<128xi8, #upmem.mram>, %{{.*}} = @table : memref<512xi8, #upmem.mram>, %{{.*}} = @sums : memref<512xi8, #upmem.mram>, %{{.*}} = @batch : memref<2xi32, #upmem.wram>)
// CHECK-SAME: target #upmem.target<"v1A"> mapping #upmem.mapping<ip = 2, lp = 1,
// CHECK-SAME: shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8>
// CHECK-SAME: attributes {layer = "fc"}
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>, %batch = @batch : memref<2xi32, #upmem.wram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8>
    attributes {layer = "fc"} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %true = arith.constant true
  // CHECK: %[[ME:.*]] = upmem.tasklet_id
  %me = upmem.tasklet_id
  // CHECK-NEXT: %[[I:.*]] = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  // CHECK-NEXT: %[[T:.*]] = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  // CHECK-NEXT: %[[A:.*]] = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  // CHECK-NEXT: upmem.dma_read %{{.*}}[%{{.*}}] to %[[I]][%{{.*}}] size 64 : memref<128xi8, #upmem.mram>, memref<64xi8, #upmem.wram>
  upmem.dma_read %index[%c0] to %i[%c0] size 64 : memref<128xi8, #upmem.mram>, memref<64xi8, #upmem.wram>
  // CHECK-NEXT: upmem.dma_read %{{.*}}[%{{.*}}] to %[[T]][%{{.*}}] size 2048 rest %{{.*}} : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
  upmem.dma_read %table[%c64] to %t[%c64] size 2048 rest %c64 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
  // CHECK-NEXT: upmem.barrier
  upmem.barrier
  // CHECK-NEXT: upmem.lut_accumulate swar16 %[[I]][%{{.*}}] count %{{.*}} of %[[T]][%{{.*}}] into %[[A]][%{{.*}}] fresh %{{.*}} codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
  // CHECK-NEXT: upmem.lut_accumulate swar8 %[[I]][%{{.*}}] count %{{.*}} of %{{.*}}[%{{.*}}] via %[[T]][%{{.*}}] into %[[A]][%{{.*}}] fresh %{{.*}} codebooks 4 columns 8 centroids 16 idx_bits 4 bias 32 flush 4 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram> via memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar8 %i[%c0] count %c4 of %table[%c0] via %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 4 bias 32 flush 4 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram> via memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
  // CHECK-NEXT: upmem.dma_write %[[A]][%{{.*}}] to %{{.*}}[%{{.*}}] size 256 : memref<64xi32, #upmem.wram>, memref<512xi8, #upmem.mram>
  upmem.dma_write %a[%c0] to %sums[%c0] size 256 : memref<64xi32, #upmem.wram>, memref<512xi8, #upmem.mram>
}

// CHECK-LABEL: func.func @open(
func.func @open(%table: tensor<4x16x8xi8>) -> !upmem.grid<dpus = 2, groups = 1, tasklets = 2> {
  %c0 = arith.constant 0 : index
  // CHECK: %[[G:.*]] = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  %grid = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  // CHECK-NEXT: %[[T:.*]] = upmem.pack_table %{{.*}} for @layer : tensor<4x16x8xi8> -> tensor<1x512xi8>
  %t = upmem.pack_table %table for @layer : tensor<4x16x8xi8> -> tensor<1x512xi8>
  // CHECK-NEXT: upmem.broadcast %[[T]] to @table of %[[G]][%{{.*}}] : tensor<1x512xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.broadcast %t to @table of %grid[%c0] : tensor<1x512xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return %grid : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
}

// CHECK-LABEL: func.func @call(
func.func @call(%grid: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %i: tensor<32x4xui8>, %room: tensor<2x512xi8>) -> tensor<32x8xi32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  // CHECK: %[[R:.*]] = upmem.batch max 32
  %rows = upmem.batch max 32
  // CHECK-NEXT: %[[B:.*]] = upmem.split_rows %[[R]] over 2 : tensor<2x2xi32>
  %b = upmem.split_rows %rows over 2 : tensor<2x2xi32>
  // CHECK-NEXT: %[[P:.*]] = upmem.pack_indices %{{.*}} rows %[[R]] for @layer : tensor<32x4xui8> -> tensor<2x128xi8>
  %p = upmem.pack_indices %i rows %rows for @layer : tensor<32x4xui8> -> tensor<2x128xi8>
  // CHECK-NEXT: upmem.scatter %[[B]] bytes %{{.*}} to @batch of %{{.*}}[%{{.*}}] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x2xi32>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.scatter %b bytes %c8 to @batch of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x2xi32>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  // CHECK-NEXT: upmem.scatter %[[P]]
  upmem.scatter %p bytes %c128 to @index of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  // CHECK-NEXT: upmem.launch @layer on %{{.*}}[%{{.*}}] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.launch @layer on %grid[%c0] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  // CHECK-NEXT: upmem.wait %{{.*}}[%{{.*}}] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.wait %grid[%c0] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  // CHECK-NEXT: %[[S:.*]] = upmem.gather @sums bytes %{{.*}} of %{{.*}}[%{{.*}}] map affine_map<(d0) -> (d0)> dpus 2 into %{{.*}} : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  %s = upmem.gather @sums bytes %c512 of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 into %room : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  // CHECK-NEXT: upmem.unpack_sums %[[S]] rows %[[R]] for @layer : tensor<2x512xi8> -> tensor<32x8xi32>
  %y = upmem.unpack_sums %s rows %rows for @layer : tensor<2x512xi8> -> tensor<32x8xi32>
  func.return %y : tensor<32x8xi32>
}

// CHECK-LABEL: func.func @close(
func.func @close(%grid: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>) {
  // CHECK-NEXT: upmem.free %{{.*}} : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.free %grid : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

upmem.symbol @activations : memref<128xi8, #upmem.mram>
upmem.symbol @weights : memref<512xi8, #upmem.mram>
upmem.symbol @products : memref<1024xi8, #upmem.mram>
// CHECK: upmem.kernel @product(
// CHECK: shape #upmem.shape<rows = 16, codebooks = 8, centroids = 1, features = 8, bits = 8, activation = 127>
upmem.kernel @product(%index = @activations : memref<128xi8, #upmem.mram>, %table = @weights : memref<512xi8, #upmem.mram>, %sums = @products : memref<1024xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 8, f_l = 8, c_l = 8, order = nfc, load = coarse, tasklets = 2, variant = int8, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 16, codebooks = 8, centroids = 1, features = 8, bits = 8, activation = 127> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %w = upmem.wram_buffer at 64 : memref<64xi8, #upmem.wram>
  %a = upmem.wram_buffer at 128 : memref<64xi32, #upmem.wram>
  // CHECK: upmem.int8_accumulate %{{.*}}[%{{.*}}] pitch %{{.*}} rows %{{.*}} count %{{.*}} of %{{.*}}[%{{.*}}] into %{{.*}}[%{{.*}}] pitch %{{.*}} fresh %{{.*}} inputs 8 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %a[%c0] pitch %c32 fresh %true inputs 8 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}
