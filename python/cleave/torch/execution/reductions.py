"""Reductions. What a body computes is read from its ops, or found by running it on a few numbers."""

import math

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import carrier, highest, is_complex, is_float, lowest
from cleave.torch.execution.elementwise import OF_BOOLS, compute
from cleave.torch.execution.table import translates

aten = torch.ops.aten
KNOWN = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def body_name(region):
    """add, multiply, ..., if the body is this one op on its two arguments; "second" if it returns the second."""
    nodes, arguments = region["nodes"], [argument["name"] for argument in region["arguments"]]
    if len(arguments) != 2:
        return None
    if len(nodes) == 1 and nodes[0]["operands"] == [arguments[1]]:
        return "second"
    if len(nodes) == 2:
        name = nodes[0]["op"].split(".")[1]
        if name in KNOWN and sorted(nodes[0]["operands"]) == sorted(arguments):
            dtype = region["arguments"][0]["type"].rsplit("<", 1)[1].split(">")[0]
            return OF_BOOLS.get(name, name) if dtype == "i1" else name
    return None


def identity(name, dtype):
    """The number that changes nothing."""
    if name == "maximum":
        return lowest(dtype)
    if name == "minimum":
        return highest(dtype)
    if name == "and":
        return True if dtype == "i1" else -1 if not dtype.startswith("ui") else highest(dtype)
    return 1 if name == "multiply" else 0


def is_identity(value, name):
    """Whether reducing from this value changes nothing."""
    number = value.scalar
    if number is None:
        return False
    if isinstance(number, float) and math.isnan(number):
        return False
    return number == identity(name, value.dtype)


@translates("stablehlo.reduce")
def reduce(t, op, *operands):
    count, dims = len(op.results), op.ints("dimensions")
    values, inits = operands[:count], operands[count:]
    if count == 1:
        name = body_name(op.regions[0])
        found = name and reduced(t.b, name, values[0], dims)
        if found is not None:
            return joined(t, name, found, inits[0], op)
    if count == 2 and len(dims) == 1:
        found = arg_reduced(t, op, values, dims[0])
        if found:
            return found if neutral(t, op, inits) else shaped(op, t.region(op, 0, [*inits, *found]))
    return shaped(op, folded(t, op, values, inits, dims))


def shaped(op, values):
    """What a body made of tensors in place of its scalars."""
    return [Value(value.t, kind.shape, kind.dtype) for value, kind in zip(values, op.kinds)]


def joined(t, name, found, init, op):
    if name == "second" or is_identity(init, name):
        return Value(found.t, op.shape, op.dtype)
    return compute(t, op, name, found, Value(init.t, (), init.dtype))


def reduced(b, name, x, dims):
    """The reduction by a known op, without an initial value; None if torch has none."""
    shape = [n for d, n in enumerate(x.shape) if d not in dims]
    if not dims:
        return x
    if any(x.shape[d] == 0 for d in dims):
        return b.number(identity(name, x.dtype), x.dtype, shape)
    if x.dtype == "ui64" and name in ("maximum", "minimum"):
        return None
    full = b.known(x) if x.is_constant else b.full(x)
    if all(x.shape[d] == 1 for d in dims):
        return Value(b.view(full, shape), shape, x.dtype)
    held = carrier(x.dtype)
    if name == "add":
        result = b.call(aten.sum.dim_IntList, full, dims) if is_float(x.dtype) or is_complex(x.dtype) else \
            b.call(aten.sum.dim_IntList, full, dims, dtype=held)  # fmt: skip
    elif name in ("maximum", "minimum"):
        result = b.call(aten.amax.default if name == "maximum" else aten.amin.default, full, dims)
    elif name == "multiply":
        result = full
        for d in sorted(dims, reverse=True):
            result = b.call(aten.prod.dim_int, result, d, dtype=held)
    elif name in ("and", "or") and x.dtype == "i1":
        result = b.call(aten.any.dims, full, dims) if name == "or" else \
            b.call(aten.logical_not.default, b.call(aten.any.dims, b.call(aten.logical_not.default, full), dims))  # fmt: skip
    else:
        return None
    return Value(b.wrapped(result, x.dtype), shape, x.dtype)


def neutral(t, op, inits):
    """Whether the initial values of a pair lose against every other: the body keeps what it is given."""
    value, index = inits
    if value.scalar is None or index.scalar is None:
        return False
    worst = value.scalar in (lowest(value.dtype), highest(value.dtype))
    probe = t.b.number(0 if value.dtype != "i1" else True, value.dtype), t.b.number(7, index.dtype)
    kept = t.region(op, 0, [*probe, *inits])
    return worst and kept[1].scalar == 7


def arg_reduced(t, op, values, dim):
    """The largest or smallest element and its place, if that is what the body says: it is run on a few numbers."""
    b, (x, places) = t.b, values
    line = b.known(places)
    if line is None or not is_line(b, places, dim) or is_complex(x.dtype) or x.dtype in ("i1", "ui64"):
        return None
    steps = b.ranked(places).reshape(-1)

    def body(a, i, c, j):
        found = t.region(op, 0, [b.number(a, x.dtype), b.number(i, places.dtype), b.number(c, x.dtype), b.number(j, places.dtype)])
        return None if any(v.scalar is None for v in found) else (found[0].scalar, found[1].scalar)

    cases = [(1, 3, 2, 5), (2, 3, 1, 5), (1, 5, 2, 3), (2, 5, 1, 3)]
    answers = [body(*case) for case in cases]
    largest = answers == [(2, 5), (2, 3), (2, 3), (2, 5)]
    smallest = answers == [(1, 3), (1, 5), (1, 5), (1, 3)]
    if not (largest or smallest) or body(1, 3, 1, 5) != (1, 3):
        return None
    if int(steps[-1]) < int(steps[0]):
        return None
    best, place = b.call(aten.max.dim if largest else aten.min.dim, b.full(x), dim)
    first, step = int(steps[0]), int(steps[1] - steps[0]) if len(steps) > 1 else 1
    if step != 1:
        place = b.call(aten.mul.Tensor, place, step)
    if first:
        place = b.call(aten.add.Tensor, place, first)
    kinds = op.kinds
    return [Value(best, kinds[0].shape, kinds[0].dtype), Value(b.convert(place, carrier(places.dtype)), kinds[1].shape, kinds[1].dtype)]


def is_line(b, value, dim):
    """Whether a constant counts evenly along one dimension and is the same along all others."""
    held = b.ranked(value)
    if any(n != 1 for d, n in enumerate(held.shape) if d != dim) or held.shape[dim] != value.shape[dim]:
        return False
    line = held.reshape(-1).to(torch.int64)
    return len(line) < 2 or bool((line[1:] - line[:-1] == line[1] - line[0]).all())


def folded(t, op, values, inits, dims):
    """Any body: the elements are halved again and again, then joined with the initial values."""
    b, shape = t.b, values[0].shape
    keep = [d for d in range(len(shape)) if d not in dims]
    rest = [shape[d] for d in keep]
    n = math.prod(shape[d] for d in dims)
    if n == 0:
        return [Value(init.t, rest, init.dtype) for init in inits]
    rows = []
    for value in values:
        full = b.known(value) if value.is_constant else b.full(value)
        rows.append(Value(b.view(b.permute(full, dims + keep), [n, *rest]), (n, *rest), value.dtype))

    def part(row, low, high):
        return Value(b.call(aten.slice.Tensor, row.t, 0, low, high), (high - low, *rest), row.dtype)

    while n > 1:
        half = n // 2
        left, right = ([part(row, at, at + half) for row in rows] for at in (0, half))
        done = t.region(op, 0, left + right)
        done = [Value(v.t, (half, *rest), v.dtype) for v in done]
        if n % 2:
            ends = [part(row, n - 1, n) for row in rows]
            done = [Value(b.call(aten.cat.default, [b.full(d), b.full(e)], 0), (half + 1, *rest), d.dtype) for d, e in zip(done, ends)]
        n, rows = half + n % 2, done
    rows = [Value(b.view(b.full(row), rest), rest, row.dtype) for row in rows]
    return t.region(op, 0, [Value(init.t, rest, init.dtype) for init in inits] + rows)
