"""The table of lowerings: an overload of ATen, and the function that writes it."""

import functools

import torch

from cleave.torch.lowering.values import WIDE, Value

ROWS = {}


def overloads(packet):
    return [getattr(packet, name) for name in packet.overloads()]


def lowers(*ops, wide=False):
    """Registers a function of (builder, *args, **kwargs) with the arguments of the op's schema; tensors are Values. The builder's
    `out` has (dtype, shape) of every result. An overload packet stands for all its overloads. With `wide`, halves are
    converted to f32 before, and results back."""
    def register(function):
        row = widened(function) if wide else function
        for op in ops:
            for overload in overloads(op) if isinstance(op, torch._ops.OpOverloadPacket) else [op]:
                if not str(overload).endswith("out") and not overload._schema.is_mutable:
                    ROWS[overload] = row
        return function
    return register


def widened(function):
    @functools.wraps(function)
    def row(b, *args, **kwargs):
        def convert(value):
            return b.wide(value) if isinstance(value, Value) and value.dtype in WIDE else value
        args = [convert(a) for a in args]
        kwargs = {key: convert(value) for key, value in kwargs.items()}
        return function(b, *args, **kwargs)
    return row


def row_of(op):
    load()
    return ROWS.get(op)


@functools.cache
def load():
    """Imports the families."""
    from cleave.torch.lowering import (activations, arithmetic, attention, bags, convolutions, distances, elementwise,  # noqa: F401
                                       factories, indexing, linear_algebra, losses, normalization, pooling, products, random, reductions,
                                       scatters, sorting, views)


def covered():
    """The names of overloads that have a row, sorted."""
    load()
    return sorted(str(op) for op in ROWS)
