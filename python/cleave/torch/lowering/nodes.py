"""One node of a graph: the call of a row, of a decomposition, or of a custom call."""

import torch
from torch.utils import _pytree as pytree

from cleave._core import InternalError, UserError
from cleave.torch.lowering import decompose, table
from cleave.torch.lowering.builder import ints
from cleave.torch.lowering.context import Body
from cleave.torch.lowering.random import RANDOM
from cleave.torch.lowering.values import ELEMENTS, Type, Value, type_text


_PLACES = {"device", "layout", "pin_memory", "memory_format"}  # arguments that say nothing about numbers


def is_value(x):
    return isinstance(x, Value)


def types_of(meta, what):
    """(dtype, shape) of every tensor among the results; (None, None) for one that is none."""
    outs = meta if isinstance(meta, (tuple, list)) else [meta]
    return [type_of(v, what) if torch.is_tensor(v) else Type(None, None) for v in outs]


def type_of(tensor, what):
    for size in tensor.shape:
        if str(size).startswith("u"):
            raise UserError(f"{what}: a size would depend on the numbers of a tensor, and a plan needs sizes before it runs: use "
                            "masks (torch.where, masked_fill), topk, or sizes that are known")
        if not isinstance(size, int):
            raise UserError(f"{what}: the size {size} is symbolic; a plan is for certain sizes: trace the module with static "
                            "shapes (dynamic_shapes=None), and again for other sizes")
    if tensor.dtype not in ELEMENTS:
        raise UserError(f"{what}: tensors of {tensor.dtype} are not lowered")
    if tensor.layout != torch.strided:
        raise UserError(f"{what}: a {tensor.layout} tensor is not lowered: use dense tensors (sparse=False)")
    return Type(tensor.dtype, tuple(tensor.shape))


def checked(op, results, out):
    """Results of a row with the types that PyTorch says."""
    results = results if isinstance(results, (tuple, list)) else [results]
    if len(results) < len(out):
        raise InternalError(f"{op}: {len(results)} results in the place of {len(out)}")
    for value, (dtype, shape) in zip(results, out):
        if value is not None and dtype is not None and value.shape != shape:
            raise InternalError(f"{op}: a result of {type_text(dtype, shape)} was lowered as {value.type}")
    return list(results)[:len(out)]


def write(b, op, args, kwargs, out):
    """Writes an op into a body; returns a Value or None for every result."""
    saved = b.op, b.out
    b.op, b.out = op, out
    try:
        row = table.row_of(op)
        if op in RANDOM:
            b.context.number += 1
        if row is not None:
            try:
                results = checked(op, row(b, *args, **kwargs), out)
            except NotImplementedError as error:
                raise UserError(f"{op}: {error} is not lowered") from None
            return [b.cast(v, t[0]) if v is not None and t[0] is not None else None for v, t in zip(results, out)]
        return decomposed(b, op, args, kwargs)
    finally:
        b.op, b.out = saved


def decomposed(b, op, args, kwargs):
    found = decompose.traced(op, args, kwargs) if decompose.has(op) else None
    if found is None:
        raise LookupError(str(op))
    graph, values = found
    return inline(b, graph, values)


def inline(b, graph, values):
    """The nodes of a graph, one after the other in the same body."""
    known, given = {}, iter(values)
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            known[node] = next(given)
        elif node.op == "get_attr":
            tensor = getattr(graph, node.target)
            known[node] = b.const(real_of(tensor), tensor.dtype)
        elif node.op == "output":
            outs = pytree.tree_flatten(node.args[0], is_leaf=lambda v: v is None)[0]
            return [known.get(v) if isinstance(v, torch.fx.Node) else None for v in outs]
        elif is_getitem(node):
            known[node] = known[node.args[0]][node.args[1]]
        else:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: known[n])
            results = write(b, node.target, unpacked(args), dict(kwargs), types_of(node.meta["val"], str(node.target)))
            known[node] = results if isinstance(node.meta["val"], (tuple, list)) else results[0]
    raise InternalError("a graph without an output")


def unpacked(value):
    """FX's immutable lists as plain ones."""
    if isinstance(value, (list, tuple)):
        return type(value)(unpacked(v) for v in value) if isinstance(value, tuple) else [unpacked(v) for v in value]
    return value


def real_of(tensor):
    """The data of a constant, which a fake tensor may hold."""
    constant = getattr(tensor, "constant", None)
    return tensor if constant is None else constant


def is_getitem(node):
    import operator

    return node.op == "call_function" and node.target is operator.getitem


def attribute_text(value):
    """An argument as an attribute, or None if there is no need of one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            import struct
            return "0x" + struct.pack(">d", value).hex().upper() + " : f64"
        text = repr(value)
        return (text if "." in text else text.replace("e", ".0e")) + " : f64"
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return f'"{value}"'
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return ints(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, float) for v in value):
        return "[" + ", ".join(attribute_text(v) for v in value) + "]"
    return None


def attributes_of(op, args, kwargs):
    """Arguments that are no tensors and not the default, by the names of the schema."""
    parts = []
    for i, argument in enumerate(op._schema.arguments):
        if i < len(args):
            value = args[i]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            continue
        if argument.has_default_value() and value == argument.default_value and not is_value(value):
            continue
        if pytree.tree_any(is_value, value) or value is None or argument.name in _PLACES:
            continue
        text = attribute_text(value)
        if text is not None:
            parts.append(f"{argument.name} = {text}")
    return parts


def tensors_of(op, args, kwargs):
    """(name, Value) of the tensors, in the order of the schema; those of a list are name.0, name.1, ..."""
    found = []
    for i, argument in enumerate(op._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        if is_value(value):
            found.append((argument.name, value))
        elif isinstance(value, (list, tuple)):
            found += [(f"{argument.name}.{k}", v) for k, v in enumerate(value) if is_value(v)]
    return found


def custom_call(b, op, args, kwargs, out):
    """The op as one call: its tensors are operands, the rest attributes."""
    named = tensors_of(op, args, kwargs)
    present = [i for i, (dtype, _) in enumerate(out) if dtype is not None]
    parts = [f'tensors = "{",".join(name for name, _ in named)}"'] + attributes_of(op, args, kwargs)
    if len(present) != len(out):
        parts.append(f"results = {ints(present)}")
    results = b.custom_call(target_of(op), [v for _, v in named], [out[i] for i in present], ", ".join(parts))
    if target_of(op) not in b.context.used:
        b.context.used.append(target_of(op))
    found = dict(zip(present, results))
    return [found.get(i) for i in range(len(out))]


def target_of(op):
    return str(op).replace("::", ".")


def body_of(context, op, args, kwargs, out):
    """The name of the private function of a node, and the types of its results. Raises LookupError if nobody knows the op."""
    leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=lambda v: is_value(v) or v is None)
    random = None
    key = op, tuple(v.type if is_value(v) else (type(v), str(v)) for v in leaves), str(spec), str(out)
    if key in context.cached:
        return context.cached[key]
    b = Body(context, op, out)
    values = [Value(f"%arg{i}", v.dtype, v.shape) for i, v in enumerate(v for v in leaves if is_value(v))]
    given = iter(values)
    args, kwargs = pytree.tree_unflatten([next(given) if is_value(v) else v for v in leaves], spec)
    number = context.number
    context.seed = Value("%seed", torch.int64, ())
    results = write(b, op, args, kwargs, out)
    random = context.number != number
    kept = [v for v in results if v is not None]
    header = [f"{v.name}: {v.type}" for v in values] + (["%seed: tensor<i64>"] if random else [])
    ends = [v.type for v in kept]
    text = f"({', '.join(header)}) -> " + (ends[0] if len(ends) == 1 else f"({', '.join(ends)})") + " {\n"
    text += "".join(f"    {line}\n" for line in b.lines)
    text += f"    return {', '.join(v.name for v in kept)}" + (f" : {', '.join(ends)}" if ends else "") + "\n  }"
    context.seed = None
    found = context.share(target_of(op), text), [None if v is None else (v.dtype, v.shape) for v in results], random
    if not random:
        context.cached[key] = found
    return found
