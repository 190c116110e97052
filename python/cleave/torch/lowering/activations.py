"""Activation functions and their derivatives; halves are computed in f32."""

import math

import torch

from cleave.torch.lowering.table import lowers

aten = torch.ops.aten
SQRT_HALF, SQRT_2_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


@lowers(aten.relu)
def relu(b, x):
    return b.maximum(x, 0)


@lowers(aten.threshold_backward)
def threshold_backward(b, grad, x, threshold):
    grad, x = b.expand(grad, b.out[0].shape), b.expand(x, b.out[0].shape)
    return b.select(b.compare("LE", x, threshold), b.like(0, grad), grad)


@lowers(aten.threshold)
def threshold(b, x, threshold, value):
    return b.select(b.compare("LE", x, threshold), b.like(value, x), x)


def normal_cdf(b, x):
    return b.mul(b.add(b.chlo("erf", b.mul(x, SQRT_HALF)), 1), 0.5)


def tanh_of_gelu(b, x):
    cube = b.mul(b.mul(b.mul(x, x), x), 0.044715)
    return b.unary("tanh", b.mul(b.add(x, cube), SQRT_2_OVER_PI))


@lowers(aten.gelu, wide=True)
def gelu(b, x, *, approximate="none"):
    if approximate == "tanh":
        return b.mul(b.mul(x, 0.5), b.add(tanh_of_gelu(b, x), 1))
    return b.mul(x, normal_cdf(b, x))


@lowers(aten.gelu_backward, wide=True)
def gelu_backward(b, grad, x, *, approximate="none"):
    if approximate == "tanh":
        t = tanh_of_gelu(b, x)
        inner = b.mul(b.add(b.mul(b.mul(x, x), 3 * 0.044715), 1), SQRT_2_OVER_PI)
        slope = b.mul(b.mul(b.mul(x, 0.5), b.sub(b.like(1, x), b.mul(t, t))), inner)
        return b.mul(grad, b.add(b.mul(b.add(t, 1), 0.5), slope))
    density = b.mul(b.unary("exponential", b.mul(b.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.mul(grad, b.add(normal_cdf(b, x), b.mul(x, density)))


@lowers(aten.silu, wide=True)
def silu(b, x):
    return b.mul(x, b.unary("logistic", x))


@lowers(aten.silu_backward, wide=True)
def silu_backward(b, grad, x):
    s = b.unary("logistic", x)
    return b.mul(b.mul(grad, s), b.add(b.mul(x, b.sub(b.like(1, s), s)), 1))


@lowers(aten.sigmoid_backward, wide=True)
def sigmoid_backward(b, grad, y):
    return b.mul(grad, b.mul(b.sub(b.like(1, y), y), y))


@lowers(aten.tanh_backward, wide=True)
def tanh_backward(b, grad, y):
    return b.mul(grad, b.sub(b.like(1, y), b.mul(y, y)))


@lowers(aten.hardtanh, aten.relu6)
def hardtanh(b, x, min_val=-1, max_val=1):
    if b.op is aten.relu6.default:
        min_val, max_val = 0, 6
    return b.minimum(b.maximum(x, min_val), max_val)


@lowers(aten.hardtanh_backward)
def hardtanh_backward(b, grad, x, min_val, max_val):
    outside = b.either(b.compare("LE", x, min_val), b.compare("GE", x, max_val))
    return b.select(outside, b.like(0, grad), grad)


@lowers(aten.leaky_relu, wide=True)
def leaky_relu(b, x, negative_slope=0.01):
    return b.select(b.compare("GT", x, 0), x, b.mul(x, negative_slope))


@lowers(aten.leaky_relu_backward, wide=True)
def leaky_relu_backward(b, grad, x, negative_slope, self_is_result):
    return b.select(b.compare("GT", x, 0), grad, b.mul(grad, negative_slope))


@lowers(aten._prelu_kernel, wide=True)
def prelu(b, x, weight):
    return b.select(b.compare("GT", x, 0), x, b.mul(x, weight))


@lowers(aten._prelu_kernel_backward, wide=True)
def prelu_backward(b, grad, x, weight):
    positive = b.compare("GT", x, 0)
    return (b.select(positive, grad, b.mul(grad, weight)), b.select(positive, b.like(0, x), b.mul(grad, x)))


@lowers(aten.elu, wide=True)
def elu(b, x, alpha=1, scale=1, input_scale=1):
    low = b.mul(b.unary("exponential_minus_one", b.mul(x, input_scale)), alpha * scale)
    return b.select(b.compare("LE", x, 0), low, b.mul(x, scale))


@lowers(aten.elu_backward, wide=True)
def elu_backward(b, grad, alpha, scale, input_scale, is_result, x):
    if is_result:
        low = b.mul(grad, b.mul(b.add(x, alpha * scale), input_scale))
    else:
        low = b.mul(grad, b.mul(b.unary("exponential", b.mul(x, input_scale)), alpha * scale * input_scale))
    return b.select(b.compare("LE", x, 0), low, b.mul(grad, scale))


@lowers(aten.celu, wide=True)
def celu(b, x, alpha=1.0):
    return b.select(b.compare("GT", x, 0), x, b.mul(b.unary("exponential_minus_one", b.div(x, alpha)), alpha))


@lowers(aten.selu, wide=True)
def selu(b, x):
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return b.select(b.compare("GT", x, 0), b.mul(x, scale), b.mul(b.unary("exponential_minus_one", x), alpha * scale))


@lowers(aten.softplus, wide=True)
def softplus(b, x, beta=1, threshold=20):
    y = b.mul(x, beta)
    return b.select(b.compare("GT", y, threshold), x, b.div(b.unary("log_plus_one", b.unary("exponential", y)), beta))


@lowers(aten.softplus_backward, wide=True)
def softplus_backward(b, grad, x, beta, threshold):
    y = b.mul(x, beta)
    return b.select(b.compare("GT", y, threshold), grad, b.mul(grad, b.unary("logistic", y)))


def soft_log(b, x):
    """log(1 + exp(x)), stable."""
    big = b.maximum(x, 0)
    return b.add(big, b.unary("log_plus_one", b.unary("exponential", b.negate(b.unary("abs", x)))))


@lowers(aten.mish, wide=True)
def mish(b, x):
    return b.mul(x, b.unary("tanh", soft_log(b, x)))


@lowers(aten.mish_backward, wide=True)
def mish_backward(b, grad, x):
    t, s = b.unary("tanh", soft_log(b, x)), b.unary("logistic", x)
    return b.mul(grad, b.add(t, b.mul(b.mul(x, s), b.sub(b.like(1, t), b.mul(t, t)))))


@lowers(aten.log_sigmoid_forward, wide=True)
def log_sigmoid_forward(b, x):
    y = b.negate(soft_log(b, b.negate(x)))
    buffer = b.unary("exponential", b.negate(b.unary("abs", x)))
    return (y, buffer if b.out[1].shape == x.shape else b.const(0, x.dtype, b.out[1].shape))


@lowers(aten.log_sigmoid_backward, wide=True)
def log_sigmoid_backward(b, grad, x, buffer):
    return b.mul(grad, b.unary("logistic", b.negate(x)))


@lowers(aten.hardsigmoid, wide=True)
def hardsigmoid(b, x):
    return b.div(b.minimum(b.maximum(b.add(x, 3), 0), 6), 6)


@lowers(aten.hardsigmoid_backward, wide=True)
def hardsigmoid_backward(b, grad, x):
    inside = b.both(b.compare("GT", x, -3), b.compare("LT", x, 3))
    return b.select(inside, b.mul(grad, 1 / 6), b.like(0, grad))


@lowers(aten.hardswish, wide=True)
def hardswish(b, x):
    return b.div(b.mul(x, b.minimum(b.maximum(b.add(x, 3), 0), 6)), 6)


@lowers(aten.hardswish_backward, wide=True)
def hardswish_backward(b, grad, x):
    middle = b.mul(grad, b.add(b.div(x, 3), 0.5))
    y = b.select(b.compare("LT", x, 3), middle, grad)
    return b.select(b.compare("LE", x, -3), b.like(0, grad), y)


@lowers(aten.glu, wide=True)
def glu(b, x, dim=-1):
    dim %= x.rank
    half = x.shape[dim] // 2
    return b.mul(b.slice_dim(x, dim, 0, half), b.unary("logistic", b.slice_dim(x, dim, half, 2 * half)))


@lowers(aten.glu_backward, wide=True)
def glu_backward(b, grad, x, dim):
    dim %= x.rank
    half = x.shape[dim] // 2
    a, s = b.slice_dim(x, dim, 0, half), b.unary("logistic", b.slice_dim(x, dim, half, 2 * half))
    second = b.mul(b.mul(b.mul(grad, a), s), b.sub(b.like(1, s), s))
    return b.concat([b.mul(grad, s), second], dim)


@lowers(aten.hardshrink, aten.softshrink, wide=True)
def shrink(b, x, lambd=0.5):
    inside = b.compare("LE", b.unary("abs", x), lambd)
    kept = x if b.op is aten.hardshrink.default else b.sub(x, b.mul(b.unary("sign", x), lambd))
    return b.select(inside, b.like(0, x), kept)
