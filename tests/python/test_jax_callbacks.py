"""Planned functions that call Python."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P
from jax_support import distance

import cleave.jax as cj
from cleave import UserError
from cleave.jax.callbacks import once

MESH = jax.make_mesh((2, 4), ("data", "model"))
W = jax.random.normal(jax.random.key(0), (64, 128))
X = jax.random.normal(jax.random.key(1), (16, 64))
PINS = {"w": P(None, "model"), "x": P("data")}
HEARD = []


def hear(*values):
    HEARD.append([np.array(value) for value in values])


def run(fn, *args, options={}, **kwargs):
    """The result, and what was heard meanwhile."""
    step = cj.autoshard(fn, MESH, **({"machine": "h100", "pins": PINS} | options))
    HEARD.clear()
    result = jax.block_until_ready(step(*args, **kwargs))
    jax.effects_barrier()
    return step, result, list(HEARD)


def test_effects_happen_once_with_whole_operands():
    def fn(w, x):
        y = jnp.tanh(x @ w)
        jax.debug.callback(hear, y, y.sum())
        return y * 2
    step, result, heard = run(fn, W, X)
    assert step.plan.layouts == PINS and distance(result, 2 * jnp.tanh(X @ W)) < 1e-5
    assert len(heard) == 1 and distance(heard[0][0], jnp.tanh(X @ W)) < 1e-5
    assert abs(heard[0][1] - np.tanh(X @ W).sum()) < 1e-2
    assert step.check().ok
    HEARD.clear()
    step(W, X)
    jax.effects_barrier()
    assert len(HEARD) == 1


def test_debug_print(capfd):
    def fn(w, x):
        jax.debug.print("the sum is {s}", s=x.sum())
        return x @ w
    run(fn, W, jnp.ones_like(X))
    assert capfd.readouterr().out.count("the sum is 1024.0") == 1


def test_pure_callbacks_return_values():
    def fn(w, x):
        return jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x) @ w
    step, result, _ = run(fn, W, X)
    assert distance(result, jnp.sin(X) @ W) < 1e-5 and step.check().ok


def test_callbacks_in_loops_and_conditions():
    def fn(w, x):
        def body(c, i):
            jax.debug.callback(hear, i)
            return jax.pure_callback(np.cos, jax.ShapeDtypeStruct(c.shape, c.dtype), c), None
        c, _ = jax.lax.scan(body, x, jnp.arange(3))
        jax.lax.cond(c.sum() > 1e9, lambda: jax.debug.callback(hear, "never"), lambda: None)
        return c @ w
    _, result, heard = run(fn, W, X)
    assert distance(result, jnp.cos(jnp.cos(jnp.cos(X))) @ W) < 1e-5
    assert sorted(int(values[0]) for values in heard) == [0, 1, 2]


def test_donated_static_and_keyword_arguments():
    def fn(w, x, scale, *, shift):
        jax.debug.callback(hear, shift)
        return w * scale + shift, (x @ w).sum()
    step, (w, total), heard = run(fn, jnp.array(W), X, 3, shift=jnp.float32(2),
                                    options=dict(static_argnums=2, donate_argnums=0))
    assert distance(w, W * 3 + 2) < 1e-6 and distance(total, (X @ W).sum()) < 1e-4 and [float(v[0]) for v in heard] == [2.0]
    assert "_callback" in step.lower(W, X, 3, shift=jnp.float32(2)).as_text()


def test_plans_that_split_nothing_call_once():
    def fn(w, x):
        jax.debug.callback(hear, x.sum())
        return x @ w
    step, _, heard = run(fn, W, X, options=dict(solver="propagation", pins={"w": P(), "x": P()}))
    assert step.plan.is_whole and len(heard) == 1


def test_refusals():
    def ordered(w, x):
        jax.debug.print("{}", x.sum(), ordered=True)
        return x @ w

    def asks(w, x):
        return io_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x) @ w

    def prints(w, x):
        jax.debug.callback(hear, x.sum())
        return x @ w
    with pytest.raises(UserError, match="ordered has ordered effects"):
        run(ordered, W, X)
    line = asks.__code__.co_firstlineno + 1
    with pytest.raises(UserError, match=f"io_callback at test_jax_callbacks.py:{line} returns something"):
        run(asks, W, X)
    step, _, _ = run(prints, W, X)
    with pytest.raises(UserError, match="prints calls Python, so that its plan is compiled by itself"):
        jax.jit(lambda w, x: step(w, x) + 1)(W, X)


def test_only_callbacks_without_results_are_guarded():
    kept = "  %2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) {a} : (tensor<f32>) -> tensor<f32>"
    assert once(kept) == kept
    made = once("  stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) {a} : (tensor<f32>) -> () loc(#loc3)").splitlines()
    assert made[0].endswith("= stablehlo.partition_id : tensor<ui32>")
    assert made[4] == "    stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) {a} : (tensor<f32>) -> ()"
    assert made[-1] == "  }) : (tensor<i1>) -> () loc(#loc3)"
