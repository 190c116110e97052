"""The scripts of examples/torch as a user runs them: losses of the planned model are those of the plain one, something is split,
and the check says ok."""

import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/torch"


@pytest.mark.parametrize("name", ["gpt", "moe", "resnet"])
def test_example(name):
    ran = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", "--steps", "4"], capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr[-3000:]
    losses = re.findall(r"loss (\S+)  of the plain model (\S+)", ran.stdout)
    assert len(losses) == 4
    assert all(abs(float(a) - float(b)) < 2e-3 for a, b in losses), losses
    assert re.search(r" lies? as .*Shard\(", ran.stdout), ran.stdout
    assert ran.stdout.count("\nok ") == 2 and "NOT" not in ran.stdout, ran.stdout
