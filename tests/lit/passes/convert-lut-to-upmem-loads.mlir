// How entries come to where they are added: once a launch (static), a sub-tile for all tasklets between
// two barriers (coarse), the same outside the loop over rows where a sub-tile is its whole tile (kept),
// a row at a time (fine).

// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=nfc load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix STATIC
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=nfc load=coarse variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix COARSE
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=8 c_m=4 f_l=8 c_l=4 order=fcn load=coarse variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix KEPT
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=nfc load=fine variant=scalar32 out=i16 idx_bits=16 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix FINE
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=nfc load=static variant=swar16 out=i32 idx_bits=4 tasklets=3 split_cb=2 groups=2 residency=per_call"}' %s | filecheck %s --check-prefix CALL

// STATIC: upmem.symbol @fc_table resident : memref<6144xi8, #upmem.mram>
// STATIC: upmem.kernel @fc(
// STATIC: %entries = upmem.wram_buffer at 432 : memref<6144xi8, #upmem.wram>
// STATIC: scf.for %done = %{{.*}} to %c6144 step %c6144
// STATIC-NEXT: upmem.dma_read %table[%done] to %entries[%done] size 2048 :
// STATIC-NEXT: }
// STATIC-NEXT: upmem.barrier
// STATIC-NEXT: scf.for %n =
// STATIC-NOT: upmem.barrier
// STATIC: upmem.lut_accumulate swar16 %indices[{{.*}}] count %c4 of %entries[{{.*}}] into %accumulators[{{.*}}] fresh %fresh codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128
// STATIC-NOT: upmem.barrier
// STATIC: func.func @upmem_open

// COARSE: upmem.kernel @fc(
// COARSE: %entries = upmem.wram_buffer at {{[0-9]+}} : memref<512xi8, #upmem.wram>
// COARSE-NOT: upmem.barrier
// COARSE: scf.for %fl =
// COARSE: scf.for %cl =
// COARSE: upmem.barrier
// COARSE: upmem.dma_read %table[{{.*}}] to %entries[%done] size 512 :
// COARSE-NEXT: }
// COARSE-NEXT: upmem.barrier
// COARSE: scf.for %row =
// COARSE: upmem.lut_accumulate swar16 %indices[{{.*}}] count %c4 of %entries[%c0]

// KEPT: upmem.kernel @fc(
// KEPT: scf.for %f =
// KEPT: scf.for %c =
// KEPT: upmem.barrier
// KEPT: upmem.dma_read %table[
// KEPT: upmem.barrier
// KEPT-NEXT: scf.for %n =
// KEPT-NOT: upmem.barrier
// KEPT: upmem.lut_accumulate
// KEPT-NOT: upmem.barrier
// KEPT: func.func @upmem_open

// FINE: upmem.kernel @fc(
// FINE: %accumulators = upmem.wram_buffer at {{[0-9]+}} : memref<96xi16, #upmem.wram>
// FINE: %entries = upmem.wram_buffer at {{[0-9]+}} : memref<24xi8, #upmem.wram>
// FINE-NOT: upmem.barrier
// FINE: upmem.lut_accumulate scalar32 %indices[{{.*}}] count %c4 of %table[{{.*}}] via %entries[{{.*}}] into %accumulators[{{.*}}] fresh %fresh codebooks 4 columns 8 centroids 16 idx_bits 16 bias 0 :
// FINE: func.func @upmem_open

// CALL: upmem.symbol @table : memref<3072xi8, #upmem.mram>
// CALL: func.func @upmem_open() -> !upmem.grid<dpus = 8, groups = 2, tasklets = 3> {
// CALL-NEXT: upmem.alloc_grid
// CALL-NEXT: func.return
// CALL: func.func @main(
// CALL: %[[ROWS:.*]] = upmem.batch max 23
// CALL: upmem.split_rows %[[ROWS]] over 2 : tensor<2x2xi32>
// CALL: upmem.pack_indices %i rows %[[ROWS]] for @fc : tensor<23x13xui8> -> tensor<4x96xi8>
// CALL: upmem.pack_table %table for @fc : tensor<13x16x41xi8> -> tensor<4x3072xi8>
// CALL: scf.for %group = %c0 to %c2 step %c1 {
// CALL-NEXT: upmem.scatter %counts bytes %c8 to @batch of %grid[%group] map affine_map<(d0) -> ((d0 floordiv 4))> dpus 8
// CALL-NEXT: upmem.scatter %packed bytes %index_bytes to @index of %grid[%group] map affine_map<(d0) -> ((d0 floordiv 2))> dpus 8
// CALL-NEXT: upmem.scatter %packed_table bytes %c3072 to @table of %grid[%group] map affine_map<(d0) -> ((d0 mod 4))> dpus 8
// CALL-NEXT: upmem.launch @fc on %grid[%group]
// CALL: scf.for %group{{.*}} iter_args(
// CALL-NEXT: upmem.wait %grid[%group
// CALL-NEXT: upmem.gather @sums bytes %sum_bytes of %grid[%group{{.*}}] map affine_map<(d0) -> (d0)> dpus 8
// CALL: upmem.unpack_sums
func.func @main(%i: tensor<23x13xui8>) -> tensor<23x41xi32> {
  %table = arith.constant dense<3> : tensor<13x16x41xi8>
  %s = lut.lookup layer "fc" %i in %table quant <bits = 8, scheme = per_column> : (tensor<23x13xui8>, tensor<13x16x41xi8>) -> tensor<23x41xi32>
  func.return %s : tensor<23x41xi32>
}
