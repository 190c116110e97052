"""Sorts: what a comparator orders by is found by running it on a few numbers."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import carrier, is_complex
from cleave.torch.execution.table import translates

aten = torch.ops.aten


@translates("stablehlo.sort")
def sort(t, op, *operands):
    dim = op.get("dimension", -1) % max(1, len(operands[0].shape))
    if 0 in operands[0].shape or not operands[0].shape:
        return list(operands)
    keys = sort_keys(t, op, operands)
    if not keys:
        raise op.error(operands, "no translation to PyTorch of its comparator; an order by some operands, one after the other, is known")
    b, stable = t.b, bool(op.get("is_stable"))
    full = [b.full(value) for value in operands]
    if len(keys) == 1 and len(full) == 1:
        return [Value(b.call(aten.sort.stable, ordered(b, full[0], operands[0].dtype), stable=stable, dim=dim, descending=keys[0][1])[0]
                      if operands[0].dtype != "ui64" else sort_ui64(b, full[0], dim, keys[0][1]), op.shape, op.dtype)]  # fmt: skip
    order = None
    for number, descending in reversed(keys):
        key = ordered(b, full[number], operands[number].dtype)
        if order is not None:
            key = b.call(aten.gather.default, key, dim, order)
        places = b.call(aten.sort.stable, key, stable=stable or len(keys) > 1, dim=dim, descending=descending)[1]
        order = places if order is None else b.call(aten.gather.default, order, dim, places)
    return [Value(b.call(aten.gather.default, x, dim, order), v.shape, v.dtype) for x, v in zip(full, operands)]


def ordered(b, t, dtype):
    return b.call(aten.bitwise_xor.Scalar, t, -(1 << 63)) if dtype == "ui64" else t


def sort_ui64(b, t, dim, descending):
    order = b.call(aten.sort.stable, ordered(b, t, "ui64"), stable=True, dim=dim, descending=descending)[1]
    return b.call(aten.gather.default, t, dim, order)


def sort_keys(t, op, operands):
    """Operands that the comparator looks at, the most important first, and whether each descends."""
    count = len(operands)

    def before(left, right):
        values = []
        for value, a, c in zip(operands, left, right):
            for number in (a, c):
                held = carrier(value.dtype)
                number = bool(number) if value.dtype == "i1" else complex(number) if is_complex(value.dtype) else number
                values.append(Value(torch.tensor(number, dtype=held), (), value.dtype))
        return t.region(op, 0, values)[0].scalar

    same, keys = [1] * count, []
    for number in range(count):
        less = [0 if i == number else 1 for i in range(count)]
        up, down = before(less, same), before(same, less)
        if up is None or down is None or (up and down):
            return None
        if up or down:
            keys.append((number, bool(down)))
    if len(keys) > 1:  # of two that disagree the more important one wins
        def wins(a, c):
            left, right = list(same), list(same)
            (left if not a[1] else right)[a[0]] = 0
            (right if not c[1] else left)[c[0]] = 0
            return bool(before(left, right))

        keys = sorted(keys, key=lambda key: -sum(wins(key, other) for other in keys if other is not key))
    if before(same, same):
        return None
    return keys


@translates("chlo.top_k")
def top_k(t, op, x):
    b, k, dim = t.b, op.get("k"), len(x.shape) - 1
    largest = op.get("largest", True)
    values, places = b.call(aten.sort.stable, b.full(x), stable=True, dim=dim, descending=bool(largest))
    kinds = op.kinds
    cut = [b.call(aten.slice.Tensor, part, dim, 0, k) for part in (values, places)]
    return [Value(cut[0], kinds[0].shape, kinds[0].dtype), Value(b.convert(cut[1], carrier(kinds[1].dtype)), kinds[1].shape, kinds[1].dtype)]
