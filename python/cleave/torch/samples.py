"""Calls of ATen operators to try: what PyTorch's own samples (OpInfo) dispatch to."""

import dataclasses
import re
import warnings

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cleave import _core

FEW_ELEMENTS, MOST_ELEMENTS = 1500, 10000  # of an operand; rules do not depend on sizes, so small ones are preferred
MOST_OPERANDS = 4
DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.int64: "i64", torch.int32: "i32",
          torch.int8: "i8", torch.uint8: "ui8", torch.bool: "i1"}
SORTED_ARGUMENTS = {"boundaries", "sorted_sequence"}
RANDOM_TAGS = {torch.Tag.nondeterministic_seeded}


@dataclasses.dataclass
class Call:
    """One call of an ATen overload: a flat list of arguments, of which some are tensors."""

    op: torch._ops.OpOverload
    flat: list
    spec: object
    positions: list  # of the tensors in `flat`
    source: str  # the OpInfo entry

    @property
    def tensors(self):
        return [self.flat[i] for i in self.positions]

    def arguments(self, tensors):
        """(args, kwargs) with other tensors."""
        flat = list(self.flat)
        for i, tensor in zip(self.positions, tensors):
            flat[i] = tensor
        return pytree.tree_unflatten(flat, self.spec)

    def run(self, tensors):
        args, kwargs = self.arguments(tensors)
        return [leaf for leaf in pytree.tree_leaves(self.op(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]

    @property
    def others(self):
        """The arguments that are no tensors, by name or position."""
        args, kwargs = pytree.tree_unflatten(self.flat, self.spec)
        names = [argument.name for argument in self.op._schema.arguments]
        said = dict(zip(names, args)) | kwargs
        return {name: value for name, value in said.items()
                if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))}

    def text(self):
        shapes = [f"{DTYPES.get(t.dtype, str(t.dtype))}[{', '.join(map(str, t.shape))}]" for t in self.tensors]
        others = [f"{name}={value!r}" for name, value in self.others.items()]
        return f"{self.op}({', '.join(shapes + others)})"

    def likeness(self):
        """Calls with the same are not tried twice: the ranks, the kinds of dtypes, and how long lists are."""
        def kind(value):
            if isinstance(value, torch.Tensor):
                return (value.ndim, value.dtype)
            return value if isinstance(value, (int, bool, str, type(None))) else type(value).__name__
        return (str(self.op), tuple(kind(leaf) for leaf in self.flat), len(self.flat))


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        self.calls.append((op, args, kwargs or {}))
        return result


def recorded(function, sample):
    """The ATen calls of one sample; none if it is one that should fail."""
    with Recorder() as recorder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # noqa: BLE001: some samples are errors on purpose
            return []
    return recorder.calls


def why_not(call):
    """Why a call cannot be tried; empty if it can."""
    if call.op.namespace != "aten":
        return "not an ATen operator"
    if call.op._schema.is_mutable:
        return "changes its arguments; the form that returns a new tensor is tried"
    if RANDOM_TAGS & set(call.op.tags):
        return "random"
    if "empty" in call.op.name():
        return "its result holds no particular numbers"
    tensors = call.tensors
    if not tensors:
        return "no tensor among its arguments"
    if len(tensors) > MOST_OPERANDS:
        return f"more than {MOST_OPERANDS} tensors"
    if any(t.dtype not in DTYPES for t in tensors):
        return "a dtype that is not tried: " + ", ".join(sorted({str(t.dtype) for t in tensors if t.dtype not in DTYPES}))
    if any(t.numel() == 0 or t.numel() > MOST_ELEMENTS for t in tensors):
        return f"tensors that are empty, or have more than {MOST_ELEMENTS} elements"
    if all(max(t.shape, default=1) == 1 for t in tensors):
        return "nothing to split"
    return ""


def call_of(op, args, kwargs, source):
    flat, spec = pytree.tree_flatten((args, kwargs))
    flat = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
    return Call(op, flat, spec, [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)], source)


def is_named(op, entry):
    """Whether an overload is what an OpInfo entry is about."""
    own = op.name().split("::")[1].split(".")[0].strip("_").lower()
    names = {re.sub(r"\W", "_", name).lower() for name in (entry.name, entry.aten_name or "", entry.name.split(".")[-1])}
    return any(name and (name in own or own in name) for name in names)


def collect(entries, dtypes, per_overload, tell=None):
    """Calls by overload, and by overload or entry the reasons why others were not taken."""
    found, large, skipped, seen = {}, {}, {}, set()
    for number, entry in enumerate(entries):
        if tell:
            tell(f"{100 * number / len(entries):3.0f} % samples of {entry.formatted_name}")
        for dtype in dtypes:
            if dtype not in entry.dtypes:
                continue
            try:
                samples = list(entry.sample_inputs("cpu", dtype))
            except Exception as error:  # noqa: BLE001: of the sample generator
                skipped.setdefault(entry.formatted_name, f"its samples fail: {str(error).splitlines()[0][:100]}")
                continue
            for sample in samples[:60]:
                calls = [call_of(*recorded_call, entry.formatted_name) for recorded_call in recorded(entry.op, sample)]
                named = [call for call in calls if is_named(call.op, entry)]
                for call in named or calls:
                    reason = why_not(call)
                    if reason:
                        skipped.setdefault(str(call.op), reason)
                        continue
                    is_large = any(t.numel() > FEW_ELEMENTS for t in call.tensors)
                    of_op = (large if is_large else found).setdefault(str(call.op), [])
                    if len(of_op) < (1 if is_large else per_overload) and call.likeness() not in seen:
                        seen.add(call.likeness())
                        of_op.append(call)
    found = large | found
    return found, {name: reason for name, reason in skipped.items() if name not in found}


def domain_of(call, position):
    """(word, limit): the numbers that an operand may take, from the sample's."""
    tensor = call.flat[call.positions[position]]
    if tensor.dtype == torch.bool:
        return "bool", 0
    names = [argument.name for argument in call.op._schema.arguments]
    name = names[call.positions[position]] if call.positions[position] < len(names) else ""
    if name in SORTED_ARGUMENTS:
        return "sorted", 0
    if not tensor.dtype.is_floating_point:
        beside_floats = any(t.dtype.is_floating_point for t in call.tensors)
        is_index = beside_floats or "ind" in name or name in ("target", "labels")
        return ("index", int(tensor.max()) + 1) if is_index and int(tensor.min()) >= 0 else ("any", 0)
    if tensor.ndim >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1 and torch.equal(tensor, tensor.mT):
        try:
            torch.linalg.cholesky(tensor)
            return "definite", 0
        except RuntimeError:
            pass
    return "any", 0


def discover(call, worlds, seed=0):
    """All placements of a call on one mesh axis, decided by running it on parts."""
    def run(*arrays):
        return [numpy_of(result) for result in call.run([torch.from_numpy(np.array(array)) for array in arrays])]
    operands = [(DTYPES[t.dtype], list(t.shape), *domain_of(call, i)) for i, t in enumerate(call.tensors)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _core.discover(run, str(call.op), [operands], {}, [], list(worlds), seed, 1, False, False, False, [], None)


def numpy_of(tensor):
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()
