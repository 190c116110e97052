"""Ops that compute each element by itself. They work on what is not broadcast yet: `x + broadcast(y)` is one op."""

import math
import operator
from functools import reduce as fold

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import BITS, carrier, is_complex, is_float, is_integer
from cleave.torch.execution.table import translates

aten = torch.ops.aten

UNARY = {
    "abs": aten.abs, "ceil": aten.ceil, "cosine": aten.cos, "exponential": aten.exp, "exponential_minus_one": aten.expm1,
    "floor": aten.floor, "log": aten.log, "log_plus_one": aten.log1p, "logistic": aten.sigmoid, "negate": aten.neg,
    "round_nearest_even": aten.round, "rsqrt": aten.rsqrt, "sine": aten.sin, "sqrt": aten.sqrt, "tan": aten.tan, "tanh": aten.tanh,
}  # fmt: skip
CHLO = {
    "acos": aten.acos, "acosh": aten.acosh, "asin": aten.asin, "asinh": aten.asinh, "atan": aten.atan, "atanh": aten.atanh,
    "cosh": aten.cosh, "sinh": aten.sinh, "tan": aten.tan, "erf": aten.erf, "erfc": aten.erfc, "erf_inv": aten.erfinv,
    "lgamma": aten.lgamma, "digamma": aten.digamma, "conj": aten.conj_physical,
}  # fmt: skip

# An op with a number in second place, if ATen has one.
SECOND = {
    "add": aten.add.Tensor, "subtract": aten.sub.Tensor, "multiply": aten.mul.Tensor, "divide": aten.div.Tensor,
    "maximum": aten.clamp_min.default, "minimum": aten.clamp_max.default, "power": aten.pow.Tensor_Scalar,
    "remainder": aten.fmod.Scalar, "and": aten.bitwise_and.Scalar, "or": aten.bitwise_or.Scalar, "xor": aten.bitwise_xor.Scalar,
    "shift_left": aten.bitwise_left_shift.Tensor_Scalar, "shift_right_arithmetic": aten.bitwise_right_shift.Tensor_Scalar,
}  # fmt: skip
SWAPS = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"}
BOTH = {
    "add": aten.add.Tensor, "subtract": aten.sub.Tensor, "multiply": aten.mul.Tensor, "divide": aten.div.Tensor,
    "maximum": aten.maximum.default, "minimum": aten.minimum.default, "power": aten.pow.Tensor_Tensor,
    "remainder": aten.fmod.Tensor, "and": aten.bitwise_and.Tensor, "or": aten.bitwise_or.Tensor, "xor": aten.bitwise_xor.Tensor,
    "shift_left": aten.bitwise_left_shift.Tensor, "shift_right_arithmetic": aten.bitwise_right_shift.Tensor,
    "atan2": aten.atan2.default,
}  # fmt: skip
OF_BOOLS = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
DIRECTIONS = {"EQ": aten.eq, "NE": aten.ne, "LT": aten.lt, "LE": aten.le, "GT": aten.gt, "GE": aten.ge}
TURNED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def pair(b, name, x, y, dtype):
    """A binary op on tensors, with a number in place of a constant if there is such a form."""
    if all(isinstance(t, torch.Tensor) for t in (x, y)):
        return b.call(BOTH[name], x, y)
    if number_in(y) and name in SECOND:
        return b.call(SECOND[name], x, plain(y))
    if number_in(x) and name in SWAPS:
        return b.call(SECOND[name], y, plain(x))
    if number_in(x) and name == "subtract" and dtype != "i1":
        return b.call(aten.rsub.Scalar, y, plain(x))
    if number_in(x) and name == "power":
        return b.call(aten.pow.Scalar, plain(x), y)
    if number_in(x) and name == "divide" and plain(x) == 1 and is_float(dtype):
        return b.call(aten.reciprocal.default, y)
    return b.call(BOTH[name], x, y)


def number_in(t):
    return isinstance(t, torch.Tensor) and t.numel() == 1 and not t.dtype.is_complex


def plain(t):
    return t.item()


@translates(*(f"stablehlo.{name}" for name in UNARY), *(f"chlo.{name}" for name in CHLO))
def unary(t, op, x):
    name = op.name.split(".")[1]
    function = UNARY.get(name) or CHLO[name]
    if name == "abs" and op.dtype.startswith("ui"):
        return x
    result = t.b.call(function.default, x.t)
    return Value(t.b.wrapped(result, x.dtype), op.shape, op.dtype)


@translates(*(f"stablehlo.{name}" for name in BOTH))
def binary(t, op, x, y):
    return compute(t, op, op.name.split(".")[1], x, y)


@translates(*(f"chlo.broadcast_{name}" for name in BOTH))
def broadcasting(t, op, x, y):
    dims = op.ints("broadcast_dimensions")
    if dims is not None and dims != list(range(len(op.shape) - min(len(x.shape), len(y.shape)), len(op.shape))):
        raise op.error([x, y], "no translation to PyTorch with these broadcast_dimensions")
    return compute(t, op, op.name.removeprefix("chlo.broadcast_"), x, y)


def compute(t, op, name, x, y):
    b, dtype = t.b, x.dtype
    if dtype == "i1":
        name = OF_BOOLS.get(name, name)
    if dtype == "ui64" and name in ("maximum", "minimum", "divide", "remainder"):
        return Value(of_ui64(b, name, x.t, y.t), op.shape, op.dtype)
    if is_integer(dtype) and name in ("divide", "remainder"):
        return Value(integer_division(b, name, x, y), op.shape, op.dtype)
    if name in ("shift_left", "shift_right_arithmetic"):
        return Value(shifted(b, name, x, y, dtype), op.shape, op.dtype)
    return Value(b.wrapped(pair(b, name, x.t, y.t, dtype), dtype), op.shape, op.dtype)


def integer_division(b, name, x, y):
    """x / 0 is -1 and x % 0 is x. Torch's integers can not be divided by zero."""
    constant = b.known(y)
    divisor, zero = y.t, None
    if constant is None or bool((constant == 0).any()):
        zero = b.call(aten.eq.Scalar, y.t, 0)
        divisor = b.call(aten.where.ScalarSelf, zero, 1, y.t)
        divisor = b.convert(divisor, carrier(y.dtype))
    if name == "divide":
        divisor = plain(divisor) if number_in(divisor) and not x.is_constant else divisor
        form = aten.div.Tensor_mode if not isinstance(divisor, int) else aten.div.Scalar_mode
        result = b.call(form, x.t, divisor, rounding_mode="trunc")
        return result if zero is None else select(b, zero, torch.tensor(-1, dtype=carrier(x.dtype)), result)
    result = pair(b, "remainder", x.t, divisor, x.dtype)
    return result if zero is None else select(b, zero, x.t, result)


def of_ui64(b, name, x, y):
    """Numbers in the order of their bits: the sign bit turned."""
    flip = -(1 << 63)
    if name in ("maximum", "minimum"):
        sides = [b.call(aten.bitwise_xor.Scalar, side, flip) for side in (x, y)]
        return b.call(aten.bitwise_xor.Scalar, b.call(BOTH[name], *sides), flip)
    # floor((x / 2) / y) * 2 is at most one too small for y < 2^63; otherwise the quotient is 0 or 1.
    zero = b.call(aten.eq.Scalar, y, 0)
    safe = b.call(aten.where.ScalarSelf, zero, 1, y)
    half = shift_right_logical(b, x, torch.tensor(1), "ui64")
    quotient = b.call(aten.mul.Tensor, b.call(aten.div.Tensor_mode, half, safe, rounding_mode="trunc"), 2)
    rest = b.call(aten.sub.Tensor, x, b.call(aten.mul.Tensor, quotient, safe))
    more = b.call(aten.ge.Tensor, *[b.call(aten.bitwise_xor.Scalar, side, flip) for side in (rest, safe)])
    quotient = b.call(aten.add.Tensor, quotient, b.convert(more, torch.int64))
    large = b.call(aten.lt.Scalar, y, 0)
    above = b.call(aten.ge.Tensor, *[b.call(aten.bitwise_xor.Scalar, side, flip) for side in (x, y)])
    quotient = select(b, large, b.convert(above, torch.int64), quotient)
    if name == "divide":
        return select(b, zero, torch.tensor(-1), quotient)
    return select(b, zero, x, b.call(aten.sub.Tensor, x, b.call(aten.mul.Tensor, quotient, safe)))


def shifted(b, name, x, y, dtype):
    """A shift by as many bits as there are, or more, leaves none of them: 0, or the sign."""
    bits = BITS[dtype]
    constant = b.known(y)
    sound = constant is not None and bool(((constant >= 0) & (constant < bits)).all())
    if name == "shift_left":
        result = b.wrapped(pair(b, name, x.t, y.t, dtype), dtype)
        return result if sound else masked_shift(b, result, y.t, bits)
    amount = y.t if sound else clamped_shift(b, y.t, bits)
    return pair(b, name, x.t, amount, dtype)


def clamped_shift(b, amount, bits):
    bad = b.call(aten.logical_or.default, b.call(aten.lt.Scalar, amount, 0), b.call(aten.ge.Scalar, amount, bits))
    return b.convert(b.call(aten.where.ScalarSelf, bad, bits - 1, amount), b.val(amount).dtype)


def masked_shift(b, result, amount, bits):
    bad = b.call(aten.logical_or.default, b.call(aten.lt.Scalar, amount, 0), b.call(aten.ge.Scalar, amount, bits))
    return b.convert(b.call(aten.where.ScalarSelf, bad, 0, result), b.val(result).dtype)


@translates("stablehlo.shift_right_logical", "chlo.broadcast_shift_right_logical")
def shift_right(t, op, x, y):
    b, bits = t.b, BITS[x.dtype]
    constant = b.known(y)
    sound = constant is not None and bool(((constant >= 0) & (constant < bits)).all())
    result = shift_right_logical(b, x.t, y.t if sound else clamped_shift(b, y.t, bits), x.dtype)
    return Value(result if sound else masked_shift(b, result, y.t, bits), op.shape, op.dtype)


def shift_right_logical(b, x, amount, dtype):
    """Zeros come from the left. `amount` is less than the number of bits."""
    bits, held = BITS[dtype], carrier(dtype)
    if dtype in ("ui8", "ui16", "ui32"):
        return pair(b, "shift_right_arithmetic", x, amount, dtype)
    if bits < 64:
        wide = b.call(aten.bitwise_and.Scalar, b.convert(x, torch.int64), (1 << bits) - 1)
        if not number_in(amount):
            amount = b.convert(amount, torch.int64)
        return b.convert(pair(b, "shift_right_arithmetic", wide, amount, dtype), held)
    if number_in(amount):
        n = plain(amount)
        return x if n == 0 else b.call(aten.bitwise_and.Scalar, b.call(SECOND["shift_right_arithmetic"], x, n), (1 << (64 - n)) - 1)
    arithmetic = b.call(BOTH["shift_right_arithmetic"], x, amount)
    # All ones, less those that the sign filled in: ~((-2) << (63 - n)).
    mask = b.call(aten.bitwise_left_shift.Tensor, torch.tensor(-2), b.call(aten.rsub.Scalar, amount, 63))
    return b.call(aten.bitwise_and.Tensor, arithmetic, b.call(aten.bitwise_not.default, mask))


@translates("stablehlo.not")
def invert(t, op, x):
    function = aten.logical_not if x.dtype == "i1" else aten.bitwise_not
    return Value(t.b.wrapped(t.b.call(function.default, x.t), x.dtype), op.shape, op.dtype)


@translates("stablehlo.compare", "chlo.broadcast_compare")
def compare(t, op, x, y):
    b, direction, a, c = t.b, op.get("comparison_direction"), x.t, y.t
    if x.dtype == "ui64" and direction not in ("EQ", "NE"):
        a, c = (b.call(aten.bitwise_xor.Scalar, side, -(1 << 63)) for side in (a, c))
    if op.get("compare_type") == "TOTALORDER" and is_float(x.dtype):
        a, c = total_order(b, a, x.dtype), total_order(b, c, x.dtype)
    return Value(compared(b, direction, a, c), op.shape, "i1")


def compared(b, direction, x, y):
    if number_in(y) and not isinstance(x, torch.Tensor):
        return b.call(DIRECTIONS[direction].Scalar, x, plain(y))
    if number_in(x) and not isinstance(y, torch.Tensor):
        return b.call(DIRECTIONS[TURNED[direction]].Scalar, y, plain(x))
    return b.call(DIRECTIONS[direction].Tensor, x, y)


def total_order(b, x, dtype):
    """Integers in the order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = {"f64": 64, "f32": 32}.get(dtype, 16)
    whole = {64: torch.int64, 32: torch.int32, 16: torch.int16}[bits]
    raw = b.call(aten.view.dtype, x, whole)
    sign = b.call(SECOND["shift_right_arithmetic"], raw, bits - 1)
    return b.call(aten.bitwise_xor.Tensor, raw, b.call(aten.bitwise_and.Scalar, sign, (1 << (bits - 1)) - 1))


def select(b, condition, on_true, on_false):
    if number_in(on_true) and not number_in(on_false) and not all_known(condition, on_false):
        return b.call(aten.where.ScalarSelf, condition, plain(on_true), on_false)
    if number_in(on_false) and not number_in(on_true) and not all_known(condition, on_true):
        return b.call(aten.where.ScalarOther, condition, on_true, plain(on_false))
    return b.call(aten.where.self, condition, on_true, on_false)


def all_known(*tensors):
    return all(isinstance(t, torch.Tensor) for t in tensors)


@translates("stablehlo.select", "chlo.broadcast_select")
def choose(t, op, condition, on_true, on_false):
    known = condition.scalar
    if known is not None:
        chosen = on_true if known else on_false
        return Value(chosen.t, op.shape, op.dtype)
    if condition.is_constant:
        if bool(condition.t.all()):
            return Value(on_true.t, op.shape, op.dtype)
        if not bool(condition.t.any()):
            return Value(on_false.t, op.shape, op.dtype)
    mask = condition.t
    if condition.shape == () and op.shape:
        mask = t.b.view(mask, ())
    return Value(select(t.b, mask, on_true.t, on_false.t), op.shape, op.dtype)


@translates("stablehlo.clamp")
def clamp(t, op, low, x, high):
    b, t_ = t.b, x.t
    if number_in(low.t) and number_in(high.t) and x.dtype != "ui64" and not x.is_constant:
        if x.t.target is aten.clamp.default and x.t.args[1] >= low.scalar and x.t.args[2] <= high.scalar:
            return x
        return Value(b.call(aten.clamp.default, t_, low.scalar, high.scalar), op.shape, op.dtype)
    below = of_ui64(b, "maximum", t_, low.t) if x.dtype == "ui64" else pair(b, "maximum", t_, low.t, x.dtype)
    above = of_ui64(b, "minimum", below, high.t) if x.dtype == "ui64" else pair(b, "minimum", below, high.t, x.dtype)
    return Value(above, op.shape, op.dtype)


@translates("stablehlo.convert")
def convert(t, op, x):
    return Value(converted(t.b, x.t, x.dtype, op.dtype), op.shape, op.dtype)


def converted(b, t, source, target):
    """Between dtypes of StableHLO. Floats are cut towards zero; integers keep their low bits; to i1 asks for nonzero."""
    if source == target:
        return t
    if source == "ui64" and (is_float(target) or is_complex(target)):
        half = b.call(aten.bitwise_or.Tensor, shift_right_logical(b, t, torch.tensor(1), "ui64"), b.call(aten.bitwise_and.Scalar, t, 1))
        large = b.call(aten.mul.Tensor, b.convert(half, carrier(target)), 2.0)
        return select(b, b.call(aten.lt.Scalar, t, 0), large, b.convert(t, carrier(target)))
    if is_complex(source) and not is_complex(target):
        t = b.call(aten.real.default, t)
    if is_float(source) and target in ("ui16", "ui32"):
        t = b.convert(t, torch.int64)
    narrow = target in ("ui16", "ui32") and not (source.startswith("ui") and BITS[source] <= BITS[target]) and source != "i1"
    if narrow:
        wide = b.wrapped(b.convert(t, torch.int64), target)
        return b.convert(wide, carrier(target))
    return b.convert(t, carrier(target))


@translates("stablehlo.sign")
def sign(t, op, x):
    if is_complex(x.dtype):
        return Value(t.b.call(aten.sgn.default, x.t), op.shape, op.dtype)
    result = t.b.call(aten.sign.default, x.t)
    if is_float(x.dtype):  # NaN stays
        result = select(t.b, t.b.call(aten.ne.Tensor, x.t, x.t), x.t, result)
    return Value(result, op.shape, op.dtype)


@translates("stablehlo.cbrt")
def cube_root(t, op, x):
    b = t.b
    root = b.call(aten.pow.Tensor_Scalar, b.call(aten.abs.default, x.t), 1 / 3)
    return Value(b.call(aten.copysign.Tensor, root, x.t), op.shape, op.dtype)


@translates("stablehlo.round_nearest_afz")
def round_away(t, op, x):
    b = t.b
    whole = b.call(aten.trunc.default, x.t)
    half = b.call(aten.ge.Scalar, b.call(aten.abs.default, b.call(aten.sub.Tensor, x.t, whole)), 0.5)
    step = b.call(aten.add.Tensor, whole, b.call(aten.sign.default, x.t))
    return Value(b.call(aten.where.self, half, step, whole), op.shape, op.dtype)


@translates("stablehlo.is_finite")
def is_finite(t, op, x):
    return Value(t.b.call(aten.lt.Scalar, t.b.call(aten.abs.default, x.t), math.inf), op.shape, op.dtype)


@translates("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_infinite(t, op, x):
    side = t.b.call(aten.abs.default, x.t) if op.name == "chlo.is_inf" else x.t
    return Value(t.b.call(aten.eq.Scalar, side, -math.inf if "neg" in op.name else math.inf), op.shape, op.dtype)


@translates("chlo.square")
def square(t, op, x):
    return Value(pair(t.b, "multiply", x.t, x.t, x.dtype), op.shape, op.dtype)


@translates("chlo.next_after", "chlo.broadcast_next_after")
def next_after(t, op, x, y):
    return Value(t.b.call(aten.nextafter.default, x.t, y.t), op.shape, op.dtype)


@translates("stablehlo.complex")
def complex_(t, op, x, y):
    return Value(t.b.call(aten.complex.default, x.t, y.t), op.shape, op.dtype)


@translates("stablehlo.real")
def real(t, op, x):
    return x if not is_complex(x.dtype) else Value(t.b.call(aten.clone.default, t.b.call(aten.real.default, x.t)), op.shape, op.dtype)


@translates("stablehlo.imag")
def imag(t, op, x):
    if not is_complex(x.dtype):
        return t.b.number(0, op.dtype, op.shape)
    return Value(t.b.call(aten.clone.default, t.b.call(aten.imag.default, x.t)), op.shape, op.dtype)


@translates("stablehlo.popcnt")
def popcnt(t, op, x):
    b = t.b
    parts = [b.call(aten.bitwise_and.Scalar, shift_right_logical(b, x.t, torch.tensor(n), x.dtype), 1) for n in range(BITS[x.dtype])]
    return Value(fold(lambda a, c: b.call(aten.add.Tensor, a, c), parts), op.shape, op.dtype)


@translates("stablehlo.count_leading_zeros")
def leading_zeros(t, op, x):
    b, bits = t.b, BITS[x.dtype]
    zeros = [b.convert(b.call(aten.eq.Scalar, shift_right_logical(b, x.t, torch.tensor(n), x.dtype), 0), carrier(x.dtype))
             for n in range(bits)]
    return Value(fold(lambda a, c: b.call(aten.add.Tensor, a, c), zeros), op.shape, op.dtype)


@translates("stablehlo.reduce_precision")
def reduce_precision(t, op, x):
    exponent, mantissa = op.get("exponent_bits"), op.get("mantissa_bits")
    narrow = {(8, 7): torch.bfloat16, (5, 10): torch.float16, (8, 23): torch.float32, (11, 52): torch.float64}.get((exponent, mantissa))
    if narrow is None:
        raise op.error([x], f"no translation to PyTorch for {exponent} bits of exponent and {mantissa} of mantissa")
    held = carrier(x.dtype)
    if torch.finfo(narrow).bits >= torch.finfo(held).bits:
        return x
    return Value(t.b.convert(t.b.convert(x.t, narrow), held), op.shape, op.dtype)


@translates("stablehlo.bitcast_convert")
def bitcast(t, op, x):
    b, source, target = t.b, x.dtype, op.dtype
    sized = {"ui16", "ui32"}
    raw = x.t
    if source in sized:
        raw = b.convert(raw, torch.int16 if source == "ui16" else torch.int32)
    base = {"ui16": torch.int16, "ui32": torch.int32, "ui64": torch.int64}.get(target) or carrier(target)
    if len(x.shape) != len(op.shape) and target != source:  # elements are cut or joined along the last dimension
        full = b.contiguous(b.call(aten.expand.default, raw, list(x.shape)))
        if len(op.shape) > len(x.shape):
            full = b.view(full, (*x.shape, 1))
        raw = b.call(aten.view.dtype, full, base)
        if len(op.shape) < len(x.shape):
            raw = b.view(raw, op.shape)
    else:
        raw = b.call(aten.view.dtype, raw, base)
    if target in sized:
        raw = b.wrapped(b.convert(raw, torch.int64), target)
        raw = b.convert(raw, carrier(target))
    return Value(raw, op.shape, op.dtype)


@translates("stablehlo.map")
def map_(t, op, *operands):
    found = t.region(op, 0, [Value(x.t, x.shape, x.dtype) for x in operands])
    return Value(found[0].t, op.shape, op.dtype)


def product(numbers):
    return fold(operator.mul, numbers, 1)
