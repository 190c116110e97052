"""Branches, loops, calls and barriers. What a constant decides is decided here."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.elementwise import select
from cleave.torch.execution.groups import partition_of
from cleave.torch.execution.table import Op, translates

aten = torch.ops.aten
MAX_NODES = 200_000


@translates("stablehlo.case", "stablehlo.if")
def case(t, op, index):
    count = len(op.regions)
    if op.name == "stablehlo.if":
        index = index if index.scalar is None else t.b.number(0 if index.scalar else 1, "i32")
    if index.scalar is not None:
        number = index.scalar if 0 <= index.scalar < count else count - 1
        return t.region(op, number, [])
    for region in op.regions:
        if any(partition_of(Op(node)) for node in region["nodes"]):
            raise op.error([index], "a branch that depends on data has a collective")
    branches = [t.region(op, number, []) for number in range(count)]
    results = branches[-1]
    for number in range(count - 1):
        chosen = index.t if op.name == "stablehlo.if" else t.b.call(aten.eq.Scalar, index.t, number)
        results = [Value(select(t.b, chosen, t.b.full(a), t.b.full(c)), a.shape, a.dtype)
                   for a, c in zip(branches[number], results)]
    return results


@translates("stablehlo.while")
def loop(t, op, *values):
    """A loop whose number of rounds is known is written out."""
    values = list(values)
    while True:
        going = t.region(op, 0, values)[0].scalar
        if going is None:
            raise op.error(values, "the number of rounds of a loop depends on data, and PyTorch's graphs have no loops")
        if not going:
            return values
        values = t.region(op, 1, values)
        if len(t.b.graph.nodes) > MAX_NODES:
            raise op.error(values, f"the loop is too long to be written out ({MAX_NODES} ops)")


@translates("func.call", "sdy.named_computation")
def call(t, op, *values):
    if op.name == "func.call":
        return t.function(symbol(op.texts["callee"]), values)
    return t.region(op, 0, list(values))


@translates("stablehlo.composite")
def composite(t, op, *values):
    return t.function(symbol(op.texts["decomposition"]), values)


def symbol(text):
    """@name or @"any name" without its marks."""
    return text.lstrip("@").strip('"')


@translates("stablehlo.optimization_barrier")
def barrier(t, op, *values):
    return list(values)


@translates("sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "sdy.data_flow_edge")
def same(t, op, value):
    return value


@translates("stablehlo.tuple", "stablehlo.create_token", "stablehlo.after_all")
def no_tensor(t, op, *values):
    raise op.error(values, "PyTorch has no tokens and tuples")
