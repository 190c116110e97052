"""Emitted strategies and tests for DTensor, run before anyone sees them."""

import json
import os
import subprocess
import sys
import tempfile

TIMEOUT = 600


def failures(rule, tests, overload):
    """What fails, a line each; nothing if the strategy loads and every case passes."""
    return failures_of([(rule, tests)], in_process=not overload.startswith("aten."))[0]


def failures_of(pairs, in_process=False):
    """The same of several strategies, in one other process. Custom operators exist in this one alone."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (rule, tests) in enumerate(pairs):
            os.makedirs(os.path.join(folder, str(number)))
            named = tests.split('with_name("', 1)[1].split('"', 1)[0]
            write(os.path.join(folder, str(number), named), rule)
            write(os.path.join(folder, str(number), "tests.py"), tests)
        if in_process:
            return run_all(folder)
        command = [sys.executable, "-m", "cleave.emitted", folder]
        path = os.pathsep.join(p for p in sys.path if p)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "PYTHONPATH": path})
        except subprocess.TimeoutExpired:
            return [[f"not finished after {TIMEOUT} seconds"] for _ in pairs]
        answer = os.path.join(folder, "answer.json")
        if not os.path.exists(answer):
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return [[f"the process that runs it ended with {done.returncode}: {last}"] for _ in pairs]
        with open(answer) as file:
            return json.load(file)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def run_all(folder):
    numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    return [run_one(os.path.join(folder, str(number), "tests.py"), f"cleave_emitted_{number}") for number in numbers]


def run_one(path, name):
    import importlib.util

    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses ask for it
        spec.loader.exec_module(module)
        if not module.CASES:
            return ["no strategy beside R -> R was found, so there is no test"]
        failed = []
        with module.registered(), module.ranks() as mesh:
            for args, kwargs, placements, expected in module.CASES:
                try:
                    module.check(mesh, args, kwargs, placements, expected)
                except Exception as error:  # noqa: BLE001: all cases are told
                    failed.append(f"{call_text(args, kwargs)} {placements}: {words(error)}")
        return failed
    except Exception as error:  # noqa: BLE001: code that does not load
        return [f"it does not load: {words(error)}"]
    finally:
        sys.modules.pop(name, None)


def call_text(args, kwargs):
    def one(value):
        if isinstance(value, list) and value and hasattr(value[0], "shape"):
            return "[" + ", ".join(map(one, value)) + "]"
        return "x".join(map(str, value.shape)) or "scalar" if hasattr(value, "shape") else repr(value)

    return ", ".join([*map(one, args), *(f"{k}={one(v)}" for k, v in kwargs.items())])


def words(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def comment(failed):
    """The same as a comment for the top of the code."""
    if not failed:
        return ""
    shown = [f"#   {line}\n" for line in failed[:20]]
    more = f"#   and {len(failed) - 20} more\n" if len(failed) > 20 else ""
    return f"# {len(failed)} of the tests fail when DTensor runs this:\n" + "".join(shown) + more + "\n"


if __name__ == "__main__":
    made = run_all(sys.argv[1])
    write(os.path.join(sys.argv[1], "answer.json"), json.dumps(made))
