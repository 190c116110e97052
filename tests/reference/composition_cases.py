"""Small programs as people write them: control flow in control flow, and the parts of models. Each is a function of one
example; `forward` alone where its number of iterations depends on data."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from derivative_cases import CASES

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(11)
PROGRAMS = {}


def normal(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    return np.abs(RNG.standard_normal(shape)) + 0.5


def program(*args, forward=False):
    def add(f):
        PROGRAMS[f.__name__] = (f, args, forward)
        return f

    return add


@program(normal(4))
def cond_on_value(x):
    return lax.cond(x.sum() > 0, lambda v: jnp.sin(v) * v, lambda v: v**2 + 1, x)


@program(normal(3), normal(3))
def cond_in_cond(x, y):
    inner = lambda v: lax.cond(v[0] > 0.2, lambda u: u * y, lambda u: jnp.exp(u) - y[::-1], v)
    return lax.cond(y.sum() > 0, inner, lambda v: inner(v * 2) + 1, x)


@program(normal(3, 3), normal(3, 3), normal(3))
def cond_uses_other_values(w1, w2, x):
    return lax.cond(x[0] > x[1], lambda: jnp.tanh(w1 @ x), lambda: w2 @ (x * x))


@program(normal(4), normal(4, 4))
def switch_by_argmax(x, w):
    return lax.switch(jnp.argmax(x), [jnp.sin, lambda v: w @ v, lambda v: v * w[0], lambda v: v.sum() * v], x)


@program(positive(3), forward=True)
def newton(x):
    x = jnp.abs(x) + 0.2
    return lax.while_loop(lambda s: jnp.max(jnp.abs(s * s - x)) > 1e-9, lambda s: 0.5 * (s + x / s), x)


@program(normal(3), forward=True)
def while_with_integers(x):
    def step(carry):
        n, v, total = carry
        return n + 1, v * 1.5, total + n * v

    n, v, total = lax.while_loop(lambda c: (c[0] < 9) & (jnp.sum(c[1] ** 2) < 40), step, (0, x, jnp.zeros(3)))
    return v * n, total


@program(normal(3), forward=True)
def fori_to_an_argument(x):
    n = (jnp.abs(x[0]) * 3).astype(int) + 1
    return lax.fori_loop(0, n, lambda i, v: jnp.sin(v) + i * v, x)


@program(normal(4))
def fori_uses_its_index(x):
    return lax.fori_loop(1, 6, lambda i, v: v.at[i % 4].add(jnp.sin(v[(i + 1) % 4]) * i), x)


@program(normal(3), normal(5, 3), normal(5, 2))
def scan_of_trees(h, xs, ys):
    def step(carry, item):
        a, (b, n) = carry
        x, y = item["x"], item["y"]
        a = jnp.tanh(a + x * b)
        return (a, (b * 0.9 + y.sum(), n + 1)), {"seen": a * n, "y": y * b}

    return lax.scan(step, (h, (jnp.array(0.5), 0)), {"x": xs, "y": ys})


@program(normal(3), normal(6, 3))
def scan_with_cond(h, xs):
    def step(carry, x):
        carry = lax.cond(x.sum() > carry.sum(), lambda c: jnp.tanh(c * x), lambda c: c + 0.1 * x**2, carry)
        return carry, carry.max()

    return lax.scan(step, h, xs)


@program(normal(3), normal(4, 3), forward=True)
def scan_with_while(h, xs):
    def step(carry, x):
        grown = lax.while_loop(lambda v: jnp.sum(v * v) < 3.0, lambda v: v * 1.7 + 0.01, x)
        return jnp.tanh(carry + grown), grown[0]

    return lax.scan(step, h, xs)


@program(normal(3, 3), normal(3), normal(5, 3))
def scan_backwards(w, h, xs):
    return lax.scan(lambda c, x: (jnp.tanh(w @ c + x), (c * x).sum()), h, xs, reverse=True)


@program(normal(3, 3), normal(4, 3))
def scan_in_scan(w, xs):
    def outer(c, x):
        inner, ys = lax.scan(lambda h, k: (jnp.sin(w @ h) + k * c, h.sum()), x, jnp.arange(3.0))
        return c * 0.5 + inner, ys

    return lax.scan(outer, jnp.ones(3), xs)


@program(normal(5), normal(4))
def scan_with_memory(memory, xs):
    def step(carry, x):
        m, i = carry
        read = lax.dynamic_slice(m, (i,), (2,))
        m = lax.dynamic_update_slice(m, jnp.tanh(read * x), (i,))
        return (m, (i + 2) % 4), read.sum()

    return lax.scan(step, (memory, 0), xs)


@program(normal(6, 3), normal(3))
def scan_follows_an_index(table, h):
    def step(carry, _):
        i, v = carry
        v = jnp.tanh(v * table[i])
        return (jnp.argmax(v * jnp.arange(1, 4)) + 2, v), v.sum()

    return lax.scan(step, (jnp.array(1), h), None, length=4)


@program(normal(7))
def associative(x):
    return lax.associative_scan(lambda a, b: a * b + jnp.sin(a + b), x)


@program(normal(4, 3))
def mapped_cond(xs):
    return lax.map(lambda x: lax.cond(x[0] > 0, lambda v: v.prod(), lambda v: jnp.exp(v).sum(), x), xs)


@program(normal(3, 3), normal(5, 3))
def checkpointed_scan(w, xs):
    step = jax.checkpoint(lambda h, x: (jnp.tanh(w @ jnp.sin(w @ h) + x), h.sum()))
    return lax.scan(step, jnp.zeros(3), xs)


@program(normal(5, 4), normal(4, 3))
def router(x, w):
    values, chosen = lax.top_k(jax.nn.softmax(x @ w), 2)
    return (jnp.take_along_axis(jnp.tanh(x @ w), chosen, 1) * values / values.sum(-1, keepdims=True)).sum(1)


@program(normal(7, 2))
def segments(x):
    sums = jax.ops.segment_sum(jnp.sin(x), np.array([0, 2, 2, 1, 0, 3, 3]), 4)
    return sums * jax.ops.segment_max(x, np.array([0, 2, 2, 1, 0, 3, 3]), 4)


@program(normal(3, 6, 6), normal(4, 3, 3, 3), normal(4))
def conv_pool_norm(x, k, g):
    y = lax.conv_general_dilated(x[None], k, (1, 1), "SAME")
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    m = y.mean((0, 2, 3), keepdims=True)
    return jax.nn.gelu((y - m) * lax.rsqrt(((y - m) ** 2).mean((0, 2, 3), keepdims=True) + 1e-3) * g[:, None, None])


@program(normal(5, 2, 4), normal(5, 1, 4), normal(5, 1, 4))
def rope_attention(q, k, v):
    angle = jnp.arange(5.0)[:, None] * jnp.array([1.0, 0.1])
    turn = lambda x: jnp.concatenate([x[..., :2] * jnp.cos(angle)[:, None] - x[..., 2:] * jnp.sin(angle)[:, None],
                                      x[..., :2] * jnp.sin(angle)[:, None] + x[..., 2:] * jnp.cos(angle)[:, None]], -1)
    k, v = (jnp.repeat(t, 2, 1) for t in (turn(k), v))
    s = jnp.einsum("qhd,khd->hqk", turn(q), k) / 2.0
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((5, 5), bool)), s, -jnp.inf)), v)


@program(normal(4, 2), normal(4), np.array(0.7))
def gaussian_process(x, y, scale):
    d = ((x[:, None] - x[None]) ** 2).sum(-1)
    c = jnp.linalg.cholesky(jnp.exp(-d / scale**2) + 0.3 * jnp.eye(4))
    a = jax.scipy.linalg.cho_solve((c, True), y)
    return 0.5 * y @ a + jnp.log(jnp.diagonal(c)).sum()


@program(normal(3, 3))
def spectral(a):
    w, v = jnp.linalg.eigh(a @ a.T + jnp.eye(3))
    return (v * jnp.log(w)) @ v.T


@program(normal(8), normal(5))
def fft_filter(x, h):
    return jnp.fft.irfft(jnp.fft.rfft(x) * (h + 0.5j * h[::-1]), 8) ** 2


@program(normal(3), normal(3, 3))
def runge_kutta(x, w):
    f = lambda v: jnp.tanh(w @ v) - 0.1 * v

    def step(_, v):
        a = f(v)
        b = f(v + 0.1 * a)
        c = f(v + 0.1 * b)
        return v + 0.2 / 6 * (a + 2 * b + 2 * c + f(v + 0.2 * c))

    return lax.fori_loop(0, 5, step, x)


@program(normal(2, 2), normal(5, 2))
def kalman(a, ys):
    def step(carry, y):
        m, p = carry
        m, p = a @ m, a @ p @ a.T + 0.1 * jnp.eye(2)
        k = jnp.linalg.solve(p + 0.5 * jnp.eye(2), p).T
        return (m + k @ (y - m), p - k @ p), m

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)


@program(normal(5, 12), normal(2), normal(4, 2))
def lstm(w, h, xs):
    def step(carry, x):
        h, c = carry
        i, f, g, o, _, _ = jnp.split(jnp.concatenate([x, h, jnp.ones(1)]) @ w, 6)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, jnp.zeros(2)), xs)


@program(normal(3), forward=True)
def while_in_cond_in_scan(x):
    def step(c, k):
        grow = lambda v: lax.while_loop(lambda u: u.sum() < 4.0, lambda u: u * u + 0.5, v)
        c = lax.cond(c[0] > k, grow, lambda v: v - k, c)
        return jnp.sin(c), c[1]

    return lax.scan(step, x, jnp.array([0.1, -0.3, 0.5]))


@program(normal(3, 2), normal(4, 3), normal(4, 2))
def learns_inside(w, x, y):
    loss = lambda p: ((jnp.tanh(x @ p) - y) ** 2).mean()
    return lax.fori_loop(0, 3, lambda _, p: p - 0.3 * jax.grad(loss)(p), w)


@program(normal(4, 6))
def pooled_gradient(x):
    pool = lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
    return jax.grad(lambda v: (pool(v) ** 3).sum())(x)


@program(normal(3, 4), normal(4, 5))
def contrastive(a, b):
    a, b = a / jnp.linalg.norm(a, axis=1, keepdims=True), b / jnp.linalg.norm(b, axis=0)
    s = a @ b * 3
    return jax.nn.logsumexp(s, 1) - s[np.arange(3), np.array([2, 0, 4])]


@program(normal(6), normal(6))
def sorted_pairs(x, y):
    order = jnp.argsort(x)
    return jnp.cumsum(y[order]) * jnp.sort(x) + lax.cummax(y) + jnp.quantile(x, 0.3)


# Decompositions, whose second derivatives go through formulas of their own.
for _name in ("svd_complex_5x3", "svd_full_square", "svd_wide", "svd_values_complex", "pinv", "eigh", "eigh_complex",
              "cholesky_complex", "solve_complex", "qr", "tridiagonal", "irfft_odd", "expm"):
    _f, _args = CASES[_name]
    PROGRAMS[_name] = (_f, _args, False)
