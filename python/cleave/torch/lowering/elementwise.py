"""Functions of one tensor, element by element."""

import math

import torch

from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import WIDE

aten = torch.ops.aten


def floating(b, x):
    """x as PyTorch computes functions of it: integers in the float type of the result."""
    dtype = b.out[0].dtype
    return b.cast(x, WIDE.get(dtype, dtype))


def simple(op, *overloads, chlo=False):
    def row(b, x):
        x = floating(b, x)
        return b.chlo(op, x) if chlo else b.unary(op, x)
    lowers(*overloads)(row)


for _name, _op in {"exp": "exponential", "expm1": "exponential_minus_one", "log": "log", "log1p": "log_plus_one",
                   "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sine", "cos": "cosine", "tan": "tan", "tanh": "tanh",
                   "sigmoid": "logistic"}.items():
    simple(_op, getattr(aten, _name))
for _name, _op in {"asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh",
                   "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc", "erfinv": "erf_inv", "lgamma": "lgamma",
                   "special_erfcx": None}.items():
    if _op:
        simple(_op, getattr(aten, _name), chlo=True)


@lowers(aten.exp2)
def exp2(b, x):
    x = floating(b, x)
    return b.binary("power", b.like(2, x), x)


@lowers(aten.log2, aten.log10)
def log2(b, x):
    x = floating(b, x)
    base = 2 if b.op is aten.log2.default else 10
    return b.mul(b.unary("log", x), 1 / math.log(base))


@lowers(aten.digamma)
def digamma(b, x):
    x = floating(b, x)
    y = b.chlo("digamma", x)
    zero = b.compare("EQ", x, 0)
    return b.select(zero, b.div(b.like(-1, x), x), y)  # an infinity with the other sign


@lowers(aten.polygamma.default)
def polygamma(b, n, x):
    if n == 0:
        return digamma(b, x)
    x = floating(b, x)
    pole = math.inf if n % 2 else -math.inf
    return b.select(b.compare("EQ", x, 0), b.like(pole, x), b.chlo("polygamma", b.like(n, x), x))


@lowers(aten.special_zeta.default)
def zeta(b, x, q):
    return b.chlo("zeta", floating(b, x), b.fit(q, floating(b, x)))


@lowers(aten.abs)
def absolute(b, x):
    if x.dtype in (torch.bool, torch.uint8):
        return x
    return b.unary("abs", x, b.out[0].dtype)


@lowers(aten.neg)
def neg(b, x):
    return b.negate(x)


@lowers(aten.reciprocal)
def reciprocal(b, x):
    x = floating(b, x)
    return b.div(b.like(1, x), x)


@lowers(aten.square)
def square(b, x):
    return b.mul(x, x)


@lowers(aten.floor, aten.ceil)
def floor(b, x):
    return b.unary("floor" if b.op is aten.floor.default else "ceil", x) if x.is_float else x


@lowers(aten.trunc, aten.fix)
def trunc(b, x):
    return truncated(b, x) if x.is_float else x


def truncated(b, x):
    return b.select(b.compare("LT", x, 0), b.unary("ceil", x), b.unary("floor", x))


@lowers(aten.frac)
def frac(b, x):
    return b.sub(x, truncated(b, x))


@lowers(aten.round.default, aten.round.decimals)
def rounded(b, x, *, decimals=0):
    if not x.is_float:
        return x
    if decimals == 0:
        return b.unary("round_nearest_even", x)
    scale = 10.0 ** abs(decimals)
    x = b.wide(x)
    if decimals > 0:
        return b.div(b.unary("round_nearest_even", b.mul(x, scale)), scale)
    return b.mul(b.unary("round_nearest_even", b.div(x, scale)), scale)


@lowers(aten.sign, aten.sgn)
def sign(b, x):
    if x.dtype == torch.bool:
        return x
    if x.is_complex:
        size = b.cast(b.unary("abs", x, b.real(x).dtype), x.dtype)
        return b.select(b.compare("EQ", size, 0), b.like(0, x), b.div(x, size))
    if x.dtype == torch.uint8:
        return b.cast(b.compare("NE", x, 0), x.dtype)
    s = b.unary("sign", x)
    return b.select(b.isnan(x), b.like(0, x), s) if x.is_float else s


@lowers(aten.signbit)
def signbit(b, x):
    if not x.is_float:
        return b.compare("LT", x, 0) if x.dtype not in (torch.bool, torch.uint8) else b.like(False, b.cast(x, torch.bool))
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    return b.compare("LT", b.bitcast(x, bits), 0)


@lowers(aten.isnan)
def isnan(b, x):
    if x.is_complex:
        return b.either(b.isnan(b.real(x)), b.isnan(b.imag(x)))
    return b.isnan(x) if x.is_float else b.const(False, torch.bool, x.shape)


@lowers(aten.isinf)
def isinf(b, x):
    if x.is_complex:
        return b.either(*(b.compare("EQ", b.unary("abs", part), math.inf) for part in (b.real(x), b.imag(x))))
    return b.compare("EQ", b.unary("abs", x), math.inf) if x.is_float else b.const(False, torch.bool, x.shape)


@lowers(aten.isposinf, aten.isneginf)
def is_signed_inf(b, x):
    value = math.inf if b.op is aten.isposinf.default else -math.inf
    return b.compare("EQ", x, value) if x.is_float else b.const(False, torch.bool, x.shape)


@lowers(aten.isfinite)
def isfinite(b, x):
    return b.unary("is_finite", x, torch.bool) if x.is_float else b.const(True, torch.bool, x.shape)


@lowers(aten.nan_to_num.default)
def nan_to_num(b, x, nan=None, posinf=None, neginf=None):
    if not x.is_float:
        return x
    info = torch.finfo(x.dtype)
    y = b.select(b.isnan(x), b.like(nan or 0, x), x)
    y = b.select(b.compare("EQ", x, math.inf), b.like(info.max if posinf is None else posinf, x), y)
    return b.select(b.compare("EQ", x, -math.inf), b.like(info.min if neginf is None else neginf, x), y)


@lowers(aten.bitwise_not)
def bitwise_not(b, x):
    return b.invert(x)


@lowers(aten.logical_not)
def logical_not(b, x):
    return b.invert(b.cast(x, torch.bool))


@lowers(aten.real.default, aten.imag.default)
def parts(b, x):
    return b.real(x) if b.op is aten.real.default else b.imag(x)


@lowers(aten.view_as_real)
def view_as_real(b, x):
    return b.concat([b.unsqueeze(b.real(x), -1), b.unsqueeze(b.imag(x), -1)], x.rank)


@lowers(aten.view_as_complex)
def view_as_complex(b, x):
    last = x.rank - 1
    real, imag = (b.reshape(b.slice_dim(x, last, i, i + 1), x.shape[:-1]) for i in (0, 1))
    return b.complex(real, imag)


@lowers(aten.complex.default)
def complex_(b, x, y):
    shape = b.out[0].shape
    return b.complex(b.expand(x, shape), b.expand(y, shape))


@lowers(aten.polar.default)
def polar(b, size, angle):
    shape = b.out[0].shape
    size, angle = b.expand(size, shape), b.expand(angle, shape)
    return b.complex(b.mul(size, b.unary("cosine", angle)), b.mul(size, b.unary("sine", angle)))


@lowers(aten._conj, aten.conj_physical)
def conj(b, x):
    return b.complex(b.real(x), b.negate(b.imag(x))) if x.is_complex else x


@lowers(aten.angle)
def angle(b, x):
    if x.is_complex:
        return b.binary("atan2", b.imag(x), b.real(x))
    x = floating(b, x)
    return b.select(b.isnan(x), x, b.select(b.compare("LT", x, 0), b.like(math.pi, x), b.like(0, x)))


@lowers(aten.logit.default)
def logit(b, x, eps=None):
    x = floating(b, x)
    if eps is not None:
        x = b.select(b.isnan(x), x, b.minimum(b.maximum(x, eps), 1 - eps))
    return b.unary("log", b.div(x, b.sub(b.like(1, x), x)))


@lowers(aten.sinc)
def sinc(b, x):
    x = floating(b, x)
    y = b.mul(x, math.pi)
    return b.select(b.compare("EQ", x, 0), b.like(1, x), b.div(b.unary("sine", y), y))


@lowers(aten.deg2rad, aten.rad2deg)
def degrees(b, x):
    return b.mul(floating(b, x), math.pi / 180 if b.op is aten.deg2rad.default else 180 / math.pi)
