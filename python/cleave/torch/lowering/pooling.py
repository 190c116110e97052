"""Pools and their gradients, resizing."""

import math

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def each(values, spatial):
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * spatial if len(values) == 1 and spatial > 1 else values


class Window:
    """Sizes of a pool; `high` is the padding that also ceil_mode asks for."""

    def __init__(self, sizes, out, kernel, stride, padding, dilation=1):
        n = len(sizes)
        self.kernel = each(kernel, n)
        self.stride = each(stride, n) if stride or stride == 0 else list(self.kernel)
        self.low, self.dilation = each(padding, n), each(dilation, n)
        self.high = [(out[i] - 1) * self.stride[i] + (self.kernel[i] - 1) * self.dilation[i] + 1 - sizes[i] - self.low[i]
                     for i in range(n)]

    def of(self, x):
        """Arguments for all dimensions of x."""
        lead = [1] * (x.rank - len(self.kernel))
        pad = [(0, 0)] * len(lead) + list(zip(self.low, self.high))
        return lead + self.kernel, lead + self.stride, pad, lead + self.dilation


def lowest(b, x):
    return b.identity("maximum", x.dtype)


def window_of(x, out, spatial, kernel, stride, padding, dilation=1):
    return Window(x.shape[-spatial:], out[-spatial:], kernel, stride, padding, dilation)


@lowers(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def max_pool(b, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    spatial = 3 if "3d" in str(b.op) else 2
    shape = b.out[0].shape
    if 0 in shape:
        return tuple(b.const(0, dtype, s) for dtype, s in b.out)
    w = window_of(x, shape, spatial, kernel, stride, padding, dilation)
    size, strides, pad, dilate = w.of(x)
    value = b.window("maximum", x, size, strides, pad, dilation=dilate)
    return value, pool_places(b, x, w, spatial, shape)


def pool_places(b, x, w, spatial, shape):
    """The flat place in the plane of the first largest element of each window (a NaN is the largest)."""
    lead = x.rank - spatial
    sizes = x.shape[lead:]
    low = [0] * lead + w.low
    padded = b.pad(x, low, [0] * lead + [max(h, 0) for h in w.high], value=lowest(b, x))
    plane = b.reshape(b.iota(torch.int64, (math.prod(sizes),), 0), sizes)
    plane = b.pad(plane, w.low, [max(h, 0) for h in w.high], value=-1)
    best = place = None
    for offset in offsets(w.kernel):
        starts = [o * d for o, d in zip(offset, w.dilation)]
        limits = [a + (n - 1) * s + 1 for a, n, s in zip(starts, shape[lead:], w.stride)]
        one = b.slice(padded, [0] * lead + starts, list(padded.shape[:lead]) + limits, [1] * lead + w.stride)
        at = b.slice(plane, starts, limits, w.stride)
        at = b.broadcast(at, shape, range(lead, x.rank))
        if best is None:
            best, place = one, at
            continue
        # An element of the padding is never named.
        better = b.either(b.compare("GT", one, best), b.both(b.compare("LT", place, 0), b.compare("GE", at, 0)))
        if x.is_float:
            better = b.either(b.both(better, b.invert(b.isnan(best))), b.both(b.isnan(one), b.invert(b.isnan(best))))
        best, place = b.select(better, one, best), b.select(better, at, place)
    return place


def offsets(kernel):
    places = [()]
    for size in kernel:
        places = [p + (i,) for p in places for i in range(size)]
    return places


@lowers(aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
def max_pool_backward(b, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    spatial = 3 if "3d" in str(b.op) else 2
    if not grad.numel:
        return b.const(0, x.dtype, x.shape)
    w = window_of(x, grad.shape, spatial, kernel, stride, padding, dilation)
    if any(d != 1 for d in w.dilation):
        return by_places(b, grad, x, indices, spatial)
    size, strides, pad, _ = w.of(x)
    y, g = b.wide(x), b.wide(grad)
    low, high = [max(p[0], 0) for p in pad], [max(p[1], 0) for p in pad]
    cut = [min(p[1], 0) for p in pad]
    if any(cut):  # the last elements are in no window
        inner = b.slice(y, [0] * x.rank, [n + c for n, c in zip(x.shape, cut)])
        dx = b.select_and_scatter(inner, g, size, strides, list(zip(low, high)))
        dx = b.pad(dx, [0] * x.rank, [-c for c in cut])
    else:
        dx = b.select_and_scatter(y, g, size, strides, pad)
    return b.cast(dx, x.dtype)


def by_places(b, grad, x, indices, spatial):
    """Adds the gradient at flat places of the plane."""
    from cleave.torch.lowering.scatters import put_along
    lead = x.shape[:x.rank - spatial]
    rows, plane = math.prod(lead), math.prod(x.shape[x.rank - spatial:])
    count = math.prod(grad.shape[x.rank - spatial:])
    zeros = b.const(0, b.wide(x).dtype, (rows, plane))
    y = put_along(b, zeros, 1, b.reshape(indices, (rows, count)), b.reshape(b.wide(grad), (rows, count)), "add")
    return b.cast(b.reshape(y, x.shape), x.dtype)


def divisors(sizes, w, out, ceil_mode, count_include_pad, override):
    """How many elements each window counts, as a tensor over the plane, or one number if they are alike."""
    if override:
        return float(override)
    per = []
    for i, size in enumerate(sizes):
        counts = []
        for o in range(out[i]):
            begin = o * w.stride[i] - w.low[i]
            end = min(begin + w.kernel[i], size + w.low[i])
            counts.append(end - begin if count_include_pad else min(end, size) - max(begin, 0))
        per.append(torch.tensor(counts, dtype=torch.float64))
    whole = per[0]
    for part in per[1:]:
        whole = whole[..., None] * part
    return float(whole.flatten()[0]) if bool((whole == whole.flatten()[0]).all()) else whole


def divided(b, y, divisor, spatial):
    if isinstance(divisor, float):
        return b.div(y, divisor) if divisor != 1 else y
    counts = b.const(divisor, y.dtype)
    return b.div(y, b.broadcast(counts, y.shape, range(y.rank - spatial, y.rank)))


def average_spatial(b):
    return int(str(b.op).split("d.")[0][-1] if "backward" not in str(b.op) else str(b.op).split("d_backward")[0][-1])


@lowers(aten.avg_pool2d.default, aten.avg_pool3d.default, aten.avg_pool1d.default, wide=True)
def avg_pool(b, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    spatial = average_spatial(b)
    shape = b.out[0].shape
    w = window_of(x, shape, spatial, kernel, stride, padding)
    size, strides, pad, _ = w.of(x)
    y = b.window("add", x, size, strides, pad)
    counts = divisors(x.shape[-spatial:], w, shape[-spatial:], ceil_mode, count_include_pad, divisor_override)
    return divided(b, y, counts, spatial)


@lowers(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default, wide=True)
def avg_pool_backward(b, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    spatial = average_spatial(b)
    w = window_of(x, grad.shape, spatial, kernel, stride, padding)
    counts = divisors(x.shape[-spatial:], w, grad.shape[-spatial:], ceil_mode, count_include_pad, divisor_override)
    g = divided(b, grad, counts, spatial)
    lead = x.rank - spatial
    size, strides, pad, _ = w.of(x)
    back = [(0, 0)] * lead
    for i in range(lead, x.rank):
        low = size[i] - 1 - pad[i][0]
        reach = (grad.shape[i] - 1) * strides[i] + 1
        back.append((low, x.shape[i] + size[i] - 1 - reach - low))
    return b.window("add", g, size, [1] * x.rank, back, base=strides)


def bins(size, out):
    """Row o has 1 / n at the n elements that belong to bin o."""
    matrix = torch.zeros(out, size, dtype=torch.float64)
    for o in range(out):
        begin, end = o * size // out, -(-(o + 1) * size // out)
        matrix[o, begin:end] = 1 / (end - begin)
    return matrix


def through(b, x, dim, matrix):
    """x with a dimension multiplied by a constant matrix (out, in)."""
    y = b.dot(x, b.const(matrix, x.dtype), ([dim], [1]))
    order = list(range(x.rank - 1))
    order.insert(dim, x.rank - 1)
    return b.transpose(y, order)


@lowers(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.adaptive_avg_pool1d.default, wide=True)
def adaptive_avg_pool(b, x, output_size):
    shape = b.out[0].shape
    spatial = len(output_size)
    lead = x.rank - spatial
    if 0 in shape:
        return b.const(0, x.dtype, shape)
    if all(n == 1 for n in shape[lead:]):
        return b.div(b.reduce("add", x, range(lead, x.rank), True), math.prod(x.shape[lead:]))
    if all(n % m == 0 for n, m in zip(x.shape[lead:], shape[lead:])):
        size = [1] * lead + [n // m for n, m in zip(x.shape[lead:], shape[lead:])]
        return b.div(b.window("add", x, size, size), math.prod(size))
    for dim in range(lead, x.rank):
        x = through(b, x, dim, bins(x.shape[dim], shape[dim]))
    return x


@lowers(aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d_backward.default, wide=True)
def adaptive_avg_pool_backward(b, grad, x):
    lead = x.rank - (3 if "3d" in str(b.op) else 2)
    if all(n == 1 for n in grad.shape[lead:]):
        return b.expand(b.div(grad, math.prod(x.shape[lead:])), x.shape)
    for dim in range(lead, x.rank):
        grad = through(b, grad, dim, bins(x.shape[dim], grad.shape[dim]).T)
    return grad


@lowers(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(b, x, output_size):
    """Bins are rows of slices: few, so they are written out."""
    shape, spatial = b.out[0].shape, len(output_size)
    lead = x.rank - spatial
    sizes = x.shape[lead:]
    if 0 in shape:
        return tuple(b.const(0, dtype, s) for dtype, s in b.out)
    plane = b.reshape(b.iota(torch.int64, (math.prod(sizes),), 0), sizes)
    plane = b.broadcast(plane, x.shape, range(lead, x.rank))

    def bins_of(dim, size, out, ranges):
        if dim == spatial:
            starts, limits = [0] * lead + [r[0] for r in ranges], list(x.shape[:lead]) + [r[1] for r in ranges]
            part, at = b.slice(x, starts, limits), b.slice(plane, starts, limits)
            flat = x.shape[:lead] + (math.prod(e - s for s, e in ranges),)
            part, at = b.reshape(part, flat), b.reshape(at, flat)
            from cleave.torch.lowering.reductions import place_of
            top = b.reduce("maximum", part, [lead], True)
            first = place_of(b, part, top, lead)
            chosen = b.compare("EQ", b.iota(torch.int64, flat, lead), b.expand(first, flat))
            where = b.reduce("add", b.select(chosen, at, b.like(0, at)), [lead], True)
            return [top], [where]
        tops, wheres = [], []
        for o in range(out[dim]):
            begin, end = o * size[dim] // out[dim], -(-(o + 1) * size[dim] // out[dim])
            t, w = bins_of(dim + 1, size, out, ranges + [(begin, end)])
            tops, wheres = tops + t, wheres + w
        return tops, wheres
    tops, wheres = bins_of(0, sizes, shape[lead:], [])
    return b.reshape(b.concat(tops, lead), shape), b.reshape(b.concat(wheres, lead), shape)


@lowers(aten.adaptive_max_pool2d_backward.default, aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool_backward(b, grad, x, indices):
    return by_places(b, grad, x, indices, 3 if "3d" in str(b.op) else 2)


def nearest(size, out, scale, exact):
    ratio = 1 / scale if scale else size / out
    places = [int(math.floor((o + 0.5 if exact else o) * ratio)) for o in range(out)]
    matrix = torch.zeros(out, size, dtype=torch.float64)
    for o, place in enumerate(places):
        matrix[o, min(place, size - 1)] = 1
    return matrix


@lowers(*(getattr(aten, f"{kind}upsample_nearest{end}").default for kind, ends in (("", ("1d", "2d", "3d")), ("_", ()))
          for end in ends), aten._upsample_nearest_exact1d.default, aten._upsample_nearest_exact2d.default,
        aten._upsample_nearest_exact3d.default)
def upsample_nearest(b, x, output_size, *scales):
    """Whole factors repeat; others look up."""
    from cleave.torch.lowering.indexing import along
    exact = "exact" in str(b.op)
    shape = b.out[0].shape
    for i, dim in enumerate(range(2, x.rank)):
        size, out = x.shape[dim], shape[dim]
        scale = scales[i] if i < len(scales) else None
        matrix = nearest(size, out, scale, exact)
        places = matrix.argmax(1)
        if size == out and places.tolist() == list(range(size)):
            continue
        if out % size == 0 and places.tolist() == [o // (out // size) for o in range(out)]:
            wide = x.shape[:dim + 1] + (out // size,) + x.shape[dim + 1:]
            y = b.broadcast(x, wide, [d for d in range(x.rank + 1) if d != dim + 1])
            x = b.reshape(y, x.shape[:dim] + (out,) + x.shape[dim + 1:])
        else:
            x = along(b, x, dim, b.const(places, torch.int64))
    return x


@lowers(aten.upsample_nearest1d_backward.default, aten.upsample_nearest2d_backward.default,
        aten.upsample_nearest3d_backward.default, aten._upsample_nearest_exact2d_backward.default, wide=True)
def upsample_nearest_backward(b, grad, output_size, input_size, *scales):
    exact = "exact" in str(b.op)
    for i, dim in enumerate(range(2, grad.rank)):
        size, out = input_size[dim], grad.shape[dim]
        matrix = nearest(size, out, scales[i] if i < len(scales) else None, exact)
        if out % size == 0 and matrix.argmax(1).tolist() == [o // (out // size) for o in range(out)]:
            y = b.reshape(grad, grad.shape[:dim] + (size, out // size) + grad.shape[dim + 1:])
            grad = b.reduce("add", y, [dim + 1])
        else:
            grad = through(b, grad, dim, matrix.T)
    return grad


def linear_matrix(size, out, align_corners, scale):
    """Row o has the weights of the two neighbours."""
    matrix = torch.zeros(out, size, dtype=torch.float64)
    for o in range(out):
        if align_corners:
            place = o * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            place = max(((o + 0.5) * (1 / scale if scale else size / out)) - 0.5, 0.0)
        low = min(int(place), size - 1)
        high = min(low + 1, size - 1)
        weight = place - low
        matrix[o, low] += 1 - weight
        matrix[o, high] += weight
    return matrix


@lowers(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default, wide=True)
def upsample_linear(b, x, output_size, align_corners, *scales):
    for i, dim in enumerate(range(2, x.rank)):
        x = through(b, x, dim, linear_matrix(x.shape[dim], b.out[0].shape[dim], align_corners,
                                             scales[i] if i < len(scales) else None))
    return x


@lowers(aten.upsample_linear1d_backward.default, aten.upsample_bilinear2d_backward.default,
        aten.upsample_trilinear3d_backward.default, wide=True)
def upsample_linear_backward(b, grad, output_size, input_size, align_corners, *scales):
    for i, dim in enumerate(range(2, grad.rank)):
        grad = through(b, grad, dim, linear_matrix(input_size[dim], grad.shape[dim], align_corners,
                                                   scales[i] if i < len(scales) else None).T)
    return grad
