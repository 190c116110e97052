"""Sorts and what picks by rank."""

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def sorted_pair(b, x, dim, descending):
    """Values and places, both i64."""
    places = b.iota(torch.int64, x.shape, dim)
    keys = b.cast(x, torch.int8) if x.dtype == torch.bool else x
    values, places = b.sort(keys, [places], dim, descending)
    return b.cast(values, x.dtype), places


@lowers(aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable)
def sort(b, x, dim=-1, descending=False, *, stable=None):
    if not x.rank or not x.numel:
        out = x, b.const(0, torch.int64, x.shape)
    else:
        out = sorted_pair(b, x, dim % x.rank, descending)
    return out[1] if "argsort" in str(b.op) else out


@lowers(aten.topk.default)
def topk(b, x, k, dim=-1, largest=True, sorted=True):
    if not x.rank:
        return x, b.const(0, torch.int64, ())
    dim %= x.rank
    if k == 0 or not x.numel:
        return tuple(b.const(0, dtype, shape) for dtype, shape in b.out)
    return tuple(b.slice_dim(v, dim, 0, k) for v in sorted_pair(b, x, dim, largest))


@lowers(aten.kthvalue.default)
def kthvalue(b, x, k, dim=-1, keepdim=False):
    if not x.rank:
        return x, b.const(0, torch.int64, ())
    dim %= x.rank
    return tuple(b.reshape(b.slice_dim(v, dim, k - 1, k), b.out[0].shape) for v in sorted_pair(b, x, dim, False))


@lowers(aten.median.default, aten.median.dim)
def median(b, x, dim=None, keepdim=False):
    """The lower of two middle ones; a NaN if there is one."""
    shape = b.out[0].shape
    if not x.rank:
        return (x, b.const(0, torch.int64, ())) if dim is not None else x
    y = b.reshape(x, [x.numel]) if dim is None else x
    at = 0 if dim is None else dim % x.rank
    values, places = sorted_pair(b, y, at, False)
    n = y.shape[at]
    middle, last = (b.slice_dim(values, at, i, i + 1) for i in ((n - 1) // 2, n - 1))
    place = b.slice_dim(places, at, (n - 1) // 2, (n - 1) // 2 + 1)
    if x.is_float:
        bad = b.isnan(last)
        middle = b.select(bad, last, middle)
        hit = b.select(b.isnan(y), b.iota(torch.int64, y.shape, at), b.const(n, torch.int64, y.shape))
        place = b.select(bad, b.reduce("minimum", hit, [at], True), place)
    middle = b.reshape(middle, shape)
    return middle if dim is None else (middle, b.reshape(place, shape))


@lowers(aten.mode.default)
def mode(b, x, dim=-1, keepdim=False):
    """The smallest of the most frequent values."""
    if not x.rank:
        return x, b.const(0, torch.int64, ())
    dim %= x.rank
    values, places = sorted_pair(b, x, dim, False)
    n = x.shape[dim]
    shape = x.shape[:dim] + (n,) + x.shape[dim:]
    one = b.broadcast(values, shape, [d if d < dim else d + 1 for d in range(x.rank)])
    other = b.broadcast(values, shape, [d if d <= dim else d + 1 for d in range(x.rank)])
    counts = b.reduce("add", b.cast(b.compare("EQ", one, other), torch.int64), [dim + 1])
    # The last place of the first run that is the longest.
    score = b.add(b.mul(counts, n), b.sub(b.like(n - 1, counts), b.iota(torch.int64, x.shape, dim)))
    best = b.reduce("maximum", score, [dim], True)
    first = b.sub(b.like(n - 1, best), b.binary("remainder", best, b.like(n, best)))
    last = b.sub(b.add(first, b.div(best, n)), 1)
    hit = b.compare("EQ", b.iota(torch.int64, x.shape, dim), b.expand(last, x.shape))
    outs = []
    for v in (b.cast(values, torch.int8) if x.dtype == torch.bool else values, places):
        outs.append(b.reshape(b.reduce("add", b.select(hit, v, b.like(0, v)), [dim], True), b.out[0].shape))
    return b.cast(outs[0], x.dtype), outs[1]
