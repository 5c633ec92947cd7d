// RUN: inr-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: a grid has at least one of tasklets, not 0
func.func private @t(!upmem.grid<dpus = 4, groups = 1, tasklets = 0>) -> ()

// -----

// CHECK: 5 DPUs in groups of 2 are fewer than 4 groups
func.func private @t(!upmem.grid<dpus = 5, groups = 4, tasklets = 2>) -> ()

// -----

// CHECK: upmem.mapping has no field ipp
func.func private @t() -> () attributes {m = #upmem.mapping<ipp = 4>}

// -----

// CHECK: order is one of nfc, ncf, fnc, fcn, cnf, cfn, not nnf
func.func private @t() -> () attributes {m = #upmem.mapping<order = nnf>}

// -----

// CHECK: ip is an integer, not nfc
func.func private @t() -> () attributes {m = #upmem.mapping<ip = nfc>}

// -----

// CHECK: lp is at least 1, not 0
func.func private @t() -> () attributes {m = #upmem.mapping<lp = 0>}

// -----

// CHECK: idx_bits is 4, 8 or 16, not 5
func.func private @t() -> () attributes {m = #upmem.mapping<idx_bits = 5>}

// -----

// CHECK: a shape needs features, bits
func.func private @t() -> () attributes {m = #upmem.shape<rows = 4, codebooks = 4, centroids = 2>}

// -----

// CHECK: @x lies in #upmem.mram or #upmem.wram, not memref<8xi8>
upmem.symbol @x : memref<8xi8>

// -----

// CHECK: @x has 12 bytes; transfers move multiples of 8
upmem.symbol @x : memref<3xi32, #upmem.mram>

// -----

// CHECK: a buffer holds integers of 8 to 64 bits, not i4
upmem.symbol @x : memref<16xi4, #upmem.mram>

// -----

// CHECK: a buffer has one static dimension, not memref<8x8xi8, #upmem.mram>
upmem.symbol @x : memref<8x8xi8, #upmem.mram>

// -----

// CHECK: the mapping of a kernel has lp, n_m
upmem.kernel @k() target #upmem.target<"v1A"> mapping #upmem.mapping<ip = 4> shape #upmem.shape<rows = 4, codebooks = 4, centroids = 2, features = 8, bits = 8> {
}

// -----

// CHECK: there is no upmem.symbol @nothing
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%x = @nothing : memref<8xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}

// -----

// CHECK: @index is memref<128xi8, #upmem.mram>, the argument memref<64xi8, #upmem.mram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%x = @index : memref<64xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}

// -----

// CHECK: R4: tasklets: 25 of at most 24, 1 too many
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 25, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}

// -----

// CHECK: R1: bytes of MRAM ({{.*}}): 128,000,512 of at most 67,108,864
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 800000, centroids = 16, features = 8, bits = 8> {
}

// -----

// CHECK: two WRAM buffers overlap: one ends at 64, one starts at 56
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %a = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %b = upmem.wram_buffer at 56 : memref<64xi8, #upmem.wram>
}

// -----

// CHECK: a buffer of 64 bytes at 4: both are multiples of 8
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %a = upmem.wram_buffer at 4 : memref<64xi8, #upmem.wram>
}

// -----

// CHECK: the buffer lies in #upmem.wram, not memref<64xi8, #upmem.mram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %a = upmem.wram_buffer at 0 : memref<64xi8, #upmem.mram>
}

// -----

// CHECK: a WRAM buffer is static: it lies at the top of its kernel
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %true = arith.constant true
  scf.if %true {
    %a = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  }
}

// -----

// CHECK: R2: buffers, 2 stacks and the runtime take {{[0-9,]*}} bytes of WRAM, {{[0-9,]*}} more than 65,536
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %a = upmem.wram_buffer at 0 : memref<65536xi8, #upmem.wram>
}

// -----

// CHECK: a DMA moves 8 to 2048 bytes, a multiple of 8, not 2056
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_read %table[%c0] to %t[%c0] size 2056 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
}

// -----

// CHECK: a DMA moves 8 to 2048 bytes, a multiple of 8, not 12
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_read %table[%c0] to %t[%c0] size 12 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
}

// -----

// CHECK: the rest of a DMA is a multiple of 8, and no more than a multiple of 4 is proved (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_read %table[%c0] to %t[%c0] size 16 rest %c4 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
}

// -----

// CHECK: an offset of a DMA is a multiple of 8, and no more than a multiple of 12 is proved (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_write %t[%c0] to %sums[%c12] size 16 : memref<512xi8, #upmem.wram>, memref<512xi8, #upmem.mram>
}

// -----

// CHECK: 16 bytes at 504 lie outside a buffer of 512
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_read %table[%c504] to %t[%c0] size 16 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
}

// -----

// CHECK: an offset of a DMA is a multiple of 8, and no more than a multiple of 4 is proved (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  %me = upmem.tasklet_id
  %o = arith.muli %me, %c12 : index
  %p = arith.minui %o, %c504 : index
  %q = arith.addi %p, %c4 : index
  upmem.dma_read %table[%q] to %t[%c0] size 16 : memref<512xi8, #upmem.mram>, memref<512xi8, #upmem.wram>
}

// -----

// CHECK: upmem.dma_read goes from #upmem.mram to #upmem.wram, not from memref<512xi8, #upmem.wram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.dma_read %t[%c0] to %sums[%c0] size 16 : memref<512xi8, #upmem.wram>, memref<512xi8, #upmem.mram>
}

// -----

// CHECK: codebooks come in turns of 4: 6 do not
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 6 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: 260 entries up to 255 in a lane of 65535 (R9): 1 to 257
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 260 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: 4 entries up to 127 in a lane of 255 (R9): 1 to 2
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar8 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 64 flush 4 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: swar8, and nothing else, says after how many it flushes
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar8 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 32 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: scalar32 adds signed entries: a bias of 0, not 128
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate scalar32 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: swar16 adds biased entries: 2 to 128, not 0
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 0 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: swar16 takes four columns a word: 6 are not
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 6 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: an index up to 16 does not fit 4 bits (R10)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 17 idx_bits 4 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: an index up to {{[0-9]*}} does not fit 16 bits (R10)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 512 centroids 256 idx_bits 16 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: an index has 4, 8 or 16 bits, not 5
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 5 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: 8 columns of 300 centroids; 1 or more of 1 to 256
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 300 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: the table in #upmem.wram, not memref<512xi8, #upmem.mram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %table[%c0] into %a[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: a row of 4 bytes is no DMA: 8 to 2048, a multiple of 8 (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %table[%c0] via %t[%c0] into %a[%c0] fresh %true codebooks 4 columns 4 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram> via memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: sums are i16 or i32, not i8
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %t[%c0] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<512xi8, #upmem.wram>
}

// -----

// CHECK: 'upmem.barrier' expects ancestor op 'upmem.kernel'
func.func @f() {
  upmem.barrier
  func.return
}

// -----

// CHECK: a batch has at least one row, not 0
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.batch max 0
  func.return
}

// -----

// CHECK: 4 parts, at least one, need as many rows of 2, not 2x2
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.split_rows %c over 4 : tensor<2x2xi32>
  func.return
}

// -----

// CHECK: there is no upmem.kernel @other
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.pack_indices %i rows %c for @other : tensor<32x4xui8> -> tensor<2x128xi8>
  func.return
}

// -----

// CHECK: indices 32x4, not 32x5
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%c: index, %j: tensor<32x5xui8>) {
  %r = upmem.pack_indices %j rows %c for @layer : tensor<32x5xui8> -> tensor<2x128xi8>
  func.return
}

// -----

// CHECK: packed indices 2x128, not 2x120
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.pack_indices %i rows %c for @layer : tensor<32x4xui8> -> tensor<2x120xi8>
  func.return
}

// -----

// CHECK: the packed table 1x512, not 1x256
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.pack_table %t for @layer : tensor<4x16x8xi8> -> tensor<1x256xi8>
  func.return
}

// -----

// CHECK: sums of i32 from -508 to 508 do not go into i8
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.unpack_sums %s rows %c for @layer : tensor<2x512xi8> -> tensor<32x8xi8>
  func.return
}

// -----

// CHECK: R8: 2561 DPUs of 2560 that v1A has
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2561, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: R4: 25 tasklets of 24 that v1A has
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.alloc_grid target <"v1A"> : !upmem.grid<dpus = 2, groups = 1, tasklets = 25>
  func.return
}

// -----

// CHECK: DPU 1 takes row 2 of 2
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.scatter %p bytes %c to @index of %g[%c] map affine_map<(d0) -> (d0 * 2)> dpus 2 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: a map from a DPU to a row, not (d0, d1) -> (d0)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.scatter %p bytes %c to @index of %g[%c] map affine_map<(d0, d1) -> (d0)> dpus 2 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: 3 DPUs of 2
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.scatter %p bytes %c to @index of %g[%c] map affine_map<(d0) -> (0)> dpus 3 : tensor<2x128xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: rows of 512 bytes do not fit @index of 128
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.scatter %s bytes %c to @index of %g[%c] map affine_map<(d0) -> (d0)> dpus 2 : tensor<2x512xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: 1024 bytes are no multiple of 8 that fits @table of 512
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.broadcast %s to @table of %g[%c] : tensor<2x512xi8>, !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: rows of 512 bytes are longer than @index of 128
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  %r = upmem.gather @index bytes %c of %g[%c] map affine_map<(d0) -> (d0)> dpus 2 into %s : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, tensor<2x512xi8> -> tensor<2x512xi8>
  func.return
}

// -----

// CHECK: @layer runs 4 tasklets, the grid has 2
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 4, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
}
func.func @f(%g: !upmem.grid<dpus = 2, groups = 1, tasklets = 2>, %c: index, %i: tensor<32x4xui8>, %p: tensor<2x128xi8>, %s: tensor<2x512xi8>, %t: tensor<4x16x8xi8>) {
  upmem.launch @layer on %g[%c] : !upmem.grid<dpus = 2, groups = 1, tasklets = 2>
  func.return
}

// -----

// CHECK: the offset of sums is a multiple of 4, and no more than a multiple of 1 is proved (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<512xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<512xi8, #upmem.mram>)
    target #upmem.target<"v1A">
    mapping #upmem.mapping<ip = 2, lp = 1, n_m = 8, f_m = 8, c_m = 4, f_l = 8, c_l = 4, order = nfc, load = coarse, tasklets = 2, variant = swar16, idx_bits = 8, out = i32, residency = resident, groups = 1, split_cb = 1>
    shape #upmem.shape<rows = 32, codebooks = 4, centroids = 16, features = 8, bits = 8> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %c504 = arith.constant 504 : index
  %true = arith.constant true
  %i = upmem.wram_buffer at 0 : memref<64xi8, #upmem.wram>
  %t = upmem.wram_buffer at 64 : memref<512xi8, #upmem.wram>
  %a = upmem.wram_buffer at 576 : memref<64xi32, #upmem.wram>
  %me = upmem.tasklet_id
  upmem.lut_accumulate swar16 %i[%c0] count %c4 of %t[%c0] into %a[%me] fresh %true codebooks 4 columns 8 centroids 16 idx_bits 8 bias 128 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: columns come in fours: 6 do not
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %a[%c0] pitch %c32 fresh %true inputs 8 columns 6 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: inputs come in turns of 4: 6 do not
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %a[%c0] pitch %c32 fresh %true inputs 6 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: products of 133148 inputs overflow 32 bits (R9): at most 133144
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %a[%c0] pitch %c32 fresh %true inputs 133148 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: weights lie in #upmem.wram, not memref<512xi8, #upmem.mram>
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %table[%c0] into %a[%c0] pitch %c32 fresh %true inputs 8 columns 8 : memref<64xi8, #upmem.wram>, memref<512xi8, #upmem.mram> into memref<64xi32, #upmem.wram>
}

// -----

// CHECK: sums are i16 or i32, not i8
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %i[%c0] pitch %c8 fresh %true inputs 8 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi8, #upmem.wram>
}

// -----

// CHECK: the pitch of sums is a multiple of 4, and no more than a multiple of 1 is proved (R5)
upmem.symbol @index : memref<128xi8, #upmem.mram>
upmem.symbol @table : memref<512xi8, #upmem.mram>
upmem.symbol @sums : memref<1024xi8, #upmem.mram>
upmem.kernel @layer(%index = @index : memref<128xi8, #upmem.mram>, %table = @table : memref<512xi8, #upmem.mram>, %sums = @sums : memref<1024xi8, #upmem.mram>)
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
  %me = upmem.tasklet_id
  upmem.int8_accumulate %i[%c0] pitch %c8 rows %c8 count %c8 of %w[%c0] into %a[%c0] pitch %me fresh %true inputs 8 columns 8 : memref<64xi8, #upmem.wram>, memref<64xi8, #upmem.wram> into memref<64xi32, #upmem.wram>
}
