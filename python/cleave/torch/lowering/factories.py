"""Tensors that depend on sizes and numbers alone."""

import math

import torch

from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import WIDE, Value

aten = torch.ops.aten


@lowers(aten.full.default, aten.full_like, aten.new_full.default, aten.fill)
def full(b, x, *rest, **options):
    value = rest[-1]
    dtype, shape = b.out[0]
    return b.expand(b.cast(value, dtype), shape) if isinstance(value, Value) else b.const(value, dtype, shape)


@lowers(aten.zeros.default, aten.zeros_like, aten.new_zeros, aten.empty.memory_format, aten.empty_like, aten.new_empty,
        aten.empty_strided.default, aten.new_empty_strided, aten.empty_permuted.default, aten.zero, aten._efficientzerotensor.default)
def zeros(b, *_, **__):
    return b.const(0, *b.out[0])


@lowers(aten.ones.default, aten.ones_like, aten.new_ones)
def ones(b, *_, **__):
    return b.const(1, *b.out[0])


@lowers(aten.scalar_tensor)
def scalar_tensor(b, value, **_):
    return b.const(value, *b.out[0])


@lowers(aten.arange.default, aten.arange.start, aten.arange.start_step)
def arange(b, first, *rest, **_):
    start, step = (first, 1) if rest else (0, 1)
    if len(rest) == 2:
        step = rest[1]
    return counted(b, start, step)


@lowers(torch.ops.prims.iota.default)
def iota(b, length, *, start, step, **_):
    return counted(b, start, step)


def counted(b, start, step):
    dtype, shape = b.out[0]
    if not shape[0]:
        return b.const(0, dtype, shape)
    if dtype.is_floating_point and not (isinstance(start, int) and isinstance(step, int)):
        places = b.iota(torch.float64, shape, 0)
    else:
        places = b.iota(torch.int64, shape, 0)
    if step != 1:
        places = b.mul(places, step)
    if start != 0:
        places = b.add(places, start)
    return b.cast(places, dtype)


@lowers(aten.linspace.default)
def linspace(b, start, end, steps, **_):
    """From both ends to the middle, as PyTorch does."""
    dtype, shape = b.out[0]
    work = WIDE.get(dtype, dtype) if dtype.is_floating_point else torch.float64
    if steps <= 1:
        return b.cast(b.const(start, work, shape), dtype)
    step = (end - start) / (steps - 1)
    places = b.iota(torch.int64, shape, 0)
    up = b.add(b.mul(b.cast(places, work), step), start)
    back = b.sub(b.like(end, up), b.mul(b.cast(b.sub(b.like(steps - 1, places), places), work), step))
    return b.cast(b.select(b.compare("LT", places, steps // 2), up, back), dtype)


@lowers(aten.logspace.default)
def logspace(b, start, end, steps, base=10.0, **_):
    dtype, shape = b.out[0]
    exponents = torch.linspace(start, end, steps, dtype=torch.float64)
    return b.cast(b.const(torch.tensor(float(base), dtype=torch.float64) ** exponents, torch.float64), dtype)


@lowers(aten.eye.default, aten.eye.m)
def eye(b, *_, **__):
    dtype, shape = b.out[0]
    return b.cast(b.compare("EQ", b.iota(torch.int64, shape, 0), b.iota(torch.int64, shape, 1)), dtype)


@lowers(aten.tril_indices.default, aten.triu_indices.default)
def tril_indices(b, row, col, offset=0, **_):
    make = torch.tril_indices if "tril" in str(b.op) else torch.triu_indices
    return b.const(make(row, col, offset), *b.out[0][:1])


TAU = 2 * math.pi
