// The six orders of the loops over tiles: rows n, columns f, codebooks c. What is moved for a tile is
// moved in the innermost loop that it depends on: indices in that of n and c, sums in that of n and f.
// Where codebooks are not inside both of n and f, sums are read back unless the codebooks are the first.

// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=nfc load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix NFC
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=ncf load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix NCF
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=fnc load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix FNC
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=fcn load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix FCN
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=cnf load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix CNF
// RUN: inr-opt -p 'convert-lut-to-upmem{mapping="ip=2 lp=2 n_m=6 f_m=16 c_m=8 f_l=8 c_l=4 order=cfn load=static variant=swar16 out=i32 idx_bits=8 tasklets=3 split_cb=1"}' %s | filecheck %s --check-prefix CFN

// NFC: upmem.kernel @fc(
// NFC: scf.for %n =
// NFC: scf.for %f =
// NFC: scf.for %c =
// NFC: upmem.dma_read %index[
// NFC: scf.for %fl =
// NFC: scf.for %cl =
// NFC: scf.for %row =
// NFC-NOT: %sums[{{.*}}] to
// NFC: upmem.dma_write %accumulators[{{.*}}] to %sums[

// NCF: upmem.kernel @fc(
// NCF: scf.for %n =
// NCF: scf.for %c =
// NCF: upmem.dma_read %index[
// NCF: scf.for %f =
// NCF: %again = arith.cmpi ne, %c, %c0
// NCF: scf.if %again
// NCF: upmem.dma_read %sums[{{.*}}] to %accumulators[
// NCF: scf.for %row =
// NCF: upmem.dma_write %accumulators[{{.*}}] to %sums[

// FNC: upmem.kernel @fc(
// FNC: scf.for %f =
// FNC: scf.for %n =
// FNC: scf.for %c =
// FNC: upmem.dma_read %index[
// FNC: scf.for %row =
// FNC-NOT: %sums[{{.*}}] to
// FNC: upmem.dma_write %accumulators[{{.*}}] to %sums[

// FCN: upmem.kernel @fc(
// FCN: scf.for %f =
// FCN: scf.for %c =
// FCN: scf.for %n =
// FCN: upmem.dma_read %index[
// FCN: scf.if %again
// FCN: upmem.dma_read %sums[{{.*}}] to %accumulators[
// FCN: scf.for %row =
// FCN: upmem.dma_write %accumulators[{{.*}}] to %sums[

// CNF: upmem.kernel @fc(
// CNF: scf.for %c =
// CNF: scf.for %n =
// CNF: upmem.dma_read %index[
// CNF: scf.for %f =
// CNF: scf.if %again
// CNF: upmem.dma_read %sums[{{.*}}] to %accumulators[
// CNF: scf.for %row =
// CNF: upmem.dma_write %accumulators[{{.*}}] to %sums[

// CFN: upmem.kernel @fc(
// CFN: scf.for %c =
// CFN: scf.for %f =
// CFN: scf.for %n =
// CFN: upmem.dma_read %index[
// CFN: scf.if %again
// CFN: upmem.dma_read %sums[{{.*}}] to %accumulators[
// CFN: scf.for %row =
// CFN: upmem.dma_write %accumulators[{{.*}}] to %sums[
func.func @main(%i: tensor<23x13xui8>) -> tensor<23x41xi32> {
  %table = arith.constant dense<3> : tensor<13x16x41xi8>
  %s = lut.lookup layer "fc" %i in %table quant <bits = 8, scheme = per_column> : (tensor<23x13xui8>, tensor<13x16x41xi8>) -> tensor<23x41xi32>
  func.return %s : tensor<23x41xi32>
}
