// RUN: inr-opt %S/Inputs/siren_order1.mlir -p inr-hls-pipeline | filecheck %s
// RUN: inr-opt %S/Inputs/siren_order1_generic.mlir -p inr-hls-pipeline | filecheck %s
// RUN: inr-opt %S/Inputs/siren_order1.mlir -p inr-hls-pipeline -o %t.once.mlir
// RUN: inr-opt %S/Inputs/siren_order1.mlir -p inr-hls-pipeline,inr-hls-pipeline -o %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir
// RUN: inr-opt %S/Inputs/siren_order1.mlir -p inr-hls-pipeline -t hls-cpp | filecheck %s --check-prefix=CPP
// RUN: inr-opt %S/Inputs/siren_order1.mlir -p inr-hls-pipeline -t hls-cpp -o %t.pretty.cpp
// RUN: inr-opt %S/Inputs/siren_order1_generic.mlir -p inr-hls-pipeline -t hls-cpp -o %t.generic.cpp
// RUN: diff %t.pretty.cpp %t.generic.cpp

// What torch-mlir wrote of a SIREN (2-8x2-1, batch 8) and its gradient, in either of its forms. No
// transpose is left, no weight travels, no copy has one output, and the two products of the chain rule
// by scaled weights are the only ones beside the three layers.

// CHECK-LABEL:    func.func @siren_tiny(
// CHECK-NOT:      array_stream.transpose
// CHECK-COUNT-5:  array_stream.matmul
// CHECK-NOT:      array_stream.matmul
// CHECK-NOT:      array_stream.transpose
// CHECK:          func.return

// CPP:            struct sincos_
// CPP-NOT:        inr::transpose<
// CPP:            void siren_tiny(const int32_t x[16], int32_t y[8], int32_t dy_dx0[8], int32_t dy_dx1[8]) {
// CPP-NOT:        inr::transpose<
// CPP:            INR_PROCESS("write_dy_dx1",
