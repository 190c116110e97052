"""What a compiled XLA module does, read off its text: collectives with the bytes that one device receives, loops by
their trips. Nothing else is needed: bytes follow from the types of results."""

import collections
import math
import re

WIDTH = {"pred": 1, "bf16": 2, "token": 0} | {f"{kind}{bits}": bits // 8 for kind in "suf" for bits in (8, 16, 32, 64)}
WIDTH |= {"c64": 8, "c128": 16}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
ASSIGNED = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (.*)$")
ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")


def byte_count(types):
    """Of "f32[4,8]{1,0}" or of a tuple of such."""
    total = 0
    for dtype, sizes in ARRAY.findall(types):
        if dtype not in WIDTH:
            raise ValueError(f"the element type {dtype} is not known")
        total += WIDTH[dtype] * math.prod(int(n) for n in sizes.split(",") if n)
    return total


def split_call(line):
    """'%a = f32[4] add(%b, %c), x=1' as ('f32[4]', 'add', '%b, %c), x=1'), or None."""
    found = ASSIGNED.match(line)
    if not found:
        return None
    rest, depth = found.group(1), 0
    for i, c in enumerate(rest):  # the type ends at the first space outside of brackets
        depth += (c in "([{") - (c in ")]}")
        if c == " " and depth == 0:
            call = re.match(r"([\w\-]+)\((.*)", rest[i + 1:])
            return (rest[:i], call.group(1), call.group(2)) if call else None
    return None


def computations(text):
    """Lines by computation, and the name of the entry."""
    bodies, entry, lines = {}, None, None
    for line in text.splitlines():
        head = re.match(r"^(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head and not line.startswith("HloModule"):
            lines = bodies.setdefault(head.group(2), [])
            entry = head.group(2) if head.group(1) else entry
        elif line.startswith("}"):
            lines = None
        elif lines is not None:
            lines.append(line)
    return bodies, entry


def group_size(attributes, devices):
    by_count = re.search(r"replica_groups=\[\d+,(\d+)\]", attributes)
    if by_count:
        return int(by_count.group(1))
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    if listed:
        return len(listed.group(1).split(","))
    by_mesh = re.search(r"replica_groups=mesh\[(.*?)\].*?\{(.*?)\}", attributes)
    if by_mesh:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", by_mesh.group(1)))
        parts = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", by_mesh.group(2))
        return math.prod(int(part or sizes[axis]) for axis, part in parts)
    return devices


def received(kind, bytes_out, n):
    """Bytes that one device receives if an all-reduce is a ring."""
    if kind == "all-reduce":
        return 2 * bytes_out * (n - 1) / n
    if kind == "reduce-scatter":
        return bytes_out * (n - 1)
    return bytes_out if kind == "collective-permute" else bytes_out * (n - 1) / n


REORDERS = {"copy", "transpose"}
VIEWS = {"parameter", "bitcast", "reshape", "tuple", "get-tuple-element"}


def traffic(text):
    """Bytes that collectives read and write themselves, and those of kernels that do nothing but put a value in another
    order. Operands and results of the ops of the entry."""
    bodies, entry = computations(text)
    held, own, copied = {}, 0, 0
    for line in bodies[entry]:
        call = split_call(line)
        if not call:
            continue
        types, op, rest = call
        name = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line).group(1)
        held[name] = byte_count(types)
        moved = held[name] + sum(held.get(a, 0) for a in re.findall(r"%([\w.\-]+)", rest.split("), ")[0]))
        if op in KINDS:
            own += moved
        elif op in REORDERS or op == "fusion" and only_reorders(bodies, rest):
            copied += moved
    return own, copied


def only_reorders(bodies, rest):
    body = bodies[re.search(r"calls=%?([\w.\-]+)", rest).group(1)]
    ops = {call[1] for call in map(split_call, body) if call}
    return bool(ops & REORDERS) and ops <= REORDERS | VIEWS


def collectives(text, devices=8):
    """By kind and size of the group: how often it runs, and the bytes that one device receives. A loop whose trips are
    not known, and a branch, are errors: these steps have none."""
    bodies, entry = computations(text)
    found = collections.defaultdict(lambda: [0, 0.0])

    def visit(name, times):
        for line in bodies[name]:
            call = split_call(line)
            if not call:
                continue
            types, op, rest = call
            kind = op.removesuffix("-start")
            if kind in KINDS:
                if op.endswith("-start"):
                    raise ValueError(f"{op}: asynchronous collectives are not read")
                if kind == "collective-permute":
                    pairs = re.findall(r"\{(\d+),(\d+)\}", rest)
                    n = 2 if any(a != b for a, b in pairs) else 1
                else:
                    n = group_size(rest, devices)
                found[kind, n][0] += times
                found[kind, n][1] += times * (received(kind, byte_count(types), n) if n > 1 else 0)
            elif op == "while":
                trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', rest)
                body = re.search(r"body=%?([\w.\-]+)", rest).group(1)
                if not trips and any(kind in line for line in bodies[body] for kind in KINDS):
                    raise ValueError(f"{body}: a loop with collectives whose trips are not known")
                visit(body, times * int(trips.group(1)) if trips else 0)
            elif op == "call":
                visit(re.search(r"to_apply=%?([\w.\-]+)", rest).group(1), times)
            elif op == "conditional":
                raise ValueError("branches are not read")

    visit(entry, 1)
    return {key: (count, round(size)) for key, (count, size) in sorted(found.items())}


def memory(compiled):
    """Bytes on a device: arguments, temporaries and results that take no argument's place."""
    m = compiled.memory_analysis()
    return m.argument_size_in_bytes + m.temp_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes
