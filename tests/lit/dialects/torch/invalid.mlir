// RUN: inr-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: torch.aten.mm takes 2 operands (Tensor self, Tensor mat2), got 1
func.func @too_few(%x: !torch.vtensor<[2,2],f32>) {
  %0 = torch.aten.mm %x : !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,2],f32>
  func.return
}

// -----

// CHECK: torch.aten.mul.Scalar: 'other' must be Scalar, got !torch.vtensor<[2],f32>
func.func @wrong_kind(%x: !torch.vtensor<[2],f32>) {
  %0 = torch.aten.mul.Scalar %x, %x : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  func.return
}

// -----

// CHECK: torch.aten.permute: 'dims' must be int[], got !torch.list<float>
func.func @wrong_element(%x: !torch.vtensor<[2,2],f32>, %dims: !torch.list<float>) {
  %0 = torch.aten.permute %x, %dims : !torch.vtensor<[2,2],f32>, !torch.list<float> -> !torch.vtensor<[2,2],f32>
  func.return
}

// -----

// CHECK: torch.aten.mm: 'self' must be Tensor, got !torch.none
func.func @not_optional(%x: !torch.vtensor<[2,2],f32>) {
  %none = torch.constant.none
  %0 = torch.aten.mm %none, %x : !torch.none, !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,2],f32>
  func.return
}

// -----

// CHECK: torch.aten.sort has 2 results, got 1
func.func @too_few_results(%x: !torch.vtensor<[2],f32>) {
  %dim = torch.constant.int 0
  %down = torch.constant.bool false
  %0 = torch.aten.sort %x, %dim, %down : !torch.vtensor<[2],f32>, !torch.int, !torch.bool -> !torch.vtensor<[2],f32>
  func.return
}

// -----

// CHECK: torch.aten.sin: the result must be !torch.vtensor, got !torch.int
func.func @result(%x: !torch.vtensor<[2],f32>) {
  %0 = torch.aten.sin %x : !torch.vtensor<[2],f32> -> !torch.int
  func.return
}

// -----

// CHECK: unknown torch type 'tuple'
func.func @nested(%x: !torch.list<tuple>) {
  func.return
}

// -----

// CHECK: expected a float
func.func @float() {
  %0 = torch.constant.float one
  func.return
}
