"""Discovered rules tried again, by code that shares nothing with the engine but the operator and how it counts dimensions.

Every rule that a report calls valid is run with fresh numbers on 2, 3 and 5 devices: on the calls that were tried, on calls
with other sizes and, inside its condition, with other values of attributes. And every placement of whole and sharded operands
that a plain run on chunks never contradicts must be among the rules.
"""

import dataclasses
import itertools
import re

import numpy as np

from cleave.functions import probing

WORLDS = (2, 3, 5)
REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
ROUNDING = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3, np.dtype(np.float16): 5e-2}
MOST_CALLS = 24  # of those that were tried, and of fresh ones
MOST_PLACES = 220  # of whole and sharded operands of one call


@dataclasses.dataclass
class Place:
    kind: str  # R, S or P
    argument: object = None  # the dimension, or the reduction

    def __str__(self):
        return "R" if self.kind == "R" else f"{self.kind}({self.argument})"


def place(text, d=None, attrs=None, rank=0):
    """R, P(sum), S(2), S(d-1) for a d, S(dim) for an attribute, or S(-1) of so many dimensions."""
    if text == "R":
        return Place("R")
    inner = text[2:-1]
    if text[0] == "P":
        return Place("P", inner)
    if attrs and inner in attrs:
        return Place("S", attrs[inner])
    if inner.startswith("-"):
        return Place("S", int(inner) + rank)
    return Place("S", eval(inner, {"d": d}) if "d" in inner else int(inner))  # noqa: S307: d, d-1, d+1


# ---- numbers

def fresh(operand, kind, random):
    """Numbers of an operand: plain ones, ties, or plain ones with a NaN."""
    shape = tuple(operand.shape)
    if operand.dtype == "i1":
        return random.random(shape) < 0.5
    if operand.domain == "index":
        if kind == "ties":  # every part has its own
            return np.sort(random.integers(0, operand.limit, shape), None).reshape(shape)
        if kind == "nan":  # one part alone has another
            made = np.zeros(shape, np.int64)
            made.reshape(-1)[random.integers(made.size)] = operand.limit - 1
            return made
        return random.integers(0, operand.limit, shape)
    dtype = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "ui8": np.uint8}[operand.dtype]
    if operand.domain == "definite":
        made = random.standard_normal(shape)
        return (made @ np.swapaxes(made, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        made = random.integers(0 if dtype == np.uint8 else -9, 10, shape)
    elif kind == "ties":
        made = random.integers(-2, 3, shape).astype(np.float64)
    else:
        made = random.standard_normal(shape) * 10 ** random.uniform(-1, 1)
    if operand.domain == "positive":
        made = np.abs(made) + 0.25
    elif operand.domain == "nonzero":
        made = np.where(made < 0, made - 1, made + 1)
    elif operand.domain == "sorted":
        made = np.sort(made, -1)
    elif kind == "nan" and np.dtype(dtype).kind == "f" and made.size:
        made.reshape(-1)[random.integers(made.size)] = np.nan
    return made.astype(dtype)


def chunks(array, dim, w):
    size = array.shape[dim]
    length = -(-size // w)
    return [np.take(array, range(min(i * length, size), min((i + 1) * length, size)), dim) for i in range(w)]


def parts(array, where, w, random):
    """What each device holds; nothing if such numbers have no such parts."""
    if where.kind == "R":
        return [array] * w
    if where.kind == "S":
        return chunks(array, where.argument, w)
    holder = random.integers(0, w, array.shape)
    held = [holder == i for i in range(w)]
    op = where.argument
    if array.dtype == bool:
        if op not in ("max", "min"):
            return None
        noise = [random.random(array.shape) < 0.5 for _ in range(w)]
        return [np.where(h, array, array & n if op == "max" else array | n) for h, n in zip(held, noise)]
    whole = array.dtype.kind in "iu"
    if whole and (op == "avg" or array.dtype.kind == "u"):
        return None

    def noise():
        made = random.integers(-5, 6, array.shape) if whole else random.standard_normal(array.shape) * 10 ** random.uniform(-1, 2)
        return made.astype(array.dtype)
    if op in ("sum", "avg"):
        made = [noise() for _ in range(w - 1)]
        total = array * w if op == "avg" else array
        return [*made, (total - sum(made)).astype(array.dtype)]
    if op in ("max", "min"):
        sign = -1 if op == "max" else 1
        return [np.where(h, array, array + sign * np.abs(noise()) * (random.random(array.shape) < 0.8)).astype(array.dtype) for h in held]
    if whole:
        signs = [np.where(random.random(array.shape) < 0.5, -1, 1) for _ in range(w - 1)]
        return [array * np.prod(signs, 0), *signs] if w > 2 else [array * signs[0], signs[0]]
    factors = [np.exp(random.standard_normal(array.shape)) * np.where(random.random(array.shape) < 0.5, -1, 1) for _ in range(w - 1)]
    return [*(f.astype(array.dtype) for f in factors), (array / np.prod(factors, 0)).astype(array.dtype)]


def largest(arrays):
    found = [np.abs(a[np.isfinite(a)].astype(np.float64)).max(initial=0) for a in arrays if a.dtype.kind in "fiu"]
    return max([1e-6, *found])


def same(a, b, scale):
    if a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real, scale) and same(a.imag, b.imag, scale)
    if a.dtype.kind != "f":
        return bool((a == b).all())
    with np.errstate(all="ignore"):
        near = np.abs(a.astype(np.float64) - b) <= ROUNDING.get(a.dtype, 1e-7) * scale
    return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def is_result(found, true, where, w, scale):
    """Whether what the devices have is the true result under a placement."""
    if where.kind == "R":
        return all(same(true, one, scale) for one in found)
    if where.kind == "S":
        return where.argument < true.ndim and all(same(a, b, scale) for a, b in zip(chunks(true, where.argument, w), found))
    if any(one.shape != true.shape for one in found):
        return False
    if where.argument == "avg":
        total = sum(one.astype(np.float64) for one in found) / w
        return same(true.astype(np.float64), total, scale)
    found = [one.astype(true.dtype) for one in found]
    if true.dtype == bool and where.argument in ("max", "min"):
        return bool(((np.any if where.argument == "max" else np.all)(found, 0) == true).all())
    with np.errstate(all="ignore"):
        return same(true, REDUCTIONS[where.argument].reduce(found), scale)


# ---- rules

RULE = re.compile(r"^(.*?) -> (?:result (\d+): )?(\S+)(?:\s+WHEN (.*))?$")


def instances(report, call, truths, w):
    """What the rules say of a call on so many devices: (placements of the operands, result, its placement, the rule)."""
    attrs = {**call.attrs, **probing.counted(report._target, call.operands, call.attrs)}
    for rule in report.rules:
        if rule.implied or "called as" in rule.text or "among those listed" in rule.text:
            continue
        before, result, after, condition = RULE.match(rule.text).groups()
        texts, result = before.split(", "), int(result or 0)
        first = next((i for i, t in enumerate(texts) if t[0] == "S"), None)
        if result >= len(truths):
            continue
        shape = tuple(call.operands[first].shape) if first is not None else truths[result].shape
        has_d = any(t.startswith("S(d") and t[2:-1] not in attrs for t in (*texts, after))
        ranks = [len(o.shape) for o in call.operands]
        front = {k: v + max(*ranks, *(t.ndim for t in truths)) if is_dim(k) and isinstance(v, int) and v < 0 else v for k, v in attrs.items()}
        for d in range(len(shape)) if has_d else [None]:
            places = [place(t, d, front, rank) for t, rank in zip(texts, ranks)]
            out = place(after, d, front, truths[result].ndim)
            split = next((p.argument for p in [*places, out] if p.kind == "S"), None)  # a rule that names a number may say d too
            if not fits(places, out, call, truths[result]) or not holds(condition, call, attrs, shape, split, truths, w):
                continue
            yield places, result, out, rule.text


def fits(places, out, call, truth):
    """Whether all dimensions are there. A rule that names another is a fault of the rule's, and not looked over."""
    return all(p.kind != "S" or 0 <= p.argument < len(o.shape) for p, o in zip(places, call.operands)) and (
        out.kind != "S" or 0 <= out.argument < truth.ndim)


def holds(condition, call, attrs, shape, d, truths, w):
    if not condition:
        return True
    first = call.operands[0].shape
    most = max([len(first), *(t.ndim for t in truths)])
    scope = {"d": d, "rank": len(shape), "w": w, "inf": float("inf"), "true": True, "false": False,
             "below": lambda k, dims: sum(one < k for one in dims)}
    for name, value in attrs.items():
        if is_dim(name):
            value = [v % most if v < 0 else v for v in value] if isinstance(value, list) else value + most if value < 0 else value
        scope[name] = value
    dims = {name for name in call.attrs if is_dim(name)}
    text = re.sub(r"size\((-?\w+)\)", lambda m: f"first[{m[1]}]" if m[1] in dims else f"shape[{m[1]}]", condition)
    text = re.sub(r"no shard of (-?\w+) is empty", r"(-(-shape[\1] // w) * (w - 1) < shape[\1])", text)
    return bool(eval(text, {"shape": shape, "first": first}, scope))  # noqa: S307: a condition that the engine wrote


def is_dim(name):
    return name.startswith("dim") or name in ("axis", "axes", "start_dim", "end_dim", "axis0", "axis1", "axis2", "source", "destination")


# ---- the check

class Check:
    def __init__(self, report, seed=0):
        self.report, self.random = report, np.random.default_rng(seed)
        self.target = report._target
        self.faults, self.missed = [], []
        self.runs = self.rules_tried = self.fresh_calls = 0

    def results(self, arrays, call):
        """The results; nothing if the operator refuses."""
        self.target.given = call.given
        try:
            self.runs += 1
            with np.errstate(all="ignore"):
                found = self.target.run(*[np.array(a) for a in arrays], **call.attrs)
                return [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]
        except Exception:  # noqa: BLE001: refusals have many types
            return None

    def run(self):
        calls = spread(self.report._calls, MOST_CALLS)
        said = {id(call): rows for call, (_, _, rows) in zip(self.report._calls, self.report._core.decisions())}
        for call in calls:
            self.tried_call(call, said[id(call)])
        for call in spread(list(fresh_calls(self, self.report._calls)), MOST_CALLS):
            self.fresh_calls += 1
            self.fresh_call(call)
        return self

    def tried_call(self, call, rows):
        valid = {}
        for operands, result, placement, verdict, _, worlds, *_ in rows:
            if verdict in ("proved", "tested") or worlds:
                valid[operands, result, placement] = None if verdict in ("proved", "tested") else worlds
        for w in (2, 3, 4):  # what was decided is about these
            by_operands = {}
            for (operands, result, placement), worlds in valid.items():
                if worlds is None or w in worlds:
                    by_operands.setdefault(operands, []).append((result, place(placement), f"{', '.join(operands)} -> {result}: {placement}"))
            for operands, wanted in by_operands.items():
                self.compare(call, [place(o) for o in operands], wanted, w)
        self.batch_dimensions(call, valid)
        self.fresh_call(call)

    def fresh_call(self, call):
        truths = self.results([fresh(o, "plain", self.random) for o in call.operands], call)
        for w in WORLDS if truths is not None else ():
            by_places = {}
            for places, result, out, text in instances(self.report, call, truths, w):
                by_places.setdefault(tuple(map(str, places)), (places, []))[1].append((result, out, text))
            for places, wanted in by_places.values():
                self.compare(call, places, wanted, w)

    def compare(self, call, places, wanted, w, kinds=("plain", "ties", "nan", "plain")):
        """Runs the devices, and keeps what is wrong."""
        self.rules_tried += len(wanted)
        pending = any(p.kind == "P" for p in places)
        for kind in kinds:
            if kind == "nan" and pending:
                continue
            ran = self.devices(call, places, kind, w)
            if ran is None:
                continue
            truths, outputs, scale, refused = ran
            for result, out, text in wanted:
                if refused or any(len(o) <= result for o in outputs):
                    self.fault(call, text, w, "the operator refuses a part")
                elif not (is_result([o[result] for o in outputs], truths[result], out, w, scale)):
                    self.fault(call, text, w, f"wrong ({kind})")

    def fault(self, call, text, w, words):
        line = f"{text} on {w} devices, {[tuple(o.shape) for o in call.operands]} {call.attrs}: {words}"
        if line not in self.faults:
            self.faults.append(line)

    def devices(self, call, places, kind, w):
        """(true results, those of the devices, the largest number, whether one refused); nothing if there is no such run."""
        arrays = [fresh(o, kind, self.random) for o in call.operands]
        split = [parts(a, p, w, self.random) for a, p in zip(arrays, places)]
        if any(s is None for s in split):
            return None
        truths = self.results(arrays, call)
        if truths is None:
            return None
        outputs = []
        for held in zip(*split):
            outputs.append(self.results(held, call))
            if outputs[-1] is None:
                return truths, outputs, 1, True
        flat = [*arrays, *(p for s in split for p in s), *truths, *(r for o in outputs for r in o)]
        return truths, outputs, largest(flat), False

    def batch_dimensions(self, call, valid):
        """Sharded operands whose results are sharded too, and stay so in every run: they must have been found."""
        options = [[Place("R")] + [Place("S", i) for i, size in enumerate(o.shape) if size > 1] for o in call.operands]
        for places in itertools.islice(itertools.product(*options), 1, MOST_PLACES):
            alive = None
            for w, kind in ((2, "plain"), (3, "plain"), (2, "ties"), (3, "nan"), (5, "plain"), (4, "nan"), (2, "nan")):
                if any(p.kind == "S" and o.shape[p.argument] < w for p, o in zip(places, call.operands)) and w > 3:
                    continue
                ran = self.devices(call, list(places), kind, w)
                if ran is None:
                    continue
                truths, outputs, scale, refused = ran
                if alive is None:
                    alive = {(r, j) for r, t in enumerate(truths) for j in range(t.ndim) if t.shape[j] > 1 and t.size}
                if refused or any(len(o) != len(truths) for o in outputs):
                    alive = set()
                alive = {(r, j) for r, j in alive if is_result([o[r] for o in outputs], truths[r], Place("S", j), w, scale)}
                if not alive:
                    break
            for result, j in alive or ():
                if (tuple(map(str, places)), result, f"S({j})") not in valid:
                    line = f"{', '.join(map(str, places))} -> result {result}: S({j})  {[tuple(o.shape) for o in call.operands]} {call.attrs}"
                    self.missed.append(line)


def spread(items, most):
    """Some of a list, from all over it."""
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]


def fresh_calls(check, calls):
    """Calls like those that were tried, with other sizes and other values: what the operator takes of them."""
    seen = set()
    # A value that was never another one is part of the call: nothing is said about others.
    varied = {name for name in calls[0].attrs if len({str(call.attrs.get(name)) for call in calls}) > 1}
    for call in calls:
        for sizes in (lambda s: s + 3, lambda s: 2 * s, lambda s: s):
            made = with_sizes(call, sizes)
            for attrs in other_values(made.attrs, varied):
                other = dataclasses.replace(made, attrs=attrs)
                key = (tuple((tuple(o.shape), o.dtype, o.domain) for o in other.operands), str(attrs))
                if key in seen or (attrs == call.attrs and sizes(7) == 7):
                    continue
                seen.add(key)
                if check.results([fresh(o, "plain", check.random) for o in other.operands], other) is not None:
                    yield other


def with_sizes(call, sizes):
    """All sizes through one function, so that equal ones stay equal; and lists of sizes among the attributes."""
    first = list(call.operands[0].shape)
    operands = [dataclasses.replace(o, shape=tuple(sizes(s) for s in o.shape), limit=sizes(o.limit) if o.domain == "index" else o.limit)
                for o in call.operands]
    attrs = {}
    for name, value in call.attrs.items():
        is_shape = isinstance(value, list) and value and not is_dim(name) and (value == first[len(first) - len(value):])
        attrs[name] = [sizes(v) for v in value] if is_shape else value
    return dataclasses.replace(call, operands=operands, attrs=attrs)


def other_values(attrs, varied):
    """The same attributes, then with one of them another number."""
    yield dict(attrs)
    for name, value in attrs.items():
        if name not in varied:
            others = []
        elif is_dim(name):
            others = [value - 1] if isinstance(value, int) and value >= 0 else []  # also from the end
        elif isinstance(value, bool):
            others = [not value]
        elif isinstance(value, int):
            others = [value + 1, value + 2]
        elif isinstance(value, float):
            others = [value * 1.5 + 0.25, value / 2, -value] if np.isfinite(value) else [-value]
        else:
            others = []
        for other in others:
            yield {**attrs, name: other}
