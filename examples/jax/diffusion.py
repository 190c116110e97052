"""A small U-Net that predicts the noise in images, with group norm, an embedding of time, and a random key as state.

    python examples/jax/diffusion.py --steps 8

Look at `prepare`: it plans for shapes alone (`jax.ShapeDtypeStruct`, which `jax.eval_shape` gives), before any weight
exists. The weights are then made where the plan wants them, so that no device ever holds all of them. The noise of a
step is drawn from the key as if on one device: the check compares results with those of the unsharded function, random
numbers included.
"""

import argparse
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

import cleave.jax as cj  # noqa: E402

WIDTHS, TIME, GROUPS, BATCH, SIZE = (32, 64), 64, 8, 32, 16
optimizer = optax.adam(1e-3)


def init(key):
    keys = iter(jax.random.split(key, 64))

    def conv(size, inputs, outputs):
        return jax.random.normal(next(keys), (size, size, inputs, outputs)) * (size * size * inputs) ** -0.5

    def block(inputs, outputs):
        return {"conv1": conv(3, inputs, outputs), "conv2": conv(3, outputs, outputs), "skip": conv(1, inputs, outputs),
                "time": jax.random.normal(next(keys), (TIME, outputs)) * TIME**-0.5, "scale": jnp.ones(outputs)}
    low, high = WIDTHS
    params = {"stem": conv(3, 3, low), "down": block(low, low), "middle": block(low, high),
              "up": block(low + high, low), "out": conv(3, low, 3)}
    return {"params": params, "opt": optimizer.init(params), "key": next(keys)}


def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def group_norm(x):
    parts = x.reshape(*x.shape[:3], GROUPS, -1)
    mean, var = parts.mean((1, 2, 4), keepdims=True), parts.var((1, 2, 4), keepdims=True)
    return ((parts - mean) * jax.lax.rsqrt(var + 1e-3)).reshape(x.shape)


def block(p, x, time):
    h = convolve(jax.nn.silu(group_norm(x)), p["conv1"]) + (time @ p["time"])[:, None, None]
    return convolve(jax.nn.silu(p["scale"] * group_norm(h)), p["conv2"]) + convolve(x, p["skip"])


def predict(params, images, t):
    angles = t[:, None] * 1e3 ** jnp.linspace(0, 1, TIME // 2)
    time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    high = block(params["down"], convolve(images, params["stem"]), time)
    half = high.reshape(BATCH, SIZE // 2, 2, SIZE // 2, 2, -1).mean((2, 4))
    low = block(params["middle"], half, time).repeat(2, axis=1).repeat(2, axis=2)
    return convolve(block(params["up"], jnp.concatenate([high, low], axis=-1), time), params["out"])


def train_step(state, images):
    key, for_t, for_noise = jax.random.split(state["key"], 3)
    t = jax.random.uniform(for_t, (BATCH,))
    noise = jax.random.normal(for_noise, images.shape)
    share = jnp.cos(t * jnp.pi / 2)[:, None, None, None]  # of the image in what the model sees

    def loss_of(params):
        seen = share * images + jnp.sqrt(1 - share**2) * noise
        return ((predict(params, seen, t) - noise) ** 2).mean()
    loss, grads = jax.value_and_grad(loss_of)(state["params"])
    updates, opt = optimizer.update(grads, state["opt"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt, "key": key}, loss


def batch(key):
    """Plain colours with a gradient from top to bottom."""
    colours, rows = jax.random.normal(key, (BATCH, 1, 1, 3)), jnp.linspace(-1, 1, SIZE)[:, None, None]
    return jnp.broadcast_to(colours * rows, (BATCH, SIZE, SIZE, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    steps = parser.parse_args().steps

    devices = jax.devices() if len(jax.devices()) >= 8 else jax.devices("cpu")
    mesh = jax.make_mesh((4, 2), ("data", "model"), devices=devices[:8])
    step = cj.autoshard(train_step, mesh, machine="h100", memory="6MiB", memory_share=1.0, time_limit=3,
                        donate_argnums=0)

    images = jax.ShapeDtypeStruct((BATCH, SIZE, SIZE, 3), jnp.float32)
    plan = step.prepare(jax.eval_shape(init, jax.random.key(0)), images)
    print(plan)
    (state_specs, _), _ = plan.in_specs
    state = jax.jit(init, out_shardings=plan.shardings(state_specs))(jax.random.key(0))
    for i in range(steps):
        images = step.place(batch(jax.random.key(i)))
        state, loss = step(state, images)
        print(f"step {i}  loss {loss:.4f}")
    print(step.check())


if __name__ == "__main__":
    main()
