"""An operator as discovery sees it: parameters, a function over NumPy arrays, and the versions that it came with."""

import contextlib
import dataclasses
import inspect
import itertools
import re

import numpy as np

from cleave._core import UserError
from cleave.dtypes import numpy_dtype

LONG = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
        "i8": "int8", "ui8": "uint8", "i1": "bool", "complex<f64>": "complex128", "complex<f32>": "complex64"}
MISSING = inspect.Parameter.empty
DIM_NAMES = {"dim", "dims", "dimension", "dimensions", "axis", "axes", "dim0", "dim1", "dim2", "axis0", "axis1", "axis2", "start_dim", "end_dim",
             "source", "destination"}
TENSOR_NAMES = {"a", "b", "x", "y", "m", "v", "arr", "array", "operand", "input", "other", "self", "x1", "x2", "ar", "tensor", "xs"}
INDEX_NAMES = {"index", "indices", "ind", "target", "labels", "label", "sorter", "repeats"}


@dataclasses.dataclass
class Parameter:
    name: str
    kind: str  # tensor, tensors (a list of them) or other
    default: object = MISSING
    keyword_only: bool = False
    type: str = ""  # of PyTorch's schemas: int, float, bool, number, ...; of annotations those three

    @property
    def required(self):
        return self.default is MISSING


@dataclasses.dataclass
class Operand:
    """An operand of a call, before there are numbers."""

    shape: tuple
    dtype: str = "f64"
    domain: str = "any"
    limit: int = 0

    def plain(self):
        return (self.dtype, [int(size) for size in self.shape], self.domain, self.limit)


@dataclasses.dataclass
class Call:
    operands: list  # of Operand, in the order of the parameters
    attrs: dict = dataclasses.field(default_factory=dict)
    given: tuple = ()  # the parameters that the operands are, by name; those of a list are named often


class Target:
    """The base of all adapters."""

    framework = "numpy"

    def __init__(self, function, name=None):
        self.function = function
        self.name = name or getattr(function, "__name__", "function").strip("<>")
        self.given = ()  # the parameters that operands are
        self._parameters = None
        self.fixed = {}  # arguments that are the same in all calls, and no attributes

    def parameters(self):
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return None
        made, framework = [], getattr(self.function, "__module__", None) or ""
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                if made and framework.split(".")[0] in ("numpy", "jax"):
                    continue  # of numpy.gradient: they need not be given
                return None
            kind = "tensor" if self.is_tensor(parameter) else "other"
            made.append(Parameter(parameter.name, kind, parameter.default, parameter.kind == parameter.KEYWORD_ONLY,
                                  type_of(parameter.annotation)))
        return made

    def known_parameters(self):
        """The parameters, asked for once: a function is called thousands of times."""
        if self._parameters is None:
            self._parameters = self.parameters() or []
        return self._parameters

    def is_tensor(self, parameter):
        """Whether a parameter of a Python signature takes an array."""
        said = str(parameter.annotation)
        if "Tensor" in said or "Array" in said:
            return True
        if parameter.name in DIM_NAMES or parameter.default not in (MISSING, None):
            return False
        return parameter.default is MISSING and parameter.annotation is MISSING

    def signature(self):
        try:
            return f"{self.name}{inspect.signature(self.function)}"
        except (TypeError, ValueError):
            return f"{self.name}(...)"

    def versions(self):
        return {"numpy": np.__version__}

    def run(self, *arrays, **attrs):
        """The results on NumPy arrays, as a list."""
        arguments, keywords = self.arguments([self.tensor_of(array) for array in arrays], attrs)
        return self.arrays_of(self.function(*arguments, **keywords))

    def tensor_of(self, array):
        return np.array(array)

    def array_of(self, result):
        return result

    def arrays_of(self, answer):
        results = list(flat(answer))
        if not results:
            raise UserError("no array among the results")
        return [self.array_of(result) for result in results]

    def arguments(self, tensors, attrs):
        """(positional, keywords): tensors where the signature has them, attributes by position if something follows."""
        attrs = {**self.fixed, **attrs}
        if not self.given:
            return tensors, attrs
        left, positional, keywords, by_name = list(zip(self.given, tensors)), [], {}, False
        for parameter in self.known_parameters():
            mine = [tensor for name, tensor in left if name == parameter.name]
            if mine:
                value = mine if parameter.kind == "tensors" else mine[0]
            elif parameter.name in attrs:
                value = attrs.pop(parameter.name)
            else:
                by_name = True
                continue
            by_name = by_name or parameter.keyword_only
            if by_name:
                keywords[parameter.name] = value
            else:
                positional.append(value)
        return positional, {**keywords, **attrs}

    def overload(self, report):
        """What DTensor's rule is about; none if the operator is not PyTorch's."""
        return None

    def takes_list(self, parameter):
        """Whether dimensions are given as a list, as that of the default is."""
        return isinstance(parameter.default, (list, tuple)) and parameter.name in DIM_NAMES

    def quietly(self):
        """A context in which thousands of calls warn no more often than one."""
        return contextlib.nullcontext()

    def choose(self, tensors=None, sweep=None):
        """Takes one of several signatures."""

    def proposes(self):
        """Whether calls can be proposed: the signature says which parameters are tensors."""
        parameters = self.parameters()
        return bool(parameters) and any(p.kind != "other" for p in parameters)


def type_of(annotation):
    """int, float or bool of an annotation; of several, the one that takes most."""
    words = set(re.findall(r"\w+", annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))))
    return next((word for word in ("float", "int", "bool") if word in words and "list" not in str(annotation).lower()), "")


def flat(answer):
    if isinstance(answer, (tuple, list)):
        for one in answer:
            yield from flat(one)
    elif answer is not None:
        yield answer


def numbers(operand, seed=0):
    """Some numbers that an operand may hold, as NumPy has them."""
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(LONG.get(operand.dtype, operand.dtype))
    shape = tuple(operand.shape)
    if operand.domain == "index":
        return random.integers(0, operand.limit, shape).astype(dtype)
    if operand.dtype == "i1":
        return random.random(shape) > 0.5
    made = random.standard_normal(shape) * 3
    if operand.dtype.startswith("complex"):
        return (made + 1j * random.standard_normal(shape)).astype(dtype)
    if operand.domain == "definite":
        made = made @ np.swapaxes(made, -1, -2) + shape[-1] * np.eye(shape[-1])
    elif operand.domain == "sorted":
        made = np.sort(made, -1)
    elif operand.domain == "positive":
        made = np.abs(made) + 1
    elif operand.domain == "nonzero":
        made = np.where(made < 0, made - 1, made + 1)
    return np.abs(made).astype(dtype) if operand.dtype.startswith("ui") else made.astype(dtype)


def refusal(target, call):
    """Why the operator does not take a call, in a line; empty if it does."""
    arrays = [numbers(operand, seed) for seed, operand in enumerate(call.operands)]
    try:
        with np.errstate(all="ignore"):
            found = target.run(*arrays, **call.attrs)
    except (Exception, SystemExit) as error:  # noqa: BLE001: refusals have many types
        return in_a_line(error)
    for one in flat(found) if isinstance(found, (list, tuple)) else [found]:
        if np.asarray(one).dtype.kind in "OSUmM":
            return f"it returns {'nothing' if one is None else f'a {type(one).__name__}, which is no array of numbers'}"
    return ""


def in_a_line(error):
    """What was raised: its type, and the first line of its words."""
    words = (str(error).strip().splitlines() or [""])[0]
    return words if isinstance(error, UserError) else f"{type(error).__name__}: {words}".removesuffix(": ")


def combinations(sweep):
    """Every value with every other: [{"dim": 0, "keepdim": False}, ...]"""
    keys = list(sweep)
    return [dict(zip(keys, values)) for values in itertools.product(*(sweep[key] for key in keys))]
