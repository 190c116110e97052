"""A plan as XLA follows it exactly: the whole step as one manual computation, whose body is the partitioned program.

`cleave opt -cleave-partition="device=K alike=true"` prints the program of device K. Those of all devices have the same
ops and differ in constants and in the starts of slices (where an iota, a lookup or a shift of indices begins); such a
number becomes a table of the numbers of all devices, read at the device's own place. So the module is right on every
device, not on the first one alone. Changes of layout become StableHLO's collectives over explicit groups of devices.
"""

import itertools
import math
import re

TENSOR = r"tensor<[^<>]*>"
CHANGE = re.compile(rf'^(\s*)(%\S+) = "cleave\.(\w+)"\((%\S+)\) \{{(.*)\}} : \(({TENSOR})\) -> ({TENSOR})')
CONSTANT = re.compile(rf"^(\s*)(%\S+) = stablehlo\.constant dense<(.*)> : ({TENSOR})$")
SLICE = re.compile(rf"^(\s*)(%\S+) = stablehlo\.slice (%\S+) \[(.*)\] : \(({TENSOR})\) -> ({TENSOR})$")
INDEX = "tensor<ui32>"


class Unsupported(Exception):
    """A form that XLA does not take, or that is not written here."""


class Devices:
    """The devices of a mesh, {"x": 2, "y": 4}, in row-major order, and the parts of its axes."""

    def __init__(self, axes):
        self.axes = axes
        self.places = list(itertools.product(*(range(n) for n in axes.values())))

    def __len__(self):
        return len(self.places)

    def digit(self, device, ref):
        """The coordinate of a device along "x" or along the part "x:(2)4" of it, and its stride in the axis."""
        name, _, part = ref.partition(":")
        before, size = map(int, re.fullmatch(r"\((\d+)\)(\d+)", part).groups()) if part else (1, self.axes[name])
        stride = self.axes[name] // (before * size)
        return self.places[device][list(self.axes).index(name)] // stride % size, stride, size

    def size(self, refs):
        return math.prod(self.digit(0, ref)[2] for ref in refs)

    def index(self, device, refs):
        """The place of a device along a list of axes, major to minor."""
        place = 0
        for ref in refs:
            digit, _, size = self.digit(device, ref)
            place = place * size + digit
        return place

    def groups(self, refs):
        """Devices that differ along these axes alone, each group in their order."""
        groups = {}
        for device in range(len(self)):
            rest = list(self.places[device])
            for ref in refs:
                digit, stride, _ = self.digit(device, ref)
                rest[list(self.axes).index(ref.partition(":")[0])] -= digit * stride
            groups.setdefault(tuple(rest), []).append(device)
        return [sorted(group, key=lambda d: self.index(d, refs)) for group in groups.values()]


REDUCERS = {"sum": "add", "max": "maximum", "min": "minimum"}


def layout(text):
    """'[{x, y}, {}], unreduced={z}' as ([["x", "y"], []], ["z"], "sum"); "unreduced" may name its reduction."""
    dims = re.match(r"\[(.*?)\](?:$|,)", text).group(1)
    rest = text[len(dims) + 2:]
    names = lambda braces: [name for name in re.split(r",\s*", braces) if name and name != "?"]
    pending = re.search(r"unreduced=(\w*)\{(.*?)\}", rest)
    how = pending.group(1) or "sum" if pending else "sum"
    if how not in REDUCERS:
        raise Unsupported(f"a pending {how}")
    return [names(d) for d in re.findall(r"\{(.*?)\}", dims)], names(pending.group(2)) if pending else [], how


def sizes_of(tensor):
    return [int(n) for n in re.findall(r"(\d+)x", tensor)]


def element_of(tensor):
    return tensor[len("tensor<"):-1].split("x")[-1]


def tensor_of(sizes, element):
    return "tensor<" + "".join(f"{n}x" for n in sizes) + element + ">"


def dense(rows):
    return f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def difference(long, short):
    """The axes of `long` after those of `short`."""
    if long[:len(short)] != short:
        raise Unsupported(f"{short} does not begin {long}")
    return long[len(short):]


class Body:
    """Writes the lines of the manual computation."""

    def __init__(self, devices):
        self.devices, self.lines, self.count = devices, [], 0

    def name(self):
        self.count += 1
        return f"%manual{self.count}"

    def put(self, text, result=None):
        result = result or self.name()
        self.lines.append(f"      {result} = {text}")
        return result

    def constant(self, literal, tensor, result=None):
        return self.put(f"stablehlo.constant dense<{literal}> : {tensor}", result)

    def own(self, values, element):
        """A scalar that each device has its own of."""
        n = len(self.devices)
        table = self.constant("[" + ", ".join(values) + "]", f"tensor<{n}x{element}>")
        me = self.put(f"stablehlo.partition_id : {INDEX}")
        row = self.put(f"stablehlo.dynamic_slice {table}, {me}, sizes = [1] : (tensor<{n}x{element}>, {INDEX}) "
                       f"-> tensor<1x{element}>")
        return self.put(f"stablehlo.reshape {row} : (tensor<1x{element}>) -> tensor<{element}>")

    def own_slice(self, value, starts, tensor, target, result=None):
        """`starts` by device: a list of numbers, one for each dimension."""
        places = [self.own([str(s[d]) for s in starts], "ui32") for d in range(len(starts[0]))]
        types = ", ".join([tensor] + [INDEX] * len(places))
        return self.put(f"stablehlo.dynamic_slice {', '.join([value] + places)}, sizes = {sizes_of(target)} : ({types}) "
                        f"-> {target}", result)

    def collective(self, op, value, attributes, tensor, target, result, how=None):
        self.count += 1
        handle = f"channel_handle = #stablehlo.channel_handle<handle = {self.count}, type = 1>"
        element, region = element_of(tensor), ""
        if how:
            a, b, c = self.name(), self.name(), self.name()
            region = (f" ({{\n      ^bb0({a}: tensor<{element}>, {b}: tensor<{element}>):\n"
                      f"        {c} = stablehlo.{REDUCERS[how]} {a}, {b} : tensor<{element}>\n"
                      f"        stablehlo.return {c} : tensor<{element}>\n      }})")
        return self.put(f'"stablehlo.{op}"({value}) <{{{attributes}, {handle}}}>{region} : ({tensor}) -> {target}', result)

    def groups(self, refs):
        return f"replica_groups = {dense(self.devices.groups(refs))}"

    # ---- changes of layout

    def change(self, kind, value, before, after, tensor, target, result):
        """One step of a reshard, dimension by dimension; a device receives as many bytes as in one go."""
        element, sizes = element_of(tensor), sizes_of(tensor)
        (dims, pending, how), (dims_after, pending_after, how_after) = layout(before), layout(after)
        if how != "sum" and kind != "all_reduce" or how_after != "sum":
            raise Unsupported(f"a {kind} of a pending {how if how != 'sum' else how_after}")
        if kind == "all_reduce":
            refs = [ref for ref in pending if ref not in pending_after]
            return self.collective("all_reduce", value, f"{self.groups(refs)}, use_global_device_ids", tensor, target, result,
                                   how)
        if kind == "collective_permute":
            pairs = dense(self.sources(dims, dims_after))
            return self.collective("collective_permute", value, f"source_target_pairs = {pairs}", tensor, target, result)
        if kind == "replicated_to_unreduced":
            refs = [ref for ref in pending_after if ref not in pending]
            first = self.own(["true" if self.devices.index(d, refs) == 0 else "false" for d in range(len(self.devices))], "i1")
            zero = self.constant("0.0" if element[0] in "bf" else "0", target)
            return self.put(f"stablehlo.select {first}, {value}, {zero} : tensor<i1>, {target}", result)
        write = {"all_gather": self.gather, "all_slice": self.slice, "reduce_scatter": self.scatter,
                 "all_to_all": self.exchange, "sharded_to_unreduced": self.pad}.get(kind)
        if not write:
            raise Unsupported(f"a {kind}")
        moves = list(self.moves(kind, dims, dims_after))
        for i, (dim, refs, to) in enumerate(moves):
            n, grown = self.devices.size(refs), list(sizes)
            if kind in ("all_gather", "sharded_to_unreduced", "all_to_all"):
                grown[dim] *= n
            shrinks = to if kind == "all_to_all" else dim if kind in ("all_slice", "reduce_scatter") else None
            if shrinks is not None:
                if grown[shrinks] % n:
                    raise Unsupported(f"uneven shards: {grown[shrinks]} over {n}")
                grown[shrinks] //= n
            last = result if i + 1 == len(moves) else None
            value = write(value, dim, refs, to, tensor_of(sizes, element), tensor_of(grown, element), last)
            sizes = grown
        if tensor_of(sizes, element) != target:
            raise Unsupported(f"a {kind} that ends in {tensor_of(sizes, element)}, not in {target}")

    @staticmethod
    def moves(kind, dims, dims_after):
        """(dimension, axes, other dimension) for each dimension that changes."""
        if kind == "all_to_all":
            for dim, (old, new) in enumerate(zip(dims, dims_after)):
                if len(old) > len(new):
                    refs = difference(old, new)
                    to = next(d for d, (o, n) in enumerate(zip(dims, dims_after)) if len(n) > len(o) and n[len(o):] == refs)
                    yield dim, refs, to
            return
        for dim, (old, new) in enumerate(zip(dims, dims_after)):
            if old != new:
                grows = kind in ("all_slice", "reduce_scatter")
                yield dim, difference(new, old) if grows else difference(old, new), None

    def gather(self, value, dim, refs, _, tensor, target, result):
        return self.collective("all_gather", value, f"all_gather_dim = {dim} : i64, {self.groups(refs)}, use_global_device_ids",
                               tensor, target, result)

    def scatter(self, value, dim, refs, _, tensor, target, result):
        return self.collective("reduce_scatter", value, f"{self.groups(refs)}, scatter_dimension = {dim} : i64, "
                               "use_global_device_ids", tensor, target, result, "sum")

    def exchange(self, value, dim, refs, to, tensor, target, result):
        return self.collective("all_to_all", value, f"concat_dimension = {dim} : i64, {self.groups(refs)}, "
                               f"split_count = {self.devices.size(refs)} : i64, split_dimension = {to} : i64",
                               tensor, target, result)

    def slice(self, value, dim, refs, _, tensor, target, result):
        length = sizes_of(target)[dim]
        starts = [[self.devices.index(device, refs) * length if d == dim else 0 for d in range(len(sizes_of(tensor)))]
                  for device in range(len(self.devices))]
        return self.own_slice(value, starts, tensor, target, result)

    def pad(self, value, dim, refs, _, tensor, target, result):
        length, zero = sizes_of(tensor)[dim], self.constant("0.0" if element_of(tensor)[0] in "bf" else "0", target)
        starts = [self.own([str(self.devices.index(device, refs) * length if d == dim else 0)
                            for device in range(len(self.devices))], "ui32") for d in range(len(sizes_of(tensor)))]
        types = ", ".join([target, tensor] + [INDEX] * len(starts))
        return self.put(f"stablehlo.dynamic_update_slice {', '.join([zero, value] + starts)} : ({types}) -> {target}", result)

    def sources(self, dims, dims_after):
        """Pairs [sender, receiver]: a device keeps what it has; others get it from one that is not sending yet."""
        all_devices = range(len(self.devices))
        held = {d: tuple(self.devices.index(d, refs) for refs in dims) for d in all_devices}
        wanted = {d: tuple(self.devices.index(d, refs) for refs in dims_after) for d in all_devices}
        pairs = {d: d for d in all_devices if held[d] == wanted[d]}
        free = [d for d in all_devices if d not in pairs]
        for receiver in [d for d in all_devices if d not in pairs]:
            sender = next(d for d in free if held[d] == wanted[receiver])
            free.remove(sender)
            pairs[receiver] = sender
        return [[sender, receiver] for receiver, sender in sorted(pairs.items())]

    # ---- lines of the programs

    def differing(self, lines):
        """A line that is not the same on all devices."""
        found = [CONSTANT.match(line) for line in lines]
        if all(found) and len({m.group(4) for m in found}) == 1:
            _, result, _, tensor = found[0].groups()
            values, element = [m.group(3) for m in found], element_of(tensor)
            sizes = sizes_of(tensor)
            if not sizes:
                table = self.own(values, element)
                return self.put(f"stablehlo.reshape {table} : (tensor<{element}>) -> tensor<{element}>", result)
            if not any(v.startswith(("[", '"')) for v in values):  # one number everywhere
                scalar = self.own(values, element)
                return self.put(f"stablehlo.broadcast_in_dim {scalar}, dims = [] : (tensor<{element}>) -> {tensor}", result)
            if any(v.startswith('"') for v in values):
                raise Unsupported("a packed constant that differs from device to device")
            n, rows = len(self.devices), [v if v.startswith("[") else str([v] * math.prod(sizes)).replace("'", "")
                                          for v in values]
            if len(sizes) != 1:
                raise Unsupported("a constant of several dimensions that differs from device to device")
            table = self.constant("[" + ", ".join(rows) + "]", tensor_of([n] + sizes, element))
            starts = [[device, 0] for device in range(n)]
            row = self.own_slice(table, starts, tensor_of([n] + sizes, element), tensor_of([1] + sizes, element))
            return self.put(f"stablehlo.reshape {row} : ({tensor_of([1] + sizes, element)}) -> {tensor}", result)
        found = [SLICE.match(line) for line in lines]
        if all(found) and len({m.group(6) for m in found}) == 1:
            _, result, value, _, tensor, target = found[0].groups()
            bounds = [[part.split(":") for part in m.group(4).split(", ")] for m in found]
            if all(len(b) == 2 for device in bounds for b in device):
                return self.own_slice(value, [[int(b[0]) for b in device] for device in bounds], tensor, target, result)
        raise Unsupported("devices differ in " + re.sub(r"\s+", " ", lines[0])[:80])

    def write(self, programs):
        """The lines between the signature and the return of @main, by device."""
        if len({len(program) for program in programs}) != 1:
            raise Unsupported("devices have different numbers of ops")
        for lines in zip(*programs):
            change = CHANGE.match(lines[0])
            if change:
                _, result, kind, value, attributes, tensor, target = change.groups()
                says = dict(re.findall(r'(\w+) = "([^"]*)"', attributes))
                self.change(kind, value, says["from"], says["to"], tensor, target, result)
            elif len(set(lines)) == 1:
                self.lines.append(lines[0])
            else:
                self.differing(lines)


def main_of(text):
    """The lines of @main: its signature, its body, its return, and the lines after it."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if re.match(r"\s*func\.func .*@main\(", line))
    end = next(i for i in range(begin, len(lines)) if re.match(r"    return\b", lines[i]))
    return lines[begin], lines[begin + 1:end], lines[end], lines[end + 1:]


def manual_module(planned, programs, axes):
    """planned: the module with shardings in it; programs: that of each device; axes: of the mesh, {"x": 2, "y": 4}."""
    parts = [main_of(program) for program in programs]
    if len({signature for signature, _, _, _ in parts}) != 1:
        raise Unsupported("uneven shards: devices have different arguments")
    body = Body(Devices(axes))
    body.write([lines for _, lines, _, _ in parts])
    signature, _, _, _ = main_of(planned)
    inputs, outputs = split_signature(signature)
    local, _ = split_signature(parts[0][0])
    inner = lambda text: re.sub(r"%arg(\d+)\b", r"%inner\1", text)
    results = parts[0][2].strip()
    mesh = ", ".join(f'"{name}"={size}' for name, size in axes.items())
    count = len(outputs)
    names = ", ".join(f"%out#{i}" for i in range(count)) if count > 1 else "%out"
    types = lambda values: ", ".join(tensor for tensor, _ in values)
    text = [f"module @step {{\n  sdy.mesh @mesh = <[{mesh}]>", signature,
            f"    {'%out:' + str(count) if count > 1 else '%out'} = sdy.manual_computation("
            + ", ".join(f"%arg{i}" for i in range(len(inputs))) + ")"
            + f" in_shardings=[{', '.join(s for _, s in inputs)}] out_shardings=[{', '.join(s for _, s in outputs)}]"
            + " manual_axes={" + ", ".join(f'"{a}"' for a in axes) + "} ("
            + ", ".join(f"%inner{i}: {tensor}" for i, (tensor, _) in enumerate(local)) + ") {"]
    text += [inner(line) for line in body.lines]
    text += ["      sdy." + inner(results), f"    }} : ({types(inputs)}) -> ({types(outputs)})",
             f"    return {names} : {types(outputs)}"]
    return "\n".join(text + parts[0][3]) + "\n"


def split_signature(line):
    """(type, sharding) of arguments and of results; the sharding is None in a program of one device."""
    arguments, _, results = line.rpartition(" -> ")
    def values(text):
        found = []
        for part in re.split(rf"(?=(?:%arg\d+: )?{TENSOR})", text):
            tensor = re.search(TENSOR, part)
            if not tensor:
                continue
            said = re.search(r"#sdy\.sharding<@mesh, (\[.*?\])(?:, replicated=\{.*?\})?>", part)
            if tensor:
                found.append((tensor.group(0), f"<@mesh, {said.group(1)}>" if said else None))
        return found
    return values(arguments), values(results)
