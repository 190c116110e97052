"""The package itself: its version, its names, its stubs, what it imports, errors and Ctrl-C."""

import ast
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import tomllib

import pytest

import cleave

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(cleave.__file__).parent


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_there_is_one_version():
    project = (ROOT / "CMakeLists.txt").read_text()
    assert cleave.__version__ == re.search(r"project\(cleave VERSION ([0-9.]+)", project)[1]
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert told["project"]["dynamic"] == ["version"] and "version" not in told["project"]
    pattern = told["tool"]["scikit-build"]["metadata"]["version"]["regex"]
    assert re.search(pattern, project)["value"] == cleave.__version__


def test_nothing_is_needed_at_run_time():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert told["dependencies"] == []
    assert {"jax", "torch"} <= set(told["optional-dependencies"])
    assert told["requires-python"] == ">=3.11"


def test_every_name_is_there():
    for name in cleave.__all__:
        assert getattr(cleave, name) is not None
    assert set(cleave.__all__) <= set(dir(cleave))
    with pytest.raises(AttributeError, match="no attribute 'sharding'"):
        cleave.sharding
    # Names that are found when they are used, whatever is imported first.
    assert run_python("import cleave.plans, cleave.resharding; print(callable(cleave.plan), callable(cleave.reshard))") == "True True\n"


def test_import_brings_no_other_library():
    """Which keeps it fast: NumPy alone takes longer to import than all of Cleave."""
    brought = run_python("import sys; before = set(sys.modules); import cleave; print(*sorted(set(sys.modules) - before))").split()
    assert not {"numpy", "jax", "torch", "logging", "json", "re"} & set(brought)


def test_planning_needs_no_numpy():
    code = """
import sys
sys.modules["numpy"] = None
import cleave
plan = cleave.plan("model:mlp", mesh=cleave.Mesh(x=2))
print(plan.verify().splitlines()[-1], len(cleave.show(cleave.Sharding("x=2", ["x"]), (4,))._repr_html_()) > 100)
"""
    assert run_python(code) == "verified True\n"


def test_stubs_are_there_and_can_be_read():
    assert (PACKAGE / "py.typed").exists()
    stub = PACKAGE / "_core.pyi"
    if not stub.exists():
        pytest.skip("the target cleave_python_stub was not built")
    text = stub.read_text()
    names = {node.name for node in ast.parse(text).body if hasattr(node, "name")}
    assert "<" not in re.sub(r'"[^"]*"|\'[^\']*\'|""".*?"""', "", text, flags=re.S)
    assert {"Mesh", "Sharding", "Rule", "Module", "Machine", "Plan", "UserError"} <= names


def test_stubs_have_all_names_of_tensors():
    stub = PACKAGE / "_core.pyi"
    if not stub.exists():
        pytest.skip("the target cleave_python_stub was not built")
    tensor = next(node for node in ast.parse(stub.read_text()).body if getattr(node, "name", "") == "Tensor")
    said = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in dir(cleave.Tensor) if not name.startswith("_")} <= said


TYPED = """
import jax
import cleave
import cleave.jax as cj

def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, float]:
    return w - x, 1.0

mesh = jax.make_mesh((1,), ("data",))
planned = cj.autoshard(step, mesh, machine="h100", fit="compiled", donate_argnums=0)
w, loss = planned(jax.numpy.ones(4), jax.numpy.ones(4))
reveal_type(w)
reveal_type(planned.check().ok)
reveal_type(planned.plan.layouts)
reveal_type((cleave.tensor([1.0]) + 1).sum(0))
planned("x", w)
"""


def test_type_checkers_know_the_types(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("jax")
    (tmp_path / "user.py").write_text(TYPED)
    said = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, "user.py"],
                          cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path[1:]))},
                          capture_output=True, text=True).stdout
    found = [re.sub(r"[\w.]*\.", "", text) for text in re.findall(r'Revealed type is "([^"]*)"', said)]
    assert found[:2] == ["Array", "bool"] and found[2].startswith("dict[str, P") and found[3] == "Tensor", said
    assert re.findall(r"error: .*\[(.*)\]", said) == ["arg-type"]


def test_errors_are_exceptions_with_the_same_words():
    assert issubclass(cleave.UserError, ValueError) and issubclass(cleave.InternalError, RuntimeError)
    with pytest.raises(cleave.UserError) as ours:
        cleave.Module.load("model:no_such_model")
    command = os.environ.get("CLEAVE_COMMAND")
    if command:
        theirs = subprocess.run([command, "trace", "model:no_such_model"], capture_output=True, text=True)
        assert theirs.stderr.strip() == f"error: {ours.value}"


def test_control_c_ends_planning():
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cleave.plan("model:gpt?layers=24&d=512&heads=8&step=train", mesh="a=4,b=4,c=4", time_limit=60, gap=0, apart=True)
    timer.cancel()


def test_progress_of_planning_is_told():
    lines = []
    cleave.plan("model:mlp?step=train", mesh="x=2,y=2", progress=lines.append)
    assert lines and all(isinstance(line, str) for line in lines)


def test_a_terminal_gets_a_bar(monkeypatch):
    import io

    from cleave import progress

    assert progress.with_bar(" 25 % relu") == "[=====               ]  25 % relu"
    assert progress.with_bar("3 of 8 meshes: 50 % better") == "3 of 8 meshes: 50 % better"
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    line = progress.TerminalLine(io.StringIO())
    line("100 % relu")
    assert line.stream.getvalue().endswith("[====================] 100 % relu")
    line.close()
    assert line.stream.getvalue().endswith("\r")


def test_the_smoke_test_of_wheels_passes():
    """What scripts/clean-room runs on a bare machine; the command is the one that was built."""
    command = os.environ.get("CLEAVE_COMMAND")
    if not command:
        pytest.skip("CLEAVE_COMMAND names the command")
    code = (ROOT / "tests/python/smoke.py").read_text().replace(
        'os.path.join(os.path.dirname(sys.executable), "cleave")', repr(command))
    assert run_python(code).endswith("with NumPy: well\n")


def test_an_empty_file_is_no_module(tmp_path):
    (tmp_path / "empty.mlir").write_text(" \n")
    with pytest.raises(cleave.UserError, match="empty.mlir' is empty; a module was expected"):
        cleave.Module.load(str(tmp_path / "empty.mlir"))
