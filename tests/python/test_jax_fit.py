"""fit="compiled": plans until XLA's own count of memory is within the limit."""

import pytest

jax = pytest.importorskip("jax")

import corpus
from jax_support import num_state

import cleave.jax as cj
from cleave import UserError
from cleave.jax.check import compiled_memory
from cleave.jax.fit import ROUNDS, Candidate, fit_compiled

MESH = jax.make_mesh((2, 4), ("data", "model"))


def search(limit, plans, compiled):
    """`plans`: bytes that the planner counts and costs, of which the cheapest within a limit is taken; `compiled`: what XLA
    makes of such bytes. Returns the cost that was found, the Fit, and the limits that were tried."""
    tried = []

    def make(within, objective):
        tried.append(within)
        fitting = [(cost, planned) for planned, cost in plans if planned <= within]
        if not fitting:
            raise UserError(f"no plan fits {within}")
        cost, planned = min(fitting)
        return Candidate(cost, planned, compiled(planned), cost)
    best, fit = fit_compiled(limit, make, [("step", 0)])
    return best.kept, fit, tried


def test_the_limit_is_lowered_by_the_ratio():
    plans = [(100 * i, 1000 - 100 * i) for i in range(1, 10)]
    cost, fit, tried = search(650, plans, lambda planned: int(1.3 * planned))
    assert (cost, fit.compiled, fit.planned) == (500, 650, 500)
    assert tried[0] == 650 and len(tried) == fit.rounds <= 5


def test_the_limit_is_raised_if_xla_holds_less():
    plans = [(100 * i, 1000 - 100 * i) for i in range(1, 10)]
    cost, fit, _ = search(450, plans, lambda planned: planned // 2)
    assert (cost, fit.compiled, fit.planned_limit > 800) == (200, 400, True)


def test_the_limit_is_raised_if_no_plan_fits():
    cost, fit, _ = search(500, [(600, 7)], lambda planned: planned - 150)
    assert (cost, fit.compiled, fit.rounds) == (7, 450, 3)


def test_a_plan_that_memory_does_not_bind_is_taken_at_once():
    assert search(1000, [(100, 1.0)], lambda planned: planned)[2] == [1000]


def test_the_best_of_several_that_fit_is_kept():
    """What XLA holds need not grow with what is planned."""
    held = {900: 1200, 800: 1100, 700: 650, 600: 999, 500: 400}
    cost, fit, _ = search(1000, [(planned, 1000 - planned) for planned in held], held.get)
    assert (cost, fit.planned) == (300, 700)


def test_plans_of_which_xla_holds_less_than_others_are_found():
    """Most are predicted well; one, which is the best, is predicted to hold a tenth more than it does."""
    held = {1090: 990, 950: 950, 700: 700}
    cost, fit, tried = search(1000, [(1090, 1.0), (950, 5.0), (700, 9.0)], held.get)
    assert (cost, fit.compiled, fit.planned) == (1.0, 990, 1090)
    assert len(tried) <= 3
    cost, _, tried = search(1000, [(1090, 1.0), (950, 5.0)], {1090: 1080, 950: 950}.get)
    assert cost == 5.0 and len(tried) <= 3


def test_what_cannot_fit_is_said_in_one_line():
    with pytest.raises(UserError, match=r"no plan was found that fits 100 bytes as compiled: XLA holds at least 240 bytes, planned "
                                        r"within \d+ bytes \(\d rounds of planning and compiling\); give it more memory"):
        search(100, [(40 + i, 100 - i) for i in range(60)], lambda planned: 200 + planned)
    with pytest.raises(UserError, match="no plan fits 100$"):
        search(100, [], None)


def test_rounds_are_few():
    odd = lambda planned: planned + (700 if planned % 2 else 0)
    _, fit, tried = search(1000, [(i, -i) for i in range(1, 1001)], odd)
    assert fit.compiled <= 1000 and len(tried) <= ROUNDS


# ---- real programs


@pytest.mark.parametrize("name", ["gpt", "dlrm"])
def test_compiled_programs_fit(name):
    fn, args = corpus.STEPS[name][0]()[:2]
    options = dict(machine="h100", memory_share=1.0, donate_argnums=tuple(range(num_state(fn, args))))
    whole = cj.autoshard(fn, MESH, **options)
    whole.prepare(*args)
    limit = int(0.5 * compiled_memory(whole.lower(*args).compile()))
    lines = []
    step = cj.autoshard(fn, MESH, memory=limit, fit="compiled", progress=lines.append, **options)
    step.prepare(*args)
    assert step.fit.limit == limit
    assert compiled_memory(step.lower(*args).compile()) == step.fit.compiled <= limit
    assert sum(line.startswith("fit, round ") for line in lines) == step.fit.rounds
    made = step.check()
    assert made.ok and str(made).splitlines()[-1].startswith("ok   as compiled, ")


def test_share_of_the_memory():
    fn, args = corpus.STEPS["dlrm"][0]()[:2]
    step = cj.autoshard(fn, MESH, machine="h100", memory="1MiB", memory_share=0.5, fit="compiled")
    step.prepare(*args)
    assert step.fit.limit == 1 << 19


def test_objectives():
    """Each plan is no worse than the others by its own objective, within the same memory."""
    fn, args = corpus.STEPS["gpt"][0]()[:2]
    whole = cj.plan(fn, *args, mesh=MESH, machine="h100")
    plans = {objective: cj.plan(fn, *args, mesh=MESH, machine="h100", memory=whole.memory_bytes // 2, memory_share=1.0,
                                objective=objective, time_limit=3, by_effort=True) for objective in ("step", "sum", "bytes")}
    for objective, own in plans.items():
        assert own.objective == objective and own.objective_value == own.value_of(objective)
        assert all(own.objective_value <= 1.02 * other.value_of(objective) for other in plans.values())
    assert plans["bytes"].received_bytes > 0
    assert "received by a device, at least" in str(plans["bytes"])
    step = cj.autoshard(fn, MESH, machine="h100", memory=whole.memory_bytes // 2, memory_share=1.0, objective="bytes")
    step.prepare(*args)
    assert step.check().ok


def test_a_plan_that_splits_nothing_runs_as_the_function_itself():
    fn, args = corpus.STEPS["gpt"][0]()[:2]
    step = cj.autoshard(fn, MESH, machine="h100", objective="bytes")
    assert step.prepare(*args).is_whole and step.plan.received_bytes == 0
    everywhere = jax.sharding.NamedSharding(MESH, jax.sharding.PartitionSpec())
    plain = jax.jit(fn, keep_unused=True, in_shardings=everywhere, out_shardings=everywhere).lower(*args).compile()
    assert compiled_memory(step.lower(*args).compile()) == compiled_memory(plain)
    assert step.check().ok


def test_other_objectives_are_tried_if_nothing_fits():
    plans = {"bytes": [(50, 1.0)], "step": [(60, 2.0), (70, 1.5)]}

    def make(within, variant):
        fitting = [(cost, planned) for planned, cost in plans[variant[0]] if planned <= within]
        if not fitting:
            raise UserError(f"no plan fits {within}")
        cost, planned = min(fitting)
        return Candidate(cost, planned, planned + (100 if variant[0] == "bytes" else 0), variant[0])
    best, fit = fit_compiled(100, make, [("bytes", 0), ("step", 0)])
    assert (best.kept, best.cost, fit.compiled) == ("step", 1.5, 70)


def test_refusals():
    fn = lambda x: x * 2
    x = jax.ShapeDtypeStruct((8, 8), "float32")
    with pytest.raises(UserError, match="fit 'tight': there are planned and compiled"):
        cj.autoshard(fn, MESH, fit="tight")
    with pytest.raises(UserError, match="objective 'speed': there are step, sum and bytes"):
        cj.autoshard(fn, MESH, objective="speed")
    with pytest.raises(UserError, match="plan= does not plan; leave one out"):
        cj.autoshard(fn, MESH, fit="compiled", plan="plan.json")
    with pytest.raises(UserError, match="an AbstractMesh has none"):
        cj.plan(fn, x, mesh=MESH.abstract_mesh, fit="compiled")
    with pytest.raises(UserError, match="no plan fits 16.00 bytes|no plan was found that fits 16 bytes as compiled|no plan fits"):
        cj.autoshard(fn, MESH, machine="h100", memory=16, memory_share=1.0, fit="compiled").prepare(x)
    plain = cj.autoshard(fn, MESH, machine="h100")
    plain.prepare(x)
    assert plain.fit is None
