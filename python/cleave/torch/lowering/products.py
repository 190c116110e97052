"""Matrix products."""

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def product(b, x, y, contract, batch=((), ())):
    dtype = b.out[0].dtype
    if x.dtype == torch.bool:
        x, y = b.cast(x, torch.int32), b.cast(y, torch.int32)
        return b.cast(b.dot(x, y, contract, batch), dtype)
    return b.dot(b.cast(x, y.dtype), y, contract, batch)


@lowers(aten.mm.default)
def mm(b, x, y):
    return product(b, x, y, ([1], [0]))


@lowers(aten.bmm.default)
def bmm(b, x, y):
    return product(b, x, y, ([2], [1]), ([0], [0]))


@lowers(aten.mv)
def mv(b, x, y):
    return product(b, x, y, ([1], [0]))


@lowers(aten.dot, aten.vdot)
def dot(b, x, y):
    if b.op is aten.vdot.default and x.is_complex:
        x = b.complex(b.real(x), b.negate(b.imag(x)))
    return product(b, x, y, ([0], [0]))


@lowers(aten.outer, aten.ger)
def outer(b, x, y):
    shape, dtype = b.out[0].shape, b.out[0].dtype
    return b.mul(b.broadcast(b.cast(x, dtype), shape, [0]), b.broadcast(b.cast(y, dtype), shape, [1]))


def added(b, bias, prod, alpha, beta):
    prod = b.mul(prod, alpha) if alpha != 1 else prod
    if beta == 0:
        return prod
    bias = b.expand(b.cast(bias, prod.dtype), prod.shape)
    return b.add(b.mul(bias, beta) if beta != 1 else bias, prod)


@lowers(aten.addmm.default)
def addmm(b, bias, x, y, *, beta=1, alpha=1):
    return added(b, bias, product(b, x, y, ([1], [0])), alpha, beta)


@lowers(aten.addmv)
def addmv(b, bias, x, y, *, beta=1, alpha=1):
    return added(b, bias, product(b, x, y, ([1], [0])), alpha, beta)


@lowers(aten.addr)
def addr(b, bias, x, y, *, beta=1, alpha=1):
    return added(b, bias, outer(b, x, y), alpha, beta)


@lowers(aten.baddbmm.default)
def baddbmm(b, bias, x, y, *, beta=1, alpha=1):
    return added(b, bias, product(b, x, y, ([2], [1]), ([0], [0])), alpha, beta)


@lowers(aten.addbmm)
def addbmm(b, bias, x, y, *, beta=1, alpha=1):
    return added(b, bias, b.dot(x, y, ([0, 2], [0, 1])), alpha, beta)


@lowers(aten.linear.default)
def linear(b, x, w, bias=None):
    y = product(b, x, w, ([x.rank - 1], [1]))
    return y if bias is None else b.add(y, b.expand(bias, y.shape))


@lowers(aten._trilinear.default)
def trilinear(b, x, y, z, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over `sumdim` of the product of three tensors, whose dimensions lie beside those that they are expanded by."""
    count = x.rank + len(expand1)

    def places(expanded):
        return [d for d in range(count) if d not in [e % count for e in expanded]]
    result = [d for d in range(count) if d not in [s % count for s in sumdim]]
    first, among = summed_product(b, x, places(expand1), y, places(expand2), {*result, *places(expand3)})
    total, among = summed_product(b, first, among, z, places(expand3), set(result))
    return b.transpose(total, [among.index(d) for d in result])


def summed_product(b, x, own, y, other, kept):
    """Of tensors whose dimensions have numbers, summed over those that are not kept; and the numbers of what comes out."""
    x, own = reduced_to(b, x, own, kept | set(other))
    y, other = reduced_to(b, y, other, kept | set(own))
    batch = [d for d in own if d in other and d in kept]
    contract = [d for d in own if d in other and d not in kept]
    numbers = [*batch, *(d for d in own if d not in other), *(d for d in other if d not in own)]

    def at(where, dims):
        return [where.index(d) for d in dims]
    return b.dot(x, b.cast(y, x.dtype), (at(own, contract), at(other, contract)), (at(own, batch), at(other, batch))), numbers


def reduced_to(b, x, numbers, kept):
    gone = [i for i, d in enumerate(numbers) if d not in kept]
    return (b.reduce("add", x, gone), [d for d in numbers if d in kept]) if gone else (x, numbers)
