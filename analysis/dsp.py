"""
DSP slices of a signed product.

A DSP48E2 (UltraScale+) multiplies 27 by 18 bits signed, so a wider product is cut into limbs of
26 and 17 bits besides the sign; a DSP48E1 (7 series) has 25 by 18 and limbs of 24 and 17. The
tool may feed either operand to either port. Products of operands of 10 bits or fewer go to LUTs.
Source: AMD UG579 and UG479 for the multipliers; held against multiplier sizes of public Vitis HLS
reports in the tests.
"""

from __future__ import annotations


def dsp_of_product(a: int, b: int, limb: int = 26) -> int:
    """DSPs of a signed product of an `a`-bit and a `b`-bit operand; `limb` is 24 for 7 series."""
    if max(a, b) <= 10:
        return 0

    def pieces(width: int, size: int) -> int:
        return max(1, -(-(width - 1) // size))

    return min(
        pieces(a, limb) * pieces(b, 17),
        pieces(b, limb) * pieces(a, 17),
    )
