"""Functions of two and more tensors, element by element, with PyTorch's promotion of types."""

import math

import torch

from cleave.torch.lowering.elementwise import truncated
from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import WIDE, Value

aten = torch.ops.aten


def common(b, *operands):
    """The dtype that PyTorch promotes operands to."""
    kinds = [v.stand_in() if isinstance(v, Value) else v for v in operands]
    dtype = None
    result = kinds[0]
    for other in kinds[1:]:
        dtype = torch.result_type(result, other)
        shape = result.shape if torch.is_tensor(result) else None
        if torch.is_tensor(result) and torch.is_tensor(other):
            shape = torch.broadcast_shapes(result.shape, other.shape)
        elif torch.is_tensor(other):
            shape = other.shape
        result = torch.empty(shape if shape is not None else (), dtype=dtype, device="meta")
    return dtype if dtype is not None else kinds[0].dtype


def spread(b, dtype, *operands, shape=None):
    """Operands with one dtype and the shape of the result."""
    shape = b.out[0].shape if shape is None else shape
    return [b.expand(b.cast(v, dtype), shape) if isinstance(v, Value) else b.const(v, dtype, shape) for v in operands]


def promoted(b, *operands):
    """As they are computed: in the dtype of the result, halves in f32."""
    dtype = b.out[0].dtype
    return spread(b, WIDE.get(dtype, dtype), *operands)


def scaled(b, y, alpha):
    return y if alpha == 1 else b.mul(y, alpha)


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(b, x, y, *more, alpha=1):
    x, y = promoted(b, x, y)
    return b.add(x, scaled(b, y, more[0] if more else alpha))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(b, x, y, *more, alpha=1):
    x, y = promoted(b, x, y)
    return b.sub(x, scaled(b, y, more[0] if more else alpha))


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(b, x, y, *more, alpha=1):
    x, y = promoted(b, x, y)
    return b.sub(y, scaled(b, x, more[0] if more else alpha))


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(b, x, y):
    return b.mul(*promoted(b, x, y))


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(b, x, y):
    return b.div(*promoted(b, x, y))


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(b, x, y, *, rounding_mode=None):
    x, y = promoted(b, x, y)
    if rounding_mode == "floor":
        return floored_quotient(b, x, y)
    q = b.div(x, y)
    return truncated(b, q) if rounding_mode == "trunc" and q.is_float else q


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(b, x, y):
    return floored_quotient(b, *promoted(b, x, y))


def floored_quotient(b, x, y):
    """Floats as Python divides them: from the exact remainder."""
    if x.dtype == torch.uint8:
        return b.div(x, y)
    rest = b.binary("remainder", x, y)
    uneven = b.both(b.compare("NE", rest, 0), b.compare("NE", b.compare("LT", rest, 0), b.compare("LT", y, 0)))
    if not x.is_float:
        q = b.div(x, y)
        return b.select(uneven, b.sub(q, 1), q)
    q = b.div(b.sub(x, rest), y)
    q = b.select(uneven, b.sub(q, 1), q)
    whole = b.unary("floor", q)
    whole = b.select(b.compare("GT", b.sub(q, whole), 0.5), b.add(whole, 1), whole)
    whole = b.select(b.compare("EQ", q, 0), b.mul(b.div(x, y), 0), whole)
    return b.select(b.compare("EQ", y, 0), b.div(x, y), whole)


@lowers(aten.remainder)
def remainder(b, x, y):
    x, y = promoted(b, x, y)
    rest = b.binary("remainder", x, y)
    if x.dtype == torch.uint8:
        return rest
    uneven = b.both(b.compare("NE", rest, 0), b.compare("NE", b.compare("LT", rest, 0), b.compare("LT", y, 0)))
    return b.select(uneven, b.add(rest, y), rest)


@lowers(aten.fmod)
def fmod(b, x, y):
    return b.binary("remainder", *promoted(b, x, y))


@lowers(aten.pow)
def power(b, x, y):
    if isinstance(x, Value) and not isinstance(y, Value):
        (x,) = promoted(b, x)
        simple = {0: lambda: b.like(1, x), 1: lambda: x, 2: lambda: b.mul(x, x), 3: lambda: b.mul(b.mul(x, x), x)}
        if x.is_float:
            simple |= {0.5: lambda: b.unary("sqrt", x), -0.5: lambda: b.unary("rsqrt", x),
                       -1: lambda: b.div(b.like(1, x), x), -2: lambda: b.div(b.like(1, x), b.mul(x, x))}
        if y in simple:
            return simple[y]()
        return b.binary("power", x, b.like(y, x))
    x, y = promoted(b, x, y)
    return b.binary("power", x, y)


@lowers(aten.maximum)
def maximum(b, x, y):
    return b.binary("maximum", *promoted(b, x, y))


@lowers(aten.minimum)
def minimum(b, x, y):
    return b.binary("minimum", *promoted(b, x, y))


@lowers(aten.fmax, aten.fmin)
def fmax(b, x, y):
    x, y = promoted(b, x, y)
    chosen = b.binary("maximum" if b.op is aten.fmax.default else "minimum", x, y)
    return b.select(b.isnan(x), y, b.select(b.isnan(y), x, chosen)) if x.is_float else chosen


@lowers(aten.atan2, aten.hypot, aten.copysign)
def atan2(b, x, y):
    x, y = promoted(b, x, y)
    if b.op is aten.atan2.default:
        return b.binary("atan2", x, y)
    if b.op is aten.hypot.default:
        a, c = b.unary("abs", x), b.unary("abs", y)
        big, small = b.maximum(a, c), b.minimum(a, c)
        ratio = b.select(b.compare("EQ", big, 0), b.like(0, x), b.div(small, big))
        whole = b.mul(big, b.unary("sqrt", b.add(b.mul(ratio, ratio), 1)))
        return b.select(b.compare("EQ", big, math.inf), big, whole)
    bits = {4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    size = b.unary("abs", x)
    return b.select(b.compare("LT", b.bitcast(y, bits), 0), b.negate(size), size)


@lowers(aten.nextafter.default)
def nextafter(b, x, y):
    x, y = spread(b, b.out[0].dtype, x, y)
    return b.chlo("next_after", x, y)


def bits(op, packet):
    lowers(*(getattr(packet, n) for n in packet.overloads() if "out" not in n))(
        lambda b, x, y: b.binary(op, *spread(b, b.out[0].dtype, x, y)))


for _op, _packet in (("and", aten.bitwise_and), ("or", aten.bitwise_or), ("xor", aten.bitwise_xor)):
    bits(_op, _packet)


@lowers(aten.bitwise_left_shift, aten.bitwise_right_shift, aten.__lshift__, aten.__rshift__)
def shift(b, x, y):
    x, y = spread(b, b.out[0].dtype, x, y)
    left = "left" in str(b.op) or "lshift" in str(b.op)
    if left:
        return b.binary("shift_left", x, y)
    return b.binary("shift_right_logical" if x.dtype == torch.uint8 else "shift_right_arithmetic", x, y)


@lowers(aten.logical_and, aten.logical_or, aten.logical_xor)
def logical(b, x, y):
    x, y = spread(b, torch.bool, x, y)
    return b.binary(str(b.op).split("logical_")[1].split(".")[0], x, y)


def comparison(direction, packet):
    def row(b, x, y):
        return b.compare(direction, *spread(b, common(b, x, y), x, y))
    lowers(packet)(row)


for _direction, _packet in (("EQ", aten.eq), ("NE", aten.ne), ("LT", aten.lt), ("LE", aten.le), ("GT", aten.gt), ("GE", aten.ge)):
    comparison(_direction, _packet)


@lowers(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(b, condition, x, y):
    x, y = spread(b, b.out[0].dtype, x, y)
    return b.select(b.cast(condition, torch.bool), x, y)


@lowers(aten.clamp.default, aten.clamp.Tensor)
def clamp(b, x, min=None, max=None):
    (x,) = promoted(b, x)
    if min is not None:
        x = b.maximum(x, *promoted(b, min))
    if max is not None:
        x = b.minimum(x, *promoted(b, max))
    return x


@lowers(aten.clamp_min, aten.clamp_max)
def clamp_one(b, x, bound):
    x, bound = promoted(b, x, bound)
    return b.maximum(x, bound) if "clamp_min" in str(b.op) else b.minimum(x, bound)


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(b, x, y, weight):
    x, y, w = promoted(b, x, y, weight)
    near = b.compare("LT", b.unary("abs", w), 0.5)
    step = b.sub(y, x)
    return b.select(near, b.add(x, b.mul(w, step)), b.sub(y, b.mul(step, b.sub(b.like(1, w), w))))


@lowers(aten.addcmul, aten.addcdiv)
def addcmul(b, x, y, z, *, value=1):
    x, y, z = promoted(b, x, y, z)
    if "addcmul" in str(b.op):
        return b.add(x, b.mul(scaled(b, y, value), z))
    return b.add(x, b.mul(b.div(y, z), value) if value != 1 else b.div(y, z))


@lowers(aten.logaddexp, aten.logaddexp2)
def logaddexp(b, x, y):
    x, y = promoted(b, x, y)
    big = b.maximum(x, y)
    gap = b.negate(b.unary("abs", b.sub(x, y)))
    if b.op is aten.logaddexp2.default:
        more = b.mul(b.unary("log_plus_one", b.binary("power", b.like(2, gap), gap)), 1 / math.log(2))
    else:
        more = b.unary("log_plus_one", b.unary("exponential", gap))
    same = b.both(b.compare("EQ", x, y), b.compare("EQ", b.unary("abs", x), math.inf))
    return b.select(same, x, b.add(big, more))


@lowers(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(b, x, y):
    x, y = promoted(b, x, y)
    z = b.select(b.compare("EQ", x, 0), b.like(0, x), b.mul(x, b.unary("log", y)))
    return b.select(b.isnan(y), y, z)


@lowers(aten.gcd.default)
def gcd(b, x, y):
    x, y = promoted(b, x, y)
    x, y = b.unary("abs", x), b.unary("abs", y)
    for _ in range(92 if x.dtype == torch.int64 else 46):  # steps of Euclid's algorithm for the largest numbers
        zero = b.compare("EQ", y, 0)
        x, y = b.select(zero, x, y), b.select(zero, y, b.binary("remainder", x, b.select(zero, b.like(1, y), y)))
    return x


@lowers(aten.heaviside.default)
def heaviside(b, x, y):
    x, y = promoted(b, x, y)
    return b.select(b.compare("EQ", x, 0), y, b.select(b.compare("GT", x, 0), b.like(1, x), b.like(0, x)))
