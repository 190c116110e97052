"""The functions of the tensor library against NumPy, SciPy and JAX.

The C++ test TensorOps writes inputs and results of every case into a folder; here each case has the same function in
Python. A case without one fails, and so does a result of another dtype.
"""

import os
import pathlib
import subprocess
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, nn
from jax.scipy import special
from scipy import stats

f32 = np.float32
RUNTIME_TEST = pathlib.Path(os.environ["CLEAVE_COMMAND"]).parent / "tests" / "runtime_test"


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        run = subprocess.run(
            [str(RUNTIME_TEST), "--gtest_filter=*TensorOps*:Distributions.*"],
            env={**os.environ, "CLEAVE_DUMP": path}, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-4000:]
        yield pathlib.Path(path)


def matmul_f32(a, b):
    return jnp.matmul(a, b, precision="highest")


def einsum(text, *operands):
    return jnp.einsum(text, *operands, precision="highest")


def attention(q, k, v, mask=None, causal=False):
    share = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    scores = einsum("bhsd,bhtd->bhst", q, k) / f32(np.sqrt(q.shape[-1]))
    if causal:
        s, t = scores.shape[-2:]
        scores = np.where(np.arange(t) <= np.arange(s)[:, None] + t - s, scores, f32(-1e30))
    if mask is not None:
        scores = np.where(mask, scores, f32(-1e30))
    return einsum("bhst,bhtd->bhsd", nn.softmax(scores, -1), v)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def rms_norm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def pool(x, init, op):
    return lax.reduce_window(x, init, op, (1, 3, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 0), (0, 0)))


def dynamic(x, update, i, j):
    start = (int(np.clip(i, 0, 5)), int(np.clip(j, 0, 4)))
    put = x.copy()
    at = (int(np.clip(i, 0, 7)), int(np.clip(j, 0, 3)))
    put[at[0]:at[0] + 2, at[1]:at[1] + 3] = update
    return [x[start[0]:start[0] + 4, start[1]:start[1] + 2], put]


def scatter(x, i, u):
    return [jnp.asarray(x).at[i].add(u), jnp.asarray(x).at[i].max(u)]


def cholesky(x):
    low = np.linalg.cholesky((x @ x.T + 4 * np.eye(4)).astype(np.float64))
    return [low.astype(np.float32), np.linalg.solve(low, x).astype(np.float32)]


def kinds_of_floats(x):
    a = np.where(x > 1, np.inf, np.where(x < -1, np.nan, x))
    return [np.isfinite(a), np.isnan(a), np.isinf(a)]


def one(function):
    return lambda *x: [function(*x)]


def cross_entropies(x, i):
    return -np.take_along_axis(np.asarray(nn.log_softmax(x)), i[:, None], 1)[:, 0]


REFERENCE = {
    "add": one(lambda a, b: a + b),
    "sub": one(lambda a, b: a - b),
    "mul_scalar": one(lambda a: jnp.asarray(a) * 1.5),
    "add_int_float": one(lambda a, b: jnp.asarray(a) + jnp.asarray(b)),
    "add_u8_i8": one(lambda a, b: jnp.asarray(a) + jnp.asarray(b)),
    "add_f64": one(lambda a, b: a + b),
    "int_times_half": one(lambda a: (a * 0.5).astype(f32)),
    "true_divide": one(lambda a, b: (a / (b + 1)).astype(f32)),
    "floor_divide": one(lambda a, b: (a - 5) // (b - 20)),
    "remainder": one(lambda a, b: (a - 5) % (b - 20)),
    "remainder_float": one(lambda a, b: a % b),
    "pow": one(lambda a, b: np.abs(a) ** b),
    "maximum": lambda a, b: [np.maximum(a, b), np.minimum(a, f32(0.25))],
    "logic": lambda a, b: [a & b, a | b, a ^ b, ~a],
    "bits": lambda a, b: [a & b, a | b, a ^ b, a << 2, (a - 9) >> 1, ~a],
    "compare": lambda a, b: [a == b, a != b, a < b, a <= b, a > b, a >= 4],
    "where": lambda c, a, b: [np.where(c, a, b.astype(f32)), np.where(c, a, f32(0))],
    "clip": one(lambda a: np.clip(a, f32(-0.5), f32(0.25))),
    "exponents": lambda x: [np.exp(x), np.expm1(x), *[g(np.abs(x) + f32(0.1)) for g in (
        np.log, np.log1p, np.log2, np.sqrt, lambda a: 1 / np.sqrt(a))], np.cbrt(x)],
    "angles": lambda x: [np.sin(x), np.cos(x), np.tan(np.tanh(x)), np.arcsin(np.tanh(x)), np.arccos(np.tanh(x)),
                         np.arctan(x), np.sinh(x), np.cosh(x), np.arcsinh(x), np.arccosh(np.abs(x) + f32(1.5)),
                         np.arctanh(np.tanh(x) * f32(0.9))],
    "specials": lambda x: [special.erf(x), special.erfc(x), special.erfinv(np.tanh(x) * f32(0.9)),
                           special.gammaln(np.abs(x) + f32(0.5)), special.digamma(np.abs(x) + f32(0.5)),
                           nn.sigmoid(x)],
    "rounding": lambda x: (lambda a: [np.floor(a), np.ceil(a), np.round(a), np.sign(a), -a, a * a, 1 / a])(x * f32(3)),
    "tests": kinds_of_floats,
    "cast": lambda x: [(x * 5).astype(np.int32), x.astype(np.float16)],
    "logaddexp": one(np.logaddexp),
    "complex": lambda a, b: (lambda z: [z * z, np.abs(z), z.real, z.imag, z.conj(), np.exp(z)])(
        (a + 1j * b).astype(np.complex64)),
    "creation": lambda: [np.zeros((3, 4), f32), np.ones(5, np.int32), np.full((2, 3), 2.5), np.arange(10, dtype=np.int32),
                         np.arange(2, 20, 3, dtype=np.int32), np.arange(0, 1, 0.25, dtype=f32),
                         np.linspace(-1, 2, 7, dtype=f32), np.eye(4, dtype=f32), np.eye(3, 5, dtype=f32),
                         np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4))],
    "sums": lambda x: [x.sum(), x.sum(1), x.sum((0, 2), keepdims=True), x.prod(2)],
    "sum_small_ints": lambda x: [x.sum(dtype=np.uint32), x.sum(0, dtype=np.uint32)],
    "extremes": lambda x: [x.max(), x.max(1, keepdims=True), x.min(0)],
    "any_all": lambda x: [x.any(1), x.all(0), x.any(), x.all()],
    "moments": lambda x: [x.mean(), x.mean(0), x.var(1), x.var(0, keepdims=True, ddof=1), x.std()],
    "mean_int": one(lambda x: x.mean(1).astype(f32)),
    "norms": lambda x: [np.linalg.norm(x), np.abs(x).sum(1), np.linalg.norm(x, 3, 0), np.abs(x).max(1)],
    "logsumexp": lambda x: [special.logsumexp(x, 1), special.logsumexp(x * 50, 0, keepdims=True)],
    "argmax": lambda x: [a.astype(np.int32) for a in (x.argmax(1), x.argmax(0, keepdims=True), x.argmin(-1))],
    "running": lambda x: [x.cumsum(0), x.cumsum(1), x.cumprod(1), np.maximum.accumulate(x, 0),
                          np.minimum.accumulate(x, 1), x[::-1].cumsum(0)[::-1]],
    "sort": lambda x: [np.sort(x), -np.sort(-x, 0), np.argsort(x, 1).astype(np.int32), np.argsort(-x, 0).astype(np.int32)],
    "top_k": lambda x: list(lax.top_k(x, 3)),
    "reshape": lambda x: [x.reshape(4, 12), x.reshape(2, -1, 3), x.ravel(), x[:, None], x],
    "transpose": lambda x: [x.T, x.transpose(1, 0, 2), x.swapaxes(-1, 0)],
    "broadcast": lambda a, b: [np.broadcast_to(a, (7, 6)), np.broadcast_to(b, (2, 7, 6))],
    "concat": one(lambda a, b, c: np.concatenate([a, b, c.astype(f32)])),
    "stack": lambda a, b: [np.stack([a, b]), np.stack([a, b], -1)],
    "split": lambda x: [*np.split(x, 4), x[:, :1], x[:, 1:]],
    "slice": lambda x: [x[1:7:2, 0:5], x[-3:], x[:, 1:-1]],
    "pad": lambda x: [np.pad(x, ((1, 2), (0, 3)), constant_values=1.5), lax.pad(x, f32(0), ((0, 0, 1), (0, 0, 2)))],
    "flip_roll": lambda x: [np.flip(x), np.flip(x, 1), np.roll(x, 2, 0), np.roll(x, -1, 1)],
    "repeat_tile": lambda x: [np.repeat(x, 3, 1), np.tile(x, (2, 3))],
    "triangles": lambda x: [np.triu(x), np.tril(x), np.triu(x, 2), np.tril(x, -1)],
    "take": lambda x, i: [x[np.minimum(i, 8)], x[:, np.minimum(i, 5)], x[-1 - np.minimum(i, 5)]],
    "take_along": one(lambda x, i: np.take_along_axis(x, np.minimum(i, 5), 1)),
    "embedding": one(lambda t, i: t[i]),
    "one_hot": one(lambda i: nn.one_hot(i, 10, dtype=f32)),
    "scatter": scatter,
    "dynamic_slice": dynamic,
    "matmul": one(matmul_f32),
    "matmul_vectors": lambda a, m, b: [a @ m, m @ b, b @ b],
    "matmul_batches": lambda a, b, c: [matmul_f32(a, b), matmul_f32(a, c)],
    "einsum": lambda a, b, c: [einsum("bqd,bkd->bqk", a, b), a.sum(1).T, einsum("bqd,bkd,kq->b", a, b, c),
                               einsum("kq,bqd->bkd", c, a), c],
    "cholesky": cholesky,
    "fft": lambda x: [np.fft.fft(x).astype(np.complex64), np.fft.rfft(x).astype(np.complex64), x],
    "activations": lambda x: [nn.relu(x), nn.gelu(x), nn.gelu(x, approximate=False), nn.silu(x), nn.softplus(x)],
    "softmax": lambda x: [nn.softmax(x), nn.softmax(x, 0), nn.log_softmax(x)],
    "norm_layers": lambda x, w, b: [layer_norm(x), layer_norm(x) * w + b, rms_norm(x) * w],
    "attention": lambda q, k, v, m: [attention(q, k, v), attention(q, k, v, causal=True),
                                     attention(q, k, v, m | (np.arange(7) == 0))],
    "cross_entropy": lambda x, i: [cross_entropies(x, i), cross_entropies(x, i).mean()],
    "conv": one(lambda x, k: lax.conv_general_dilated(
        x, k, (2, 1), ((1, 1), (0, 0)), dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2,
        precision="highest")),
    "conv_first": one(lambda x, k: lax.conv_general_dilated(
        x, k, (1,), ((0, 0),), rhs_dilation=(2,), dimension_numbers=("NCH", "OIH", "NCH"), precision="highest")),
    "pooling": lambda x: [pool(x, -np.inf, lax.max), pool(x, 0.0, lax.add) / 6],
}


def index_slices(x):
    return [x[1:4], x[::2, -3:], x[::-1], x[5:0:-2, :, 1:3], x[4:2], x[None, -100:100, 0, None], x[..., None, :-1]]


def index_elements(x, i, j):
    i, j = np.minimum(i, 5), np.minimum(j, 3)
    return [x[i], x[-1 - i], x[:, i], x[i, :, j], x[:, i, j], x[2, i], x[..., j, None], x[i, 1:4, 2]]


def at_runs(x, a, b, c):
    x = jnp.asarray(x)
    return [x.at[2].set(a), x.at[1:4].add(b), x.at[::-2, 1:3].set(c), x.at[4:1:-1].mul(b), x.at[..., :2].min(0.25),
            x.at[-1, 0].max(10), x, x + 1]


def at_elements(x, i, a, b):
    x, i = jnp.asarray(x), np.arange(4) * 2 + np.minimum(i, 1)
    return [x.at[i].set(a), x.at[-1 - i].add(a), x.at[i].mul(a, unique_indices=True), x.at[i, 1:5:2].set(b), x.at[:2, np.arange(4)].add(0.5),
            x.at[i, np.arange(4)].set(b[:, 0])]


def at_twice(x, i, a):
    x, i = jnp.asarray(x), np.minimum(i, 8)
    return [x.at[i].add(a), x.at[i].min(a), x.at[i].max(a)]


REFERENCE |= {
    "index_numbers": lambda x: [x[0], x[-1], x[2, -3], x[1, 2, 3], x[..., -1], x[0, ..., 1]],
    "index_slices": index_slices,
    "index_elements": index_elements,
    "at_runs": at_runs,
    "at_elements": at_elements,
    "at_twice": at_twice,
    "at_mask": lambda x, m, r, v: [jnp.where(m, f32(0.5), x), jnp.where(r[:, None], x + v, x), jnp.where(m, x * 2, x)],
    "masked": lambda x, r, m: [x[r], x[m]],
    "literals": lambda: [np.array([[1, 2], [3, 4]], np.int32), np.array([[[[1.5], [2]], [[3], [-4]]]], f32),
                         np.array([True, False]), f32(2.5), np.array([1, 2, 3.0]), np.zeros((2, 0), f32),
                         np.array([1 + 2j, 3], np.complex64)],
}


def strong(x):
    return x + 5 * jnp.eye(x.shape[-1], dtype=f32)


def turned(v):
    return v * jnp.sign(v[..., :1, :])


def solve(a, b, v, c):
    a = strong(a)
    with jax.default_matmul_precision("highest"):
        return [jnp.linalg.solve(a, b), jnp.linalg.solve(a, jnp.broadcast_to(v[:, None], (5, 4, 1)))[..., 0],
                jnp.linalg.solve(a, jnp.broadcast_to(c, (5, 4, 2))), jnp.linalg.solve(jnp.broadcast_to(a[0], a.shape), b),
                jnp.linalg.inv(a)]


def det(a, b, c):
    return [jnp.linalg.det(a), *jnp.linalg.slogdet(a), jnp.linalg.det(b), *jnp.linalg.slogdet(b), jnp.linalg.det(c)]


def det_singular(a, b, c, d, e):
    def moved(x, at):
        return jnp.array(at, f32) + (x - lax.stop_gradient(x))

    whole = jnp.linalg.det(e)
    return [jnp.linalg.det(moved(a, [[4, 2, 1, 3], [1, 3, -1, 2], [4, 2, 1, 3], [2, 0, 5, 1]])),
            jnp.linalg.det(moved(b, [[2, 1, 3, 4], [0, 3, 1, 2], [0, 0, 5, 1], [0, 0, 0, 0]])),
            jnp.linalg.det(moved(c, [[4, 2, 1, 3], [4, 2, 1, 3], [1, 3, 2, 2], [1, 3, 2, 2]])),
            jnp.linalg.det(moved(d, [[0, 2, 1, 3], [0, 3, 1, 2], [0, 1, 5, 1], [0, 1, 1, 4]])),
            whole ** 2 + jnp.sin(whole)]


def svd(a, b):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    wide = jnp.linalg.svd(b, full_matrices=False)[1]
    return [s, jnp.matmul(u * (s * s)[:, None], v, precision="highest"), wide, s, turned(u)]


def eigh(a):
    w, v = jnp.linalg.eigh(a)
    return [w, turned(v), w]


def lstsq(a, b, c, d):
    x, residuals, rank, s = jnp.linalg.lstsq(a, b)
    rank = jnp.asarray(rank, jnp.int32)
    residuals = jnp.sum((b - jnp.matmul(a, x, precision="highest")) ** 2, 0)
    return [x, residuals, rank, s, jnp.linalg.lstsq(a, c)[0], jnp.linalg.pinv(d)]


def factors_complex(a, b):
    z = (a + 1j * b + 4 * np.eye(4)).astype(np.complex64)
    w, v = jnp.linalg.eigh(z)
    return [jnp.linalg.solve(z, a.astype(np.complex64)), jnp.linalg.inv(z), jnp.linalg.det(z), w, jnp.abs(v),
            jnp.abs(jnp.linalg.qr(z)[1]), z, jnp.linalg.svd(z)[1]]


def factors_f64(a, b):
    a = a + 4 * np.eye(4)
    return [jnp.linalg.solve(a, b[..., None]), jnp.linalg.det(a), jnp.linalg.svd(a)[1], jnp.abs(jnp.linalg.qr(a)[1])]


def singular():
    a = jnp.array([[1, 2], [2, 4]], f32)
    sign, logabs = jnp.linalg.slogdet(a)
    return [jnp.isfinite(jnp.linalg.solve(a, jnp.ones(2, f32))), jnp.linalg.det(a), sign, logabs,
            jnp.asarray(jnp.linalg.lstsq(a, jnp.ones(2, f32))[2], jnp.int32)]


def diagonals(a, v, b):
    d = jnp.diagonal
    return [d(a), d(a, 2), d(a, -3), jnp.diag(v), jnp.diag(v, 2), jnp.diag(v, -1), d(b, 1, 1, 2), jnp.zeros(0, f32),
            d(b, 0, 0, 2), jnp.trace(b, 0, 1, 2), jnp.trace(a, -1)]


def einsum_ellipsis(a, w, b, c):
    return [einsum("...i,ij->...j", a, w), einsum("...i,...i->...", a, b), einsum("...i,...i", a, c),
            einsum("b...->...b", a), einsum("...ij,jk", a, w), einsum("...,...->...", a, c)]


def more_activations(x, s):
    x3 = x * f32(3)
    return [nn.relu6(x3 * 2), nn.leaky_relu(x3), jnp.where(x3 >= 0, x3, x3 * s), nn.elu(x3, 0.7), nn.celu(x3, 1.5),
            nn.selu(x3), nn.mish(x3), nn.hard_sigmoid(x3), nn.hard_swish(x3), nn.hard_tanh(x3), nn.log_sigmoid(x3),
            nn.soft_sign(x3), nn.squareplus(x3), nn.glu(x3), nn.glu(x[:6], 0)]


def close(x):
    b = np.where(x > 0.5, x + 1, x * f32(1.000001))
    nan = np.where(x > 1, f32(np.nan), np.where(x < -1, f32(np.inf), x))
    return [np.isclose(x, b), np.allclose(x, b), np.allclose(x, x), np.isclose(nan, nan),
            np.isclose(nan, nan, equal_nan=True), np.isclose(x, 0, atol=0.3), np.allclose(x, b, atol=2)]


def nan_to_num(x):
    a = np.where(x > 1, f32(np.inf), np.where(x < -1, f32(np.nan), x))
    finite = np.where(np.isinf(a), f32(0), a)
    return [np.nan_to_num(a), np.nan_to_num(-a, nan=2), np.nansum(finite, 1), np.nanmean(finite, 0),
            np.count_nonzero(np.maximum(x, 0), 1).astype(np.int32)]


def unfold(x, dim, size, step):
    places = np.arange((x.shape[dim] - size) // step + 1)[:, None] * step + np.arange(size)
    return jnp.moveaxis(jnp.take(x, places, dim), dim + 1, -1)


def arrange(x):
    return [x[:3], x[3:6], x[6:], *[jnp.rot90(x, k) for k in (1, 2, 3, -3)], jnp.rot90(x, 1, (1, 2)),
            jnp.moveaxis(x, 0, -1), unfold(x, 0, 3, 2), unfold(x, 1, 4, 1), jnp.diff(x), jnp.diff(x, 2, 0)]


def order(x):
    def running(a, dim):
        return lax.cumlogsumexp(a, dim)
    return [jnp.median(x), jnp.median(x, 1), jnp.quantile(x, f32(0.3), 0, keepdims=True), jnp.max(x), running(x, 0),
            running(x * 40, 1), lax.cumlogsumexp(x, 1, reverse=True)]


def searchsorted(a, v):
    a, v = np.sort(np.round(a * 4)), np.round(v * 4)
    return [np.searchsorted(a, v).astype(np.int32), np.searchsorted(a, v, "right").astype(np.int32)]


def segments(x, ids, w):
    ids = np.minimum(ids, 6) - 1
    total = jax.ops.segment_sum(x, ids, 5)
    counts = np.bincount(ids[(ids >= 0) & (ids < 5)], minlength=5).astype(np.int32)
    weights = np.bincount(ids[(ids >= 0) & (ids < 4)], w[(ids >= 0) & (ids < 4)], minlength=4).astype(f32)
    return [total, total / np.maximum(counts, 1)[:, None].astype(f32), jax.ops.segment_max(x, ids, 3),
            jax.ops.segment_min(x, ids, 5), counts, weights]


def batch_norm(x, w, b, mean, scale):
    old = scale ** 2 + f32(0.5)
    m, v, n = jnp.mean(x, (0, 1)), jnp.var(x, (0, 1)), x.shape[0] * x.shape[1]
    stop = lax.stop_gradient
    y = (x - m) / jnp.sqrt(v + 1e-5)
    running = [stop(f32(0.9) * mean + f32(0.1) * m), stop(f32(0.9) * old + f32(0.1) * v * n / (n - 1)),
               stop(f32(0.5) * old + f32(0.5) * v * n / (n - 1))]
    return [y * w + b, running[0], running[1], (x - mean) / jnp.sqrt(old + 1e-5) * w + b, y.transpose(0, 2, 1), running[2]]


def group_norm(x, w, b):
    def norm(a, groups, epsilon):
        parts = a.reshape(*a.shape[:2], groups, -1)
        m, v = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        return ((parts - m) / jnp.sqrt(v + epsilon)).reshape(a.shape)
    return [norm(x, 2, 1e-5) * w + b, norm(x, 6, 1e-5), (norm(x, 3, 1e-3) * w).transpose(0, 2, 1)]


def cross_entropy_options(x, i):
    counted = np.arange(7) % 3 != 0
    logs = nn.log_softmax(x)
    rows, means = -jnp.take_along_axis(logs, i[:, None], 1)[:, 0], -logs.mean(1)
    some = jnp.where(counted, rows, 0)
    smooth = jnp.where(counted, f32(0.8) * rows + f32(0.2) * means, 0)
    return [some, some.sum() / counted.sum().astype(f32), (f32(0.9) * rows + f32(0.1) * means).mean(),
            smooth.sum() / counted.sum().astype(f32)]


def interpolate(x):
    return [jax.image.resize(x, shape, method, antialias=smooth, precision="highest")
            for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5")
            for shape, smooth in (((11, 4, 3), True), ((3, 16, 3), False))]


REFERENCE |= {
    "solve": solve,
    "det": det, "det_singular": det_singular,
    "qr": lambda a, b, c: [*jnp.linalg.qr(a), *jnp.linalg.qr(b)],
    "qr_full": lambda a, b: [*jnp.linalg.qr(a, "complete"), *jnp.linalg.qr(b), *jnp.linalg.qr(b, "complete")],
    "svd": svd,
    "eigh": eigh,
    "lstsq": lstsq,
    "matrix_power": lambda a: [jnp.linalg.matrix_power(strong(a), k) for k in (3, -2, 0, 6)],
    "factors_f64": factors_f64,
    "factors_complex": factors_complex,
    "singular": singular,
    "diagonals": diagonals,
    "products": lambda a, b, c, d, e, f: [jnp.inner(a, b), jnp.kron(a, b), jnp.cross(c, d), jnp.cross(c, e),
                                          jnp.vdot(a, f), jnp.outer(e, e)],
    "einsum_ellipsis": einsum_ellipsis,
    "more_activations": more_activations,
    "close": close,
    "more_math": lambda x, y: [jnp.exp2(x), jnp.log10(jnp.abs(x) + f32(0.1)), jnp.hypot(x, y), x + f32(0.3) * (y - x),
                               special.xlogy(x, jnp.abs(x) + f32(0.1)), jnp.trunc(x * f32(3))],
    "nan_to_num": nan_to_num,
    "arrange": arrange,
    "pad_modes": lambda x: [jnp.pad(x, ((2, 1), (0, 2)), "edge"), jnp.pad(x, ((2, 4), (1, 2)), "reflect"),
                            jnp.pad(x, ((3, 1), (3, 2)), "symmetric"), jnp.pad(x, ((2, 7), (5, 0)), "wrap")],
    "meshgrid": lambda a, b, c: [*jnp.meshgrid(a, b, c, indexing="ij"), *jnp.meshgrid(a, b)],
    "order": order,
    "searchsorted": searchsorted,
    "segments": segments,
    "segment_sums": lambda x, ids: segments(x, ids, np.zeros(9, f32))[:2],
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "cross_entropy_options": cross_entropy_options,
    "interpolate": interpolate,
}


def weighted_sum(results):
    results = [jnp.asarray(r) for r in results]
    return sum(jnp.sum(r.ravel() * jnp.cos(jnp.arange(r.size, dtype=f32)))
               for r in results if jnp.issubdtype(r.dtype, jnp.floating)).astype(f32)


def load(folder, name, kind):
    arrays = []
    while (path := folder / f"{name}.{kind}{len(arrays)}.npy").exists():
        arrays.append(np.load(path))
    return arrays


@pytest.mark.parametrize("name", REFERENCE)
def test_agrees(folder, name):
    expected = REFERENCE[name](*load(folder, name, "in"))
    actual = load(folder, name, "out")
    assert len(actual) == len(expected)
    for got, want in zip(actual, map(np.asarray, expected)):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind in "fc":
            tolerance = 2e-3 if got.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", REFERENCE)
def test_has_the_gradient_of_jax(folder, name):
    inputs = load(folder, name, "in")
    found = {i: np.load(path) for i in range(len(inputs)) if (path := folder / f"{name}.grad{i}.npy").exists()}
    if not found:
        return
    want = jax.grad(lambda *x: weighted_sum(REFERENCE[name](*x)), tuple(found))(
        *[jnp.asarray(x) if i in found else x for i, x in enumerate(inputs)])
    for got, expected in zip(found.values(), want):
        assert got.dtype == expected.dtype
        scale = max(1, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(got / scale, expected / scale, rtol=1e-4, atol=1e-4)


# Samples of the C++ test Distributions, by the distributions of SciPy that they should have.
CONTINUOUS = {
    "uniform": stats.uniform(), "normal": stats.norm(), "truncated_normal": stats.truncnorm(-1, 2),
    "gumbel": stats.gumbel_r(), "exponential": stats.expon(), "laplace": stats.laplace(), "logistic": stats.logistic(),
    "gamma_half": stats.gamma(0.5), "gamma_seven": stats.gamma(7), "beta": stats.beta(2, 0.5),
    "chi_square": stats.chi2(3), "student_t": stats.t(9), "cauchy": stats.cauchy(),
}
DISCRETE = {
    "rademacher": stats.rv_discrete(values=((-1, 1), (0.5, 0.5))), "bernoulli": stats.bernoulli(0.3),
    "poisson_two": stats.poisson(2.5), "poisson_forty": stats.poisson(40.5),
    "categorical": stats.rv_discrete(values=((0, 1, 2), (0.1, 0.2, 0.7))),
    "choice": stats.rv_discrete(values=((1, 2, 5), (0.25, 0.5, 0.25))),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_has_its_distribution(folder, name):
    sample = np.load(folder / f"drawn_{name}.npy").ravel()
    assert stats.kstest(sample, CONTINUOUS[name].cdf).pvalue > 1e-3
    rows = np.load(folder / f"drawn_{name}.npy")
    if name != "cauchy":
        assert abs(np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]) < 0.025


def test_gamma_has_the_derivative_of_jax(folder):
    """By its parameter, as an implicit function of the sample."""
    a, sample, slope = (np.load(folder / f"gamma_slope_{part}.npy") for part in ("parameter", "sample", "slope"))
    assert a.dtype == sample.dtype == np.float64 and a.min() < 2e-3 and a.max() > 9e3 and a.size > 500
    normal = sample > 1e-290  # JAX divides by the sample
    np.testing.assert_allclose(slope[normal], lax.random_gamma_grad(a, sample)[normal], rtol=1e-8)
    assert normal.mean() > 0.8 and np.isfinite(slope).all()


@pytest.mark.parametrize("name", DISCRETE)
def test_has_its_frequencies(folder, name):
    sample = np.load(folder / f"drawn_{name}.npy").ravel()
    values, counts = np.unique(sample, return_counts=True)
    expected = DISCRETE[name].pmf(values) * sample.size
    often = expected > 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], sample.size - expected[often].sum())
    if wanted[-1] < 1e-9:
        assert observed[-1] == 0
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-3


def test_every_case_has_a_reference(folder):
    assert {path.name.split(".")[0] for path in folder.glob("*.out0.npy")} == set(REFERENCE)


def numpy_dtype(name):
    names = {"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
             "complex<f32>": "complex64", "complex<f64>": "complex128"}
    return jnp.dtype(names.get(name) or name.replace("ui", "uint").replace("i", "int", 1) if "ui" not in name
                     else name.replace("ui", "uint"))


def test_promotion_is_that_of_jax(folder):
    lines = (folder / "promotion.txt").read_text().splitlines()
    assert len(lines) == 15 * 15
    for line in lines:
        a, b, result = map(numpy_dtype, line.split())
        expected = jnp.promote_types(a, b)
        # JAX's default float stands here: f32 unless 64 bits are asked for, as they are in this test.
        if expected == jnp.float64 and jnp.float64 not in (a, b):
            expected = jnp.dtype(jnp.float32)
        assert result == expected, line
