"""Functions of PyTorch, JAX and NumPy: what is found about them, and the DTensor strategies that are made of it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed._local_tensor")

from selection import some

import cleave
from cleave import UserError, emitted
from cleave.functions import examples

# The families of operators, and of each what is true of a dimension k.
POINTWISE = """abs neg exp relu sigmoid tanh square sin erf floor sign silu gelu softplus hardtanh leaky_relu isnan logical_not
mul div maximum minimum gcd atan2 hypot logaddexp eq lt where lerp addcmul""".split()
ALONG = "softmax log_softmax cumsum cumprod logcumsumexp sort argsort cummax".split()
REDUCE = {"sum": "P(sum)", "amax": None, "amin": None, "prod": "P(prod)", "logsumexp": None, "var": None, "std": None,
          "argmax": None, "all": "P(min)", "any": "P(max)", "nansum": "P(sum)", "median": None, "count_nonzero": "P(sum)"}
OTHERS = """torch.cross torch.mm torch.bmm torch.gather torch.index_select torch.scatter_add torch.searchsorted torch.bucketize
torch.nn.functional.layer_norm torch.nn.functional.huber_loss torch.nn.functional.mse_loss torch.tril torch.nn.functional.pixel_shuffle
torch.nn.functional.max_pool2d torch.nn.functional.unfold torch.dot torch.mv torch.outer""".split()
REPORTS = {}


def full_name(name):
    return name if "." in name else f"torch.{name}" if hasattr(torch, name) else f"torch.nn.functional.{name}"


def report_of(name):
    """One discovery for all tests that ask."""
    if name not in REPORTS:
        REPORTS[name] = cleave.discover(full_name(name), shrink=False, threads=1)
    return REPORTS[name]


def held(report):
    return {rule.text for rule in report.rules if not rule.implied}


def sharded_rows(report):
    """By call: its shape, its attributes, and what holds with a sharded operand and nothing pending, as (operands, result)."""
    decided = report._core.decisions()
    assert len(decided) >= len(report._calls)
    for call, (_, _, rows) in zip(report._calls, decided):
        good = {(operands, placement) for operands, result, placement, verdict, *_ in rows
                if result == 0 and verdict in ("proved", "tested") and any(o[0] == "S" for o in operands)
                and not any(o[0] == "P" for o in operands)}
        yield call.operands[0].shape, call.attrs, good


def ranks_of(report):
    return {len(call.operands[0].shape) for call in report._calls}


@pytest.mark.parametrize("name", some(POINTWISE, 3))
def test_elementwise(name):
    report = report_of(name)
    assert ranks_of(report) == {1, 2, 3, 4}
    for shape, attrs, good in sharded_rows(report):
        count = len(report._calls[0].operands)
        assert good == {((f"S({k})",) * count, f"S({k})") for k in range(len(shape))}, (shape, attrs)


@pytest.mark.parametrize("name", some(ALONG))
def test_along_a_dimension(name):
    report = report_of(name)
    assert ranks_of(report) == {1, 2, 3, 4}
    for shape, attrs, good in sharded_rows(report):
        dim = attrs["dim"] % len(shape)
        assert good == {((f"S({k})",), f"S({k})") for k in range(len(shape)) if k != dim}, (shape, attrs)
    assert any("d != dim" in rule for rule in held(report))


@pytest.mark.parametrize("name", some(REDUCE))
def test_reductions(name):
    """Conditions are right on ranks 1 to 4: dimensions behind the reduced one move if it is not kept."""
    report = report_of(name)
    assert ranks_of(report) == {1, 2, 3, 4}
    for shape, attrs, good in sharded_rows(report):
        dim = attrs["dim"] % len(shape)
        batch = {((f"S({k})",), f"S({k - (k > dim and not attrs.get('keepdim', False))})") for k in range(len(shape)) if k != dim}
        assert {row for row in good if row[1][0] == "S"} == batch, (shape, attrs)
        if REDUCE[name]:
            assert ((f"S({dim})",), REDUCE[name]) in good, (shape, attrs)
    if name in ("amax", "amin"):  # of an empty shard there is none
        assert f"S(d) -> P({name[1:]}) WHEN d == dim and no shard of d is empty" in held(report)
    texts = held(report)
    move = [text for text in texts if text.startswith(("S(d) -> S(d-1)", "S(d) -> result 0: S(d-1)"))]
    assert move and all("d > dim" in text for text in move)


def test_matrices_and_indices():
    assert {"R, S(1) -> S(1)", "S(0), R -> S(0)", "S(1), S(0) -> P(sum)", "P(sum), R -> P(sum)"} <= held(report_of("torch.mm"))
    assert {"S(0), S(0) -> S(0)", "S(2), S(1) -> P(sum)"} <= held(report_of("torch.bmm"))
    texts = held(report_of("torch.gather"))
    assert {"S(d), S(d) -> S(d) WHEN d != dim", "R, S(d) -> S(d) WHEN d == dim", "P(sum), R -> P(sum)"} <= texts
    assert "S(d), R -> S(d) WHEN d != dim" in held(report_of("torch.index_select"))
    texts = held(report_of("torch.scatter_add"))
    assert "S(d), S(d), S(d) -> S(d) WHEN d != dim" in texts
    assert "P(sum), S(d), S(d) -> P(sum) WHEN d == dim" in texts
    texts = held(report_of("torch.searchsorted"))
    assert {"S(d), S(d) -> S(d) WHEN d != rank - 1", "S(d), R -> P(sum) WHEN d == rank - 1"} <= texts
    assert {"S(d), R -> S(d)", "R, S(0) -> P(sum)"} <= held(report_of("torch.bucketize"))
    assert {"S(0), R -> S(0)", "R, S(0) -> S(1)"} <= held(report_of("torch.outer"))
    assert {"S(0), S(0) -> P(sum)"} <= held(report_of("torch.dot"))


def test_networks():
    texts = held(report_of("torch.nn.functional.layer_norm"))
    assert {text for text in texts if "S(" in text} == {"S(d), R, R -> S(d) WHEN d != rank - 1"}
    texts = held(report_of("torch.nn.functional.huber_loss"))
    assert {"S(d), S(d) -> P(sum) WHEN reduction == 'sum'", "S(d), S(d) -> S(d) WHEN reduction == 'none'"} <= texts
    assert not any("P(avg)" in text and "w == 0" not in text for text in texts if text.startswith("S("))
    for name in ("max_pool2d", "unfold", "pixel_shuffle"):
        for shape, attrs, good in sharded_rows(report_of(f"torch.nn.functional.{name}")):
            if len(shape) == 4:
                assert (("S(0)",), "S(0)") in good, (name, attrs)
            else:
                assert not any(row[1] == "S(2)" for row in good)
    assert not any("S(0), S(0)" in text for text in held(cleave.discover("torch.kron", shapes=[(4, 3), (2, 3)], shrink=False)))


EVERY = [*POINTWISE, *ALONG, *REDUCE, *OTHERS]
# All of them take minutes; CLEAVE_ALL_OPERATORS=1 asks for that.
FEW = ["relu", "mul", "where", "softmax", "sort", "sum", "argsort", "logsumexp", "var", "torch.cross", "torch.mm", "torch.gather",
       "torch.index_select", "torch.searchsorted", "torch.nn.functional.layer_norm", "torch.nn.functional.huber_loss"]
EMITTED = EVERY if os.environ.get("CLEAVE_ALL_OPERATORS") else some(FEW, 3)


@pytest.fixture(scope="module")
def outcomes():
    """All strategies and tests, run by DTensor in one other process: what fails, by operator."""
    made = {}
    for name in EMITTED:
        try:
            made[name] = report_of(name)._dtensor_code(f"{name.split('.')[-1]}_rule.py")
        except UserError as error:
            made[name] = str(error)
    run = {name: code for name, code in made.items() if not isinstance(code, str)}
    failed = dict(zip(run, emitted.failures_of(list(run.values()))))
    return {name: failed.get(name, [made[name]] if isinstance(made[name], str) else []) for name in EMITTED}


def test_emitted_code_passes(outcomes):
    passed = [name for name, failed in outcomes.items() if not failed]
    others = {name: failed[:2] for name, failed in outcomes.items() if failed}
    print(len(passed), "pass;", others)
    assert len(passed) >= (50 if EMITTED is EVERY else len(EMITTED)), others
    # What does not pass is DTensor's own doing, and said.
    assert all("emit:" in failed[0] or "no strategy" in failed[0] or "Error" in failed[0] for failed in others.values())


def test_cross_from_nothing_to_a_tested_rule(tmp_path):
    """One command; the tests it writes pass by themselves."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-m", "cleave", "discover", "torch.cross", "--shapes", "8x3,8x3", "--sweep", "dim=0,1,-1",
                           "--no-shrink", "--report", "cross.yaml", "--rule", "cross_rule.py", "--tests", "test_cross_rule.py"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "S(d), S(d) -> S(d)  WHEN d != dim" in done.stdout
    assert "left out: dim=0" in done.stdout and "fails when" not in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["cross.yaml", "cross_rule.py", "test_cross_rule.py"]
    report = (tmp_path / "cross.yaml").read_text()
    assert "signature:" in report and "cross(Tensor self, Tensor other, int? dim=None) -> Tensor" in report and "torch" in report
    rule = (tmp_path / "cross_rule.py").read_text()
    assert rule.startswith('"""How aten.linalg_cross.default')
    assert "torch.ops.aten.linalg_cross.default" in rule and "RuntimeSchemaInfo(" in rule and "isinstance(meta, TensorMeta)" in rule
    assert "S(d), S(d) -> S(d) WHEN d != dim: batch dimension" in rule and 'kwargs_schema.get("dim", -1)' in rule
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cross_rule.py"], cwd=tmp_path,
                           capture_output=True, text=True)
    assert tests.returncode == 0, tests.stdout
    assert " passed" in tests.stdout and "skipped" not in tests.stdout


def test_a_wrong_rule_is_said():
    """The check is one: a strategy with other rows, or one that does not load, does not pass."""
    rule, tests = report_of("torch.cross")._dtensor_code("cross_rule.py")
    wrong, broken = emitted.failures_of([(rule.replace("if d != dim", "if d == dim"), tests), (rule + "\nraise ValueError('no')\n", tests)])
    assert wrong and all("Shard" in line for line in wrong)
    assert broken == ["it does not load: ValueError: no"]
    assert emitted.comment(broken).startswith("# 1 of the tests fail")


def test_a_custom_operator():
    @torch.library.custom_op("cleave_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x * factor

    @scaled.register_fake
    def _(x, factor=2.0):
        return torch.empty_like(x)

    report = cleave.discover(scaled, shapes=[(5, 4)], sweep={"factor": [2.0, 3.0, -1.0, -2.0]}, shrink=False)
    assert {"S(d) -> S(d)", "P(sum) -> P(sum)", "P(max) -> P(max) WHEN factor > 0", "P(max) -> P(min) WHEN factor < 0"} <= held(report)
    rule = report.emit("dtensor")
    assert not report.emitted_failures and "torch.ops.cleave_tests.scaled.default" in rule and "if factor > 0:" in rule


def test_a_custom_operator_that_writes_into_its_arguments():
    """What it writes into is a result, behind those that it returns."""
    @torch.library.custom_op("cleave_tests::doubled_into", mutates_args={"out"})
    def doubled_into(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        out.copy_(2 * x)
        return x.sum(-1)

    report = cleave.discover(doubled_into, shapes=[(5, 7), (5, 7)], shrink=False)
    assert {"S(0), S(0) -> result 0: S(0)", "S(1), S(1) -> result 0: P(sum)", "S(d), S(d) -> result 1: S(d)",
            "P(max), R -> result 1: P(max)"} <= held(report)
    with pytest.raises(UserError, match="changes its arguments"):
        report.emit("dtensor")


def test_complex_numbers():
    report = cleave.discover(torch.fft.fft, shapes=[(5, 4)], sweep={"dim": [0, 1]}, shrink=False)
    assert {"P(sum) -> P(sum)", "P(avg) -> P(avg)", "S(d) -> S(d) WHEN d != dim and no shard of d is empty"} <= held(report)
    assert not report.emit("dtensor").startswith("#")
    assert {"P(sum), P(sum) -> P(sum)", "S(d), S(d) -> S(d)"} <= held(cleave.discover(torch.complex, shapes=[(5, 4), (5, 4)], shrink=False))
    texts = held(cleave.discover(torch.Tensor.conj_physical, shapes=[(5, 4)], dtype="complex128", shrink=False))
    assert "P(sum) -> P(sum)" in texts and not any("P(max)" in text for text in texts)
    assert not any("P(sum)" in text for text in held(cleave.discover(np.abs, shapes=[(5, 4)], dtype=np.complex128, shrink=False)))


ENDING = {
    # It divides by a number of heads that it has not looked at.
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, shapes=[(2, 3, 4, 6)] * 3":
        "S(1), S(1), S(1) -> result 0: S(1) WHEN no shard of 1 is empty",
    # It reads where the labels say, whatever they are.
    "ctc, shapes=[(6, 4, 5), (4, 2)], dtype=['float64', 'int64'], domains=['any', 'index:5']":
        "S(1), S(0) -> S(0) WHEN no shard of 1 is empty",
}


@pytest.mark.parametrize("call", ENDING)
def test_a_kernel_that_ends_the_process(call):
    """Parts and numbers that would do it are refused, and the rest goes on."""
    code = f"""
import cleave, torch
def ctc(scores, labels):
    lengths = [torch.full((scores.shape[1],), size) for size in (scores.shape[0], labels.shape[1])]
    return torch.nn.functional.ctc_loss(scores.log_softmax(-1), labels, *lengths, reduction="none")
for rule in cleave.discover({call}, shrink=False).rules:
    print(rule.text)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert ENDING[call] in done.stdout.splitlines()


@pytest.mark.parametrize("call, bounded, rule", [
    ("torch.polygamma, shapes=[(5, 4)], sweep={'n': [0, 2]}", "[(0, -1)]", "S(d) -> S(d)"),  # a zeta function counts up from its operand
    ("torch.special.legendre_polynomial_p, shapes=[(5, 4), (5, 4)]", "[(1, 1)]", "S(d), S(d) -> S(d)"),  # an operand is the degree
])
def test_kernels_that_count_up_to_their_numbers(call, bounded, rule):
    """Numbers that would take years are refused, and the rest goes on."""
    code = f"""
import cleave, torch
from cleave.functions import probing
found, bounds = probing.slow_beyond, []
probing.slow_beyond = lambda *given: bounds.append(found(*given)) or bounds[0]
report = cleave.discover({call}, shrink=False)
print(list(bounds[0]))
print([rule.text for rule in report.rules if not rule.implied])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    keys, rules = done.stdout.splitlines()
    assert keys == bounded and f"'{rule}'" in rules and "P(" not in rules


RANDOM = {
    "torch.rand_like": None,
    "torch.bernoulli": None,
    "torch.nn.functional.dropout": "training=false",
    "torch.dropout": "train=false",
    "torch.ops.aten.native_dropout.default": "train=false",
    "torch.multinomial": None,
    "numpy.random.permutation": None,
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_functions_have_a_report_without_rules(name):
    shapes = {"torch.multinomial": {"shapes": [(4, 5)], "domains": ["positive"], "sweep": {"num_samples": [3]}},
              "numpy.random.permutation": {"shapes": [(8, 3)]}}
    report = cleave.discover(name, **shapes.get(name, {}))
    data = report.data
    analysis, tested = data["analysis"], data["sample_inputs_tested"]
    assert analysis["category"] == "random" and analysis["deterministic"] is False
    assert analysis["reason"].startswith("It draws random numbers or keeps a state: of two equal calls (")
    assert ("equal calls agree" in analysis["reason"]) == bool(RANDOM[name]) and (RANDOM[name] or "") in analysis["reason"]
    assert tested["calls"] and tested["dtypes"] == ["f64"]
    assert not data["unconditional_rules"] and not data["conditional_rules"] and not data["refuted"]
    assert "\n  category: random\n" in report.yaml() and "\n  deterministic: false\n" in report.yaml()
    assert report.rules == [] and report.refuted == [] and sum(report.counts.values()) == 0
    assert "random" in str(report) and "<html" in report.html() and analysis["reason"][:30] in report._repr_html_()
    for form in ("cleave", "tests", "shardy", "dtensor", "dtensor-tests"):
        with pytest.raises(UserError, match=f"emit '{form}': no rule of {name} was confirmed"):
            report.emit(form)
    with pytest.raises(UserError, match="no rule of"):
        report.register("random_one")


def test_dropout_that_does_nothing_is_deterministic():
    report = cleave.discover("torch.nn.functional.dropout", sweep={"p": [0.5, 0.25], "training": [False]}, shrink=False)
    assert {"S(d) -> S(d)", "P(sum) -> P(sum)"} <= held(report) and report.data["analysis"]["deterministic"]


def test_the_command_line_says_that_there_is_no_code_for_random_functions(tmp_path, capsys):
    from cleave.__main__ import main

    rule, page = tmp_path / "rule.py", tmp_path / "report.yaml"
    assert main(["discover", "torch.rand_like", "--report", str(page), "--rule", str(rule)]) == 1
    said = capsys.readouterr()
    assert "torch.rand_like: random" in said.out and "no rule of torch.rand_like was confirmed" in said.err
    assert page.exists() and not rule.exists()


def test_a_function_over_tensors():
    """One that a kernel is wrapped in takes tensors, which no annotation says."""
    def scaled_rows(x, weight):
        return x.mul(weight.unsqueeze(-1))

    report = cleave.discover(scaled_rows, shapes=[(5, 4), (5,)], shrink=False)
    assert {"S(0), S(0) -> S(0)", "S(1), R -> S(1)"} <= held(report) and "torch" in report.versions


def test_overloads_packets_methods_and_names():
    for function in (torch.ops.aten.mm.default, torch.ops.aten.mm, torch.Tensor.mm, "torch.ops.aten.mm.default", "aten.mm"):
        report = cleave.discover(function, shapes=[(5, 4), (4, 3)], shrink=False)
        assert "S(1), S(0) -> P(sum)" in held(report) and "Tensor mat2" in report.signature
    assert "searchsorted" in cleave.discover("searchsorted", shapes=[(6,), (5,)], shrink=False).op
    assert cleave.discover("relu").signature == ""  # the library's own goes first


def in_place(a):
    a += 1
    return a


def test_dtypes_and_results():
    assert "S(d) -> S(d)" in held(cleave.discover(torch.relu, shapes=[(5, 4)], dtype="bfloat16", shrink=False))
    report = cleave.discover(torch.aminmax, shapes=[(5, 4)], sweep={"dim": [0, 1]}, shrink=False)
    assert any("result 1: S(d)" in text or "result 1: S(d-1)" in text for text in held(report))
    assert "S(d) -> S(d)" in held(cleave.discover(lambda a: (None, torch.as_tensor(a).numpy() * 2.0), shapes=[(5, 4)], name="with_none"))
    assert "S(d) -> S(d)" in held(cleave.discover(in_place, shapes=[(5, 4)], shrink=False))  # it gets copies
    assert "S(0) -> S(1)" in held(cleave.discover(torch.t, shapes=[(5, 4)], shrink=False))  # shares its operand's memory


def test_jax_functions():
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    report = cleave.discover(jnp.cumsum, shapes=[(3, 4)], sweep={"axis": [0, 1]}, shrink=False)
    assert "S(d) -> S(d) WHEN d != axis" in held(report) and "jax" in report.versions
    report = cleave.discover(jax.jit(lambda a, b: a @ b), shapes=[(3, 4), (4, 2)], name="product", shrink=False)
    assert "S(1), S(0) -> P(sum)" in held(report)
    assert "#sdy.op_sharding_rule<" in report.emit("shardy")


def test_numpy_functions():
    report = cleave.discover("numpy.cumsum", shapes=[(5, 4)], sweep={"axis": [0, 1]}, shrink=False)
    assert "S(d) -> S(d) WHEN d != axis" in held(report) and set(report.versions) == {"cleave", "numpy"}
    assert "S(d), S(d) -> S(d)" in held(cleave.discover(np.hypot, shrink=False))
    proposed = cleave.discover(np.sort, shapes=[(5, 4)], shrink=False)
    assert "S(d) -> S(d) WHEN d != axis" in held(proposed)
    assert proposed.data["signature"].startswith("sort(a, axis=-1")


def test_results_with_conditions_of_their_own():
    """A row holds where what is said of each of its results does: d != dim, and d < dim or keepdim."""
    @torch.library.custom_op("cleave_tests::sum_and_softmax", mutates_args=())
    def sum_and_softmax(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(dim, keepdim=keepdim), torch.softmax(x, dim)

    @sum_and_softmax.register_fake
    def _(x, dim, keepdim=False):
        return x.sum(dim, keepdim=keepdim), torch.empty_like(x)

    report = cleave.discover(sum_and_softmax, shapes=[(5, 4)], sweep={"dim": [0, 1], "keepdim": [False, True]}, shrink=False)
    rule = report.emit("dtensor")
    assert not report.emitted_failures
    assert rule.count("rows.append") >= 2 and "(d < dim or keepdim)" in rule


def test_numbers_that_are_unusual_matter():
    for function, operands in ((torch.isnan, 1), (torch.isinf, 1), (torch.isclose, 2)):
        report = cleave.discover(function, shapes=[(5, 4)] * operands, shrink=False)
        assert report.data["analysis"]["category"] == "pointwise", function


def test_required_operands_without_a_type():
    """Two shapes for p and q: they are the operands, whatever else parameters of these names are."""
    special = pytest.importorskip("jax.scipy.special")
    report = cleave.discover(special.rel_entr, shapes=[(5, 4), (5, 4)], domains=["positive", "positive"], shrink=False)
    assert "S(d), S(d) -> S(d)" in held(report)


def test_warnings_of_kernels_are_not_repeated(capfd):
    """An overload that is called by itself warns in C++ each time, thousands of times."""
    cleave.discover(torch.ops.aten.var_mean.correction, shapes=[(3, 2)], sweep={"dim": [[0]]}, shrink=False)
    assert len(capfd.readouterr().err.splitlines()) < 5


def test_values_that_are_refused_are_said():
    report = cleave.discover(torch.cross, shapes=[(4, 3), (4, 3)], sweep={"dim": [0, 1]}, shrink=False)
    assert len(report.dropped) == 1 and report.dropped[0].startswith("dim=0 with")
    report = cleave.discover(torch.sum, shapes=[(4, 3)], sweep={"dim": [0, 1], "dtype": None}, shrink=False)
    assert "S(d) -> P(sum) WHEN d == dim" in held(report)


@pytest.mark.parametrize("call, words", [
    (lambda: cleave.discover("torch.no_such"), "there is no torch.no_such"),
    (lambda: cleave.discover("torch.crosss"), "near it: cross"),
    (lambda: cleave.discover("torch.pi"), "no function"),
    (lambda: cleave.discover("nothing_at_all_like_it"), "nothing_at_all_like_it"),
    (lambda: cleave.discover(torch.Tensor.add_, shapes=[(4,), (4,)]), "in place"),
    (lambda: cleave.discover(torch.arange), "takes no tensor"),
    (lambda: cleave.discover(torch.mm, shapes=[(4, 3), (4, 3)]), "takes none of the calls"),
    (lambda: cleave.discover(torch.sum, shapes=[(4, 3)], sweep={"dim": []}), "no values for dim"),
    (lambda: cleave.discover(torch.sum, shapes=[(4, 3)], sweep={"dim": [None, 0]}), "run of its own"),
    (lambda: cleave.discover(torch.sum, shapes=[(4, 3)], sweep={"dim": [0]}, attrs={"dim": [0]}), "two names"),
    (lambda: cleave.discover(torch.rand, shapes=[(4, 3)]), "takes no tensor"),
    (lambda: cleave.discover(lambda *a: a[0]), "give a shape"),
    (lambda: report_of("torch.kron_of_nothing"), "there is no"),
    (lambda: cleave.discover(lambda x: None, shapes=[(4,)], name="none"), "none takes none of the calls .it returns nothing"),
    (lambda: cleave.discover(lambda x: "word", shapes=[(4,)], name="text"), "returns a str, which is no array of numbers"),
    (lambda: cleave.discover(lambda x: sys.exit(3), shapes=[(4,)], name="leaves"), "SystemExit: 3"),
    (lambda: cleave.discover(lambda x, d=0: x.sum(d), shapes=[(4, 3)], sweep={"d": [0, 1]}, name="f"), "argument d has another name"),
    (lambda: cleave.discover(torch.flatten, shapes=[(4, 3)], sweep={"start_dim": [1], "end_dim": [1]}, shrink=False).emit("dtensor"),
     "with end_dim=1, start_dim=1 comes to no operator|with start_dim=1, end_dim=1 comes to no operator"),
    (lambda: cleave.discover("torch.kron", shapes=[(4,), (3,)], shrink=False).emit("dtensor"), "emit: "),
    (lambda: cleave.discover(torch.tensor_split, shapes=[(4, 3)], sweep={"sections": [2], "dim": [0]}, shrink=False).emit("dtensor"),
     "several calls of aten.slice.Tensor"),
    (lambda: cleave.discover(3), "3 is no operator"),
    (lambda: cleave.discover(torch.relu, shapes=(4, 3)), "a shape for each operand is meant"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, -3)]), "a shape for each operand is meant"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3.5)]), "a shape for each operand is meant"),
    (lambda: cleave.discover(torch.sum, shapes=[(4, 3)], sweep=[0]), "values by name are meant"),
    (lambda: cleave.discover(torch.sum, shapes=[(4, 3)], sweep={"dmi": [0]}), "its arguments are .*dim"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], domains="any"), "a word for each operand"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], dtype="float99"), "none that Cleave knows"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], worlds=2), "numbers of devices are meant"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], worlds=()), "numbers of devices are meant"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], seed="x"), "a number from 0 on"),
    (lambda: cleave.discover(torch.relu, shapes=[(4, 3)], generators={"g": "abc"}), "a list of numbers, or a function"),
])
def test_wrong_calls_say_what_is_wrong(call, words):
    with pytest.raises(UserError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_the_command_line_says_what_is_wrong(tmp_path, capsys):
    from cleave.__main__ import main

    for arguments, words in ((["torch.no_such"], "there is no torch.no_such"), (["relu", "--tests", "t", "--form", "shardy"], "no tests"),
                             (["relu", "--report", str(tmp_path / "no/such")], "no folder"), (["relu", "--world", "two"], "2,3,4")):
        assert main(["discover", *arguments]) == 1
        assert words in capsys.readouterr().err
    for arguments in (["relu", "--shapes", "8y3"], ["relu", "--sweep", "dim"]):
        with pytest.raises(SystemExit):
            main(["discover", *arguments])


def test_functions_that_print_and_modules_that_do_not_load(tmp_path):
    (tmp_path / "printing.py").write_text("def double(x):\n    print('here')\n    return 2 * x\n")
    (tmp_path / "broken.py").write_text("raise ValueError('not today')\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])}

    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "cleave", "discover", *arguments], env=environment, capture_output=True, text=True)

    done = run("printing:double", "--shapes", "4x3", "--no-shrink", "--format", "json")
    assert done.returncode == 0 and json.loads(done.stdout)["operator"] == "printing:double"
    assert "printed" in done.stderr and len(done.stderr.splitlines()) == 1
    for module, words in (("broken", "importing broken raises ValueError: not today"), ("wrong", "importing wrong raises SyntaxError")):
        done = run(f"{module}:f")
        assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("function, shapes, sweep, rules", [
    (torch.index_select, [[(5, 4), (3,)], [(3, 4, 5), (3,)]], {"dim": [0, 1, -1]}, {"R, S(0) -> S(dim)", "S(d), R -> S(d) WHEN d != dim"}),
    (torch.swapaxes, [[(5, 4)], [(3, 4, 5)]], {"axis0": [0, 1, -1], "axis1": [0, 1, -1]},
     {"S(axis0) -> S(axis1)", "S(axis1) -> S(axis0)", "S(d) -> S(d) WHEN d != axis0 and d != axis1"}),
    (torch.ops.aten.linear.default, [[(5, 4), (6, 4)], [(3, 4, 5), (6, 5)]], {},
     {"R, S(0) -> S(-1)", "S(-1), S(1) -> P(sum)", "S(d), R -> S(d) WHEN d != rank - 1"}),
])
def test_dimensions_that_have_no_number(function, shapes, sweep, rules):
    """A dimension that an argument names, or the last one: a rule for every rank, and not a rule for each that was tried."""
    report = cleave.discover(function, shapes=shapes, sweep=sweep, worlds=(2,), shrink=False)
    assert {text for text in held(report) if "S(" in text} == rules
    if function is torch.index_select:
        assert "_ShardingPlaceholder(dim), Replicate(), _ShardingPlaceholder(0)" in report.emit("dtensor", check=False)


def test_small_numbers_beside_huge_ones():
    """i0 is even, so the smallest of parts says nothing; beside i0(700) that went unseen."""
    report = cleave.discover(np.i0, shapes=[(3, 4, 5)], worlds=(2, 3), shrink=False)
    assert "P(min) -> P(min)" not in held(report)


def test_numbers_that_are_refused():
    """A singular matrix has no factors here, whatever the others have."""
    report = cleave.discover(torch.linalg.lu_factor, shapes=[(4, 4)], sweep={}, worlds=(2,), shrink=False)
    assert report.counts["tested"] > 0


def test_overloads_take_numbers_where_functions_take_words():
    for name in ("torch.ops.aten.mse_loss.default", "torch.ops.aten.nll_loss_forward.default", "torch.ops.aten.embedding_dense_backward.default"):
        target, _ = cleave.discovery.target_of(name, None)
        target.choose()
        calls, _ = examples.propose(target, ranks=(1, 2))
        assert {call.attrs.get("reduction") for call in calls} in ({0, 1, 2}, {None}), name
        assert {call.attrs.get("num_weights") for call in calls} in ({6}, {None}), name


def test_numbers_of_a_report_are_numbers_everywhere():
    """1e-09 is a word to many readers of YAML, and JSON has no infinity."""
    report = cleave.discover(torch.linalg.vector_norm, shapes=[(4,)], sweep={"ord": [2.0, float("inf")]}, worlds=(2,), shrink=False)
    assert "\ntolerance: 1.0e-09\n" in report.yaml()
    assert report.data["sample_inputs_tested"]["kwargs_swept"]["ord"] == [2.0, "inf"]


def test_tiny_numbers_are_rounded_too():
    """A mean of denormals differs in the last step: it was taken for a wrong rule, and a condition was found by luck."""
    report = cleave.discover(torch.nn.functional.l1_loss, shapes=[(2, 3, 5, 4)] * 2, sweep={"reduction": ["mean", "none"]}, shrink=False)
    assert "S(d), S(d) -> P(avg) WHEN reduction == 'mean' and size(d) % w == 0" in held(report)
