"""JAX prints f, Cleave batches the text and runs it; JAX computes jax.vmap(f). Also nested, and over shards."""

import os
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cleave_runs import CLEAVE, run_text

jax.config.update("jax_enable_x64", True)



def dims_text(axes):
    return ",".join("none" if a is None else str(a) for a in axes)


def opt(text, *passes):
    run = subprocess.run([CLEAVE, "opt", "-", *passes, "-cleave-verify"], input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def vmap_pass(size, in_axes, out_axes):
    return f"-cleave-vmap=in={dims_text(in_axes)} out={dims_text(out_axes)} size={size}"


def batch_text(text, size, in_axes, out_axes):
    return opt(text, vmap_pass(size, in_axes, out_axes))


def examples(seed, *shapes):
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    result = []
    for key, (shape, dtype) in zip(keys, shapes):
        if jnp.issubdtype(dtype, jnp.floating):
            result.append(jax.random.normal(key, shape, dtype))
        elif dtype == jnp.bool_:
            result.append(jax.random.bernoulli(key, 0.5, shape))
        else:
            result.append(jax.random.randint(key, shape, 0, 5, dtype))
    return result


def f32(*shape):
    return (shape, jnp.float32)


def i32(*shape):
    return (shape, jnp.int32)


def attention(q, k, v):
    s = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(s.shape, bool)), s, -1e9)) @ v


def layer_norm(x, g):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g


def newton(x):
    return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-4 * x, lambda s: 0.5 * (s + x / s), x)


def collatz(n):
    step = lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1)
    return lax.while_loop(lambda c: c[0] > 1, step, (n + 1, 0))[1]


def recurrent(w, x):
    return lax.scan(lambda h, row: (jnp.tanh(h @ w + row), h.sum()), jnp.zeros(w.shape[0], w.dtype), x)


def loss_gradient(w, x, y):
    return jax.grad(lambda w: ((jnp.tanh(x @ w) - y) ** 2).mean())(w)


CASES = {
    "attention": (attention, [f32(5, 4), f32(5, 4), f32(5, 3)], [(0, 0, 0), (0, None, None), (1, 0, None), (None, 2, 1)]),
    "layer_norm": (layer_norm, [f32(3, 6), f32(6)], [(0, None), (0, 0), (2, 1)]),
    "newton": (lambda x: newton(jnp.abs(x) + 0.1), [f32()], [(0,)]),
    "collatz": (collatz, [i32()], [(0,)]),
    "recurrent": (recurrent, [f32(3, 3), f32(4, 3)], [(None, 0), (0, None), (2, 1)]),
    "gradient": (loss_gradient, [f32(3, 2), f32(4, 3), f32(4, 2)], [(None, 0, 0), (0, 0, 0), (0, None, None)]),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        [f32(2, 6, 5, 3), f32(3, 3, 3, 4)], [(0, None), (None, 0), (0, 0), (3, 4)]),
    "grouped_convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID", feature_group_count=2),
        [f32(2, 4, 5, 5), f32(6, 2, 2, 3)], [(0, None), (None, 0), (1, 1)]),
    "max_pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "SAME"), [f32(3, 5, 6)], [(0,), (2,)]),
    "pool_gradient": (jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID") ** 2).sum()), [f32(3, 6)], [(0,), (1,)]),
    "indexing": (lambda x, i: x[i], [f32(6, 3), i32(4)], [(0, None), (None, 0), (0, 0), (2, 1)]),
    "indexing_twice": (lambda x, i, j: x[i, :, j], [f32(6, 3, 5), i32(4), i32(4)], [(0, None, None), (None, 0, 0), (1, 1, None)]),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), [f32(6, 3), i32(4), f32(4, 3)], [(0, 0, 0), (None, 0, None), (None, None, 0), (1, None, 2)]),
    "scatter_set": (lambda x, i, u: x.at[i, 1].set(u), [f32(6, 3), i32(), f32()], [(0, 0, 0), (None, 0, None), (2, None, 0)]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, jnp.int32(1)), (2, 2)), [f32(6, 3), i32()], [(0, 0), (None, 0), (1, None)]),
    "dynamic_update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), [f32(6, 5), f32(2, 3), i32()], [(0, 0, 0), (None, None, 0), (None, 1, None)]),
    "cond": (lambda p, x: lax.cond(p > 2, lambda x: jnp.sin(x), lambda x: x * x, x), [i32(), f32(3)], [(0, 0), (0, None), (None, 0)]),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), [i32(), f32(3)], [(0, 0), (0, None), (None, 1)]),
    "fori": (lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 0.5 + i, x), [i32(), f32(3)], [(0, 0), (0, None), (None, 0)]),
    "sort": (lambda x: jnp.sort(x, axis=0), [f32(5, 3)], [(0,), (1,), (2,)]),
    "argsort": (lambda x: jnp.argsort(x), [f32(3, 5)], [(0,), (2,)]),
    "top_k": (lambda x: lax.top_k(x, 2), [f32(3, 5)], [(0,), (1,)]),
    "argmax": (lambda x: jnp.argmax(x, axis=1), [f32(3, 5)], [(0,), (2,)]),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), [f32(3, 5)], [(0,), (1,)]),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 3 * jnp.eye(3, dtype=x.dtype)), [f32(3, 3)], [(0,), (2,)]),
    "solve": (lambda a, b: jnp.linalg.solve(a + 4 * jnp.eye(3, dtype=a.dtype), b), [f32(3, 3), f32(3, 2)], [(0, None), (None, 0), (0, 1)]),
    "triangular": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a + 4 * jnp.eye(3, dtype=a.dtype), b, lower=True),
        [f32(3, 3), f32(3, 2)], [(0, None), (None, 0), (2, 2)]),
    "qr": (lambda a: jnp.linalg.qr(a), [f32(4, 3)], [(0,), (1,)]),
    "fft": (lambda x: jnp.fft.rfft(x), [f32(3, 8)], [(0,), (2,)]),
    "einsum": (lambda x, y: jnp.einsum("abc,cbd->da", x, y), [f32(3, 4, 2), f32(2, 4, 5)], [(0, None), (None, 1), (2, 3)]),
    "special": (lambda x: jax.scipy.special.erf(x) + jax.scipy.special.gammaln(jnp.abs(x) + 1), [f32(3)], [(0,), (1,)]),
    "random": (lambda k: jax.random.normal(jax.random.key(k[0]), (4,), jnp.float32), [((1,), jnp.uint32)], [(0,)]),
    "jit_inside": (lambda x, y: jax.jit(lambda a, b: a * jnp.exp(b))(x, y) + y, [f32(3), f32(3)], [(0, 0), (0, None), (None, 1)]),
}


def batched(shape_dtype, axis, size):
    shape, dtype = shape_dtype
    if axis is None:
        return shape_dtype
    shape = list(shape)
    shape.insert(axis, size)
    return (tuple(shape), dtype)


def check(actual, expected):
    expected = jax.tree.leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, np.asarray(e), rtol=2e-4, atol=2e-4)


PARAMETERS = [(name, axes) for name, (_, _, all_axes) in CASES.items() for axes in all_axes]


@pytest.mark.parametrize("name,axes", PARAMETERS)
def test_like_jax(name, axes):
    f, shapes, _ = CASES[name]
    size = 3
    args = examples(7, *[batched(s, a, size) for s, a in zip(shapes, axes)])
    text = jax.jit(f, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).as_text()
    check(run_text(batch_text(text, size, axes, [0]), args), jax.vmap(f, axes)(*args))


@pytest.mark.parametrize("name", ["attention", "convolution", "indexing", "scatter_add", "collatz", "recurrent", "gradient", "cond"])
def test_nested(name):
    f, shapes, all_axes = CASES[name]
    inner = all_axes[0]
    outer = tuple(0 for _ in shapes)
    args = examples(8, *[batched(batched(s, a, 3), o, 2) for s, a, o in zip(shapes, inner, outer)])
    text = jax.jit(f, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).as_text()
    text = batch_text(batch_text(text, 3, inner, [-1]), 2, outer, [0])
    check(run_text(text, args), jax.vmap(jax.vmap(f, inner, -1), outer)(*args))


@pytest.mark.parametrize("name", CASES)
def test_over_shards(name):
    f, shapes, all_axes = CASES[name]
    axes, size = all_axes[-1], 3
    args = examples(9, *[batched(s, a, size) for s, a in zip(shapes, axes)])
    text = jax.jit(f, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).as_text()
    batched_text = batch_text(text, size, axes, [0])
    check(run_text(batched_text, args, "--mesh", "x=2,y=2", "--shard", "random:5"), jax.vmap(f, axes)(*args))


SMOOTH = ["attention", "layer_norm", "convolution", "grouped_convolution", "max_pool", "indexing", "scatter_add", "recurrent",
          "sort", "cumsum", "cholesky", "triangular", "einsum", "special", "switch", "fft"]


def loss_of(f):
    return lambda *args: sum((jnp.abs(r) ** 2).sum() for r in jax.tree.leaves(f(*args)))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_of_each_example(name):
    f, shapes, all_axes = CASES[name]
    loss, size = loss_of(f), 3
    smooth = tuple(i for i, (_, dtype) in enumerate(shapes) if jnp.issubdtype(dtype, jnp.floating))
    text = jax.jit(loss, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).as_text()
    for axes in all_axes:
        args = examples(10, *[batched(s, a, size) for s, a in zip(shapes, axes)])
        made = opt(text, "-cleave-grad", vmap_pass(size, axes, [0]))
        check(run_text(made, args), jax.vmap(jax.grad(loss, smooth), axes)(*args))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_over_all_examples(name):
    f, shapes, all_axes = CASES[name]
    loss, size = loss_of(f), 3
    smooth = [i for i, (_, dtype) in enumerate(shapes) if jnp.issubdtype(dtype, jnp.floating)]
    text = jax.jit(loss, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).as_text()
    for axes in all_axes:
        args = examples(11, *[batched(s, a, size) for s, a in zip(shapes, axes)])
        weights = np.array([1.0, -2.0, 0.5], np.float32)
        made = opt(text, vmap_pass(size, axes, [0]), "-cleave-vjp")
        value, pull = jax.vjp(jax.vmap(loss, axes), *args)
        cotangents = pull(weights.astype(value.dtype))
        check(run_text(made, [*args, weights.astype(value.dtype)]), [value, *[cotangents[i] for i in smooth]])
