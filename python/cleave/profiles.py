"""Machine profiles: what the hardware can do."""

import json
import os

from cleave import _core


def machine(what="default"):
    """A built-in machine by name ("h100"), a JSON file by its path, or a profile as a dict with its "base" and what differs."""
    if isinstance(what, _core.Machine):
        return what
    if isinstance(what, dict):
        return _core.Machine.parse(json.dumps(what))
    if not isinstance(what, (str, os.PathLike)):
        raise _core.UserError(f"a machine is a name such as \"h100\", a path or a profile, not {type(what).__name__}")
    return _core.Machine.load(os.fspath(what))


def machines():
    """The names of the built-in machines."""
    return list(_core.machines())


def source_of(what):
    """The name or the path by which a plan remembers its machine."""
    found = machine(what)
    if not found.source:
        raise _core.UserError("a plan remembers its machine by name or path: write the profile first, with machine.save(path)")
    return found.source
