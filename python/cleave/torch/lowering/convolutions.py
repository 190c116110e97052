"""Convolutions of any rank and their gradients."""

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def each(values, spatial):
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * spatial if len(values) == 1 and spatial > 1 else values


def names(spatial, form):
    """bf01 for bf with two spatial dimensions."""
    return form + "".join(map(str, range(spatial)))


def forward(b, x, w, stride, padding, dilation, groups, high=None):
    spatial = x.rank - 2
    return b.convolution(x, w, dims=(names(spatial, "bf"), names(spatial, "oi"), names(spatial, "bf")), stride=stride,
                         pad=list(zip(padding, high or padding)), rhs_dilate=dilation, groups=groups)


def transposed(b, x, w, stride, padding, dilation, groups, sizes):
    """What the gradient of a convolution does to its input; `sizes` are those of the result."""
    spatial = x.rank - 2
    kernel = w.shape[2:]
    if groups > 1:
        inner = w.shape[1]
        w = b.reshape(w, (groups, w.shape[0] // groups) + w.shape[1:])
        w = b.reshape(b.swap(w, 1, 2), (groups * inner, w.shape[1]) + kernel)
        form = "oi"
    else:
        form = "io"
    w = b.reverse(w, list(range(2, w.rank)))
    pad = []
    for i in range(spatial):
        reach = dilation[i] * (kernel[i] - 1)
        low = reach - padding[i]
        pad.append((low, sizes[i] + reach - ((x.shape[2 + i] - 1) * stride[i] + 1) - low))
    return b.convolution(x, w, dims=(names(spatial, "bf"), names(spatial, form), names(spatial, "bf")), stride=[1] * spatial,
                         pad=pad, lhs_dilate=stride, rhs_dilate=dilation, groups=groups)


def kernel_gradient(b, x, grad, kernel, stride, padding, dilation, groups):
    """Of a convolution of x whose result has the gradient `grad`."""
    spatial = x.rank - 2
    pad = []
    for i in range(spatial):
        reach = stride[i] * (grad.shape[2 + i] - 1) + 1 + dilation[i] * (kernel[i] - 1)
        pad.append((padding[i], reach - x.shape[2 + i] - padding[i]))
    return b.convolution(x, grad, dims=(names(spatial, "fb"), names(spatial, "io"), names(spatial, "fb")), stride=dilation,
                         pad=pad, rhs_dilate=stride, batch_groups=groups)


@lowers(aten.convolution.default)
def convolution(b, x, w, bias, stride, padding, dilation, is_transposed, output_padding, groups):
    spatial = w.rank - 2
    lone = x.rank == w.rank - 1
    x = b.unsqueeze(x, 0) if lone else x
    stride, padding, dilation = (each(v, spatial) for v in (stride, padding, dilation))
    if 0 in b.out[0].shape or 0 in x.shape:
        y = b.const(0, x.dtype, b.out[0].shape)
        return y if bias is None else b.add(y, b.broadcast(bias, y.shape, [y.rank - 1 - spatial]))
    if is_transposed:
        sizes = b.out[0].shape[-spatial:]
        y = transposed(b, x, w, stride, padding, dilation, groups, sizes)
    else:
        y = forward(b, x, w, stride, padding, dilation, groups)
    if bias is not None:
        y = b.add(y, b.broadcast(bias, y.shape, [1]))
    return b.reshape(y, y.shape[1:]) if lone else y


@lowers(aten.convolution_backward.default)
def convolution_backward(b, grad, x, w, bias_sizes, stride, padding, dilation, is_transposed, output_padding, groups, mask):
    spatial = w.rank - 2
    stride, padding, dilation = (each(v, spatial) for v in (stride, padding, dilation))
    kernel = w.shape[2:]
    dx = dw = db = None
    if mask[0]:
        if is_transposed:
            high = [(x.shape[2 + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - grad.shape[2 + i] - padding[i]
                    for i in range(spatial)]
            dx = forward(b, grad, w, stride, padding, dilation, groups, high)
        else:
            dx = transposed(b, grad, w, stride, padding, dilation, groups, x.shape[2:])
    if mask[1]:
        one, other = (grad, x) if is_transposed else (x, grad)
        dw = kernel_gradient(b, one, other, kernel, stride, padding, dilation, groups)
    if mask[2]:
        db = b.cast(b.reduce("add", b.wide(grad), [0, *range(2, grad.rank)]), grad.dtype)
    return dx, dw, db
