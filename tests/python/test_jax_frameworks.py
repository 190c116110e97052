"""Models of flax (linen and nnx) and equinox with optax, as their users write them."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import PartitionSpec as P
from jax_support import expect_same_steps

import cleave.jax as cj

flax = pytest.importorskip("flax")
equinox = pytest.importorskip("equinox")
from flax import linen, nnx  # noqa: E402

D, HIDDEN, CLASSES = 32, 64, 8
OPTIMIZERS = {
    "adamw": optax.adamw(1e-2, eps=1e-3),  # a large eps: the first step is otherwise a sign, which roundings turn
    "clipped": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1e-1, momentum=0.9)),
    "adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=8),
    "lion": optax.lion(1e-3),
}


def batch():
    return (jax.random.normal(jax.random.key(3), (16, D)), jax.random.randint(jax.random.key(4), (16,), 0, CLASSES))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train_step(loss, optimizer):
    def step(params, state, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value
    return step


def run(loss, params, optimizer="adamw", **options):
    tx = OPTIMIZERS[optimizer]
    fn = train_step(loss, tx)
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    step = cj.autoshard(fn, mesh, machine="h100", **options)
    expect_same_steps(step, fn, (params, tx.init(params)), batch())
    assert step.plan.received_bytes > 0
    made = step.check(params, tx.init(params), *batch())
    assert made.ok and made.is_exact and made.memory_good, made
    return step


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.LayerNorm()(linen.relu(linen.Dense(HIDDEN)(x)))
        return linen.Dense(CLASSES)(x)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_linen(optimizer):
    model = Linen()
    params = model.init(jax.random.key(0), batch()[0])
    step = run(lambda p, x, y: cross_entropy(model.apply(p, x), y), params, optimizer,
               pins={"params/params/Dense_0/kernel": P(None, "model"), "x": P("data")})
    assert step.plan.layouts["params/params/Dense_0/kernel"] == P(None, "model")
    assert step.plan.layouts["x"] == P("data")


def test_a_bias_before_a_normalization():
    """Its gradient is what roundings leave, and other sums leave something else: no reason for the check to complain."""
    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.BatchNorm(use_running_average=False)(linen.Conv(16, (3, 3))(x)))
            return linen.Dense(CLASSES)(x.mean((1, 2)))

    model, tx = Model(), optax.adam(1e-3)
    x, y = jax.random.normal(jax.random.key(0), (8, 8, 8, 3)) * 1.02, jnp.arange(8)
    variables = model.init(jax.random.key(1), x)

    def step(params, state, stats, x, y):
        def loss(p):
            logits, changed = model.apply({"params": p, "batch_stats": stats}, x, mutable=["batch_stats"])
            return cross_entropy(logits, y), changed["batch_stats"]
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, stats, value

    params = variables["params"]
    planned = cj.autoshard(step, jax.make_mesh((2, 4), ("data", "model")), machine="h100", by_effort=True,
                           pins={"x": P(("data", "model")), "params/Conv_0/kernel": P(None, None, None, "model")})
    for scale in (1.0, 1.01):
        assert planned.check(params, tx.init(params), variables["batch_stats"], x * scale, y).ok


def test_nnx():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.Linear(D, HIDDEN, rngs=rngs)
            self.norm = nnx.LayerNorm(HIDDEN, rngs=rngs)
            self.down = nnx.Linear(HIDDEN, CLASSES, rngs=rngs)

        def __call__(self, x):
            return self.down(self.norm(jax.nn.gelu(self.up(x))))

    structure, params = nnx.split(Model(nnx.Rngs(0)), nnx.Param)
    run(lambda p, x, y: cross_entropy(nnx.merge(structure, p)(x), y), params, pins={"*/up/kernel*": P(None, "model")})


def test_equinox():
    params, static = equinox.partition(equinox.nn.MLP(D, CLASSES, HIDDEN, 2, key=jax.random.key(2)), equinox.is_array)
    run(lambda p, x, y: cross_entropy(jax.vmap(equinox.combine(p, static))(x), y), params,
        pins={"params/layers/0/weight": P("model")})


def test_dropout_takes_its_numbers_from_the_whole():
    """Random numbers do not depend on how a step is split."""
    def step(w, x, key):
        keep = jax.random.bernoulli(key, 0.5, x.shape)
        return jnp.where(keep, x, 0) @ w, jax.random.split(key)[0]

    mesh = jax.make_mesh((2, 4), ("data", "model"))
    w, x = jax.random.normal(jax.random.key(0), (64, 32)), jax.random.normal(jax.random.key(1), (16, 64))
    planned = cj.autoshard(step, mesh, machine="h100", pins={"x": P("data", "model"), "w": P("model")})
    for impl in ("threefry2x32", "rbg"):
        key = jax.random.key(7, impl=impl)
        result, wanted = planned(w, x, key), jax.jit(step)(w, x, key)
        assert jnp.allclose(result[0], wanted[0], atol=1e-5)
        assert (jax.random.key_data(result[1]) == jax.random.key_data(wanted[1])).all()
        made = planned.check()
        assert made.ok and made.is_exact and made.memory_good, made
