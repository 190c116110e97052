"""Random StableHLO modules with random shardings, for tests that compare two tools.

A module has one function @main. Every op draws its operands from the values so far, so that chains, forks
and joins come up; meshes have axes of sizes that divide dimensions, that do not, and that have to be split.
"""

import random

SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


class Value:
    def __init__(self, name, shape, dtype="f32"):
        self.name, self.shape, self.dtype = name, tuple(shape), dtype

    @property
    def type(self):
        return "tensor<" + "".join(f"{d}x" for d in self.shape) + self.dtype + ">"


class Generator:
    def __init__(self, seed, ops=10, priorities=False, regions=True, constraints=True, groups=False):
        self.random = random.Random(seed)
        self.priorities, self.constraints, self.groups = priorities, constraints, groups
        self.regions = regions
        self.num_ops = self.random.randint(1, ops)
        self.lines, self.values, self.next = [], [], 0
        axes = self.random.randint(1, 4)
        self.mesh = {name: self.random.choice([2, 2, 2, 3, 4, 4, 8]) for name in "abcd"[:axes]}

    # Shardings.

    def sharding(self, rank, closed=0.4):
        """`<@mesh, [...]>` with every axis, or its parts, in one place at most."""
        r, parts = self.random, []
        for name, size in self.mesh.items():
            divisors = [d for d in range(2, size) if size % d == 0]
            if divisors and r.random() < 0.2:
                cut = r.choice(divisors)
                parts += [(name, 1, cut), (name, cut, size // cut)]
            else:
                parts.append((name, 1, size))
        r.shuffle(parts)
        dims, replicated = [[] for _ in range(rank)], []
        for part in parts:
            place = r.random()
            if place < 0.5 and rank:
                dims[r.randrange(rank)].append(part)
            elif place < 0.56:
                replicated.append(part)

        def merged(axes):
            result = []
            for name, pre, size in axes:
                if result and result[-1][0] == name and result[-1][1] * result[-1][2] == pre:
                    result[-1] = (name, result[-1][1], result[-1][2] * size)
                else:
                    result.append((name, pre, size))
            return result

        def text(axis):
            name, pre, size = axis
            return f'"{name}"' if (pre, size) == (1, self.mesh[name]) else f'"{name}":({pre}){size}'

        fields = []
        for axes in dims:
            items = [text(axis) for axis in merged(axes)]
            is_open = r.random() >= closed
            field = "{" + ", ".join(items + (["?"] if is_open else [])) + "}"
            if self.priorities and (items or is_open) and r.random() < 0.4:
                field += f"p{r.randint(0, 3)}"
            fields.append(field)
        order = list(self.mesh)
        replicated = merged(sorted(replicated, key=lambda a: (order.index(a[0]), a[1])))
        extra = f", replicated={{{', '.join(text(a) for a in replicated)}}}" if replicated else ""
        return f"<@mesh, [{', '.join(fields)}]{extra}>"

    def maybe_attr(self, value, chance):
        if self.random.random() >= chance:
            return ""
        return f" {{sdy.sharding = #sdy.sharding{self.sharding(len(value.shape))}}}"

    # Values.

    def emit(self, text, shape, dtype="f32"):
        value = Value(f"%{self.next}", shape, dtype)
        self.next += 1
        self.lines.append(f"  {value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, condition=lambda v: True, dtype="f32"):
        found = [v for v in self.values if v.dtype == dtype and condition(v)]
        if not found:
            return None
        # Recent values more often.
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def scalar(self, dtype="i32", value="0"):
        return self.emit(f"stablehlo.constant dense<{value}> : tensor<{dtype}>", (), dtype)

    # Ops: each returns None where no operand fits.

    def op_unary(self):
        x = self.pick()
        name = self.random.choice(["negate", "tanh", "exponential", "abs", "sqrt", "logistic", "sine"])
        return x and self.emit(f"stablehlo.{name} {x.name} : {x.type}", x.shape)

    def op_binary(self):
        x = self.pick()
        if not x:
            return None
        y = self.pick(lambda v: v.shape == x.shape)
        name = self.random.choice(["add", "multiply", "subtract", "maximum", "divide"])
        return self.emit(f"stablehlo.{name} {x.name}, {y.name} : {x.type}", x.shape)

    def op_select(self):
        x = self.pick()
        if not x:
            return None
        y = self.pick(lambda v: v.shape == x.shape)
        p = self.emit(f"stablehlo.compare LT, {x.name}, {y.name} : ({x.type}, {y.type}) -> "
                      f"{Value('', x.shape, 'i1').type}", x.shape, "i1")
        return self.emit(f"stablehlo.select {p.name}, {x.name}, {y.name} : {p.type}, {x.type}", x.shape)

    def op_transpose(self):
        x = self.pick(lambda v: len(v.shape) > 1)
        if not x:
            return None
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        y = Value("", [x.shape[i] for i in order])
        return self.emit(f"stablehlo.transpose {x.name}, dims = {order} : ({x.type}) -> {y.type}", y.shape)

    def op_reshape(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        # Break all sizes into primes, in order, and join them anew.
        primes = []
        for size in x.shape:
            for p in (2, 3):
                while size % p == 0 and size > 0:
                    primes.append(p)
                    size //= p
            if size > 1:
                primes.append(size)
        if 0 in x.shape:
            return None
        shape = []
        for p in primes:
            if shape and self.random.random() < 0.6:
                shape[-1] *= p
            else:
                shape.append(p)
        if self.random.random() < 0.2:
            shape.insert(self.random.randint(0, len(shape)), 1)
        if len(shape) > 6:
            return None
        y = Value("", shape)
        return self.emit(f"stablehlo.reshape {x.name} : ({x.type}) -> {y.type}", shape)

    def op_broadcast(self):
        x = self.pick(lambda v: len(v.shape) < 4)
        if not x:
            return None
        shape, dims, at = [], [], 0
        for size in x.shape:
            while self.random.random() < 0.3 and len(shape) < 4:
                shape.append(self.random.choice(SIZES))
            dims.append(len(shape))
            shape.append(self.random.choice(SIZES) if size == 1 and self.random.random() < 0.5 else size)
        if len(shape) == len(x.shape):
            shape.append(self.random.choice(SIZES))
        y = Value("", shape)
        return self.emit(f"stablehlo.broadcast_in_dim {x.name}, dims = {dims} : ({x.type}) -> {y.type}", shape)

    def op_dot(self):
        x = self.pick(lambda v: len(v.shape) >= 1)
        y = self.pick(lambda v: len(v.shape) >= 1)
        if not x or not y:
            return None
        pairs = [(i, j) for i, a in enumerate(x.shape) for j, b in enumerate(y.shape) if a == b]
        self.random.shuffle(pairs)
        contract, batch = [], []
        for i, j in pairs:
            if any(i == a or j == b for a, b in contract + batch):
                continue
            (batch if contract and self.random.random() < 0.5 else contract).append((i, j))
            if len(contract) + len(batch) >= 2:
                break
        if not contract:
            return None
        used_x, used_y = [i for i, _ in contract + batch], [j for _, j in contract + batch]
        shape = [x.shape[i] for i, _ in batch]
        shape += [d for i, d in enumerate(x.shape) if i not in used_x]
        shape += [d for j, d in enumerate(y.shape) if j not in used_y]
        if len(shape) > 5:
            return None
        out = Value("", shape)
        text = f"stablehlo.dot_general {x.name}, {y.name}, "
        if batch:
            text += f"batching_dims = {[i for i, _ in batch]} x {[j for _, j in batch]}, "
        text += f"contracting_dims = {[i for i, _ in contract]} x {[j for _, j in contract]}"
        return self.emit(f"{text} : ({x.type}, {y.type}) -> {out.type}", shape)

    def op_reduce(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        dims = sorted(self.random.sample(range(len(x.shape)), self.random.randint(1, len(x.shape))))
        zero = self.emit("stablehlo.constant dense<0.000000e+00> : tensor<f32>", ())
        y = Value("", [d for i, d in enumerate(x.shape) if i not in dims])
        kind = self.random.choice(["add", "maximum"])
        return self.emit(f"stablehlo.reduce({x.name} init: {zero.name}) applies stablehlo.{kind} across dimensions = "
                         f"{dims} : ({x.type}, tensor<f32>) -> {y.type}", y.shape)

    def op_slice(self):
        x = self.pick(lambda v: len(v.shape) > 0 and all(v.shape))
        if not x:
            return None
        bounds, shape = [], []
        for size in x.shape:
            low = self.random.randrange(size) if self.random.random() < 0.3 else 0
            high = self.random.randint(low + 1, size) if self.random.random() < 0.3 else size
            bounds.append(f"{low}:{high}")
            shape.append(high - low)
        y = Value("", shape)
        return self.emit(f"stablehlo.slice {x.name} [{', '.join(bounds)}] : ({x.type}) -> {y.type}", shape)

    def op_pad(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        zero = self.emit("stablehlo.constant dense<0.000000e+00> : tensor<f32>", ())
        low = [self.random.choice([0, 0, 1]) for _ in x.shape]
        high = [self.random.choice([0, 0, 2]) for _ in x.shape]
        y = Value("", [d + a + b for d, a, b in zip(x.shape, low, high)])
        return self.emit(f"stablehlo.pad {x.name}, {zero.name}, low = {low}, high = {high}, interior = "
                         f"{[0] * len(low)} : ({x.type}, tensor<f32>) -> {y.type}", y.shape)

    def op_concatenate(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        y = self.pick(lambda v: v.shape == x.shape)
        dim = self.random.randrange(len(x.shape))
        z = Value("", [d * 2 if i == dim else d for i, d in enumerate(x.shape)])
        return self.emit(f"stablehlo.concatenate {x.name}, {y.name}, dim = {dim} : ({x.type}, {y.type}) -> "
                         f"{z.type}", z.shape)

    def op_dynamic_slice(self):
        x = self.pick(lambda v: len(v.shape) > 0 and all(v.shape))
        if not x:
            return None
        start = self.scalar()
        sizes = [self.random.randint(1, d) if self.random.random() < 0.4 else d for d in x.shape]
        y = Value("", sizes)
        starts = ", ".join([start.name] * len(sizes))
        types = ", ".join([x.type] + ["tensor<i32>"] * len(sizes))
        return self.emit(f"stablehlo.dynamic_slice {x.name}, {starts}, sizes = {sizes} : ({types}) -> {y.type}", sizes)

    def op_dynamic_update_slice(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        y = self.pick(lambda v: len(v.shape) == len(x.shape) and all(a <= b for a, b in zip(v.shape, x.shape)))
        start = self.scalar()
        starts = ", ".join([start.name] * len(x.shape))
        types = ", ".join([x.type, y.type] + ["tensor<i32>"] * len(x.shape))
        return self.emit(f"stablehlo.dynamic_update_slice {x.name}, {y.name}, {starts} : ({types}) -> {x.type}", x.shape)

    def op_reverse(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        dims = [self.random.randrange(len(x.shape))]
        return self.emit(f"stablehlo.reverse {x.name}, dims = {dims} : {x.type}", x.shape)

    def op_gather(self):
        x = self.pick(lambda v: len(v.shape) == 2 and all(v.shape))
        if not x:
            return None
        n = self.random.choice(SIZES[1:])
        index = self.emit(f"stablehlo.iota dim = 0 : tensor<{n}x1xi32>", (n, 1), "i32")
        y = Value("", [n, x.shape[1]])
        attrs = ("{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
                 "start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, "
                 f"slice_sizes = array<i64: 1, {x.shape[1]}>}}")
        return self.emit(f'"stablehlo.gather"({x.name}, {index.name}) <{attrs}> : ({x.type}, {index.type}) -> {y.type}',
                         y.shape)

    def op_scatter(self):
        x = self.pick(lambda v: len(v.shape) == 2 and all(v.shape))
        if not x:
            return None
        u = self.pick(lambda v: len(v.shape) == 2 and v.shape[1] == x.shape[1] and v.shape[0] > 0)
        index = self.emit(f"stablehlo.iota dim = 0 : tensor<{u.shape[0]}x1xi32>", (u.shape[0], 1), "i32")
        self.lines.append(f'  %{self.next} = "stablehlo.scatter"({x.name}, {index.name}, {u.name}) <{{indices_are_sorted = '
                          "false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
                          "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
                          "unique_indices = false}> ({")
        self.lines.append("  ^bb0(%sa: tensor<f32>, %sb: tensor<f32>):")
        self.lines.append("    %sc = stablehlo.add %sa, %sb : tensor<f32>")
        self.lines.append("    stablehlo.return %sc : tensor<f32>")
        self.lines.append(f"  }}) : ({x.type}, {index.type}, {u.type}) -> {x.type}")
        value = Value(f"%{self.next}", x.shape)
        self.next += 1
        self.values.append(value)
        return value

    def op_sort(self):
        x = self.pick(lambda v: len(v.shape) > 0)
        if not x:
            return None
        dim = self.random.randrange(len(x.shape))
        self.lines.append(f'  %{self.next} = "stablehlo.sort"({x.name}) <{{dimension = {dim} : i64, is_stable = true}}> ({{')
        self.lines.append("  ^bb0(%sa: tensor<f32>, %sb: tensor<f32>):")
        self.lines.append("    %sc = stablehlo.compare LT, %sa, %sb : (tensor<f32>, tensor<f32>) -> tensor<i1>")
        self.lines.append("    stablehlo.return %sc : tensor<i1>")
        self.lines.append(f"  }}) : ({x.type}) -> {x.type}")
        value = Value(f"%{self.next}", x.shape)
        self.next += 1
        self.values.append(value)
        return value

    def op_constant(self):
        shape = [self.random.choice(SIZES) for _ in range(self.random.randint(1, 3))]
        y = Value("", shape)
        if self.random.random() < 0.3:
            return self.emit(f"stablehlo.iota dim = 0 : {y.type}", shape)
        return self.emit(f"stablehlo.constant dense<1.000000e+00> : {y.type}", shape)

    def op_unknown(self):
        x = self.pick()
        return x and self.emit(f"stablehlo.custom_call @unknown_to_all({x.name}) : ({x.type}) -> {x.type}", x.shape)

    def op_constraint(self):
        if not self.constraints:
            return None
        x = self.pick()
        return x and self.emit(f"sdy.sharding_constraint {x.name} {self.sharding(len(x.shape))} : {x.type}", x.shape)

    def op_group(self):
        if not self.groups:
            return None
        x = self.pick()
        y = x and self.pick(lambda v: v.shape == x.shape)
        if not y:
            return None
        group = self.random.randint(0, 1000)
        for v in (x, y):
            self.lines.append(f"  sdy.sharding_group {v.name} group_id={group} : {v.type}")
        return y

    def op_barrier(self):
        x = self.pick()
        direction = self.random.choice(["FORWARD", "BACKWARD", "NONE"])
        return x and self.emit(f"sdy.propagation_barrier {x.name} allowed_direction={direction} : {x.type}", x.shape)

    def op_optimization_barrier(self):
        x = self.pick()
        return x and self.emit(f"stablehlo.optimization_barrier {x.name} : {x.type}", x.shape)

    def op_while(self):
        x = self.pick()
        if not self.regions or not x:
            return None
        y = self.pick(lambda v: v.shape == x.shape)
        zero = self.scalar()
        name, a, b = f"%{self.next}", f"%c{self.next}", f"%d{self.next}"
        self.lines.append(f"  {name}:2 = stablehlo.while({a} = {zero.name}, {b} = {x.name}) : tensor<i32>, {x.type}")
        self.lines.append("  cond {")
        self.lines.append(f"    %w0 = stablehlo.constant dense<10> : tensor<i32>")
        self.lines.append(f"    %w1 = stablehlo.compare LT, {a}, %w0 : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        self.lines.append("    stablehlo.return %w1 : tensor<i1>")
        self.lines.append("  } do {")
        self.lines.append(f"    %w2 = stablehlo.add {b}, {y.name} : {x.type}")
        self.lines.append(f"    stablehlo.return {a}, %w2 : tensor<i32>, {x.type}")
        self.lines.append("  }")
        value = Value(f"{name}#1", x.shape)
        self.next += 1
        self.values.append(value)
        return value

    def op_case(self):
        x = self.pick()
        if not self.regions or not x:
            return None
        y = self.pick(lambda v: v.shape == x.shape)
        index = self.scalar()
        self.lines.append(f'  %{self.next} = "stablehlo.case"({index.name}) ({{')
        self.lines.append(f"    stablehlo.return {x.name} : {x.type}")
        self.lines.append("  }, {")
        self.lines.append(f"    %w2 = stablehlo.tanh {y.name} : {x.type}")
        self.lines.append(f"    stablehlo.return %w2 : {x.type}")
        self.lines.append(f"  }}) : (tensor<i32>) -> {x.type}")
        value = Value(f"%{self.next}", x.shape)
        self.next += 1
        self.values.append(value)
        return value

    WEIGHTS = {
        "unary": 3, "binary": 8, "select": 1, "transpose": 3, "reshape": 4, "broadcast": 4, "dot": 8, "reduce": 3,
        "slice": 2, "pad": 1, "concatenate": 2, "dynamic_slice": 1, "dynamic_update_slice": 1, "reverse": 1,
        "gather": 2, "scatter": 1, "sort": 1, "constant": 2, "unknown": 1, "constraint": 2, "group": 2, "barrier": 1,
        "optimization_barrier": 1, "while": 1, "case": 1,
    }

    def module(self):
        r = self.random
        axes = ", ".join(f'"{name}"={size}' for name, size in self.mesh.items())
        common = [r.choice(SIZES) for _ in range(3)]
        args = []
        for i in range(r.randint(1, 4)):
            shape = [r.choice(common) if r.random() < 0.7 else r.choice(SIZES) for _ in range(r.randint(0, 3))]
            args.append(Value(f"%arg{i}", shape))
        self.values += args
        kinds, weights = zip(*self.WEIGHTS.items())
        done = 0
        while done < self.num_ops:
            value = getattr(self, "op_" + r.choices(kinds, weights)[0])()
            done += 1 if value else 0.2
            if value and r.random() < 0.06 and len(self.lines) and "sdy." not in self.lines[-1] \
                    and self.lines[-1].startswith(f"  {value.name} = stablehlo.") and " : " in self.lines[-1] \
                    and "constant" not in self.lines[-1] and "iota" not in self.lines[-1]:
                head, tail = self.lines[-1].rsplit(" : ", 1)
                if " {" not in head and "reduce(" not in head and "optimization_barrier" not in head:
                    self.lines[-1] = (f"{head} {{sdy.sharding = #sdy.sharding_per_value<["
                                      f"{self.sharding(len(value.shape))}]>}} : {tail}")
        results = [v for v in self.values[len(args):] if v.dtype == "f32"][-2:] or args[:1]
        parameters = ", ".join(f"{a.name}: {a.type}{self.maybe_attr(a, 0.6)}" for a in args)
        types = ", ".join(f"{v.type}{self.maybe_attr(v, 0.3)}" for v in results)
        body = "\n".join(self.lines)
        names, plain = ", ".join(v.name for v in results), ", ".join(v.type for v in results)
        return (f"sdy.mesh @mesh = <[{axes}]>\n\nfunc.func @main({parameters}) -> ({types}) {{\n"
                f"{body}\n  return {names} : {plain}\n}}\n")
