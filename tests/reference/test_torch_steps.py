"""Train steps that PyTorch ran on one NVIDIA H200, eager and compiled, and what `cleave plan` predicts for them: every
time within 25%, memory within 25% at the median."""

import json
import os
import statistics
import subprocess

import pytest

CLEAVE = os.environ["CLEAVE_COMMAND"]

# PyTorch 2.11: parameters in f32, autocast to bf16, scaled_dot_product_attention, fused AdamW. Milliseconds (median of
# ten) and the largest number of bytes that its allocator held, without and with torch.compile.
MEASURED = {
    "gpt2": {"eager": (45.47, 12243048960), "inductor": (27.22, 7110334976)},
    "llama_1b": {"eager": (99.12, 34542947840), "inductor": (80.59, 27910704640)},
    "resnet50": {"eager": (26.60, 3318871552), "inductor": (29.97, 3200400384)},
}
TRANSFORMER = "&compute=bf16&attention=flash&step=train"
MODELS = {
    "gpt2": "model:gpt?layers=12&d=768&heads=12&kv_heads=12&hidden=3072&vocab=50304&batch=8&length=1024" + TRANSFORMER,
    "llama_1b": "model:gpt?layers=16&d=2048&heads=32&kv_heads=8&hidden=8192&vocab=128256&batch=2&length=2048" + TRANSFORMER,
    "resnet50": "model:resnet?blocks=3,4,6,3&channels=64&classes=1000&size=224&batch=64&bottleneck=yes&stem=large"
                "&norm=batch&compute=bf16&step=train",
}


@pytest.fixture(scope="module")
def ratios(tmp_path_factory):
    """By step and executor: predicted over measured seconds and bytes."""
    found = {}
    for name, rows in MEASURED.items():
        for executor, (ms, bytes_held) in rows.items():
            folder = tmp_path_factory.mktemp(name)
            machine, file = folder / "machine.json", folder / "plan.json"
            machine.write_text(json.dumps({"base": "h200", "executor": executor}))
            run = subprocess.run([CLEAVE, "plan", MODELS[name], "--mesh", "x=1", "--machine", str(machine), "--out",
                                  str(file)], capture_output=True, text=True)
            assert run.returncode == 0, run.stdout + run.stderr
            plan = json.loads(file.read_text())
            found[name, executor] = (1e3 * plan["totals"]["step_seconds"] / ms, plan["memory"]["peak"] / bytes_held)
    return found


def test_times_are_those_of_the_machine(ratios):
    errors = {key: round(pair[0], 2) for key, pair in ratios.items()}
    assert all(abs(ratio - 1) <= 0.25 for ratio in errors.values()), errors


def test_memory_is_that_of_the_allocator(ratios):
    errors = {key: round(pair[1], 2) for key, pair in ratios.items()}
    assert statistics.median(abs(ratio - 1) for ratio in errors.values()) <= 0.25, errors
