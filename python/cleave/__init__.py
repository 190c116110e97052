"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

    import cleave
    mesh = cleave.Mesh(data=2, model=4)
    plan = cleave.plan("model:gpt?step=train", mesh=mesh, machine="h100", memory="80GiB")
    print(plan.explain())
    cleave.show(cleave.Sharding(mesh, cleave.P("data", "model")), (8, 16))

`cleave.jax` plans, applies and checks the sharding of JAX functions. `cleave.Tensor` computes over a mesh, with the functions
of `cleave.numpy`, `cleave.nn`, `cleave.random`, `cleave.linalg`, `cleave.fft` and `cleave.comm`; `cleave.grad`, `cleave.vmap`,
`cleave.jit`, `cleave.shard_map` and `cleave.autoshard` are functions of functions over Tensors.
"""

import importlib

from cleave._core import (
    CommLog,
    CompiledProgram,
    InternalError,
    Machine,
    Mesh,
    Module,
    Propagation,
    Rule,
    Sharding,
    Tensor,
    UserError,
    __version__,
    memory_in_use,
    passes,
    read_compiled,
)
from cleave.specs import P
from cleave.tensors import asarray, evaluate, from_dlpack, tensor

__all__ = [
    "CommLog",
    "CompiledProgram",
    "InternalError",
    "Machine",
    "Mesh",
    "Module",
    "P",
    "Propagation",
    "Rule",
    "Sharding",
    "Tensor",
    "UserError",
    "asarray",
    "evaluate",
    "from_dlpack",
    "memory_in_use",
    "passes",
    "read_compiled",
    "tensor",
]

# Names that are imported when they are asked for, by the module that has them: `import cleave` takes the time of its library.
_LAZY = {
    name: module
    for module, names in {
        "discovery": "Discovery discover operators",
        "flow": "associative_scan cond fori_loop scan switch while_loop",
        "pictures": "show",
        "plans": "Plan explain plan read_plan verify",
        "profiles": "machine machines",
        "programs": "autoshard jit shard_map",
        "registering": "custom_call register_op register_rule registered unregister_op unregister_rule",
        "resharding": "Reshard reshard",
        "running": "run",
        "transforms": "checkpoint custom_vjp grad hessian jacfwd jacrev jvp keep stop_gradient trace value_and_grad vjp vmap",
    }.items()
    for name in names.split()
}
__all__ += sorted(_LAZY)

_SUBMODULES = {"comm", "dtypes", "fft", "jax", "linalg", "nn", "numpy", "random", "tree"}

TYPE_CHECKING = False  # as in typing, which takes a while to import
if TYPE_CHECKING:
    from cleave.discovery import Discovery, discover, operators
    from cleave.flow import associative_scan, cond, fori_loop, scan, switch, while_loop
    from cleave.pictures import show
    from cleave.plans import Plan, explain, plan, read_plan, verify
    from cleave.profiles import machine, machines
    from cleave.programs import autoshard, jit, shard_map
    from cleave.registering import custom_call, register_op, register_rule, registered, unregister_op, unregister_rule
    from cleave.resharding import Reshard, reshard
    from cleave.running import run
    from cleave.transforms import (checkpoint, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, keep, stop_gradient, trace,
                                   value_and_grad, vjp, vmap)


def __getattr__(name):
    if name in _LAZY:
        value = globals()[name] = getattr(importlib.import_module(f"cleave.{_LAZY[name]}"), name)
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"cleave.{name}")
    raise AttributeError(f"module 'cleave' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(_LAZY) | _SUBMODULES)
