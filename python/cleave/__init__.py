"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

    import cleave
    mesh = cleave.Mesh(data=2, model=4)
    plan = cleave.plan("model:gpt?step=train", mesh=mesh, machine="h100", memory="80GiB")
    print(plan.explain())
    cleave.show(cleave.Sharding(mesh, '[{"data"}, {"model"}]'), (8, 16))

`cleave.jax` plans, applies and checks the sharding of JAX functions. docs/guide/python.md is the guide.
"""

import importlib

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

# Names that are imported when they are asked for, by the module that has them: `import cleave` takes the time of its library.
_LAZY = {
    name: module
    for module, names in {
        "discovery": "Discovery discover operators",
        "pictures": "show",
        "plans": "Plan explain plan read_plan verify",
        "profiles": "machine machines",
        "resharding": "Reshard reshard",
        "running": "run",
    }.items()
    for name in names.split()
}

TYPE_CHECKING = False  # as in typing, which takes a while to import
if TYPE_CHECKING:
    from cleave.discovery import Discovery, discover, operators
    from cleave.pictures import show
    from cleave.plans import Plan, explain, plan, read_plan, verify
    from cleave.profiles import machine, machines
    from cleave.resharding import Reshard, reshard
    from cleave.running import run


def __getattr__(name):
    if name in _LAZY:
        value = globals()[name] = getattr(importlib.import_module(f"cleave.{_LAZY[name]}"), name)
        return value
    raise AttributeError(f"module 'cleave' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(_LAZY))


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
