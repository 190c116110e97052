"""Cleave splits tensor programs over a mesh of devices and proves that nothing changed.

`cleave.jax` plans, applies and checks the sharding of JAX functions.
"""

from cleave._core import (
    CompiledProgram,
    InternalError,
    Module,
    UserError,
    __version__,
    read_compiled,
)

__all__ = [
    "CompiledProgram",
    "InternalError",
    "Module",
    "UserError",
    "read_compiled",
]
