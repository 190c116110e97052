"""Plans for JAX: stay in your framework, get the best plan, run exactly as planned.

    import jax, cleave.jax as cj
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    step = cj.autoshard(train_step, mesh, machine="h100", memory="80GiB", donate_argnums=(0,))
    state, loss = step(state, batch)
    print(step.plan.explain())
    print(step.check())
"""

from cleave.jax.autoshard import AutoshardedFunction, autoshard, plan
from cleave.jax.check import Check
from cleave.jax.plans import JaxPlan

__all__ = ["AutoshardedFunction", "Check", "JaxPlan", "autoshard", "plan"]
