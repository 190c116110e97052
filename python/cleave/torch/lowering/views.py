"""Views, copies and joins."""

import torch

from cleave._core import UserError
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


@lowers(aten.view.default, aten._unsafe_view, aten.reshape, aten.view_copy.default, aten._reshape_alias, aten.flatten.using_ints,
        aten.unsqueeze, aten.squeeze, aten.unflatten.int, aten.unsqueeze_copy, aten.squeeze_copy)
def view(b, x, *_, **__):
    return b.reshape(x, b.out[0].shape)


@lowers(aten.view.dtype)
def view_dtype(b, x, dtype):
    if x.dtype == dtype:
        return x
    if x.dtype.itemsize != dtype.itemsize or torch.bool in (x.dtype, dtype) or x.is_complex or dtype.is_complex:
        raise NotImplementedError(f"a view of {x.dtype} as {dtype}")
    return b.bitcast(x, dtype)


@lowers(aten.expand, aten.expand_copy)
def expand(b, x, *_, **__):
    return b.expand(x, b.out[0].shape)


@lowers(aten.broadcast_to, aten.expand_as)
def broadcast_to(b, x, *_):
    return b.expand(x, b.out[0].shape)


@lowers(aten.permute, aten.permute_copy)
def permute(b, x, dims):
    return b.transpose(x, [d % x.rank for d in dims])


@lowers(aten.transpose.int, aten.transpose_copy.int)
def transpose(b, x, dim0, dim1):
    return b.swap(x, dim0 % x.rank, dim1 % x.rank) if x.rank else x


@lowers(aten.t, aten.t_copy, aten.numpy_T)
def t(b, x):
    return b.transpose(x, range(x.rank)[::-1])


def bounds(size, start, end):
    """Where a Python slice begins and ends."""
    start, end = 0 if start is None else start, size if end is None else end
    start, end = (v + size if v < 0 else v for v in (start, end))
    start = min(max(start, 0), size)
    return start, min(max(end, start), size)


@lowers(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(b, x, dim=0, start=None, end=None, step=1):
    dim %= x.rank
    return b.slice_dim(x, dim, *bounds(x.shape[dim], start, end), step)


@lowers(aten.narrow.default, aten.narrow_copy.default)
def narrow(b, x, dim, start, length):
    dim %= x.rank
    start = start % x.shape[dim] if start < 0 else start
    return b.slice_dim(x, dim, start, start + length)


@lowers(aten.select.int, aten.select_copy.int)
def select(b, x, dim, index):
    dim %= x.rank
    index = index + x.shape[dim] if index < 0 else index
    return b.reshape(b.slice_dim(x, dim, index, index + 1), b.out[0].shape)


@lowers(aten.split.Tensor, aten.split_with_sizes, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes, aten.chunk.default,
        aten.split_copy.Tensor, aten.split_with_sizes_copy.default, aten.unsafe_chunk.default)
def split(b, x, sizes, dim=0):
    dim, begin, parts = dim % x.rank, 0, []
    for _, shape in b.out:
        parts.append(b.slice_dim(x, dim, begin, begin + shape[dim]))
        begin += shape[dim]
    return tuple(parts)


@lowers(aten.unbind.int, aten.unbind_copy.int)
def unbind(b, x, dim=0):
    dim %= x.rank
    return tuple(b.reshape(b.slice_dim(x, dim, i, i + 1), shape) for i, (_, shape) in enumerate(b.out))


@lowers(aten.cat, aten.concat.default)
def cat(b, tensors, dim=0):
    dtype, shape = b.out[0]
    kept = [b.cast(x, dtype) for x in tensors if not (x.shape == (0,) and len(shape) != 1) and x.numel]
    return b.concat(kept, dim % len(shape)) if kept else b.const(0, dtype, shape)


@lowers(aten.stack)
def stack(b, tensors, dim=0):
    dtype, shape = b.out[0]
    dim %= len(shape)
    return b.concat([b.unsqueeze(b.cast(x, dtype), dim) for x in tensors], dim)


@lowers(aten.flip)
def flip(b, x, dims):
    return b.reverse(x, sorted(d % x.rank for d in dims) if x.rank else [])


@lowers(aten.roll)
def roll(b, x, shifts, dims=()):
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    if not x.rank or not x.numel:
        return x
    y = x if dims else b.reshape(x, [x.numel])
    for shift, dim in zip(shifts, dims or [0]):
        dim %= y.rank
        size = y.shape[dim]
        cut = (size - shift) % size
        if cut:
            y = b.concat([b.slice_dim(y, dim, cut, size), b.slice_dim(y, dim, 0, cut)], dim)
    return b.reshape(y, x.shape)


@lowers(aten.repeat)
def repeat(b, x, repeats):
    y = b.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    inner = [n for pair in zip(repeats, y.shape) for n in pair]
    return b.reshape(b.broadcast(y, inner, range(1, 2 * y.rank, 2)), b.out[0].shape)


@lowers(aten.repeat_interleave.self_int)
def repeat_interleave(b, x, repeats, dim=None, *, output_size=None):
    y = b.reshape(x, [x.numel]) if dim is None else x
    dim = 0 if dim is None else dim % x.rank
    shape = y.shape[:dim + 1] + (repeats,) + y.shape[dim + 1:]
    return b.reshape(b.broadcast(y, shape, [d for d in range(y.rank + 1) if d != dim + 1]), b.out[0].shape)


@lowers(aten.constant_pad_nd)
def constant_pad_nd(b, x, pad, value=0):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if 0 in b.out[0].shape or 0 in x.shape:
        return b.const(value, x.dtype, b.out[0].shape)
    return b.pad(x, low, high, value=value)


def mirrored(b, x, pad, whole):
    """Reflection (without the edge) or replication of edges, by slices."""
    for i in range(len(pad) // 2):
        dim = x.rank - 1 - i
        low, high, size = pad[2 * i], pad[2 * i + 1], x.shape[dim]
        parts = [b.slice_dim(x, dim, max(-low, 0), size + min(high, 0))]
        if whole:
            if low > 0:
                parts.insert(0, b.reverse(b.slice_dim(x, dim, 1, low + 1), [dim]))
            if high > 0:
                parts.append(b.reverse(b.slice_dim(x, dim, size - 1 - high, size - 1), [dim]))
        else:
            shape = list(x.shape)
            for place, n, at in ((0, low, 0), (len(parts), high, size - 1)):
                if n > 0:
                    shape[dim] = n
                    parts.insert(len(parts) if at else place, b.expand(b.slice_dim(x, dim, at, at + 1), shape))
        x = b.concat([p for p in parts if p.shape[dim]], dim)
    return x


@lowers(aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d)
def reflection_pad(b, x, padding):
    return mirrored(b, x, padding, True)


@lowers(aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d)
def replication_pad(b, x, padding):
    return mirrored(b, x, padding, False)


@lowers(aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default, aten.replication_pad3d_backward.default)
def replication_pad_backward(b, grad, x, padding):
    """What went to the copies of an edge comes back to it."""
    for i in range(len(padding) // 2):
        dim, low, high = x.rank - 1 - i, padding[2 * i], padding[2 * i + 1]
        size, length = x.shape[dim], grad.shape[dim]
        first, last = max(low, 0), length - max(high, 0)
        copies = [(0, b.slice_dim(grad, dim, 0, first)), (last - first - 1, b.slice_dim(grad, dim, last, length))]
        grad = b.slice_dim(grad, dim, first, last)
        for place, edge in copies:
            if edge.shape[dim]:
                before, after = [0] * x.rank, [0] * x.rank
                before[dim], after[dim] = place, last - first - 1 - place
                grad = b.add(grad, b.pad(b.reduce("add", edge, [dim], keepdim=True), before, after))
        cut = [max(-low, 0), max(-high, 0)]
        if any(cut):  # a part that was cut off has no gradient
            before, after = [0] * x.rank, [0] * x.rank
            before[dim], after[dim] = cut
            grad = b.pad(grad, before, after)
        assert grad.shape[dim] == size
    return grad


@lowers(aten.alias, aten.detach, aten.clone, aten.contiguous, aten.lift_fresh_copy, aten.lift_fresh, aten.lift, aten.positive,
        aten.alias_copy, aten.detach_copy, aten.resolve_conj, aten.resolve_neg)
def same(b, x, *_, **__):
    return x


@lowers(aten._to_copy, aten.to.dtype, aten.type_as)
def to_copy(b, x, *_, **__):
    return b.cast(x, b.out[0].dtype)


@lowers(aten.copy.default)
def copy(b, x, source, non_blocking=False):
    return b.expand(b.cast(source, x.dtype), x.shape)


@lowers(aten.unfold, aten.unfold_copy)
def unfold(b, x, dimension, size, step):
    if not x.rank:
        return b.reshape(x, b.out[0].shape)
    dim = dimension % x.rank
    parts = [b.slice_dim(x, dim, i * step, i * step + size) for i in range(b.out[0].shape[dim])]
    if step == size:
        y = b.slice_dim(x, dim, 0, len(parts) * size)
        y = b.reshape(y, y.shape[:dim] + (len(parts), size) + y.shape[dim + 1:])
    else:
        y = b.concat([b.unsqueeze(p, dim) for p in parts], dim)
    return b.transpose(y, [d for d in range(y.rank) if d != dim + 1] + [dim + 1])


@lowers(aten.diagonal, aten.diagonal_copy)
def diagonal(b, x, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    y = b.transpose(x, rest + [dim1, dim2])
    k, lead = len(rest), b.out[0].shape[:-1]
    n = b.out[0].shape[-1]
    if not n:
        return b.const(0, x.dtype, b.out[0].shape)
    y = b.slice_dim(y, k, max(-offset, 0), max(-offset, 0) + n)
    y = b.slice_dim(y, k + 1, max(offset, 0), max(offset, 0) + n)
    same = b.compare("EQ", b.iota(torch.int64, lead + (n, n), k), b.iota(torch.int64, lead + (n, n), k + 1))
    return b.reduce("add", b.select(same, y, b.like(0, y)), [k + 1])


@lowers(aten.tril, aten.triu)
def tril(b, x, diagonal=0):
    rows, columns = (b.iota(torch.int64, x.shape, x.rank - i) for i in (2, 1))
    keep = b.compare("LE" if b.op is aten.tril.default else "GE", columns, b.add(rows, diagonal))
    return b.select(keep, x, b.like(0, x))


@lowers(aten.slice_scatter)
def slice_scatter(b, x, source, dim=0, start=None, end=None, step=1):
    dim %= x.rank
    size = x.shape[dim]
    begin, end = bounds(size, start, end)
    return put_slice(b, x, b.cast(source, x.dtype), dim, begin, end, step)


def put_slice(b, x, source, dim, begin, end, step=1):
    size = x.shape[dim]
    count = max(0, -(-(end - begin) // step))
    if not count:
        return x
    source = b.expand(source, x.shape[:dim] + (count,) + x.shape[dim + 1:])
    if step == 1:
        parts = [b.slice_dim(x, dim, 0, begin), source, b.slice_dim(x, dim, begin + count, size)]
        return b.concat([p for p in parts if p.shape[dim]], dim)
    low, high, inner = [0] * x.rank, [0] * x.rank, [0] * x.rank
    low[dim], inner[dim] = begin, step - 1
    high[dim] = size - begin - (count - 1) * step - 1
    mask = b.pad(b.const(True, torch.bool, source.shape), low, high, inner, False)
    return b.select(mask, b.pad(source, low, high, inner, 0), x)


@lowers(aten.select_scatter)
def select_scatter(b, x, source, dim, index):
    dim %= x.rank
    index = index + x.shape[dim] if index < 0 else index
    return put_slice(b, x, b.unsqueeze(b.cast(source, x.dtype), dim), dim, index, index + 1)


@lowers(aten.slice_backward, aten.select_backward)
def slice_backward(b, grad, sizes, dim, *at):
    dim %= len(sizes)
    zeros = b.const(0, grad.dtype, sizes)
    if b.op is aten.select_backward.default:
        index = at[0] + sizes[dim] if at[0] < 0 else at[0]
        return put_slice(b, zeros, b.unsqueeze(grad, dim), dim, index, index + 1)
    begin, end = bounds(sizes[dim], at[0], at[1])
    low, high, inner = [0] * len(sizes), [0] * len(sizes), [0] * len(sizes)
    count = grad.shape[dim]
    if not count or not grad.numel:
        return zeros
    low[dim], inner[dim] = begin, at[2] - 1
    high[dim] = sizes[dim] - begin - (count - 1) * at[2] - 1
    return b.pad(grad, low, high, inner)


@lowers(aten.diagonal_scatter)
def diagonal_scatter(b, x, source, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    order = rest + [dim1, dim2]
    y, k, n = b.transpose(x, order), len(rest), source.shape[-1]
    if not n:
        return x
    place = list(range(k)) + [k if offset >= 0 else k + 1]
    rows, columns = (b.iota(torch.int64, y.shape, k + i) for i in (0, 1))
    wide = b.pad(source, [0] * (k + 1), [0] * k + [y.shape[place[-1]] - n])
    on = b.compare("EQ", columns, b.add(rows, offset))
    y = b.select(on, b.broadcast(b.cast(wide, x.dtype), y.shape, place), y)
    return b.transpose(y, [order.index(d) for d in range(x.rank)])


@lowers(aten.diag_embed)
def diag_embed(b, x, offset=0, dim1=-2, dim2=-1):
    shape = b.out[0].shape
    rank = len(shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    size, n, low = shape[dim1], x.shape[-1], max(-offset, 0)
    wide = b.pad(x, [0] * (x.rank - 1) + [low], [0] * (x.rank - 1) + [size - n - low])  # by rows
    rest = [d for d in range(rank) if d not in (dim1, dim2)]
    order = sorted([*rest, dim1])
    y = b.broadcast(b.transpose(wide, [[*rest, dim1].index(d) for d in order]), shape, order)
    rows, columns = b.iota(torch.int64, shape, dim1), b.iota(torch.int64, shape, dim2)
    return b.select(b.compare("EQ", columns, b.add(rows, offset)), y, b.like(0, y))


@lowers(aten.pixel_shuffle, aten.pixel_unshuffle)
def pixel_shuffle(b, x, factor):
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    k = len(lead)
    head = list(range(k))
    if b.op is aten.pixel_shuffle.default:
        y = b.reshape(x, lead + (c // factor ** 2, factor, factor, h, w))
        y = b.transpose(y, head + [k, k + 3, k + 1, k + 4, k + 2])
    else:
        y = b.reshape(x, lead + (c, h // factor, factor, w // factor, factor))
        y = b.transpose(y, head + [k, k + 2, k + 4, k + 1, k + 3])
    return b.reshape(y, b.out[0].shape)


@lowers(aten.as_strided, aten.as_strided_copy)
def as_strided(b, x, size, stride, storage_offset=None):
    """Only what is a plain view of a contiguous tensor."""
    expected = torch.empty(tuple(size), device="meta").stride()
    fits = torch.Size(size).numel() == x.numel and not storage_offset
    if not fits or any(s != e for s, e, n in zip(stride, expected, size) if n > 1):
        raise UserError(f"as_strided of {list(x.shape)} with sizes {list(size)} and strides {list(stride)} depends on how memory "
                        "lies, which a sharded tensor does not keep: use view, slicing, expand or unfold")
    return b.reshape(x, size)
