"""Windows over arrays: pools, cumulative sums, and the gradient of a max pool."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import carrier, is_complex, is_float, lowest
from cleave.torch.execution.elementwise import product
from cleave.torch.execution.reductions import body_name, is_identity, joined, reduced
from cleave.torch.execution.table import translates
from cleave.torch.execution.views import flipped, padded

aten = torch.ops.aten


class Window:
    def __init__(self, op, rank):
        self.sizes = op.ints("window_dimensions", [1] * rank)
        self.strides = op.ints("window_strides", [1] * rank)
        self.base = op.ints("base_dilations", [1] * rank)
        self.dilations = op.ints("window_dilations", [1] * rank)
        pads = op.ints("padding") or [0] * (2 * rank)
        self.low, self.high = pads[::2], pads[1::2]


@translates("stablehlo.reduce_window")
def reduce_window(t, op, *operands):
    count = len(op.results)
    if count != 1:
        raise op.error(operands, "no translation to PyTorch of windows over several tensors")
    (x, init), b = operands, t.b
    window, name = Window(op, len(x.shape)), body_name(op.regions[0])
    if 0 in op.shape:
        return b.number(0, op.dtype, op.shape)
    if name and is_identity(init, name):
        found = cumulative(b, name, x, window, op.shape) or max_pool(b, name, x, window, op.shape)
        if found is not None:
            return found
    if name is None:
        raise op.error(operands, "no translation to PyTorch of its body; sums, products, maxima and minima are known")
    view = windows_of(b, x, init, window)
    rank = len(x.shape)
    found = reduced(b, name, Value(view, b.shape(view), x.dtype), list(range(rank, rank + sum(n > 1 for n in window.sizes))))
    if found is None:
        raise op.error(operands)
    return joined(t, name, found, init, op)


def windows_of(b, x, filler, window):
    """A view with the windows along new last dimensions, one for each that is longer than 1."""
    inside = [n - 1 for n in window.base]
    full = padded(b, x, filler, window.low, window.high, inside)
    t = b.full(full)
    for d, (size, step, gap) in enumerate(zip(window.sizes, window.strides, window.dilations)):
        if size == 1:
            t = t if step == 1 else b.call(aten.slice.Tensor, t, d, 0, b.shape(t)[d], step)
            continue
        t = b.call(aten.unfold.default, t, d, (size - 1) * gap + 1, step)
        if gap > 1:
            last = len(b.shape(t)) - 1
            t = b.call(aten.slice.Tensor, t, last, 0, b.shape(t)[last], gap)
    return t


def cumulative(b, name, x, window, shape):
    """A window over all that came before: cumsum and its like, from the end if it is all that follows."""
    dims = [d for d, n in enumerate(window.sizes) if n != 1]
    if len(dims) != 1 or any(n != 1 for n in window.strides + window.base + window.dilations) or tuple(shape) != x.shape:
        return None
    d = dims[0]
    n = x.shape[d]
    if window.sizes[d] != n or (window.low[d], window.high[d]) not in ((n - 1, 0), (0, n - 1)):
        return None
    if any(window.low[i] or window.high[i] for i in range(len(shape)) if i != d) or is_complex(x.dtype) and name != "add":
        return None
    backward = window.low[d] == 0
    full = b.full(x)
    full = flipped(b, full, [d]) if backward else full
    held = None if is_float(x.dtype) or is_complex(x.dtype) else carrier(x.dtype)
    if name == "add":
        result = b.call(aten.cumsum.default, full, d, dtype=held)
    elif name == "multiply":
        result = b.call(aten.cumprod.default, full, d, dtype=held)
    elif name in ("maximum", "minimum") and x.dtype not in ("ui64", "i1"):
        result = b.call(aten.cummax.default if name == "maximum" else aten.cummin.default, full, d)[0]
    else:
        return None
    result = flipped(b, result, [d]) if backward else result
    return Value(b.wrapped(result, x.dtype), shape, x.dtype)


def max_pool(b, name, x, window, shape):
    """max_pool2d over the last two of four dimensions, if PyTorch has such a padding."""
    if name != "maximum" or len(shape) != 4 or not is_float(x.dtype) or any(n != 1 for n in window.base):
        return None
    dims = [d for d in range(4) if (window.sizes[d], window.strides[d], window.low[d], window.high[d]) != (1, 1, 0, 0)]
    if not dims or len(dims) > 2:
        return None
    dims = sorted({*dims, *[d for d in (3, 2, 1) if d not in dims][: 2 - len(dims)]})
    order = [d for d in range(4) if d not in dims] + dims
    size, step, low, high, gap = ([values[d] for d in dims] for values in
                                  (window.sizes, window.strides, window.low, window.high, window.dilations))  # fmt: skip
    if low != high or any(2 * a > n for a, n in zip(low, size)):
        return None
    full = b.permute(b.full(x), order)
    result = b.call(aten.max_pool2d_with_indices.default, full, size, step, low, gap)[0]
    back = [order.index(d) for d in range(4)]
    result = b.permute(result, back)
    return Value(result, shape, x.dtype) if b.shape(result) == tuple(shape) else None


@translates("stablehlo.select_and_scatter")
def select_and_scatter(t, op, x, source, init):
    """The gradient of a max pool: in each window the element that is chosen receives the gradient."""
    b, window = t.b, Window(op, len(x.shape))
    largest = chooses(t, op, x.dtype)
    if largest is None or body_name(op.regions[1]) != "add":
        raise op.error([x, source], "no translation to PyTorch of its bodies; the largest or smallest element and a sum are known")
    rank, n = len(x.shape), product(x.shape)
    worst = b.number(lowest(x.dtype) if largest else -lowest(x.dtype), x.dtype)
    view = windows_of(b, x, worst, window)
    numbers = Value(torch.arange(n).reshape(x.shape), x.shape, "i64")
    places = windows_of(b, numbers, b.number(n, "i64"), window)
    lead = list(b.shape(view))[:rank]
    count = product(b.shape(view)[rank:])
    flat = b.view(view, [*lead, count])
    best = b.call(aten.max.dim if largest else aten.min.dim, flat, rank, True)[1]
    target = b.view(b.call(aten.gather.default, b.view(places, [*lead, count]), rank, best), [product(lead)])
    base = b.filled([n + 1], 0, x.dtype)
    total = b.call(aten.scatter_add.default, base, 0, target, b.view(b.full(source), [product(lead)]))
    result = Value(b.view(b.call(aten.slice.Tensor, total, 0, 0, n), x.shape), x.shape, x.dtype)
    if is_identity(init, "add"):
        return result
    return Value(b.call(aten.add.Tensor, result.t, b.full(Value(init.t, x.shape, x.dtype))), x.shape, x.dtype)


def chooses(t, op, dtype):
    """Whether the largest (True) or smallest (False) element is chosen, by the comparison of its body."""
    def keeps(a, c):
        return t.region(op, 0, [t.b.number(a, dtype), t.b.number(c, dtype)])[0].scalar

    if not keeps(1, 1):
        return None  # the last of equal ones
    answers = bool(keeps(2, 1)), bool(keeps(1, 2))
    return {(True, False): True, (False, True): False}.get(answers)
