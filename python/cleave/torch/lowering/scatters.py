"""Writes at indices."""

import torch

from cleave._core import UserError
from cleave.torch.lowering.indexing import wrapped
from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import Value

aten = torch.ops.aten


def put_along(b, x, dim, index, source, kind):
    """x[..., index[i, j, ..], ...] = source[i, j, ..] along a dimension; index may be smaller than x elsewhere."""
    if not x.rank:
        x1, i1, s1 = (b.reshape(v, [1]) for v in (x, index, source))
        return b.reshape(put_along(b, x1, 0, i1, s1, kind), ())
    if not index.rank:
        index, source = b.reshape(index, [1] * x.rank), b.reshape(source, [1] * x.rank)
    dim %= x.rank
    if not index.numel:
        return x
    source = b.slice(source, [0] * source.rank, index.shape)
    index = wrapped(b, index, x.shape[dim])
    if kind in ("replace", "add") and index.shape == tuple(1 if d == dim else n for d, n in enumerate(x.shape)):
        return put_one(b, x, dim, index, source, kind)
    short = [0 if d == dim else n - index.shape[d] for d, n in enumerate(x.shape)]
    if any(short):  # what is outside is not written
        index = b.pad(index, [0] * x.rank, short, value=x.shape[dim])
        source = b.pad(source, [0] * x.rank, short)
    rest = [d for d in range(x.rank) if d != dim]
    return b.scatter(x, b.unsqueeze(index, index.rank), source, kind=kind, window=[], inserted=[dim], index_map=[dim],
                     vector_dim=index.rank, batch=rest, index_batch=rest)


def put_one(b, x, dim, index, source, kind):
    """One element of each row: element by element, so that nothing is scattered, and every dimension may be split."""
    here = b.compare("EQ", b.iota(index.dtype, x.shape, dim), b.expand(index, x.shape))
    source = b.expand(source, x.shape)
    return b.select(here, source, x) if kind == "replace" else b.add(x, b.select(here, source, b.like(0, x)))


def source_of(b, x, index, source):
    if isinstance(source, Value):
        return b.cast(source, x.dtype)
    return b.const(source, x.dtype, index.shape)


@lowers(aten.scatter.src, aten.scatter.value, aten.scatter.reduce, aten.scatter.value_reduce)
def scatter(b, x, dim, index, source, *, reduce=None):
    kind = {None: "replace", "add": "add", "multiply": "multiply"}[reduce]
    return put_along(b, x, dim, index, source_of(b, x, index, source), kind)


@lowers(aten.scatter_add.default)
def scatter_add(b, x, dim, index, source):
    return b.cast(put_along(b, b.wide(x), dim, index, b.wide(source), "add"), x.dtype)


@lowers(aten.scatter_reduce.two)
def scatter_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    wide, source = b.wide(x), b.wide(source)
    kind = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}[reduce]
    start = wide
    if not include_self:
        start = put_along(b, wide, dim, index, b.const(b.identity(kind, wide.dtype), wide.dtype, index.shape), "replace")
    y = put_along(b, start, dim, index, source, kind)
    if reduce == "mean":
        counts = b.const(1, torch.int64, x.shape)
        ones = b.const(1, torch.int64, index.shape)
        if not include_self:
            counts = put_along(b, counts, dim, index, b.const(0, torch.int64, index.shape), "replace")
        counts = b.maximum(put_along(b, counts, dim, index, ones, "add"), 1)
        if x.is_float:
            y = b.div(y, b.cast(counts, y.dtype))
        else:
            from cleave.torch.lowering.arithmetic import floored_quotient
            y = floored_quotient(b, y, b.cast(counts, y.dtype))
    return b.cast(y, x.dtype)


def put_rows(b, x, dim, index, source, kind):
    """x at index of one dimension, for whole slices: source has the shape of x with len(index) there."""
    index = b.reshape(index, [1]) if not index.rank else index
    if not x.rank:
        x1, s1 = b.reshape(x, [1]), b.reshape(source, [1])
        return b.reshape(put_rows(b, x1, 0, index, s1, kind), ())
    dim %= x.rank
    if not index.numel or not x.numel:
        return x
    source = b.reshape(source, x.shape[:dim] + index.shape + x.shape[dim + 1:])
    return b.scatter(x, wrapped(b, index, x.shape[dim]), source, kind=kind, window=[d for d in range(x.rank) if d != dim],
                     inserted=[dim], index_map=[dim], vector_dim=1)


@lowers(aten.index_add)
def index_add(b, x, dim, index, source, *, alpha=1):
    wide, source = b.wide(x), b.wide(b.cast(source, x.dtype))
    return b.cast(put_rows(b, wide, dim, index, b.mul(source, alpha) if alpha != 1 else source, "add"), x.dtype)


@lowers(aten.index_copy)
def index_copy(b, x, dim, index, source):
    return put_rows(b, x, dim, index, source, "replace")


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(b, x, dim, index, value):
    shape = list(x.shape)
    if shape:
        shape[dim % x.rank] = index.numel
    value = b.expand(b.cast(value, x.dtype), shape) if isinstance(value, Value) else b.const(value, x.dtype, shape)
    return put_rows(b, x, dim, index, value, "replace")


@lowers(aten.index_reduce)
def index_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    shape = [1] * x.rank
    if not x.rank:
        return scatter_reduce(b, x, 0, b.reshape(index, ()), b.reshape(source, ()), names(reduce), include_self=include_self)
    shape[dim % x.rank] = index.numel
    wide = b.expand(b.reshape(index, shape), source.shape)
    return scatter_reduce(b, x, dim, wide, source, names(reduce), include_self=include_self)


def names(reduce):
    return {"add": "sum"}.get(reduce, reduce)


@lowers(aten.embedding_dense_backward)
def embedding_dense_backward(b, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    rows = b.reshape(indices, [indices.numel])
    width = grad.shape[-1]
    updates = b.reshape(b.wide(grad), (rows.numel, width))
    if scale_grad_by_freq:
        counts = put_rows(b, b.const(0, updates.dtype, [num_weights]), 0, rows, b.const(1, updates.dtype, [rows.numel]), "add")
        from cleave.torch.lowering.indexing import along
        updates = b.div(updates, b.broadcast(along(b, counts, 0, rows), updates.shape, [0]))
    if padding_idx >= 0:
        pad = b.broadcast(b.compare("EQ", rows, padding_idx), updates.shape, [0])
        updates = b.select(pad, b.like(0, updates), updates)
    if indices.rank > 1:
        zeros = b.const(0, updates.dtype, (num_weights, width))
        updates = b.reshape(updates, indices.shape + (width,))
        y = b.scatter(zeros, wrapped(b, indices, num_weights), updates, kind="add", window=[indices.rank], inserted=[0],
                      index_map=[0], vector_dim=indices.rank)
    else:
        y = put_rows(b, b.const(0, updates.dtype, (num_weights, width)), 0, rows, updates, "add")
    return b.cast(y, b.out[0].dtype)


@lowers(aten.put)
def put(b, x, index, source, accumulate=False):
    flat = b.reshape(x, [x.numel])
    y = put_rows(b, flat, 0, b.reshape(index, [index.numel]), b.reshape(source, [source.numel]), "add" if accumulate else "replace")
    return b.reshape(y, x.shape)


@lowers(aten.masked_scatter, aten.masked_select, aten.nonzero, aten._local_scalar_dense, aten.item, aten.unique_consecutive,
        aten._unique2, aten.nonzero_numpy, aten.equal, aten.repeat_interleave.Tensor, aten.repeat_interleave.self_Tensor)
def dynamic(b, *args, **kwargs):
    name = str(b.op)
    if name.startswith("aten.masked_scatter"):
        return masked_scatter(b, *args)
    raise UserError(f"{name}: sizes or control flow would depend on the numbers of a tensor, and a plan needs them before it "
                    "runs: use masks (torch.where), topk, or sizes that are known")


def masked_scatter(b, x, mask, source):
    """The n-th place of the mask takes the n-th element of the source."""
    from cleave.torch.lowering.indexing import along
    shape = b.out[0].shape
    x, mask = b.expand(x, shape), b.expand(mask, shape)
    if not x.numel or not source.numel:
        return x
    order = b.running("add", b.cast(b.reshape(mask, [x.numel]), torch.int64), 0)
    order = b.minimum(b.maximum(b.sub(order, 1), 0), source.numel - 1)
    found = along(b, b.reshape(source, [source.numel]), 0, order)
    return b.select(mask, b.reshape(found, shape), x)
