"""Which placements an operator really supports: found out by running it."""

import contextlib
import inspect
import json
import numbers
import os
import warnings
from collections import namedtuple
from functools import cached_property

from cleave import _core
from cleave.layouts import DTYPES, dtype_name
from cleave.functions import Target, examples, other_adapters, probing, target_of_function, target_of_text
from cleave.functions.target import DIM_NAMES
from cleave.progress import told

Rule = namedtuple("Rule", "text condition verdict tests justification implied")
Rule.__doc__ = "Operand placements -> a result's placement that holds, under a condition on attributes ('' for always)."
Refuted = namedtuple("Refuted", "text reason witness short")
Refuted.__doc__ = "Placements that do not hold; `witness` is the smallest reproduction that was found, `short` the same in a line."


class Discovery:
    """What was found about one operator; str() is the table that `cleave discover` prints."""

    def __init__(self, core, target=None, calls=(), dropped=(), again=None):
        self._core = core
        self._target = target  # of cleave.functions, if it is a function
        self._calls = calls
        self._again = again  # discovers another function in the same way
        self.dropped = list(dropped)
        """Values of the sweep that the operator refused, in words."""
        self.emitted_failures = []
        """What did not pass when emitted code was run, in words."""

    @property
    def signature(self):
        """The schema or signature of the operator; empty if it is one of the library's."""
        return self._target.signature() if self._target else ""

    @property
    def versions(self):
        """Of Cleave and of the framework whose function it is."""
        return {"cleave": _core.__version__, **(self._target.versions() if self._target else {})}

    @property
    def op(self):
        return self._core.op

    @cached_property
    def rules(self):
        """Those that hold, unconditional ones first."""
        return [Rule(*row) for row in self._core.rules()]

    @cached_property
    def refuted(self):
        """Those that do not."""
        return [Refuted(*row) for row in self._core.refuted()]

    @property
    def counts(self):
        """How many combinations of placements have each verdict."""
        return self._core.counts()

    @cached_property
    def data(self):
        """The whole report, as the JSON has it."""
        return json.loads(self._core.json()) | ({"signature": self.signature, "versions": self.versions} if self._target else {})

    def yaml(self):
        text = self._core.yaml()
        if not self._target:
            return text
        more = {"signature": json.dumps(self.signature), "versions": json.dumps(self.versions), "dropped": json.dumps(self.dropped)}
        return text + "".join(f"{key}: {value}\n" for key, value in more.items() if f"\n{key}:" not in text)

    def json(self):
        return json.dumps(self.data, indent=2) + "\n" if self._target else self._core.json()

    def html(self):
        """A page with the matrix of placements, and every witness drawn on the shards; it is one file that needs no network."""
        said = {"signature": self.signature, "versions": self.versions, "dropped": self.dropped} if self._target else {}
        return _core.discovery_page(json.dumps(json.loads(self._core.page_data()) | said), self.op)

    def emit(self, form="cleave", *, rule_file=None, check=True):
        """Rule code for review (cleave, dtensor, shardy), or tests of it (tests, dtensor-tests).

        Of an operator of PyTorch, the strategy for DTensor and its tests are run in another process before they are
        returned; what fails stands at the top, and in `emitted_failures`. `rule_file` is the name of the file beside the
        tests that will hold the strategy.
        """
        self._require_deterministic(f"emit '{form}'")
        if form not in ("dtensor", "dtensor-tests") or self._target is None or self._target.framework != "torch":
            return self._core.emit(form)
        rule, tests = self._dtensor_code(rule_file or f"{self.rule_name}_rule.py")
        if check:
            from cleave import emitted

            self.emitted_failures = emitted.failures(rule, tests, self._overload[1]["name"])
            said = emitted.comment(self.emitted_failures)
            rule, tests = said + rule, said + tests
        return rule if form == "dtensor" else tests

    def _require_deterministic(self, what):
        analysis = self._core.analysis()
        if not analysis["deterministic"]:
            raise _core.UserError(f"{what}: no rule of {self.op} was confirmed, so there is none to use. {analysis['reason']}")

    @property
    def rule_name(self):
        """A name for files of this operator's rule."""
        return self.op.replace(":", ".").removesuffix(".default").split(".")[-1]

    @cached_property
    def _overload(self):
        """(core, what the emitter must know) of the overload that the function comes to."""
        from cleave.functions import torch_ops

        target, calls, said = torch_ops.resolved(self._target, [(call.operands, call.attrs) for call in self._calls])
        same = [call.operands for call in self._calls] == [operands for operands, _ in calls] and [
            call.attrs for call in self._calls] == [attrs for _, attrs in calls]
        if same and self._core.num_results == len(target.function._schema.returns):
            return self._core, said
        with torch_ops.silent():
            return self._again(target, calls, shrink=False), said

    def _dtensor_code(self, rule_file):
        core, said = self._overload
        return core.emit_overload(said), core.emit_overload(said, rule_file)

    def register(self, name=None, replace=False):
        """Makes the operator known under a name, with the rules that were found: cleave.custom_call(name, ...) calls it, and
        propagation, plans and sharded runs of custom calls with this target use its rules. Returns the name."""
        from cleave import registering

        self._require_deterministic("register")
        name = name or self.op
        self._core.register(name, replace)
        registering._known.add(name)
        return name

    def on_mesh(self, *sizes):
        """Whether the rules of two axes compose: on_mesh(2, 2) tries all pairs on such a mesh, and says what it found."""
        self._require_deterministic("on_mesh")
        return self._core.on_mesh(list(sizes))

    def replay(self, witness):
        """Runs a witness again, and says what came out."""
        return self._core.replay(witness.witness if isinstance(witness, Refuted) else witness)

    def __str__(self):
        return self._core.table()

    __repr__ = __str__

    def _repr_html_(self):
        from cleave import pictures

        return pictures.discovery_html(self)


def operators():
    """The operators that discover knows by name, each with an example of a call."""
    return dict(_core.operators())


def discover(operator, *, shapes=None, dtype=None, domains=None, sweep=None, attrs=None, worlds=(2, 3, 4), seed=0, threads=2,
             gradient=False, shrink=True, every_witness=False, generators=None, name=None, progress=None,
             call_seconds=120):
    """Finds out which placements an operator supports on one mesh axis, and returns the report.

    `operator` is a name (cross, stablehlo.dot_general: cleave.operators() lists them; torch.cross, jax.numpy.cumsum,
    numpy.cross, module:function), a Module or the path of one, whose @main it is, or a function: of PyTorch (an overload or
    custom operator too), of JAX, of NumPy, or any over arrays. It is called on every device's part; what it raises means
    that it does not take such arrays. If no shapes are given, calls are proposed from its signature.

    shapes      a shape for each operand, [(8, 3), (8, 3)], or several calls, [[(8, 3), (8, 3)], [(4, 3), (4, 3)]]
    dtype       of all operands, or a list of them (float64)
    domains     the numbers that each operand takes: any, nonzero, positive, bool, index:LIMIT, sorted, definite
    sweep       values of other arguments to try: {"dim": [0, 1]}; proposed if not given, none if {}. Also called `attrs`.
    worlds      numbers of devices
    gradient    discover the reverse derivative instead
    generators  inputs beside the usual ones: {"spikes": [0, 1e30]}, or a function (operand, shape, dtype, seed) -> array
    call_seconds  a function that has not returned from one call after that long ends the discovery with a UserError
    """
    if sweep is not None and attrs is not None:
        raise _core.UserError("discover: sweep and attrs are two names for the same; give one")
    sweep = attrs if sweep is None else sweep
    check_options(operator, shapes, dtype, domains, sweep, worlds, seed, threads, generators)
    if not isinstance(call_seconds, numbers.Real) or not call_seconds > 0:
        raise _core.UserError(f"discover: call_seconds={call_seconds!r}: a number of seconds is meant")
    extra = [(key, made if callable(made) else [float(value) for value in made]) for key, made in (generators or {}).items()]
    what, label = target_of(operator, name)

    def run(what, label, calls, swept, dims, call_attrs=(), shrink=shrink, **about):
        with told(progress) as tell, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that are not finite, and of parts that are empty
            return _core.discover(what, label, calls, swept, dims, list(worlds), seed, threads, gradient, shrink, every_witness,
                                  extra, tell, list(call_attrs), random_is_result=True, call_seconds=call_seconds,
                                  **about)

    if isinstance(what, Target):
        target = taking(what, shapes, dtype, domains, sweep)
        with contextlib.nullcontext() if progress else target.quietly():
            return discover_function(target, label, run, shapes, dtype, domains, sweep, worlds)
    calls = calls_of(shapes, dtype, domains, label)
    swept = {key: values_of(value) for key, value in (sweep or {}).items()}
    return Discovery(run(what, label, calls, swept, [key for key in swept if is_dim(key)]))


def check_options(operator, shapes, dtype, domains, sweep, worlds, seed, threads, generators):
    """What discover is given is said in a line if it is none."""
    def require(holds, words):
        if not holds:
            raise _core.UserError(f"discover: {words}")

    def is_shape(shape):
        return isinstance(shape, (list, tuple)) and all(is_whole(size) and size >= 0 for size in shape)
    require(callable(operator) or isinstance(operator, (str, os.PathLike, _core.Module)),
            f"{operator!r} is no operator; a name, a function, a module or the path of one is")
    if shapes is not None:
        lists = isinstance(shapes, (list, tuple)) and all(isinstance(call, (list, tuple)) for call in shapes)
        calls = shapes if lists and is_nested(shapes) else [shapes]
        require(all(isinstance(call, (list, tuple)) and call and all(map(is_shape, call)) for call in calls),
                f"shapes={shapes!r}: a shape for each operand is meant, such as [(8, 3), (8, 3)], or a list of such calls")
    require(sweep is None or isinstance(sweep, dict), f"sweep={sweep!r}: values by name are meant, such as {{'dim': [0, 1]}}")
    require(domains is None or isinstance(domains, (list, tuple)), f"domains={domains!r}: a word for each operand is meant, in a list")
    require(isinstance(worlds, (list, tuple, set, range)) and len(worlds) > 0 and all(map(is_whole, worlds)),
            f"worlds={worlds!r}: numbers of devices are meant, such as (2, 3, 4)")
    for world in worlds:
        require(2 <= world <= 256, f"{world} devices; a mesh axis of 2 to 256 is tried")
    require(is_whole(seed) and seed >= 0, f"seed={seed!r}: a number from 0 on is meant")
    require(is_whole(threads) and 1 <= threads <= 64, f"{threads} threads; there may be 1 to 64")
    for one in dtype if isinstance(dtype, (list, tuple)) else [dtype]:
        require(one is None or dtype_name(one) in DTYPES.values(), f"dtype={one!r}: it is none that Cleave knows; float64 is one")
    require(generators is None or isinstance(generators, dict), "generators are given by name: {'spikes': [0, 1e30]}")
    for name, made in (generators or {}).items():
        require(callable(made) or isinstance(made, (list, tuple)) and all(isinstance(value, (int, float)) for value in made),
                f"generator '{name}' is a list of numbers, or a function (operand, shape, dtype, seed) -> array")


def is_whole(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_dim(key):
    return key.startswith("dim") or key in DIM_NAMES


def values_of(value):
    return list(value) if isinstance(value, (list, range, tuple)) else [value]


def discover_function(target, label, run, shapes, dtype, domains, sweep, worlds):
    """Discovers a function with a signature: calls are given or proposed, and those that it refuses are left out."""
    swept = None if sweep is None else {key: values_of(value) for key, value in sweep.items()}
    if swept is not None:
        swept = fix_others(target, swept)
    target.choose(len(calls_of(shapes, None, None, label)[0]) if shapes else None, swept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of calls that are tried, and of names that are old
        if shapes is None:
            if domains is not None or isinstance(dtype, (list, tuple)):
                raise _core.UserError("discover: domains, and dtypes of each operand, are said of operands whose shapes are given")
            calls, dropped = examples.propose(target, swept, dtype=dtype_name(dtype) if dtype is not None else None)
        else:
            try:
                calls, dropped = examples.given(target, calls_of(shapes, dtype, domains, label), swept)
            except _core.UserError as error:
                known = [parameter.name for parameter in target.parameters() or []]
                unknown = [key for key in swept or () if known and key not in known]
                raise _core.UserError(f"{error}; its arguments are {', '.join(known)}") from None if unknown else error

    def core_of(target, calls, shrink=None):
        calls = probing.counted_from_front(target, calls)
        attrs = [dict(attrs) for _, attrs in calls]
        dims = [key for key in attrs[0] if is_dim(key)]
        witnesses = {} if shrink is None else {"shrink": shrink}
        return run(quiet(probing.survivor(target, calls, worlds)), target.name, [[o.plain() for o in operands] for operands, _ in calls], {}, dims, attrs,
                   signature=target.signature(), versions=target.versions(), **witnesses)

    target.name = label
    return Discovery(core_of(target, [(call.operands, call.attrs) for call in calls]), target, calls, dropped, core_of)


def taking(target, shapes, dtype, domains, sweep):
    """The adapter whose arrays a function of one's own takes: NumPy's, or those of a framework that is loaded."""
    if target.framework != "numpy" or shapes is None or not inspect.isfunction(target.function):
        return target
    swept = fix_others(target, {key: values_of(value) for key, value in (sweep or {}).items()})
    first = None
    for adapter in (target, *other_adapters(target.function, target.name)):
        adapter.fixed = dict(target.fixed)
        try:
            examples.given(adapter, calls_of(shapes, dtype, domains, target.name), swept if sweep is not None else None)
            return adapter
        except _core.UserError as error:
            first = first or error
    raise first


def fix_others(target, swept):
    """Values that are no numbers, words or dimensions (None, a dtype) are the same in all calls."""
    kept = {}
    for key, values in swept.items():
        if not values:
            raise _core.UserError(f"discover: sweep: no values for {key}")
        plain = [isinstance(v, (bool, int, float, str)) or (isinstance(v, (list, tuple)) and all(isinstance(k, int) for k in v))
                 for v in values]
        if all(plain):
            kept[key] = [list(v) if isinstance(v, tuple) else v for v in values]
        elif len(values) == 1:
            target.fixed[key] = values[0]
        else:
            raise _core.UserError(f"discover: sweep: {key}={values[plain.index(False)]!r} is swept by itself, in a run of its own")
    return kept


def target_of(operator, name):
    if callable(operator):
        target = target_of_function(operator, name)
        return target, target.name
    if isinstance(operator, _core.Module):
        return operator, name or operator.name or "module"
    path = os.fspath(operator)
    if path.endswith(".mlir") or os.path.isfile(path):
        return _core.Module.load(path), name or os.path.splitext(os.path.basename(path))[0]
    if path not in operators():
        target = target_of_text(path)
        if target:
            return target, name or path
    return path, path


def quiet(function):
    """Without NumPy's complaints: inputs have NaN and infinities on purpose."""
    import numpy as np

    def call(*arrays, **attrs):
        with np.errstate(all="ignore"):
            return function(*arrays, **attrs)
    return call


def calls_of(shapes, dtype, domains, label):
    """Of each call, a tuple for each operand: dtype, shape, domain, limit."""
    if shapes is None:
        if dtype is not None or domains is not None:
            raise _core.UserError("discover: dtype and domains are said of operands whose shapes are given")
        return []
    calls = [list(call) for call in (shapes if is_nested(shapes) else [shapes])]
    made = []
    for call in calls:
        count = len(call)
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count
        words = list(domains) if domains is not None else [""] * count
        if len(dtypes) != count or len(words) != count:
            raise _core.UserError(f"discover: {count} shapes, {len(dtypes)} dtypes and {len(words)} domains were given for {label}")
        made.append([(dtype_name(d) if d is not None else "", [int(size) for size in shape], *domain_of(word))
                     for shape, d, word in zip(call, dtypes, words)])
    return made


def is_nested(shapes):
    """Whether there are several calls: [[(8, 3), (8, 3)], ...] and not [(8, 3), (8, 3)]."""
    return bool(shapes) and all(len(call) and all(isinstance(shape, (list, tuple)) for shape in call) for call in shapes)


def domain_of(word):
    kind, _, limit = word.partition(":")
    return kind, int(limit) if limit.isdigit() else 0
