"""Layer, group and batch norms, forward and backward; statistics of halves are computed in f32."""

import math

import torch

from cleave.torch.lowering.reductions import average, moments, total
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten


def rsqrt_of(b, variance, eps):
    return b.unary("rsqrt", b.add(variance, eps))


@lowers(aten.native_layer_norm.default, wide=True)
def native_layer_norm(b, x, normalized_shape, weight, bias, eps):
    first = x.rank - len(normalized_shape)
    dims = list(range(first, x.rank))
    if not x.numel:
        return tuple(b.const(0, dtype, shape) for dtype, shape in b.out)
    variance, middle = moments(b, x, dims, 0, keepdim=True)
    scale = rsqrt_of(b, variance, eps)
    y = b.mul(b.sub(x, b.expand(middle, x.shape)), b.expand(scale, x.shape))
    if weight is not None:
        y = b.mul(y, b.broadcast(b.cast(weight, y.dtype), x.shape, dims))
    if bias is not None:
        y = b.add(y, b.broadcast(b.cast(bias, y.dtype), x.shape, dims))
    return y, b.reshape(middle, b.out[1].shape), b.reshape(scale, b.out[2].shape)


@lowers(aten.native_layer_norm_backward.default, wide=True)
def native_layer_norm_backward(b, grad, x, normalized_shape, mean, rstd, weight, bias, mask):
    first = x.rank - len(normalized_shape)
    outer, dims = list(range(first)), list(range(first, x.rank))
    mean, rstd = (b.expand(b.cast(v, x.dtype), x.shape) for v in (mean, rstd))
    away = b.mul(b.sub(x, mean), rstd)
    scaled = grad if weight is None else b.mul(grad, b.broadcast(b.cast(weight, x.dtype), x.shape, dims))
    dx = dw = db = None
    if mask[0]:
        one = b.expand(average(b, scaled, dims, True), x.shape)
        two = b.expand(average(b, b.mul(scaled, away), dims, True), x.shape)
        dx = b.mul(b.sub(b.sub(scaled, one), b.mul(away, two)), rstd)
    if mask[1] and weight is not None:
        dw = total(b, b.mul(grad, away), outer)
    if mask[2] and bias is not None:
        db = total(b, grad, outer)
    return dx, dw, db


@lowers(aten._fused_rms_norm.default, wide=True)
def fused_rms_norm(b, x, normalized_shape, weight, eps):
    dims = list(range(x.rank - len(normalized_shape), x.rank))
    eps = torch.finfo(b.out[0].dtype).eps if eps is None else eps
    scale = rsqrt_of(b, average(b, b.mul(x, x), dims, True), eps)
    y = b.mul(x, b.expand(scale, x.shape))
    if weight is not None:
        y = b.mul(y, b.broadcast(b.cast(weight, y.dtype), x.shape, dims))
    return y, scale


@lowers(aten._fused_rms_norm_backward.default, wide=True)
def fused_rms_norm_backward(b, grad, x, normalized_shape, rstd, weight, mask):
    first = x.rank - len(normalized_shape)
    dims = list(range(first, x.rank))
    rstd = b.expand(b.cast(rstd, x.dtype), x.shape)
    away = b.mul(x, rstd)
    scaled = grad if weight is None else b.mul(grad, b.broadcast(b.cast(weight, x.dtype), x.shape, dims))
    part = b.expand(average(b, b.mul(scaled, away), dims, True), x.shape)
    dx = b.mul(b.sub(scaled, b.mul(away, part)), rstd) if mask[0] else None
    dw = total(b, b.mul(grad, away), list(range(first))) if mask[1] and weight is not None else None
    return dx, dw


def grouped(b, x, n, c, rest, groups):
    return b.reshape(x, (n, groups, c // groups, rest))


@lowers(aten.native_group_norm.default, wide=True)
def native_group_norm(b, x, weight, bias, n, c, rest, groups, eps):
    if not x.numel:
        return tuple(b.const(0, dtype, shape) for dtype, shape in b.out)
    y = grouped(b, x, n, c, rest, groups)
    variance, middle = moments(b, y, [2, 3], 0, keepdim=True)
    scale = rsqrt_of(b, variance, eps)
    y = b.mul(b.sub(y, b.expand(middle, y.shape)), b.expand(scale, y.shape))
    y = b.reshape(y, x.shape)
    if weight is not None:
        y = b.mul(y, b.broadcast(weight, x.shape, [1]))
    if bias is not None:
        y = b.add(y, b.broadcast(bias, x.shape, [1]))
    return y, b.reshape(middle, (n, groups)), b.reshape(scale, (n, groups))


@lowers(aten.native_group_norm_backward.default, wide=True)
def native_group_norm_backward(b, grad, x, mean, rstd, weight, n, c, rest, groups, mask):
    shape = (n, groups, c // groups, rest)
    y, g = b.reshape(x, shape), b.reshape(grad, shape)
    mean, rstd = (b.broadcast(b.cast(v, x.dtype), shape, [0, 1]) for v in (mean, rstd))
    away = b.mul(b.sub(y, mean), rstd)
    scaled = g if weight is None else b.mul(g, b.broadcast(b.reshape(weight, (groups, c // groups)), shape, [1, 2]))
    dx = dw = db = None
    if mask[0]:
        one = b.expand(average(b, scaled, [2, 3], True), shape)
        two = b.expand(average(b, b.mul(scaled, away), [2, 3], True), shape)
        dx = b.reshape(b.mul(b.sub(b.sub(scaled, one), b.mul(away, two)), rstd), x.shape)
    if mask[1]:
        dw = b.reshape(total(b, b.mul(g, away), [0, 3]), (c,))
    if mask[2]:
        db = b.reshape(total(b, g, [0, 3]), (c,))
    return dx, dw, db


def over_channels(b, v, x):
    return b.broadcast(b.cast(v, x.dtype), x.shape, [1])


def normalized(b, x, mean, scale, weight, bias):
    y = b.mul(b.sub(x, over_channels(b, mean, x)), over_channels(b, scale, x))
    if weight is not None:
        y = b.mul(y, over_channels(b, weight, x))
    return b.add(y, over_channels(b, bias, x)) if bias is not None else y


def batch_statistics(b, x, momentum, eps, running_mean, running_var):
    """Mean, reciprocal deviation, and the running statistics afterwards."""
    dims = [0, *range(2, x.rank)]
    n = math.prod(x.shape[d] for d in dims)
    variance, mean = moments(b, x, dims, 0)
    new = []
    for running, current, factor in ((running_mean, mean, 1), (running_var, variance, n / (n - 1) if n > 1 else math.inf)):
        if running is None:
            new.append(None)
            continue
        current = b.mul(b.mul(current, factor) if factor != 1 else current, momentum)
        new.append(b.add(current, b.mul(b.cast(running, current.dtype), 1 - momentum)))
    return mean, rsqrt_of(b, variance, eps), new


@lowers(aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_no_training.default, aten._batch_norm_with_update_functional.default,
        aten._batch_norm_no_update.default, aten.native_batch_norm.default, wide=True)
def batch_norm(b, x, weight, bias, *rest):
    name = str(b.op)
    running_mean = running_var = None
    if "no_stats" in name:
        training, momentum, eps = rest
    elif "no_training" in name or "update" in name:
        running_mean, running_var, momentum, eps = rest
        training = "with_update" in name
    else:
        running_mean, running_var, training, momentum, eps = rest
    if not training:
        scale = rsqrt_of(b, b.cast(running_var, b.wide(running_var).dtype), eps)
        y = normalized(b, x, running_mean, scale, weight, bias)
        if "native_batch_norm.default" in name or "functional" in name:
            kept = [b.const(0, dtype, shape) for dtype, shape in b.out[1:3]]
            return (y, *kept, *([running_mean, running_var] if "functional" in name else []))
        return (y, *(b.const(0, dtype, shape) for dtype, shape in b.out[1:]))
    mean, scale, new = batch_statistics(b, x, momentum, eps, running_mean, running_var)
    y = normalized(b, x, mean, scale, weight, bias)
    if "with_update" in name:
        return y, mean, scale, b.const(0, torch.uint8, [0]), *new
    return (y, mean, scale, *new) if "functional" in name else (y, mean, scale)


@lowers(aten.native_batch_norm_backward.default, aten.batch_norm_backward.default, wide=True)
def batch_norm_backward(b, grad, x, weight, *rest):
    if b.op is aten.batch_norm_backward.default:
        running_mean, running_var, mean, scale, train, eps, mask = rest[:7]
    else:
        running_mean, running_var, mean, scale, train, eps, mask = rest
    dims = [0, *range(2, x.rank)]
    if not train:
        mean, scale = running_mean, rsqrt_of(b, running_var, eps)
    away = b.mul(b.sub(x, over_channels(b, mean, x)), over_channels(b, scale, x))
    dw, db = total(b, b.mul(grad, away), dims), total(b, grad, dims)
    dx = None
    if mask[0]:
        factor = over_channels(b, scale if weight is None else b.mul(b.cast(scale, x.dtype), b.cast(weight, x.dtype)), x)
        inner = grad
        if train:
            n = math.prod(x.shape[d] for d in dims)
            inner = b.sub(grad, over_channels(b, b.div(db, n), x))
            inner = b.sub(inner, b.mul(away, over_channels(b, b.div(dw, n), x)))
        dx = b.mul(inner, factor)
    return dx, dw if mask[1] else None, db if mask[2] else None


@lowers(aten._weight_norm_interface_backward.default, wide=True)
def weight_norm_backward(b, grad, v, g, norms, dim):
    """Of v * g / |v|, with a norm for each place along one dimension."""
    dims = [d for d in range(v.rank) if d != dim % v.rank]
    along_v = b.reduce("add", b.mul(grad, v), dims, True)
    norms, g = (b.cast(b.reshape(t, along_v.shape), grad.dtype) for t in (norms, g))
    slope = b.div(along_v, b.mul(norms, norms))
    grad_v = b.mul(b.expand(b.div(g, norms), v.shape), b.sub(grad, b.mul(v, b.expand(slope, v.shape))))
    return grad_v, b.reshape(b.div(along_v, norms), b.out[1].shape)
