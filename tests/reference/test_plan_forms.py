"""Plans as XLA takes them, compiled by XLA for eight devices: results on every device, and the bytes that it moves beside
those of the plan."""

import os
import pathlib
import re
import subprocess
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
    with pytest.raises(exports.Refused, match="the form everything: there are manual, constraints"):
        step.export(file, "everything")


# ---- layouts of arguments and results alone


def forecast(step, plan):
    """What the comments of --export jax say: bytes received, and whether that is the plan."""
    text = step.export(plan, "jax")
    line = next(line for line in text.splitlines() if "received by a device" in line)
    amount, unit = re.search(r"([\d.]+) (KiB|MiB) received by a device", line).groups()
    return float(amount) * {"KiB": 1 << 10, "MiB": 1 << 20}[unit], "forecast to follow" in line


@pytest.mark.parametrize("name, mesh, layouts, within", [
    ("gpt", "x=8", dict(data="x"), 0.01), ("gpt", MESH, dict(data="x", model="y"), 0.01), ("moe", "x=8", dict(data="x"), 0.01),
    ("llama", MESH, dict(data="x", model="y"), 0.01), ("vit", "x=8", dict(fully="x"), 0.15)])
def test_the_forecast_of_xla_is_what_xla_compiles(name, mesh, layouts, within, tmp_path):
    """Bytes of propagation from arguments and results, by Cleave and by XLA. Between fully sharded layouts XLA has its own ways
    (vit)."""
    step = small(name, tmp_path)
    file, _ = step.plan(mesh, "pinned", "--solver", "propagation", *exports.pins(step, mesh, **layouts))
    compiled, _ = step.compile(file)
    assert forecast(step, file)[0] == pytest.approx(step.collectives(compiled)["received_bytes"], rel=within)


def test_the_export_warns_if_xla_would_not_follow(tmp_path):
    """Rows of the input over "y" as well make XLA gather or sum otherwise than a plan that was pinned inside."""
    step = mlp_step(tmp_path)
    columns = ["--pin", 'arg0=[{"x"}, {}]', "--pin", 'arg1=[{}, {"y"}]', "--pin", 'arg2=[{"y"}, {}]']
    file, plan = step.plan(MESH, "followed", *columns, "--pin", 'dot_general.1=[{"x"}, {}]')
    moved, is_the_plan = forecast(step, file)
    assert is_the_plan and moved == exports.planned_bytes(plan)
    inside = ["--pin", 'dot_general.0=[{}, {"x", "y"}]', "--pin", 'tanh.0=[{}, {"x", "y"}]']
    file, plan = step.plan(MESH, "not_followed", *columns, *inside)
    moved, is_the_plan = forecast(step, file)
    compiled, _ = step.compile(file)
    assert not is_the_plan and moved == step.collectives(compiled)["received_bytes"] != exports.planned_bytes(plan)
    done = subprocess.run([CLEAVE, "plan", step.module, "--plan", file, "--export", "jax"], capture_output=True, text=True)
    assert done.stderr.startswith("warning: XLA is forecast not to follow the plan") and "planned" in done.stderr
