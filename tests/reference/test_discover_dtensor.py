"""The DTensor code that `cleave discover OP --emit dtensor` and `--emit dtensor-tests` write, run by PyTorch.

Strategies are registered as they are, in place of PyTorch's own for these operators, and the emitted tests run with
them: no communication, the placement of the result, the numbers. All ranks live in this process (LocalTensorMode).
"""

import importlib.util
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed._local_tensor")

import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")
WORLD = 2
OPERATORS = ["neg", "exp", "relu", "sign", "add", "sub", "mul", "div", "maximum", "minimum", "where", "sum",
             "amax", "mean", "prod", "argmax", "max_with_index", "var", "cumsum", "softmax", "transpose",
             "matmul", "bmm", "cross"]


# Called as black boxes with tensors of two dimensions, where `d > dim` and `d != dim` are easily confused.
BLACK_BOXES = [("logsumexp", "dim=0,1"), ("amin", "dim=-1,-2")]


def emit(operator, what, *arguments):
    return subprocess.run([CLEAVE, "discover", operator, "--emit", what, *arguments], check=True, capture_output=True,
                          text=True).stdout


def load(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mesh():
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    with LocalTensorMode(frozenset(range(WORLD))):
        yield init_device_mesh("cpu", (WORLD,))
    dist.destroy_process_group()


@pytest.fixture
def own_strategies():
    """Gives PyTorch its strategies back afterwards."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    tables = [propagator.op_single_dim_strategy_funcs, propagator.op_to_schema_info_for_single_dim_strategy]
    saved = [dict(table) for table in tables]
    yield
    for table, before in zip(tables, saved):
        table.clear()
        table.update(before)


def run_emitted(operator, mesh, tmp_path, *arguments):
    strategy = load(tmp_path / f"{operator}_strategy.py", emit(operator, "dtensor", *arguments))
    assert callable(getattr(strategy, f"{operator}_single_dim_strategy"))
    tests = load(tmp_path / f"{operator}_cases.py", emit(operator, "dtensor-tests", *arguments))
    run = getattr(tests, f"test_{operator}")
    assert len(tests.CASES) > 2
    failures = []
    for case in tests.CASES:
        try:
            run(mesh, *case)
        except Exception as error:  # noqa: BLE001: all cases are shown, not the first alone
            failures.append(f"{case[1:]}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} of {len(tests.CASES)}:\n" + "\n".join(failures)


@pytest.mark.parametrize("operator", OPERATORS)
def test_emitted_code_runs(operator, mesh, own_strategies, tmp_path):
    run_emitted(operator, mesh, tmp_path)


@pytest.mark.parametrize("operator, dims", BLACK_BOXES)
def test_emitted_code_of_a_black_box_runs(operator, dims, mesh, own_strategies, tmp_path):
    run_emitted(operator, mesh, tmp_path, "--command", f"{sys.executable} examples/discover/torch_op.py {operator}",
                "--shape", "4x7", "--attr", dims)
