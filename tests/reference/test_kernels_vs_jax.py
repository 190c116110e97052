"""Kernels and types against JAX: many ops in one module each. Also states what that covers (tests/op_coverage.txt)."""

import os
import re
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import derivative_cases
import test_vmap_vs_jax
from cleave_runs import CLEAVE, run_text

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
F = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
I = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)
U = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.uint32)
B = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.bool_)


def functions(x):
    small = jnp.tanh(x)
    positive = jnp.abs(x) + 0.5
    return [
        lax.abs(x), lax.acos(small), lax.acosh(positive + 1), lax.asin(small), lax.asinh(x), lax.atan(x), lax.atanh(small),
        lax.cbrt(x), lax.ceil(x), lax.cos(x), lax.cosh(x), lax.digamma(positive), lax.erf(x), lax.erfc(x), lax.erf_inv(small),
        lax.exp(x), lax.expm1(x), lax.floor(x), lax.is_finite(x), lax.lgamma(positive), lax.log(positive), lax.log1p(positive),
        lax.logistic(x), lax.neg(x), lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), lax.rsqrt(positive), lax.sign(x), lax.sin(x), lax.sinh(x),
        lax.sqrt(positive), lax.square(x), lax.tan(x), lax.tanh(x), lax.bessel_i1e(x), lax.reduce_precision(x, 5, 7),
        lax.convert_element_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.int32), lax.zeta(positive + 1, positive),
        lax.polygamma(jnp.ones_like(x), positive), lax.nextafter(x, positive), lax.clamp(jnp.float32(-0.5), x, jnp.float32(0.5)),
    ]


def pairs(x, y):
    return [
        x + y, x - y, x * y, x / y, lax.rem(x, y), lax.max(x, y), lax.min(x, y), lax.pow(jnp.abs(x) + 0.5, y), lax.atan2(x, y),
        lax.select(x > y, x, y), lax.complex(x, y), lax.real(lax.complex(x, y)), lax.imag(lax.complex(x, y)),
        lax.conj(lax.complex(x, y)), lax.concatenate([x, y], 1), x @ y.T, lax.dot(x, y.T),
    ]


def integers(i, j, u):
    return [
        i & j, i | j, i ^ j, ~i, lax.shift_left(i, j), lax.shift_right_arithmetic(i, j), lax.shift_right_logical(i, j),
        lax.population_count(i), lax.clz(i), lax.div(i, j + 1), lax.rem(i, j + 1), lax.sign(i - 2), lax.neg(i), i * j,
        lax.mulhi(u, u), lax.eq(i, j), i.astype(jnp.float32),
    ]


def views(x, v):
    return [
        x.T, x.reshape(5, 3), jnp.broadcast_to(v, (2, 3, 5)), x[1:, ::2], lax.rev(x, (1,)), lax.pad(x, jnp.float32(2.0), ((1, 2, 1), (-1, 0, 0))),
        lax.iota(jnp.float32, 4), lax.broadcasted_iota(jnp.int32, (2, 3), 1), lax.optimization_barrier(x), lax.expand_dims(v, (0,)),
    ]


def structured(x, key, groups):
    square = x @ x.T + 3 * jnp.eye(3, dtype=x.dtype)
    return [
        x.sum(1), x.max(), x.prod(0), jnp.argmin(x), lax.cumsum(x, 1), lax.cummax(x, 0), lax.sort(x, dimension=1), lax.top_k(x, 2),
        jnp.linalg.cholesky(square), lax.linalg.triangular_solve(square, x, left_side=True, lower=True), jnp.fft.fft(x), jnp.fft.irfft(x),
        lax.ragged_dot(x.T, jnp.stack([x, x + 1])[:, :, :2], groups), lax.rng_bit_generator(key, (4, 3)),
        lax.reduce_window(x, jnp.float32(0.0), lax.add, (1, 2), (1, 2), "VALID"), x.at[jnp.array([2, 0])].mul(3.0), x[jnp.array([2, 0])],
        lax.map(lambda r: r.sum(), x), lax.switch(groups[0], [jnp.sin, jnp.cos], x),
    ]


GROUPS = {
    "functions": (functions, [F(3, 5)]),
    "pairs": (pairs, [F(3, 5), F(3, 5)]),
    "integers": (integers, [I(3, 5), I(3, 5), U(3, 5)]),
    "views": (views, [F(3, 5), F(5)]),
    "structured": (structured, [F(3, 5), U(4), I(2)]),
}


def arguments(shapes):
    source = np.random.default_rng(3)
    values = []
    for s in shapes:
        floats = jnp.issubdtype(s.dtype, jnp.floating)
        values.append((source.normal(size=s.shape) if floats else source.integers(0, 5, s.shape)).astype(s.dtype))
    return values


def module_text(f, shapes):
    return jax.jit(f, keep_unused=True).lower(*shapes).as_text()


@pytest.mark.parametrize("name", GROUPS)
def test_same_numbers(name):
    f, shapes = GROUPS[name]
    args = arguments(shapes)
    if name == "structured":
        args[2] = np.array([1, 3], np.int32)
    text = module_text(f, shapes)
    verify = subprocess.run([CLEAVE, "opt", "-", "-cleave-verify"], input=text, capture_output=True, text=True)
    assert verify.returncode == 0, verify.stderr
    actual, expected = run_text(text, args), jax.tree.leaves(jax.jit(f)(*args))
    assert len(actual) == len(expected)
    for i, (a, e) in enumerate(zip(actual, expected)):
        np.testing.assert_allclose(a, np.asarray(e), rtol=3e-4, atol=3e-5, err_msg=f"result {i}")


def test_coverage():
    derivatives = [jax.jit(f).lower(*args).as_text() for f, args in derivative_cases.CASES.values()]
    covered = coverage_of(["shape", "kernel"], numeric_texts()) | coverage_of(["jvp", "vjp"], derivatives)
    columns = {"shape", "kernel", "jvp", "vjp"}
    path = os.path.join(ROOT, "tests", "op_coverage.txt")
    with open(path) as file:
        lines = {tuple(line.split()) for line in file}
    if os.environ.get("CLEAVE_UPDATE_COVERAGE"):
        lines = {l for l in lines if l[0] not in columns} | covered
        with open(path, "w") as file:
            file.writelines(f"{c} {op}\n" for c, op in sorted(lines))
    assert {l for l in lines if l[0] in columns} == covered


def numeric_texts():
    texts = [module_text(f, shapes) for f, shapes in GROUPS.values()]
    for f, shapes, _ in test_vmap_vs_jax.CASES.values():
        texts.append(module_text(f, [jax.ShapeDtypeStruct(*s) for s in shapes]))
    return texts


def coverage_of(columns, texts):
    """Ops that the texts use, of those that have what a column says."""
    ops = set()
    for text in texts:
        # The pretty form hides some ops, the generic one none.
        generic = subprocess.run([CLEAVE, "opt", "-", "-mlir-print-op-generic"], input=text, capture_output=True, text=True)
        assert generic.returncode == 0, generic.stderr
        ops |= set(re.findall(r'"((?:stablehlo|chlo|func)\.[\w-]+)"\(', generic.stdout))
    known = subprocess.run([CLEAVE, "ops"], capture_output=True, text=True).stdout.splitlines()
    have = lambda column: {line.split(":")[0] for line in known if f" {column} " in line + " "}
    return {(column, op) for column in columns for op in ops & have(column) if not op.endswith(".return")}
