"""A GPT with grouped-query attention and rotary positions, trained by optax's AdamW on eight devices.

    python examples/jax/gpt.py --steps 10

The model is written for whole arrays and says nothing about devices. `autoshard` finds the layout of every array for
eight H100s with little memory each; without eight accelerators, eight devices of the CPU run it. Look at three things:
`step.place` lays the state out once, and donation lets each step write the next state over it; the plan says what a
step would take on the machine; the check sets what XLA compiled beside the plan.
"""

import argparse
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

import cleave.jax as cj  # noqa: E402

LAYERS, D, HEADS, KV_HEADS, HIDDEN, VOCAB, BATCH, LENGTH = 2, 128, 8, 4, 384, 256, 16, 64
HEAD = D // HEADS
optimizer = optax.adamw(3e-3)


def init(key):
    keys = iter(jax.random.split(key, 2 + 7 * LAYERS))

    def weight(rows, columns):
        return jax.random.normal(next(keys), (rows, columns)) * rows**-0.5

    def layer():
        return {"norm1": jnp.ones(D), "q": weight(D, D), "k": weight(D, KV_HEADS * HEAD),
                "v": weight(D, KV_HEADS * HEAD), "o": weight(D, D), "norm2": jnp.ones(D),
                "gate": weight(D, HIDDEN), "up": weight(D, HIDDEN), "down": weight(HIDDEN, D)}
    return {"embed": weight(VOCAB, D), "layers": [layer() for _ in range(LAYERS)], "norm": jnp.ones(D),
            "head": weight(D, VOCAB)}


def norm(scale, x):
    return scale * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def rotate(x):
    """Rotary positions: pairs of numbers turn by an angle that grows with the position."""
    angles = jnp.arange(LENGTH)[:, None] * 1e4 ** (-jnp.arange(HEAD // 2) / (HEAD // 2))
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def attention(p, x):
    """Every HEADS / KV_HEADS queries share one head of keys and values."""
    q = rotate((x @ p["q"]).reshape(BATCH, LENGTH, HEADS, HEAD))
    q = q.reshape(BATCH, LENGTH, KV_HEADS, HEADS // KV_HEADS, HEAD)
    k = rotate((x @ p["k"]).reshape(BATCH, LENGTH, KV_HEADS, HEAD))
    v = (x @ p["v"]).reshape(BATCH, LENGTH, KV_HEADS, HEAD)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k) * HEAD**-0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(scores), v).reshape(BATCH, LENGTH, D) @ p["o"]


def loss_of(params, tokens):
    x = params["embed"][tokens[:, :-1]]
    for p in params["layers"]:
        x = x + attention(p, norm(p["norm1"], x))
        h = norm(p["norm2"], x)
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    logits = norm(params["norm"], x) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


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
    mesh = jax.make_mesh((2, 4), ("data", "model"), devices=devices[:8])
    step = cj.autoshard(train_step, mesh, machine="h100", memory="8MiB", memory_share=1.0, time_limit=3,
                        donate_argnums=(0, 1))

    params = init(jax.random.key(0))
    opt_state = optimizer.init(params)
    step.prepare(params, opt_state, batch(jax.random.key(0)))  # plans; the first call would do it too
    params, opt_state = step.place(params, "params"), step.place(opt_state)
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, batch(jax.random.key(i)))
        print(f"step {i}  loss {loss:.4f}")

    print(f"\nquery weights lie as {params['layers'][0]['q'].sharding.spec}")
    print(step.plan)
    print(step.check())


if __name__ == "__main__":
    main()
