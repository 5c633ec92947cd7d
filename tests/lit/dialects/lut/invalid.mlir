// RUN: inr-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: k = 257 centroids; an index is one byte, 1 to 256
func.func @centroids_of_an_index(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 257, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: 3 codebooks of 0 channels; both are at least 1
func.func @no_channels(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 0, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: metric 'l1' is not one of l2
func.func @metric(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3, metric = l1> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: encoder 'hash' is not one of nearest, tree
func.func @encoder(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3, encoder = hash> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: encoder 'nearest' has form 'grid12', not 'float32'
func.func @form(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3, form = float32> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: a tree has a power of two of leaves, not k = 12
func.func @leaves(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 12, cb = 3, encoder = tree> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: encoder 'tree' has no centroids to search
func.func @tree_of_centroids(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3, encoder = tree> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: missing cb
func.func @missing_field(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: expected one of vec, k, cb, metric, encoder, form, each once
func.func @repeated_field(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: 4 codebooks of 4 channels for 10 inputs; 3 cover them
func.func @too_many_codebooks(%x: tensor<8x10xf64>, %c: tensor<4x16x4xi16>, %s: tensor<4xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 4> : (tensor<8x10xf64>, tensor<4x16x4xi16>, tensor<4xf32>) -> tensor<8x4xui8>
  func.return
}

// -----

// CHECK: centroids of shape 3x16x4 for a spec of 3 codebooks, 8 centroids and 4 channels
func.func @centroids_shape(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 8, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: the steps have shape 2, not 3
func.func @steps_shape(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<2xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<2xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: the indices have shape 8x4, not 8x3
func.func @indices_shape(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x4xui8>
  func.return
}

// -----

// CHECK: the input has 2 axes of known extent, not shape ?x10
func.func @dynamic_rows(%x: tensor<?x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>) {
  %0 = lut.encode %x by %c steps %s spec <vec = 4, k = 16, cb = 3> : (tensor<?x10xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: a centroid has the coordinate -2048, outside ±2047
func.func @off_the_grid(%x: tensor<8x2xf64>, %s: tensor<1xf32>) {
  %c = arith.constant dense<[[[1, -2048], [0, 0]]]> : tensor<1x2x2xi16>
  %0 = lut.encode %x by %c steps %s spec <vec = 2, k = 2, cb = 1> : (tensor<8x2xf64>, tensor<1x2x2xi16>, tensor<1xf32>) -> tensor<8x1xui8>
  func.return
}

// -----

// CHECK: grid steps lie in [0, 1]; they are positive numbers
func.func @steps_of_zero(%x: tensor<8x4xf64>, %c: tensor<2x2x2xi16>) {
  %s = arith.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %0 = lut.encode %x by %c steps %s spec <vec = 2, k = 2, cb = 2> : (tensor<8x4xf64>, tensor<2x2x2xi16>, tensor<2xf32>) -> tensor<8x2xui8>
  func.return
}

// -----

// CHECK: encoder 'nearest' is not a tree
func.func @no_tree(%x: tensor<8x10xf64>, %t: tensor<3x15xf32>, %c: tensor<3x4xi32>) {
  %0 = lut.encode_tree %x by %c, %t spec <vec = 4, k = 16, cb = 3> : (tensor<8x10xf64>, tensor<3x4xi32>, tensor<3x15xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: the channels have shape 3x3, not 3x4
func.func @tree_channels(%x: tensor<8x10xf64>, %t: tensor<3x15xf32>, %c: tensor<3x3xi32>) {
  %0 = lut.encode_tree %x by %c, %t spec <vec = 4, k = 16, cb = 3, encoder = tree> : (tensor<8x10xf64>, tensor<3x3xi32>, tensor<3x15xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: the thresholds have shape 3x16, not 3x15
func.func @tree_thresholds(%x: tensor<8x10xf64>, %t: tensor<3x16xf32>, %c: tensor<3x4xi32>) {
  %0 = lut.encode_tree %x by %c, %t spec <vec = 4, k = 16, cb = 3, encoder = tree> : (tensor<8x10xf64>, tensor<3x4xi32>, tensor<3x16xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: a level compares channel 4 of 4 in a sub-vector
func.func @tree_channel(%x: tensor<8x10xf64>, %t: tensor<3x1xf32>) {
  %c = arith.constant dense<[[0], [4], [3]]> : tensor<3x1xi32>
  %0 = lut.encode_tree %x by %c, %t spec <vec = 4, k = 2, cb = 3, encoder = tree> : (tensor<8x10xf64>, tensor<3x1xi32>, tensor<3x1xf32>) -> tensor<8x3xui8>
  func.return
}

// -----

// CHECK: indices of 3 codebooks, a table of 4
func.func @lookup_codebooks(%i: tensor<8x3xui8>, %t: tensor<4x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<4x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: a table of 257 rows a codebook; 1 to 256
func.func @lookup_rows(%i: tensor<8x3xui8>, %t: tensor<3x257x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x257x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: the sums have shape 8x6, not 8x5
func.func @lookup_shape(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x6xi32>
  func.return
}

// -----

// CHECK: a sum is of i16 or i32, not i8
func.func @lookup_width(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: entries of f32 do not add up to i32
func.func @lookup_float(%i: tensor<8x3xui8>, %t: tensor<3x16x5xf32>) {
  %0 = lut.lookup %i in %t : (tensor<8x3xui8>, tensor<3x16x5xf32>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: entries of i8 do not add up to f32
func.func @lookup_int(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xf32>
  func.return
}

// -----

// CHECK: a table of integers has a quantisation (quant <bits = 8>), one of floats has none
func.func @lookup_quant(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: index 3 in a table of 3 rows a codebook
func.func @lookup_index(%t: tensor<2x3x1xi8>) {
  %i = arith.constant dense<[[0, 3]]> : tensor<1x2xui8>
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<1x2xui8>, tensor<2x3x1xi8>) -> tensor<1x1xi32>
  func.return
}

// -----

// CHECK: a table entry is -8; 4 bits hold ±7
func.func @lookup_entry(%i: tensor<1x2xui8>) {
  %t = arith.constant dense<[[[1], [-8]], [[7], [2]]]> : tensor<2x2x1xi8>
  %0 = lut.lookup %i in %t quant <bits = 4> : (tensor<1x2xui8>, tensor<2x2x1xi8>) -> tensor<1x1xi32>
  func.return
}

// -----

// CHECK: a table entry has 2 to 8 bits, not 9
func.func @quant_bits(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 9> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: scheme 'per_row' is not one of per_column, per_tensor
func.func @quant_scheme(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8, scheme = per_row> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: sums reach [-32893, 32893] (the table is no constant); i16 holds [-32768, 32767]
func.func @lookup_i16(%i: tensor<8x259xui8>, %t: tensor<259x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> : (tensor<8x259xui8>, tensor<259x16x5xi8>) -> tensor<8x5xi16>
  func.return
}

// -----

// CHECK: sums reach [-5, 8], outside acc = [-5, 7]
func.func @lookup_acc(%i: tensor<1x2xui8>) {
  %t = arith.constant dense<[[[1], [-7]], [[7], [2]]]> : tensor<2x2x1xi8>
  %0 = lut.lookup %i in %t quant <bits = 4> error <vq_rel_mse = 0.1, rel_mse = 0.1, q_bound = 0.0, acc = [-5, 7]> : (tensor<1x2xui8>, tensor<2x2x1xi8>) -> tensor<1x1xi32>
  func.return
}

// -----

// CHECK: rel_mse = -0.1 is no error; it is finite and at least 0
func.func @error_negative(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> error <vq_rel_mse = 0.1, rel_mse = -0.1, q_bound = 0.0, acc = [-5, 8]> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: acc = [1, 8] does not contain 0, the empty sum
func.func @error_acc(%i: tensor<8x3xui8>, %t: tensor<3x16x5xi8>) {
  %0 = lut.lookup %i in %t quant <bits = 8> error <vq_rel_mse = 0.1, rel_mse = 0.1, q_bound = 0.0, acc = [1, 8]> : (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>
  func.return
}

// -----

// CHECK: sums of integers need a scale
func.func @dequant_scale(%a: tensor<8x5xi32>) {
  %0 = lut.dequant %a : tensor<8x5xi32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the scale has shape 4; one number, or one for each of 5 columns
func.func @dequant_scale_shape(%a: tensor<8x5xi32>, %s: tensor<4xf32>) {
  %0 = lut.dequant %a : tensor<8x5xi32> scale %s : tensor<4xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the bias has shape 1, not 5
func.func @dequant_bias(%a: tensor<8x5xf32>, %b: tensor<1xf32>) {
  %0 = lut.dequant %a : tensor<8x5xf32> bias %b : tensor<1xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the output has shape 8x6, not 8x5
func.func @dequant_shape(%a: tensor<8x5xf32>) {
  %0 = lut.dequant %a : tensor<8x5xf32> -> tensor<8x6xf64>
  func.return
}

// -----

// CHECK: a sum is of i16 or i32, not i8
func.func @dequant_sums(%a: tensor<8x5xi8>, %s: tensor<5xf32>) {
  %0 = lut.dequant %a : tensor<8x5xi8> scale %s : tensor<5xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: rounding 'down' is not one of half_up, half_even, half_away
func.func @requant_rounding(%a: tensor<8x5xi32>, %m: tensor<5xi32>, %h: tensor<5xi8>) {
  %0 = lut.requant "down" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<5xi32>, tensor<5xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: the multiplier has shape 2; one number, or one for each of 5 columns
func.func @requant_multiplier(%a: tensor<8x5xi32>, %m: tensor<2xi32>, %h: tensor<5xi8>) {
  %0 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<2xi32>, tensor<5xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: the shift has shape 4; one number, or one for each of 5 columns
func.func @requant_shift_shape(%a: tensor<8x5xi32>, %m: tensor<5xi32>, %h: tensor<4xi8>) {
  %0 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<5xi32>, tensor<4xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: a shift of 63; 0 to 62
func.func @requant_shift(%a: tensor<8x5xi32>, %m: tensor<5xi32>) {
  %h = arith.constant dense<[63]> : tensor<1xi8>
  %0 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<5xi32>, tensor<1xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: a multiplier of -1; 0 to 2147483647
func.func @requant_negative(%a: tensor<8x5xi32>, %h: tensor<5xi8>) {
  %m = arith.constant dense<[-1]> : tensor<1xi32>
  %0 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<1xi32>, tensor<5xi8>) -> tensor<8x5xi8>
  func.return
}

// -----

// CHECK: a requantised sum is of i8 or i16 or i32, not i64
func.func @requant_type(%a: tensor<8x5xi32>, %m: tensor<5xi32>, %h: tensor<5xi8>) {
  %0 = lut.requant "half_up" %a multiplier %m shift %h : (tensor<8x5xi32>, tensor<5xi32>, tensor<5xi8>) -> tensor<8x5xi64>
  func.return
}

// -----

// CHECK: channels [3, 3] are not distinct ones of 10 inputs
func.func @residual_twice(%x: tensor<8x10xf64>, %w: tensor<2x5xf32>) {
  %0 = lut.residual_matmul %x channels [3, 3] by %w : (tensor<8x10xf64>, tensor<2x5xf32>) -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: channels [3, 10] are not distinct ones of 10 inputs
func.func @residual_outside(%x: tensor<8x10xf64>, %w: tensor<2x5xf32>) {
  %0 = lut.residual_matmul %x channels [3, 10] by %w : (tensor<8x10xf64>, tensor<2x5xf32>) -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the weights of residual channels have shape 3x5, not 2x5
func.func @residual_weight(%x: tensor<8x10xf64>, %w: tensor<3x5xf32>) {
  %0 = lut.residual_matmul %x channels [3, 7] by %w : (tensor<8x10xf64>, tensor<3x5xf32>) -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the output has shape 8x4, not 8x5
func.func @residual_shape(%x: tensor<8x10xf64>, %w: tensor<2x5xf32>) {
  %0 = lut.residual_matmul %x channels [3, 7] by %w : (tensor<8x10xf64>, tensor<2x5xf32>) -> tensor<8x4xf64>
  func.return
}

// -----

// CHECK: 3 codebooks of 4 channels for a weight of 13 rows
func.func @build_rows(%c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<13x5xf64>) {
  %0 = lut.build_table %c steps %s by %w : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<13x5xf64>) -> tensor<3x16x5xf32>
  func.return
}

// -----

// CHECK: the table has shape 3x16x6, not 3x16x5
func.func @build_shape(%c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<10x5xf64>) {
  %0 = lut.build_table %c steps %s by %w : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> tensor<3x16x6xf32>
  func.return
}

// -----

// CHECK: a quantised table (quant <bits = 8>) is of i8 and comes with its scale; one of f32 is not and does not
func.func @build_quant(%c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<10x5xf64>) {
  %0 = lut.build_table %c steps %s by %w quant <bits = 8> : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> tensor<3x16x5xf32>
  func.return
}

// -----

// CHECK: the scale of a per_tensor table has shape 5, not 1
func.func @build_scale(%c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %w: tensor<10x5xf64>) {
  %0, %1 = lut.build_table %c steps %s by %w quant <bits = 8, scheme = per_tensor> : (tensor<3x16x4xi16>, tensor<3xf32>, tensor<10x5xf64>) -> (tensor<3x16x5xi8>, tensor<5xf32>)
  func.return
}

// -----

// CHECK: a table of 3x8 rows for 3 codebooks of 16 centroids
func.func @linear_table(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x8x5xi8>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x8x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the output has shape 8x4, not 8x5
func.func @linear_output(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x4xf64>
  func.return
}

// -----

// CHECK: a table of integers has a scale, one of floats has none
func.func @linear_scale(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: a table of integers has a scale, one of floats has none
func.func @linear_float_scale(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xf32>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xf32> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the scale of a per_column table has shape 1, not 5
func.func @linear_scale_shape(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<1xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<1xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the bias has shape 4, not 5
func.func @linear_bias(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>, %b: tensor<4xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> bias %b : tensor<4xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the weight has shape 5x10, not 10x5
func.func @linear_weight(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %w: tensor<5x10xf64>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> of %w : tensor<5x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the bias of the weight has shape 4, not 5
func.func @linear_plus(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %w: tensor<10x5xf64>, %p: tensor<4xf64>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> of %w : tensor<10x5xf64> plus %p : tensor<4xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the bias of a weight (plus) goes with a weight (of)
func.func @linear_plus_alone(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %p: tensor<5xf64>, %scale: tensor<5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> plus %p : tensor<5xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the weights of residual channels have shape 1x5, not 2x5
func.func @linear_residual(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %t: tensor<3x16x5xi8>, %scale: tensor<5xf32>, %r: tensor<1x5xf32>) {
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> residual %r : tensor<1x5xf32> channels [0, 1] spec <vec = 4, k = 16, cb = 3> quant <bits = 8> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: sums reach [0, 381], outside acc = [-380, 380]
func.func @linear_acc(%x: tensor<8x10xf64>, %c: tensor<3x16x4xi16>, %s: tensor<3xf32>, %scale: tensor<5xf32>) {
  %t = arith.constant dense<127> : tensor<3x16x5xi8>
  %0 = lut.linear %x : tensor<8x10xf64> search %c : tensor<3x16x4xi16> steps %s : tensor<3xf32> table %t : tensor<3x16x5xi8> scale %scale : tensor<5xf32> spec <vec = 4, k = 16, cb = 3> quant <bits = 8> error <vq_rel_mse = 0.1, rel_mse = 0.1, q_bound = 0.0, acc = [-380, 380]> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: a step of 0; it is a positive number
func.func @to_int8_step(%x: tensor<8x10xf64>) {
  %s = arith.constant dense<0.0> : tensor<1xf32>
  %0 = lut.to_int8 %x by %s : (tensor<8x10xf64>, tensor<1xf32>) -> tensor<8x10xi8>
  func.return
}

// -----

// CHECK: a weight of 11 rows for 10 inputs
func.func @int8_rows(%x: tensor<8x10xf64>, %s: tensor<1xf32>, %w: tensor<11x5xi8>, %scale: tensor<5xf32>) {
  %0 = lut.int8_linear %x : tensor<8x10xf64> step %s : tensor<1xf32> weight %w : tensor<11x5xi8> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: a weight is -128; they lie within ±127
func.func @int8_weight(%x: tensor<8x10xf64>, %s: tensor<1xf32>, %scale: tensor<5xf32>) {
  %w = arith.constant dense<-128> : tensor<10x5xi8>
  %0 = lut.int8_linear %x : tensor<8x10xf64> step %s : tensor<1xf32> weight %w : tensor<10x5xi8> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: products of 133145 inputs overflow i32; at most 133144 do not
func.func @int8_overflow(%x: tensor<8x133145xf64>, %s: tensor<1xf32>, %w: tensor<133145x5xi8>, %scale: tensor<5xf32>) {
  %0 = lut.int8_linear %x : tensor<8x133145xf64> step %s : tensor<1xf32> weight %w : tensor<133145x5xi8> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
  func.return
}

// -----

// CHECK: the scale has shape 1, not 5
func.func @int8_scale(%x: tensor<8x10xf64>, %s: tensor<1xf32>, %w: tensor<10x5xi8>) {
  %0 = lut.int8_linear %x : tensor<8x10xf64> step %s : tensor<1xf32> weight %w : tensor<10x5xi8> scale %s : tensor<1xf32> -> tensor<8x5xf64>
  func.return
}
