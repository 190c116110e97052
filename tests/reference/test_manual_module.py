"""Programs of devices as one module that XLA runs on all of them: a planned train step gives the results of one device,
in the shards of every device."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import plans_in_xla  # noqa: E402

CLEAVE = os.environ["CLEAVE_COMMAND"]


@pytest.mark.parametrize("name", ["gpt", "moe"])
def test_the_partitioned_step_is_the_same_in_xla(name, tmp_path):
    case = plans_in_xla.Case(CLEAVE, tmp_path, name, plans_in_xla.steps.SMALL[name], "x=2,y=4", seconds=5)
    limit = case.tight()
    programs = case.run("plan", case.module, "--mesh", "x=2,y=4", "--memory", limit, "--memory-share", 1, "--time", 5)
    assert "all_" in programs, "nothing is sharded"
    assert plans_in_xla.difference(case, "new", limit) < 1e-4
