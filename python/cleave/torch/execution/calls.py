"""Custom calls: ops of ATen that stayed whole, and the place of the optimizer."""

import torch

from cleave.torch.execution.builder import Value
from cleave.torch.execution.dtypes import border, carrier
from cleave.torch.execution.table import translates
from cleave.torch.lowering.opaque import DEFAULT_OPAQUE, with_lists

HARMLESS = {"Sharding", "annotate_device_placement", "SPMDFullToShardShape", "SPMDShardToFullShape"}


@translates("stablehlo.custom_call")
def custom_call(t, op, *values):
    target = op.get("call_target_name")
    if target in ("cleave.optimizer", "optimizer"):
        return [values[0]] * len(op.results)
    if target in HARMLESS:
        return list(values[:1])
    function = overload(target)
    if function is None:
        raise op.error(values, f"PyTorch has no op for the custom call @{target}")
    return of_aten(t, op, target, function, values)


def overload(target):
    """torch.ops.NAMESPACE.NAME.OVERLOAD of "aten.NAME.OVERLOAD", or None."""
    parts = target.split(".")
    if len(parts) < 2:
        return None
    try:
        packet = getattr(getattr(torch.ops, parts[0]), parts[1])
        return getattr(packet, parts[2] if len(parts) > 2 else "default")
    except (AttributeError, RuntimeError):
        return None


def of_aten(t, op, target, function, values):
    b, config = t.b, dict(op.get("mhlo.backend_config", op.get("backend_config", {})) or {})
    names = [name for name in str(config.pop("tensors", "")).split(",") if name]
    kept = config.pop("results", None)
    schema = function._schema.arguments
    if not names:
        names = [a.name for a in schema if "Tensor" in str(a.type)][: len(values)]
    # Kernels that nobody wrote a row for may ask for tensors as they were when they were traced: contiguous.
    whole = [b.full(value) if target in DEFAULT_OPAQUE else b.contiguous(b.full(value)) for value in values]
    given = with_lists(dict(zip(names, whole)))
    for argument in schema:
        if argument.name in config:
            given[argument.name] = plain(config[argument.name], str(argument.type), b.device)
    positional, keywords = [], {}
    for argument in schema:
        if argument.kwarg_only:
            if argument.name in given:
                keywords[argument.name] = given[argument.name]
        elif argument.name in given or not argument.has_default_value():
            positional += [a.default_value for a in [*schema[len(positional) :]][: schema.index(argument) - len(positional)]]
            positional.append(given.get(argument.name))
    results = b.emit(function, *positional, **keywords)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    if kept is not None:
        results = [results[i] for i in kept]
    else:
        results = [r for r in results if isinstance(r, torch.fx.Node) and isinstance(r.meta["val"], torch.Tensor)]
    if len(results) < len(op.results):
        raise op.error(values, f"{function} returns {len(results)} tensors")
    return [Value(converted_in(b, r, kind), kind.shape, kind.dtype) for r, kind in zip(results, op.kinds)]


def converted_in(b, t, kind):
    return b.convert(t, carrier(kind.dtype)) if b.val(t).dtype == border(kind.dtype) != carrier(kind.dtype) else t


def plain(value, kind, device):
    """A value of backend_config as an argument of its schema."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    if "Device" in kind and isinstance(value, str):
        return device
    if kind == "List[bool]" and isinstance(value, list):
        return [bool(v) for v in value]
    return value
