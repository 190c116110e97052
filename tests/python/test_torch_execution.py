"""Single ops of StableHLO as torch graphs, beside Cleave's own engine."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cleave  # noqa: E402
from cleave.torch.execution import to_fx  # noqa: E402
from torch_execution_support import INTEGERS, agree, example, run_one  # noqa: E402

torch.set_num_threads(1)
RNG = np.random.default_rng(7)


def kind(shape, dtype="f32"):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}>"


def func(arguments, body, results):
    names = ", ".join(f"%a{i}: {a}" for i, a in enumerate(arguments))
    last = ", ".join(f"%r{i}" for i in range(len(results)))
    return f"func.func @main({names}) -> ({', '.join(results)}) {{\n{body}\nreturn {last} : {', '.join(results)}\n}}"


def simple(op, shapes, result, attributes="", dtypes=None, result_dtype="f32", values=None):
    """One op in generic form on random arguments."""
    dtypes = dtypes or ["f32"] * len(shapes)
    kinds = [kind(s, d) for s, d in zip(shapes, dtypes)]
    out = kind(result, result_dtype)
    operands = ", ".join(f"%a{i}" for i in range(len(shapes)))
    attributes = f" <{{{attributes}}}>" if attributes else ""
    text = func(kinds, f'%r0 = "{op}"({operands}){attributes} : ({", ".join(kinds)}) -> {out}', [out])
    values = values or [example(s, d, RNG) for s, d in zip(shapes, dtypes)]
    return agree(text, *values)


UNARY = ["abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor", "logistic", "negate",
         "round_nearest_afz", "round_nearest_even", "sign", "sine", "tan", "tanh"]  # fmt: skip
POSITIVE = ["log", "log_plus_one", "rsqrt", "sqrt"]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_unary(dtype):
    for name in UNARY:
        if dtype != "f16":
            simple(f"stablehlo.{name}", [(3, 5)], (3, 5), dtypes=[dtype], result_dtype=dtype)
    for name in POSITIVE:
        if dtype != "f16":
            simple(f"stablehlo.{name}", [(7,)], (7,), dtypes=[dtype], result_dtype=dtype, values=[np.abs(example((7,), dtype, RNG)) + 1])
    special = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, np.inf, -np.inf, np.nan, 0.0], np.float16 if dtype == "f16" else
                       np.float32 if dtype == "f32" else np.float64)  # fmt: skip
    for name in ("round_nearest_afz", "round_nearest_even", "sign", "floor", "ceil", "abs"):
        simple(f"stablehlo.{name}", [(10,)], (10,), dtypes=[dtype], result_dtype=dtype, values=[special])


@pytest.mark.parametrize("name", ["acos", "asin", "atan", "acosh", "asinh", "atanh", "cosh", "sinh", "erf", "erfc", "erf_inv", "lgamma",
                                  "digamma", "square", "tan"])  # fmt: skip
def test_chlo(name):
    values = np.array([0.1, 0.4, 0.8], np.float32) + (1 if name in ("acosh", "lgamma", "digamma") else 0)
    text = func([kind((3,))], f"%r0 = chlo.{name} %a0 : {kind((3,))} -> {kind((3,))}", [kind((3,))])
    agree(text, values, exact=1e-4)


@pytest.mark.parametrize("dtype", ["f32", "f64", *INTEGERS])
def test_binary(dtype):
    names = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"]
    if dtype in INTEGERS:
        names += ["and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic"]
    else:
        names += ["atan2"]
    for name in names:
        if dtype.startswith("ui") and name == "shift_right_arithmetic":
            continue
        values = None
        if dtype in INTEGERS:
            low = 0 if dtype.startswith("ui") else -100
            x = RNG.integers(low, 120, (4, 6)).astype(INTEGERS[dtype])
            y = RNG.integers(0 if "shift" in name else max(low, -5), 7, (4, 6)).astype(INTEGERS[dtype])
            if name in ("divide", "remainder"):
                y[y == 0] = 3
            values = [x, y]
        simple(f"stablehlo.{name}", [(4, 6)] * 2, (4, 6), dtypes=[dtype] * 2, result_dtype=dtype, values=values)
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        simple("stablehlo.compare", [(9,)] * 2, (9,), f"comparison_direction = #stablehlo<comparison_direction {direction}>",
               dtypes=[dtype] * 2, result_dtype="i1", values=[example((9,), dtype, RNG), example((9,), dtype, RNG)])  # fmt: skip


@pytest.mark.parametrize("dtype", ["ui16", "ui32", "ui64"])
def test_large_unsigned_numbers(dtype):
    top = np.iinfo(INTEGERS[dtype]).max
    x = np.array([top, top - 1, top // 2 + 1, 5, 0, top], INTEGERS[dtype])
    y = np.array([3, top, 2, top // 2 + 7, 1, top - 3], INTEGERS[dtype])
    for name in ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "xor"):
        simple(f"stablehlo.{name}", [(6,)] * 2, (6,), dtypes=[dtype] * 2, result_dtype=dtype, values=[x, y])
    for direction in ("LT", "GE"):
        simple("stablehlo.compare", [(6,)] * 2, (6,), f"comparison_direction = #stablehlo<comparison_direction {direction}>",
               dtypes=[dtype] * 2, result_dtype="i1", values=[x, y])  # fmt: skip
    for name in ("shift_left", "shift_right_logical"):
        simple(f"stablehlo.{name}", [(6,)] * 2, (6,), dtypes=[dtype] * 2, result_dtype=dtype,
               values=[x, np.array([1, 3, 0, 7, 2, 15], INTEGERS[dtype])])  # fmt: skip
    for name in ("negate", "not", "popcnt", "count_leading_zeros"):
        simple(f"stablehlo.{name}", [(6,)], (6,), dtypes=[dtype], result_dtype=dtype, values=[x])
    simple("stablehlo.convert", [(6,)], (6,), dtypes=[dtype], result_dtype="f32", values=[x])


@pytest.mark.parametrize("source", ["i1", "f32", "f64", *INTEGERS])
def test_convert(source):
    for target in ("i1", "f32", "f16", "f64", *INTEGERS):
        simple("stablehlo.convert", [(3, 4)], (3, 4), dtypes=[source], result_dtype=target,
               values=[np.abs(example((3, 4), source, RNG)) * 3 if source != "i1" else example((3, 4), "i1", RNG)]
               if source[0] == "f" else None)  # fmt: skip


def test_numbers_in_place_of_tensors():
    """Constants that are one number become Python's numbers, on either side."""
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2"):
        for order in ("%a0, %c", "%c, %a0"):
            text = func([kind((5,))], f"%c = stablehlo.constant dense<2.5> : {kind((5,))}\n"
                        f"%r0 = stablehlo.{name} {order} : {kind((5,))}", [kind((5,))])  # fmt: skip
            agree(text, np.array([0.5, 1, 2, 3, 4.5], np.float32))
    graph = to_fx(text.replace("atan2", "add"))
    assert not [n for n in graph.graph.nodes if n.op == "get_attr"]


def test_broadcasts_are_views():
    text = func([kind((4,)), kind((3, 4))], f"""
        %0 = stablehlo.broadcast_in_dim %a0, dims = [1] : ({kind((4,))}) -> {kind((3, 4))}
        %1 = stablehlo.exponential %0 : {kind((3, 4))}
        %r0 = stablehlo.add %1, %a1 : {kind((3, 4))}""", [kind((3, 4))])
    agree(text, *(example(s, "f32", RNG) for s in ((4,), (3, 4))))
    targets = [str(n.target) for n in to_fx(text).graph.nodes if n.op == "call_function"]
    assert targets == ["aten.exp.default", "aten.add.Tensor"]


def test_random_views():
    """Chains of reshape, transpose, broadcast and slice over what is not written out yet."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shape, lines, last = [int(n) for n in rng.integers(1, 4, 2)], [], "%a0"
        start = list(shape)
        for step in range(7):
            old, choice = kind(shape), rng.integers(5)
            if choice == 0 and len(shape) < 5:
                at, n = int(rng.integers(len(shape) + 1)), int(rng.integers(1, 4))
                dims = [d + (d >= at) for d in range(len(shape))]
                shape = shape[:at] + [n] + shape[at:]
                body = f"stablehlo.broadcast_in_dim {last}, dims = {dims} : ({old}) -> {kind(shape)}"
            elif choice == 1:
                order = [int(i) for i in rng.permutation(len(shape))]
                shape = [shape[i] for i in order]
                body = f"stablehlo.transpose {last}, dims = {order} : ({old}) -> {kind(shape)}"
            elif choice == 2 and len(shape) > 1:
                at = int(rng.integers(len(shape) - 1))
                shape = shape[:at] + [shape[at] * shape[at + 1]] + shape[at + 2:]
                body = f"stablehlo.reshape {last} : ({old}) -> {kind(shape)}"
            elif choice == 3:
                lows = [int(rng.integers(n)) for n in shape]
                text = ", ".join(f"{low}:{n}" for low, n in zip(lows, shape))
                shape = [n - low for low, n in zip(lows, shape)]
                body = f"stablehlo.slice {last} [{text}] : ({old}) -> {kind(shape)}"
            else:
                dims = [int(d) for d in range(len(shape)) if rng.integers(2)]
                body = f"stablehlo.reverse {last}, dims = {dims} : {old}"
            last = f"%v{step}"
            lines.append(f"{last} = {body}")
        lines.append(f"%r0 = stablehlo.negate {last} : {kind(shape)}")
        agree(func([kind(start)], "\n".join(lines), [kind(shape)]), example(start, "f32", rng))


PADS = [([1, 2], [0, 3], [0, 0]), ([-1, 0], [2, -2], [0, 0]), ([0, 1], [1, 0], [2, 1]), ([-2, 3], [0, -1], [1, 2]), ([-4, 0], [0, 0], [0, 0])]


@pytest.mark.parametrize("low, high, inside", PADS)
def test_pad(low, high, inside):
    shape = (4, 5)
    out = [n + (n - 1) * i + a + b for n, a, b, i in zip(shape, low, high, inside)]
    simple("stablehlo.pad", [shape, ()], out, f"edge_padding_low = array<i64: {low[0]}, {low[1]}>, edge_padding_high = "
           f"array<i64: {high[0]}, {high[1]}>, interior_padding = array<i64: {inside[0]}, {inside[1]}>")  # fmt: skip


def test_dynamic_slices():
    for starts in ((0, 0), (2, 1), (9, -3)):
        values = [example((5, 6), "f32", RNG), *(np.array(s, np.int32) for s in starts)]
        types = [kind((5, 6)), kind((), "i32"), kind((), "i32")]
        agree(func(types, f"%r0 = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 4] : ({', '.join(types)}) -> {kind((2, 4))}",
                   [kind((2, 4))]), *values)  # fmt: skip
        for size in ((2, 4), (5, 2), (2, 6), (5, 6)):
            all_types = [kind((5, 6)), kind(size), *types[1:]]
            agree(func(all_types, f"%r0 = stablehlo.dynamic_update_slice %a0, %a1, %a2, %a3 : ({', '.join(all_types)}) -> {kind((5, 6))}",
                       [kind((5, 6))]), values[0], example(size, "f32", RNG), *values[1:])  # fmt: skip
            fixed = func(all_types[:2], f"%c0 = stablehlo.constant dense<{starts[0]}> : tensor<i32>\n%c1 = stablehlo.constant dense<"
                         f"{starts[1]}> : tensor<i32>\n%r0 = stablehlo.dynamic_update_slice %a0, %a1, %c0, %c1 : "
                         f"({', '.join(all_types)}) -> {kind((5, 6))}", [kind((5, 6))])  # fmt: skip
            agree(fixed, values[0], example(size, "f32", RNG))


DOTS = [
    ((4, 5), (5, 6), [], [], [1], [0]), ((4, 5), (4, 6), [], [], [0], [0]), ((2, 3, 4), (2, 4, 5), [0], [0], [2], [1]),
    ((3, 2, 4), (5, 2, 4), [1], [1], [2], [2]), ((2, 3, 4, 5), (2, 3, 6, 5), [0, 1], [0, 1], [3], [3]), ((2, 3, 4), (2, 3, 5), [], [], [0, 1], [0, 1]),
    ((3, 2, 4), (2, 3, 5), [], [], [0, 1], [1, 0]), ((5,), (5,), [], [], [0], [0]), ((3,), (4,), [], [], [], []), ((2, 3), (2, 4), [0], [0], [], []),
    ((2, 1, 3), (1, 4), [], [], [1], [0]), ((0, 3), (3, 2), [], [], [1], [0]),
]  # fmt: skip


@pytest.mark.parametrize("x, y, xb, yb, xc, yc", DOTS)
def test_dot_general(x, y, xb, yb, xc, yc):
    out = [x[d] for d in xb] + [n for d, n in enumerate(x) if d not in xb + xc] + [n for d, n in enumerate(y) if d not in yb + yc]
    numbers = (f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {xb}, rhs_batching_dimensions = {yb}, "
               f"lhs_contracting_dimensions = {xc}, rhs_contracting_dimensions = {yc}>")  # fmt: skip
    simple("stablehlo.dot_general", [x, y], out, numbers)
    simple("stablehlo.dot_general", [x, y], out, numbers, dtypes=["i32", "i32"], result_dtype="i32")


def test_products_copy_nothing():
    """The gradient of a weight, x transposed times dy over batch and positions, is views and one mm."""
    text = func([kind((2, 3, 4)), kind((2, 3, 5))], f"%r0 = stablehlo.dot_general %a0, %a1, contracting_dims = [0, 1] x [0, 1] : "
                f"({kind((2, 3, 4))}, {kind((2, 3, 5))}) -> {kind((4, 5))}", [kind((4, 5))])  # fmt: skip
    targets = {str(n.target) for n in to_fx(text).graph.nodes if n.op == "call_function"}
    assert targets <= {"aten.permute.default", "aten.view.default", "aten.mm.default"}, targets


BODY = """({{
  ^bb0(%p: tensor<{0}>, %q: tensor<{0}>):
    %s = stablehlo.{1} %p, %q : tensor<{0}>
    stablehlo.return %s : tensor<{0}>
  }})"""


@pytest.mark.parametrize("dtype", ["f32", "i32", "i8", "ui32", "ui64", "i1"])
def test_reduce(dtype):
    names = ["and", "or", "xor"] if dtype != "f32" else []
    names += ["add", "multiply", "maximum", "minimum"]
    for name in names:
        for dims, out in (([1], (3, 2)), ([0, 2], (4,)), ([0, 1, 2], ())):
            for init in ("0", "1"):
                init = {"i1": "true" if init == "1" else "false", "f32": init + ".0"}.get(dtype, init)
                text = func([kind((3, 4, 2), dtype)], f'%c = stablehlo.constant dense<{init}> : tensor<{dtype}>\n'
                            f'%r0 = "stablehlo.reduce"(%a0, %c) <{{dimensions = array<i64: {str(dims)[1:-1]}>}}> '
                            f'{BODY.format(dtype, name)} : ({kind((3, 4, 2), dtype)}, tensor<{dtype}>) -> {kind(out, dtype)}',
                            [kind(out, dtype)])  # fmt: skip
                agree(text, example((3, 4, 2), dtype, RNG))


ARG = """
    %i = stablehlo.iota dim = {dim} : {places}
    %c = stablehlo.constant dense<{init}> : tensor<f32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %r0, %r1 = "stablehlo.reduce"(%a0, %i, %c, %z) <{{dimensions = array<i64: {dim}>}}> ({{
      ^bb0(%v: tensor<f32>, %n: tensor<i32>, %w: tensor<f32>, %m: tensor<i32>):
        %g = stablehlo.compare {direction}, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %e = stablehlo.compare EQ, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %l = stablehlo.compare LT, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %b = stablehlo.and %e, %l : tensor<i1>
        %k = stablehlo.or %g, %b : tensor<i1>
        %x = stablehlo.select %g, %v, %w : tensor<i1>, tensor<f32>
        %y = stablehlo.select %k, %n, %m : tensor<i1>, tensor<i32>
        stablehlo.return %x, %y : tensor<f32>, tensor<i32>
    }}) : ({whole}, {places}, tensor<f32>, tensor<i32>) -> ({out}, {out_places})"""


@pytest.mark.parametrize("direction, init", [("GT", "0xFF800000"), ("LT", "0x7F800000"), ("GT", "0.5")])
def test_argmax(direction, init):
    for dim in (0, 1):
        out = (5,) if dim == 0 else (4,)
        body = ARG.format(dim=dim, direction=direction, init=init, whole=kind((4, 5)), places=kind((4, 5), "i32"), out=kind(out),
                          out_places=kind(out, "i32"))  # fmt: skip
        text = func([kind((4, 5))], body, [kind(out), kind(out, "i32")])
        agree(text, RNG.integers(0, 3, (4, 5)).astype(np.float32))
        targets = [str(n.target) for n in to_fx(text).graph.nodes]
        assert f"aten.{'max' if direction == 'GT' else 'min'}.dim" in targets


WINDOWS = [
    ((2, 3, 8, 8), [1, 1, 2, 2], [1, 1, 2, 2], [0] * 8, None, None), ((2, 3, 9, 8), [1, 1, 3, 3], [1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1], None, None),
    ((2, 8, 8, 3), [1, 3, 2, 1], [1, 2, 1, 1], [0, 0, 1, 0, 0, 1, 0, 0], None, None), ((7,), [7], [1], [6, 0], None, None),
    ((2, 7), [1, 7], [1, 1], [0, 0, 0, 6], None, None), ((3, 8), [2, 3], [1, 2], [1, 1, 2, 0], [2, 1], [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("shape, sizes, strides, pads, base, dilation", WINDOWS)
def test_reduce_window(shape, sizes, strides, pads, base, dilation):
    rank = len(shape)
    base, dilation = base or [1] * rank, dilation or [1] * rank
    out = [((n - 1) * b + 1 + lo + hi - (k - 1) * d - 1) // s + 1
           for n, b, lo, hi, k, d, s in zip(shape, base, pads[::2], pads[1::2], sizes, dilation, strides)]
    arrays = ", ".join(f"{name} = array<i64: {str(values)[1:-1]}>" for name, values in (
        ("window_dimensions", sizes), ("window_strides", strides), ("base_dilations", base), ("window_dilations", dilation)))
    rows = [pads[i:i + 2] for i in range(0, len(pads), 2)]
    for name, init in (("add", "0.0"), ("maximum", "0xFF800000"), ("minimum", "0x7F800000"), ("multiply", "1.0"), ("add", "2.0")):
        text = func([kind(shape)], f'%c = stablehlo.constant dense<{init}> : tensor<f32>\n%r0 = "stablehlo.reduce_window"(%a0, %c) '
                    f'<{{{arrays}, padding = dense<{rows}> : tensor<{rank}x2xi64>}}> {BODY.format("f32", name)} : '
                    f'({kind(shape)}, tensor<f32>) -> {kind(out)}', [kind(out)])  # fmt: skip
        agree(text, example(shape, "f32", RNG), exact=1e-4)


def test_select_and_scatter():
    for pads, out in (([[0, 0], [0, 0], [0, 0], [0, 0]], (2, 3, 4, 4)), ([[0, 0], [0, 0], [1, 0], [0, 1]], (2, 3, 4, 4))):
        select = """({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %s = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %s : tensor<i1>
          }, """
        text = func([kind((2, 3, 8, 8)), kind(out)], '%c = stablehlo.constant dense<0.0> : tensor<f32>\n%r0 = "stablehlo.select_and_scatter"'
                    f'(%a0, %a1, %c) <{{padding = dense<{pads}> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 2, 2>, '
                    f'window_strides = array<i64: 1, 1, 2, 2>}}> {select}{BODY.format("f32", "add")[1:]} : ({kind((2, 3, 8, 8))}, '
                    f'{kind(out)}, tensor<f32>) -> {kind((2, 3, 8, 8))}', [kind((2, 3, 8, 8))])  # fmt: skip
        agree(text, RNG.integers(0, 4, (2, 3, 8, 8)).astype(np.float32), example(out, "f32", RNG))


GATHERS = [  # operand, indices, offset_dims, collapsed, start map, vector dim, sizes, batching, index batching, result
    ((7, 5), (4,), [1], [0], [0], 1, (1, 5), [], [], (4, 5)), ((7, 5), (2, 3, 1), [2], [0], [0], 2, (1, 5), [], [], (2, 3, 5)),
    ((7, 5), (4, 1), [0], [1], [1], 1, (7, 1), [], [], (7, 4)), ((4, 7, 5), (2, 3, 1), [1, 3], [1], [1], 2, (4, 1, 5), [], [], (2, 4, 3, 5)),
    ((7, 5), (4, 2), [], [0, 1], [0, 1], 1, (1, 1), [], [], (4,)), ((7, 5), (4, 2), [], [0, 1], [1, 0], 1, (1, 1), [], [], (4,)),
    ((7, 5), (3, 2), [1, 2], [], [0, 1], 1, (2, 3), [], [], (3, 2, 3)), ((7, 5), (2, 3), [0], [1], [0, 1], 0, (3, 1), [], [], (3, 3)),
    ((3, 7), (3, 4, 1), [], [1], [1], 2, (1, 1), [0], [0], (3, 4)), ((3, 7, 5), (3, 4, 1), [2], [1], [1], 2, (1, 1, 5), [0], [0], (3, 4, 5)),
    ((7, 5, 4), (3, 2), [1], [0, 2], [0, 2], 1, (1, 5, 1), [], [], (3, 5)), ((6,), (1,), [0], [], [0], 0, (3,), [], [], (3,)),
    ((6, 4), (1,), [0], [0], [0], 0, (1, 4), [], [], (4,)), ((1, 5), (3, 1), [1], [0], [0], 1, (1, 5), [], [], (3, 5)),
]  # fmt: skip


@pytest.mark.parametrize("x, i, offset, collapsed, start, vector, sizes, batching, index_batching, out", GATHERS)
def test_gather(x, i, offset, collapsed, start, vector, sizes, batching, index_batching, out):
    numbers = (f"dimension_numbers = #stablehlo.gather<offset_dims = {offset}, collapsed_slice_dims = {collapsed}, operand_batching_dims = "
               f"{batching}, start_indices_batching_dims = {index_batching}, start_index_map = {start}, index_vector_dim = {vector}>, "
               f"slice_sizes = array<i64: {str(list(sizes))[1:-1]}>")  # fmt: skip
    for low, high in ((0, 3), (-4, 12)):
        simple("stablehlo.gather", [x, i], out, numbers, dtypes=["f32", "i32"], values=[example(x, "f32", RNG), RNG.integers(low, high, i).astype(np.int32)])


@pytest.mark.parametrize("x, i, offset, collapsed, start, vector, sizes, batching, index_batching, out", GATHERS)
@pytest.mark.parametrize("body", ["add", "maximum", "minimum", "multiply", "second"])
def test_scatter(x, i, offset, collapsed, start, vector, sizes, batching, index_batching, out, body):
    numbers = (f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {offset}, inserted_window_dims = {collapsed}, "
               f"input_batching_dims = {batching}, scatter_indices_batching_dims = {index_batching}, scatter_dims_to_operand_dims = {start}, "
               f"index_vector_dim = {vector}>")  # fmt: skip
    region = BODY.format("f32", body) if body != "second" else """({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        stablehlo.return %q : tensor<f32>
      })"""
    for low, high in ((0, 3), (-2, 9)):
        places = RNG.integers(low, high, i).astype(np.int32)
        if body == "second":  # the same place twice has no order
            places = np.full(i, high - 1, np.int32)
        types = [kind(x), kind(i, "i32"), kind(out)]
        text = func(types, f'%r0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{{numbers}}}> {region} : ({", ".join(types)}) -> {kind(x)}', [kind(x)])
        updates = np.ones(out, np.float32) * 3 if body == "second" else example(out, "f32", RNG)
        agree(text, example(x, "f32", RNG), places, updates, exact=1e-4)


SORT = """
    %r0, %r1 = "stablehlo.sort"(%a0, %a1) <{{dimension = {dim} : i64, is_stable = true}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>, %n: tensor<i32>, %m: tensor<i32>):
        %e = stablehlo.compare EQ, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %x = stablehlo.compare {first}, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %y = stablehlo.compare {second}, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %b = stablehlo.and %e, %y : tensor<i1>
        %r = stablehlo.or %x, %b : tensor<i1>
        stablehlo.return {what} : tensor<i1>
    }}) : ({0}, {1}) -> ({0}, {1})"""


def test_sort():
    types = [kind((4, 6)), kind((4, 6), "i32")]
    for dim in (0, 1):
        for first, second in (("LT", "LT"), ("GT", "LT"), ("LT", "GT")):
            for what in ("%r", "%x", "%y"):
                text = func(types, SORT.format(*types, dim=dim, first=first, second=second, what=what), types)
                agree(text, example((4, 6), "f32", RNG), RNG.integers(0, 3, (4, 6)).astype(np.int32))


CONVOLUTIONS = [  # x, w, labels, stride, pad, x dilation, w dilation, groups, batch groups
    ((2, 4, 8, 7), (6, 4, 3, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 1, 1, 1], [1, 1], [1, 1], 1, 1),
    ((2, 8, 7, 4), (3, 3, 4, 6), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", [2, 1], [1, 0, 0, 2], [1, 1], [2, 1], 1, 1),
    ((2, 8, 7, 4), (3, 3, 2, 6), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", [1, 1], [-1, 2, 0, 0], [1, 1], [1, 1], 2, 1),
    ((2, 4, 5, 5), (6, 4, 3, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 2, 2, 2], [2, 2], [1, 1], 1, 1),
    ((2, 4, 5, 5), (6, 2, 3, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 1, 2, 1], [2, 3], [1, 1], 2, 1),
    ((2, 4, 5, 5), (6, 4, 3, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [2, 1], [1, 5, 2, 2], [2, 2], [1, 1], 1, 1),
    ((4, 2, 8, 8), (6, 2, 8, 8), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 1, 1, 1], [1, 1], [1, 1], 1, 1),
    ((4, 2, 8, 8), (6, 2, 4, 4), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 0, 1, 0], [1, 1], [2, 2], 1, 1),
    ((4, 2, 8, 8), (6, 2, 8, 8), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 1, 1, 1], [1, 1], [1, 1], 1, 2),
    ((4, 3, 8, 8), (6, 3, 3, 3), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", [1, 1], [1, 1, 1, 1], [1, 1], [1, 1], 1, 2),
    ((2, 4, 9), (6, 4, 3), "[b, f, 0]x[o, i, 0]->[b, f, 0]", [2], [1, 2], [1], [1], 1, 1),
    ((1, 2, 5, 4, 3), (3, 2, 2, 2, 2), "[b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2]", [1, 1, 1], [0, 1, 1, 0, 0, 0], [1] * 3, [1] * 3, 1, 1),
    ((3, 4), (5, 4), "[b, f]x[o, i]->[b, f]", [], [], [], [], 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("x, w, dims, stride, pad, x_dilation, w_dilation, groups, batch_groups", CONVOLUTIONS)
@pytest.mark.parametrize("turned", [False, True])
def test_convolution(x, w, dims, stride, pad, x_dilation, w_dilation, groups, batch_groups, turned):
    from cleave.torch.execution.convolutions import labels

    x_order, w_order, out_order = labels(dims)
    n = len(stride)
    if not n and turned:
        return
    spatial = [((x[d] - 1) * xd + 1 + lo + hi - (w[e] - 1) * wd - 1) // s + 1 for d, e, s, lo, hi, xd, wd in zip(
        x_order[2:], w_order[2:], stride, pad[::2], pad[1::2], x_dilation, w_dilation)]  # fmt: skip
    sizes, out = [x[x_order[0]] // batch_groups, w[w_order[0]], *spatial], [0] * (n + 2)
    for at, size in zip(out_order, sizes):
        out[at] = size
    arrays = [("window_strides", stride), ("lhs_dilation", x_dilation), ("rhs_dilation", w_dilation)]
    attributes = ", ".join(f"{name} = array<i64: {str(v)[1:-1]}>" if v else f"{name} = array<i64>" for name, v in arrays)
    rows = [pad[i:i + 2] for i in range(0, len(pad), 2)]
    attributes += (f", padding = dense<{rows if n else ''}> : tensor<{n}x2xi64>, dimension_numbers = #stablehlo.conv<{dims}>, "
                   f"feature_group_count = {groups} : i64, batch_group_count = {batch_groups} : i64")  # fmt: skip
    if turned:
        attributes += f", window_reversal = array<i1: {', '.join(['true'] * n)}>"
    values = [example(x, "f32", RNG), example(w, "f32", RNG)]
    types = [kind(x), kind(w)]
    text = func(types, f'%r0 = "stablehlo.convolution"(%a0, %a1) <{{{attributes}}}> : ({", ".join(types)}) -> {kind(out)}', [kind(out)])
    agree(text, *values, exact=1e-4)


def test_gradients_of_convolutions_are_pytorchs():
    x, w, dims, *_ = CONVOLUTIONS[6]
    text = func([kind(x), kind(w)], f"%r0 = stablehlo.convolution(%a0, %a1) dim_numbers = {dims}, window = {{pad = [[1, 1], [1, 1]]}} "
                f"{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({kind(x)}, {kind(w)}) -> {kind((4, 6, 3, 3))}",
                [kind((4, 6, 3, 3))])  # fmt: skip
    assert any(n.target is torch.ops.aten.convolution_backward.default for n in to_fx(text).graph.nodes)


def test_control():
    text = func([kind((3,)), kind((), "i32")], f"""
        %z = stablehlo.constant dense<0> : tensor<i32>
        %w:2 = stablehlo.while(%i = %z, %x = %a0) : tensor<i32>, {kind((3,))}
          cond {{
            %n = stablehlo.constant dense<4> : tensor<i32>
            %g = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %g : tensor<i1>
          }} do {{
            %o = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %o : tensor<i32>
            %y = stablehlo.multiply %x, %a0 : {kind((3,))}
            stablehlo.return %j, %y : tensor<i32>, {kind((3,))}
          }}
        %r0 = "stablehlo.case"(%a1) ({{
          stablehlo.return %w#1 : {kind((3,))}
        }}, {{
          %t = stablehlo.tanh %a0 : {kind((3,))}
          stablehlo.return %t : {kind((3,))}
        }}) : (tensor<i32>) -> {kind((3,))}""", [kind((3,))])
    for index in (0, 1, 5, -1):
        agree(text, example((3,), "f32", RNG), np.array(index, np.int32))


def test_linear_algebra():
    a = example((2, 4, 4), "f64", RNG)
    spd = a @ np.swapaxes(a, 1, 2) + 4 * np.eye(4)
    for lower in ("true", "false"):
        text = func([kind((2, 4, 4), "f64")], f"%r0 = stablehlo.cholesky %a0, lower = {lower} : {kind((2, 4, 4), 'f64')}", [kind((2, 4, 4), "f64")])
        triangle = np.tril if lower == "true" else np.triu
        actual = run_one(text, spd)[0]
        assert np.allclose(triangle(actual), triangle(np.asarray(cleave.run(cleave.Module.parse(text), spd)[0])))
    for left, unit, how in (("true", "false", "NO_TRANSPOSE"), ("false", "true", "TRANSPOSE")):
        simple("stablehlo.triangular_solve", [(4, 4), (4, 4)], (4, 4), f"left_side = {left}, lower = true, unit_diagonal = {unit}, "
               f"transpose_a = #stablehlo<transpose {how}>", dtypes=["f64"] * 2, result_dtype="f64", values=[np.tril(spd[0]), a[1]])  # fmt: skip


def test_opaque_calls():
    shape = kind((2, 3, 4, 8))
    text = func([shape] * 3, '%r0, %r1 = stablehlo.custom_call @aten._scaled_dot_product_flash_attention_for_cpu.default(%a0, %a1, %a2) '
                '{api_version = 4 : i32, mhlo.backend_config = {tensors = "query,key,value", is_causal = true, scale = 5.0e-1 : f64}} : '
                f'({shape}, {shape}, {shape}) -> ({shape}, {kind((2, 3, 4))})', [shape, kind((2, 3, 4))])  # fmt: skip
    values = [example((2, 3, 4, 8), "f32", RNG) for _ in range(3)]
    wanted = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, values), is_causal=True, scale=0.5)
    assert np.allclose(run_one(text, *values)[0], wanted.numpy(), atol=1e-5)


def test_the_optimizer_is_left_to_its_owner():
    whole, one = kind((3, 4)), kind((4,))
    text = func([whole, one], f"""
        %0 = stablehlo.slice %a0 [0:1, 0:4] : ({whole}) -> {kind((1, 4))}
        %p = stablehlo.reshape %0 : ({kind((1, 4))}) -> {one}
        %g = stablehlo.multiply %p, %a1 : {one}
        %r0 = stablehlo.custom_call @cleave.optimizer(%g, %a0) {{api_version = 4 : i32}} : ({one}, {whole}) -> {whole}""", [whole])
    p, x = example((4,), "f32", RNG), example((4,), "f32", RNG)
    assert np.allclose(run_one(text, p, x)[0], p * x)


@pytest.mark.parametrize("part", ["stablehlo.slice %a0 [0:3, 1:3]", "stablehlo.dynamic_slice %a0, %z, %i, sizes = [3, 2]"])
def test_the_optimizer_updates_a_part_of_what_it_keeps(part):
    """All of the stack is cut along a later dimension before the parameter is taken out of it."""
    whole, cut, one = kind((3, 4)), kind((3, 2)), kind((2,))
    types = f"({whole})" if "dynamic" not in part else f"({whole}, tensor<i64>, tensor<i64>)"
    text = func([whole, one, "tensor<i64>"], f"""
        %z = stablehlo.constant dense<0> : tensor<i64>
        %i = stablehlo.multiply %a2, %a2 : tensor<i64>
        %c = {part} : {types} -> {cut}
        %0 = stablehlo.slice %c [0:1, 0:2] : ({cut}) -> {kind((1, 2))}
        %p = stablehlo.reshape %0 : ({kind((1, 2))}) -> {one}
        %g = stablehlo.multiply %p, %a1 : {one}
        %r0 = stablehlo.custom_call @cleave.optimizer(%g, %a0) {{api_version = 4 : i32}} : ({one}, {whole}) -> {whole}""", [whole])
    p, x = example((4,), "f32", RNG), example((2,), "f32", RNG)
    assert np.allclose(run_one(text, p, x, np.array(1))[0], p[1:3] * x)


def test_what_an_optimizer_keeps_is_not_there():
    whole, one = kind((3, 4)), kind((4,))
    text = func([whole, one], f"""
        %0 = stablehlo.slice %a0 [1:2, 0:4] : ({whole}) -> {kind((1, 4))}
        %p = stablehlo.reshape %0 : ({kind((1, 4))}) -> {one}
        %g = stablehlo.multiply %p, %a1 : {one}
        %r0 = stablehlo.custom_call @cleave.optimizer(%g, %a0) {{api_version = 4 : i32}} : ({one}, {whole}) -> {whole}""", [whole])
    with pytest.raises(cleave.UserError, match="the state of an optimizer is read"):
        to_fx(text)


def test_errors_name_the_op():
    text = func([kind((3,), "ui64")], f"%s, %r0 = stablehlo.rng_bit_generator %a0, algorithm = PHILOX : ({kind((3,), 'ui64')}) -> "
                f"({kind((3,), 'ui64')}, {kind((4,), 'ui32')})", [kind((4,), "ui32")])  # fmt: skip
    with pytest.raises(cleave.UserError, match=r"stablehlo.rng_bit_generator \(tensor<3xui64>\) -> .*: no translation to PyTorch"):
        to_fx(text)


MODELS = ["mlp?step=train", "gpt?step=grad", "gpt?step=train&norm=layer&feed_forward=gelu&positions=learned", "encoder?step=grad",
          "moe?step=grad&layers=1", "resnet?step=train&norm=batch&bottleneck=yes&stem=large", "unet?step=grad",
          "gpt?step=grad&attention=flash&remat=full&layers=1", "gpt?step=grad&layers=1&compute=bf16"]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_whole_steps(name):
    from torch_execution_support import close, examples

    module = cleave.Module.load(f"model:{name}")
    arguments = examples(module, 3)
    for a, e in zip(run_one(module, *arguments), map(np.asarray, cleave.run(module, *arguments))):
        assert close(a, e, 2e-3) or "bf16" in name and np.linalg.norm(a - e) < 0.02 * np.linalg.norm(e)


def test_every_node_has_a_fake_value():
    graph = to_fx(cleave.Module.load("model:gpt?step=grad&layers=1"))
    for node in graph.graph.nodes:
        assert node.meta.get("val") is not None
