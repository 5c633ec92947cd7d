// RUN: inr-opt %s | inr-opt | filecheck %s
// RUN: inr-opt --print-op-generic %s | inr-opt | filecheck %s
// RUN: inr-opt --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: inr-opt --print-debuginfo %s | inr-opt --print-debuginfo | filecheck %s --check-prefix=LOC

// CHECK-LABEL: func.func @types(
// CHECK-SAME: %{{.*}}: !torch.vtensor<[4,2],f32> {inr.name = "x"}, %{{.*}}: !torch.vtensor<[],f64>, %{{.*}}: !torch.vtensor<[?,2],si64>, %{{.*}}: !torch.vtensor<*,i1>, %{{.*}}: !torch.vtensor<[3],unk>, %{{.*}}: !torch.vtensor, %{{.*}}: !torch.list<int>, %{{.*}}: !torch.list<optional<vtensor>>, %{{.*}}: !torch.optional<float>, %{{.*}}: !torch.number, %{{.*}}: !torch.list<vtensor<[2],f32>>)
func.func @types(
    %a: !torch.vtensor<[4,2],f32> {inr.name = "x"}, %b: !torch.vtensor<[],f64>,
    %c: !torch.vtensor<[?,2],si64>, %d: !torch.vtensor<*,i1>, %e: !torch.vtensor<[3],unk>,
    %f: !torch.vtensor, %g: !torch.list<int>, %h: !torch.list<optional<vtensor>>,
    %i: !torch.optional<float>, %j: !torch.number, %k: !torch.list<vtensor<[2],f32>>) {
  func.return
}

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: torch.constant.int -3
  // GENERIC: "torch.constant.int"() <{value = -3 : i64}> : () -> !torch.int
  %int = torch.constant.int -3
  // CHECK-NEXT: torch.constant.float 3.000000e+01
  // GENERIC: "torch.constant.float"() <{value = 3.000000e+01 : f64}> : () -> !torch.float
  %float = torch.constant.float 30.0
  // CHECK-NEXT: torch.constant.float 1.000000e-01
  %tenth = torch.constant.float 0.1
  // CHECK-NEXT: torch.constant.float 0x7ff0000000000000
  %infinity = torch.constant.float 0x7FF0000000000000
  // CHECK-NEXT: torch.constant.bool true
  %true = torch.constant.bool true
  // CHECK-NEXT: torch.constant.bool false
  %false = torch.constant.bool false
  // CHECK-NEXT: torch.constant.none
  // GENERIC: "torch.constant.none"() : () -> !torch.none
  %none = torch.constant.none
  // CHECK-NEXT: torch.constant.str "tanh"
  %str = torch.constant.str "tanh"
  // CHECK-NEXT: torch.constant.device "cpu"
  %device = torch.constant.device "cpu"
  // CHECK-NEXT: torch.vtensor.literal(dense<[1.500000e+00, -2.000000e+00]> : tensor<2xf32>) {inr.name = "layers.0.bias"} : !torch.vtensor<[2],f32>
  // GENERIC: "torch.vtensor.literal"() <{value = dense<[1.500000e+00, -2.000000e+00]> : tensor<2xf32>}> {inr.name = "layers.0.bias"} : () -> !torch.vtensor<[2],f32>
  %weight = torch.vtensor.literal(dense<[1.5, -2.0]> : tensor<2xf32>) {inr.name = "layers.0.bias"} : !torch.vtensor<[2],f32>
  // CHECK-NEXT: torch.prim.ListConstruct %{{.*}}, %{{.*}} : (!torch.int, !torch.int) -> !torch.list<int>
  %list = torch.prim.ListConstruct %int, %int : (!torch.int, !torch.int) -> !torch.list<int>
  // CHECK-NEXT: torch.prim.ListConstruct : () -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  func.return
}

// CHECK-LABEL: func.func @operators
func.func @operators(%x: !torch.vtensor<[4,2],f32>, %w: !torch.vtensor<[2,3],f32>,
                     %b: !torch.vtensor<[3],f32>) -> !torch.vtensor<[4],f32> {
  %one = torch.constant.int 1
  %true = torch.constant.bool true
  %none = torch.constant.none
  %axes = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
  // CHECK: %[[Z:.*]] = torch.aten.addmm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : !torch.vtensor<[3],f32>, !torch.vtensor<[4,2],f32>, !torch.vtensor<[2,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[4,3],f32>
  // LOC: torch.aten.addmm {{.*}} loc("net.py":12:4)
  %z = torch.aten.addmm %b, %x, %w, %one, %one : !torch.vtensor<[3],f32>, !torch.vtensor<[4,2],f32>, !torch.vtensor<[2,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[4,3],f32> loc("net.py":12:4)
  // CHECK-NEXT: %[[S:.*]] = torch.aten.sin %[[Z]] {note = 1 : i64} : !torch.vtensor<[4,3],f32> -> !torch.vtensor<[4,3],f32>
  // GENERIC: "torch.aten.sin"(%{{.*}}) {note = 1 : i64} : (!torch.vtensor<[4,3],f32>) -> !torch.vtensor<[4,3],f32>
  %s = torch.aten.sin %z {note = 1} : !torch.vtensor<[4,3],f32> -> !torch.vtensor<[4,3],f32>
  // CHECK-NEXT: torch.aten.sum.dim_IntList %[[S]]
  %t = torch.aten.sum.dim_IntList %s, %axes, %true, %none : !torch.vtensor<[4,3],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4,1],f32>
  // CHECK-NEXT: %{{.*}}, %{{.*}} = torch.aten.sort %[[S]], {{.*}} -> !torch.vtensor<[4,3],f32>, !torch.vtensor<[4,3],si64>
  %sorted, %indices = torch.aten.sort %s, %one, %true : !torch.vtensor<[4,3],f32>, !torch.int, !torch.bool -> !torch.vtensor<[4,3],f32>, !torch.vtensor<[4,3],si64>
  // CHECK-NEXT: torch.aten.pow.Tensor_Scalar
  %p = torch.aten.pow.Tensor_Scalar %t, %one : !torch.vtensor<[4,1],f32>, !torch.int -> !torch.vtensor<[4,1],f32>
  // CHECK-NEXT: torch.operator "torch.aten.squeeze.dims"(%{{.*}}, %{{.*}}) : (!torch.vtensor<[4,1],f32>, !torch.list<int>) -> !torch.vtensor<[4],f32>
  // GENERIC: "torch.operator"(%{{.*}}, %{{.*}}) <{name = "torch.aten.squeeze.dims"}>
  %r = torch.operator "torch.aten.squeeze.dims"(%p, %axes) : (!torch.vtensor<[4,1],f32>, !torch.list<int>) -> !torch.vtensor<[4],f32>
  func.return %r : !torch.vtensor<[4],f32>
}
