"""Programs of all devices as torch graphs: every rank's graph runs in this process, in step with the others."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cleave  # noqa: E402
from cleave.torch.execution import NamedGroups, Ranks, to_fx  # noqa: E402
from torch_execution_support import close, examples  # noqa: E402

sys.path.append(str(Path(__file__).parent.parent / "reference"))
from random_modules import Generator  # noqa: E402

torch.set_num_threads(1)
MESHES = ["x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=2,z=2", "x=5", "x=2,y=3"]


class Programs(Generator):
    """Without ops that say nothing, and without loops, which need not end."""

    WEIGHTS = {kind: 0 if kind in ("unknown", "constraint", "group", "barrier", "while") else weight
               for kind, weight in Generator.WEIGHTS.items()}


def layouts(manual, after):
    """The axes of each dimension, for the arguments ("(") or results ("->") of @main of a manual module."""
    line = re.search(r"func.func (?:public )?@main.*", manual).group()
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
    """The parts of all devices, padded to the size of the largest; what is in the padding must not matter."""
    filler = np.nan if array.dtype.kind == "f" else 0
    parts = [array[tuple(slice(b, e) for b, e in box)] for box in boxes(array.shape, axes, mesh)]
    if not array.ndim:
        return parts
    largest = np.max([part.shape for part in parts], axis=0)
    return [np.pad(part, [(0, n - k) for n, k in zip(largest, part.shape)], constant_values=filler) for part in parts]


def check(text, spmd, manual, whole, exact=1e-4):
    """Runs all ranks, and compares the parts that they hold with the module's results on one device."""
    mesh = {name: int(size) for name, size in re.findall(r'"(\w+)"=(\d+)', re.search(r"sdy.mesh.*", manual).group())}
    count = int(np.prod(list(mesh.values())))
    expected = cleave.run(text, *whole)
    parts = [shards(array, axes, mesh) for array, axes in zip(whole, layouts(manual, "("))]
    ranks = Ranks([to_fx(spmd, rank=r, groups=NamedGroups(r)) for r in range(count)])
    results = ranks.run([[torch.from_numpy(np.array(part[r])) for part in parts] for r in range(count)])
    for i, (wanted, axes) in enumerate(zip(expected, layouts(manual, "->"))):
        wanted = np.asarray(wanted)
        for r, box in enumerate(boxes(wanted.shape, axes, mesh)):
            own = results[r][i].numpy()[tuple(slice(0, e - b) for b, e in box)]
            assert close(own, wanted[tuple(slice(b, e) for b, e in box)], exact), f"result {i} of device {r} of {mesh}"
    return ranks


@pytest.mark.parametrize("seed", range(int(os.environ.get("CLEAVE_TORCH_SEEDS", 25))))
def test_random_programs_and_shardings(seed):
    mesh = random.Random(seed).choice(MESHES)
    module = cleave.Module.parse(Programs(seed, ops=10).module()).run_passes("sdy-drop-sharding-and-mesh")
    sharded = command(module.text(), f"-cleave-random-shardings=mesh={mesh} seed={seed}")
    sharded = re.sub(r"func.func @main.*", lambda line: re.sub(r", unreduced=\w*\{.*?\}", "", line.group()), sharded)
    manual, spmd = command(sharded, "-cleave-partition=form=manual"), command(sharded, "-cleave-partition")
    check(module.text(), spmd, manual, examples(module, seed))


def command(text, *options):
    done = subprocess.run([os.environ.get("CLEAVE_COMMAND", "build/release/cleave"), "opt", "-", *options], input=text,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


PLANS = [
    ("model:gpt?step=grad&layers=1&d=32&heads=4&vocab=64&hidden=64", {"x": 2, "y": 2}, "800KiB"),
    ("model:gpt?step=train&layers=1&d=32&heads=4&vocab=50&hidden=36&batch=3&length=10", {"x": 4}, "400KiB"),
    ("model:mlp?d=17&hidden=31&batch=7&step=train", {"x": 2, "y": 2, "z": 2}, None),
    ("model:mlp?d=64&hidden=256&batch=8&step=grad", {"x": 4}, "500KiB"),
    ("model:moe?step=grad&layers=1&d=32&heads=4&vocab=64&hidden=64&batch=4&length=16", {"x": 2, "y": 2}, "800KiB"),
    ("model:resnet?step=grad&channels=8&size=8&batch=2&blocks=1,1", {"x": 2, "y": 2}, None),
    ("model:unet?step=grad&channels=8&size=8&batch=2&embedding=8", {"x": 2}, None),
]


@pytest.mark.parametrize("name, mesh, memory", PLANS, ids=[plan[0].split("?")[0][6:] + str(i) for i, plan in enumerate(PLANS)])
def test_planned_steps(name, mesh, memory):
    module = cleave.Module.load(name)
    options = {} if memory is None else {"memory": memory}
    plan = cleave.plan(module, mesh=mesh, **options)
    ranks = check(module.text(), plan.export("spmd"), plan.export("manual"), examples(module, 1), exact=2e-3)
    planned = {}
    for row in plan.collectives:
        if row["kind"] != "all_slice":  # nothing is sent
            planned[row["kind"]] = np.add(planned.get(row["kind"], (0, 0)), (row["count"], row["bytes"]))
    for kind, (count, received) in planned.items():
        assert ranks.counts[kind] == count, (kind, ranks.counts, planned)
        assert ranks.received[kind] == pytest.approx(received, rel=1e-6), (kind, ranks.received, planned)
    assert set(ranks.counts) == set(planned)
