"""A mixture of experts whose experts are pinned to one axis of the mesh; the plan finds the rest around them.

    python examples/jax/moe.py --steps 10

Look at `pins`: a path with stars names the weights of all experts in all layers, and the plan keeps them where they are
pinned. Everything else is left to the plan: where activations lie, how tokens come to their experts, and how the state
of the optimizer lies.
"""

import argparse
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import cleave.jax as cj  # noqa: E402

LAYERS, D, EXPERTS, HIDDEN, VOCAB, BATCH, LENGTH = 2, 128, 8, 768, 256, 16, 64
CAPACITY = 2 * LENGTH // EXPERTS  # tokens of a sequence that an expert takes; those beyond it pass by
optimizer = optax.adamw(3e-3)


def init(key):
    keys = iter(jax.random.split(key, 2 + 6 * LAYERS))

    def weight(*shape):
        return jax.random.normal(next(keys), shape) * shape[-2] ** -0.5

    def layer():
        return {"attention": {"qkv": weight(D, 3 * D), "out": weight(D, D)}, "router": weight(D, EXPERTS),
                "experts": {"up": weight(EXPERTS, D, HIDDEN), "down": weight(EXPERTS, HIDDEN, D)}}
    return {"embed": weight(VOCAB, D), "layers": [layer() for _ in range(LAYERS)], "head": weight(D, VOCAB)}


def norm(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def attention(p, x):
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) * D**-0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jax.nn.softmax(scores) @ v @ p["out"]


def mixture(p, x):
    """Each token goes to the expert that its router likes best. Returns what experts say, and a loss for uneven use."""
    chances = jax.nn.softmax(x @ p["router"])
    chosen = jax.nn.one_hot(chances.argmax(-1), EXPERTS)
    place = (jnp.cumsum(chosen, axis=1) * chosen).astype(int) - 1  # of a token in the queue of its expert; -1 in others
    sent = jax.nn.one_hot(place, CAPACITY)  # token, expert, place
    inputs = jnp.einsum("btec,btd->ebcd", sent, x)
    hidden = jax.nn.gelu(jnp.einsum("ebcd,edh->ebch", inputs, p["experts"]["up"]))
    outputs = jnp.einsum("ebch,ehd->ebcd", hidden, p["experts"]["down"])
    uneven = EXPERTS * (chosen.mean((0, 1)) * chances.mean((0, 1))).sum()
    return jnp.einsum("btec,ebcd,bte->btd", sent, outputs, chances), uneven


def loss_of(params, tokens):
    x, penalty = params["embed"][tokens[:, :-1]], 0.0
    for p in params["layers"]:
        x = x + attention(p["attention"], norm(x))
        out, uneven = mixture(p, norm(x))
        x, penalty = x + out, penalty + 0.01 * uneven
    logits = norm(x) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean() + penalty


def train_step(params, opt_state, tokens):
    loss, grads = jax.value_and_grad(loss_of)(params, tokens)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(key):
    """Sequences that count in steps of 1 to 4."""
    first, by = jax.random.randint(key, (2, BATCH, 1), jnp.array([[[0]], [[1]]]), jnp.array([[[VOCAB]], [[5]]]))
    return (first + by * jnp.arange(LENGTH + 1)) % VOCAB


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps

    devices = jax.devices() if len(jax.devices()) >= 8 else jax.devices("cpu")
    mesh = jax.make_mesh((2, 4), ("data", "expert"), devices=devices[:8])
    pins = {
        "params/layers/*/experts/*": P("expert"),  # the first dimension, which counts experts, over the axis "expert"
        "tokens": P("data"),
    }
    step = cj.autoshard(train_step, mesh, machine="h100", memory="24MiB", memory_share=1.0, time_limit=3, pins=pins,
                        donate_argnums=(0, 1))

    params = init(jax.random.key(0))
    opt_state = optimizer.init(params)
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, batch(jax.random.key(i)))  # the first call plans
        print(f"step {i}  loss {loss:.4f}")

    print()
    for path, spec in step.plan.layouts.items():
        if path.startswith("params/layers/0/") or path == "tokens":
            print(f"{path:<34} {spec}")
    print(step.plan)
    print(step.check(params, opt_state, batch(jax.random.key(steps))))  # on these arguments


if __name__ == "__main__":
    main()
