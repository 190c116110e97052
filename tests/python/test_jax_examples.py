"""The scripts of examples/jax as a user runs them: the loss falls, something is split, and the check says ok."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("jax")
pytest.importorskip("optax")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/jax"


def run(name):
    # The scripts ask for eight devices themselves.
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, str(EXAMPLES / name), "--steps", "4"], env=environment, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", ["diffusion.py", "gpt.py", "moe.py", "resnet.py"])
def test_the_loss_falls_and_the_check_is_good(name):
    said = run(name)
    losses = [float(loss) for loss in re.findall(r"^step \d+  loss (\S+)$", said, re.M)]
    assert len(losses) == 4 and losses[-1] < losses[0]

    verdicts = re.findall(r"^(ok|off|BAD)  +(.*)$", said, re.M)
    assert [verdict for verdict, _ in verdicts] == ["ok"] * 4, said
    results, received, arguments, memory = (line for _, line in verdicts)
    assert "results are those of the unsharded function" in results
    assert "as compiled" in received and "arguments of a device" in arguments
    assert memory.startswith("memory of a device") and "predicted for this compiler" in memory

    rows = re.findall(r"^ +(all-gather|all-reduce|reduce-scatter|all-to-all) +planned +(\S+ \S+) x[1-9]", said, re.M)
    assert rows and not received.startswith("a device receives 0 bytes"), "nothing is split"


def test_every_example_is_run_above():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"diffusion.py", "gpt.py", "moe.py", "resnet.py"}
