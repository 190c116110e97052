"""Train steps of real models, with random shardings on their arguments, through the whole propagation pipeline of
Cleave and of Shardy (inside jaxlib): the same text comes out, line by line.

Without annotations not a line may differ. With them, two in a hundred may: docs/conformance.md says where and why."""

import difflib
import os
import random
import re
import subprocess

import pytest

pytest.importorskip("jaxlib.mlir.passmanager")

import jax_models
from random_modules import Generator
from shardy_worker import run_shardy

CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")
SEEDS = int(os.environ.get("CLEAVE_PIPELINE_SEEDS", "2"))
MODELS = ["transformer", "transformer_scan", "mixture_of_experts", "resnet", "unet_block"]


def annotate(text, seed):
    """Random shardings on some arguments of @main."""
    generator = Generator(seed)
    chance = random.Random(seed)

    def add(match):
        argument, shape = match.group(1), match.group(2)
        if chance.random() > 0.3:
            return match.group()
        rank = shape.count("x")
        return f"{argument}: tensor<{shape}> {{sdy.sharding = #sdy.sharding{generator.sharding(rank)}}}"

    begin = text.index("@main(")
    end = text.index("\n", begin)
    signature = re.sub(r"(%arg\d+): tensor<([^>]*)>(?! \{)", add, text[begin:end])
    axes = ", ".join(f'"{name}"={size}' for name, size in generator.mesh.items())
    head, body = text[:begin], signature + text[end:]
    cut = head.index("{\n", head.index("module")) + 2
    return f"{head[:cut]}  sdy.mesh @mesh = <[{axes}]>\n{head[cut:]}{body}"


def without_chlo(text):
    """Shardy has no rules for chlo, and Cleave has: another elementwise op in its place."""
    return re.sub(r"chlo\.\w+ (%[\w#]+) : (tensor<[^>]*>) -> tensor<[^>]*>", r"stablehlo.tanh \1 : \2", text)


def lines(text):
    text = re.sub(r" \{stablehlo\.mesh = \{.*?\}\]\}\}", "", text)
    return [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("module")]


def sharded(lines):
    """Without what Shardy's export adds after propagation: reshards of operands, numbers of values."""
    kept = [line for line in lines if "sdy.reshard" not in line and "sdy.all_reduce" not in line]
    return [re.sub(r"%[\w#]+", "%", line) for line in kept]


@pytest.mark.parametrize("name", MODELS)
def test_same_module(name, tmp_path):
    plain = without_chlo(jax_models.module_text(name))
    texts = [plain] + [annotate(plain, seed) for seed in range(SEEDS)]
    theirs = run_shardy(texts, "builtin.module(sdy-propagation-pipeline)")
    for i, (text, their) in enumerate(zip(texts, theirs)):
        assert their is not None, "Shardy refused the module"
        run = subprocess.run([CLEAVE, "opt", "-", "-sdy-propagation-pipeline"], input=text, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        ours, wanted = sharded(lines(run.stdout)), sharded(lines(their))
        differing = [line for line in difflib.unified_diff(ours, wanted, lineterm="", n=0) if line[0] in "+-"]
        if len(differing) > (len(wanted) // 50 if i else 0):
            for suffix, content in (("in", text), ("cleave", run.stdout), ("shardy", their)):
                (tmp_path / f"{i}.{suffix}.mlir").write_text(content)
            pytest.fail(f"variant {i} differs in {len(differing)} lines, see {tmp_path}")
