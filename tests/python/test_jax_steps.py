"""Train steps of many kinds through autoshard: five steps are those of the unsharded function, and XLA moves exactly the bytes
that were planned, kind by kind, and holds the memory that was predicted for its compiler, within 15%."""

import corpus
import jax
import pytest
from jax_support import draw, expect_same_steps, num_state, tight
from selection import some

MESHES = {"2x4": ((2, 4), ("data", "model")), "2x2x2": ((2, 2, 2), ("x", "y", "z"))}
LOOPS = ("llama_scan",)  # XLA takes out of loops what does not change there
STEPS = ("gpt", "moe", "vit", "llama_scan", "resnet", "unet", "ssm", "dlrm")


# Each step on the one mesh or the other, and in CI on both.
@pytest.mark.parametrize("name, mesh", some([(name, mesh) for i, name in enumerate(STEPS) for mesh in sorted(MESHES, reverse=i % 2)]))
def test_five_steps_and_the_bytes_of_the_plan(name, mesh):
    # Sizes that divide on two axes, sizes that do not on three.
    fn, args = corpus.STEPS[name][mesh == "2x2x2"]()[:2]
    count = num_state(fn, args)
    step = tight(fn, args, jax.make_mesh(*MESHES[mesh]), donate_argnums=tuple(range(count)))
    assert step.plan.received_bytes > 0, "nothing is split"
    values = draw(args)
    expect_same_steps(step, fn, values[:count], values[count:], steps=5 if count else 1)
    made = step.check()
    assert made.ok and made.asked_good and made.planned_bytes == step.plan.received_bytes
    assert made.is_exact or name in LOOPS
    assert made.memory.compiled_arguments == made.memory.planned_arguments
    memory = made.memory
    assert made.memory_good, f"{memory.compiled} compiled, {memory.predicted} predicted for {memory.platform}"
