"""What few programs of JAX use: each runs whole, op by op and over a mesh as it does in JAX."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import subprocess

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cleave_runs import CLEAVE, run_text

RANDOM = np.random.RandomState(0)
SQUARE = np.float32(RANDOM.randn(6, 6))
ROWS = np.float32(RANDOM.randn(4, 10))


def schur(a):
    form, vectors = jax.scipy.linalg.schur(a)
    return vectors @ form @ vectors.T


def complex_schur(a):
    form, vectors = jax.scipy.linalg.schur(a, output="complex")
    return jnp.abs(vectors @ form @ vectors.conj().T - a)


CASES = {
    "schur": (schur, SQUARE),
    "complex schur": (complex_schur, SQUARE),
    "schur of a batch, without vectors": (
        lambda a: jnp.trace(lax.linalg.schur(a, compute_schur_vectors=False)[0], axis1=1, axis2=2),
        np.stack([SQUARE, SQUARE.T]),
    ),
    "sqrtm": (lambda a: jax.scipy.linalg.sqrtm(a @ a.T + jnp.eye(6)).real, SQUARE),
    "approx_min_k": (lambda x: (lax.approx_min_k(x, 2), lax.approx_max_k(x, 3)), ROWS),
}


@pytest.mark.parametrize("name", CASES)
def test_is_what_it_is_in_jax(name):
    function, *args = CASES[name]
    text = jax.jit(function).lower(*args).as_text()
    expected = jax.tree.leaves(jax.jit(function)(*args))
    for options in ([], ["--no-compile"], ["--mesh", "x=2,y=2", "--shard", "random:1"]):
        results = run_text(text, args, *options)
        assert len(results) == len(expected)
        for actual, wanted in zip(results, expected):
            np.testing.assert_allclose(actual, np.asarray(wanted), rtol=2e-3, atol=2e-4)


def test_shapes_of_an_exported_function_are_checked(tmp_path):
    function = jax.jit(lambda x: jax.nn.softmax(x.reshape(-1, 2), 0))
    (size,) = jax.export.symbolic_shape("2*b")
    text = jax.export.export(function)(jax.ShapeDtypeStruct((size,), jnp.float32)).mlir_module()
    np.testing.assert_allclose(run_text(text, [ROWS[0]])[0], function(ROWS[0]), rtol=1e-5)
    np.save(tmp_path / "odd.npy", ROWS[0, :7])
    run = subprocess.run([CLEAVE, "run", "-", "--arg", f"0={tmp_path}/odd.npy"], input=text, capture_output=True, text=True)
    assert run.returncode == 1 and "remainder 1" in run.stderr, run.stderr
