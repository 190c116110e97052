"""Meshes and layouts in JAX's words and in Cleave's."""

import difflib
import fnmatch
import math
import re
from collections.abc import Mapping

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from cleave._core import UserError

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


def mesh_text(mesh):
    """<["data"=2, "model"=4]>"""
    axes = ", ".join(f'"{name}"={size}' for name, size in zip(mesh.axis_names, mesh.axis_sizes))
    return f"<[{axes}]>"


def check_mesh(mesh):
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise UserError(f"autoshard: a jax.sharding.Mesh or a number of devices is needed, not {type(mesh).__name__}; "
                        "jax.make_mesh((2, 4), ('data', 'model')) makes one")
    if mesh.empty:
        raise UserError("autoshard: the mesh is empty; jax.make_mesh((2, 4), ('data', 'model')) makes one")
    manual = [name for name, kind in zip(mesh.axis_names, mesh.axis_types) if kind == jax.sharding.AxisType.Manual]
    if manual:
        raise UserError(f"autoshard: axis '{manual[0]}' of the mesh is manual; inside shard_map nothing is left to plan")
    return mesh


def other_platform(mesh):
    """Where the devices of a mesh are, as jax.export names it, if that is not JAX's default backend."""
    if not isinstance(mesh, Mesh):
        return None
    device = mesh.devices.flat[0]
    if device.platform == jax.default_backend():
        return None
    if device.platform == "gpu":
        return "rocm" if "rocm" in getattr(device.client, "platform_version", "") else "cuda"
    return device.platform


def mesh_of_plan(mesh, axes):
    """The mesh of a plan over the same devices: the caller's own, or one whose axes are parts of its axes."""
    names, sizes = tuple(name for name, _ in axes), tuple(size for _, size in axes)
    if names == tuple(mesh.axis_names) and sizes == tuple(mesh.axis_sizes):
        return mesh
    if math.prod(sizes) != mesh.size:
        raise UserError(f"the plan is for {dict(axes)}, and the mesh has {mesh.size} devices")
    kinds = (jax.sharding.AxisType.Auto,) * len(names)
    if isinstance(mesh, AbstractMesh):
        return AbstractMesh(sizes, names, axis_types=kinds)
    return Mesh(mesh.devices.reshape(sizes), names, axis_types=kinds)


def spec_of_dims(dims):
    """A PartitionSpec of the axes of each dimension."""
    entries = [None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in dims]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def spec_text(spec, rank, what, trailing=0):
    """A PartitionSpec (or what jax.jit takes for one) as Cleave writes it: [{"data"}, {?}]. `trailing` dimensions that only
    the module knows, those of a random key, stay whole."""
    if isinstance(spec, NamedSharding):
        if spec.memory_kind not in (None, "device"):
            raise UserError(f"{what}: the memory {spec.memory_kind} is not planned for; a plan has every array in the memory of "
                            "devices")
        spec = spec.spec
    if isinstance(spec, str):
        raise UserError(f'{what}: "{spec}" is no PartitionSpec; P("{spec}") splits the first dimension over that axis')
    if not isinstance(spec, PartitionSpec):
        raise UserError(f"{what}: a PartitionSpec such as P('data') or a NamedSharding is needed, not {type(spec).__name__}")
    if getattr(spec, "unreduced", None) or getattr(spec, "reduced", None):
        raise UserError(f"{what}: {spec} has unreduced or reduced axes, and arguments and results have no pending sums; leave "
                        "those axes out")
    if len(spec) > rank:
        raise UserError(f"{what}: {spec} is for {len(spec)} dimensions or more, and there are {rank}")
    dims = []
    for entry in list(spec) + [None] * (rank - len(spec)):
        if entry is UNCONSTRAINED:
            dims.append("{?}")
        else:
            names = () if entry is None else entry if isinstance(entry, (tuple, list)) else (entry,)
            if not all(isinstance(name, str) for name in names):
                raise UserError(f"{what}: {spec} has an entry {entry!r}; a dimension has the name of an axis, several or None")
            dims.append("{" + ", ".join(f'"{name}"' for name in names) + "}")
    return "[" + ", ".join(dims + ["{}"] * trailing) + "]"


def check_axes(spec, mesh, what):
    """Refuses names that are no axes of the mesh, and layouts on a mesh with axes of other sizes."""
    for entry in getattr(spec, "spec", spec):
        for name in entry if isinstance(entry, (tuple, list)) else (entry,):
            if isinstance(name, str) and name not in mesh.axis_names:
                raise UserError(f'{what}: unknown axis "{name}"; the mesh is {mesh_text(mesh)}')
            if isinstance(name, str) and isinstance(spec, NamedSharding) and spec.mesh.shape[name] != mesh.shape[name]:
                raise UserError(f"{what}: {spec.spec} is for the mesh {mesh_text(spec.mesh)}, and the plan's is {mesh_text(mesh)}")


def check_even(spec, shape, mesh, what):
    """Refuses a layout of which JAX has no arrays."""
    for size, entry in zip(shape, getattr(spec, "spec", spec)):
        names = entry if isinstance(entry, (tuple, list)) else (entry,)
        parts = math.prod(mesh.shape[name] for name in names if isinstance(name, str))
        if size % parts:
            raise UserError(f"{what}: {getattr(spec, 'spec', spec)} splits {size} in {parts}, and arguments and results are to lie in "
                            "even shards")


class Pins:
    """Layouts that the caller fixes, by the paths of leaves: {"params/layers/*/attn/q": P(None, "model")}.

    A star stands for any characters. A pattern is for whole paths, which begin with the name of a parameter of the function;
    one that matches no whole path is tried without that name.
    """

    def __init__(self, pins):
        if not isinstance(pins, (Mapping, type(None))) or not all(isinstance(path, str) for path in pins or {}):
            raise UserError('autoshard: pins is a dict of layouts by path, {"params/layers/*/q": P(None, "model")}')
        self.pins = dict(pins or {})

    def texts(self, leaves, mesh):
        """For the planner: a list of NAME=SPEC."""
        texts = []
        for pattern, spec in self.pins.items():
            found = self._matching(pattern, leaves)
            if not found:
                raise UserError(f"pin '{pattern}': no argument has such a path; {self._near(pattern, leaves)}")
            for leaf in found:
                what = f"pin {pattern!r} of {leaf.path}"
                text = spec_text(spec, leaf.rank, what, leaf.trailing)
                check_axes(spec, mesh, what)
                texts.append(f"{leaf.path}={text}")
        return texts

    @staticmethod
    def _matching(pattern, leaves):
        if same := [leaf for leaf in leaves if leaf.path == pattern]:  # with signs that patterns read otherwise
            return same
        whole = [leaf for leaf in leaves if fnmatch.fnmatchcase(leaf.path, pattern)]
        inner = [leaf for leaf in leaves if "/" in leaf.path]
        return whole or [leaf for leaf in inner if fnmatch.fnmatchcase(leaf.path.partition("/")[2], pattern)]

    def _near(self, pattern, leaves):
        """What the caller may have meant."""
        paths = [leaf.path for leaf in leaves]
        if below := self._matching(f"{pattern}/*", leaves):
            return f"'{pattern}/*' matches {_some([leaf.path for leaf in below])}"
        # As JAX writes paths: params['layers'][0].q
        words = [word for word in re.split(r"[^\w*?-]+", pattern) if word]
        if same := self._matching("/".join(words), leaves):
            return f"'{'/'.join(words)}' matches {_some([leaf.path for leaf in same])}"
        near = difflib.get_close_matches(pattern, paths, 1, 0.7)
        return f"there are {_some(paths)}" + (f"; '{near[0]}' is near to it" if near else "")


def _some(names, most=6):
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def given_spec(leaf, mesh):
    """The layout that an argument has already on this mesh, if the caller gave it one."""
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        return None
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and not leaf.committed:
        return None
    if sharding.is_fully_replicated and not jax.sharding.get_abstract_mesh().empty:
        return None  # under jax.set_mesh every new array lies so, which says nothing about where it should lie
    same = (tuple(sharding.mesh.axis_names), tuple(sharding.mesh.axis_sizes)) == (tuple(mesh.axis_names), tuple(mesh.axis_sizes))
    return sharding.spec if same else None
