"""Lookups."""

import torch

from cleave._core import UserError
from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import Value

aten = torch.ops.aten


def wrapped(b, index, size):
    """Negative indices count from the end."""
    index = b.cast(index, torch.int64) if index.dtype not in (torch.int32, torch.int64) else index
    return b.select(b.compare("LT", index, 0), b.add(index, size), index)


def index_columns(b, indices, sizes):
    """[..., n] of n index tensors of one shape; one alone needs no further dimension. Returns it and the vector's dimension."""
    parts = [wrapped(b, index, size) for index, size in zip(indices, sizes)]
    rank = parts[0].rank
    if len(parts) == 1:
        return parts[0], rank
    parts = [b.cast(p, torch.int64) for p in parts]
    return b.concat([b.unsqueeze(p, rank) for p in parts], rank), rank


class Places:
    """What x[indices] means: which dimensions are looked up, and where theirs stand in the result."""

    def __init__(self, b, x, indices):
        self.dims = [d for d, index in enumerate(indices) if index is not None]
        given = [indices[d] for d in self.dims]
        for index in given:
            if index.dtype in (torch.bool, torch.uint8):
                raise UserError(f"{b.op}: a mask of shape {list(index.shape)} picks as many elements as it has ones, so sizes depend on "
                                "numbers, and a plan needs them before it runs: use torch.where or masked_fill")
        self.shape = tuple(torch.broadcast_shapes(*(index.shape for index in given)))
        given = [b.expand(index, self.shape) for index in given]
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.front = self.dims[0] if adjacent else 0
        self.rest = [d for d in range(x.rank) if d not in self.dims]
        k = len(self.shape)
        total = len(self.rest) + k
        self.offset = [d for d in range(total) if not self.front <= d < self.front + k]
        rest = [x.shape[d] for d in self.rest]
        self.result = tuple(rest[:self.front]) + self.shape + tuple(rest[self.front:])
        self.index, self.vector_dim = index_columns(b, given, [x.shape[d] for d in self.dims])


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(b, x, indices):
    if all(i is None for i in indices):
        return x
    places = Places(b, x, indices)
    if not x.numel or 0 in places.result:
        return b.const(0, x.dtype, places.result)
    sizes = [1 if d in places.dims else n for d, n in enumerate(x.shape)]
    return b.gather(x, places.index, offset=places.offset, collapsed=places.dims, index_map=places.dims,
                    vector_dim=places.vector_dim, sizes=sizes)


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(b, x, indices, values, accumulate=False):
    values = b.cast(values, x.dtype)
    if len([i for i in indices if i is not None]) == 1 and indices[0] is not None and indices[0].dtype == torch.bool:
        mask = indices[0]
        if values.numel == 1 or values.rank <= x.rank - mask.rank:  # the same wherever the mask is
            mask = b.broadcast(mask, x.shape, range(mask.rank))
            values = b.expand(b.reshape(values, ()) if values.numel == 1 else values, x.shape)
            return b.select(mask, b.add(x, values) if accumulate else values, x)
    places = Places(b, x, indices)
    values = b.expand(values, places.result)
    if not values.numel:
        return x
    y = b.wide(x) if accumulate else x
    y = b.scatter(y, places.index, b.cast(values, y.dtype), kind="add" if accumulate else "replace", window=places.offset,
                  inserted=places.dims, index_map=places.dims, vector_dim=places.vector_dim)
    return b.cast(y, x.dtype)


def along(b, x, dim, index):
    """x[..., index[...], ...] of one dimension: index is a vector, or has no dimension."""
    if not index.rank:
        index = b.reshape(index, [1])
    dim %= max(x.rank, 1)
    sizes = [1 if d == dim else n for d, n in enumerate(x.shape)]
    shape = x.shape[:dim] + index.shape + x.shape[dim + 1:]
    if 0 in shape:
        return b.const(0, x.dtype, shape)
    offset = [d for d in range(len(shape)) if not dim <= d < dim + index.rank]
    return b.gather(x, wrapped(b, index, x.shape[dim]), offset=offset, collapsed=[dim], index_map=[dim], vector_dim=index.rank,
                    sizes=sizes)


@lowers(aten.index_select)
def index_select(b, x, dim, index):
    if not x.rank:
        return b.reshape(x, b.out[0].shape)
    return along(b, x, dim, index)


@lowers(aten.embedding)
def embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if not indices.rank:
        return b.reshape(along(b, weight, 0, indices), b.out[0].shape)
    return along(b, weight, 0, indices)


@lowers(aten.take)
def take(b, x, index):
    flat = b.reshape(x, [x.numel])
    return b.reshape(along(b, flat, 0, b.reshape(index, [index.numel])), index.shape)


@lowers(aten.gather)
def gather(b, x, dim, index, *, sparse_grad=False):
    if not x.rank or not index.rank:
        x = b.reshape(x, [x.numel] if not x.rank else x.shape)
        index = b.reshape(index, [index.numel] if not index.rank else index.shape)
    dim %= x.rank
    if not index.numel:
        return b.const(0, x.dtype, b.out[0].shape)
    x = b.slice(x, [0] * x.rank, [n if d == dim else index.shape[d] for d, n in enumerate(x.shape)])
    return b.reshape(taken(b, x, dim, wrapped(b, index, x.shape[dim])), b.out[0].shape)


def taken(b, x, dim, index):
    """Elements at `index` along a dimension; the others are batches."""
    rest = [d for d in range(x.rank) if d != dim]
    return b.gather(x, b.unsqueeze(index, index.rank), offset=[], collapsed=[dim], index_map=[dim], vector_dim=index.rank,
                    sizes=[1] * x.rank, batch=rest, index_batch=rest)


@lowers(aten.masked_fill)
def masked_fill(b, x, mask, value):
    shape = b.out[0].shape
    x = b.expand(x, shape)
    value = b.expand(b.cast(value, x.dtype), shape) if isinstance(value, Value) else b.like(value, x)
    return b.select(b.cast(mask, torch.bool), value, x)


@lowers(aten.searchsorted.Tensor, aten.searchsorted.Scalar, aten.bucketize.Tensor, aten.bucketize.Scalar)
def searchsorted(b, one, other, *, out_int32=False, right=False, side=None, sorter=None):
    """How many boundaries are below."""
    x, bounds = (one, other) if "bucketize" in str(b.op) else (other, one)
    if sorter is not None and bounds.numel:
        bounds = taken(b, bounds, bounds.rank - 1, sorter)
    if not isinstance(x, Value):
        x = b.const(x, bounds.dtype)
    right = right or side == "right"
    dtype = torch.promote_types(x.dtype, bounds.dtype)
    n = bounds.shape[-1]
    shape = x.shape + (n,)
    wide = b.broadcast(b.cast(x, dtype), shape, range(x.rank))
    bounds = b.cast(bounds, dtype)
    if bounds.rank == 1:
        edges = b.broadcast(bounds, shape, [len(shape) - 1])
    else:
        edges = b.broadcast(bounds, shape, [*range(x.rank - 1), x.rank])
    above = b.compare("GT" if right else "GE", edges, wide)
    if dtype.is_floating_point:
        above = b.either(above, b.isnan(edges) if not right else b.both(b.isnan(edges), b.invert(b.isnan(wide))))
    below = b.invert(above)
    return b.reduce("add", b.cast(below, b.out[0].dtype), [len(shape) - 1])
