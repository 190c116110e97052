"""Every incorrect rule of docs/dtensor-audit.md, run again by DTensor alone: each program ends with status 1 and says WRONG.

All of them run in one other process, since most of the time goes into the start. With another PyTorch than that of the audit, a
finding that no longer holds is skipped, and named.
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed._local_tensor")

from cleave.torch import findings

KNOWN = json.loads((pathlib.Path(__file__).parent / "dtensor_findings.json").read_text())
ROWS = KNOWN["findings"]


def program(row):
    return findings.script(row["rule"], row["difference"], row["finding"])


def run_all():
    """For the other process: of each finding, the status of its program and what it printed."""
    import torch.distributed as dist

    outcomes = []
    for row in ROWS:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(program(row), row["rule"], "exec"), {"__name__": "__main__"})  # noqa: S102: it is our own program
            status = 0
        except SystemExit as end:
            status = end.code
        except Exception as error:  # noqa: BLE001: told by the test
            status, printed = f"{type(error).__name__}: {error}", printed
        outcomes.append([status, printed.getvalue()])
        if dist.is_initialized():
            dist.destroy_process_group()
    return outcomes


@pytest.fixture(scope="module")
def outcomes():
    code = "import json, test_dtensor_findings as t; print('@@' + json.dumps(t.run_all()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.rsplit("@@", 1)[1])


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{n + 1} {row['rule']}" for n, row in enumerate(ROWS)])
def test_a_finding_of_the_audit(number, outcomes):
    status, printed = outcomes[number]
    version = torch.__version__.split("+")[0]
    if version != KNOWN["torch"] and status != 1:
        pytest.skip(f"no longer holds: found in torch {KNOWN['torch']}, and in torch {version} the program ends with {status}")
    assert status == 1 and "WRONG" in printed, (status, printed[-500:])


def test_a_program_by_itself():
    """As a reader runs it."""
    done = subprocess.run([sys.executable, "-c", program(ROWS[0])], capture_output=True, text=True)
    assert done.returncode == (1 if "WRONG" in done.stdout else 0), done.stderr
    assert torch.__version__.split("+")[0] != KNOWN["torch"] or "WRONG" in done.stdout
