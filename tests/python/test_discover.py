"""Discovery from Python: operators by name, modules, and functions over NumPy arrays."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cleave
from cleave import UserError


def held(report):
    """What holds on its own, without what follows from a replicated result."""
    return {rule.text for rule in report.rules if not rule.implied}


def test_an_operator_by_name():
    report = cleave.discover("relu")
    assert held(report) == {"R -> R", "P(max) -> P(max)", "P(min) -> P(min)", "S(d) -> S(d)"}
    assert {rule.verdict for rule in report.rules if not rule.implied} == {"proved"}
    refuted = {one.text: one for one in report.refuted}
    assert "expected" in refuted["P(sum) -> P(sum)"].witness
    assert "refuted: element 0" in report.replay(refuted["P(sum) -> P(sum)"])
    assert str(report).startswith("relu: ")
    assert "relu" in report.yaml().splitlines()[0]
    assert report.data and sum(report.counts.values()) > 100
    assert "#sdy.op_sharding_rule<" in report.emit("shardy")
    assert "relu" in report._repr_html_()


def test_the_same_as_the_command():
    command = os.environ.get("CLEAVE_COMMAND")
    if not command:
        pytest.skip("CLEAVE_COMMAND names the command")
    theirs = subprocess.check_output([command, "discover", "softmax", "--format", "yaml"], text=True)
    timeless = [line for line in theirs.splitlines() if "seconds" not in line]
    assert [line for line in cleave.discover("softmax").yaml().splitlines() if "seconds" not in line] == timeless


def test_shapes_attributes_meshes_and_gradients():
    report = cleave.discover("softmax", shapes=[(5, 4)], attrs={"dim": [0, 1]})
    assert {rule for rule in held(report) if rule.startswith("S")} == {"S(d) -> S(d) WHEN d != dim"}
    report = cleave.discover("matmul")
    assert "0 refuted" in report.on_mesh(2, 2)
    backward = cleave.discover("matmul", gradient=True)
    assert any("result 1: P(sum)" in text for text in held(backward))


def test_a_module():
    module = cleave.Module.parse("""
    func.func @main(%a: tensor<6x4xf64>) -> tensor<6x4xf64> {
      %0 = stablehlo.negate %a : tensor<6x4xf64>
      return %0 : tensor<6x4xf64>
    }""")
    texts = held(cleave.discover(module, name="minus"))
    assert {"P(sum) -> P(sum)", "P(max) -> P(min)"} <= texts and any(text.startswith("S(") for text in texts)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's, of parts with two columns
def test_numpy_cross():
    """A cross product mixes the last dimension, and is linear in each operand."""
    report = cleave.discover(np.cross, shapes=[(4, 3), (4, 3)], sweep={})
    assert report.op == "cross"
    texts = held(report)
    assert {"S(0), S(0) -> S(0)", "P(sum), R -> P(sum)", "R, P(sum) -> P(sum)"} <= texts
    assert not any("S(1)" in text for text in texts)


def test_a_function_of_ones_own():
    def affine(a, scale):
        return scale * a + 1

    report = cleave.discover(affine, shapes=[(6, 4)], attrs={"scale": [2.0, 3.0]})
    texts = held(report)
    assert {"R -> R", "P(avg) -> P(avg)", "P(max) -> P(max)", "S(d) -> S(d)"} <= texts
    assert "P(sum) -> P(sum)" not in texts  # the one is added on every device
    assert any(one.text == "P(sum) -> P(sum)" for one in report.refuted)


def test_several_results_and_integers():
    report = cleave.discover(lambda a: (a + 1, a.sum(0)), shapes=[(4, 3)], dtype="int32", name="two")
    texts = held(report)
    assert {"S(0) -> result 1: P(sum)", "S(1) -> result 1: S(0)", "S(d) -> result 0: S(d)"} <= texts


def test_a_function_that_raises():
    def never(a):
        raise RuntimeError("no luck today")

    with pytest.raises(UserError, match="RuntimeError: no luck today"):
        cleave.discover(never, shapes=[(6, 4)])

    def six_rows(a):
        if a.shape[0] != 6:
            raise ValueError("six rows")
        return a * 1.0

    report = cleave.discover(six_rows, shapes=[(6, 4)])
    texts = held(report)
    assert "S(1) -> S(1)" in texts and not any(text.startswith("S(0)") for text in texts)
    assert report.counts["rejected"] > 0


def test_functions_that_are_no_operators():
    state = iter(range(10**6))
    drift = cleave.discover(lambda a: a + next(state), shapes=[(4,)], name="drift")
    assert not drift.data["analysis"]["deterministic"] and "keeps a state" in drift.data["analysis"]["reason"] and not drift.rules
    with pytest.raises(UserError, match="no array"):
        cleave.discover(lambda a: {"a": a}, shapes=[(4,)], name="dictionary")


@pytest.mark.parametrize("call, words", [
    (lambda: cleave.discover("no_such_op"), "no_such_op"),
    (lambda: cleave.discover(lambda *arrays: arrays[0]), "shape"),
    (lambda: cleave.discover("relu", shapes=[(3,), (3,)]), "1 operands"),
    (lambda: cleave.discover("relu", attrs={"q": [1]}), "no attribute q"),
    (lambda: cleave.discover("relu", worlds=[1]), "2 to 256"),
    (lambda: cleave.discover("relu", shapes=[(9999, 9999)]), "smaller shapes"),
    (lambda: cleave.discover("relu", shapes=[(4,)], domains=["odd"]), "odd"),
    (lambda: cleave.discover("relu").emit("prose"), "prose"),
    (lambda: cleave.discover("relu").replay("nonsense"), "witness|line"),
    (lambda: cleave.discover(np.tanh, shapes=[(4,)], gradient=True), "black box"),
])
def test_wrong_calls_say_what_is_wrong(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_operators_are_listed():
    known = cleave.operators()
    assert {"relu", "cross", "stablehlo.dot_general"} <= set(known)


def test_progress_is_told(caplog):
    lines = []
    cleave.discover("softmax", progress=lines.append)
    assert lines and all("% softmax" in line for line in lines)
    with caplog.at_level(logging.DEBUG, logger="cleave"):
        cleave.discover("relu")
    assert any("relu" in record.message for record in caplog.records)


def test_control_c_ends_it():
    def slow(a, b, c):
        time.sleep(0.002)
        return a + b + c

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            cleave.discover(slow, shapes=[(6, 4)] * 3)
    finally:
        signal.signal(signal.SIGINT, before)


STUCK = """
import cleave, time
tried = []
def stuck(a):
    tried.append(1)
    if len(tried) > 20:
        print("stuck", flush=True)
        HANG
    return a + 1
try:
    cleave.discover(stuck, shapes=[(6, 4)], call_seconds=SECONDS)
except cleave.UserError as error:
    print(error)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("hang", ["time.sleep(3000)", "while True: pass"])  # a kernel without Python's lock, and Python
@pytest.mark.parametrize("seconds", [1, 3000])
def test_a_call_that_never_ends(hang, seconds):
    """It is left behind after a time, or with Ctrl-C."""
    code = STUCK.replace("HANG", hang).replace("SECONDS", str(seconds))
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if seconds > 1:
            assert child.stdout.readline() == "stuck\n"
            child.send_signal(signal.SIGINT)
        out, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0 and not said, said
    if seconds > 1:
        assert out.splitlines()[-1] == "interrupted"
    else:
        assert out.splitlines()[-1].startswith("discover stuck: one call (6x4 f64) has run for 1 s and is left behind; give other shapes")


def test_other_threads_go_on():
    """The interpreter's lock is free while Cleave works."""
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    cleave.discover("matmul")
    done.set()
    thread.join()
    assert len(ticks) > 3


def test_a_report_that_its_function_leads_to_is_collected():
    code = """
import cleave
def double(a):
    return 2 * a
double.report = cleave.discover(double, shapes=[(4,)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "leaked" not in done.stderr, done.stderr
