"""Convolutions. Forward ones, gradients of inputs and of weights become the ops that PyTorch has kernels for."""

import re

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.elementwise import converted, product
from cleave.torch.execution.products import contract
from cleave.torch.execution.table import translates
from cleave.torch.execution.views import flipped, padded

aten = torch.ops.aten


class Window:
    """The attributes of a convolution, by spatial dimension."""

    def __init__(self, op, rank):
        n = rank - 2
        self.strides = op.ints("window_strides", [1] * n)
        self.low, self.high = [0] * n, [0] * n
        pads = op.ints("padding")
        if pads:
            self.low, self.high = pads[::2], pads[1::2]
        self.x_dilation = op.ints("lhs_dilation", [1] * n)
        self.w_dilation = op.ints("rhs_dilation", [1] * n)
        self.reversal = [bool(v) for v in op.ints("window_reversal", [0] * n)]
        self.groups, self.batch_groups = op.get("feature_group_count", 1), op.get("batch_group_count", 1)


def labels(text):
    """[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1] as three lists: where the first two, then the spatial dimensions are."""
    parts = re.findall(r"\[(.*?)\]", text)
    result = []
    for part, names in zip(parts, (("b", "f"), ("o", "i"), ("b", "f"))):
        items = [item.strip() for item in part.split(",")]
        spatial = sorted((item for item in items if item.isdigit()), key=int)
        result.append([items.index(name) for name in (*names, *spatial)])
    return result


@translates("stablehlo.convolution")
def convolution(t, op, x, w):
    b, window = t.b, Window(op, len(x.shape))
    x_order, w_order, out_order = labels(op.get("dimension_numbers"))
    image, kernel = (of_type(b, v, op.dtype) for v in (x, w))
    image, kernel = b.permute(image, x_order), b.permute(kernel, w_order)
    back = [out_order.index(d) for d in range(len(out_order))]
    shape = [op.shape[d] for d in out_order]
    if 0 in op.shape or 0 in x.shape or 0 in w.shape:
        return b.number(0, op.dtype, op.shape)
    dims = [d + 2 for d, turned in enumerate(window.reversal) if turned]
    spatial = len(shape) - 2
    if spatial == 0:
        if window.groups != 1 or window.batch_groups != 1:
            raise op.error([x, w])
        found = contract(b, Value(image, b.shape(image), op.dtype), Value(kernel, b.shape(kernel), op.dtype), [], [], [1], [1],
                         shape, op.dtype).t  # fmt: skip
        return Value(b.permute(found, back), op.shape, op.dtype)
    if spatial > 3:
        raise op.error([x, w], "PyTorch has convolutions of up to three spatial dimensions")
    result = None
    if not dims:
        result = weight_gradient(b, image, kernel, window, shape)
    if result is None and window.batch_groups > 1:
        image, window.groups = batch_groups_to_features(b, image, window.batch_groups), window.batch_groups
    if result is None:
        result = input_gradient(b, image, kernel, window, shape, dims) if any(n > 1 for n in window.x_dilation) else None
    if result is None:
        result = forward(b, image, flipped(b, kernel, dims), window, op.dtype)
    return Value(b.permute(result, back), op.shape, op.dtype)


def of_type(b, value, dtype):
    full = b.full(value)
    return converted(b, full, value.dtype, dtype) if value.dtype != dtype else full


def forward(b, image, kernel, window, dtype):
    """aten.convolution of what is padded first, unless the padding is the same at both ends."""
    spatial = len(window.low)
    if any(n > 1 for n in window.x_dilation):
        value = Value(image, b.shape(image), dtype)
        inside = [0, 0] + [n - 1 for n in window.x_dilation]
        image = padded(b, value, b.number(0, dtype), [0] * len(inside), [0] * len(inside), inside).t
    pads = list(window.low)
    if window.low != window.high or any(n < 0 for n in pads):
        value = Value(image, b.shape(image), dtype)
        image = padded(b, value, b.number(0, dtype), [0, 0] + window.low, [0, 0] + window.high).t
        pads = [0] * spatial
    return b.call(aten.convolution.default, image, kernel, None, window.strides, pads, window.w_dilation, False,
                  [0] * spatial, window.groups)  # fmt: skip


def batch_groups_to_features(b, image, groups):
    """A batch of groups, each for its own filters, as groups of features."""
    n, c, *spatial = b.shape(image)
    apart = b.view(image, [groups, n // groups, c, *spatial])
    order = [1, 0, 2, *range(3, len(spatial) + 3)]
    return b.view(b.permute(apart, order), [n // groups, groups * c, *spatial])


def input_gradient(b, image, kernel, window, shape, dims):
    """A dilated image and stride 1: a transposed convolution with the kernel turned; None if its padding is none of PyTorch's."""
    spatial, groups = len(window.low), window.groups
    sizes = b.shape(kernel)
    if any(n != 1 for n in window.strides):
        return None
    reach = [d * (k - 1) for d, k in zip(window.w_dilation, sizes[2:])]
    pads = [r - low for r, low in zip(reach, window.low)]
    extra = [high - low for low, high in zip(window.low, window.high)]
    # A padding that cuts nothing, and rows at the end that no element of the image reaches.
    if any(p < 0 for p in pads) or any(e < 0 or e >= max(s, d) for e, s, d in zip(extra, window.x_dilation, window.w_dilation)):
        return None
    turned = flipped(b, kernel, [d for d in range(2, spatial + 2) if d not in dims])
    o, i = sizes[:2]
    apart = b.view(turned, [groups, o // groups, i, *sizes[2:]])
    order = [0, 2, 1, *range(3, spatial + 3)]
    weight = b.view(b.permute(apart, order), [groups * i, o // groups, *sizes[2:]])
    result = b.call(aten.convolution.default, image, weight, None, window.x_dilation, pads, window.w_dilation, True, extra, groups)
    return result if b.shape(result) == tuple(shape) else None


def weight_gradient(b, image, kernel, window, shape):
    """The "kernel" is the gradient of an output, larger than the result: the gradient of a convolution's weight.

    out[i, o, k] = sum over b, p of image[i, b, k stride + p dilation - low] kernel[o, b, p]"""
    spatial = shape[2:]
    sizes = b.shape(kernel)
    if any(n != 1 for n in window.x_dilation) or window.groups != 1 or any(low < 0 for low in window.low):
        return None
    if not all(k >= n for k, n in zip(sizes[2:], spatial)) or product(sizes[2:]) <= product(spatial):
        return None
    groups, features, o = window.batch_groups, b.shape(image)[0], sizes[0]
    x = b.permute(image, [1, 0, *range(2, len(shape))])
    gradient = b.permute(kernel, [1, 0, *range(2, len(shape))])
    stride, dilation = window.w_dilation, window.strides
    for n, k, low, s, d, p in zip(b.shape(x)[2:], spatial, window.low, stride, dilation, sizes[2:]):
        if (n + 2 * low - d * (k - 1) - 1) // s + 1 != p:
            return None
    held = b.val(x).dtype
    weight = b.emit(aten.empty.memory_format, [o, features // groups, *spatial], dtype=held, device=b.device, pin_memory=False)
    found = b.call(aten.convolution_backward.default, gradient, x, weight, None, stride, window.low, dilation, False,
                   [0] * len(spatial), groups, [False, True, False])[1]  # fmt: skip
    return b.permute(found, [1, 0, *range(2, len(shape))])

