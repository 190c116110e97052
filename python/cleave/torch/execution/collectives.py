"""Collectives, as functional ops of torch.distributed, each followed by its wait. Those ops work along dimension 0."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.elementwise import product
from cleave.torch.execution.groups import partition_of
from cleave.torch.execution.reductions import body_name
from cleave.torch.execution.table import translates

c10d = torch.ops._c10d_functional
aten = torch.ops.aten
REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product", "and": "band", "or": "bor", "xor": "bxor"}


def collective(b, op, function, *args):
    """The collective and its wait. meta["collective"] of the first is the name of the op in the module."""
    node = b.emit(function, *args)
    node.meta["collective"] = op.name
    return b.emit(c10d.wait_tensor.default, node)


def reduction(op, values):
    name = body_name(op.regions[0])
    if name not in REDUCTIONS:
        raise op.error(values, "no translation to PyTorch of its body; sum, product, max, min, and, or, xor are known")
    return REDUCTIONS[name]


def as_bytes(b, value, name):
    """Tensors of bools travel as bytes, reduced by max and min."""
    full = b.full(value)
    if value.dtype != "i1":
        return full, name
    return b.call(aten._to_copy.default, full, dtype=torch.uint8), {"bor": "max", "band": "min"}.get(name, name)


def from_bytes(b, t, value):
    return b.convert(t, torch.bool) if value.dtype == "i1" else t


@translates("stablehlo.all_reduce")
def all_reduce(t, op, *values):
    name, ranks = t.group_of(partition_of(op))
    if ranks is None or len(ranks) == 1:
        return list(values)
    results = []
    for value in values:
        full, how = as_bytes(t.b, value, reduction(op, values))
        done = collective(t.b, op, c10d.all_reduce.default, t.b.contiguous(full), how, name)
        results.append(Value(from_bytes(t.b, done, value), value.shape, value.dtype))
    return results


@translates("stablehlo.all_gather")
def all_gather(t, op, *values):
    b, dim = t.b, op.get("all_gather_dim")
    name, ranks = t.group_of(partition_of(op))
    if ranks is None or len(ranks) == 1:
        return list(values)
    results = []
    for value, kind in zip(values, op.kinds):
        front = b.contiguous(to_front(b, b.full(value), dim))
        whole = collective(b, op, c10d.all_gather_into_tensor.default, front, len(ranks), name)
        results.append(Value(to_front(b, whole, dim), kind.shape, kind.dtype))
    return results


def to_front(b, t, dim):
    """Exchanges a dimension with the first. A view if those before it have one element."""
    if dim == 0:
        return t
    shape = list(b.shape(t))
    order = list(range(len(shape)))
    order[0], order[dim] = dim, 0
    return b.permute(t, order)


@translates("stablehlo.reduce_scatter")
def reduce_scatter(t, op, value):
    b, dim = t.b, op.get("scatter_dimension")
    name, ranks = t.group_of(partition_of(op))
    if ranks is None or len(ranks) == 1:
        return value
    full, how = as_bytes(b, value, reduction(op, [value]))
    front = b.contiguous(to_front(b, full, dim))
    part = collective(b, op, c10d.reduce_scatter_tensor.default, front, how, len(ranks), name)
    return Value(from_bytes(b, to_front(b, part, dim), value), op.shape, op.dtype)


@translates("stablehlo.all_to_all")
def all_to_all(t, op, *values):
    b, split, concat, count = t.b, op.get("split_dimension"), op.get("concat_dimension"), op.get("split_count")
    name, ranks = t.group_of(partition_of(op))
    if ranks is None or len(ranks) == 1:
        return list(values)
    results = []
    for value, kind in zip(values, op.kinds):
        shape = list(value.shape)
        parts = shape[:split] + [count, shape[split] // count] + shape[split + 1 :]
        apart = b.view(b.full(value), parts)
        order = [split] + [d for d in range(len(parts)) if d != split]
        front = b.contiguous(b.permute(apart, order))
        piece = b.shape(front)[1:]
        flat = b.view(front, [count * piece[0], *piece[1:]] if piece else [count])
        rows = [b.shape(flat)[0] // count] * count
        moved = collective(b, op, c10d.all_to_all_single.default, flat, rows, rows, name)
        moved = b.view(moved, [count, *piece])
        # The parts of all senders become neighbours along the dimension that grows.
        order = list(range(1, concat + 1)) + [0] + list(range(concat + 1, len(piece) + 1))
        results.append(Value(b.view(b.permute(moved, order), kind.shape), kind.shape, kind.dtype))
    return results


@translates("stablehlo.collective_permute")
def collective_permute(t, op, value):
    """Everything goes to one receiver: all_to_all_single with unequal parts. Who receives nothing has zeros."""
    b, pairs = t.b, op.get("source_target_pairs").tolist()
    partition = partition_of(op)
    mine = next((target for source, target in pairs if source == t.rank), None)
    sender = next((source for source, target in pairs if target == t.rank), None)
    name, ranks = t.group_of(partition) if partition else (None, None)
    if ranks is None or len(ranks) == 1:
        return value if sender == t.rank else b.number(0, value.dtype, value.shape)
    n = product(value.shape)
    flat = b.view(b.contiguous(b.full(value)), [n]) if mine is not None else b.filled((0,), 0, value.dtype)
    received, sent = ([n if rank == peer else 0 for rank in ranks] for peer in (sender, mine))
    moved = collective(b, op, c10d.all_to_all_single.default, flat, received, sent, name)
    if sender is None:
        # It takes part for the others' sake. Zeros are made of the empty tensor, so that nobody drops the collective.
        moved = b.call(aten.constant_pad_nd.default, moved, [0, n], 0)
    return Value(b.view(moved, value.shape), op.shape, op.dtype)


@translates("stablehlo.collective_broadcast")
def collective_broadcast(t, op, value):
    partition = partition_of(op)
    name, ranks = t.group_of(partition)
    if ranks is None:
        return t.b.number(0, value.dtype, value.shape)
    if len(ranks) == 1:
        return value
    done = collective(t.b, op, c10d.broadcast.default, t.b.contiguous(t.b.full(value)), 0, name)
    return Value(done, op.shape, op.dtype)
