"""The scripts of `cleave calibrate --emit` run on a CPU with small sizes, and their measurements make a profile."""
import json
import os
import subprocess
import sys

import pytest

CLEAVE = os.environ["CLEAVE_COMMAND"]


def cleave(*arguments):
    return subprocess.run([CLEAVE, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("framework, options", [("jax", []), ("torch", ["--ranks", "2"]), ("torch", ["--eager"])])
def test_measures_and_fits(framework, options, tmp_path):
    script, measured, profile = tmp_path / "measure.py", tmp_path / "measured.json", tmp_path / "profile.json"
    script.write_text(cleave("calibrate", "--emit", framework))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, script, "--quick", "-o", measured, *options], env=environment, check=True, timeout=600)
    rows = json.loads(measured.read_text())
    assert {row["kind"] for row in rows["kernels"]} >= {"product", "convolution", "elementwise", "reduction", "rows", "launch"}
    kinds = {row["kind"] for row in rows["collectives"]}
    if framework == "jax":
        assert kinds == {"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"}
    elif not options[0] == "--eager":
        assert kinds == {"all_gather", "all_reduce"}  # what gloo has
    said = cleave("calibrate", "--from", str(measured), "--base", "h100", "--out", str(profile))
    assert "product bf16" in said and "elementwise f32" in said
    fitted = json.loads(profile.read_text())
    assert fitted["memory_gbps"] > 0 and fitted["executor"]["name"] == rows["executor"]
