// RUN: not inr-opt -p convert-matmul-to-lut %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not inr-opt -p 'convert-matmul-to-lut{calibration="no/such.npz"}' %s 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not inr-opt -p 'convert-matmul-to-lut{layers=conv}' %s 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: not inr-opt -p 'convert-matmul-to-lut{layers="fc("}' %s 2>&1 | filecheck %s --check-prefix=REGEX
// RUN: not inr-opt -p 'convert-matmul-to-lut{k=257}' %s 2>&1 | filecheck %s --check-prefix=K
// RUN: not inr-opt -p 'convert-matmul-to-lut{fit=best}' %s 2>&1 | filecheck %s --check-prefix=FIT

// NONE: convert-matmul-to-lut: needs calibration=FILE.npz with inputs of network: x: 4x2; rows may be more
// FILE: convert-matmul-to-lut: calibration file no/such.npz: {{.*}}No such file
// EMPTY: convert-matmul-to-lut: layers='conv' selects no layer; products by a constant weight are: fc1, network.matmul1, fc1.2
// REGEX: convert-matmul-to-lut: layers='fc(' is no regular expression
// K: convert-matmul-to-lut: 257 centroids a codebook; an index is one byte, 1 to 256
// FIT: convert-matmul-to-lut: no fit is named 'best'; 'refit' or 'kmeans'

func.func @network(%x: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %w1 = arith.constant {inr.name = "fc1.weight"} dense<[[1.0, -2.0], [3.0, 0.5]]> : tensor<2x2xf64>
  %w2 = arith.constant dense<[[1.0, 2.0], [-1.0, 0.5]]> : tensor<2x2xf64>
  %0 = inr.matmul %x, %w1 : (tensor<4x2xf64>, tensor<2x2xf64>) -> tensor<4x2xf64>
  %1 = inr.matmul %0, %w2 : (tensor<4x2xf64>, tensor<2x2xf64>) -> tensor<4x2xf64>
  %2 = inr.matmul %1, %w1 : (tensor<4x2xf64>, tensor<2x2xf64>) -> tensor<4x2xf64>
  func.return %2 : tensor<4x2xf64>
}
