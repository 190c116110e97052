"""Modules that JAX prints go in and out unchanged: through the pretty syntax, the generic one and JSON."""

import os
import subprocess

import pytest

import jax_models

CLEAVE = os.environ["CLEAVE_COMMAND"]


def opt(text, *options):
    run = subprocess.run([CLEAVE, "opt", "-", *options], input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", [*jax_models.MODELS, "transformer_sharded"])
def test_goes_in_and_out_unchanged(name):
    text = jax_models.module_text(name)
    assert opt(text).rstrip("\n") == text.rstrip("\n")
    generic = opt(text, "-mlir-print-op-generic")
    assert opt(generic).rstrip("\n") == text.rstrip("\n")
