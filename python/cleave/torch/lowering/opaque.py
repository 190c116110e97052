"""Ops that stay one custom call: their rules, costs and kernels, and the step of an optimizer."""

import functools
import math

import torch

from cleave import registering
from cleave.torch.lowering.attention import BACKWARD, FORWARD

DEFAULT_OPAQUE = frozenset(str(op) for op in (*FORWARD, *BACKWARD))
OPTIMIZER = "cleave.optimizer"


def tensor_names(call):
    return call.attrs["tensors"].split(",") if call.attrs["tensors"] else []


def attention_rule(call):
    """Batches and heads are apart from each other. Positions of queries are too, if the op is not causal."""
    names = tensor_names(call)
    shapes = dict(zip(names, [o.shape for o in call.operands]))
    query, key = shapes["query"], shapes["key"]
    heads = "h" if query[1] == key[1] else "g"
    kinds = {"k": "need_replication", "e": "need_replication"}
    if heads == "g":  # groups of queries share a head of keys: they are split only if all of them go together
        kinds |= {"h": "need_replication", "g": "need_replication"}
    backward = any(name.startswith("grad_out") for name in names)
    if call.attrs.get("is_causal") or backward:
        kinds["q"] = "need_replication"
    letters = {"query": "bhqe", "key": f"b{heads}ke", "value": f"b{heads}ke", "out": "bhqe", "grad_out": "bhqe", "grad_out_": "bhqe"}
    sizes = dict(zip("bhqe", query)) | {"k": key[2]} | ({"g": key[1]} if heads == "g" else {})
    operands, fresh = [], iter("mnoprstuvwxyzMNOPRSTUVWXYZ")

    def plain(shape, against="bhqk"):
        """Factors of a mask: those of scores if the size is theirs, else their own."""
        text = []
        for letter, size in zip(against[len(against) - len(shape):] if len(shape) <= 4 else "", shape):
            if size == sizes.get(letter) and size != 1:
                text.append(letter)
            else:
                text.append(own())
        return " ".join(text) or "[]"

    def own():
        letter = next(fresh)
        kinds[letter] = "need_replication"
        return letter
    for name, operand in zip(names, call.operands):
        if name in letters:
            operands.append(" ".join(letters[name]))
        elif name == "logsumexp":
            operands.append(" ".join("bhq" if operand.shape == query[:3] else ["b", "h", own()]))
        elif name in ("attn_mask", "attn_bias"):
            operands.append(plain(operand.shape))
        else:
            operands.append(" ".join(own() for _ in operand.shape) or "[]")
    results = []
    for i, result in enumerate(call.results):
        if backward and i < 3 or not backward and i == 0:
            results.append(" ".join(letters[("query", "key", "value")[i] if backward else "query"]))
        elif not backward and i == 1 and len(result.shape) == 3:
            results.append(" ".join("bhq" if result.shape == query[:3] else ["b", "h", own()]))
        elif backward:
            results.append(plain(result.shape))
        else:
            results.append(" ".join(own() for _ in result.shape) or "[]")
    used = set(" ".join(operands + results).split())
    notes = "; ".join(f"{letter}: {kind}" for letter, kind in kinds.items() if letter in used)
    return f"{', '.join(operands)} -> {', '.join(results)}" + (f" {{{notes}}}" if notes else "")


def attention_cost(call):
    shapes = dict(zip(tensor_names(call), [o.shape for o in call.operands]))
    n, h, q, e = shapes["query"]
    k = shapes["key"][2]
    products = 5 if any(name.startswith("grad_out") for name in shapes) else 2
    return products * 2 * n * h * q * k * e / (2 if call.attrs.get("is_causal") else 1)


def arguments_of(op, arrays, attrs):
    """The arguments of a call of ATen, from what a custom call has: by position, and by name alone."""
    names = attrs["tensors"].split(",") if attrs.get("tensors") else []
    values = with_lists(dict(zip(names, map(tensor_of, arrays))))
    for name, value in attrs.items():
        if name in ("tensors", "results"):
            continue
        values[name] = getattr(torch, value[6:]) if isinstance(value, str) and value.startswith("torch.") else value
    args, kwargs = [], {}
    for argument in op._schema.arguments:
        if argument.name in values:
            value = values[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        else:
            value = None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def tensor_of(array):
    """A tensor of its own; NumPy's bfloat16 is that of a package PyTorch does not know."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def with_lists(values):
    """Tensors called name.0, name.1, ... as one list."""
    lists = {}
    for name in [name for name in values if "." in name]:
        lists.setdefault(name.split(".")[0], []).append(values.pop(name))
    return values | lists


def tensors_of(results):
    results = results if isinstance(results, (tuple, list)) else [results]
    return tuple(array_of(r.contiguous()) for r in results if torch.is_tensor(r))


def array_of(tensor):
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def cpu_kernel(op, *arrays, **attrs):
    """Calls the op, or that of the CPU in the place of a GPU's."""
    args, kwargs = arguments_of(op, arrays, attrs)
    if op in (FORWARD[0], BACKWARD[0]):
        return tensors_of(op(*args, **kwargs))
    values = {a.name: v for a, v in zip([a for a in op._schema.arguments if not a.kwarg_only], args)} | kwargs
    mask = values.get("attn_mask", values.get("attn_bias"))
    common = {"dropout_p": 0.0, "is_causal": values.get("is_causal", False)}
    q, k, v = values["query"], values["key"], values["value"]
    if op in FORWARD:  # states of generators are not among the results
        return tensors_of(FORWARD[0](q, k, v, *common.values(), attn_mask=mask, scale=values.get("scale")))
    grad = values.get("grad_out", values.get("grad_out_"))
    lse = values["logsumexp"][..., :q.shape[2]]
    return tensors_of(BACKWARD[0](grad, q, k, v, values["out"], lse, *common.values(), attn_mask=mask, scale=values.get("scale")))


def optimizer_kernel(grad, stacked, slots=0):
    """Not a step that anyone uses: the parameter less its gradient, and slots that took the gradient in."""
    new = stacked.copy()
    if stacked.ndim == grad.ndim:
        return stacked - grad
    new[0] -= grad
    new[1:] += grad
    return new


def optimizer_rule(call):
    """As split as the parameter is. Nothing may be pending, since a step is not linear."""
    letters = "ijklmnopqrtuvwxyz"[:len(call.operands[0].shape)]
    plain = " ".join(letters) or "[]"
    if len(call.operands[1].shape) == len(letters):
        return f"{plain}, {plain} -> {plain}"
    stacked = " ".join(["s", *letters])
    return f"{plain}, {stacked} -> {stacked} {{s: need_replication}}"


def optimizer_cost(call):
    """Steps are bound by memory: about an operation for each byte."""
    size = sum(math.prod(t.shape) * 4 for t in (*call.operands, *call.results))
    return float(size)


@functools.cache
def register():
    """Makes the ops known to Cleave; more calls do nothing."""
    for op in (*FORWARD, *BACKWARD):
        registering.register_op(str(op), functools.partial(cpu_kernel, op), rule=attention_rule, cost=attention_cost,
                                replace=True)
    registering.register_op(OPTIMIZER, optimizer_kernel, rule=optimizer_rule, cost=optimizer_cost,
                            shape=lambda call: call.operands[1], replace=True)
