"""`cleave hlo` on what XLA compiled for eight devices: counts of programs whose collectives are known, and every collective of
train steps beside the same module as a protocol buffer, which has numbers where the text has syntax."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import hlo_proto

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/xla"))
import steps  # noqa: E402

CLEAVE = os.environ["CLEAVE_COMMAND"]


def mesh_of(**axes):
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes))


def read(compiled, *options):
    run = subprocess.run([CLEAVE, "hlo", "-", "--json", *options], input=compiled.as_text(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def manual(function, mesh, inputs, outputs, *arguments):
    mapped = jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
    return jax.jit(mapped).lower(*arguments).compile()


def found(program):
    return {(c["kind"], len(c["groups"][0]) if c["groups"] else 2): (c["executions"], c["received_bytes"])
            for c in program["collectives"]}


def test_collectives_of_known_size():
    """A shard is 32x8 floats: 1024 bytes."""
    def body(a):
        return (jax.lax.psum(a, "x"), jax.lax.all_gather(a, "y", axis=0, tiled=True), jax.lax.psum_scatter(a, "y", tiled=True),
                jax.lax.all_to_all(a, "x", 0, 1, tiled=True), jax.lax.ppermute(a, "y", [(0, 1), (1, 2), (2, 3), (3, 0)]))
    compiled = manual(body, mesh_of(x=2, y=4), P("x", "y"), P(), jax.ShapeDtypeStruct((64, 32), jnp.float32))
    program = read(compiled)
    assert program["partitions"] == 8
    assert found(program) == {("all-reduce", 2): (1, 1024), ("all-gather", 4): (1, 3072), ("reduce-scatter", 4): (1, 768),
                              ("all-to-all", 2): (1, 512), ("collective-permute", 2): (1, 1024)}
    by_kind = {c["kind"]: c for c in program["collectives"]}
    assert by_kind["all-reduce"]["groups"] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert by_kind["collective-permute"]["pairs"] == [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]
    assert by_kind["reduce-scatter"]["op_name"].endswith("reduce_scatter")


def test_loops_and_branches():
    """psum over y runs 3x5 times, one over x in a branch of the outer loop, and a permute in the other."""
    def inner(c, _):
        return jax.lax.psum(c, "y") * 0.25, None

    def outer(c, _):
        c, _ = jax.lax.scan(inner, c, None, length=5)
        c = jax.lax.cond(c[0, 0] > 0, lambda z: jax.lax.ppermute(z, "x", [(0, 1), (1, 0)]), lambda z: jax.lax.pmax(z, "y"), c)
        return c, None
    compiled = manual(lambda a: jax.lax.scan(outer, a, None, length=3)[0], mesh_of(x=2, y=4), P("x", "y"), P("x", "y"),
                      jax.ShapeDtypeStruct((64, 32), jnp.float32))
    program = read(compiled)
    runs = {(c["kind"], c["in_branch"]): (c["executions"], c["counted"], c["received_bytes"]) for c in program["collectives"]}
    assert runs == {("all-reduce", False): (15, 15, 1536), ("all-reduce", True): (3, 3, 1536),
                    ("collective-permute", True): (3, 0, 1024)}
    assert program["received_bytes"] == 18 * 1536 and not program["unknown_loops"]


def test_unknown_trips_are_said():
    loop = lambda a: jax.lax.while_loop(lambda s: s[0, 0] < 1e6, lambda s: jax.lax.psum(s, "x"), a)
    compiled = manual(loop, mesh_of(x=8), P("x"), P("x"), jax.ShapeDtypeStruct((64, 32), jnp.float32))
    assert read(compiled)["received_bytes"] == 2 * 1024 * 7 / 8
    program = read(compiled, "--trips", "11")
    assert program["received_bytes"] == 11 * 2 * 1024 * 7 / 8
    assert len(program["unknown_loops"]) == 1 and not program["collectives"][0]["trips_known"]


def argument_shardings(tree, mesh):
    """Every array over x along its first dimension and over y along its last one, if they divide: XLA finds the rest."""
    def one(a):
        parts = [None] * len(a.shape)
        if parts and a.shape[-1] % 4 == 0:
            parts[-1] = "y"
        if parts and parts[0] is None and a.shape[0] % 2 == 0:
            parts[0] = "x"
        return NamedSharding(mesh, P(*parts))
    return jax.tree.map(one, tree)


@pytest.mark.parametrize("name", ["gpt", "moe", "vit"])
def test_every_collective_of_a_step_is_that_of_the_proto(name):
    function, arguments = steps.step(name, steps.SMALL[name])
    mesh = mesh_of(x=2, y=4)
    compiled = jax.jit(function, keep_unused=True, donate_argnums=steps.DONATED,
                       in_shardings=argument_shardings(arguments, mesh)).lower(*arguments).compile()
    program = read(compiled, "--temporaries", str(compiled.memory_analysis().temp_size_in_bytes))
    expected = hlo_proto.collectives(compiled.runtime_executable().hlo_modules()[0])
    assert len(expected) > 5
    have = {c["name"]: (c["kind"], c["operand_bytes"], sorted(map(sorted, c["groups"])), sorted(c["pairs"]))
            for c in program["collectives"]}
    assert have == expected
    memory, said = compiled.memory_analysis(), program["memory"]
    assert said["arguments"] == memory.argument_size_in_bytes
    assert said["aliased"] == memory.alias_size_in_bytes
    count = len(jax.tree.leaves(jax.eval_shape(function, *arguments)))
    assert said["results"] == memory.output_size_in_bytes - 8 * count  # XLA for CPUs counts its table of results


def test_text_that_is_not_compiled_hlo():
    lowered = jax.jit(lambda x: x + 1).lower(1.0).as_text()
    for text, said in [("", "is empty"), (lowered, "take compiled.as_text()"), ("HloModule m\n", "no computations")]:
        run = subprocess.run([CLEAVE, "hlo", "-"], input=text, capture_output=True, text=True)
        assert run.returncode == 1 and said in run.stderr and len(run.stderr.strip().splitlines()) == 1
