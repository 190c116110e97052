"""The rules that `cleave discover OP --emit shardy` writes, read by Shardy itself (the sdy dialect inside jaxlib)."""

import os
import subprocess

import pytest

ir = pytest.importorskip("jaxlib.mlir.ir")
sdy = pytest.importorskip("jaxlib.mlir.dialects.sdy")

CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")


@pytest.mark.parametrize("operator", ["cross", "matmul", "sum", "amax", "where", "transpose", "max_with_index", "view",
                                      "stablehlo.dot_general", "stablehlo.reduce"])
def test_emitted_rules_are_read_and_printed_alike(operator):
    text = subprocess.run([CLEAVE, "discover", operator, "--emit", "shardy"], check=True, capture_output=True,
                          text=True).stdout
    rules = [line for line in text.splitlines() if line.startswith("#sdy.op_sharding_rule")]
    assert rules
    with ir.Context() as context:
        sdy.register_dialect(context)
        for rule in rules:
            assert str(ir.Attribute.parse(rule)) == rule
