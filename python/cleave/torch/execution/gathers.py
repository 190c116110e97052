"""Gathers: embedding, index_select, gather and index, by what the dimension numbers say."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.elementwise import product
from cleave.torch.execution.table import translates

aten = torch.ops.aten


def bounds(b, t):
    """The range of integers in t, as far as constants and clamps say it."""
    if isinstance(t, torch.Tensor):
        return (int(t.min()), int(t.max())) if t.numel() else (0, 0)
    if t.target is aten.clamp.default:
        return t.args[1], t.args[2]
    if t.target in (aten.view.default, aten.expand.default, aten._to_copy.default, aten.permute.default, aten.slice.Tensor,
                    aten._unsafe_view.default, aten.clone.default):  # fmt: skip
        return bounds(b, t.args[0]) if not t.meta["val"].is_floating_point() else None
    return None


def columns(b, indices, vector_dim, count):
    """The starts of each dimension that is indexed: tensors with the batch dimensions of the indices."""
    if vector_dim == len(indices.shape):
        return [b.ranked(indices)]
    held = b.ranked(indices)
    if count == 1:
        shape = [n for d, n in enumerate(b.shape(held)) if d != vector_dim]
        return [b.view(held, shape)]
    shape = list(b.shape(held))
    shape[vector_dim] = count
    if b.shape(held) != tuple(shape):
        held = b.call(aten.expand.default, held, shape)
    rest = shape[:vector_dim] + shape[vector_dim + 1 :]
    return [b.view(b.call(aten.slice.Tensor, held, vector_dim, i, i + 1), rest) for i in range(count)]


def clamped(b, t, high):
    """Starts that reach outside begin at the border."""
    found = bounds(b, t)
    wide = t
    if found and found[0] >= 0 and found[1] <= high:
        return index_type(b, wide)
    return index_type(b, b.call(aten.clamp.default, wide, 0, high))


def index_type(b, t):
    """Indices are 32 or 64 bits wide."""
    return t if b.val(t).dtype in (torch.int64, torch.int32) else b.convert(t, torch.int64)


class Numbers:
    """Dimension numbers of a gather, or of a scatter in the same words."""

    def __init__(self, offset, collapsed, start_map, vector_dim, batching, index_batching):
        self.offset, self.collapsed, self.start_map, self.vector_dim = offset, collapsed, start_map, vector_dim
        self.batching, self.index_batching = batching, index_batching

    def window_dims(self, rank):
        """Dimensions of the operand that are dimensions of the result, in order."""
        return [d for d in range(rank) if d not in self.collapsed and d not in self.batching]

    def batch_dims(self, rank):
        return [d for d in range(rank) if d not in self.offset]


def gather_numbers(op):
    n = op.get("dimension_numbers")
    return Numbers(n.get("offset_dims", []), n.get("collapsed_slice_dims", []), n.get("start_index_map", []),
                   n.get("index_vector_dim", 0), n.get("operand_batching_dims", []), n.get("start_indices_batching_dims", []))  # fmt: skip


@translates("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(t, op, x, indices, *rest):
    b, numbers = t.b, gather_numbers(op)
    sizes = op.ints("slice_sizes") if not rest else [int(n) for n in b.known(rest[0]).tolist()]
    if 0 in op.shape:
        return b.number(0, op.dtype, op.shape)
    if x.scalar is not None:
        return Value(x.t, op.shape, op.dtype)
    if x.is_constant and indices.is_constant:
        x = Value(b.known(x), x.shape, x.dtype)
        indices = Value(b.known(indices), indices.shape, indices.dtype)
    starts = columns(b, indices, numbers.vector_dim, len(numbers.start_map))
    starts = [clamped(b, s, x.shape[d] - sizes[d]) for s, d in zip(starts, numbers.start_map)]
    batch_shape = [n for d, n in enumerate(indices.shape) if d != numbers.vector_dim]
    whole = all(sizes[d] == (1 if d in numbers.start_map or d in numbers.batching else x.shape[d]) for d in range(len(x.shape)))
    if whole and not numbers.batching and set(numbers.start_map) <= set(numbers.collapsed):
        return rows(b, op, x, numbers, starts, batch_shape)
    found = along(b, op, x, numbers, sizes, starts, batch_shape, indices)
    return found or anywhere(b, op, x, numbers, sizes, starts, indices)


def rows(b, op, x, numbers, starts, batch_shape):
    """Whole rows at indexed places: the batch dimensions stand where the indexed dimensions were, then move."""
    full = b.full(x)
    dims = numbers.start_map
    keep = [d for d in range(len(x.shape)) if d not in numbers.collapsed]
    extra = [d for d in numbers.collapsed if d not in dims]
    starts = [s if b.shape(s) == tuple(batch_shape) else b.call(aten.expand.default, s, batch_shape) for s in starts]
    if extra:
        full = b.view(full, [n for d, n in enumerate(x.shape) if d not in extra])
        left = [d for d in range(len(x.shape)) if d not in extra]
        dims, keep = [left.index(d) for d in dims], [left.index(d) for d in keep]
    shape = list(b.shape(full))
    if len(dims) == 1:
        d = dims[0]
        if d == 0 and len(shape) == 2 and b.val(full).is_floating_point():
            result = b.call(aten.embedding.default, full, starts[0])
        elif len(batch_shape) == 1:
            result = b.call(aten.index_select.default, full, d, starts[0])
        else:
            result = b.call(aten.index.Tensor, full, [None] * d + [starts[0]])
        front = d
    else:
        order = sorted(zip(dims, starts), key=lambda p: p[0])
        places = [None] * (order[-1][0] + 1)
        for d, s in order:
            places[d] = s
        result = b.call(aten.index.Tensor, full, places)
        front = order[0][0] if order[-1][0] - order[0][0] == len(order) - 1 else 0
    batch = list(range(front, front + len(batch_shape)))
    window = [d for d in range(len(batch_shape) + len(keep)) if d not in batch]
    return Value(place(b, result, batch, window, numbers, len(op.shape)), op.shape, op.dtype)


def place(b, result, batch, window, numbers, rank):
    """Moves batch and window dimensions to where the result has them."""
    order, batch, window = [], iter(batch), iter(window)
    for d in range(rank):
        order.append(next(window) if d in numbers.offset else next(batch))
    return b.permute(result, order)


def along(b, op, x, numbers, sizes, starts, batch_shape, indices):
    """take_along: one indexed dimension, all others are batch dimensions in order."""
    if len(numbers.start_map) != 1 or sorted(numbers.batching + numbers.start_map) != list(range(len(x.shape))):
        return None
    if any(n != 1 for n in sizes) or any(d not in numbers.collapsed for d in numbers.start_map):
        return None
    kept = [d for d in range(len(indices.shape)) if d != numbers.vector_dim]
    if len(kept) != len(x.shape):
        return None
    to = {kept.index(i): o for o, i in zip(numbers.batching, numbers.index_batching)}
    free = next(i for i in range(len(kept)) if i not in to)
    to[free] = numbers.start_map[0]
    if [to[i] for i in range(len(kept))] != list(range(len(kept))):
        return None
    index = starts[0]
    index = index if b.shape(index) == tuple(batch_shape) else b.call(aten.expand.default, index, batch_shape)
    return Value(b.call(aten.gather.default, b.full(x), numbers.start_map[0], b.convert(index, torch.int64)), op.shape, op.dtype)


def places_of(b, shape, numbers, sizes, starts, indices, result_rank, result_shape):
    """For each dimension of the operand its index, of a shape that broadcasts to the gather's result."""
    batch, window = numbers.batch_dims(result_rank), numbers.window_dims(len(shape))
    kept = [d for d in range(len(indices.shape)) if d != numbers.vector_dim]
    places = []
    for d in range(len(shape)):
        index = None
        if d in numbers.start_map:
            held = starts[numbers.start_map.index(d)]
            sized = [1] * result_rank
            for axis, n in zip(batch, b.shape(held)):
                sized[axis] = n
            index = b.view(held, sized)
        if d in numbers.batching:
            axis = batch[kept.index(numbers.index_batching[numbers.batching.index(d)])]
            index = line(b, result_shape[axis], axis, result_rank)
        if d in window and (sizes[d] > 1 or index is None):
            axis = sorted(numbers.offset)[window.index(d)]
            offset = line(b, sizes[d], axis, result_rank)
            index = offset if index is None else b.call(aten.add.Tensor, index, offset)
        if index is None:
            index = torch.zeros([1] * result_rank, dtype=torch.int64)
        places.append(index)
    return places


def line(b, n, axis, rank):
    return b.view(b.arange(n), [n if d == axis else 1 for d in range(rank)])


def anywhere(b, op, x, numbers, sizes, starts, indices):
    """The general form: an index for each dimension of the operand."""
    places = places_of(b, x.shape, numbers, sizes, starts, indices, len(op.shape), op.shape)
    places = [b.convert(p, torch.int64) for p in places]
    if not op.shape:
        places = [b.view(p, ()) for p in places]
    full = b.full(x)
    if not places:
        return Value(full, op.shape, op.dtype)
    if len(places) == 1 and len(op.shape) == 1:
        return Value(b.call(aten.index_select.default, full, 0, spread(b, places[0], op.shape)), op.shape, op.dtype)
    result = b.call(aten.index.Tensor, full, places)
    return Value(result, op.shape, op.dtype)  # dimensions that no index has broadcast


def spread(b, t, shape):
    return t if b.shape(t) == tuple(shape) else b.call(aten.expand.default, t, list(shape))


def linear(b, places, shape):
    """One index into the flat operand."""
    total = None
    for d, index in enumerate(places):
        step = product(shape[d + 1 :])
        term = b.convert(index, torch.int64)
        term = term if step == 1 else b.call(aten.mul.Tensor, term, step)
        total = term if total is None else b.call(aten.add.Tensor, total, term)
    return total
