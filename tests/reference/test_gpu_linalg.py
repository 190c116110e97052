"""Linear algebra as JAX prints it for GPUs (cusolver_*): the same values as on the CPU."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cleave_runs import run_text

RANDOM = np.random.RandomState(0)
SQUARE = np.float32(RANDOM.randn(5, 5))
POSITIVE = SQUARE @ SQUARE.T + 5 * np.eye(5, dtype=np.float32)
TALL = np.float32(RANDOM.randn(2, 6, 4))
QR_SVD = lax.linalg.SvdAlgorithm.QR


def product(u, s, vt):
    k = s.shape[-1]
    return (u[..., :k] * s[..., None, :]) @ vt[..., :k, :]


CASES = {  # a function whose result does not depend on signs of vectors, and its arguments
    "cholesky": (jnp.linalg.cholesky, POSITIVE),
    "solve": (jnp.linalg.solve, SQUARE, TALL[0, :5]),
    "det": (jnp.linalg.det, SQUARE),
    "lu": (jax.scipy.linalg.lu, SQUARE),
    "qr": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), TALL),
    "pivoted qr": (lambda a: jax.scipy.linalg.qr(a, pivoting=True)[2], TALL[0]),
    "eigh": (lambda a: jnp.linalg.eigh(a)[0], np.stack([POSITIVE, SQUARE + SQUARE.T])),
    "upper eigh": (lambda a: lax.linalg.eigh(a, lower=False)[1], POSITIVE),
    "complex eigh": (lambda a: jnp.linalg.eigh(a + 1j * (jnp.triu(a) - jnp.triu(a).T))[0], POSITIVE),
    "eigvals": (lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), SQUARE),
    "singular values": (lambda a: jnp.linalg.svd(a, compute_uv=False), TALL),
    "thin svd": (lambda a: product(*jnp.linalg.svd(a, full_matrices=False)), TALL),
    "full svd": (lambda a: product(*jnp.linalg.svd(a)), TALL),
    "complex svd": (lambda a: jnp.abs(product(*jnp.linalg.svd(a + 1j * a * a))), TALL),
    "svd by qr": (lambda a: (lambda u, s, vt: product(u, s, vt))(*lax.linalg.svd(a, full_matrices=False, algorithm=QR_SVD)), TALL),
    "wide svd by qr": (lambda a: (lambda u, s, vt: product(u, s, vt))(*lax.linalg.svd(a, algorithm=QR_SVD)), TALL.transpose(0, 2, 1)),
    "values by qr": (lambda a: lax.linalg.svd(a, compute_uv=False, algorithm=QR_SVD), TALL),
    "tridiagonal": (lambda a: jnp.abs(lax.linalg.tridiagonal(a)[2]), POSITIVE),
    "tridiagonal solve": (lax.linalg.tridiagonal_solve, SQUARE[:2], SQUARE[2:4] + 4, SQUARE[3:], TALL[:, :5]),
}


@pytest.mark.parametrize("name", CASES)
def test_is_what_it_is_on_the_cpu(name):
    function, *args = CASES[name]
    text = jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    assert "@cu" in text
    expected = jax.tree.leaves(jax.jit(function)(*args))
    for options in ([], ["--mesh", "x=3", "--shard", "random:1", "--verify"]):
        for actual, wanted in zip(run_text(text, args, *options), expected):
            np.testing.assert_allclose(actual, np.asarray(wanted), rtol=2e-4, atol=2e-5)
