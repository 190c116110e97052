"""Planned functions that call Python: jax.debug.print, jax.debug.callback, jax.pure_callback, io_callback.

An export cannot carry host functions, so these go another way: JAX lowers the function itself, which registers its host
functions, and the planned module takes the place of the lowered one before XLA compiles it. Module and host functions go
together by number, which is the order in which JAX meets the callbacks.
"""

import copy
import dataclasses
import re

import jax
from jax.extend.mlir import ir

from cleave._core import InternalError, UserError

CALL = re.compile(
    r"^(?P<indent>\s*)stablehlo\.custom_call @xla_ffi_(?:partitioned_)?python_[cg]pu_callback\(.*-> \(\)(?P<rest>.*)$")


@dataclasses.dataclass
class LoweredFunction:
    """What the parts of a plan ask of an export, of a function that was lowered instead."""

    fun_name: str
    in_tree: object
    out_tree: object
    out_avals: list
    text: str  # the module


def lower(jitted, args, kwargs, dynamic, name):
    """`jitted` as it is lowered for arguments, of which `dynamic` is (positional, by keyword) without static ones."""
    lowered = jitted.lower(*args, **kwargs)
    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True, large_elements_limit=None)
    if "!stablehlo.token" in text:
        raise UserError(f"autoshard: {name} has ordered effects, and devices that run side by side have no order; take "
                        "ordered=False, or return the value from the function and use it outside")
    leaves, out_tree = jax.tree.flatten(lowered.out_info)
    return LoweredFunction(name, jax.tree.structure(dynamic), out_tree, leaves, text)


class CallingStep:
    """The planned program with its host functions, for arguments of one set of shapes: called like a function of jax.jit."""

    def __init__(self, jitted, types, text, name):
        self._jitted, self._types, self._text, self._name = jitted, types, text, name
        self._compiled = None

    def lower(self, *types):
        lowered = self._jitted.lower(*types)
        if self._text is None:
            return lowered
        made = copy.copy(lowered)  # jax.jit keeps its own
        made._lowering = copy.copy(lowered._lowering)
        if not hasattr(made._lowering, "_hlo") or not hasattr(made._lowering, "_executable"):
            raise InternalError(f"{self._name}: this version of JAX keeps lowered modules elsewhere, and callbacks need them")
        with jax.interpreters.mlir.make_ir_context():
            made._lowering._hlo = ir.Module.parse(once(self._text))
        made._lowering._executable = None
        return made

    def __call__(self, *args):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args)):
            raise UserError(f"{self._name} calls Python, so that its plan is compiled by itself; call it outside of jax.jit, "
                            "jax.lax.scan and other transforms")
        if self._compiled is None:
            self._compiled = self.lower(*self._types).compile()
        return self._compiled(*args)


def once(text):
    """The module with callbacks that return nothing on the first device alone: their operands are whole on every device."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        found = CALL.match(line)
        if not found:
            lines.append(line)
            continue
        indent, call = found["indent"], line.strip()[: len(line.strip()) - len(found["rest"].rstrip())]
        device, first, is_first = (f"%cleave_{number}_{what}" for what in ("device", "first", "is_first"))
        lines += [f"{indent}{device} = stablehlo.partition_id : tensor<ui32>",
                  f"{indent}{first} = stablehlo.constant dense<0> : tensor<ui32>",
                  f"{indent}{is_first} = stablehlo.compare EQ, {device}, {first} : (tensor<ui32>, tensor<ui32>) -> tensor<i1>",
                  f'{indent}"stablehlo.if"({is_first}) ({{', f"{indent}  {call}", f'{indent}  "stablehlo.return"() : () -> ()',
                  f"{indent}}}, {{", f'{indent}  "stablehlo.return"() : () -> ()',
                  f"{indent}}}) : (tensor<i1>) -> (){found['rest']}"]
    return "\n".join(lines)
