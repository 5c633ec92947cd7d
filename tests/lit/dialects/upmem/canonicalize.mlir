// RUN: inr-opt -p cse,dce,canonicalize,cse %s | filecheck %s

upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table resident : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.symbol @batch : memref<2xi32, #upmem.wram>

// Moves and barriers are not merged and stay in order; what tasklet runs is asked once, a buffer
// that nobody uses goes away, two equal buffers are two.
// CHECK-LABEL: upmem.kernel @moves
// CHECK: upmem.tasklet_id
// CHECK-NOT: upmem.tasklet_id
// CHECK: upmem.wram_buffer at 0
// CHECK-NEXT: upmem.wram_buffer at 64
// CHECK-NOT: upmem.wram_buffer
// CHECK: upmem.dma_read
// CHECK-NEXT: upmem.barrier
// CHECK-NEXT: upmem.barrier
// CHECK-NEXT: upmem.dma_read
// CHECK-NEXT: upmem.dma_read
// CHECK-NEXT: upmem.dma_write
// CHECK-NEXT: }
upmem.kernel @moves(%index = @index : memref<128xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c32 = arith.constant 32 : index
  %me = upmem.tasklet_id
  %me2 = upmem.tasklet_id
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %j = upmem.wram_buffer at 64 : memref<64xi8, #upmem.wram>
  %nobody = upmem.wram_buffer at 128 : memref<64xi8, #upmem.wram>
  %a = arith.muli %me, %c32 : index
  %b = arith.muli %me2, %c32 : index
  upmem.dma_read %index[%a] to %i[%b] size 32 : memref<128xi8, #upmem.mram>, memref<64xi8, #upmem.wram>
  upmem.barrier
  upmem.barrier
  upmem.dma_read %index[%a] to %i[%b] size 32 : memref<128xi8, #upmem.mram>, memref<64xi8, #upmem.wram>
  upmem.dma_read %index[%a] to %j[%b] size 32 : memref<128xi8, #upmem.mram>, memref<64xi8, #upmem.wram>
  upmem.dma_write %i[%b] to %sums[%a] size 32 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram>
}

// Two grids are two grids, one that nobody uses is not allocated.
// CHECK-LABEL: func.func @grids
// CHECK-NEXT: upmem.alloc_grid
// CHECK-NEXT: upmem.alloc_grid
// CHECK-NEXT: func.return
func.func @grids() -> (!upmem.grid<dpus = 2, groups = 1, tasklets = 2>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>) {
  %a = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  %b = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  %c = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return %a, %b : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
}

// What is packed twice is packed once, what is sent twice is sent twice. A gather that nobody reads
// goes away; two with a launch between them are not one.
// CHECK-LABEL: func.func @commands
// CHECK: upmem.pack_indices
// CHECK-NOT: upmem.pack_indices
// CHECK: upmem.scatter
// CHECK-NEXT: upmem.scatter
// CHECK-NEXT: upmem.gather
// CHECK-NEXT: upmem.launch
// CHECK-NEXT: upmem.wait
// CHECK-NEXT: upmem.gather
// CHECK-NEXT: func.return
func.func @commands(%grid: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %i: tensor<32x4xui8>, %room: tensor<2x512xi8>) -> (tensor<2x512xi8>, tensor<2x512xi8>) {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %rows = upmem.batch max 32
  %again = upmem.batch max 32
  %p = upmem.pack_indices %i rows %rows for @moves : tensor<32x4xui8> -> tensor<2x128xi8>
  %q = upmem.pack_indices %i rows %again for @moves : tensor<32x4xui8> -> tensor<2x128xi8>
  upmem.scatter %p bytes %c128 to @index of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.scatter %q bytes %c128 to @index of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  %s = upmem.gather @sums bytes %c512 of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 into %room : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  upmem.launch @moves on %grid[%c0] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  upmem.wait %grid[%c0] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  %t = upmem.gather @sums bytes %c512 of %grid[%c0] map affine_map<(d0) -> (d0)> dpus 2 into %room : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  %nobody = upmem.gather @sums bytes %c512 of %grid[%c0] map affine_map<(d0) -> (d0 floordiv 2)> dpus 2 into %room : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  func.return %s, %t : tensor<2x512xi8>, tensor<2x512xi8>
}
