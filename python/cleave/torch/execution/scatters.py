"""Scatters: index_add, index_put and scatter_reduce. Updates of elements outside the operand are left out."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.elementwise import product, select
from cleave.torch.execution.gathers import Numbers, bounds, columns, index_type, linear, places_of, spread
from cleave.torch.execution.reductions import body_name, identity
from cleave.torch.execution.table import translates

aten = torch.ops.aten
REDUCE = {"maximum": "amax", "minimum": "amin", "multiply": "prod", "add": "sum", "or": "amax", "and": "amin"}


def scatter_numbers(op):
    n = op.get("scatter_dimension_numbers")
    return Numbers(n.get("update_window_dims", []), n.get("inserted_window_dims", []), n.get("scatter_dims_to_operand_dims", []),
                   n.get("index_vector_dim", 0), n.get("input_batching_dims", []), n.get("scatter_indices_batching_dims", []))  # fmt: skip


@translates("stablehlo.scatter")
def scatter(t, op, *operands):
    b, count = t.b, len(op.results)
    if count != 1:
        raise op.error(operands, "no translation to PyTorch of a scatter of several tensors")
    x, indices, updates = operands
    name = body_name(op.regions[0])
    if name is None or name == "xor" or (name in ("and", "or") and x.dtype != "i1"):
        raise op.error(operands, "no translation to PyTorch of its body; add, multiply, minimum, maximum and replacing are known")
    if 0 in updates.shape or 0 in x.shape:
        return x
    numbers = scatter_numbers(op)
    window = numbers.window_dims(len(x.shape))
    sizes = [1] * len(x.shape)
    for d, axis in zip(window, sorted(numbers.offset)):
        sizes[d] = updates.shape[axis]
    starts = [index_type(b, s) for s in columns(b, indices, numbers.vector_dim, len(numbers.start_map))]
    found = added_rows(b, op, x, updates, numbers, sizes, starts) if name == "add" and x.dtype != "i1" else None
    return found or general(b, op, name, x, indices, updates, numbers, sizes, starts)


def guarded(b, starts, highs):
    """Indices from 0 to `highs`, and a mask of those that were so; None if all are."""
    inside, safe = None, []
    for start, high in zip(starts, highs):
        found = bounds(b, start)
        if found and found[0] >= 0 and found[1] <= high:
            safe.append(start)
            continue
        kept = b.call(aten.clamp.default, start, 0, high)
        here = b.call(aten.eq.Tensor, kept, start)
        inside = here if inside is None else b.call(aten.logical_and.default, inside, here)
        safe.append(kept)
    return safe, inside


def batch_mask(b, mask, numbers, rank):
    """A mask over the batch dimensions, in the dimensions of the updates."""
    sized = [1] * rank
    for axis, n in zip(numbers.batch_dims(rank), b.shape(mask)):
        sized[axis] = n
    return b.view(mask, sized)


def added_rows(b, op, x, updates, numbers, sizes, starts):
    """The gradient of a lookup: whole rows are added along one dimension."""
    if len(numbers.start_map) != 1 or numbers.batching or numbers.start_map != numbers.collapsed:
        return None
    d = numbers.start_map[0]
    if any(sizes[i] != x.shape[i] for i in range(len(x.shape)) if i != d):
        return None
    rank = len(updates.shape)
    full = b.full(updates)
    starts, inside = guarded(b, starts, [x.shape[d] - 1])
    if inside is not None:
        zero = torch.zeros((), dtype=b.val(full).dtype)
        full = select(b, batch_mask(b, inside, numbers, rank), full, zero)
    batch, window = numbers.batch_dims(rank), sorted(numbers.offset)
    rows = product(updates.shape[i] for i in batch)
    before, after = window[:d], window[d:]
    flat = b.view(b.permute(full, before + batch + after),
                  [updates.shape[i] for i in before] + [rows] + [updates.shape[i] for i in after])  # fmt: skip
    index = b.view(spread(b, starts[0], [updates.shape[i] for i in batch]), [rows])
    return Value(b.wrapped(b.call(aten.index_add.default, b.full(x), d, index, flat), x.dtype), op.shape, op.dtype)


def general(b, op, name, x, indices, updates, numbers, sizes, starts):
    """One index into the flat operand for each update."""
    rank = len(updates.shape)
    places = places_of(b, x.shape, numbers, sizes, starts, indices, rank, updates.shape)
    places, mask = guarded(b, places, [size - 1 for size in x.shape])
    n = product(x.shape)
    index = linear(b, places, x.shape) if places else torch.zeros((), dtype=torch.int64)
    values, flat = b.full(updates), b.view(b.full(x), [n])
    if mask is not None and name != "second":
        values = select(b, mask, values, torch.tensor(identity(name, x.dtype), dtype=b.val(values).dtype))
    elif mask is not None:  # what is left out goes to a place behind the end
        index = b.call(aten.where.ScalarOther, mask, index, n)
        flat = b.call(aten.constant_pad_nd.default, flat, [0, 1], 0)
    index = b.view(spread(b, index, updates.shape), [product(updates.shape)])
    values = b.view(values, [product(updates.shape)])
    if x.dtype == "i1":
        flat, values = (b.convert(v, torch.uint8) for v in (flat, values))
    if name == "second":
        result = b.call(aten.scatter.src, flat, 0, index, values)
    elif name == "add":
        result = b.call(aten.scatter_add.default, flat, 0, index, values)
    else:
        result = b.call(aten.scatter_reduce.two, flat, 0, index, values, REDUCE[name])
    if mask is not None and name == "second":
        result = b.call(aten.slice.Tensor, result, 0, 0, n)
    if x.dtype == "i1":
        result = b.convert(result, torch.bool)
    return Value(b.wrapped(b.view(result, x.shape), x.dtype), op.shape, op.dtype)
