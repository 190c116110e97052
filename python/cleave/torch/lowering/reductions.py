"""Reductions, norms, softmax, running reductions."""

import math

import torch

from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import WIDE

aten = torch.ops.aten


def dims_of(x, dim):
    """All of them if none is given."""
    if dim is None or isinstance(dim, (list, tuple)) and not dim:
        return list(range(x.rank))
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return [d % x.rank for d in dims] if x.rank else []


def accumulated(b, x, dtype=None):
    dtype = dtype or b.out[0].dtype
    return b.cast(x, WIDE.get(dtype, dtype))


def total(b, x, dims, keepdim=False):
    return b.reduce("add", x, dims, keepdim)


def count(x, dims):
    return math.prod(x.shape[d] for d in dims)


@lowers(aten.sum.default, aten.sum.dim_IntList)
def sum_(b, x, dim=None, keepdim=False, *, dtype=None):
    x = b.cast(x, b.out[0].dtype)
    return total(b, accumulated(b, x), dims_of(x, dim), keepdim)


@lowers(aten.mean.default, aten.mean.dim)
def mean(b, x, dim=None, keepdim=False, *, dtype=None):
    return average(b, accumulated(b, x), dims_of(x, dim), keepdim)


def average(b, x, dims, keepdim=False):
    n = count(x, dims)
    return b.div(total(b, x, dims, keepdim), n if n else 0.0)


@lowers(aten.prod.default, aten.prod.dim_int)
def prod(b, x, dim=None, keepdim=False, *, dtype=None):
    return b.reduce("multiply", accumulated(b, x), dims_of(x, dim), keepdim)


@lowers(aten.amax, aten.amin)
def amax(b, x, dim=(), keepdim=False):
    return b.reduce(kind(b), x, dims_of(x, dim), keepdim)


def kind(b):
    name = str(b.op).split(".")[1]
    return "maximum" if "max" in name else "minimum"


@lowers(aten.max.default, aten.min.default)
def extreme(b, x):
    return b.reduce(kind(b), x, range(x.rank))


@lowers(aten.aminmax.default)
def aminmax(b, x, *, dim=None, keepdim=False):
    dims = dims_of(x, dim)
    return b.reduce("minimum", x, dims, keepdim), b.reduce("maximum", x, dims, keepdim)


def place_of(b, x, extreme, dim):
    """Where the extreme (kept dims) is first reached along a dimension; a NaN is one."""
    same = b.compare("EQ", x, b.expand(extreme, x.shape))
    if x.is_float:
        same = b.either(same, b.isnan(x))
    places = b.select(same, b.iota(torch.int64, x.shape, dim), b.const(x.shape[dim], torch.int64, x.shape))
    return b.minimum(b.reduce("minimum", places, [dim], keepdim=True), x.shape[dim] - 1)


@lowers(aten.max.dim, aten.min.dim)
def extreme_dim(b, x, dim, keepdim=False):
    if not x.rank:
        return x, b.const(0, torch.int64)
    dim %= x.rank
    value = b.reduce(kind(b), x, [dim], keepdim=True)
    place = place_of(b, x, value, dim)
    return b.reshape(value, b.out[0].shape), b.reshape(place, b.out[1].shape)


@lowers(aten.argmax, aten.argmin)
def argmax(b, x, dim=None, keepdim=False):
    shape = b.out[0].shape
    if dim is None or not x.rank:
        x, dim = b.reshape(x, [x.numel]), 0
    dim %= x.rank
    return b.reshape(place_of(b, x, b.reduce(kind(b), x, [dim], keepdim=True), dim), shape)


@lowers(aten.any, aten.all)
def any_(b, x, dim=None, keepdim=False):
    op = "or" if "any" in str(b.op) else "and"
    return b.cast(b.reduce(op, b.cast(x, torch.bool), dims_of(x, dim), keepdim), b.out[0].dtype)


@lowers(aten.count_nonzero)
def count_nonzero(b, x, dim=None):
    return total(b, b.cast(b.cast(x, torch.bool), torch.int64), dims_of(x, dim))


def moments(b, x, dims, correction, keepdim=False):
    """Variance and mean."""
    correction = 1 if correction is None else correction
    middle = average(b, x, dims, keepdim=True)
    away = b.sub(x, b.expand(middle, x.shape))
    spread = total(b, b.mul(away, away), dims, keepdim)
    freedom = max(count(x, dims) - correction, 0)
    return b.div(spread, freedom), middle if keepdim else b.reshape(middle, spread.shape)


@lowers(aten.var, aten.std, aten.var_mean, aten.std_mean)
def var(b, x, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if b.op._overloadname.startswith("correction"):
        keepdim = keepdim if unbiased is None else unbiased
        unbiased = None
    if unbiased is not None:
        correction = int(unbiased)
    if x.is_complex:
        raise NotImplementedError("a variance of complex numbers")
    variance, middle = moments(b, b.wide(x), dims_of(x, dim), correction, keepdim)
    name = str(b.op)
    first = b.unary("sqrt", variance) if "std" in name else variance
    return (first, middle) if "_mean" in name else first


@lowers(aten.logsumexp)
def logsumexp(b, x, dim, keepdim=False):
    x = accumulated(b, x)
    dims = dims_of(x, dim)
    big = b.reduce("maximum", x, dims, keepdim=True)
    big = b.select(b.compare("EQ", b.unary("abs", big), math.inf), b.like(0, big), big)
    summed = total(b, b.unary("exponential", b.sub(x, b.expand(big, x.shape))), dims, True)
    return b.reshape(b.add(b.unary("log", summed), big), b.out[0].shape)


@lowers(aten.linalg_vector_norm)
def vector_norm(b, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    dims = dims_of(x, dim)
    if dtype is not None:
        x = b.cast(x, dtype)
    size = b.unary("abs", x, b.out[0].dtype) if x.is_complex else b.unary("abs", accumulated(b, x))
    return norm_of(b, size, ord, dims, keepdim)


def norm_of(b, size, ord, dims, keepdim):
    ord = float(ord)
    if ord == math.inf:
        return b.reduce("maximum", size, dims, keepdim)
    if ord == -math.inf:
        return b.reduce("minimum", size, dims, keepdim)
    if ord == 0:
        return total(b, b.cast(b.cast(size, torch.bool), size.dtype), dims, keepdim)
    if ord == 1:
        return total(b, size, dims, keepdim)
    if ord == 2:
        return b.unary("sqrt", total(b, b.mul(size, size), dims, keepdim))
    summed = total(b, b.binary("power", size, b.like(ord, size)), dims, keepdim)
    return b.binary("power", summed, b.like(1 / ord, summed))


@lowers(aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype, aten.norm.ScalarOpt_dtype)
def norm(b, x, p=2, dim=None, keepdim=False, *, dtype=None):
    return vector_norm(b, x, 2 if p is None else p, dim, keepdim, dtype=dtype)


def softened(b, x, dim):
    big = b.reduce("maximum", x, [dim], keepdim=True)
    away = b.sub(x, b.expand(big, x.shape))
    powers = b.unary("exponential", away)
    return away, powers, total(b, powers, [dim], keepdim=True)


@lowers(aten._softmax, aten._log_softmax, aten.softmax.int, aten.log_softmax.int)
def softmax(b, x, dim, half_to_float=None, dtype=None):
    x = accumulated(b, x)
    log = "log" in str(b.op)
    if not x.rank:
        return b.like(0 if log else 1, x)
    away, powers, summed = softened(b, x, dim % x.rank)
    if log:
        return b.sub(away, b.expand(b.unary("log", summed), x.shape))
    return b.div(powers, b.expand(summed, x.shape))


@lowers(aten._softmax_backward_data, aten._log_softmax_backward_data, wide=True)
def softmax_backward(b, grad, y, dim, input_dtype):
    if not y.rank:
        return b.like(0, grad)
    dim %= y.rank
    if "log" in str(b.op):
        summed = total(b, grad, [dim], keepdim=True)
        return b.sub(grad, b.mul(b.unary("exponential", y), b.expand(summed, y.shape)))
    part = b.mul(grad, y)
    return b.sub(part, b.mul(y, b.expand(total(b, part, [dim], keepdim=True), y.shape)))


@lowers(aten.cumsum, aten.cumprod)
def cumsum(b, x, dim, *, dtype=None):
    x = accumulated(b, b.cast(x, b.out[0].dtype))
    if not x.rank:
        return x
    return b.running("add" if "cumsum" in str(b.op) else "multiply", x, dim % x.rank)


@lowers(aten.cummax, aten.cummin)
def cummax(b, x, dim):
    """Of equal elements the last is named, as in PyTorch."""
    if not x.rank:
        return x, b.const(0, torch.int64)
    dim %= x.rank
    y = b.cast(x, torch.int8) if x.dtype == torch.bool else x
    values = b.running(kind(b), y, dim)
    reached = b.compare("EQ", y, values)
    if x.is_float:
        reached = b.either(reached, b.both(b.isnan(y), b.isnan(values)))
    places = b.select(reached, b.iota(torch.int64, x.shape, dim), b.const(0, torch.int64, x.shape))
    return b.cast(values, x.dtype), b.running("maximum", places, dim)


@lowers(aten.logcumsumexp)
def logcumsumexp(b, x, dim):
    """Shifted by the largest element of the row."""
    if not x.rank or not x.numel:
        return x
    dim, y = dim % x.rank, b.wide(x)
    rows = x.shape[dim]
    big = b.running("maximum", y, dim)
    big = b.select(b.compare("EQ", b.unary("abs", big), math.inf), b.like(0, big), big)
    lower = b.unsqueeze(y, dim)
    lower = b.broadcast(y, x.shape[:dim] + (rows,) + x.shape[dim:], [d if d < dim else d + 1 for d in range(x.rank)])
    upper = b.broadcast(big, lower.shape, [d if d <= dim else d + 1 for d in range(x.rank)])
    shape = lower.shape
    earlier = b.compare("LE", b.iota(torch.int64, shape, dim + 1), b.iota(torch.int64, shape, dim))
    terms = b.unary("exponential", b.sub(lower, upper))
    summed = total(b, b.select(earlier, terms, b.like(0, terms)), [dim + 1])
    return b.add(b.unary("log", summed), big)


@lowers(aten.dist.default)
def dist(b, x, y, p=2):
    shape = torch.broadcast_shapes(x.shape, y.shape)
    away = b.unary("abs", b.sub(b.expand(x, shape), b.expand(y, shape)))
    return norm_of(b, away, p, range(len(shape)), False)


@lowers(aten.trace)
def trace(b, x):
    same = b.compare("EQ", b.iota(torch.int64, x.shape, 0), b.iota(torch.int64, x.shape, 1))
    x = b.cast(x, b.out[0].dtype)
    return total(b, b.select(same, x, b.like(0, x)), [0, 1])
