"""Factorizations that StableHLO has."""

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def factor(b, x, lower):
    y = b.emit(f"stablehlo.cholesky {x.name}, lower = {'true' if lower else 'false'}", x.dtype, x.shape, f"({x.type}) -> @")
    rows, columns = (b.iota(torch.int64, x.shape, x.rank - i) for i in (2, 1))
    return b.select(b.compare("LE" if lower else "GE", columns, rows), y, b.like(0, y))


@lowers(aten.linalg_cholesky_ex.default, aten.cholesky.default)
def cholesky(b, x, upper=False, check_errors=False):
    y = factor(b, x, not upper)
    return (y, b.const(0, *b.out[1])) if len(b.out) > 1 else y


def solve(b, a, x, *, left, lower, unit, transposed):
    form = "TRANSPOSE" if transposed else "NO_TRANSPOSE"
    flags = f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, transpose_a = #stablehlo<transpose {form}>, " \
            f"unit_diagonal = {str(unit).lower()}"
    return b.emit(f'"stablehlo.triangular_solve"({a.name}, {x.name}) <{{{flags}}}>', x.dtype, x.shape, f"({a.type}, {x.type}) -> @")


def batched(b, a, x):
    lead = tuple(torch.broadcast_shapes(a.shape[:-2], x.shape[:-2]))
    return b.expand(a, lead + a.shape[-2:]), b.expand(x, lead + x.shape[-2:])


@lowers(aten.linalg_solve_triangular.default)
def solve_triangular(b, a, x, *, upper, left=True, unitriangular=False):
    a, x = batched(b, a, x)
    if not x.numel:
        return b.const(0, x.dtype, x.shape)
    return solve(b, a, x, left=left, lower=not upper, unit=unitriangular, transposed=False)


@lowers(aten.triangular_solve.default)
def triangular_solve(b, x, a, upper=True, transpose=False, unitriangular=False):
    a, x = batched(b, a, x)
    return solve(b, a, x, left=True, lower=not upper, unit=unitriangular, transposed=transpose), a


@lowers(aten.cholesky_solve.default)
def cholesky_solve(b, x, a, upper=False):
    a, x = batched(b, a, x)
    y = solve(b, a, x, left=True, lower=not upper, unit=False, transposed=upper)
    return solve(b, a, y, left=True, lower=not upper, unit=False, transposed=not upper)


def transform(b, x, kind, length, shape, dtype):
    text = ", ".join(str(n) for n in length)
    return b.emit(f"stablehlo.fft {x.name}, type = {kind}, length = [{text}]", dtype, shape, f"({x.type}) -> @")


def scaled(b, y, mode, count):
    factor = {0: 1, 1: count ** -0.5, 2: 1 / count}[mode]
    if factor == 1:
        return y
    return b.mul(y, factor)


@lowers(aten._fft_c2c.default)
def fft_c2c(b, x, dim, normalization, forward):
    """One dimension after the other; the inverse of StableHLO divides by the length."""
    count = 1
    for d in dim:
        d %= x.rank
        n = x.shape[d]
        count *= n
        x = b.swap(x, d, x.rank - 1)
        x = transform(b, x, "FFT" if forward else "IFFT", [n], x.shape, x.dtype)
        x = b.swap(x, d, x.rank - 1)
    if not forward:
        x = b.mul(x, count)
    return scaled(b, x, normalization, count)


@lowers(aten._fft_r2c.default)
def fft_r2c(b, x, dim, normalization, onesided):
    dtype, shape = b.out[0]
    if not onesided:
        return fft_c2c(b, b.cast(x, dtype), dim, normalization, True)
    last = dim[-1] % x.rank
    n = x.shape[last]
    y = b.swap(x, last, x.rank - 1)
    y = transform(b, y, "RFFT", [n], y.shape[:-1] + (n // 2 + 1,), dtype)
    y = scaled(b, b.swap(y, last, x.rank - 1), normalization, n)
    return fft_c2c(b, y, list(dim[:-1]), normalization, True) if len(dim) > 1 else y


@lowers(aten._fft_c2r.default)
def fft_c2r(b, x, dim, normalization, last_dim_size):
    dtype, shape = b.out[0]
    if len(dim) > 1:
        x = fft_c2c(b, x, list(dim[:-1]), normalization, False)
    last, n = dim[-1] % x.rank, last_dim_size
    y = b.swap(x, last, x.rank - 1)
    y = transform(b, y, "IRFFT", [n], y.shape[:-1] + (n,), dtype)
    return scaled(b, b.mul(b.swap(y, last, x.rank - 1), n), normalization, n)
