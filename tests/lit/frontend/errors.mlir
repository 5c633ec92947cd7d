// REQUIRES: torch-mlir
// RUN: not inr-import %S/Inputs/line.py:nothing 2>&1 | filecheck %s --check-prefix=FACTORY
// RUN: not inr-import %S/Inputs/none.py:net 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not inr-import --order 1 --outputs hessian %S/Inputs/line.py:net 2>&1 | filecheck %s --check-prefix=ORDER

// FACTORY: inr-import: error: {{.*}}line.py has no function 'nothing'; it has net, sort
// FILE: inr-import: error: {{.*}}there is no file
// ORDER: inr-import: error: outputs 'hessian' needs order 2 or more, not 1
