"""A plan under a jitted function: XLA gets the planned program instead of the function's own."""

import dataclasses

import jax
from jax.extend import mlir
from jax.extend.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from cleave._core import UserError


def with_module(exported, text):
    """The same export with another module under it, or with its own if `text` is None."""
    if text is None:
        return dataclasses.replace(exported, _get_vjp=lambda _: refuse_derivative(exported))
    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(text)
        artifact = mlir.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
    # Types with layouts may have been traced; the plan's layouts are those of the jitted function around the export.
    names = {field.name for field in dataclasses.fields(exported)}
    free = {name: (None,) * len(getattr(exported, name)) for name in ("_in_named_shardings", "_out_named_shardings") if name in names}
    return dataclasses.replace(exported, mlir_module_serialized=artifact, nr_devices=1, **free,
                               _get_vjp=lambda _: refuse_derivative(exported))


def callable_of(exported):
    """The export as a function, which derivatives and vmap refuse with a way out."""
    @jax.custom_batching.custom_vmap
    def batched(args, kwargs):
        return exported.call(*args, **kwargs)

    @batched.def_vmap
    def no_batches(axis_size, in_batched, args, kwargs):
        raise UserError(f"{exported.fun_name}: a planned function is for the sizes that it was planned for; plan the batched "
                        f"one instead: autoshard(jax.vmap({exported.fun_name}), mesh)")

    @jax.custom_jvp
    def call(args, kwargs):
        return batched(args, kwargs)

    @call.defjvp
    def no_derivative(primals, tangents):
        refuse_derivative(exported)

    return call


def refuse_derivative(exported):
    raise UserError(f"{exported.fun_name}: a planned function has no derivative of its own, since that would run unplanned; plan "
                    f"the derivative instead: autoshard(jax.value_and_grad({exported.fun_name}), mesh)")
