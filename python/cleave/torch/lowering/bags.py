"""Sums, means and maxima of bags of rows."""

import torch

from cleave.torch.lowering.indexing import along
from cleave.torch.lowering.scatters import put_rows, scatter_add
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten
SUM, MEAN, MAX = 0, 1, 2


def bags_of(b, indices, offsets, bags, padding_idx):
    """Of each index its bag, which is none of them if it is that of padding; and how many each bag has. Bag k has the indices from
    offset k on."""
    n = indices.numel
    if offsets.shape[0] > bags:  # the last offset is the end
        offsets = b.slice_dim(offsets, 0, 0, bags)
    begun = b.compare("LE", b.broadcast(offsets, (n, bags), [1]), b.iota(offsets.dtype, (n, bags), 0))
    bag = b.sub(b.reduce("add", b.cast(begun, torch.int64), [1]), 1)
    counted = b.const(1, torch.int64, [n])
    if padding_idx >= 0:
        skipped = b.compare("EQ", indices, padding_idx)
        counted = b.select(skipped, b.like(0, counted), counted)
        bag = b.select(skipped, b.like(bags, bag), bag)  # outside: not written
    return bag, into_bags(b, b.const(0, torch.int64, [bags]), bag, counted, "add")


def into_bags(b, start, bag, values, kind):
    return b.scatter(start, bag, values, kind=kind, window=list(range(1, values.rank)), inserted=[0], index_map=[0], vector_dim=1)


@lowers(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(b, weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=-1):
    bags, width = b.out[0].shape[0], weight.shape[1]
    bag, sizes = bags_of(b, indices, offsets, bags, padding_idx)
    rows = b.wide(along(b, weight, 0, indices))
    if per_sample_weights is not None:
        rows = b.mul(rows, b.broadcast(b.cast(per_sample_weights, rows.dtype), rows.shape, [0]))
    kind = "maximum" if mode == MAX else "add"
    y = into_bags(b, b.const(b.identity(kind, rows.dtype), rows.dtype, (bags, width)), bag, rows, kind)
    over = b.broadcast(sizes, y.shape, [0])
    largest = offsets
    if mode == MEAN:
        y = b.div(y, b.cast(b.maximum(over, 1), y.dtype))
    elif mode == MAX:
        if b.out[3].shape == y.shape:
            largest = largest_of(b, indices, bag, rows, y)
        y = b.select(b.compare("EQ", over, 0), b.like(0, y), y)
    kept = (bag, sizes, largest)
    rest = [b.cast(k, dtype) if k.shape == shape else b.const(0, dtype, shape) for k, (dtype, shape) in zip(kept, b.out[1:])]
    return y, *rest


def largest_of(b, indices, bag, rows, y):
    """The index that each column of a bag has its maximum from; 0 for an empty bag."""
    n = indices.numel
    same = b.compare("EQ", rows, along(b, y, 0, b.minimum(bag, y.shape[0] - 1)))
    places = b.select(same, b.iota(torch.int64, rows.shape, 0), b.const(n, torch.int64, rows.shape))
    place = into_bags(b, b.const(n, torch.int64, y.shape), bag, places, "minimum")
    found = along(b, b.cast(indices, torch.int64), 0, b.reshape(b.minimum(place, n - 1), [y.numel]))
    return b.select(b.compare("EQ", place, n), b.like(0, place), b.reshape(found, y.shape))


@lowers(aten._embedding_bag_backward.default)
def embedding_bag_backward(b, grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
                           sparse, per_sample_weights, padding_idx=-1):
    if not indices.numel:
        return b.const(0, *b.out[0])
    bag, sizes = bags_of(b, indices, offsets, grad.shape[0], padding_idx)
    grad = b.wide(grad)
    zeros = b.const(0, grad.dtype, (num_weights, grad.shape[1]))
    if mode == MAX:
        empty = b.broadcast(b.compare("EQ", sizes, 0), grad.shape, [0])
        return b.cast(scatter_add(b, zeros, 0, maximum_indices, b.select(empty, b.like(0, grad), grad)), b.out[0].dtype)
    if mode == MEAN:
        grad = b.div(grad, b.cast(b.broadcast(b.maximum(sizes, 1), grad.shape, [0]), grad.dtype))
    updates = rows_of(b, grad, bag)
    if per_sample_weights is not None:
        updates = b.mul(updates, b.broadcast(b.cast(per_sample_weights, updates.dtype), updates.shape, [0]))
    if scale_grad_by_freq:
        counts = put_rows(b, b.const(0, updates.dtype, [num_weights]), 0, indices, b.const(1, updates.dtype, [indices.numel]), "add")
        updates = b.div(updates, b.broadcast(along(b, counts, 0, indices), updates.shape, [0]))
    return b.cast(put_rows(b, zeros, 0, indices, updates, "add"), b.out[0].dtype)


def rows_of(b, x, bag):
    """The row of each index's bag; zeros for those that are in none."""
    bags = x.shape[0]
    rows = along(b, x, 0, b.minimum(bag, bags - 1))
    return b.select(b.broadcast(b.compare("EQ", bag, bags), rows.shape, [0]), b.like(0, rows), rows)


@lowers(aten._embedding_bag_per_sample_weights_backward.default)
def per_sample_weights_backward(b, grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    if not indices.numel:
        return b.const(0, *b.out[0])
    bag, _ = bags_of(b, indices, offsets, grad.shape[0], padding_idx)
    grad = b.wide(grad)
    products = b.mul(rows_of(b, grad, bag), b.cast(along(b, weight, 0, indices), grad.dtype))
    return b.cast(b.reduce("add", products, [1]), b.out[0].dtype)
