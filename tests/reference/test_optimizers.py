"""Optimizers and schedules of cleave/train.h against Optax: parameters after twelve steps with given gradients, computed
op by op, as a compiled step, as one over a mesh, and some by XLA."""

import os
import pathlib
import subprocess

import jax.numpy as jnp
import numpy as np
import optax
import pytest

PROGRAM = pathlib.Path(os.environ["CLEAVE_COMMAND"]).parent / "tests" / "train_reference"
SHAPES = {"embed": (24, 12), "layer.w": (12, 20), "layer.v": (20, 12), "layer.norm": (12,), "layer.b": (20,),
          "kernel": (2, 8, 10), "square": (8, 8)}
STEPS = 12
XLA = ("adamw_masked", "adafactor_all", "muon_all", "every_3")  # also by XLA, which takes ten times as long
WARMUP = optax.warmup_cosine_decay_schedule(0.0, 0.1, 3, 10, 0.01)


def decays(params):
    return {name: not name.endswith((".norm", ".b")) for name in params}


MATRICES = {name: optax.contrib.MuonDimensionNumbers() if len(shape) == 2 and name != "embed" else None
            for name, shape in SHAPES.items()}
OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "decayed_sgd": optax.chain(optax.add_decayed_weights(0.1, decays), optax.sgd(0.1, momentum=0.9)),
    "adam": optax.adam(0.01),
    "nadam": optax.nadam(0.01, eps_root=1e-6),
    "adamw": optax.adamw(0.01),
    "adamw_masked": optax.adamw(WARMUP, b2=0.95, weight_decay=0.1, mask=decays),
    "lion": optax.lion(0.01),
    "adafactor": optax.adafactor(0.1, min_dim_size_to_factor=8),
    "adafactor_relative": optax.adafactor(min_dim_size_to_factor=8),
    "adafactor_plain": optax.adafactor(0.1, multiply_by_parameter_scale=False, clipping_threshold=None, factored=False),
    "adafactor_all": optax.adafactor(WARMUP, min_dim_size_to_factor=8, decay_rate=0.7, momentum=0.9,
                                     weight_decay_rate=0.01, weight_decay_mask=decays),
    "muon": optax.contrib.muon(0.1),
    "muon_all": optax.contrib.muon(WARMUP, nesterov=False, weight_decay=0.1, consistent_rms=0.2, adam_weight_decay=0.01,
                                   adam_learning_rate=0.02, muon_weight_dimension_numbers=MATRICES),
    "clip_norm": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.01)),
    "clip_value": optax.chain(optax.clip(0.3), optax.sgd(0.1)),
    "clip_block": optax.chain(optax.clip_by_block_rms(0.5), optax.sgd(0.1)),
    "scaled": optax.chain(optax.scale(0.5), optax.scale_by_schedule(WARMUP), optax.scale(-1.0)),
    "every_3": optax.MultiSteps(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01)), 3),
}
SCHEDULES = {
    "constant": optax.constant_schedule(0.3),
    "linear": optax.linear_schedule(0.1, 0.5, 7),
    "cosine": optax.cosine_decay_schedule(0.2, 11, 0.1),
    "warmup_cosine": optax.warmup_cosine_decay_schedule(0.05, 0.3, 4, 15, 0.01),
    "exponential": optax.exponential_decay(0.5, 3, 0.9, transition_begin=2),
    "staircase": optax.exponential_decay(0.5, 3, 0.5, staircase=True, end_value=0.1),
    "piecewise": optax.piecewise_constant_schedule(0.4, {4: 0.5, 9: 0.25}),
    "polynomial": optax.polynomial_schedule(0.3, 0.1, 2, 8, 3),
    "joined": optax.join_schedules(
        [optax.linear_schedule(0, 1, 5), optax.constant_schedule(0.5), optax.cosine_decay_schedule(0.5, 5)], [5, 9]),
}


def run(*arguments):
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Parameters, gradients by step, and the folder that has them as files."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(7)
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    grads = [{name: rng.normal(size=shape).astype(np.float32) * 0.1 * (1 + step % 4) for name, shape in SHAPES.items()}
             for step in range(STEPS)]
    grads = [{name: g.astype(np.float32) for name, g in step.items()} for step in grads]
    for name, p in params.items():
        np.save(folder / f"p.{name}.npy", p)
        for step, values in enumerate(grads):
            np.save(folder / f"g{step}.{name}.npy", values[name])
    return params, grads, folder


def by_optax(optimizer, params, grads):
    params = {name: jnp.asarray(p) for name, p in params.items()}
    state = optimizer.init(params)
    for g in grads:
        updates, state = optimizer.update({name: jnp.asarray(x) for name, x in g.items()}, state, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twelve_steps(name, data):
    params, grads, folder = data
    expected = by_optax(OPTIMIZERS[name], params, grads)
    for way in ("eager", "compiled", "sharded") + (("xla", "xla_sharded") if name in XLA else ()):
        run("optimizer", name, way, folder)
        for leaf in SHAPES:
            actual = np.load(folder / f"out.{leaf}.npy")
            moved = np.abs(expected[leaf] - params[leaf]).max()
            assert moved > 1e-4, f"{leaf} has not moved"
            error = np.abs(actual - expected[leaf]).max()
            assert error <= 2e-6 + 1e-4 * moved, f"{way}: {leaf} differs by {error}, and moved by {moved}"


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    expected = [float(SCHEDULES[name](jnp.asarray(step, jnp.float32))) for step in range(20)]
    actual = [float(line) for line in run("schedule", name, 20).split()]
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-8)
