"""Derivatives that Cleave takes of JAX's modules, against those that JAX takes of the functions."""

import os
import pathlib
import subprocess

import jax
import numpy as np
import pytest

from derivative_cases import CASES

CLEAVE = os.environ["CLEAVE_COMMAND"]


def run_passes(text, passes, args, directory, *options):
    opt = subprocess.run([CLEAVE, "opt", "-", *passes, "-cleave-verify", "-cleave-round-trip"], input=text, capture_output=True,
                         text=True)
    assert opt.returncode == 0, opt.stderr[-2000:]
    given = []
    for i, arg in enumerate(args):
        np.save(directory / f"in{i}.npy", arg)
        given.append(f"--arg={i}={directory}/in{i}.npy")
    out = pathlib.Path(directory) / "out"
    run = subprocess.run([CLEAVE, "run", "-", "--quiet", *given, "--out", str(out), *options], input=opt.stdout,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    files = sorted(out.glob("result*.npy"), key=lambda f: int("".join(c for c in f.stem if c.isdigit())))
    return [np.load(f) for f in files]


def like(values, seed):
    rng = np.random.default_rng(seed)

    def one(x):
        x = np.asarray(x)
        y = rng.standard_normal(x.shape)
        return (y + 1j * rng.standard_normal(x.shape) if np.iscomplexobj(x) else y).astype(x.dtype)

    return [one(v) for v in values]


def is_smooth(x):
    return np.issubdtype(np.asarray(x).dtype, np.inexact)


def flat(f):
    return lambda *args: tuple(jax.tree.leaves(f(*args)))


def close(ours, theirs, tolerance=1e-8):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_vjp(name, tmp_path):
    f, args = CASES[name]
    f = flat(f)
    text = jax.jit(f).lower(*args).as_text()
    results, pull = jax.vjp(f, *args)
    cotangents = like([r for r in results if is_smooth(r)], 1)
    given = iter(cotangents)
    full = tuple(next(given) if is_smooth(r) else np.zeros(r.shape, jax.dtypes.float0) for r in results)
    ours = run_passes(text, ["-cleave-vjp"], [*args, *cotangents], tmp_path)
    close(ours, [*results, *pull(full)], 1e-6 if name == "convert" or name == "reduce_precision" else 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_jvp(name, tmp_path):
    f, args = CASES[name]
    f = flat(f)
    text = jax.jit(f).lower(*args).as_text()
    tangents = like(args, 2)
    results, out = jax.jvp(f, tuple(args), tuple(tangents))
    ours = run_passes(text, ["-cleave-jvp"], [*args, *tangents], tmp_path)
    close(ours, [*results, *[t for t, r in zip(out, results) if is_smooth(r)]], 1e-6 if name in ("convert", "reduce_precision") else 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_sharded_vjp(name, tmp_path):
    """Over a mesh with random layouts, uneven ones among them, the numbers are those of one device."""
    f, args = CASES[name]
    f = flat(f)
    text = jax.jit(f).lower(*args).as_text()
    cotangents = like([r for r in jax.jit(f)(*args) if is_smooth(r)], 1)
    mesh = ["--mesh=x=2", "--mesh=x=3", "--mesh=x=2,y=3"][sum(map(ord, name)) % 3]
    how = ["--shard=annotations"] if name.startswith("shard_map") else [mesh, "--shard=random:5"]
    run_passes(text, ["-cleave-vjp"], [*args, *cotangents], tmp_path, *how, "--verify")
