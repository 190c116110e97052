"""step.check() on numbers that say nothing: gradients that are zero but for roundings, as those of a bias before a normalization."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import cleave.jax as cj
from cleave import InternalError
from cleave.jax import check

MESH = jax.make_mesh((2, 4), ("data", "model"))


def train(params, moments, x):
    """The loss does not depend on the bias, and its gradient is what roundings leave."""
    def loss(p):
        h = x @ p["w"] + p["bias"]
        h = (h - h.mean(0)) * jax.lax.rsqrt(h.var(0) + 1e-5)
        return jnp.mean(jnp.tanh(h) ** 2)
    grads = jax.grad(loss)(params)
    return params, jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g * g, moments, grads)


def arguments(seed):
    keys = jax.random.split(jax.random.key(seed), 2)
    params = {"w": jax.random.normal(keys[0], (48, 64)), "bias": jnp.zeros(64)}
    return params, jax.tree.map(jnp.zeros_like, params), jax.random.normal(keys[1], (32, 48))


@pytest.mark.parametrize("seed", range(3))
def test_squares_of_roundings(seed):
    step = cj.autoshard(train, MESH, machine="h100", pins={"x": P("data"), "params/w": P("model")})
    assert step.check(*arguments(seed)).ok
    bias = step(*arguments(seed))[1]["bias"]
    assert 0 < float(jnp.max(bias)) < 1e-12, "the gradient of the bias is no rounding"


def test_keys_that_are_donated():
    """Of which the check has use after the planned program took them."""
    def step(params, moments, key, x):
        keep = jax.random.bernoulli(key, 0.9, x.shape)
        return *train(params, moments, x * keep), jax.random.split(key)[0]
    params, moments, x = arguments(0)
    planned = cj.autoshard(step, MESH, machine="h100", pins={"x": P("data"), "params/w": P("model")}, donate_argnums=(0, 1, 2))
    assert planned.check(params, moments, jax.random.key(3), x).ok


@pytest.mark.parametrize("wrong", [
    lambda m: m | {"bias": m["bias"] + 1e-9},  # far above what roundings leave
    lambda m: m | {"w": m["w"].at[0, 0].multiply(1.01)},
])
def test_wrong_numbers_beside_them_are_found(wrong):
    step = cj.autoshard(train, MESH, machine="h100", pins={"x": P("data"), "params/w": P("model")})
    step(*arguments(0))

    def other(params, moments, x):
        params, moments = train(params, moments, x)
        return params, wrong(moments)
    step._last.signature.fn = other
    with pytest.raises(InternalError, match="1 of 4 results differ"):
        step.check(*arguments(0))


def test_what_is_exact_stays_exact_beside_noise():
    """Numbers that do not move with roundings get nothing from others of their array that do."""
    noise = np.abs(np.random.default_rng(0).normal(size=200)) * 1e-3
    noise[:20] = 0
    for scale, times in ((1e-2, 4), (2e-3, 64)):  # of the second, the largest number is noise too
        allowed = check.allowance(noise, scale)
        assert (allowed[:20] == 0).all() and (allowed[20:] >= 4 * noise[20:]).all() and allowed.max() <= times * noise.max()
    few = np.zeros(200)
    few[:3] = noise[20:23]
    assert (check.allowance(few, scale=2e-3) == 4 * few).all()
    assert (check.allowance(noise, scale=1.0) == 4 * noise).all()


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_results_in_narrow_integers(dtype):
    values = (jnp.arange(64 * 8).reshape(64, 8) % 2).astype(dtype)
    step = cj.autoshard(lambda x: (x, x.T), MESH, machine="h100", pins={"x": P("data", "model")})
    assert step.check(values).ok


@pytest.mark.parametrize("devices", [2, 3, 6, 8])
def test_sums_of_single_numbers_are_counted_to_the_byte(devices):
    """The loss and the accuracy of a batch: a few bytes from each device, and nothing else."""
    def evaluate(w, x, labels):
        logits = x @ w
        return jax.nn.logsumexp(logits, 1).mean(), logits.max().astype(jnp.float16), (logits.argmax(1) == labels).mean()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("data",))
    step = cj.autoshard(evaluate, mesh, machine="h100", pins={"x": P("data"), "labels": P("data"), "w": P()})
    made = step.check(jnp.ones((8, 4)), jnp.ones((491520, 8)), jnp.arange(491520) % 4)
    assert made.ok and 0 < made.planned_bytes < 100 and [row.kind for row in made.rows] == ["all-reduce"]
    exact = 2 * (4 + 4 + 4) * (devices - 1) / devices
    assert made.asked_bytes <= exact + 1e-6 and abs(made.planned_bytes - made.asked_bytes) < made.rows[0].planned_count
