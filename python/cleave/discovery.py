"""Which placements an operator really supports: found out by running it."""

import json
import os
from collections import namedtuple
from functools import cached_property

from cleave import _core
from cleave.layouts import dtype_name
from cleave.progress import told

Rule = namedtuple("Rule", "text condition verdict tests justification implied")
Rule.__doc__ = "Operand placements -> a result's placement that holds, under a condition on attributes ('' for always)."
Refuted = namedtuple("Refuted", "text reason witness short")
Refuted.__doc__ = "Placements that do not hold; `witness` is the smallest reproduction that was found, `short` the same in a line."


class Discovery:
    """What was found about one operator; str() is the table that `cleave discover` prints."""

    def __init__(self, core):
        self._core = core

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
        return json.loads(self._core.json())

    def yaml(self):
        return self._core.yaml()

    def json(self):
        return self._core.json()

    def emit(self, form="cleave"):
        """Rule code for review (cleave, dtensor, shardy), or tests of it (tests, dtensor-tests)."""
        return self._core.emit(form)

    def on_mesh(self, *sizes):
        """Whether the rules of two axes compose: on_mesh(2, 2) tries all pairs on such a mesh, and says what it found."""
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


def discover(operator, *, shapes=None, dtype=None, domains=None, attrs=None, worlds=(2, 3, 4), seed=0, threads=2, gradient=False,
             shrink=True, every_witness=False, generators=None, name=None, progress=None):
    """Finds out which placements an operator supports on one mesh axis, and returns the report.

    `operator` is a name (cross, stablehlo.dot_general: cleave.operators() lists them), a Module or the path of one, whose
    @main it is, or a function over NumPy arrays, which is called on every device's part, with `attrs` as keywords; what it
    raises means that it does not take such arrays.

    shapes      a shape for each operand, [(8, 3), (8, 3)], or several calls, [[(8, 3), (8, 3)], [(4, 3), (4, 3)]]
    dtype       of all operands, or a list of them (float64)
    domains     the numbers that each operand takes: any, nonzero, positive, bool, index:LIMIT, sorted, definite
    attrs       values to try: {"axis": [0, 1]}
    worlds      numbers of devices
    gradient    discover the reverse derivative instead
    generators  inputs beside the usual ones: {"spikes": [0, 1e30]}
    """
    what, label = target_of(operator, name)
    calls = calls_of(shapes, dtype, domains, what, label)
    sweep = {key: value if isinstance(value, (list, range)) else [value] for key, value in (attrs or {}).items()}
    dims = [key for key in sweep if key.startswith("dim") or key in ("axis", "axes")]
    for world in worlds:
        if not 2 <= world <= 256:
            raise _core.UserError(f"discover: {world} devices; a mesh axis of 2 to 256 is tried")
    if not 1 <= threads <= 64:
        raise _core.UserError(f"discover: {threads} threads; there may be 1 to 64")
    extra = [(key, [float(value) for value in values]) for key, values in (generators or {}).items()]
    with told(progress) as tell:
        return Discovery(_core.discover(what, label, calls, sweep, dims, list(worlds), seed, threads, gradient, shrink,
                                        every_witness, extra, tell))


def target_of(operator, name):
    if callable(operator):
        return quiet(operator), name or getattr(operator, "__name__", "function").strip("<>")
    if isinstance(operator, _core.Module):
        return operator, name or operator.name or "module"
    path = os.fspath(operator)
    if path.endswith(".mlir") or os.path.isfile(path):
        return _core.Module.load(path), name or os.path.splitext(os.path.basename(path))[0]
    return path, path


def quiet(function):
    """Without warnings: inputs have NaN and infinities on purpose."""
    import numpy as np

    def call(*arrays, **attrs):
        with np.errstate(all="ignore"):
            return function(*arrays, **attrs)
    return call


def calls_of(shapes, dtype, domains, what, label):
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
