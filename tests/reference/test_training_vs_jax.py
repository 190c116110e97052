"""`cleave train` against the same training in JAX with Optax: batches in the same order by a second implementation of it,
from the weights and moments of an early checkpoint on. The losses of every step are the same."""

import json
import os
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import load_file

from test_models_vs_jax import gpt

CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")
LENGTH, BATCH, SEED, STEPS, WARMUP, RATE = 32, 8, 3, 40, 6, 3e-3
MODEL = f"model:gpt?layers=2&d=32&heads=4&kv_heads=2&hidden=64&length={LENGTH}"
WEIGHTS = (["embed"]
           + [f"layers[{i}].{name}" for i in range(2)
              for name in ("attention.norm", "attention.q", "attention.k", "attention.v", "attention.o",
                           "feed_forward.norm", "feed_forward.gate", "feed_forward.up", "feed_forward.down")]
           + ["norm", "head"])
MASK = 2**64 - 1


def scrambled(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def permuted(size, key, index):
    """Where a keyed Feistel network of six rounds over the next power of four sends a number, walked until it is below."""
    bits = 1
    while 4**bits < size:
        bits += 1
    low = 2**bits - 1
    while True:
        left, right = index >> bits, index & low
        for turn in range(6):
            left, right = right, (left ^ scrambled(key ^ scrambled(right + (turn << 56)))) & low
        index = left << bits | right
        if index < size:
            return index


def batch(text, step):
    samples = len(text) // LENGTH
    each = samples // BATCH
    key = scrambled(scrambled(SEED) ^ step // each)
    rows = [permuted(samples, key, step % each * BATCH + row) for row in range(BATCH)]
    return np.stack([text[row * LENGTH : (row + 1) * LENGTH] for row in rows])


def rate(step):
    first = RATE / (WARMUP + 1)
    if step < WARMUP:
        return first + (RATE - first) * step / WARMUP
    done = min(1, (step - WARMUP) / (STEPS - WARMUP))
    return RATE * (0.9 * (1 + np.cos(np.pi * done)) / 2 + 0.1)


def jax_losses(text, saved, first):
    params = [jnp.asarray(saved[f"params.{name}"]) for name in WEIGHTS]
    moments = [[jnp.asarray(saved[f"opt.{kind}.{name}"]) for name in WEIGHTS] for kind in "mv"]
    clip, adam = optax.clip_by_global_norm(1.0), optax.scale_by_adam(b1=0.9, b2=0.95, eps=1e-8)
    state = optax.ScaleByAdamState(count=jnp.asarray(first, jnp.int32), mu=moments[0], nu=moments[1])

    @jax.jit
    def step(params, state, tokens, rate):
        loss, grads = jax.value_and_grad(gpt)(params, tokens)
        updates, state = adam.update(clip.update(grads, clip.init(params))[0], state, params)
        decayed = [u + 0.1 * p if p.ndim >= 2 else u for u, p in zip(updates, params)]
        return loss, [p - rate * u for p, u in zip(params, decayed)], state

    losses = []
    for n in range(first, STEPS):
        loss, params, state = step(params, state, batch(text, n), rate(n))
        losses.append(float(loss))
    return losses


GUIDE = os.path.join(os.path.dirname(__file__), "../../docs/guide/planning.md")


def train(folder, *place):
    """The lines of metrics of a training."""
    command = [CLEAVE, "train", MODEL, "--data", GUIDE, "--batch", str(BATCH), "--steps", str(STEPS), "--seed", str(SEED),
               "--rate", str(RATE), "--warmup", str(WARMUP), "--schedule", "cosine", "--clip", "1", "--save-every", "2",
               "--keep", "0", "--quiet", "--out", str(folder), *place]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """JAX's losses from step 2 on: a checkpoint of one device has whole tensors in one file."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder)
    text = np.frombuffer(open(GUIDE, "rb").read(), np.uint8).astype(np.int32)
    return jax_losses(text, load_file(folder / "checkpoints/step_000002/rank_00000.safetensors"), 2)


@pytest.mark.parametrize("place", [[], ["--mesh", "data=2,model=2"], ["--mesh", "data=4", "--plan", "fsdp"]])
def test_losses_of_every_step(tmp_path, place, expected):
    lines = train(tmp_path, *place)
    losses = [line["loss"] for line in lines]
    np.testing.assert_allclose([line["rate"] for line in lines], [rate(n) for n in range(STEPS)], rtol=1e-5)
    np.testing.assert_allclose(losses[2:], expected, rtol=2e-4)
    assert losses[-1] < 0.75 * losses[0]
