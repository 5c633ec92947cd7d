// The program of the DPUs of a tiled layer: kernels as functions behind a switch.
// RUN: inr-opt -t 'dpu-c{model=net}' %S/Inputs/lut_tiled.mlir | filecheck %s
// RUN: not inr-opt -t dpu-c %S/Inputs/lut_layer.mlir 2>&1 | filecheck %s --check-prefix=NONE

// NONE: dpu-c: no upmem.kernel here; run convert-lut-to-upmem before

// CHECK:       #define NET_FC1 1
// CHECK:       #define DPU_FC1_TABLE_BYTES 3072
// CHECK:       #if NR_TASKLETS != NET_TASKLETS
// CHECK:       __host uint32_t operation;
// CHECK-NEXT:  __mram_noinit uint8_t dpu_index[160];
// CHECK:       __mram_noinit uint8_t dpu_fc1_table[3072]; /* resident */
// CHECK:       static uint8_t __dma_aligned wram[752];
// CHECK:       BARRIER_INIT(all_3, 3);
// CHECK:       /* x/3 rounded up, for x up to 10. */
// CHECK:       /* One row, 8 columns, 16 centroids of 8 bits: two 16-bit lanes a register. */
// CHECK-NEXT:  static inline void add_swar16_8_k16_b8_u8_i32(
// CHECK:           even[w] += word & 0x00FF00FFu;
// CHECK-NEXT:      rest[w] += word >> 8;
// CHECK:        * fc1:
// CHECK-NEXT:   * 12 codebooks of 16 centroids, 20 outputs of 8 bits an entry, up to 20 rows a call.
// CHECK:        * Mapping: ip=2 lp=2 n_m=6 f_m=8 c_m=8 f_l=8 c_l=4 order=nfc load=coarse tasklets=3
// CHECK:       static __noinline void fc1(void)
// CHECK:         for (uint32_t n = 0u; n < rows; n += 6u) {
// CHECK-NEXT:      const uint32_t n_rows = least(rows - n, 6u);
// CHECK-NEXT:      const uint32_t run = ceil_div_3(n_rows);
// CHECK:           for (uint32_t f = 0u; f < 2u; f++) {
// CHECK:             for (uint32_t c = 0u; c < 2u; c++) {
// CHECK:               const uint32_t c_size = (c == 1u) ? 4u : 8u;
// CHECK:               for (uint32_t cl = 0u; cl < c_size; cl += 4u) {
// CHECK:                 barrier_wait(&all_3);
// CHECK:                   mram_read(dpu_fc1_table + {{.*}} + done, entries + done, least(512u, rest));
// CHECK:                 barrier_wait(&all_3);
// CHECK:                 for (uint32_t row = 0u; row < own_rows; row++) {
// CHECK-NEXT:              add_swar16_8_k16_b8_u8_i32(
// CHECK:             mram_write(accumulators + own_sums, dpu_sums + {{.*}}, least(64u, sum_bytes));
// CHECK:       int main(void)
// CHECK:         case NET_FC1:
// CHECK-NEXT:      fc1();
