"""Decompositions of matrices, triangular systems and Fourier transforms."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import carrier
from cleave.torch.execution.table import translates

aten = torch.ops.aten


@translates("stablehlo.cholesky")
def cholesky(t, op, x):
    b, lower = t.b, bool(op.get("lower"))
    full = b.full(x)
    # Only one triangle of the operand is read.
    low = b.call(aten.tril.default, full) if lower else b.call(aten.conj_physical.default, b.call(aten.mT.default, b.call(aten.triu.default, full)))
    strict = b.call(aten.tril.default, low, -1)
    whole = b.call(aten.add.Tensor, low, b.call(aten.conj_physical.default, b.call(aten.mT.default, strict)))
    factor = b.call(aten.linalg_cholesky_ex.default, whole)[0]
    result = factor if lower else b.call(aten.conj_physical.default, b.call(aten.mT.default, factor))
    return Value(result, op.shape, op.dtype)


@translates("stablehlo.triangular_solve")
def triangular_solve(t, op, a, right):
    b, left, lower = t.b, bool(op.get("left_side")), bool(op.get("lower"))
    full, how = b.full(a), str(op.get("transpose_a", "NO_TRANSPOSE"))
    if how in ("TRANSPOSE", "ADJOINT"):
        full, lower = b.call(aten.mT.default, full), not lower
        full = b.call(aten.conj_physical.default, full) if how == "ADJOINT" else full
    result = b.call(aten.linalg_solve_triangular.default, full, b.full(right), upper=not lower, left=left,
                    unitriangular=bool(op.get("unit_diagonal")))  # fmt: skip
    return Value(result, op.shape, op.dtype)


@translates("stablehlo.fft")
def fft(t, op, x):
    b, lengths, kind = t.b, op.ints("fft_length"), str(op.get("fft_type"))
    dims = list(range(len(x.shape) - len(lengths), len(x.shape)))
    full = b.full(x)
    if kind == "RFFT":
        result = b.call(aten._fft_r2c.default, full, dims, 0, True)
    elif kind == "IRFFT":
        result = b.call(aten._fft_c2r.default, full, dims, 2, lengths[-1])
    else:
        result = b.call(aten._fft_c2c.default, full, dims, 0 if kind == "FFT" else 2, kind == "FFT")
    return Value(b.convert(result, carrier(op.dtype)), op.shape, op.dtype)
