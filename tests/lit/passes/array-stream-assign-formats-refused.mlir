// RUN: not inr-opt -p 'array-stream-assign-formats{mode=best}' %s 2>&1 | filecheck %s --check-prefix=MODE
// RUN: not inr-opt -p 'array-stream-assign-formats{domain=1,-1}' %s 2>&1 | filecheck %s --check-prefix=DOMAIN
// RUN: not inr-opt -p 'array-stream-assign-formats{domain=1}' %s 2>&1 | filecheck %s --check-prefix=DOMAIN
// RUN: not inr-opt -p 'array-stream-assign-formats{tolerance=low}' %s 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not inr-opt -p 'array-stream-assign-formats{activation=65}' %s 2>&1 | filecheck %s --check-prefix=BITS
// RUN: not inr-opt -p 'array-stream-assign-formats{weight=1}' %s 2>&1 | filecheck %s --check-prefix=WEIGHT
// RUN: not inr-opt -p 'array-stream-assign-formats{calibration="no/such.npz"}' %s 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not inr-opt -p 'array-stream-assign-formats{tolerance=1e-14}' %s 2>&1 | filecheck %s --check-prefix=TOLERANCE
// RUN: inr-opt -p array-stream-assign-formats --split-input-file --verify-diagnostics %s | filecheck %s
// RUN: inr-opt -p 'array-stream-assign-formats{mode=interval}' --split-input-file --verify-diagnostics %s | filecheck %s

// MODE: array-stream-assign-formats: mode 'best' is not one of measured, interval, float
// DOMAIN: array-stream-assign-formats: domain takes two numbers, low,high
// NUMBER: array-stream-assign-formats: tolerance=low is no number
// BITS: array-stream-assign-formats: activation=65; a number has 2 to 64 bits
// WEIGHT: array-stream-assign-formats: weight=1; a number has 2 to 64 bits
// FILE: calibration file no/such.npz: {{.*}}No such file
// TOLERANCE: precise: no widths up to 40-bit activations and 32-bit weights reach a tolerance of 1e-14; allow more

// CHECK-LABEL: func.func @precise(
func.func @precise(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %q = math.tanh %p : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// CHECK: array_stream.matmul: a weight of magnitude 5 does not fit 9 bits with 3 of them integer (up to 3.98438); give it 4 integer bits
func.func @weight(%m: tensor<4x2xf64>) -> tensor<4x2xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %w = arith.constant dense<[[5.0, 1.0], [-2.0, 3.0]]> : tensor<2x2xf64>
  %0 = array_stream.matmul %x by %w weight_format <9, 3> : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64>
  %y = array_stream.write %0 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %y : tensor<4x2xf64>
}

// -----

// CHECK: array_stream.matmul: a bias of magnitude 8 does not fit 20 bits with 4 of them integer
func.func @bias(%m: tensor<4x2xf64>) -> tensor<4x2xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4x2xf64> -> !array_stream.stream<4x2xf64>
  %w = arith.constant dense<[[5.0, 1.0], [-2.0, 3.0]]> : tensor<2x2xf64>
  %b = arith.constant dense<[-1.0, 8.0]> : tensor<2xf64>
  %0 = array_stream.matmul %x by %w bias %b bias_format <20, 4> : (!array_stream.stream<4x2xf64>) -> !array_stream.stream<4x2xf64> by tensor<2x2xf64> bias tensor<2xf64>
  %y = array_stream.write %0 : !array_stream.stream<4x2xf64> -> tensor<4x2xf64>
  func.return %y : tensor<4x2xf64>
}

// -----

// CHECK: its values are not finite on the sample inputs; give a domain on which they are (domain=low,high or a calibration file)
func.func @logarithm(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %q = math.log %p : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}

// -----

// CHECK: arith.constant: inf has no fixed-point format; use mode=float
func.func @infinity(%m: tensor<4xf64>) -> tensor<4xf64> attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<4xf64> -> !array_stream.stream<4xf64>
  %0 = array_stream.map(%x) : (!array_stream.stream<4xf64>) -> !array_stream.stream<4xf64> {
  ^bb0(%p: f64):
    %i = arith.constant 0x7FF0000000000000 : f64
    %q = arith.minimumf %p, %i : f64
    array_stream.yield %q : f64
  }
  %y = array_stream.write %0 : !array_stream.stream<4xf64> -> tensor<4xf64>
  func.return %y : tensor<4xf64>
}
