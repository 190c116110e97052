"""A ResNet with batch norm. Its plan is saved to a file, and a second function runs by the file without planning.

    python examples/jax/resnet.py --steps 8

The running statistics of batch norm are part of the state: they come in, and go out changed. Means over the batch are
means over all devices, because the function is written for the whole batch; how they are summed is the plan's business.
Look at `plan=`: a plan is for one function and certain shapes, and is refused for others.
"""

import argparse
import os
import pathlib
import tempfile

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import cleave.jax as cj  # noqa: E402

WIDTHS, CLASSES, BATCH, SIZE, RATE, MOMENTUM = (16, 32, 64), 8, 64, 16, 0.05, 0.9


def init(key):
    keys = iter(jax.random.split(key, 64))

    def conv(size, inputs, outputs):
        return jax.random.normal(next(keys), (size, size, inputs, outputs)) * (2 / (size * size * inputs)) ** 0.5

    def scales(width):
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    params, stats, width = {"stem": conv(3, 3, WIDTHS[0]), "blocks": []}, [], WIDTHS[0]
    for outputs in WIDTHS:
        params["blocks"].append({"conv1": conv(3, width, outputs), "norm1": scales(outputs),
                                 "conv2": conv(3, outputs, outputs), "norm2": scales(outputs),
                                 "skip": conv(1, width, outputs)})
        stats.append([{"mean": jnp.zeros(outputs), "var": jnp.ones(outputs)} for _ in range(2)])
        width = outputs
    params["head"] = jax.random.normal(next(keys), (width, CLASSES)) * width**-0.5
    return {"params": params, "stats": stats, "velocity": jax.tree.map(jnp.zeros_like, params)}


def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(p, stats, x):
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    running = {"mean": 0.9 * stats["mean"] + 0.1 * mean, "var": 0.9 * stats["var"] + 0.1 * var}
    return p["scale"] * (x - mean) * jax.lax.rsqrt(var + 1e-3) + p["shift"], running


def loss_of(params, stats, images, labels):
    x, running = convolve(images, params["stem"]), []
    for i, (p, (first, second)) in enumerate(zip(params["blocks"], stats)):
        stride = 1 if i == 0 else 2
        h, first = batch_norm(p["norm1"], first, convolve(x, p["conv1"], stride))
        h, second = batch_norm(p["norm2"], second, convolve(jax.nn.relu(h), p["conv2"]))
        x = jax.nn.relu(h + convolve(x, p["skip"], stride))
        running.append([first, second])
    chances = jax.nn.log_softmax(x.mean((1, 2)) @ params["head"])
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean(), running


def train_step(state, images, labels):
    params = state["params"]
    (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params, state["stats"], images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, state["velocity"], grads)
    params = jax.tree.map(lambda p, v: p - RATE * v, params, velocity)
    return {"params": params, "stats": stats, "velocity": velocity}, loss


def batch(seed):
    """Noise with a bright stripe; the label says where it is."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, BATCH)
    images = random.normal(size=(BATCH, SIZE, SIZE, 3)) * 0.3
    for image, label in zip(images, labels):
        image[label * SIZE // CLASSES :][: SIZE // CLASSES] += 1
    return images.astype(np.float32), labels.astype(np.int32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    steps = parser.parse_args().steps

    devices = jax.devices() if len(jax.devices()) >= 8 else jax.devices("cpu")
    mesh = jax.make_mesh((4, 2), ("data", "model"), devices=devices[:8])
    planned = cj.autoshard(train_step, mesh, machine="h100", memory="4MiB", memory_share=1.0, time_limit=3,
                           donate_argnums=0)

    state = init(jax.random.key(0))
    file = pathlib.Path(tempfile.mkdtemp()) / "plan.json"
    print(planned.prepare(state, *batch(0)))
    planned.save_plan(file)

    step = cj.autoshard(train_step, mesh, plan=file, donate_argnums=0)  # as another process would do
    for i in range(steps):
        state, loss = step(state, *batch(i))
        print(f"step {i}  loss {loss:.4f}")

    print(f"running mean of the last norm: {np.asarray(state['stats'][-1][1]['mean'])[:4]}")
    print(step.check())


if __name__ == "__main__":
    main()
