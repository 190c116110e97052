"""Distances between the rows of two matrices."""

import math

import torch

from cleave.torch.lowering.reductions import norm_of, total
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten
WITH_PRODUCT, MANY_ROWS = 1, 25  # the mode in which PyTorch takes a matrix product, and the rows beyond which it does by itself


def pairs(b, x, y):
    """Both with dimensions for the rows of both: (..., rows of x, rows of y, columns), and the batch's part of that."""
    lead = tuple(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    shape = lead + (x.shape[-2], y.shape[-2], x.shape[-1])
    dims = range(len(lead))
    x, y = b.expand(x, lead + x.shape[-2:]), b.expand(y, lead + y.shape[-2:])
    return b.broadcast(x, shape, [*dims, len(lead), len(lead) + 2]), b.broadcast(y, shape, [*dims, len(lead) + 1, len(lead) + 2])


@lowers(aten._cdist_forward.default, wide=True)
def cdist(b, x, y, p, compute_mode):
    rows = max(x.shape[-2], y.shape[-2])
    if not x.shape[-1]:
        return b.const(0, *b.out[0])
    if p == 2 and (compute_mode == WITH_PRODUCT or not compute_mode and rows > MANY_ROWS):
        return by_product(b, x, y)
    x, y = pairs(b, x, y)
    return norm_of(b, b.unary("abs", b.sub(x, y)), p, [x.rank - 1], False)


def by_product(b, x, y):
    """The root of x^2 + y^2 - 2 x y, which needs no tensor of three dimensions."""
    lead = tuple(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    x, y = b.expand(x, lead + x.shape[-2:]), b.expand(y, lead + y.shape[-2:])
    shape, dims = lead + (x.shape[-2], y.shape[-2]), list(range(len(lead)))
    squares = [b.reduce("add", b.mul(t, t), [t.rank - 1]) for t in (x, y)]
    sums = b.add(b.broadcast(squares[0], shape, [*dims, len(lead)]), b.broadcast(squares[1], shape, [*dims, len(lead) + 1]))
    product = b.dot(x, y, ([x.rank - 1], [y.rank - 1]), (dims, dims))
    return b.unary("sqrt", b.maximum(b.sub(sums, b.mul(product, 2)), b.like(0, sums)))


@lowers(aten._cdist_backward.default, wide=True)
def cdist_backward(b, grad, x, y, p, cdist):
    if not x.numel or not y.numel or p == 0:
        return b.const(0, *b.out[0])
    x, y = pairs(b, x, y)
    away = b.sub(x, y)
    grad, far = (b.broadcast(t, x.shape, range(x.rank - 1)) for t in (b.expand(grad, x.shape[:-1]), b.expand(cdist, x.shape[:-1])))
    size, none = b.unary("abs", away), b.like(0, away)
    if p == 1:
        each = b.mul(grad, b.unary("sign", away))
    elif p == math.inf:
        each = b.select(b.compare("EQ", size, far), b.mul(grad, b.unary("sign", away)), none)
    else:
        slope = away if p == 2 else b.mul(b.unary("sign", away), b.binary("power", size, b.like(p - 1, size)))
        each = b.div(b.mul(slope, grad), far if p == 2 else b.binary("power", far, b.like(p - 1, far)))
        each = b.select(b.compare("EQ", far, 0), none, each)
        if p < 1:
            each = b.select(b.compare("EQ", size, 0), none, each)
    return total(b, each, [x.rank - 2])
