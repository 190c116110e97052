"""Losses, and lookups that sum."""

import torch

from cleave.torch.lowering.indexing import taken, wrapped
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten
NONE, MEAN, SUM = 0, 1, 2


def weights_of(b, x, target, weight, ignore, channel):
    """The weight of every target (0 for what is ignored), and targets without the ignored ones, both with the shape of target."""
    ignored = b.compare("EQ", target, ignore)
    safe = b.select(ignored, b.like(0, target), target)
    one = b.const(1, x.dtype, target.shape)
    if weight is not None:
        from cleave.torch.lowering.indexing import along
        one = along(b, b.cast(weight, x.dtype), 0, safe) if safe.rank else b.reshape(along(b, b.cast(weight, x.dtype), 0, safe), ())
    return b.select(ignored, b.like(0, one), one), safe


def channel_of(x):
    return 0 if x.rank == 1 else 1


def forward(b, x, target, weight, reduction, ignore):
    channel = channel_of(x)
    each, safe = weights_of(b, x, target, weight, ignore, channel)
    index = b.unsqueeze(safe, channel)
    picked = b.reshape(taken(b, x, channel, wrapped(b, index, x.shape[channel])), target.shape)
    losses = b.mul(b.negate(picked), each)
    losses = b.select(b.compare("EQ", target, ignore), b.like(0, losses), losses)
    if reduction == NONE and x.rank > 1:
        return losses, b.const(0, x.dtype)
    whole = b.reduce("add", losses, range(losses.rank))
    weights = b.reduce("add", each, range(each.rank))
    return (b.div(whole, weights) if reduction == MEAN else whole), weights


@lowers(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default, wide=True)
def nll_loss_forward(b, x, target, weight, reduction, ignore_index):
    return forward(b, x, target, weight, reduction, ignore_index)


@lowers(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default, wide=True)
def nll_loss_backward(b, grad, x, target, weight, reduction, ignore_index, total_weight):
    channel = channel_of(x)
    each, safe = weights_of(b, x, target, weight, ignore_index, channel)
    if reduction == MEAN:
        grad = b.div(grad, b.cast(total_weight, grad.dtype))
    value = b.negate(b.mul(b.expand(grad, each.shape), each))
    value = b.select(b.compare("EQ", target, ignore_index), b.like(0, value), value)
    place = [d for d in range(x.rank) if d != channel]
    hot = b.compare("EQ", b.iota(safe.dtype, x.shape, channel), b.broadcast(safe, x.shape, place))
    wide = b.broadcast(value, x.shape, place)
    return b.select(hot, wide, b.like(0, wide))


def reduced(b, losses, reduction):
    if reduction == NONE:
        return losses
    whole = b.reduce("add", losses, range(losses.rank))
    return b.div(whole, losses.numel or 0.0) if reduction == MEAN else whole


def spread(b, grad, x, reduction):
    grad = b.expand(grad, x.shape)
    return b.div(grad, x.numel) if reduction == MEAN else grad


@lowers(aten.mse_loss.default, wide=True)
def mse_loss(b, x, y, reduction=MEAN):
    shape = torch.broadcast_shapes(x.shape, y.shape)
    away = b.sub(b.expand(x, shape), b.expand(y, shape))
    return reduced(b, b.mul(away, away), reduction)


@lowers(aten.mse_loss_backward.default, wide=True)
def mse_loss_backward(b, grad, x, y, reduction):
    return b.mul(b.mul(b.sub(x, y), 2), spread(b, grad, x, reduction))


@lowers(aten.smooth_l1_loss.default, aten.huber_loss.default, wide=True)
def smooth_l1_loss(b, x, y, reduction=MEAN, beta=1.0):
    shape = torch.broadcast_shapes(x.shape, y.shape)
    away = b.unary("abs", b.sub(b.expand(x, shape), b.expand(y, shape)))
    square = b.mul(b.mul(away, away), 0.5)
    if b.op is aten.huber_loss.default:
        far = b.mul(b.sub(away, 0.5 * beta), beta)
        return reduced(b, b.select(b.compare("LE", away, beta), square, far), reduction)
    if beta == 0:
        return reduced(b, away, reduction)
    near = b.div(square, beta)
    return reduced(b, b.select(b.compare("LT", away, beta), near, b.sub(away, 0.5 * beta)), reduction)


@lowers(aten.binary_cross_entropy.default, wide=True)
def binary_cross_entropy(b, x, y, weight=None, reduction=MEAN):
    one = b.maximum(b.unary("log", x), -100)
    other = b.maximum(b.unary("log_plus_one", b.negate(x)), -100)
    losses = b.sub(b.mul(b.sub(y, 1), other), b.mul(y, one))
    if weight is not None:
        losses = b.mul(losses, b.expand(weight, losses.shape))
    return reduced(b, losses, reduction)


@lowers(aten.binary_cross_entropy_backward.default, wide=True)
def binary_cross_entropy_backward(b, grad, x, y, weight=None, reduction=MEAN):
    width = b.maximum(b.mul(b.sub(b.like(1, x), x), x), 1e-12)
    value = b.div(b.mul(b.expand(grad, x.shape), b.sub(x, y)), width)
    if weight is not None:
        value = b.mul(value, b.expand(weight, value.shape))
    return b.div(value, x.numel) if reduction == MEAN else value
