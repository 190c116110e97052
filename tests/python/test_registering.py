"""Ops that are registered while the program runs: rules, kernels, and what was discovered about a function."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import cleave
from cleave import Mesh, P, UserError


@pytest.fixture(autouse=True)
def nothing_stays():
    before = set(cleave.registered())
    yield
    for name in set(cleave.registered()) - before:
        cleave.unregister_op(name)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def cross(x, y, dim=-1):
    if x.shape != y.shape or x.shape[dim] != 3:
        raise ValueError("vectors have three numbers")
    (a, b, c), (d, e, f) = (np.moveaxis(v, dim, 0) for v in (x, y))
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=dim)


def top_gap(x):
    """The largest number of each row less the second largest."""
    ordered = np.sort(x, axis=-1)
    return ordered[..., -1] - ordered[..., -2]


def outer(x, y):
    return np.einsum("bi,bj->bij", x, y)


CROSS = """
module {{
  func.func @main(%x: tensor<{n}x3xf64>, %y: tensor<{n}x3xf64>) -> tensor<{n}x3xf64> {{
    %s = stablehlo.add %x, %y : tensor<{n}x3xf64>
    %0 = stablehlo.custom_call @my_cross(%s, %y) {{api_version = 4 : i32, mhlo.backend_config = {{dim = 1 : i64}}}} : (tensor<{n}x3xf64>, tensor<{n}x3xf64>) -> tensor<{n}x3xf64>
    return %0 : tensor<{n}x3xf64>
  }}
}}
"""


def cross_module(n=16):
    return cleave.Module.parse(CROSS.format(n=n))


@pytest.fixture(scope="module")
def cross_report():
    """A black box: what is known of it was found by running it."""
    return cleave.discover(cross, shapes=[(3, 3), (3, 3)], attrs={"dim": [0, 1, -1]}, worlds=(2, 3))


@pytest.fixture
def my_cross(cross_report):
    assert cross_report.register("my_cross") == "my_cross"


# ---- from a black box to a rule that everything uses


def test_propagation_goes_through_what_was_discovered(cross_report):
    module = cross_module()
    mesh = Mesh(x=4)
    shardings = {0: P("x")}
    before = module.propagate(shardings, mesh=mesh)
    assert before.results == [None] and "custom_call has no sharding rule" in before.warnings[0]
    cross_report.register("my_cross")
    after = module.propagate(shardings, mesh=mesh)
    assert "x" in str(after.results[0]) and "x" in str(after.arguments[1])
    assert "from %0 dimension 0 through stablehlo.custom_call (%0, %arg1) -> %1" in after.explain("%1")


def test_a_plan_shards_through_it(my_cross):
    module = cross_module(4096)
    mesh = Mesh(x=4)
    with_rule = cleave.plan(module, mesh=mesh, machine="h100")
    cleave.unregister_rule("my_cross")
    without = cleave.plan(module, mesh=mesh, machine="h100")
    assert with_rule.explain().count('dimension 0 split over "x"') == 2
    assert without.explain().count("whole on every device") == 2
    assert with_rule.step_seconds < without.step_seconds


@pytest.mark.parametrize("mesh,spec", [(Mesh(x=2, y=4), P(("x", "y"))), (Mesh(x=2, y=4), P("y")), (Mesh(x=3), P("x"))])
@pytest.mark.parametrize("compile", [True, False])
def test_a_sharded_run_does_not_communicate(my_cross, mesh, spec, compile):
    n = 24
    x, y = random(n, 3), random(n, 3, seed=1)
    with cleave.CommLog() as log:
        got, = cleave.run(cross_module(n), x, y, mesh=mesh, shard={0: spec, 1: spec}, compile=compile)
    np.testing.assert_allclose(got, cross(x + y, y))
    assert len(log.events) == 0 and log.total_bytes == 0


@pytest.mark.parametrize("mesh", [Mesh(x=2, y=4), Mesh(x=3)])
def test_tensors_call_it(my_cross, mesh):
    x, y = random(7, 3), random(7, 3, seed=1)
    a = cleave.tensor(x).shard(mesh, P("x"))
    b = cleave.tensor(y).shard(mesh, P("x"))
    cleave.evaluate([a, b])
    with cleave.CommLog() as log:
        got = cleave.custom_call("my_cross", a, b, dim=1)
        cleave.evaluate(got)
    assert len(log.events) == 0
    assert "x" in str(got.sharding)
    assert [shard.data.shape[0] for shard in got.addressable_shards][:3] == ([4] * 3 if "y" in str(mesh) else [3, 3, 1])
    np.testing.assert_allclose(np.asarray(got), cross(x, y))


def test_a_negative_dimension_is_the_same(my_cross):
    mesh = Mesh(x=2)
    x, y = random(6, 3), random(6, 3, seed=1)
    a, b = (cleave.tensor(v).shard(mesh, P("x")) for v in (x, y))
    got = cleave.custom_call("my_cross", a, b, dim=-1)
    assert "x" in str(got.sharding)
    np.testing.assert_allclose(np.asarray(got), cross(x, y))


def test_an_uneven_run_leaves_the_op_alone(my_cross):
    x, y = random(7, 3), random(7, 3, seed=1)
    with cleave.CommLog() as log:
        got, = cleave.run(cross_module(7), x, y, mesh=Mesh(x=3), shard={0: P("x"), 1: P("x")}, verify=True)
    np.testing.assert_allclose(got, cross(x + y, y))
    # Borders of functions are even: arguments are cut at the first op, and the result is put together at the end.
    assert {(kind, op) for kind, _, op, _ in log.events} <= {("all_slice", "stablehlo.add"), ("all_gather", "func.return")}


def test_the_rule_asks_the_attribute(my_cross):
    mesh = Mesh(x=3)
    x, y = random(3, 3), random(3, 3, seed=1)
    a, b = (cleave.tensor(v).shard(mesh, P("x")) for v in (x, y))
    rows = cleave.custom_call("my_cross", a, b, dim=1)
    columns = cleave.custom_call("my_cross", a, b, dim=0)  # the vectors are split: they are gathered first
    assert "x" in str(rows.sharding) and "x" not in str(columns.sharding)
    np.testing.assert_allclose(np.asarray(rows), cross(x, y, 1))
    np.testing.assert_allclose(np.asarray(columns), cross(x, y, 0))


@pytest.fixture(scope="module")
def outer_report():
    return cleave.discover(outer, shapes=[(6, 4), (6, 5)], worlds=(2, 3))


def test_other_operators_of_the_kind(outer_report):
    cleave.discover(top_gap, shapes=[(8, 5)], worlds=(2, 3)).register("top_gap")
    outer_report.register("batched_outer")
    mesh = Mesh(x=2, y=4)
    x, y = random(9, 5), random(9, 4, seed=1)
    a, b = cleave.tensor(x).shard(mesh, P("x")), cleave.tensor(y).shard(mesh, P("x", "y"))
    cleave.evaluate([a, b])
    with cleave.CommLog() as log:
        gap = cleave.custom_call("top_gap", a)
        cleave.evaluate(gap)
        product = cleave.custom_call("batched_outer", a, b)
        cleave.evaluate(product)
    assert len(log.events) == 0
    np.testing.assert_allclose(np.asarray(gap), top_gap(x))
    np.testing.assert_allclose(np.asarray(product), outer(x, y))
    assert "y" in str(product.sharding)


def test_a_dimension_that_an_attribute_names():
    """Also in shapes that were not tried."""
    def swapped(x, dim0, dim1):
        return np.swapaxes(x, dim0, dim1)

    report = cleave.discover(swapped, shapes=[[(5, 4)], [(3, 4, 5)]], attrs={"dim0": [0, 1, -1], "dim1": [0, 1, -1]}, worlds=(2, 3))
    assert "S(dim0) -> S(dim1)" in {rule.text for rule in report.rules}
    report.register("swapped")
    x = random(8, 6, 4)
    a = cleave.tensor(x).shard(Mesh(x=2), P("x"))
    cleave.evaluate(a)
    with cleave.CommLog() as log:
        moved = cleave.custom_call("swapped", a, dim0=0, dim1=-1)
        cleave.evaluate(moved)
    assert len(log.events) == 0 and moved.sharding == P(None, None, "x")
    np.testing.assert_array_equal(np.asarray(moved), swapped(x, 0, 2))


def test_pending_sums_pass_through_what_is_linear(outer_report):
    outer_report.register("batched_outer")
    mesh = Mesh(x=2)
    x, w, y = random(4, 6), random(6, 3, seed=1), random(4, 5, seed=2)
    a = cleave.tensor(x).shard(mesh, P(None, "x")) @ cleave.tensor(w).shard(mesh, P("x"))
    product = cleave.custom_call("batched_outer", a, cleave.tensor(y))
    assert "x" in str(product.sharding)  # it is pending still
    np.testing.assert_allclose(np.asarray(product), outer(x @ w, y))


# ---- rules and ops by hand


def test_a_rule_in_the_notation():
    cleave.register_op("outer", outer, rule="b i, b j -> b i j", partial=["bilinear"], verify=True)
    mesh = Mesh(x=2)
    a, b = (cleave.tensor(random(4, k)).shard(mesh, P("x")) for k in (3, 5))
    assert "x" in str(cleave.custom_call("outer", a, b).sharding)


def test_leading_dimensions():
    cleave.register_op("gap", top_gap, rule="... i -> ... {i: need_replication}", verify=True)
    mesh = Mesh(x=2)
    for shape in ((4, 5), (4, 3, 5), (4, 2, 3, 5)):
        x = random(*shape)
        got = cleave.custom_call("gap", cleave.tensor(x).shard(mesh, P("x")))
        assert "x" in str(got.sharding)
        np.testing.assert_allclose(np.asarray(got), top_gap(x))


def test_a_rule_that_is_a_function_of_the_call():
    calls = []

    def rule(call):
        calls.append(call)
        dim = call.attrs["dim"] % len(call.operands[0].shape)
        names = ["i", "j", "k"][:len(call.operands[0].shape)]
        text = " ".join(names)
        return f"{text}, {text} -> {text} {{{names[dim]}: need_replication}}"

    cleave.register_op("crossed", cross, rule=rule, shape=lambda call: call.operands[0], partial=["bilinear"], verify=True,
                       shapes=[(8, 3), (8, 3)], attrs={"dim": [1, -1]})
    assert calls and calls[0].operands[0].shape == (8, 3) and calls[0].results[0].dtype == "f64"
    mesh = Mesh(x=2)
    a = cleave.tensor(random(4, 3)).shard(mesh, P("x"))
    assert "x" in str(cleave.custom_call("crossed", a, a, dim=1).sharding)


def test_types_are_found_on_zeros_said_or_asked():
    cleave.register_op("gap", top_gap)
    x = cleave.tensor(random(4, 5))
    assert cleave.custom_call("gap", x).shape == (4,)
    assert cleave.custom_call("gap", x, results=[("float64", (4,))]).shape == (4,)
    cleave.register_op("gap", top_gap, shape=lambda call: call.operands[0].shape[:-1], replace=True)
    assert cleave.custom_call("gap", x).shape == (4,)
    cleave.register_op("both", lambda x: (x + 1, x.sum(-1)), rule="b i -> b i, b")
    more, total = cleave.custom_call("both", x)
    assert more.shape == (4, 5) and total.shape == (4,)


def test_a_rule_for_a_call_without_a_kernel():
    text = """
    func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = stablehlo.custom_call @foreign(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }"""
    module = cleave.Module.parse(text)
    assert module.rules()[0].rule is None
    cleave.register_rule("foreign", "i j -> i j")
    assert module.rules()[0].rule is not None
    assert "x" in str(module.propagate({0: P("x")}, mesh=Mesh(x=2)).results[0])
    cleave.unregister_rule("foreign")
    assert module.rules()[0].rule is None


def test_an_op_that_nobody_knows():
    text = """
    func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = "mine.op"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }"""
    module = cleave.Module.parse(text)
    assert module.rules()[0].rule is None
    cleave.register_rule("mine.op", "i j -> i j")
    assert "x" in str(module.propagate({0: P("x")}, mesh=Mesh(x=2)).results[0])


def test_a_changed_rule_is_used_at_once():
    mesh = Mesh(x=2)
    a = cleave.tensor(random(4, 5)).shard(mesh, P("x"))
    cleave.register_op("gap", top_gap)
    assert "x" not in str(cleave.custom_call("gap", a).sharding)
    cleave.register_rule("gap", "b i -> b {i: need_replication}")
    assert "x" in str(cleave.custom_call("gap", a).sharding)
    cleave.unregister_rule("gap")
    assert "x" not in str(cleave.custom_call("gap", a).sharding)


def test_many_threads():
    cleave.register_op("gap", top_gap, rule="b i -> b {i: need_replication}")
    mesh = Mesh(x=2)
    x = random(6, 5)
    faults = []

    def work(k):
        try:
            for i in range(10):
                cleave.register_op(f"gap{k}", top_gap, rule="b i -> b {i: need_replication}", replace=True)
                got = cleave.custom_call("gap", cleave.tensor(x + i).shard(mesh, P("x")))
                np.testing.assert_allclose(np.asarray(got), top_gap(x + i))
        except Exception as fault:  # pragma: no cover
            faults.append(fault)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_inside_a_compiled_function():
    cleave.register_op("gap", top_gap, rule="... i -> ... {i: need_replication}")
    mesh = Mesh(x=2)
    x = random(6, 5)
    function = cleave.jit(lambda v: cleave.custom_call("gap", v) * 2.0)
    np.testing.assert_allclose(np.asarray(function(cleave.tensor(x).shard(mesh, P("x")))), 2 * top_gap(x))
    many = cleave.vmap(lambda v: cleave.custom_call("gap", v))(cleave.tensor(random(3, 6, 5)))
    np.testing.assert_allclose(np.asarray(many), top_gap(random(3, 6, 5)))


# ---- what is refused


def fails(function, *words):
    with pytest.raises(UserError) as caught:
        function()
    text = str(caught.value)
    assert "\n" not in text, text
    for word in words:
        assert word in text, text
    return text


def test_a_wrong_rule_is_refused_with_a_witness():
    text = fails(lambda: cleave.register_op("gap", top_gap, rule="b i -> b", verify=True), "gap", "wrong", "S(1) -> P(sum)")
    assert "expected" in text or "element" in text
    assert "gap" not in cleave.registered()
    cleave.register_op("gap", top_gap)
    fails(lambda: cleave.register_rule("gap", "b i -> b", verify=True), "S(1) -> P(sum)")
    fails(lambda: cleave.register_rule("gap", "b i -> b {i: need_replication}", partial=["linear"], verify=True), "P(sum) -> P(sum)")
    cleave.register_rule("gap", "b i -> b {i: need_replication}", verify=True)


def test_errors_are_one_line():
    cleave.register_op("outer", outer, rule="b i, b j -> b i j")
    x = cleave.tensor(random(4, 3))
    fails(lambda: cleave.custom_call("ouler", x, x), "ouler", "outer", "register_op")
    fails(lambda: cleave.custom_call("outer", x), "outer", "TypeError")
    fails(lambda: cleave.register_op("outer", outer), "outer", "replace")
    fails(lambda: cleave.register_rule("outer", "b i, b j -> b i j"), "outer", "replace")
    fails(lambda: cleave.register_rule("stablehlo.add", "i, i -> i"), "stablehlo.add", "built in")
    fails(lambda: cleave.register_rule("Qr", "i, i -> i"), "Qr", "built in")
    fails(lambda: cleave.register_rule("a b", "i -> i"), "a b")
    fails(lambda: cleave.register_rule("one", "i j"), "arrow")
    fails(lambda: cleave.register_rule("one", "i -> i", partial=["sometimes"]), "sometimes", "linear")
    fails(lambda: cleave.register_rule("one", "i -> i", partial=["S(0) -> P(sum)"]), "S(0)")
    fails(lambda: cleave.register_rule("one", "i -> i", verify=True), "one", "kernel")
    fails(lambda: cleave.unregister_op("nothing"), "nothing")
    fails(lambda: cleave.unregister_rule("nothing"), "nothing")
    fails(lambda: cleave.register_op("one", 3), "function")


def test_a_rule_that_does_not_fit_the_shapes():
    mesh = Mesh(x=2)
    cleave.register_op("gap", top_gap, rule="b i -> b i")
    x = cleave.tensor(random(4, 5)).shard(mesh, P("x"))
    fails(lambda: cleave.custom_call("gap", x), "gap", "does not fit", "tensor<4x5xf64>")
    cleave.register_rule("gap", "b i, b i -> b", replace=True)
    fails(lambda: cleave.custom_call("gap", x), "gap", "does not fit")
    cleave.register_op("sum", lambda x: x.sum(0), shape=lambda call: call.operands[0].shape, rule="i j -> i j")
    fails(lambda: np.asarray(cleave.custom_call("sum", x)), "sum", "its kernel gives")


def test_a_kernel_that_fails_names_the_op():
    def broken(x):
        raise RuntimeError("no such\nthing")
    cleave.register_op("broken", broken, shape=lambda call: call.operands[0], rule="i -> i")
    x = cleave.tensor(random(4)).shard(Mesh(x=2), P("x"))
    fails(lambda: np.asarray(cleave.custom_call("broken", x)), "broken", "RuntimeError", "no such thing")


def test_a_kernel_cannot_ask_for_tensors():
    def nested(x):
        return np.asarray(cleave.tensor(x) + 1.0)
    cleave.register_op("nested", nested, shape=lambda call: call.operands[0], rule="i -> i")
    x = cleave.tensor(random(4)).shard(Mesh(x=2), P("x"))
    fails(lambda: np.asarray(cleave.custom_call("nested", x)), "Tensor", "arrays")


def test_a_process_ends_with_ops_registered():
    code = """
import cleave, numpy as np
cleave.register_op("twice", lambda x: 2 * x, rule=lambda call: "i -> i")
print(np.asarray(cleave.custom_call("twice", cleave.tensor([1.0, 2.0]).shard(cleave.Mesh(x=2), cleave.P("x")))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.split() == ["[2.", "4.]"] and done.stderr == "", done.stderr
