"""Products of matrices: mm and bmm on views, so that BLAS takes transposed operands as they lie in memory."""

from itertools import permutations

import torch

from cleave.torch.execution.builder import Value, can_view
from cleave.torch.execution.dtypes import carrier, is_complex, is_float
from cleave.torch.execution.elementwise import converted, pair, product
from cleave.torch.execution.table import translates

aten = torch.ops.aten


@translates("stablehlo.dot_general")
def dot_general(t, op, x, y):
    dims = op.get("dot_dimension_numbers")
    lists = [dims.get(name, []) for name in ("lhs_batching_dimensions", "rhs_batching_dimensions",
                                             "lhs_contracting_dimensions", "rhs_contracting_dimensions")]  # fmt: skip
    return contract(t.b, x, y, *lists, op.shape, op.dtype)


@translates("stablehlo.dot")
def dot(t, op, x, y):
    return contract(t.b, x, y, [], [], [len(x.shape) - 1], [0], op.shape, op.dtype)


def contract(b, x, y, x_batch, y_batch, x_sum, y_sum, shape, dtype):
    x_free = [d for d in range(len(x.shape)) if d not in x_batch and d not in x_sum]
    y_free = [d for d in range(len(y.shape)) if d not in y_batch and d not in y_sum]
    if 0 in x.shape or 0 in y.shape:
        return b.number(0, dtype, shape)
    if product(x.shape[d] for d in x_sum) == 1:
        return outer(b, x, y, x_batch, y_batch, x_free, y_free, x_sum, y_sum, shape, dtype)
    left, right = (convert_operand(b, v, dtype) for v in (x, y))
    if not usable(b, dtype):
        return slow_product(b, left, right, x_batch, y_batch, x_sum, y_sum, x_free, y_free, shape, dtype)
    x_sum, y_sum = best_order(b, left, right, x_batch, y_batch, x_sum, y_sum, x_free, y_free)
    batches = [x.shape[d] for d in x_batch]
    k, m, n = product(x.shape[d] for d in x_sum), product(x.shape[d] for d in x_free), product(y.shape[d] for d in y_free)
    lead = [product(batches)] if product(batches) > 1 else []
    a = b.view(b.permute(left, x_batch + x_free + x_sum), [*lead, m, k])
    c = b.view(b.permute(right, y_batch + y_sum + y_free), [*lead, k, n])
    result = b.call(aten.bmm.default if lead else aten.mm.default, a, c)
    return Value(b.wrapped(b.view(result, shape), dtype), shape, dtype)


def convert_operand(b, value, dtype):
    t = value.t if not value.is_constant else b.known(value)
    if value.dtype != dtype:
        t = converted(b, t, value.dtype, dtype)
    return t if b.shape(t) == value.shape else b.call(aten.expand.default, t, list(value.shape))


def usable(b, dtype):
    """Whether the device has products of this dtype."""
    if dtype == "i1":
        return False
    return is_float(dtype) or is_complex(dtype) or b.device.type == "cpu"


def best_order(b, left, right, x_batch, y_batch, x_sum, y_sum, x_free, y_free):
    """An order of the dimensions that are summed in which no operand is copied, if there is one."""
    pairs = list(zip(x_sum, y_sum))
    if len(pairs) < 2 or len(pairs) > 4:
        return x_sum, y_sum

    def copies(order):
        count = 0
        for t, batch, free, dims in ((left, x_batch, x_free, [p[0] for p in order]), (right, y_batch, y_free, [p[1] for p in order])):
            val = b.val(t)
            sizes = [product(val.shape[d] for d in part) for part in (batch, free, dims)]
            count += 0 if can_view(val.permute(batch + free + dims), sizes) else val.numel()
        return count

    order = min(permutations(pairs), key=copies)
    return [p[0] for p in order], [p[1] for p in order]


def outer(b, x, y, x_batch, y_batch, x_free, y_free, x_sum, y_sum, shape, dtype):
    """Nothing is summed: elementwise, with dimensions of size 1."""
    left, right = b.ranked(x), b.ranked(y)
    left = converted(b, left, x.dtype, dtype) if x.dtype != dtype else left
    right = converted(b, right, y.dtype, dtype) if y.dtype != dtype else right
    a, c = b.shape(left), b.shape(right)
    batches = len(x_batch)
    left = b.view(b.permute(left, x_batch + x_free + x_sum), [a[d] for d in x_batch + x_free] + [1] * len(y_free))
    right = b.view(b.permute(right, y_batch + y_free + y_sum),
                   [c[d] for d in y_batch] + [1] * len(x_free) + [c[d] for d in y_free])
    assert batches + len(x_free) + len(y_free) == len(shape)
    name = "and" if dtype == "i1" else "multiply"
    return Value(b.wrapped(pair(b, name, left, right, dtype), dtype), shape, dtype)


def slow_product(b, left, right, x_batch, y_batch, x_sum, y_sum, x_free, y_free, shape, dtype):
    """Products and a sum, for dtypes without a kernel."""
    batches = [b.shape(left)[d] for d in x_batch]
    m, n, k = ([b.shape(t)[d] for d in dims] for t, dims in ((left, x_free), (right, y_free), (left, x_sum)))
    a = b.view(b.permute(left, x_batch + x_free + x_sum), [*batches, *m, *[1] * len(n), *k])
    c = b.view(b.permute(right, y_batch + y_free + y_sum), [*batches, *[1] * len(m), *n, *k])
    last = list(range(len(shape), len(shape) + len(k)))
    if dtype == "i1":
        return Value(b.call(aten.any.dims, b.call(aten.bitwise_and.Tensor, a, c), last), shape, dtype)
    terms = b.call(aten.mul.Tensor, a, c)
    return Value(b.wrapped(b.call(aten.sum.dim_IntList, terms, last, dtype=carrier(dtype)), dtype), shape, dtype)
