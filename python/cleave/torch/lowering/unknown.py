"""Ops that nobody can take apart: custom calls that PyTorch computes, with the rule that discovery finds."""

import functools
import json
import math
import re
import signal
import warnings

import torch

from cleave import registering
from cleave._core import UserError
from cleave.torch.lowering.opaque import arguments_of, tensors_of
from cleave.torch.worker import in_child

LONGEST = 120  # seconds that discovery may take
_rules = {}  # (target, types, arguments) -> notation or None


def kernel(op, *arrays, **attrs):
    args, kwargs = arguments_of(op, arrays, listed(op, attrs))
    with torch.no_grad():
        return tensors_of(op(*args, **kwargs))


def listed(op, attrs):
    return {name: list(v) if isinstance(v, (tuple, list)) else v for name, v in attrs.items()}


def key_of(call):
    return (call.name, tuple((t.dtype, tuple(t.shape)) for t in (*call.operands, *call.results)),
            tuple(sorted((name, str(value)) for name, value in call.attrs.items())))


def found_rule(op, call):
    """What discovery finds for this call; None, with a warning, if it finds nothing."""
    key = key_of(call)
    if key not in _rules:
        _rules[key] = discovered(op, call)
    return _rules[key]


def known_rules():
    """What was found until now, for other processes."""
    return dict(_rules)


def adopt(rules):
    """Takes what another process found."""
    _rules.update(rules)


def smaller(call):
    """Shapes with small sizes in the place of large ones; sizes that were equal stay equal."""
    sizes = sorted({size for t in call.operands for size in t.shape if size > 8})
    replaced = {size: 4 + 2 * i for i, size in enumerate(sizes)}
    return [tuple(replaced.get(size, size) for size in t.shape) for t in call.operands]


def discovered(op, call):
    """Looked for in a child: some kernels of PyTorch read and write outside of operands that do not fit together."""
    from cleave import discovery

    def run(*arrays):
        results = kernel(op, *arrays, **call.attrs)
        return results if len(results) > 1 else results[0]
    names = ", ".join(f"x{i}" for i in range(len(call.operands)))
    function = eval(f"lambda {names}: run({names})", {"run": run})  # discovery reads the signature
    floats = all(t.dtype in ("f32", "f64", "bf16", "f16") for t in call.operands)
    ranks = [len(t.shape) for t in call.operands], [len(t.shape) for t in call.results]
    for shapes in (smaller(call), [tuple(t.shape) for t in call.operands]):
        if not floats or not names or sum(map(math.prod, shapes)) > 1 << 16:
            continue
        def tried():
            signal.alarm(LONGEST)
            torch.set_num_threads(1)  # those of the parent are not there
            try:
                report = discovery.discover(function, shapes=shapes, dtype="float32", worlds=(2,), sweep={}, shrink=False,
                                            name=call.name)
            except (UserError, TypeError):  # the op takes no such arrays
                return json.dumps("")
            return json.dumps(notation_of(report, *ranks) or "")
        text = json.loads(in_child(tried))
        if text and isinstance(text, str):
            return text
    warnings.warn(f"{call.name}: PyTorch has no decomposition for it and discovery found no rule, so every device computes all of "
                  "it; cleave.register_rule gives it one", stacklevel=2)
    return None


def notation_of(report, operands, results):
    """The rules of one mesh axis as factors: S(0), R -> S(1) says that dimensions are the same index. None if there are none."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    dims = {}  # (tensor, dimension) -> letter; results follow the operands
    for rule in report.rules:
        if rule.implied or rule.condition:
            continue
        for left, right in written_out(rule.text, [*operands, *results]):
            placed = [(i, int(p[2:-1])) for i, p in enumerate(left + right) if p.startswith("S(")]
            plain = all(p == "R" or p.startswith("S(") for p in left)
            whole = all(p.startswith("S(") for p in right) or all(p == "P(sum)" for p in right)
            if placed and placed[0][0] < len(left) and plain and whole and not any(place in dims for place in placed):
                letter = next(letters)
                dims.update(dict.fromkeys(placed, letter))
    if not dims:
        return None
    kept, tensors = [], []
    for tensor, rank in enumerate([*operands, *results]):
        names = []
        for d in range(rank):
            if (tensor, d) not in dims:
                dims[tensor, d] = next(letters)
                kept.append(dims[tensor, d])
            names.append(dims[tensor, d])
        tensors.append(" ".join(names) or "[]")
    notes = "; ".join(f"{letter}: need_replication" for letter in kept)
    count = len(operands)
    return f"{', '.join(tensors[:count])} -> {', '.join(tensors[count:])}" + (f" {{{notes}}}" if notes else "")


def written_out(text, ranks):
    """The sides of a rule, as lists of placements. One of any dimension, S(d) -> S(d-1), is one for each dimension that all of its
    tensors have."""
    def side(text, d):
        return [re.sub(r"S\(d([+-]\d+)?\)", lambda found: f"S({d + int(found[1] or 0)})", p) for p in split_placements(text)]
    sides = text.split("->")
    for d in range(max(ranks)) if "S(d" in text else [0]:
        left, right = (side(one, d) for one in sides)
        if all(not p.startswith("S(") or 0 <= int(p[2:-1]) < rank for p, rank in zip(left + right, ranks)):
            yield left, right


def split_placements(text):
    """At commas outside of parentheses."""
    return re.findall(r"[A-Z]\([^)]*\)|[A-Z]", text)


def refuse_random(op):
    """Devices would draw different numbers."""
    if torch.Tag.nondeterministic_seeded in op.tags:
        raise UserError(f"{op}: it draws random numbers in a way that Cleave cannot repeat on several devices; draw them with torch.rand, "
                        "randn, bernoulli or dropout, or outside of the module")


@functools.cache
def make_known(op, target):
    """Registers the kernel and the rule of an op, once; rules that were registered before stay."""
    if target in registering.registered():
        return
    registering.register_op(target, functools.partial(kernel, op), rule=functools.partial(found_rule, op))
