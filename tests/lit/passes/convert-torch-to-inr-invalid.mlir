// RUN: not inr-opt -p convert-torch-to-inr %s 2>&1 | filecheck %s

// The first operator without a place at the graph level is named, whatever comes before it.

// CHECK: torch.aten.sort{{.*}}on (!torch.vtensor<[4],f32>, !torch.int, !torch.bool) is not supported
func.func @sort(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %d = torch.constant.int 0
  %b = torch.constant.bool false
  %n = torch.aten.neg %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %y, %i = torch.aten.sort %n, %d, %b : !torch.vtensor<[4],f32>, !torch.int, !torch.bool -> !torch.vtensor<[4],f32>, !torch.vtensor<[4],si64>
  return %y : !torch.vtensor<[4],f32>
}
