// What the host of a tiled layer has to know.
// RUN: inr-opt -t 'upmem-host-c{model=net}' %S/Inputs/lut_tiled.mlir | filecheck %s
// RUN: not inr-opt -t upmem-host-c %S/Inputs/lut_layer.mlir 2>&1 | filecheck %s --check-prefix=NONE

// NONE: no upmem.kernel here; run convert-lut-to-upmem before

// CHECK:       /* fc1: x has 46 values a row, y 20. */
// CHECK-NEXT:  static inline int net_fc1(
// CHECK:       static const inr_lut_layer layers[] = {
// CHECK:           .name = "fc1",
// CHECK-NEXT:      .operation = NET_FC1,
// CHECK-NEXT:      .rows = 20,
// CHECK:           .table_symbol = "dpu_fc1_table",
// CHECK-NEXT:      .table_bytes = 3072,
// CHECK-NEXT:      .resident = 1,
// CHECK-NEXT:      .table = {0, 6144},
// CHECK-NEXT:      .points = {6144, 1536},
// CHECK:       const inr_lut_program net_program = {
// CHECK:           .dpus = 4,
// CHECK-NEXT:      .groups = 1,
// CHECK-NEXT:      .index_symbol = "dpu_index",
// CHECK:           .weights_bytes = 7888,
