"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

    import cleave
    mesh = cleave.Mesh(data=2, model=4)
    plan = cleave.plan("model:gpt?step=train", mesh=mesh, machine="h100", memory="80GiB")
    print(plan.explain())
    cleave.show(cleave.Sharding(mesh, '[{"data"}, {"model"}]'), (8, 16))

`cleave.jax` plans, applies and checks the sharding of JAX functions. docs/guide/python.md is the guide.
"""

TYPE_CHECKING = False  # of typing, which takes a while to import

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

# Imported when they are first used: what is written in Python waits, so that `import cleave` takes the time of its library.
_WHERE = {
    "Discovery": "discovery",
    "Plan": "plans",
    "Reshard": "resharding",
    "discover": "discovery",
    "explain": "plans",
    "machine": "profiles",
    "machines": "profiles",
    "operators": "discovery",
    "plan": "plans",
    "read_plan": "plans",
    "reshard": "resharding",
    "run": "running",
    "show": "pictures",
    "verify": "plans",
}

if TYPE_CHECKING:
    from cleave.discovery import Discovery, discover, operators
    from cleave.pictures import show
    from cleave.plans import Plan, explain, plan, read_plan, verify
    from cleave.profiles import machine, machines
    from cleave.resharding import Reshard, reshard
    from cleave.running import run


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module 'cleave' has no attribute '{name}'")
    from importlib import import_module

    found = getattr(import_module(f"cleave.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__():
    return sorted(set(globals()) | set(_WHERE))


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
