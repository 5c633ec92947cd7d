// RUN: inr-opt -p cse %s | filecheck %s --check-prefix=CSE
// RUN: inr-opt -p canonicalize %s | filecheck %s --check-prefix=CANON

// The dialect folds nothing itself: algebra is done at the level below. What counts here is that
// its operations are pure, which torch-mlir's own are not declared to be.

// CSE-LABEL: func.func @equal_operations_are_merged
func.func @equal_operations_are_merged(%x: !torch.vtensor<[2],f32>) -> (!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>) {
  // CSE-NEXT: %[[TWO:.*]] = torch.constant.float 2.000000e+00
  // CSE-NEXT: %[[Y:.*]] = torch.aten.mul.Scalar %x, %[[TWO]] : {{.*}}
  // CSE-NEXT: func.return %[[Y]], %[[Y]]
  %a = torch.constant.float 2.0
  %b = torch.constant.float 2.0
  %0 = torch.aten.mul.Scalar %x, %a : !torch.vtensor<[2],f32>, !torch.float -> !torch.vtensor<[2],f32>
  %1 = torch.aten.mul.Scalar %x, %b : !torch.vtensor<[2],f32>, !torch.float -> !torch.vtensor<[2],f32>
  func.return %0, %1 : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>
}

// An int and a float of the same value make results of different types.
// CSE-LABEL: func.func @constants_of_different_types_are_not
func.func @constants_of_different_types_are_not(%x: !torch.vtensor<[2],si64>) -> (!torch.vtensor<[2],si64>, !torch.vtensor<[2],f32>) {
  // CSE-NEXT: torch.constant.int 2
  // CSE-NEXT: torch.constant.float 2.000000e+00
  // CSE-NEXT: torch.aten.mul.Scalar
  // CSE-NEXT: torch.aten.mul.Scalar
  %a = torch.constant.int 2
  %b = torch.constant.float 2.0
  %0 = torch.aten.mul.Scalar %x, %a : !torch.vtensor<[2],si64>, !torch.int -> !torch.vtensor<[2],si64>
  %1 = torch.aten.mul.Scalar %x, %b : !torch.vtensor<[2],si64>, !torch.float -> !torch.vtensor<[2],f32>
  func.return %0, %1 : !torch.vtensor<[2],si64>, !torch.vtensor<[2],f32>
}

// CSE-LABEL: func.func @parameters_of_different_names_are_not
func.func @parameters_of_different_names_are_not() -> (!torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>) {
  // CSE-NEXT: torch.vtensor.literal{{.*}}"a"
  // CSE-NEXT: torch.vtensor.literal{{.*}}"b"
  %0 = torch.vtensor.literal(dense<0.5> : tensor<1xf32>) {inr.name = "a"} : !torch.vtensor<[1],f32>
  %1 = torch.vtensor.literal(dense<0.5> : tensor<1xf32>) {inr.name = "b"} : !torch.vtensor<[1],f32>
  func.return %0, %1 : !torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>
}

// CANON-LABEL: func.func @unused_operations_are_removed
func.func @unused_operations_are_removed(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  // CANON-NEXT: func.return %x
  %a = torch.constant.float 2.0
  %0 = torch.aten.mul.Scalar %x, %a : !torch.vtensor<[2],f32>, !torch.float -> !torch.vtensor<[2],f32>
  %1 = torch.operator "torch.aten.made_up"(%0) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  func.return %x : !torch.vtensor<[2],f32>
}
