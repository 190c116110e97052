"""Plans as XLA takes them, compiled by XLA for eight devices: results on every device, and the bytes that it moves beside
those of the plan."""

import os
import pathlib
import sys

import jax
import jax.numpy as jnp
import pytest

import jax_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/xla"))
import exports  # noqa: E402
import steps  # noqa: E402

CLEAVE = os.environ["CLEAVE_COMMAND"]
MESH = "x=2,y=4"


def small(name, folder):
    function, arguments = steps.step(name, steps.SMALL[name])
    return exports.Step(CLEAVE, folder, name, function, arguments, steps.DONATED)


def of_models(name, folder):
    function, arguments = jax_models.MODELS[name]()
    return exports.Step(CLEAVE, folder, name, function, arguments)


def mlp(x, w1, w2):
    return jnp.tanh(x @ w1) @ w2


def mlp_step(folder, rows=64):
    shaped = jax_models.shaped
    return exports.Step(CLEAVE, folder, "mlp", mlp, (shaped(rows, 128), shaped(128, 512), shaped(512, 128)))


# ---- constraints


@pytest.mark.parametrize("name, share", [("gpt", 1.05), ("moe", 1.5), ("llama", 1.05)])
def test_xla_follows_constraints(name, share, tmp_path):
    """XLA moves no less than the plan, and what it moves more are sums that the plan leaves pending, and reduce_scatters, which
    XLA for CPUs makes of all_reduces: less than twice the bytes."""
    step = small(name, tmp_path)
    file, plan = step.plan(MESH, "tight", "--memory", int(share * step.least_memory(MESH)))
    planned = exports.planned_bytes(plan)
    assert planned > 0
    compiled, inputs = step.compile(file, "constraints")
    moved = step.collectives(compiled)["received_bytes"]
    assert step.difference(compiled, inputs) < 1e-5
    assert 0.99 * planned <= moved <= 2 * planned, (planned, moved)


def test_constraints_without_pending_sums_are_exact(tmp_path):
    """Columns, then rows: one sum, completed where the plan completes it."""
    step = mlp_step(tmp_path)
    pins = ["--pin", 'arg0=[{"x"}, {}]', "--pin", 'arg1=[{}, {"y"}]', "--pin", 'arg2=[{"y"}, {}]', "--pin",
            'dot_general.1=[{"x"}, {}]']
    file, plan = step.plan(MESH, "columns", *pins)
    compiled, inputs = step.compile(file, "constraints")
    assert step.collectives(compiled)["received_bytes"] == exports.planned_bytes(plan) == 2 * 32 * 128 * 4 * 3 / 4
    assert step.difference(compiled, inputs) < 1e-5


@pytest.mark.parametrize("name", ["transformer_scan", "resnet", "unet_block"])
def test_constraints_in_loops_and_convolutions(name, tmp_path):
    step = of_models(name, tmp_path)
    file, plan = step.plan(MESH, "tight", "--memory", int(1.1 * step.least_memory(MESH)))
    assert exports.planned_bytes(plan) > 0
    compiled, inputs = step.compile(file, "constraints")
    assert step.difference(compiled, inputs) < 1e-3


def test_constraints_of_uneven_shards(tmp_path):
    """JAX takes no argument of ten rows over four devices: whole outside, as planned inside."""
    step = mlp_step(tmp_path, rows=10)
    file, _ = step.plan(MESH, "uneven", "--pin", 'arg0=[{"y"}, {}]', "--pin", 'dot_general.1=[{"y"}, {}]')
    text = step.export(file, "constraints")
    assert '%arg0: tensor<10x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}' in text
    assert 'sdy.sharding_constraint %arg0 <@mesh, [{"y"}, {}]>' in text
    assert "sdy.reshard" not in text and "cleave." not in text and "unreduced" not in text
    compiled, inputs = step.compile(file, "constraints")
    assert step.difference(compiled, inputs) < 1e-5


def test_an_unknown_form_is_named(tmp_path):
    step = mlp_step(tmp_path)
    file, _ = step.plan(MESH, "any")
    with pytest.raises(exports.Refused, match="--export everything: there are sdy, constraints"):
        step.export(file, "everything")
