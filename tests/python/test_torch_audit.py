"""cleave.torch.audit: rules of DTensor that were wrong once are put back and found, and what is found is shown by DTensor itself."""

import json
import os
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed._local_tensor")
pytest.importorskip("expecttest")  # PyTorch's samples need it

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSpec, OpStrategy
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder, register_single_dim_strategy

import cleave.torch as ct
from cleave import UserError
from cleave.torch import compare, dtensor, samples

aten = torch.ops.aten


def S(d):
    return _ShardingPlaceholder(d)


@pytest.fixture
def own_strategies():
    """Gives PyTorch its strategies back afterwards."""
    rules = DTensor._op_dispatcher.sharding_propagator
    tables = [rules.op_single_dim_strategy_funcs, rules.op_to_schema_info_for_single_dim_strategy, rules.op_strategy_funcs,
              rules.op_to_schema_info, DTensor._op_dispatcher._custom_op_handlers]
    saved = [dict(table) for table in tables]
    yield
    for table, before in zip(tables, saved):
        table.clear()
        table.update(before)
    clear_caches()


def clear_caches():
    """Of Python and of the dispatcher in C++."""
    _clear_sharding_prop_cache()
    clear = getattr(DTensor._op_dispatcher.sharding_propagator._propagate_tensor_meta, "cache_clear", None)
    if clear:
        clear()


def put_back(op, rows):
    """A strategy with these rows ([outputs..., inputs...]) in the place of PyTorch's own."""
    DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs.pop(op, None)
    DTensor._op_dispatcher._custom_op_handlers.pop(op, None)  # which computes another way than the operator on local parts
    register_single_dim_strategy(op, allow_uneven_sharding=True)(lambda op, args, kwargs: [list(row) for row in rows])
    clear_caches()


def audited(op, *args, **kwargs):
    dtensor.start()
    call = samples.call_of(op, args, kwargs, "here")
    assert samples.why_not(call) == ""
    return compare.audit_overload(str(op), [call])


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


# Each was in a released version of PyTorch; the number is that of its thread.
WRONG = {
    "argmax over a sharded dimension (173936)":
        (aten.argmax.default, (numbers(6, 4), 0), [[Partial("max"), S(0)]], "S(0) -> P(max)"),
    "argmin over a sharded dimension (173936)":
        (aten.argmin.default, (numbers(6, 4), 1), [[Partial("min"), S(1)]], "S(1) -> P(min)"),
    "indices of a maximum (175776)":
        (aten.max.dim, (numbers(6, 4), 0), [[Partial("max"), Partial("max"), S(0)]], "S(0) -> P(max), P(max)"),
    "indices of a minimum (175776)":
        (aten.min.dim, (numbers(6, 4), 0), [[Partial("min"), Partial("min"), S(0)]], "S(0) -> P(min), P(min)"),
    "a pending sum and a scalar (163193)":
        (aten.add.Tensor, (numbers(6, 4), 1.5), [[Partial("sum"), Partial("sum")]], "P(sum) -> P(sum)"),
    "a scalar less a pending sum (145218)":
        (aten.rsub.Scalar, (numbers(6, 4), 2.0), [[Partial("sum"), Partial("sum")]], "P(sum) -> P(sum)"),
    "the norm of a pending sum (159856)":
        (aten.linalg_vector_norm.default, (numbers(6, 4), 2.0), [[Partial("sum"), Partial("sum")]], "P(sum) -> P(sum)"),
    "a view across rows (179502)":
        (aten.view.default, (numbers(12, 8), [16, 6]), [[S(1), S(1)]], "S(1) -> S(1)"),
    "abs of a pending sum":
        (aten.abs.default, (numbers(6, 4),), [[Partial("sum"), Partial("sum")]], "P(sum) -> P(sum)"),
    "a cumulative sum along a sharded dimension":
        (aten.cumsum.default, (numbers(6, 4), 0), [[S(0), S(0)]], "S(0) -> S(0)"),
    "a softmax along a sharded dimension":
        (aten._softmax.default, (numbers(6, 4), 1, False), [[S(1), S(1)]], "S(1) -> S(1)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_rules_that_were_wrong_once_are_found(name, own_strategies):
    op, args, rows, rule = WRONG[name]
    put_back(op, rows)
    record = audited(op, *args)
    assert any(row["rule"].endswith(": " + rule) for row in record["incorrect"]), record
    assert all(row["difference"] for row in record["incorrect"])


@pytest.mark.parametrize("name", [name for name in WRONG if "view" not in name])
def test_the_same_rules_are_not_found_in_this_version(name):
    op, args, _, rule = WRONG[name]
    record = audited(op, *args)
    assert not record["incorrect"], record["incorrect"]


def as_they_come(outputs_of):
    """A strategy that takes operands as they lie, and says by `outputs_of` how the result then lies."""
    def strategy(schema):
        given = [spec.strategies[0].output_specs for spec in schema.args_schema if isinstance(spec, OpStrategy)]
        mesh = given[0].mesh
        output = DTensorSpec(mesh, tuple(outputs_of(*of) for of in zip(*(spec.placements for spec in given))))
        spec = OpSpec(output, input_specs=tuple(given), redistribute_cost=[[0.0] for _ in given])
        return OpStrategy([spec])
    return strategy


def put_back_strategy(op, strategy):
    rules = DTensor._op_dispatcher.sharding_propagator
    rules.op_single_dim_strategy_funcs.pop(op, None)
    rules.op_strategy_funcs[op] = strategy
    clear_caches()


def test_the_order_of_two_axes_matters(own_strategies):
    """Columns of one operand in the order of the axes and rows of the other in the opposite one (166598)."""
    def layout(a, b):  # any kind of shard counts
        dims = getattr(a, "dim", None), getattr(b, "dim", None)
        return Partial() if dims == (1, 0) else Shard(0) if dims[0] == 0 else Shard(1) if dims[1] == 1 else Replicate()
    put_back_strategy(aten.mm.default, as_they_come(layout))
    wrong = {row["rule"].split(": ")[1]: row for row in audited(aten.mm.default, numbers(4, 8), numbers(8, 4))["incorrect"]}
    row = wrong["[_S(1, 2), S(1)], [S(0), S(0)] -> [P(sum), P(sum)]"]
    shown = subprocess.run([sys.executable, "-c", ct.Audit.script(row)], capture_output=True, text=True)
    assert shown.returncode == 0 and "right" in shown.stdout, shown.stderr  # PyTorch's own rule


def test_the_sum_of_a_pending_norm_is_no_pending_norm():
    """172288: any pending tensor is taken for a pending sum, in torch 2.13 still."""
    wrong = {row["rule"].split(": ")[1]: row for row in audited(aten.sum.default, numbers(6, 4))["incorrect"]}
    shown = subprocess.run([sys.executable, "-c", ct.Audit.script(wrong["_NormP(2) -> _NormP(2)"])], capture_output=True, text=True)
    assert shown.returncode == 1 and "WRONG" in shown.stdout, shown.stderr


@pytest.mark.parametrize("op, args", [(aten.mm.default, (numbers(4, 8), numbers(8, 4))),
                                      (aten.mul.Tensor, (numbers(8, 4), numbers(8, 4)))])
def test_orders_are_right_in_this_version(op, args):
    record = audited(op, *args)
    assert record["pairs"] > 0 and not record["incorrect"], record["incorrect"]


def test_a_mean_over_shards_of_unequal_sizes():
    """Right on five devices, and on two it is not: DTensor 2.13 has the rule on any number."""
    wrong = {row["rule"].split(": ")[1] for row in audited(aten.mse_loss.default, numbers(5), numbers(5) ** 2)["incorrect"]}
    assert "S(0), S(0) -> P(avg)" in wrong


@pytest.mark.parametrize("op, args, reason", [
    (aten._linalg_solve_ex.default, (numbers(5, 5), numbers(5)), "ill-conditioned"),  # of rows that depend on each other
    (aten.fmod.Tensor, (numbers(10, 5), numbers(10, 5)), ""),  # of denormal numbers, alone or in a row
    (aten.complex.default, (numbers(5), numbers(5)), ""),  # rounding of complex numbers
    (aten.special_chebyshev_polynomial_u.default, (numbers(5, 1), numbers(5)), ""),  # a degree of NaN
])
def test_what_is_no_fault_of_a_rule(op, args, reason):
    record = audited(op, *args)
    assert record["rules"] > 0 and not record["incorrect"], record["incorrect"]
    assert not reason or any(reason in row["reason"] for row in record["untestable"])


@pytest.mark.parametrize("op, args, without, rule", [
    (aten.mm.default, (numbers(6, 4), numbers(4, 8)), [[S(0), S(0), Replicate()], [S(1), Replicate(), S(1)]], ["P(sum)", "R"]),  # 174926
    (aten.bucketize.Tensor, (numbers(6, 4), numbers(8).sort().values), [[S(0), S(0), Replicate()]], ["R", "S(0)"]),  # 174830
    (aten._to_copy.default, (numbers(6, 4),), [[S(0), S(0)]], ["P(sum)"]),  # 183363
])
def test_rules_that_are_not_there_are_missed(op, args, without, rule, own_strategies):
    put_back(op, without)
    missing = {tuple(row["inputs"]): row for row in audited(op, *args)["missing"]}
    assert missing[tuple(rule)]["outputs"] == ["P(sum)"]
    assert missing[tuple(rule)]["bytes_per_mib"] > 0


def test_an_audit_with_processes_goes_on_where_it_was_stopped(tmp_path):
    told = []
    first = ct.audit(["cumsum", "mm"], folder=tmp_path, calls=2, progress=told.append)
    assert {record["op"] for record in first.records} >= {"aten.cumsum.default", "aten.mm.default"}
    assert not first.incorrect and first.total("rules") > 4 and any("%" in line for line in told)
    assert {row["op"] for row in first.missing} >= {"aten.cumsum.default"}
    kept = (tmp_path / "audit.jsonl").read_text().splitlines()
    (tmp_path / "audit.jsonl").write_text("\n".join(kept[:2]) + '\n{"op": "aten.')  # stopped in the middle of a line
    again = ct.audit(["cumsum", "mm"], folder=tmp_path, calls=2, processes=0)
    timeless = lambda audit: [{k: v for k, v in record.items() if k != "seconds"} for record in audit.records]
    assert timeless(again) == timeless(first)
    with pytest.raises(UserError, match="another version or other options"):
        ct.audit(["cumsum"], folder=tmp_path, calls=3, processes=0)


def test_an_audit_that_is_killed_goes_on(tmp_path):
    """By a signal that nobody can catch: its processes end too, and what was done is there."""
    code = f"""
import cleave.torch as ct
ct.audit(["cumsum", "trace", "mm", "renorm"], folder={str(tmp_path)!r}, calls=1, dtypes=("float64",), two_axes=False, processes=1)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    kept = tmp_path / "audit.jsonl"
    while run.poll() is None and not (kept.exists() and len(kept.read_text().splitlines()) > 1):
        time.sleep(0.02)
    run.kill()
    run.wait()
    before = [json.loads(line) for line in kept.read_text().splitlines()[1:]]
    assert before
    told = []
    audit = ct.audit(["cumsum", "trace", "mm", "renorm"], folder=tmp_path, calls=1, dtypes=("float64",), two_axes=False, processes=0,
                     progress=told.append)
    assert {record["op"] for record in audit.records} >= {"aten.cumsum.default", "aten.trace.default", "aten.mm.default", "aten.renorm.default"}
    assert all(record in audit.records for record in before)
    assert not any(record["op"] in line for record in before for line in told)  # they are not done again


def test_what_is_saved(tmp_path):
    audit = ct.audit("cumsum", calls=1, processes=0)
    audit.save(tmp_path)
    data = json.loads((tmp_path / "audit.json").read_text())
    assert data["records"][0]["op"] == "aten.cumsum.default" and data["about"]["torch"] == torch.__version__
    page = (tmp_path / "audit.md").read_text()
    assert "## Missing" in page and "`P(sum) -> P(sum)`" in page
    assert "1 overloads of 1 OpInfo entries" in str(audit)


@pytest.mark.parametrize("call, words", [
    (lambda: ct.audit("no_such_operator", processes=0), "no samples of 'no_such_operator'"),
    (lambda: ct.audit(["aten.no_such.default"], processes=0), "aten.no_such.default"),
    (lambda: ct.audit("mm", dtypes=["float7"], processes=0), "dtype 'float7' is not tried"),
    (lambda: ct.audit("cumsun", processes=0), "near it: cumsum"),
    (lambda: ct.audit([]), "no operator"),
    (lambda: ct.audit(3), "names of operators"),
    (lambda: ct.audit("mm", worlds=(1,)), "worlds=.1,.: .* from 2 to 64"),
    (lambda: ct.audit("mm", worlds=3), "worlds=3"),
    (lambda: ct.audit("mm", calls=0), "calls=0"),
    (lambda: ct.audit("mm", processes="two"), "processes='two'"),
    (lambda: ct.audit("mm", folder="/proc/no/such", processes=0), "/proc/no.* cannot be written"),
    (lambda: ct.Audit([], {}, {"torch": "", "cleave": "", "options": {}}).save("/proc/no/such"), "/proc/no.* cannot be written"),
])
def test_wrong_calls_say_what_is_wrong(call, words):
    with pytest.raises(UserError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_audit(tmp_path):
    (tmp_path / "audit.jsonl").write_text("something else\n")
    with pytest.raises(UserError, match="audit.jsonl is no audit"):
        ct.audit("trace", folder=tmp_path, processes=0)


def test_a_script_shows_what_is_wrong(own_strategies, tmp_path):
    """The script of a finding, with the wrong rule put back in front: status 1; as PyTorch is, status 0."""
    op, args, rows, _ = WRONG["abs of a pending sum"]
    put_back(op, rows)
    script = ct.Audit.script(audited(op, *args)["incorrect"][0])
    wrong_rule = ("import torch\nfrom torch.distributed.tensor import Partial\n"
                  "from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy\n"
                  "register_single_dim_strategy(torch.ops.aten.abs.default)(lambda *_: [[Partial('sum'), Partial('sum')]])\n")
    run = lambda text: subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path)
    wrong = run(wrong_rule + script)
    assert wrong.returncode == 1 and "WRONG" in wrong.stdout, wrong.stdout + wrong.stderr
    right = run(script)
    assert right.returncode == 0 and "right" in right.stdout, right.stdout + right.stderr
