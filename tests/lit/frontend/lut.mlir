// A converted model, from PyTorch through torch-mlir to the programs of host and DPUs.
// REQUIRES: torch-mlir
// RUN: inr-import %S/Inputs/tables.py:net -o %t.mlir
// RUN: filecheck %s --check-prefix=TORCH < %t.mlir
// RUN: inr-opt %t.mlir | inr-opt | filecheck %s --check-prefix=AGAIN
// RUN: inr-opt -p convert-torch-to-inr %t.mlir | inr-opt | filecheck %s
// RUN: inr-opt -p 'convert-torch-to-inr,convert-lut-to-upmem{dpus=2}' %t.mlir | filecheck %s --check-prefix=TILED
// RUN: inr-opt -p 'inr-upmem-pipeline{dpus=2}' -t 'dpu-c{model=net}' %t.mlir | filecheck %s --check-prefix=DEVICE
// RUN: inr-opt -p 'inr-upmem-pipeline{dpus=2}' -t 'upmem-host-c{model=net}' %t.mlir | filecheck %s --check-prefix=HOST
// RUN: inr-import %S/Inputs/tables.py:encoder | inr-opt -p 'inr-upmem-pipeline{dpus=2}' | filecheck %s --check-prefix=ENCODER

// TORCH: torch.vtensor.literal(dense<{{.*}}> : tensor<3x8x16xsi8>) {inr.name = "0.table"}
// TORCH: %[[Y:.*]] = torch.operator "torch.inr.lut_linear"(%arg0, {{.*}}, %none, %none_{{[0-9]+}}) : (!torch.vtensor<[2,5,6],f32>, !torch.vtensor<[3,8,2],si16>, !torch.vtensor<[3],f32>, !torch.vtensor<[3,8,16],si8>, !torch.vtensor<[16],f32>, !torch.vtensor<[16],f32>, !torch.none, !torch.none) -> !torch.vtensor<[2,5,16],f32>
// TORCH: torch.aten.tanh %[[Y]]
// TORCH: torch.vtensor.literal(dense<0> : tensor<1xsi32>) {inr.name = "2.channels"}
// AGAIN: torch.operator "torch.inr.lut_linear"(
// AGAIN: torch.operator "torch.inr.lut_linear"(

// CHECK:      func.func @tables_net(%{{.*}}: tensor<2x5x6xf64> {inr.name = "input"}) -> (tensor<2x5x8xf64> {inr.name = "out0"}) {
// CHECK-NEXT:   %[[ROWS:.*]] = inr.reshape %{{.*}} : tensor<2x5x6xf64> to tensor<10x6xf64>
// CHECK-NEXT:   %[[C:.*]] = arith.constant {inr.name = "0.centroids"} dense<[[{{\[}}1339, 938], {{.*}} : tensor<3x8x2xi16>
// CHECK-NEXT:   %[[S:.*]] = arith.constant {inr.name = "0.steps"} dense<{{.*}}> : tensor<3xf32>
// CHECK-NEXT:   %[[T:.*]] = arith.constant {inr.name = "0.table"} dense<{{.*}}> : tensor<3x8x16xi8>
// CHECK-NEXT:   %[[W:.*]] = arith.constant {inr.name = "0.scale"} dense<{{.*}}> : tensor<16xf32>
// CHECK-NEXT:   %[[B:.*]] = arith.constant {inr.name = "0.table_bias"} dense<{{.*}}> : tensor<16xf32>
// CHECK-NEXT:   %[[Y:.*]] = lut.linear layer "0" %[[ROWS]] : tensor<10x6xf64> search %[[C]] : tensor<3x8x2xi16> steps %[[S]] : tensor<3xf32> table %[[T]] : tensor<3x8x16xi8> scale %[[W]] : tensor<16xf32> bias %[[B]] : tensor<16xf32> spec <vec = 2, k = 8, cb = 3> quant <bits = 8, scheme = per_column> -> tensor<10x16xf64>
// CHECK-NEXT:   inr.reshape %[[Y]] : tensor<10x16xf64> to tensor<2x5x16xf64>
// CHECK-NEXT:   math.tanh
// CHECK:        lut.linear layer "2" {{.*}} residual %{{.*}} : tensor<1x8xf32> channels [0] spec <vec = 4, k = 16, cb = 4> quant <bits = 6, scheme = per_column> -> tensor<10x8xf64>

// TILED: upmem.kernel @layer_0(
// TILED: upmem.kernel @layer_2(
// TILED: func.func @tables_net(%grid: !upmem.grid<{{.*}}>, %{{.*}}: tensor<2x5x6xf64> {inr.name = "input"}) -> (tensor<2x5x8xf64> {inr.name = "out0"})
// TILED: upmem.launch @layer_0 on
// TILED: upmem.launch @layer_2 on
// DEVICE: case NET_LAYER_0:
// DEVICE: case NET_LAYER_2:
// HOST: static inline int net_layer_2(

// Attention: the three projections of one input are one kernel.
// ENCODER: upmem.launch @self_attn_q_proj_self_attn_k_proj_self_attn_v_proj on
// ENCODER: math.exp
// ENCODER: upmem.launch @self_attn_out_proj on
// ENCODER: upmem.launch @linear1 on
// ENCODER: upmem.launch @linear2 on
