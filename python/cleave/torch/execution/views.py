"""Constants, and ops that move elements: nothing is copied that a view can say."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import carrier, is_float
from cleave.torch.execution.elementwise import product
from cleave.torch.execution.table import translates

aten = torch.ops.aten


@translates("stablehlo.constant", "chlo.constant", "sdy.constant")
def constant(t, op):
    tensor = op.get("value")
    if tensor.numel() and all(step == 0 or n == 1 for step, n in zip(tensor.stride(), tensor.shape)):
        tensor = tensor.as_strided((), ())
    return Value(compact(tensor) if tensor.dim() else tensor, op.shape, op.dtype)


def compact(tensor):
    """Without the dimensions along which all elements are the same."""
    if tensor.numel() == 0 or tensor.numel() > 1 << 22:
        return tensor
    for d in range(tensor.dim()):
        first = tensor.narrow(d, 0, 1)
        if tensor.shape[d] > 1 and torch.equal(first.expand_as(tensor), tensor):
            tensor = first
    return tensor.reshape(()) if tensor.numel() == 1 else tensor


@translates("stablehlo.iota")
def iota(t, op):
    dim = op.get("iota_dimension")
    line = torch.arange(op.shape[dim], dtype=torch.int64).to(carrier(op.dtype))
    return Value(line.reshape([-1 if d == dim else 1 for d in range(len(op.shape))]), op.shape, op.dtype)


@translates("stablehlo.partition_id")
def partition_id(t, op):
    return t.b.number(t.rank, op.dtype)


@translates("stablehlo.replica_id")
def replica_id(t, op):
    return t.b.number(0, op.dtype)


@translates("stablehlo.broadcast_in_dim")
def broadcast_in_dim(t, op, x):
    return broadcast(t.b, x, op.ints("broadcast_dimensions"), op.shape)


def broadcast(b, x, dims, shape):
    """Dimension i of x becomes dims[i] of the result; elements are not copied."""
    held = b.ranked(x)
    sizes = b.shape(held)
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    held = b.permute(held, order)
    inner = [1] * len(shape)
    for i, d in enumerate(dims):
        inner[d] = sizes[i]
    while inner and inner[0] == 1:  # torch adds leading dimensions itself
        inner.pop(0)
    return Value(b.view(held, inner), shape, x.dtype)


@translates("stablehlo.broadcast")
def broadcast_(t, op, x):
    return Value(t.b.ranked(x), op.shape, op.dtype)


@translates("stablehlo.reshape")
def reshape(t, op, x):
    return reshaped(t.b, x, op.shape)


def reshaped(b, x, shape):
    """Dimensions along which all elements are the same stay unwritten if the reshape keeps them apart."""
    shape = tuple(shape)
    held = b.ranked(x)
    sizes = b.shape(held)
    if sizes == x.shape:
        return Value(b.view(held, shape), shape, x.dtype)
    if product(sizes) == 1 and x.shape:
        return Value(b.view(held, ()), shape, x.dtype)
    groups = grouped(x.shape, shape)
    inner = []
    for source, target in groups or [((), None)]:
        here = [sizes[d] for d in source]
        if target is None:
            inner = None
            break
        if all(n == 1 for n in here):
            inner += [1] * len(target)
        elif here == [x.shape[d] for d in source]:
            inner += [shape[d] for d in target]
        else:
            inner = None
            break
    if inner is None:
        return Value(b.view(b.full(x), shape), shape, x.dtype)
    return Value(b.view(held, inner), shape, x.dtype)


def grouped(source, target):
    """Runs of dimensions of two shapes with the same elements: [4, 6] and [2, 2, 6] give ((0), (0, 1)), ((1), (2))."""
    groups, i, j = [], 0, 0
    if 0 in source or 0 in target:
        return None
    while i < len(source) or j < len(target):
        begin, a, c = (i, j), 1, 1
        if i < len(source):
            a, i = source[i], i + 1
        if j < len(target):
            c, j = target[j], j + 1
        while a != c:
            if a < c:
                a, i = a * source[i], i + 1
            else:
                c, j = c * target[j], j + 1
        groups.append((tuple(range(begin[0], i)), tuple(range(begin[1], j))))
    return groups


@translates("stablehlo.transpose")
def transpose(t, op, x):
    return Value(t.b.permute(t.b.ranked(x), op.ints("permutation")), op.shape, op.dtype)


@translates("stablehlo.slice")
def slice_(t, op, x):
    return sliced(t.b, x, op.ints("start_indices"), op.ints("limit_indices"), op.ints("strides"))


def sliced(b, x, starts, limits, steps=None):
    held = b.ranked(x)
    sizes, shape, stacked = b.shape(held), [], is_stacked(held)
    if stacked and (starts[0], limits[0]) not in ((0, 1), (0, x.shape[0])):
        raise ValueError("the state of an optimizer is read, and only its parameter is here")
    stacked = stacked and limits[0] != 1
    for d, (low, high) in enumerate(zip(starts, limits)):
        step = steps[d] if steps else 1
        shape.append(-(-(high - low) // step))
        if sizes[d] != 1 and (low, high, step) != (0, sizes[d], 1):
            inner = before_padding(b, held, d, low, high) if step == 1 else None
            held = inner if inner is not None else b.call(aten.slice.Tensor, held, d, low, high, step)
        elif shape[-1] == 0:
            held = b.call(aten.slice.Tensor, held, d, 0, 0)
    if stacked:
        held.meta["stacked"] = True
    return Value(held, shape, x.dtype)


def is_stacked(held):
    """Whether this is a parameter in the place of itself and what its optimizer keeps for it."""
    return isinstance(held, torch.fx.Node) and bool(held.meta.get("stacked"))


def before_padding(b, t, d, low, high):
    """A slice of what is padded along the same dimension: the slice of the inner tensor, with what is left of the padding."""
    if not isinstance(t, torch.fx.Node) or t.target is not aten.constant_pad_nd.default:
        return None
    inner, pads, number = t.args
    place, n, rank = 2 * (len(b.shape(t)) - 1 - d), b.shape(inner)[d], len(b.shape(t))
    pads = list(pads) + [0] * (2 * rank - len(pads))
    begin, end = max(low - pads[place], 0), min(high - pads[place], n)
    if begin >= end or min(pads) < 0:
        return None
    pads[place : place + 2] = begin + pads[place] - low, high - pads[place] - end
    if (begin, end) != (0, n):
        inner = b.call(aten.slice.Tensor, inner, d, begin, end)
    return b.call(aten.constant_pad_nd.default, inner, pads, number) if any(pads) else inner


@translates("stablehlo.dynamic_slice")
def dynamic_slice(t, op, x, *starts):
    b, sizes = t.b, op.ints("slice_sizes")
    known = [start_of(start, n, size) for start, n, size in zip(starts, x.shape, sizes)]
    steady = [0 if start is None else start for start in known]
    limits = [n if start is None else start + size for start, n, size in zip(known, x.shape, sizes)]
    value = sliced(b, x, steady, limits)
    for d, (start, size) in enumerate(zip(known, sizes)):
        if start is not None:
            continue
        held = b.ranked(value)
        stacked = is_stacked(held)
        if b.shape(held)[d] != 1:
            held = b.call(aten.index_select.default, held, d, positions(b, starts[d], x.shape[d], size))
        if stacked:
            held.meta["stacked"] = True
        value = Value(held, (*value.shape[:d], size, *value.shape[d + 1 :]), x.dtype)
    return value


def start_of(start, n, size):
    """Where a slice begins, if that is known: never so late that it would not fit."""
    if n == size:
        return 0
    return None if start.scalar is None else max(0, min(start.scalar, n - size))


def positions(b, start, n, size):
    """The places of a slice of n elements, one dimension."""
    first = b.call(aten.clamp.default, b.convert(b.view(start.t, (1,)), torch.int64), 0, n - size)
    return first if size == 1 else b.call(aten.add.Tensor, first, b.arange(size))


@translates("stablehlo.dynamic_update_slice")
def dynamic_update_slice(t, op, x, update, *starts):
    b = t.b
    if x.shape == update.shape:
        return Value(update.t, op.shape, op.dtype)
    if 0 in update.shape:
        return x
    known = [start_of(start, n, size) for start, n, size in zip(starts, x.shape, update.shape)]
    cut = [d for d, (n, size) in enumerate(zip(x.shape, update.shape)) if n != size]
    if None not in known and len(cut) == 1:
        return concatenated_update(b, x, update, known, cut[0])
    if None not in known:
        return scattered_update(b, x, b.full(update), known, cut)
    if len(cut) == 1:
        d = cut[0]
        place = positions(b, starts[d], x.shape[d], update.shape[d])
        place = b.view(place, [update.shape[d] if i == d else 1 for i in range(len(x.shape))])
        index = b.call(aten.expand.default, place, list(update.shape))
        return Value(b.call(aten.scatter.src, b.full(x), d, index, b.full(update)), op.shape, op.dtype)
    indices = []
    for d, start in enumerate(starts):
        place = b.arange(x.shape[d]) if known[d] is not None and d not in cut else positions(b, start, x.shape[d], update.shape[d])
        indices.append(b.view(place, [update.shape[d] if i == d else 1 for i in range(len(x.shape))]))
    return Value(b.call(aten.index_put.default, b.full(x), indices, b.full(update)), op.shape, op.dtype)


def concatenated_update(b, x, update, starts, d):
    low, high = starts[d], starts[d] + update.shape[d]
    full, parts = b.full(x), []
    if low:
        parts.append(b.call(aten.slice.Tensor, full, d, 0, low))
    parts.append(b.full(update))
    if high < x.shape[d]:
        parts.append(b.call(aten.slice.Tensor, full, d, high, x.shape[d]))
    return Value(b.call(aten.cat.default, parts, d), x.shape, x.dtype)


def scattered_update(b, x, update, starts, cut):
    """Nested updates: the part of x along the first cut dimension, with the rest of the update in it."""
    d = cut[0]
    low, size = starts[d], b.shape(update)[d]
    part = sliced(b, x, [low if i == d else 0 for i in range(len(x.shape))],
                  [low + size if i == d else n for i, n in enumerate(x.shape)])
    if len(cut) > 1:
        update = scattered_update(b, part, update, starts, cut[1:]).t
    whole = Value(update, part.shape, x.dtype)
    return concatenated_update(b, x, whole, starts, d)


@translates("stablehlo.concatenate")
def concatenate(t, op, *parts):
    dim = op.get("dimension")
    parts = [part for part in parts if part.shape[dim]] or [parts[0]]
    if len(parts) == 1:
        return Value(parts[0].t, op.shape, op.dtype)
    full = [t.b.known(part) if all(p.is_constant for p in parts) else t.b.full(part) for part in parts]
    return Value(t.b.call(aten.cat.default, full, dim), op.shape, op.dtype)


@translates("stablehlo.pad")
def pad(t, op, x, value):
    return padded(t.b, x, value, op.ints("edge_padding_low"), op.ints("edge_padding_high"), op.ints("interior_padding"))


def padded(b, x, value, low, high, interior=None):
    """Padding at both ends (negative: cut off), and between elements."""
    shape = list(x.shape)
    if value.scalar is None:
        return padded_by_value(b, x, value, low, high, interior)
    number = value.scalar
    if x.is_constant and x.scalar == number and 0 not in x.shape:  # nothing changes
        interior = interior or [0] * len(low)
        return b.number(number, x.dtype, [n + (n - 1) * i + a + c for n, a, c, i in zip(x.shape, low, high, interior)])
    full = b.full(x) if not x.is_constant else b.known(x)
    for d, gap in enumerate(interior or []):
        if gap and shape[d] > 1:
            full, shape[d] = spread(b, full, d, gap, number, shape)
    if any(low) or any(high):
        pads = [n for d in reversed(range(len(shape))) for n in (low[d], high[d])]
        while len(pads) > 2 and not any(pads[-2:]):
            pads = pads[:-2]
        final = [n + a + c for n, a, c in zip(shape, low, high)]
        if 0 in shape or any(n < 0 for n in low + high):
            full = cut_and_pad(b, full, shape, low, high, number, x.dtype)
        else:
            full = b.call(aten.constant_pad_nd.default, full, pads, number)
        shape = final
    return Value(full, shape, x.dtype)


def cut_and_pad(b, full, shape, low, high, number, dtype):
    """constant_pad_nd wants to cut no more than there is."""
    for d, n in enumerate(shape):
        if low[d] < 0 or high[d] < 0:
            full = b.call(aten.slice.Tensor, full, d, min(n, max(0, -low[d])), max(0, n + min(0, high[d])))
    sizes = [max(0, n + a + c) for n, a, c in zip(shape, low, high)]
    if 0 in b.shape(full):
        return b.filled(sizes, number, dtype)
    pads = [n for d in reversed(range(len(shape))) for n in (max(0, low[d]), max(0, high[d]))]
    return b.call(aten.constant_pad_nd.default, full, pads, number) if any(pads) else full


def spread(b, full, d, gap, number, shape):
    """`gap` elements of padding between neighbours along d: a new dimension is padded and joined to it."""
    n, rank = shape[d], len(shape)
    apart = b.view(full, [*shape[: d + 1], 1, *shape[d + 1 :]])
    apart = b.call(aten.constant_pad_nd.default, apart, [0, 0] * (rank - 1 - d) + [0, gap], number)
    size = n * (gap + 1)
    joined = b.view(apart, [*shape[:d], size, *shape[d + 1 :]])
    return b.call(aten.slice.Tensor, joined, d, 0, size - gap), size - gap


def padded_by_value(b, x, value, low, high, interior):
    """By a number that is computed: what is padding is asked of a mask."""
    mask = padded(b, b.number(True, "i1", x.shape), b.number(False, "i1"), low, high, interior)
    zeros = padded(b, x, b.number(0, x.dtype), low, high, interior)
    return Value(b.call(aten.where.self, mask.t, zeros.t, value.t), zeros.shape, x.dtype)


@translates("stablehlo.reverse")
def reverse(t, op, x):
    return Value(flipped(t.b, t.b.ranked(x), op.ints("dimensions")), op.shape, op.dtype)


def flipped(b, held, dims):
    dims = [d for d in dims if b.shape(held)[d] != 1]
    if not dims:
        return held
    if isinstance(held, torch.fx.Node) and held.target is aten.flip.default and sorted(held.args[1]) == sorted(dims):
        return held.args[0]
    return b.call(aten.flip.default, held, dims)


@translates("stablehlo.torch_index_select")
def torch_index_select(t, op, x, index):
    dim, batch = op.get("dim"), op.get("batch_dims") or 0
    if batch or len(index.shape) != 1:
        raise op.error([x, index])
    return Value(t.b.call(aten.index_select.default, t.b.full(x), dim, t.b.full(index)), op.shape, op.dtype)


@translates("chlo.constant_like")
def constant_like(t, op, x):
    number = op.get("value")
    return t.b.number(float(number) if is_float(op.dtype) else number, op.dtype, op.shape)
