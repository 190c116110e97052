"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

    import cleave
    mesh = cleave.Mesh(data=2, model=4)
    plan = cleave.plan("model:gpt?step=train", mesh=mesh, machine="h100", memory="80GiB")
    print(plan.explain())
    cleave.show(cleave.Sharding(mesh, '[{"data"}, {"model"}]'), (8, 16))

`cleave.jax` plans, applies and checks the sharding of JAX functions. docs/guide/python.md is the guide.
"""

from cleave._core import (
    CompiledProgram,
    InternalError,
    Machine,
    Mesh,
    Module,
    Propagation,
    Rule,
    Sharding,
    UserError,
    __version__,
    passes,
    read_compiled,
)
from cleave.discovery import Discovery, discover, operators
from cleave.profiles import machine, machines
from cleave.pictures import show
from cleave.plans import Plan, explain, plan, read_plan, verify
from cleave.resharding import Reshard, reshard
from cleave.running import run

__all__ = [
    "CompiledProgram",
    "Discovery",
    "InternalError",
    "Machine",
    "Mesh",
    "Module",
    "Plan",
    "Propagation",
    "Reshard",
    "Rule",
    "Sharding",
    "UserError",
    "discover",
    "explain",
    "machine",
    "machines",
    "operators",
    "passes",
    "plan",
    "read_compiled",
    "read_plan",
    "reshard",
    "run",
    "show",
    "verify",
]
