"""Operators of other frameworks, as functions over NumPy arrays with a signature: what discovery runs and reports about."""

import difflib
import importlib
import importlib.util
import sys

from cleave._core import UserError
from cleave.functions.target import Target, in_a_line

PREFIXES = {"np": "numpy", "jnp": "jax.numpy", "lax": "jax.lax", "F": "torch.nn.functional", "aten": "torch.ops.aten"}
ROOTS = ("torch", "jax", "numpy")
BARE = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.Tensor", "torch.ops.aten")


def target_of_function(function, name=None):
    """The adapter for a function; that of plain Python if its framework is not known."""
    module = (getattr(function, "__module__", None) or type(function).__module__ or "").split(".")[0]
    kind = type(function).__module__.split(".")[0]
    if "torch" in (module, kind) or "torch" in str(getattr(function, "__objclass__", "")):
        from cleave.functions.torch_ops import TorchTarget

        return TorchTarget(function, name)
    if module.startswith("jax") or kind.startswith("jax"):
        from cleave.functions.jax_ops import JaxTarget

        return JaxTarget(function, name)
    from cleave.functions.numpy_ops import NumpyTarget

    return NumpyTarget(function, name)


def other_adapters(function, name):
    """Adapters of the frameworks that are loaded, for a function that takes their arrays."""
    if "torch" in sys.modules:
        from cleave.functions.torch_ops import TorchTarget

        yield TorchTarget(function, name)
    if "jax" in sys.modules:
        from cleave.functions.jax_ops import JaxTarget

        yield JaxTarget(function, name)


def target_of_text(text):
    """torch.cross, jax.numpy.cumsum, numpy.cross, mymodule:function, or a name that PyTorch has; none if it is nothing such."""
    if ":" in text:
        module, _, name = text.partition(":")
        return target_of_function(found(module, name.split("."), text), text)
    head, _, rest = text.partition(".")
    if rest and head in PREFIXES:
        text = f"{PREFIXES[head]}.{rest}"
        head = text.split(".")[0]
    if rest and head in ROOTS:
        return target_of_function(dotted(text), text)
    if not rest and importlib.util.find_spec("torch"):
        return bare(text)
    return None


def dotted(text):
    """The object that a dotted name leads to."""
    parts = text.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] == parts[0] and error.name == parts[0]:
                raise UserError(f"discover: {parts[0]} is not installed, so there is no {text}") from None
            continue
        return found(".".join(parts[:length]), parts[length:], text)
    raise UserError(f"discover: there is no {text}")


def found(module, names, text):
    try:
        value = importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"discover: {text}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever the module does
        raise UserError(f"discover: {text}: importing {module} raises {in_a_line(error)}") from None
    for name in names:
        try:
            value = getattr(value, name)
        except (AttributeError, RuntimeError):
            near = difflib.get_close_matches(name, [n for n in dir(value) if not n.startswith("_")], 3)
            raise UserError(f"discover: there is no {text}" + (f"; near it: {', '.join(near)}" if near else "")) from None
    if not callable(value):
        raise UserError(f"discover: {text} is no function")
    return value


def bare(name):
    """A name that people use without a module, as PyTorch has it."""
    import torch  # noqa: F401

    for place in BARE:
        try:
            function = dotted(f"{place}.{name}")
        except UserError:
            continue
        if not isinstance(function, type):
            return target_of_function(function, f"{place}.{name}")
    return None


__all__ = ["Target", "other_adapters", "target_of_function", "target_of_text"]
