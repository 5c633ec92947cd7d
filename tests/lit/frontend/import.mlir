// REQUIRES: torch-mlir
// RUN: inr-import %S/Inputs/line.py:net -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: inr-opt %t.mlir | filecheck %s --check-prefix=PARSED
// RUN: inr-import --generic --locations %S/Inputs/line.py:sort | inr-opt --print-debuginfo | filecheck %s --check-prefix=LINE

// CHECK: func.func @line_net(%arg0: !torch.vtensor<[3,2],f32> {inr.name = "input"}) -> (!torch.vtensor<[3,1],f32> {inr.name = "out0"}) {
// CHECK-NEXT: %[[W:.*]] = torch.vtensor.literal(dense<{{.*}}> : tensor<1x2xf32>) {inr.name = "weight"} : !torch.vtensor<[1,2],f32>
// CHECK-NEXT: torch.aten.t %[[W]]
// CHECK-NEXT: torch.vtensor.literal(dense<{{.*}}> : tensor<1xf32>) {inr.name = "bias"} : !torch.vtensor<[1],f32>

// PARSED: func.func @line_net(%{{.*}}: !torch.vtensor<[3,2],f32> {inr.name = "input"}) -> (!torch.vtensor<[3,1],f32> {inr.name = "out0"}) {
// PARSED: torch.aten.addmm

// LINE: torch.aten.sort {{.*}} loc("{{.*}}line.py":10:0)
