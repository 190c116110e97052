"""Modules run on one device, or on virtual devices in this process."""

from cleave import _core
from cleave.sources import module_of


def run(module, *arrays, mesh=None, shard=None, plan=None, entry="main", compile=True, verify=False, wide_sums=True):
    """The results of a function of a module on NumPy arrays, as a list of NumPy arrays.

    Without mesh, shard and plan it runs on one device. `shard` is "annotations" (those of the module, and what follows from
    them), "replicated", "random:SEED", or layouts of arguments: {0: P("data")} by number or name, or a list. `plan` runs it
    as planned. `verify` also runs it on one device, and raises UserError if the numbers differ by more than roundings.
    """
    if plan is not None and (mesh is not None or shard is not None):
        raise _core.UserError("run: a plan has its own mesh and layouts; leave out mesh and shard")
    text = "" if plan is None else plan._core.json()
    return list(_core.run(module_of(module), list(arrays), mesh, shard, text, entry, compile, verify, wide_sums))
