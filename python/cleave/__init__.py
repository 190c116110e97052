"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

`cleave.jax` plans, applies and checks the sharding of JAX functions. `cleave.Tensor` computes over a mesh, with the functions
of `cleave.numpy`, `cleave.nn`, `cleave.random`, `cleave.linalg`, `cleave.fft` and `cleave.comm`; `cleave.grad`, `cleave.vmap`,
`cleave.jit`, `cleave.shard_map` and `cleave.autoshard` are functions of functions over Tensors.
"""

import importlib

from cleave._core import (
    CommLog,
    CompiledProgram,
    InternalError,
    Module,
    Tensor,
    UserError,
    memory_in_use,
    read_compiled,
)
from cleave.specs import P
from cleave.tensors import asarray, evaluate, from_dlpack, tensor

__version__ = "0.1.0"

__all__ = [
    "CommLog",
    "CompiledProgram",
    "InternalError",
    "Module",
    "P",
    "Tensor",
    "UserError",
    "asarray",
    "evaluate",
    "from_dlpack",
    "memory_in_use",
    "read_compiled",
    "tensor",
]

# Names that are imported when they are asked for, by the module that has them.
_LAZY = {
    name: module
    for module, names in {
        "transforms": "checkpoint custom_vjp grad hessian jacfwd jacrev jvp keep stop_gradient trace value_and_grad vjp vmap",
        "flow": "associative_scan cond fori_loop scan switch while_loop",
        "programs": "autoshard jit shard_map",
    }.items()
    for name in names.split()
}
__all__ += sorted(_LAZY)

_SUBMODULES = {"comm", "dtypes", "fft", "jax", "linalg", "nn", "numpy", "random", "tree"}


def __getattr__(name):
    if name in _LAZY:
        value = globals()[name] = getattr(importlib.import_module(f"cleave.{_LAZY[name]}"), name)
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"cleave.{name}")
    raise AttributeError(f"module 'cleave' has no attribute {name!r}")
