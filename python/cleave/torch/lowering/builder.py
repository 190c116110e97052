"""The text of one StableHLO function, op by op. Every method returns the Value of its result."""

import math

import torch

from cleave._core import InternalError
from cleave.torch.lowering.values import ELEMENTS, WIDE, Value, dense_text, scalar_text, type_text

_COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def ints(values):
    """array<i64: 1, 2>"""
    values = [int(v) for v in values]
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def listed(values):
    return "[" + ", ".join(str(int(v)) for v in values) + "]"


class Basics:
    """Values, constants, elementwise ops."""

    def __init__(self, context=None, prefix=""):
        self.lines = []
        self.context = context  # of the graph: the seed, the number of random ops
        self.prefix = prefix
        self.count = 0
        self.known = {}

    def fresh(self, dtype, shape, name=None):
        if name is None:
            name = f"%{self.prefix}{self.count}"
            self.count += 1
        return Value(name, dtype, tuple(int(s) for s in shape))

    def emit(self, text, dtype, shape, signature=None):
        """`text` has what stands between the equals sign and the type."""
        known = self.known.get((text, dtype, tuple(shape)))
        if known:
            return known
        out = self.fresh(dtype, shape)
        self.lines.append(f"{out.name} = {text} : {signature.replace('@', out.type) if signature else out.type}")
        if "(" not in text:
            self.known[text, dtype, out.shape] = out
        return out

    def emit_many(self, text, types, signature):
        if len(types) == 1:
            return (self.emit(text, *types[0], signature),)
        name = f"%{self.prefix}{self.count}"
        self.count += 1
        outs = tuple(Value(f"{name}#{i}", dtype, tuple(shape)) for i, (dtype, shape) in enumerate(types))
        self.lines.append(f"{name}:{len(types)} = {text} : {signature.replace('@', '(' + ', '.join(o.type for o in outs) + ')')}")
        return outs

    def const(self, value, dtype, shape=()):
        if torch.is_tensor(value):
            value = value.to(dtype)
            return self.emit(f"stablehlo.constant dense<{dense_text(value)}>", dtype, value.shape)
        shape = tuple(shape)
        if 0 in shape:
            return self.emit("stablehlo.constant dense<>", dtype, shape)
        return self.emit(f"stablehlo.constant dense<{scalar_text(value, dtype)}>", dtype, shape)

    def like(self, value, x):
        """A constant of the type of x."""
        return self.const(value, x.dtype, x.shape)

    def iota(self, dtype, shape, dim):
        return self.emit(f"stablehlo.iota dim = {dim}", dtype, shape)

    def unary(self, op, x, dtype=None):
        op = op if "." in op else "stablehlo." + op
        if dtype is None or dtype == x.dtype and not op.startswith("chlo"):
            return self.emit(f"{op} {x.name}", x.dtype, x.shape)
        return self.emit(f"{op} {x.name}", dtype, x.shape, f"({x.type}) -> @")

    def chlo(self, op, x, *more):
        operands = ", ".join(v.name for v in (x, *more))
        return self.emit(f"chlo.{op} {operands}", x.dtype, x.shape, ", ".join(v.type for v in (x, *more)) + " -> @")

    def binary(self, op, x, y):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise InternalError(f"{op} of {x.type} and {y.type}")
        return self.emit(f"stablehlo.{op} {x.name}, {y.name}", x.dtype, x.shape)

    def add(self, x, y):
        return self.binary("or" if x.dtype == torch.bool else "add", x, self.fit(y, x))

    def sub(self, x, y):
        return self.binary("subtract", x, self.fit(y, x))

    def mul(self, x, y):
        return self.binary("and" if x.dtype == torch.bool else "multiply", x, self.fit(y, x))

    def div(self, x, y):
        return self.binary("divide", x, self.fit(y, x))

    def maximum(self, x, y):
        return self.binary("maximum", x, self.fit(y, x))

    def minimum(self, x, y):
        return self.binary("minimum", x, self.fit(y, x))

    def both(self, x, y):
        return self.binary("and", x, self.fit(y, x))

    def either(self, x, y):
        return self.binary("or", x, self.fit(y, x))

    def negate(self, x):
        return self.unary("negate", x)

    def invert(self, x):
        return self.unary("not", x)

    def fit(self, y, x):
        """y with the shape and dtype of x; y may be a number."""
        if not isinstance(y, Value):
            return self.like(y, x)
        return self.expand(self.cast(y, x.dtype), x.shape)

    def compare(self, direction, x, y):
        y = self.fit(y, x)
        return self.emit(f"stablehlo.compare {direction}, {x.name}, {y.name}", torch.bool, x.shape, f"({x.type}, {y.type}) -> @")

    def isnan(self, x):
        return self.compare("NE", x, x)

    def select(self, where, x, y):
        if not isinstance(x, Value):
            x = self.like(x, y)
        y = self.fit(y, x)
        where = self.expand(where, x.shape)
        return self.emit(f"stablehlo.select {where.name}, {x.name}, {y.name}", x.dtype, x.shape, f"{where.type}, @")

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if dtype == torch.bool:
            return self.compare("NE", x, 0)
        if x.is_complex and not dtype.is_complex:
            return self.cast(self.real(x), dtype)
        if dtype.is_complex and not x.is_complex:
            part = self.cast(x, _COMPLEX[dtype])
            return self.complex(part, self.like(0, part))
        return self.emit(f"stablehlo.convert {x.name}", dtype, x.shape, f"({x.type}) -> @")

    def wide(self, x):
        return self.cast(x, WIDE.get(x.dtype, x.dtype))

    def real(self, x):
        return self.emit(f"stablehlo.real {x.name}", _COMPLEX[x.dtype], x.shape, f"({x.type}) -> @") if x.is_complex else x

    def imag(self, x):
        return self.emit(f"stablehlo.imag {x.name}", _COMPLEX[x.dtype], x.shape, f"({x.type}) -> @")

    def complex(self, x, y):
        whole = torch.complex64 if x.dtype == torch.float32 else torch.complex128
        return self.emit(f"stablehlo.complex {x.name}, {y.name}", whole, x.shape, f"({x.type}, {y.type}) -> @")

    def bitcast(self, x, dtype):
        return self.emit(f"stablehlo.bitcast_convert {x.name}", dtype, x.shape, f"({x.type}) -> @")


class Shapes(Basics):
    """Ops that move elements."""

    def broadcast(self, x, shape, dims):
        shape = tuple(shape)
        if x.shape == shape and list(dims) == list(range(len(shape))):
            return x
        return self.emit(f"stablehlo.broadcast_in_dim {x.name}, dims = {listed(dims)}", x.dtype, shape, f"({x.type}) -> @")

    def expand(self, x, shape):
        """As NumPy broadcasts."""
        shape = tuple(shape)
        return self.broadcast(x, shape, range(len(shape) - x.rank, len(shape)))

    def reshape(self, x, shape):
        shape = tuple(int(s) for s in shape)
        if x.shape == shape:
            return x
        return self.emit(f"stablehlo.reshape {x.name}", x.dtype, shape, f"({x.type}) -> @")

    def unsqueeze(self, x, *dims):
        rank = x.rank + len(dims)
        dims = {d % rank for d in dims}
        rest = iter(x.shape)
        return self.reshape(x, [1 if d in dims else next(rest) for d in range(rank)])

    def transpose(self, x, dims):
        dims = list(dims)
        if dims == list(range(x.rank)):
            return x
        return self.emit(f"stablehlo.transpose {x.name}, dims = {listed(dims)}", x.dtype, [x.shape[d] for d in dims],
                         f"({x.type}) -> @")

    def swap(self, x, a, b):
        dims = list(range(x.rank))
        dims[a], dims[b] = dims[b], dims[a]
        return self.transpose(x, dims)

    def slice(self, x, starts, limits, strides=None):
        strides = strides or [1] * x.rank
        shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(starts, limits, strides)]
        if tuple(shape) == x.shape:
            return x
        ranges = ", ".join(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in zip(starts, limits, strides))
        return self.emit(f"stablehlo.slice {x.name} [{ranges}]", x.dtype, shape, f"({x.type}) -> @")

    def slice_dim(self, x, dim, start, limit, stride=1):
        starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[dim], limits[dim], strides[dim] = start, max(limit, start), stride
        return self.slice(x, starts, limits, strides)

    def pad(self, x, low, high, interior=None, value=0):
        interior = interior or [0] * x.rank
        if not any(low) and not any(high) and not any(interior):
            return x
        shape = [n + a + b + max(0, n - 1) * i for n, a, b, i in zip(x.shape, low, high, interior)]
        value = value if isinstance(value, Value) else self.const(value, x.dtype)
        return self.emit(f"stablehlo.pad {x.name}, {value.name}, low = {listed(low)}, high = {listed(high)}, "
                         f"interior = {listed(interior)}", x.dtype, shape, f"({x.type}, {value.type}) -> @")

    def concat(self, values, dim):
        values = list(values)
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[dim] = sum(v.shape[dim] for v in values)
        return self.emit(f"stablehlo.concatenate {', '.join(v.name for v in values)}, dim = {dim}", values[0].dtype, shape,
                         f"({', '.join(v.type for v in values)}) -> @")

    def reverse(self, x, dims):
        if not dims or not x.rank:
            return x
        return self.emit(f"stablehlo.reverse {x.name}, dims = {listed(dims)}", x.dtype, x.shape)


class Builder(Shapes):
    """Ops over several elements: reductions, products, windows, lookups, sorts, calls."""

    IDENTITY = {"add": 0, "multiply": 1, "and": True, "or": False}

    def identity(self, kind, dtype):
        if kind in self.IDENTITY:
            return self.IDENTITY[kind]
        if dtype == torch.bool:
            return kind == "minimum"
        if dtype.is_floating_point:
            return -math.inf if kind == "maximum" else math.inf
        info = torch.iinfo(dtype)
        return info.min if kind == "maximum" else info.max

    def reduce(self, kind, x, dims, keepdim=False):
        dims = sorted(d % x.rank for d in dims) if x.rank else []
        shape = [n for d, n in enumerate(x.shape) if d not in dims]
        if x.dtype == torch.bool:
            kind = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(kind, kind)
        out = x
        if dims:
            init = self.const(self.identity(kind, x.dtype), x.dtype)
            out = self.emit(f"stablehlo.reduce({x.name} init: {init.name}) applies stablehlo.{kind} across dimensions = "
                            f"{listed(dims)}", x.dtype, shape, f"({x.type}, {init.type}) -> @")
        return self.reshape(out, [1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim else out

    def region(self, kind, dtype, names=("a", "b")):
        """({ ... }) of a binary op."""
        scalar = type_text(dtype, ())
        one, two = (f"%{self.prefix}{n}{self.count}" for n in names)
        self.count += 1
        if kind == "replace":
            return f"({{ ^bb0({one}: {scalar}, {two}: {scalar}): stablehlo.return {two} : {scalar} }})"
        return (f"({{ ^bb0({one}: {scalar}, {two}: {scalar}): {one}r = stablehlo.{kind} {one}, {two} : {scalar} "
                f"stablehlo.return {one}r : {scalar} }})")

    def dot(self, x, y, contract, batch=((), ())):
        (cx, cy), (bx, by) = contract, batch
        shape = [x.shape[d] for d in bx]
        shape += [n for d, n in enumerate(x.shape) if d not in bx and d not in cx]
        shape += [n for d, n in enumerate(y.shape) if d not in by and d not in cy]
        text = f"stablehlo.dot_general {x.name}, {y.name}, "
        if len(bx):
            text += f"batching_dims = {listed(bx)} x {listed(by)}, "
        text += f"contracting_dims = {listed(cx)} x {listed(cy)}"
        return self.emit(text, x.dtype, shape, f"({x.type}, {y.type}) -> @")

    def convolution(self, x, w, *, dims, stride, pad, lhs_dilate=None, rhs_dilate=None, groups=1, batch_groups=1):
        """`dims` are three texts: "bf01", "oi01", "bf01", with a digit for each spatial dimension."""
        spatial = x.rank - 2
        lhs_dilate, rhs_dilate = lhs_dilate or [1] * spatial, rhs_dilate or [1] * spatial

        def at(text, size, key):
            return size[text.index(key)]
        shape = []
        for key in dims[2]:
            if key == "b":
                shape.append(at(dims[0], x.shape, "b") // batch_groups)
            elif key == "f":
                shape.append(at(dims[1], w.shape, "o"))
            else:
                i = int(key)
                whole = (at(dims[0], x.shape, key) - 1) * lhs_dilate[i] + 1 + pad[i][0] + pad[i][1]
                window = (at(dims[1], w.shape, key) - 1) * rhs_dilate[i] + 1
                shape.append((whole - window) // stride[i] + 1)
        names = ["[" + ", ".join(text) + "]" for text in dims]
        pads = ", ".join(f"[{a}, {b}]" for a, b in pad)
        return self.emit(
            f"stablehlo.convolution({x.name}, {w.name}) dim_numbers = {names[0]}x{names[1]}->{names[2]}, window = {{stride = "
            f"{listed(stride)}, pad = [{pads}], lhs_dilate = {listed(lhs_dilate)}, rhs_dilate = {listed(rhs_dilate)}}} "
            f"{{batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64}}", x.dtype, shape,
            f"({x.type}, {w.type}) -> @")

    def window(self, kind, x, size, stride=None, pad=None, base=None, dilation=None):
        rank = x.rank
        stride, base, dilation = stride or [1] * rank, base or [1] * rank, dilation or [1] * rank
        pad = pad or [(0, 0)] * rank
        shape = []
        for i in range(rank):
            whole = (x.shape[i] - 1) * base[i] + 1 if x.shape[i] else 0
            shape.append((whole + sum(pad[i]) - ((size[i] - 1) * dilation[i] + 1)) // stride[i] + 1)
        init = self.const(self.identity(kind, x.dtype), x.dtype)
        pads = "dense<[" + ", ".join(f"[{a}, {b}]" for a, b in pad) + f"]> : tensor<{rank}x2xi64>"
        attrs = (f"padding = {pads}, window_dimensions = {ints(size)}, window_strides = {ints(stride)}, base_dilations = "
                 f"{ints(base)}, window_dilations = {ints(dilation)}")
        return self.emit(f'"stablehlo.reduce_window"({x.name}, {init.name}) <{{{attrs}}}> {self.region(kind, x.dtype)}', x.dtype,
                         shape, f"({x.type}, {init.type}) -> @")

    def running(self, kind, x, dim):
        """The reduction of the elements up to each along a dimension."""
        if not x.numel:
            return x
        size, pad = [1] * x.rank, [(0, 0)] * x.rank
        size[dim], pad[dim] = x.shape[dim], (x.shape[dim] - 1, 0)
        return self.window(kind, x, size, pad=pad)

    def select_and_scatter(self, x, source, size, stride, pad):
        init = self.const(0, x.dtype)
        rank, scalar, n = x.rank, type_text(x.dtype, ()), self.count
        self.count += 1
        a, b = f"%{self.prefix}p{n}", f"%{self.prefix}q{n}"
        chosen = (f"({{ ^bb0({a}: {scalar}, {b}: {scalar}): {a}r = stablehlo.compare GE, {a}, {b} : ({scalar}, {scalar}) -> "
                  f"tensor<i1> stablehlo.return {a}r : tensor<i1> }}, ")
        pads = "dense<[" + ", ".join(f"[{p}, {q}]" for p, q in pad) + f"]> : tensor<{rank}x2xi64>"
        return self.emit(
            f'"stablehlo.select_and_scatter"({x.name}, {source.name}, {init.name}) <{{padding = {pads}, window_dimensions = '
            f'{ints(size)}, window_strides = {ints(stride)}}}> {chosen}{self.region("add", x.dtype)[1:]}', x.dtype, x.shape,
            f"({x.type}, {source.type}, {init.type}) -> @")

    def gather(self, x, index, *, offset, collapsed, index_map, vector_dim, sizes, batch=(), index_batch=()):
        rest = [n for d, n in enumerate(index.shape) if d != vector_dim]
        inner = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batch]
        shape, rest, inner = [], iter(rest), iter(inner)
        total = (index.rank - (1 if vector_dim < index.rank else 0)) + len(offset)
        for d in range(total):
            shape.append(next(inner) if d in offset else next(rest))
        numbers = [("offset_dims", offset), ("collapsed_slice_dims", collapsed)]
        if len(batch):
            numbers += [("operand_batching_dims", batch), ("start_indices_batching_dims", index_batch)]
        numbers += [("start_index_map", index_map)]
        text = ", ".join(f"{key} = {listed(value)}" for key, value in numbers if len(value))
        return self.emit(f'"stablehlo.gather"({x.name}, {index.name}) <{{dimension_numbers = #stablehlo.gather<{text}, '
                         f'index_vector_dim = {vector_dim}>, slice_sizes = {ints(sizes)}}}>', x.dtype, shape,
                         f"({x.type}, {index.type}) -> @")

    def scatter(self, x, index, updates, *, kind, window, inserted, index_map, vector_dim, batch=(), index_batch=(), unique=False):
        numbers = [("update_window_dims", window), ("inserted_window_dims", inserted)]
        if len(batch):
            numbers += [("input_batching_dims", batch), ("scatter_indices_batching_dims", index_batch)]
        numbers += [("scatter_dims_to_operand_dims", index_map)]
        text = ", ".join(f"{key} = {listed(value)}" for key, value in numbers if len(value))
        if x.dtype == torch.bool:
            kind = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(kind, kind)
        return self.emit(
            f'"stablehlo.scatter"({x.name}, {index.name}, {updates.name}) <{{indices_are_sorted = false, '
            f'scatter_dimension_numbers = #stablehlo.scatter<{text}, index_vector_dim = {vector_dim}>, unique_indices = '
            f'{"true" if unique else "false"}}}> {self.region(kind, x.dtype)}', x.dtype, x.shape,
            f"({x.type}, {index.type}, {updates.type}) -> @")

    def sort(self, keys, others, dim, descending=False):
        """Stable; NaN counts as the largest, as PyTorch has it."""
        operands = [keys, *others]
        n, scalar = self.count, type_text(keys.dtype, ())
        self.count += 1
        names = [f"%{self.prefix}{side}{n}_{i}" for i in range(len(operands)) for side in "ab"]
        header = ", ".join(f"{name}: {type_text(operands[i // 2].dtype, ())}" for i, name in enumerate(names))
        a, b = names[:2]
        if descending:
            a, b = b, a
        lines = [f"{a}r = stablehlo.compare LT, {a}, {b} : ({scalar}, {scalar}) -> tensor<i1>"]
        last = f"{a}r"
        if keys.is_float:
            one = "tensor<i1>"
            lines += [f"{a}n = stablehlo.compare EQ, {a}, {a} : ({scalar}, {scalar}) -> {one}",
                      f"{b}n = stablehlo.compare NE, {b}, {b} : ({scalar}, {scalar}) -> {one}",
                      f"{a}m = stablehlo.and {a}n, {b}n : {one}", f"{a}o = stablehlo.or {a}r, {a}m : {one}"]
            last = f"{a}o"
        body = " ".join(lines)
        types = ", ".join(v.type for v in operands)
        outs = f"({types}) -> " + (f"({types})" if others else types)
        return self.emit_many(
            f'"stablehlo.sort"({", ".join(v.name for v in operands)}) <{{dimension = {dim} : i64, is_stable = true}}> ({{ '
            f'^bb0({header}): {body} stablehlo.return {last} : tensor<i1> }})', [(v.dtype, v.shape) for v in operands], outs)

    def custom_call(self, target, operands, types, config):
        text = (f"stablehlo.custom_call @{target}({', '.join(v.name for v in operands)}) {{api_version = 4 : i32, "
                f"mhlo.backend_config = {{{config}}}}}")
        return self.emit_many(text, types, f"({', '.join(v.type for v in operands)}) -> @")


def element(dtype):
    return ELEMENTS[dtype]
