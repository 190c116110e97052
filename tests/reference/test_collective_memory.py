"""What a collective holds beside its operand and its result: the memory of a device as `cleave explain` predicts it for a
product, a collective and a product, and that of the module which XLA compiles for eight devices."""

import os
import re
import subprocess

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import jax_models  # noqa: F401: eight devices

CLEAVE = os.environ["CLEAVE_COMMAND"]
MESH = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
B, T = 16, 256

# Layouts of x, of w, and of their product for the next one; and the collective that leads there. Sums are over more
# elements than are left of them, so that it does not pay to gather before.
CASES = {
    "gather the first dimension": (
        P("x", None, None), P(None, None), P(None, None, None),
        lambda y: lax.all_gather(y, "x", axis=0, tiled=True)),
    "gather one between others": (
        P(None, "x", None), P(None, None), P(None, None, None),
        lambda y: lax.all_gather(y, "x", axis=1, tiled=True)),
    "exchange the first two": (
        P("x", None, None), P(None, None), P(None, "x", None),
        lambda y: lax.all_to_all(y, "x", split_axis=1, concat_axis=0, tiled=True)),
    "scatter the first dimension": (
        P(None, None, "x"), P("x", None), P("x", None, None),
        lambda y: lax.psum_scatter(y, "x", scatter_dimension=0, tiled=True)),
    "scatter one between others": (
        P(None, None, "x"), P("x", None), P(None, "x", None),
        lambda y: lax.psum_scatter(y, "x", scatter_dimension=1, tiled=True)),
}


def compiled_bytes(x, w, collective, shapes):
    def function(a, b):
        y = collective(jnp.einsum("btd,de->bte", a, b))
        return lax.pmean(jnp.einsum("bte,bse->", y, y), "x")

    step = jax.jit(jax.shard_map(function, mesh=MESH, in_specs=(x, w), out_specs=P(), check_vma=False))
    m = step.lower(*shapes).compile().memory_analysis()
    return m.argument_size_in_bytes + m.temp_size_in_bytes + m.output_size_in_bytes


def predicted_bytes(x, w, after, shapes, folder):
    place = lambda spec: NamedSharding(MESH, spec)

    def function(a, b):
        y = lax.with_sharding_constraint(jnp.einsum("btd,de->bte", a, b), place(after))
        return jnp.einsum("bte,bse->", y, y)

    module, plan, machine = folder / "module.mlir", folder / "plan.json", folder / "machine.json"
    # XLA's products on CPUs ask for no workspace.
    machine.write_text('{"version": 1, "base": "h100", "executor": {"name": "xla-gpu", "workspace_bytes": 0}}')
    module.write_text(jax.jit(function, in_shardings=(place(x), place(w))).lower(*shapes).as_text())
    for arguments in (["plan", module, "--mesh", "x=8", "--machine", machine, "--out", plan], ["explain", plan]):
        run = subprocess.run([CLEAVE, *arguments], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
    return float(re.search(r"memory of a device\npeak ([\d.]+) MiB", run.stdout).group(1)) * (1 << 20)


@pytest.mark.parametrize("name", CASES)
def test_memory_of_a_collective_between_products(name, tmp_path):
    x, w, after, collective = CASES[name]
    d, e = (4096, 256) if "x" in w else (512, 512)
    shapes = jax.ShapeDtypeStruct((B, T, d), jnp.float32), jax.ShapeDtypeStruct((d, e), jnp.float32)
    compiled = compiled_bytes(x, w, collective, shapes)
    predicted = predicted_bytes(x, w, after, shapes, tmp_path)
    assert 0.97 <= predicted / compiled <= 1.03, (predicted / (1 << 20), compiled / (1 << 20))
