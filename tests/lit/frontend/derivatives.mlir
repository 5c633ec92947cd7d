// REQUIRES: torch-mlir
// RUN: inr-import --order 1 %S/Inputs/line.py:net | inr-opt -p cse | filecheck %s
// RUN: inr-import --outputs laplacian %S/Inputs/line.py:net | filecheck %s --check-prefix=LAPLACIAN

// CHECK: -> (!torch.vtensor<[3],f32> {inr.name = "y"}, !torch.vtensor<[3],f32> {inr.name = "dy_dx0"}, !torch.vtensor<[3],f32> {inr.name = "dy_dx1"})
// CHECK: %[[SEED:.*]] = torch.aten.select_scatter
// CHECK: torch.aten.mm %[[SEED]]

// A line has no curvature, and does not need its weights for that.
// LAPLACIAN: -> (!torch.vtensor<[3],f32> {inr.name = "laplacian_y"})
// LAPLACIAN-NOT: torch.vtensor.literal
// LAPLACIAN: return
