"""Plans as other frameworks take them: PartitionSpecs that jax.jit compiles and runs with, sdy text that
jaxlib reads, placements that DTensor distributes by."""

import os
import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

import jax_models

CLEAVE = os.environ["CLEAVE_COMMAND"]


def plan(text, *options, form, mesh="data=2,model=4"):
    run = subprocess.run([CLEAVE, "plan", "-", "--mesh", mesh, "--machine", "h100", "--export", form, *options],
                         input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def load(text):
    names = {}
    exec(text, names)
    return names


def shardings(names, which, tree):
    return jax.tree.unflatten(tree, [NamedSharding(names["mesh"], spec) for spec in names[which]])


def mlp(x, w1, w2):
    return jnp.tanh(x @ w1) @ w2


def mlp_arguments(rows, width=1024, hidden=4096):
    shaped = jax_models.shaped
    return shaped(rows, width), shaped(width, hidden), shaped(hidden, width)


def tight_limit(text):
    """Small models fit everywhere, so that it is best to replicate them: the least memory makes them shard."""
    run = subprocess.run([CLEAVE, "plan", "-", "--mesh", "data=2,model=4", "--memory", "1KiB"], input=text,
                         capture_output=True, text=True)
    amount, unit = re.search(r"([\d.]+) (bytes|MiB) is enough", run.stdout).groups()
    return str(int(float(amount) * (1 if unit == "bytes" else 1 << 20) * 1.1))


@pytest.mark.parametrize("name", ["transformer", "mixture_of_experts", "resnet"])
def test_jax_compiles_and_runs_with_the_specs(name):
    step, arguments = jax_models.MODELS[name]()
    plain = jax.jit(step, keep_unused=True)
    text = plain.lower(*arguments).as_text()
    names = load(plan(text, "--memory", tight_limit(text), form="jax"))
    assert any(any(spec) for spec in names["in_specs"]), "everything is replicated"
    leaves, tree = jax.tree.flatten(arguments)
    results = jax.tree.structure(jax.eval_shape(step, *arguments))
    compiled = jax.jit(step, keep_unused=True, in_shardings=shardings(names, "in_specs", tree),
                       out_shardings=shardings(names, "out_specs", results)).lower(*arguments).compile()
    random = np.random.default_rng(1)
    values = jax.tree.unflatten(tree, [
        (random.normal(size=leaf.shape) * 0.1 + (0.5 if leaf.shape == () else 0)).astype(leaf.dtype)
        if jnp.issubdtype(leaf.dtype, jnp.floating) else random.integers(0, 8, leaf.shape).astype(leaf.dtype)
        for leaf in leaves])
    values = jax.tree.map(lambda v: np.abs(v) if v.dtype == np.float32 else v, values)
    expected = jax.tree.leaves(plain(*values))
    placed = jax.device_put(values, shardings(names, "in_specs", tree))
    for want, have in zip(expected, jax.tree.leaves(compiled(*placed))):
        np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=2e-2, atol=2e-3)


def groups_of(hlo, kind):
    """Sizes of the groups of all collectives of one kind."""
    sizes = []
    for line in re.findall(rf" {kind}(?:-start)?\(.*", hlo):
        explicit = re.search(r"replica_groups=\{\{([\d,]*)\}", line)
        iota = re.search(r"replica_groups=\[\d+,(\d+)\]", line)
        sizes.append(int(iota.group(1)) if iota else len(explicit.group(1).split(",")))
    return sizes


def test_xla_needs_the_collective_that_was_planned():
    """Columns then rows over "model": one sum of the result, which is what XLA inserts too."""
    arguments = mlp_arguments(64)
    text = jax.jit(mlp).lower(*arguments).as_text()
    pins = ["--pin", "arg1=[{}, {\"model\"}]", "--pin", "arg2=[{\"model\"}, {}]", "--pin", "arg0=[{\"data\"}, {}]",
            "--pin", "dot_general.1=[{\"data\"}, {}]"]
    run = subprocess.run([CLEAVE, "plan", "-", "--mesh", "data=2,model=4", *pins], input=text, capture_output=True,
                         text=True)
    planned = re.findall(r"(all_\w+|reduce_scatter|collective_permute) (\".*?\") .*x(\d+)", run.stdout)
    moves = [p for p in planned if p[0] != "all_slice"]
    names = load(plan(text, *pins, form="jax"))
    compiled = jax.jit(mlp, in_shardings=shardings(names, "in_specs", jax.tree.structure(arguments)),
                       out_shardings=NamedSharding(names["mesh"], names["out_specs"][0])).lower(*arguments).compile()
    hlo = compiled.as_text()
    # All sums over "model", whether as one all_reduce or as a scatter and a gather.
    assert {axes for _, axes, _ in moves} == {'"model"'}
    assert groups_of(hlo, "all-reduce") == [4]
    assert groups_of(hlo, "all-gather") == groups_of(hlo, "all-to-all") == []


def test_uneven_dimensions_are_left_whole_and_said():
    arguments = mlp_arguments(10)
    text = jax.jit(mlp).lower(*arguments).as_text()
    names_text = plan(text, "--pin", "arg0=[{\"model\"}, {}]", form="jax")
    assert "P(),  # arg0; dimension 0 is planned as {\"model\"}, 10 over 4 is uneven" in names_text
    names = load(names_text)
    jax.jit(mlp, in_shardings=shardings(names, "in_specs", jax.tree.structure(arguments))).lower(*arguments).compile()


def test_jaxlib_reads_the_sdy_module():
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir

    step, arguments = jax_models.MODELS["transformer"]()
    text = jax.jit(step).lower(*arguments).as_text()
    text = plan(text, "--memory", tight_limit(text), form="sdy")
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
    assert "sdy.sharding" in text


@pytest.fixture(scope="module")
def fake_devices():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    yield
    dist.destroy_process_group()


def test_dtensor_distributes_by_the_placements(fake_devices):
    import torch
    from torch.distributed.tensor import distribute_tensor

    arguments = mlp_arguments(64)
    text = jax.jit(mlp).lower(*arguments).as_text()
    pins = ["--pin", "arg0=[{\"data\"}, {}]", "--pin", "arg1=[{\"model\"}, {\"data\"}]",
            "--pin", "arg2=[{\"data\", \"model\"}, {}]"]
    names = load(plan(text, *pins, form="dtensor").replace('"cuda"', '"cpu"'))
    locals_ = {"arg0": (32, 1024), "arg1": (256, 2048), "arg2": (512, 1024)}
    for (name, placements), leaf in zip(names["arguments"].items(), arguments):
        tensor = distribute_tensor(torch.zeros(leaf.shape), names["mesh"], placements)
        assert tuple(tensor.to_local().shape) == locals_[name]
        assert tuple(tensor.shape) == leaf.shape
    assert list(names["results"]) == ["result0"]


def test_dtensor_runs_a_planned_step(fake_devices):
    """The layouts of arguments are enough for DTensor's own propagation to run the model."""
    import torch
    from torch.distributed.tensor import distribute_tensor

    arguments = mlp_arguments(64)
    text = jax.jit(mlp).lower(*arguments).as_text()
    names = load(plan(text, "--pin", "arg1=[{}, {\"model\"}]", "--pin", "arg2=[{\"model\"}, {}]",
                      "--pin", "arg0=[{\"data\"}, {}]", form="dtensor").replace('"cuda"', '"cpu"'))
    x, w1, w2 = (distribute_tensor(torch.zeros(leaf.shape), names["mesh"], placements)
                 for placements, leaf in zip(names["arguments"].values(), arguments))
    y = torch.tanh(x @ w1) @ w2
    assert y.shape == (64, 1024)
    assert [p.is_partial() for p in y.placements] == [False, True]  # the sum that the plan completes
    assert y.redistribute(names["mesh"], names["results"]["result0"]).shape == (64, 1024)
