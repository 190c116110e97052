"""Random numbers from a counter: they depend on the seed, the place of the op in the graph, and the place of the element, and so
not on how a tensor is split. The generator is Threefry-2x32 with 20 rounds (Salmon et al., 2011), written elementwise."""

import math

import torch

from cleave.torch.lowering.factories import TAU
from cleave.torch.lowering.table import lowers
from cleave.torch.lowering.values import WIDE

aten = torch.ops.aten
RANDOM = set()
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def draws(*ops):
    """Rows of ops that need the seed."""
    from cleave.torch.lowering.table import overloads
    for op in ops:
        RANDOM.update(overloads(op) if isinstance(op, torch._ops.OpOverloadPacket) else [op])
    return lowers(*ops)


def threefry(b, key, high, low):
    """Two words of 32 random bits for each counter (high, low)."""
    schedule = [*key, b.binary("xor", b.binary("xor", key[0], key[1]), b.like(0x1BD11BDA, key[0]))]
    x, y = b.add(high, schedule[0]), b.add(low, schedule[1])
    for i in range(5):
        for turn in _ROTATIONS[i % 2]:
            x = b.add(x, y)
            y = b.binary("or", b.binary("shift_left", y, b.like(turn, y)), b.binary("shift_right_logical", y, b.like(32 - turn, y)))
            y = b.binary("xor", x, y)
        x = b.add(x, schedule[(i + 1) % 3])
        y = b.add(b.add(y, schedule[(i + 2) % 3]), i + 1)
    return x, y


def words(b, shape, stream=0):
    """32 random bits for each element, twice."""
    seed, word = b.context.seed, torch.uint32
    if 0 in shape:
        return b.const(0, word, shape), b.const(0, word, shape)
    places = b.const(0, torch.int64, shape)
    stride = math.prod(shape)
    for dim, size in enumerate(shape):
        stride //= size
        step = b.iota(torch.int64, shape, dim)
        places = b.add(places, b.mul(step, stride) if stride != 1 else step)
    key = (b.expand(b.cast(seed, word), shape),
           b.expand(b.cast(b.binary("shift_right_logical", seed, b.like(32, seed)), word), shape))
    high = b.cast(b.binary("shift_right_logical", places, b.like(32, places)), word)
    high = b.binary("xor", high, b.like(((b.context.number << 3) + stream + 1) & 0xFFFFFFFF, high))
    return threefry(b, key, high, b.cast(places, word))


def uniforms(b, shape, dtype, stream=0):
    """In [0, 1), with 24 bits for f32 and 53 for f64; two independent tensors."""
    one, two = words(b, shape, stream)
    work = WIDE.get(dtype, dtype)
    if work == torch.float64:
        def wide(x, y):
            top = b.cast(b.binary("shift_right_logical", x, b.like(5, x)), work)
            return b.mul(b.add(b.mul(top, 2.0 ** 26), b.cast(b.binary("shift_right_logical", y, b.like(6, y)), work)), 2.0 ** -53)
        return wide(one, two), wide(*words(b, shape, stream + 1))
    bits = 24 if dtype == torch.float32 else 11 if dtype == torch.float16 else 8
    return tuple(b.mul(b.cast(b.binary("shift_right_logical", w, b.like(32 - bits, w)), work), 2.0 ** -bits) for w in (one, two))


def uniform(b, shape, dtype, stream=0):
    return uniforms(b, shape, dtype, stream)[0]


def normals(b, shape, dtype):
    u, v = uniforms(b, shape, torch.float64 if dtype == torch.float64 else torch.float32)
    radius = b.unary("sqrt", b.mul(b.unary("log_plus_one", b.negate(u)), -2))
    return b.mul(radius, b.unary("cosine", b.mul(v, TAU)))


@draws(aten.rand.default, aten.rand_like.default)
def rand(b, *_, **__):
    dtype, shape = b.out[0]
    return uniform(b, shape, dtype)


@draws(aten.randn.default, aten.randn_like.default)
def randn(b, *_, **__):
    dtype, shape = b.out[0]
    return normals(b, shape, dtype)


@draws(aten.uniform.default)
def uniform_(b, x, start=0.0, end=1.0, *, generator=None):
    return b.add(b.mul(uniform(b, x.shape, x.dtype), end - start), start)


@draws(aten.normal.float_float, aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor,
       aten.normal_functional.default)
def normal(b, mean=0.0, std=1.0, *rest, **_):
    dtype, shape = b.out[0]
    y = normals(b, shape, dtype)
    if b.op is aten.normal_functional.default:  # of a tensor that only gives the sizes
        mean, std = std, rest[0] if rest else 1.0
    return b.add(b.mul(y, b.fit(std, y)), b.fit(mean, y))


@draws(aten.bernoulli.default, aten.bernoulli.p)
def bernoulli(b, x, p=None, *, generator=None):
    u = uniform(b, x.shape, torch.float64 if x.dtype == torch.float64 else torch.float32)
    return b.cast(b.compare("LT", u, b.fit(x if p is None else p, u)), b.out[0].dtype)


@draws(aten.native_dropout.default)
def native_dropout(b, x, p, train):
    if train is False or p == 0:
        return x, b.const(True, torch.bool, x.shape)
    if p == 1:
        return b.like(0, x), b.const(False, torch.bool, x.shape)
    keep = b.compare("LT", uniform(b, x.shape, torch.float32), 1 - p)
    return b.select(keep, b.mul(x, 1 / (1 - p)), b.like(0, x)), keep


@draws(aten.dropout.default)
def dropout(b, x, p, train):
    return native_dropout(b, x, p, train)[0]


@lowers(aten.native_dropout_backward.default)
def native_dropout_backward(b, grad, mask, scale):
    return b.mul(b.select(mask, grad, b.like(0, grad)), scale)


@draws(aten.rrelu_with_noise_functional.default)
def rrelu(b, x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    negative = b.compare("LE", x, 0)
    if not training:
        return b.select(negative, b.mul(x, (lower + upper) / 2), x), noise
    slope = b.add(b.mul(uniform(b, x.shape, b.wide(x).dtype), upper - lower), lower)
    drawn = b.select(negative, b.cast(slope, x.dtype), b.like(1, x))
    return b.mul(x, drawn), drawn


@lowers(aten.rrelu_with_noise_backward.default)
def rrelu_backward(b, grad, x, noise, lower, upper, training, self_is_result):
    if training and upper - lower > 1e-6:
        return b.mul(grad, noise)
    return b.select(b.compare("GT", x, 0), grad, b.mul(grad, (lower + upper) / 2))


@draws(aten.randint.default, aten.randint.low, aten.randint_like.default, aten.randint_like.low_dtype)
def randint(b, *args, **_):
    dtype, shape = b.out[0]
    if "like" in str(b.op):
        args = args[1:]
    low, high = (args[0], args[1]) if "low" in b.op._overloadname else (0, args[0])
    one, two = (b.cast(w, torch.uint64) for w in words(b, shape))
    whole = b.binary("or", b.binary("shift_left", one, b.like(32, one)), two)
    rest = b.binary("remainder", whole, b.like(high - low, whole))
    return b.cast(b.add(b.cast(rest, torch.int64), low), dtype)


@draws(aten.exponential.default)
def exponential(b, x, lambd=1.0, *, generator=None):
    return b.div(b.negate(b.unary("log_plus_one", b.negate(uniform(b, x.shape, b.wide(x).dtype)))), lambd)


@draws(aten.randperm.default)
def randperm(b, n, **_):
    shape = (n,)
    one, two = words(b, shape)
    key = b.binary("or", b.binary("shift_left", b.cast(one, torch.uint64), b.const(31, torch.uint64, shape)), b.cast(two, torch.uint64))
    return b.cast(b.sort(b.bitcast(key, torch.int64), [b.iota(torch.int64, shape, 0)], 0)[1], b.out[0].dtype)


@draws(aten.multinomial.default)
def multinomial(b, probabilities, num_samples, replacement=False, *, generator=None):
    """The largest of probabilities over exponential numbers, again and again if elements are put back."""
    p = b.wide(probabilities)

    def race(stream):
        e = b.negate(b.unary("log_plus_one", b.negate(uniform(b, p.shape, p.dtype, stream))))
        return b.div(p, b.maximum(e, 1e-37))
    dim = p.rank - 1
    if not replacement or num_samples == 1:
        score = race(0)
        return b.slice_dim(b.sort(score, [b.iota(torch.int64, p.shape, dim)], dim, True)[1], dim, 0, num_samples)
    sums = b.running("add", p, dim)
    whole = b.slice_dim(sums, dim, p.shape[dim] - 1, p.shape[dim])
    shape = p.shape[:-1] + (num_samples,)
    u = b.mul(uniform(b, shape, p.dtype), b.expand(whole, shape))
    wide = shape + (p.shape[-1],)
    left = b.broadcast(u, wide, range(len(shape)))
    edges = b.broadcast(sums, wide, [*range(dim), dim + 1])
    return b.reduce("add", b.cast(b.compare("GE", left, edges), torch.int64), [dim + 1])
