"""What a compiled XLA module does, read off its text: collectives by `cleave hlo`; what kernels move, and memory, here."""

import collections
import json
import math
import re
import subprocess

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


def collectives(cleave, text):
    """By kind and size of the group: how often it runs, and the bytes that one device receives, as `cleave hlo` reads it. A
    loop whose trips are not known is an error: these steps have none."""
    run = subprocess.run([cleave, "hlo", "-", "--json"], input=text, capture_output=True, text=True, check=True)
    program = json.loads(run.stdout)
    if program["unknown_loops"]:
        raise ValueError(f"loops with collectives whose trips are not known: {program['unknown_loops']}")
    found = collections.defaultdict(lambda: [0, 0.0])
    for total in program["totals"]:
        found[total["kind"], total["group_size"]][0] += round(total["executions"])
        found[total["kind"], total["group_size"]][1] += total["received_bytes"]
    return {key: (count, round(size)) for key, (count, size) in sorted(found.items())}


def memory(compiled):
    """Bytes on a device: arguments, temporaries and results that take no argument's place."""
    m = compiled.memory_analysis()
    return m.argument_size_in_bytes + m.temp_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes
