"""Operators of PyTorch: functions, overloads, packets, methods, and custom operators of torch.library."""

import contextlib
import inspect
import math
import os
import sys
import warnings

import numpy as np
import torch

from cleave._core import UserError
from cleave.functions.target import DIM_NAMES, MISSING, Parameter, Target, numbers
from cleave.torch.samples import Recorder

# What a call does beside its work: no operator that a rule would be about.
TRIVIAL = {"detach", "alias", "lift_fresh", "_unsafe_view", "view_as", "scalar_tensor"}


class TorchTarget(Target):
    framework = "torch"

    def __init__(self, function, name=None):
        function = getattr(function, "_opoverload", function)  # of torch.library.custom_op
        super().__init__(function, name or name_of(function))
        self.schemas = schemas_of(function)
        self.schema = self.schemas[0] if self.schemas else None
        if self.schema is not None and self.schema.is_mutable and self.schema.name.startswith("aten::"):
            raise UserError(f"discover: {self.name} changes its arguments in place; discover the form that returns a new tensor")

    def choose(self, tensors=None, sweep=None):
        """Takes the overload that has so many tensors and the swept arguments; one with a dimension if that is open."""
        def worth(schema):
            names = {argument.name for argument in schema.arguments}
            needed = sum(is_tensor(a.type) and not a.has_default_value() for a in schema.arguments)
            most = sum(is_tensor(a.type) for a in schema.arguments)
            lists = any(is_tensor_list(a.type) for a in schema.arguments)
            fits = tensors is None or lists or needed <= tensors <= most
            asked = set(sweep or ()) <= names
            plain = not any(a.name == "q" and is_tensor(a.type) for a in schema.arguments)  # a quantile is a number
            plain &= schema.name != "aten::bernoulli" or "p" in names  # else its operand holds probabilities
            return (fits, asked, plain, sweep is None and bool(DIM_NAMES & names), needed > 0)
        if self.schemas and not any(is_tensor(argument.type) for schema in self.schemas for argument in schema.arguments):
            raise UserError(f"discover: {self.name} takes no tensor, so there is nothing to split")
        if self.schemas:
            self.schema = max(self.schemas, key=worth)
            self._parameters = None

    def parameters(self):
        if self.schema is None:
            return super().parameters()
        made = []
        for argument in self.schema.arguments:
            kind = "tensors" if is_tensor_list(argument.type) else "tensor" if is_tensor(argument.type) else "other"
            default = argument.default_value if argument.has_default_value() else MISSING
            made.append(Parameter(argument.name, kind, default, argument.kwarg_only, str(argument.type)))
        return made

    def takes_list(self, parameter):
        """Whether an argument takes a list of integers only; int[1] takes an integer too."""
        arguments = self.schema.arguments if self.schema is not None else []
        return any(a.name == parameter.name and "List[int]" in str(a.type) and a.N != 1 for a in arguments)

    def arguments(self, tensors, attrs):
        """Functions in Python take lists of tensors one by one: torch.block_diag(a, b)."""
        positional, keywords = super().arguments(tensors, attrs)
        if self.schema is not None and takes_any_number(self.function):
            lists = [p.name for p in self.known_parameters() if p.kind == "tensors"]
            positional += [keywords.pop(name) for name in lists if name in keywords]
            positional = [one for value in positional for one in (value if isinstance(value, list) else [value])]
        return positional, keywords

    def signature(self):
        return str(self.schema).partition("::")[2] if self.schema is not None else super().signature()

    def versions(self):
        return {"torch": torch.__version__, "numpy": np.__version__}

    def run(self, *arrays, **attrs):
        with torch.no_grad():
            positional, keywords = self.arguments([self.tensor_of(array) for array in arrays], attrs)
            answer = self.function(*positional, **keywords)
            return self.arrays_of([answer, self.written(positional, keywords)])

    def written(self, positional, keywords):
        """Tensors that a custom operator writes into: they are results too."""
        if self.schema is None or not self.schema.is_mutable:
            return []
        said = {**dict(zip((a.name for a in self.schema.arguments), positional)), **keywords}
        return [said[a.name] for a in self.schema.arguments if a.alias_info is not None and a.alias_info.is_write and a.name in said]

    def use_one_thread(self):
        torch.set_num_threads(1)

    def quietly(self):
        is_overload = isinstance(self.function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        return silent() if is_overload else super().quietly()

    def tensor_of(self, array):
        return tensor_of(array)

    def array_of(self, result):
        if isinstance(result, torch.Tensor):
            return array_of(result)
        return np.asarray(result)

    def dispatched(self, operands, attrs):
        """The operators that a call comes to, each with its arguments; and the tensors that it was given."""
        tensors = [tensor_of(numbers(operand, seed)) for seed, operand in enumerate(operands)]
        arguments, keywords = self.arguments(tensors, attrs)
        with torch.no_grad(), warnings.catch_warnings(), Recorder() as recorder:
            warnings.simplefilter("ignore")
            self.function(*arguments, **keywords)
        return [call for call in recorder.calls if base(call[0]) not in TRIVIAL], tensors


def base(op):
    return op.name().partition("::")[2].partition(".")[0]


def name_of(function):
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(function)
    return getattr(function, "__name__", "function").strip("<>")


def is_tensor(kind):
    return "Tensor" in str(kind)


def is_tensor_list(kind):
    return "List[Tensor" in str(kind) or "List[Optional[Tensor" in str(kind)


def takes_any_number(function):
    """Whether a function in Python has a parameter with a star."""
    if not inspect.isfunction(function):
        return False
    return inspect.Parameter.VAR_POSITIONAL in [p.kind for p in inspect.signature(function).parameters.values()]


def schemas_of(function):
    """The schemas that a function may have; none of one that is written in Python and says itself what it takes."""
    if isinstance(function, torch._ops.OpOverload):
        return [function._schema]
    if isinstance(function, torch._ops.OpOverloadPacket):
        return packet_schemas(function)
    name = getattr(function, "__name__", "")
    if inspect.isfunction(function) and not takes_any_number(function):
        return []
    packet = getattr(torch.ops.aten, name, None) if name and not name.startswith("<") else None
    return packet_schemas(packet) if packet is not None else []


def packet_schemas(packet):
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    # Dimensions by name are no part of a schema in most builds, or are words.
    plain = [s for s in schemas if "out" not in s.overload_name.split("_")
             and not any(str(a.type) == "str" for a in s.arguments if a.name in DIM_NAMES)
             and not any("Dimname" in str(a.type) for a in s.arguments)]
    return [s for s in plain if any(is_tensor(a.type) for a in s.arguments)] or plain or schemas


def tensor_of(array):
    array = np.array(array)  # a copy: functions may write into it
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor):
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


@contextlib.contextmanager
def silent():
    """Overloads that are called by themselves warn in C++, on the process's error output."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


class OverloadTarget(TorchTarget):
    """The overload that a function comes to, called as it was called."""

    def __init__(self, op, positions, fixed, lists):
        super().__init__(op, str(op))
        self.positions, self.values, self.lists = positions, fixed, lists
        self.names = [argument.name for argument in op._schema.arguments]

    def run(self, *arrays, **attrs):
        with torch.no_grad():
            positional, keywords = self.arguments([tensor_of(array) for array in arrays], attrs)
            return self.arrays_of(self.function(*positional, **keywords))

    def arguments(self, tensors, attrs):
        said = dict(self.values)
        for name, value in attrs.items():
            said[name] = [value] if name in self.lists and not isinstance(value, list) else value
        for (argument, place), tensor in zip(self.positions, tensors):
            name = self.names[argument]
            if place < 0:
                said[name] = tensor
            else:
                said.setdefault(name, [])
                said[name] = [*said[name], tensor]
        positional, keywords = [], {}
        for argument in self.function._schema.arguments:
            if argument.name not in said:
                continue
            if argument.kwarg_only or len(positional) < self.names.index(argument.name):
                keywords[argument.name] = said[argument.name]
            else:
                positional.append(said[argument.name])
        return positional, keywords


def literal(value):
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(list(value) if isinstance(value, (tuple, torch.Size)) else value)


def is_attribute(value):
    return isinstance(value, (bool, int, float, str)) or (isinstance(value, list) and all(type(v) is int for v in value))


def resolved(target, calls):
    """Of calls, the overload they come to: (target, calls as (operands, attrs), what the emitter must know).

    UserError if they come to several operators, or to one that gets other tensors than the call's.
    """
    rows = []
    for operands, attrs in calls:
        recorded, tensors = target.dispatched(operands, attrs)
        names = sorted({str(op) for op, _, _ in recorded})
        if len(recorded) != 1:
            if len(names) == 1:
                raise UserError(f"emit: {target.name} comes to several calls of {names[0]}: the rules are those of all together; "
                                "discover that operator")
            if names:
                raise UserError(f"emit: {target.name} comes to several operators ({', '.join(names)}): the rules are theirs; "
                                "discover one of them")
            said = ", ".join(f"{key}={value}" for key, value in attrs.items())
            raise UserError(f"emit: {target.name}{f' with {said}' if said else ''} comes to no operator of PyTorch, so there is none to "
                            "register a rule for")
        rows.append((*recorded[0], tensors, operands))
    op = rows[0][0]
    if any(row[0] is not op for row in rows):
        raise UserError(f"emit: {target.name} comes to different operators ({', '.join(sorted({str(r[0]) for r in rows}))}), by its "
                        "arguments; sweep fewer values")
    if op._schema.is_mutable:
        raise UserError(f"emit: {target.name} comes to {op}, which changes its arguments")
    return overload_of(target, op, rows)


def overload_of(target, op, rows):
    schema = op._schema
    names = [argument.name for argument in schema.arguments]
    positions, values, operands = None, {}, []
    for number, (_, args, kwargs, tensors, described) in enumerate(rows):
        said = {**dict(zip(names, args)), **kwargs}
        mine, places = [], []
        for index, argument in enumerate(schema.arguments):
            value = said.get(argument.name, argument.default_value if argument.has_default_value() else None)
            leaves = list(value) if is_tensor_list(argument.type) and isinstance(value, (list, tuple)) else [value]
            if any(isinstance(leaf, torch.Tensor) for leaf in leaves):
                for place, leaf in enumerate(leaves):
                    mine.append(described[which(target, op, leaf, tensors)])
                    places.append((index, place if is_tensor_list(argument.type) else -1))
            else:
                values.setdefault(argument.name, [None] * len(rows))[number] = list(value) if isinstance(value, (tuple, list)) else value
        if positions is None:
            positions = places
        if places != positions:
            raise UserError(f"emit: {op} gets other tensors in some calls than in others")
        operands.append(mine)
    return finished(op, schema, positions, values, operands)


def which(target, op, leaf, tensors):
    for number, tensor in enumerate(tensors):
        if leaf is tensor or (isinstance(leaf, torch.Tensor) and leaf.data_ptr() == tensor.data_ptr() and leaf.shape == tensor.shape
                              and leaf.stride() == tensor.stride()):
            return number
    raise UserError(f"emit: {op} gets other tensors than {target.name} is given; discover {op} itself")


def finished(op, schema, positions, values, operands):
    attrs, fixed, lists = [{} for _ in operands], {}, set()
    for name, of in values.items():
        if name in DIM_NAMES and all(isinstance(v, list) and len(v) == 1 for v in of):
            lists.add(name)
            of = [v[0] for v in of]
        alike = all(v == of[0] and type(v) is type(of[0]) for v in of)
        swept = name in DIM_NAMES and all(type(v) is int for v in of)
        if alike and not swept:
            fixed[name] = of[0]
        elif all(is_attribute(v) for v in of) and len({type(v) for v in of}) == 1:
            for number, value in enumerate(of):
                attrs[number][name] = value
        elif {type(v) for v in of} <= {int, float}:
            for number, value in enumerate(of):
                attrs[number][name] = float(value)
        else:
            other = next(v for v in of if v != of[0])
            raise UserError(f"emit: {op} is called with {name}={of[0]!r} and {other!r}; sweep one kind of values")
    list_arguments = {a.name for a in schema.arguments if "List" in str(a.type)}
    said = {
        "name": str(op),
        "signature": str(schema).partition("::")[2],
        "arguments": [(a.name, a.name in list_arguments, a.kwarg_only, literal(a.default_value) if a.has_default_value() else "")
                      for a in schema.arguments],
        "operands": positions,
        "fixed": {name: literal(value) for name, value in fixed.items()},
    }
    return OverloadTarget(op, positions, fixed, list_arguments), list(zip(operands, attrs)), said
