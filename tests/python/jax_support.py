"""What tests of cleave.jax share."""

import jax
import numpy as np
from corpus import num_state  # noqa: F401, of bench/xla, as conftest.py has it in the path
from exports import draw  # noqa: F401

import cleave.jax as cj
from cleave import UserError


def tight(fn, args, mesh, share=0.35, **options):
    """fn autosharded within memory that makes a plan split things: a share of what it takes whole, or more if nothing fits. The
    plan is the same on every machine, however busy."""
    whole = cj.plan(fn, *args, mesh=mesh, machine="h100", **options).memory_bytes
    while True:
        step = cj.autoshard(fn, mesh, machine="h100", memory=int(share * whole), memory_share=1.0, time_limit=5, by_effort=True,
                            **options)
        try:
            step.prepare(*args)
            return step
        except UserError as error:
            if "no plan fits" not in str(error) or share > 1:
                raise
            share *= 1.4


def distance(found, wanted):
    """The largest difference, relative to the largest number of its array."""
    worst = 0.0
    found, wanted = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert a.shape == b.shape
        worst = max(worst, float(np.max(np.abs(a - b), initial=0)) / max(1.0, float(np.max(np.abs(b), initial=0))))
    return worst


def expect_same_steps(step, fn, state, batch, steps=5, within=1e-4):
    """Both go through as many steps, each from its own state; the results agree, and the state lies as planned."""
    own, reference = state, state
    plain = jax.jit(fn)
    for _ in range(steps):
        result, wanted = step(*own, *batch), plain(*reference, *batch)
        assert distance(result, wanted) < within
        own, reference = result[: len(state)], wanted[: len(state)]
    for tree, shardings in zip(own, step._last.in_shardings):
        same = jax.tree.map(lambda a, s: a.sharding.is_equivalent_to(s, a.ndim), tree, shardings)
        assert all(jax.tree.leaves(same)), "a step's state is not where the next one wants it"
