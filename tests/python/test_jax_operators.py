"""Functions of JAX that are lowered to something unusual, each with arguments that are split: as planned, and as unsharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import cleave.jax as cj

MESH = jax.make_mesh((2, 4), ("data", "model"))
A = jax.random.normal(jax.random.key(0), (16, 24))

OPERATORS = {
    # Whose comparator is a function that nothing calls.
    "approx_max_k": lambda a: jax.lax.approx_max_k(a, 2),
    "approx_min_k": lambda a: jax.lax.approx_min_k(a, 2, reduction_dimension=0),
    # Results without elements, which JAX cannot read in parts.
    "empty": lambda a: (jnp.sin(a)[None][:0], a * 2),
    # Beside a collective that wants its dimensions in another order.
    "fft": lambda a: jnp.fft.fft(a).real,
    "fft2": lambda a: jnp.abs(jnp.fft.rfft2(a)),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("spec", [P("data", "model"), P(None, ("data", "model"))], ids=str)
def test_as_unsharded(name, spec):
    fn = OPERATORS[name]
    step = cj.autoshard(fn, MESH, machine="h100", pins={"a": spec})
    for found, wanted in zip(jax.tree.leaves(step(A)), jax.tree.leaves(jax.jit(fn)(A)), strict=True):
        assert np.allclose(found, wanted, atol=1e-5)
    made = step.check(A)
    assert made.ok and made.is_exact
