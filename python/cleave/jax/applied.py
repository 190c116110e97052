"""A plan under a jitted function: XLA gets the planned program instead of the function's own."""

import dataclasses

import jax
from jax.extend import mlir
from jax.extend.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from cleave._core import UserError


def with_module(exported, text):
    """The same export with another module under it, and without a derivative: that of JAX would run unplanned."""
    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(text)
        artifact = mlir.serialize_portable_artifact(module, stablehlo.get_current_version(), True)

    def no_derivative(_):
        raise UserError(f"{exported.fun_name}: a planned function has no derivative of its own, since that would run unplanned; "
                        f"plan the derivative instead: autoshard(jax.value_and_grad({exported.fun_name}), mesh)")

    return dataclasses.replace(exported, mlir_module_serialized=artifact, _get_vjp=no_derivative)


def callable_of(exported):
    """The export as a function, which vmap refuses with a way out."""
    @jax.custom_batching.custom_vmap
    def call(args, kwargs):
        return exported.call(*args, **kwargs)

    @call.def_vmap
    def no_batches(axis_size, in_batched, args, kwargs):
        raise UserError(f"{exported.fun_name}: a planned function is for the sizes that it was planned for; plan the batched "
                        f"one instead: autoshard(jax.vmap({exported.fun_name}), mesh)")

    return call
