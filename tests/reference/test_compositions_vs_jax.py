"""Transforms of transforms of small programs: Cleave's passes on the text that JAX prints, against JAX's own. Every
program goes through four of the ten chains, and through all of them where CLEAVE_EVERYTHING is set."""

import os

import jax
import numpy as np
import pytest

from composition_cases import PROGRAMS
from test_derivatives_vs_jax import close, flat, like, run_passes

SIZE = 3


def is_smooth(x):
    return np.issubdtype(x.dtype, np.inexact)


def batch(args, seed):
    """Three examples of each argument, near the one that is given."""
    rng = np.random.default_rng(seed)
    return [np.stack([a + 0.4 * rng.standard_normal(np.shape(a)) for _ in range(SIZE)]) for a in args]


def pull(f):
    """Arguments, then cotangents of the smooth results -> results, then cotangents of arguments."""

    def pulled(*args):
        n = len(args) - pulled.count
        results, back = jax.vjp(f, *args[:n])
        given = iter(args[n:])
        full = tuple(next(given) if is_smooth(r) else np.zeros(r.shape, jax.dtypes.float0) for r in results)
        return (*results, *back(full))

    return pulled


def push(f):
    def pushed(*args):
        n = len(args) // 2
        results, tangents = jax.jvp(f, args[:n], args[n:])
        return (*results, *[t for t, r in zip(tangents, results) if is_smooth(r)])

    return pushed


def smooth_results(f, args):
    return [r for r in jax.eval_shape(f, *args) if np.issubdtype(r.dtype, np.inexact)]


def vjp_of(f, args):
    pulled = pull(f)
    extra = like([np.zeros(r.shape, r.dtype) for r in smooth_results(f, args)], 3)
    pulled.count = len(extra)
    return pulled, [*args, *extra]


def jvp_of(f, args):
    return push(f), [*args, *like(args, 5)]


def vmap_of(f, args):
    return jax.vmap(f), batch(args, 7)


PASSES = {"vjp": (vjp_of, "-cleave-vjp"), "jvp": (jvp_of, "-cleave-jvp"),
          "vmap": (vmap_of, f"-cleave-vmap=size={SIZE}")}
CHAINS = [("vmap",), ("vmap", "jvp"), ("jvp", "vmap"), ("jvp", "jvp"), ("vjp",), ("vmap", "vjp"), ("vjp", "vmap"),
          ("vjp", "jvp"), ("vjp", "vjp"), ("vmap", "vmap")]
EVERYTHING = "CLEAVE_EVERYTHING" in os.environ


def chains_of(i, forward):
    chains = [chain for chain in CHAINS if not (forward and "vjp" in chain)]
    return chains if EVERYTHING else {chains[(i + 3 * k) % len(chains)] for k in range(4)}


PARAMETERS = [(name, chain) for i, (name, (_, _, forward)) in enumerate(PROGRAMS.items())
              for chain in sorted(chains_of(i, forward))]


def applied(name, chain):
    f, args, _ = PROGRAMS[name]
    f, args = flat(f), list(args)
    text = jax.jit(f).lower(*args).as_text()
    passes = []
    for step in chain:
        transform, option = PASSES[step]
        f, args = transform(f, args)
        passes.append(option)
    return f, args, text, passes


@pytest.mark.parametrize("name,chain", PARAMETERS, ids=lambda v: v if isinstance(v, str) else "_".join(v))
def test_chain(name, chain, tmp_path):
    f, args, text, passes = applied(name, chain)
    close(run_passes(text, passes, args, tmp_path), jax.jit(f)(*args), 1e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_over_shards(name, tmp_path):
    """The derivative of the batch over 2, 3 or 2x3 devices, in random layouts that mostly do not divide."""
    chain = ("vmap", "jvp") if PROGRAMS[name][2] else ("vmap", "vjp")
    _, args, text, passes = applied(name, chain)
    mesh = ["--mesh=x=2", "--mesh=x=3", "--mesh=x=2,y=3"][sum(map(ord, name)) % 3]
    run_passes(text, passes, args, tmp_path, mesh, "--shard=random:3", "--verify")
