"""The program that is the same for all devices, executed by XLA: random modules under random shardings of every value.

Cleave prints the program, and XLA's CPU client compiles it as it stands; what each device returns is compared with its
part of what XLA gives for the whole module on one device. Cleave runs the same program as one manual computation."""

import random
import re
import subprocess

import jax
import numpy as np
import pytest
from cleave_runs import CLEAVE, run_text
from random_modules import Generator
from xla_partitions import Partitions

MESHES = ["x=2", "x=3", "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2", "x=5", "x=8"]


def cleave(text, *options):
    done = subprocess.run([CLEAVE, "opt", "-", *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def signature(text):
    """Shapes and dtypes of @main's arguments, read by JAX's own parser."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        main = next(op for op in module.body.operations if op.OPERATION_NAME == "func.func" and op.name.value == "main")
        types = [ir.RankedTensorType(t) for t in main.type.inputs]
        return [(tuple(t.shape), str(t.element_type)) for t in types]


NUMPY = {"f32": np.float32, "i32": np.int32, "i64": np.int64, "i1": np.bool_}


def arguments(types, rng):
    made = []
    for shape, dtype in types:
        kind = NUMPY[dtype]
        made.append(rng.standard_normal(shape).astype(kind) if kind == np.float32 else rng.integers(0, 4, shape).astype(kind))
    return made


def layouts(manual, after):
    """The axes of each dimension, for the arguments ("(") or results ("->") of @main of a manual module."""
    line = re.search(r"func.func @main.*", manual).group()
    part = line[line.index("->"):] if after == "->" else line[:line.index("->")]
    return [[re.findall(r'"(\w+)"', dim) for dim in re.findall(r"\{(.*?)\}", spec)]
            for spec in re.findall(r"sharding<@mesh, \[(.*?)\]>", part)]


def boxes(shape, axes, mesh):
    """By device: where its part begins and ends, dimension by dimension. Parts are ceil(n/w) long."""
    names, sizes = list(mesh), list(mesh.values())
    for place in np.ndindex(*sizes):
        box = []
        for n, dim in zip(shape, axes):
            index, count = 0, 1
            for name in dim:
                k = names.index(name)
                index, count = index * sizes[k] + place[k], count * sizes[k]
            chunk = -(-n // count)
            box.append((min(n, index * chunk), min(n, (index + 1) * chunk)))
        yield box


def shards(array, axes, mesh):
    """The parts of all devices, padded to the size of the largest, along a new first dimension."""
    parts = [array[tuple(slice(b, e) for b, e in box)] for box in boxes(array.shape, axes, mesh)]
    largest = np.max([part.shape for part in parts], axis=0) if array.ndim else []
    padded = [np.pad(part, [(0, n - k) for n, k in zip(largest, part.shape)]) if part.ndim else part for part in parts]
    return np.stack(padded)


def close(actual, expected):
    if not np.issubdtype(expected.dtype, np.floating):
        return np.array_equal(actual, expected)
    # A maximum over XLA's CPU devices may drop a NaN.
    actual = np.where(np.isnan(expected), expected, actual)
    scale = max(1.0, float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0)))
    return np.allclose(actual, expected, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)


class Programs(Generator):
    """Without ops that say nothing, and without loops, which need not end."""

    WEIGHTS = {kind: 0 if kind in ("unknown", "constraint", "group", "barrier", "while") else weight
               for kind, weight in Generator.WEIGHTS.items()}


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    jax.config.update("jax_enable_x64", True)
    mesh = random.Random(seed).choice(MESHES)
    n = int(np.prod([int(axis.split("=")[1]) for axis in mesh.split(",")]))
    module = cleave(Programs(seed, ops=10).module(), "-sdy-drop-sharding-and-mesh")
    sharded = cleave(module, f"-cleave-random-shardings=mesh={mesh} seed={seed}")
    # No caller takes a pending result.
    sharded = re.sub(r"func.func @main.*", lambda line: re.sub(r", unreduced=\w*\{.*?\}", "", line.group()), sharded)
    whole = arguments(signature(module), np.random.default_rng(seed))

    manual = cleave(sharded, "-cleave-partition=form=manual")
    ours = zip(run_text(manual, whole), run_text(module, whole))
    assert all(close(a, e) for a, e in ours), "the manual form by Cleave"

    # XLA's own opinion of the module on one device: it leaves out initial values that it takes for identities.
    expected = [result[0] for result in Partitions(module, 1).run([array[None] for array in whole])]

    spmd = cleave(sharded, "-cleave-partition")
    mesh = {name: int(size) for name, size in re.findall(r'"(\w+)"=(\d+)', re.search(r"sdy.mesh.*", manual).group())}
    stacked = [shards(array, axes, mesh) for array, axes in zip(whole, layouts(manual, "("))]
    theirs = Partitions(spmd, n).run(stacked)
    for i, (actual, wanted, axes) in enumerate(zip(theirs, expected, layouts(manual, "->"))):
        for d, box in enumerate(boxes(wanted.shape, axes, mesh)):
            own = actual[d][tuple(slice(0, e - b) for b, e in box)]
            assert close(own, wanted[tuple(slice(b, e) for b, e in box)]), f"result {i} of device {d} of {mesh}"
