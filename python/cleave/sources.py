"""Modules as users have them."""

import os

from cleave import _core


def module_of(source):
    """A Module; StableHLO text or graph JSON; the path of a file of either; or a model by name, 'model:gpt?layers=2'."""
    if isinstance(source, _core.Module):
        return source
    if isinstance(source, os.PathLike):
        return _core.Module.load(os.fspath(source))
    if isinstance(source, str):
        is_text = "\n" in source or source.lstrip().startswith(("module", "func.func", "{"))
        return _core.Module.parse(source) if is_text else _core.Module.load(source)
    if hasattr(source, "as_text"):  # a Lowered of JAX
        return _core.Module.parse(source.as_text())
    if callable(getattr(source, "mlir_module", None)):  # an Exported of JAX
        return _core.Module.parse(source.mlir_module())
    raise _core.UserError(f"{type(source).__name__} is no module: give a Module, its text, a path, or 'model:NAME'")
