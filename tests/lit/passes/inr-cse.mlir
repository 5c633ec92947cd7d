// RUN: inr-opt -p inr-cse %s | filecheck %s
// RUN: inr-opt -p inr-cse,inr-cse %s | filecheck %s

// CHECK-LABEL: func.func @commutative
func.func @commutative(%a: tensor<8xf64>, %b: tensor<8xf64>) -> tensor<8xf64> {
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %a, %b
  // CHECK-NEXT: %[[E:.*]] = inr.compare eq %a, %b
  // CHECK-NEXT: inr.select %[[E]], %[[P]], %[[P]]
  %0 = arith.mulf %a, %b : tensor<8xf64>
  %1 = arith.mulf %b, %a : tensor<8xf64>
  %2 = inr.compare eq %b, %a : tensor<8xf64>
  %3 = inr.select %2, %0, %1 : tensor<8xf64>
  func.return %3 : tensor<8xf64>
}

// CHECK-LABEL: func.func @not_commutative
func.func @not_commutative(%a: tensor<8xf64>, %b: tensor<8xf64>) -> (tensor<8xf64>, tensor<8xf64>) {
  // CHECK-NEXT: arith.subf %a, %b
  // CHECK-NEXT: arith.subf %b, %a
  // CHECK-NEXT: func.return
  %0 = arith.subf %a, %b : tensor<8xf64>
  %1 = arith.subf %b, %a : tensor<8xf64>
  func.return %0, %1 : tensor<8xf64>, tensor<8xf64>
}

// CHECK-LABEL: func.func @first_name_stays
func.func @first_name_stays() -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  // CHECK-NEXT: %[[C:.*]] = arith.constant {inr.name = "first"} dense<[1.000000e+00, 2.000000e+00]>
  // CHECK-NEXT: func.return %[[C]], %[[C]], %[[C]]
  %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf64>
  %1 = arith.constant {inr.name = "first"} dense<[1.0, 2.0]> : tensor<2xf64>
  %2 = arith.constant {inr.name = "second"} dense<[1.0, 2.0]> : tensor<2xf64>
  func.return %0, %1, %2 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}
