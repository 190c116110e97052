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

f32 = np.float32
RUNTIME_TEST = pathlib.Path(os.environ["CLEAVE_COMMAND"]).parent / "tests" / "runtime_test"


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        run = subprocess.run(
            [str(RUNTIME_TEST), "--gtest_filter=*TensorOps*"],
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
