"""`cleave verify --engine xla`: plans of JAX's steps, run by XLA's CPU plugin from the command."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/xla"))
import corpus  # noqa: E402
import exports  # noqa: E402

CLEAVE = os.environ["CLEAVE_COMMAND"]


def verify(step, plan, *options):
    return subprocess.run([CLEAVE, "verify", step.module, "--plan", plan, "--engine", *(options or ["xla"])],
                          capture_output=True, text=True)


@pytest.mark.parametrize("name, mesh, share, uneven", [("gpt", "x=2,y=4", 1.05, 0), ("lstm", "x=2,y=4", 1.05, 0),
                                                      ("dlrm", "x=2,y=2,z=2", 1.2, 1)])
def test_xla_does_what_was_planned(name, mesh, share, uneven, tmp_path):
    step = exports.Step(CLEAVE, tmp_path, name, *corpus.STEPS[name][uneven]())
    file, plan = step.plan(mesh, "tight", "--memory", int(share * step.least_memory(mesh)))
    assert exports.planned_bytes(plan) > 0
    run = verify(step, file)
    assert run.returncode == 0 and run.stdout.endswith("\nverified\n"), run.stdout + run.stderr
    asked, planned = re.search(r"moves: (\S+ \S+) received by a device, (\S+ \S+) planned", run.stdout).groups()
    assert uneven or asked == planned


def test_xla_takes_gathers_out_of_a_loop(tmp_path):
    """The weights of a decode loop are gathered once, and not in every step: less than was asked for, and said."""
    step = exports.Step(CLEAVE, tmp_path, "decode", *corpus.STEPS["decode"][0]())
    file, _ = step.plan("x=8", "tight", "--memory", int(1.6 * step.least_memory("x=8")))
    run = verify(step, file)
    assert run.returncode == 0 and "it takes out of loops what does not change there" in run.stdout, run.stdout + run.stderr


def test_xla_for_cpus_moves_bf16_as_f32(tmp_path):
    model, plan = "model:gpt?step=train&dtype=bf16", str(tmp_path / "plan.json")
    subprocess.run([CLEAVE, "plan", model, "--mesh", "data=2,model=4", "--memory", "4MiB", "--memory-share", "1", "--out", plan],
                   check=True, capture_output=True)
    run = subprocess.run([CLEAVE, "verify", model, "--plan", plan, "--engine", "xla"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "XLA for CPUs computes bf16 as f32, and moves twice the bytes for it" in run.stdout


def test_engines_that_are_not_there(tmp_path):
    step = exports.Step(CLEAVE, tmp_path, "lstm", *corpus.STEPS["lstm"][0]())
    file, _ = step.plan("x=8", "any")
    for engine, said in [("tpu", "there is no engine 'tpu'"), ("xla:/nowhere.so", "there is no such file")]:
        run = verify(step, file, engine)
        assert run.returncode == 1 and said in run.stderr and len(run.stderr.splitlines()) == 1
