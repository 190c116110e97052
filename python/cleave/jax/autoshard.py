"""autoshard: a function of JAX, planned and run as planned."""

import dataclasses
import functools
import json
import math
import os
import types
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from cleave import _core, progress
from cleave._core import UserError
from cleave.jax import applied, callbacks, layouts
from cleave.jax.check import Check, check_step, compiled_memory
from cleave.jax.fit import Candidate, Fit, fit_compiled
from cleave.jax.options import OBJECTIVES, Options, PlanOptions, make_options, memory_limit
from cleave.jax.plans import JaxPlan
from cleave.jax.signature import SETTINGS, Numbers, Signature, Words, settings
from cleave.jax.traced import abstract, name_of, parameter_names, path_text, trace

MOST_SEEN = 256  # kinds of calls that are told apart quickly

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Tree = TypeVar("Tree")


class Entry:
    """A function for arguments of certain shapes: traced, planned, ready to run."""

    def __init__(self, signature, mesh, options, args, kwargs):
        self.signature, self.options = signature, options
        self.static, self.donated = signature.split(args, kwargs)
        positions, names = self.static
        self.keywords = [name for name in sorted(kwargs) if name not in names]
        self.positions = [i for i in range(len(args)) if i not in positions]
        self.is_plain, self.settings = not kwargs and not positions, settings()
        self.reference = jax.jit(signature.fn, keep_unused=True, **signature.jit_options)
        self.traced = trace(self.reference, signature.fn, args, kwargs, self.static, layouts.other_platform(mesh))
        self.types = abstract((tuple(args[i] for i in self.positions), {name: kwargs[name] for name in self.keywords}))
        self.static_values = ({i: args[i] for i in positions}, {name: kwargs[name] for name in kwargs if name in names})
        self.fit = None
        with progress.told(options.progress) as tell:
            planner = self._planner(mesh, args, kwargs, tell)
            if options.fit == "compiled":
                self._fit(planner, mesh, tell)
            else:
                self._use(planner(options.memory, options.objective, options.seed), mesh)

    def _use(self, core, mesh):
        """Runs this plan from now on."""
        for name in ("jitted", "compiled"):
            self.__dict__.pop(name, None)
        self.plan = JaxPlan(core, self.traced, mesh if not isinstance(mesh, int) else mesh_for(core))
        self.in_shardings = [self.plan.shardings(specs) for specs in self._by_argument(self.plan.in_specs)]
        self.out_shardings = self.plan.shardings(self.plan.out_specs)

    def _fit(self, planner, mesh, tell):
        """Plans until the compiled program fits what the plan was to fit."""
        limit, share = memory_limit(self.options)
        own = self.options.objective
        seen = {}  # candidates by plan: other limits may give the same one, which is compiled once

        def make(bytes_planned, variant):
            objective, seed = variant
            core = planner(str(math.ceil(bytes_planned / share)), objective, seed)
            self._use(core, mesh)
            key = json.dumps([self.plan.data[part] for part in ("mesh", "values", "copies", "ops")])
            if key not in seen:
                seen[key] = Candidate(self.plan.value_of(own), self.plan.memory_bytes, agreed(compiled_memory(self.compiled), mesh),
                                      (core, self.jitted, self.compiled))
            return dataclasses.replace(seen[key])
        seed = self.options.seed
        others = [(other, seed) for other in OBJECTIVES if other != own]
        best, self.fit = fit_compiled(limit, make, [(own, seed), (own, seed + 1), *others], tell)
        core, jitted, compiled = best.kept
        self._use(core, mesh)
        self.jitted, self.compiled = jitted, compiled

    def _by_argument(self, pair):
        return [*pair[0], *(pair[1][name] for name in self.keywords)]

    def _planner(self, mesh, args, kwargs, tell):
        """A function that plans within memory, as text, for an objective."""
        options, traced = self.options, self.traced
        names = [leaf.path for leaf in traced.arguments]
        text = layouts.mesh_text(mesh) if not isinstance(mesh, int) else f"x={mesh}"
        pins = self._pins(mesh, args, kwargs)
        following = next_arguments(self.types, traced) if options.tie_state else [-1] * len(names)
        wanted = self._result_texts(mesh, set(following))
        module = traced.module.with_borders(names, text, wanted, following)
        if options.plan is not None:
            return lambda memory, objective, seed: _core.read_plan(str(options.plan), module)
        where = dict(devices=mesh) if isinstance(mesh, int) else dict(mesh=text)
        several = spans_processes(mesh)

        def planned(memory, objective, seed):
            core = _core.make_plan(module, **where, machine=options.machine, memory=memory, memory_share=options.memory_share,
                                   pins=pins, borders="even", by_effort=several or options.by_effort, trace=tell,
                                   objective=objective, seed=seed, **options.solver)
            return core if not several else same_everywhere(core, module)
        return planned

    def _pins(self, mesh, args, kwargs):
        """Pins of paths, then in_shardings, then layouts that arguments have; dimensions of random keys that only the module
        has stay whole."""
        leaves, options = self.traced.arguments, self.options
        if isinstance(mesh, int):
            if options.pins.pins or options.in_shardings is not None or options.out_shardings is not None:
                raise UserError(f"autoshard: pins and shardings name axes of a mesh; give a mesh instead of {mesh} devices")
            return []
        pins = options.pins.texts(leaves, mesh)
        pinned = {pin.partition("=")[0] for pin in pins}
        dynamic = [args[i] for i in self.positions] + [kwargs[name] for name in self.keywords]
        given = [None] * len(leaves)
        if options.in_shardings is not None:
            given = self._given(options.in_shardings)
        for leaf, value, spec in zip(leaves, jax.tree.leaves(dynamic), given):
            if leaf.path in pinned:
                continue
            if spec is None and options.honour_layouts:
                spec = layouts.given_spec(value, mesh)
            if spec is not None:
                pins.append(f"{leaf.path}={layouts.spec_text(spec, leaf.rank, leaf.path, leaf.trailing)}")
                layouts.check_axes(spec, mesh, f"in_shardings of {leaf.path}")
            elif leaf.trailing:
                pins.append(f"{leaf.path}=[{', '.join(['{?}'] * leaf.rank + ['{}'] * leaf.trailing)}]")
        return pins

    def _given(self, shardings):
        """A layout or None for each leaf of the arguments, from a tree of which each part may stand for a whole tree."""
        parts, keywords = self.types
        whole = shardings if isinstance(shardings, (tuple, list)) else (shardings,) * len(parts)
        if len(whole) != len(parts):
            named = f"; pins={{'{self.keywords[0]}': ...}} lays out an argument that goes by keyword" if self.keywords else ""
            raise UserError(f"autoshard: in_shardings has {len(whole)} entries, and the function was called with {len(parts)} "
                            f"positional arguments{named}")
        flat = []
        for i, (spec, tree) in enumerate(zip(whole, parts)):
            flat += broadcast(spec, tree, f"in_shardings[{i}]")
        return flat + [None] * len(jax.tree.leaves(keywords))

    def _result_texts(self, mesh, following):
        leaves = self.traced.results
        given = [None] * len(leaves)
        if self.options.out_shardings is not None:
            tree = jax.tree.unflatten(self.traced.exported.out_tree, leaves)
            given = broadcast(self.options.out_shardings, tree, "out_shardings")
        texts = []
        for i, (leaf, spec) in enumerate(zip(leaves, given)):
            if spec is not None:
                what = f"out_shardings of result {leaf.path or i}"
                texts.append(layouts.spec_text(spec, leaf.rank, what, leaf.trailing))
                layouts.check_axes(spec, mesh, what)
                layouts.check_even(spec, leaf.shape, mesh, what)
            elif leaf.trailing and i not in following:  # those that follow an argument lie as that does
                texts.append(f"[{', '.join(['{?}'] * leaf.rank + ['{}'] * leaf.trailing)}]")
            else:
                texts.append("")
        return texts

    @functools.cached_property
    def jitted(self):
        """The planned program under jax.jit, by positional arguments."""
        # If nothing is split, every device runs the function as it is; one device does not even ask what a mesh is.
        text = self.plan.export(self.options.form) if self.plan.mesh.size > 1 and not self.plan.is_whole else None
        count, keywords = len(self.positions), self.keywords
        is_calling = isinstance(self.traced.exported, callbacks.LoweredFunction)
        if not is_calling:
            call = applied.callable_of(applied.with_module(self.traced.exported, text))

        def planned(*args):
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args)) and jax.config.jax_disable_jit:
                with jax.disable_jit(False):  # there is nothing to run op by op: the plan is one program
                    return jitted(*args)
            self.refuse_other_types(args)
            if is_calling:
                return self.with_statics(args)
            return call(args[:count], dict(zip(keywords, args[count:])))
        planned.__name__ = planned.__qualname__ = name_of(self.signature.fn)
        donated = [self.positions.index(i) for i in sorted(self.donated[0])]
        donated += [count + keywords.index(name) for name in sorted(self.donated[1])]
        jitted = jax.jit(planned, in_shardings=tuple(self.in_shardings), out_shardings=self.out_shardings,
                         donate_argnums=tuple(donated), keep_unused=True)
        if not is_calling:
            return jitted
        parts, by_name = self.types
        return callbacks.CallingStep(jitted, [*parts, *(by_name[name] for name in keywords)], text, planned.__name__)

    def refuse_other_types(self, args):
        """While it is traced: of other types, such as a strong float in the place of one of Python's, results have others."""
        if settings() != self.settings:
            raise TypeError(f"{self.signature.fn} was planned under other settings of JAX")
        wanted = [leaf.weak_type for leaf in jax.tree.leaves(self.types)]
        if jax.process_count() == 1 and [jax.typeof(leaf).weak_type for leaf in jax.tree.leaves(args)] != wanted:
            raise TypeError(f"{self.signature.fn} was planned for arguments of other types")

    def with_statics(self, values):
        """The function itself, of the arguments that are not static."""
        statics, named = self.static_values
        rest = iter(values)
        args = [statics[i] if i in statics else next(rest) for i in range(len(self.positions) + len(statics))]
        return self.signature.fn(*args, **dict(zip(self.keywords, rest)), **named)

    @functools.cached_property
    def compiled(self):
        parts, keywords = self.types
        return self.jitted.lower(*parts, *(keywords[name] for name in self.keywords)).compile()

    def arguments(self, args, kwargs):
        return [args[i] for i in self.positions] + [kwargs[name] for name in self.keywords]

    def moved(self, arguments):
        """The arguments where the plan has them; what lies there already is not touched."""
        return [place(tree, sharding) for tree, sharding in zip(arguments, self.in_shardings)]


def place(tree, shardings):
    """Leaves of a tree on their shardings."""
    def one(leaf, sharding):
        if isinstance(leaf, jax.core.Tracer):
            return leaf
        if isinstance(leaf, jax.Array) and leaf.committed and leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
            return leaf
        return jax.device_put(leaf, sharding) if sharding.is_fully_addressable else across_processes(leaf, sharding)
    return jax.tree.map(one, tree, shardings)


def across_processes(leaf, sharding):
    """Of an array over all processes, or of one that is the same in all of them, of which each lays out its part."""
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):  # neither NumPy nor device_put knows those
        data = across_processes(jax.random.key_data(leaf), NamedSharding(sharding.mesh, sharding.spec))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    value = np.asarray(leaf)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def broadcast(prefix, tree, what):
    """For each leaf of the tree the entry of the prefix that stands above it."""
    is_leaf = lambda x: x is None or isinstance(x, (jax.sharding.PartitionSpec, jax.sharding.Sharding))
    spread = []

    def take(spec, part):
        spread.extend([spec] * len(jax.tree.leaves(part)))
    try:
        jax.tree.map(take, prefix, tree, is_leaf=is_leaf)
    except ValueError as error:
        raise UserError(f"autoshard: {what} does not fit the tree: {' '.join(str(error).split())[:300]}") from None
    return spread


def next_arguments(types, traced):
    """For each leaf of the arguments the leaf of the results that takes its place in the next step, or -1: if one of several
    results, or the only one, is a tree like that of an argument."""
    results = jax.tree.unflatten(traced.exported.out_tree, list(range(len(traced.results))))
    parts = list(results) if isinstance(results, (tuple, list)) else [results]
    look = lambda tree, of: (jax.tree.structure(tree), [of(leaf) for leaf in jax.tree.leaves(tree)])
    free = [(part, look(part, lambda i: (traced.results[i].shape, traced.results[i].dtype))) for part in parts]
    following = []
    for argument in [*types[0], *(types[1][name] for name in sorted(types[1]))]:
        own = look(argument, lambda leaf: (tuple(leaf.shape), leaf.dtype))
        found = next((i for i, (_, other) in enumerate(free) if other == own and own[1]), None)
        following += [-1] * len(own[1]) if found is None else jax.tree.leaves(free.pop(found)[0])
    return following


def mesh_for(core):
    """The mesh that a plan has found; an abstract one, if there are not so many devices."""
    axes, _, _ = core.borders()
    names, sizes, kinds = tuple(name for name, _ in axes), tuple(size for _, size in axes), (AxisType.Auto,) * len(axes)
    if math.prod(sizes) > jax.device_count():
        return AbstractMesh(sizes, names, axis_types=kinds)
    return jax.make_mesh(sizes, names, axis_types=kinds)


def spans_processes(mesh):
    """Whether all processes run the plan together, and must agree on it: not for devices of one process, nor for none."""
    if jax.process_count() == 1 or isinstance(mesh, AbstractMesh):
        return False
    return isinstance(mesh, int) or len({device.process_index for device in mesh.devices.flat}) > 1


def same_everywhere(core, module):
    """The plan of process 0 in all processes."""
    from jax.experimental import multihost_utils
    own = np.frombuffer(core.json().encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(own.size)))
    text = np.zeros(size, np.uint8)
    text[: min(size, own.size)] = own[:size]
    text = bytes(np.asarray(multihost_utils.broadcast_one_to_all(text))).decode()
    return core if text == core.json() else _core.plan_from_json(text, module)


def agreed(number, mesh):
    """That of process 0, so that all processes go on alike."""
    if not spans_processes(mesh):
        return number
    from jax.experimental import multihost_utils
    high, low = multihost_utils.broadcast_one_to_all(np.array(divmod(number, 1 << 20), np.int32))
    return (int(high) << 20) + int(low)


class AutoshardedFunction(Generic[Parameters, Result]):
    """A function that is planned for the shapes of its arguments and runs as planned: see `autoshard`."""

    __name__: str

    def __init__(self, fn: Callable[Parameters, Result], mesh: Mesh | AbstractMesh | int, signature: Signature, options: Options):
        functools.update_wrapper(self, fn, updated=())
        self.__name__ = name_of(fn)
        self._mesh, self._signature, self._options = mesh, signature, options
        self._entries = {}
        self._seen = {}  # entries by what is quick to tell of a call
        self._last = None
        self._fast = None  # of the only entry, if it takes positional arguments as they are

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        fast = self._fast
        if fast is None or kwargs:
            return self._call(args, kwargs)
        try:
            return fast(*args)
        except (TypeError, ValueError, AssertionError) as error:
            return self._call(args, kwargs, error)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method of a class."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        mesh = f"{self._mesh} devices" if isinstance(self._mesh, int) else layouts.mesh_text(self._mesh)
        count = len(self._entries)
        return f"<{self.__name__}, autosharded on {mesh}; planned for {count} set{'' if count == 1 else 's'} of shapes>"

    def _call(self, args, kwargs, error=None):
        if jax.sharding.get_abstract_mesh().manual_axes:
            raise UserError(f"{self.__name__} is planned for whole arrays, and inside jax.shard_map or jax.pmap there are parts; call "
                            "it outside")
        key = self._quick_key(args, kwargs)
        entry = self._seen.get(key)
        if entry is None:
            entry = self._entry(args, kwargs)
            if key is not None:
                if len(self._seen) >= MOST_SEEN:
                    self._seen.clear()
                self._seen[key] = entry
        elif error is None:
            self._remember(entry)
            try:
                return entry.jitted(*entry.arguments(args, kwargs))
            except (TypeError, ValueError, AssertionError) as found:
                error = found
        arguments = entry.arguments(args, kwargs)
        moved = entry.moved(arguments)
        untouched = all(a is b for a, b in zip(jax.tree.leaves(arguments), jax.tree.leaves(moved)))
        if error is not None and untouched and entry is self._last:
            raise error
        self._remember(entry)
        return entry.jitted(*moved)

    def _remember(self, entry):
        self._last = entry
        self._fast = entry.jitted if len(self._entries) == 1 and entry.is_plain else None

    def _quick_key(self, args, kwargs):
        """What tells calls apart at little cost: the types of arrays, which JAX has at hand. None if there is anything else."""
        positions, names = self._signature.static_of(len(args), tuple(kwargs))
        statics = (*(args[i] for i in sorted(positions)), *(kwargs[name] for name in sorted(names)))
        dynamic = [arg for i, arg in enumerate(args) if i not in positions]
        dynamic += [kwargs[name] for name in sorted(kwargs) if name not in names]
        try:
            leaves, tree = jax.tree.flatten(dynamic)
            key = (tree, tuple([leaf.aval for leaf in leaves]), len(args), tuple(sorted(kwargs)), statics,
                   tuple(map(type, statics)), settings())
            hash(key)
        except (AttributeError, TypeError):
            return None
        return key

    def _entry(self, args, kwargs):
        key = self._key(args, kwargs)
        entry = self._entries.get(key)
        if entry is None:
            if isinstance(self._mesh, jax.sharding.AbstractMesh):
                raise UserError("autoshard: an AbstractMesh has no devices to run on; cleave.jax.plan plans for it")
            entry = self._entries[key] = Entry(self._signature, self._mesh, self._options, args, kwargs)
        return entry

    def _key(self, args, kwargs):
        positions, names = self._signature.static_of(len(args), tuple(kwargs))
        dynamic = ([arg for i, arg in enumerate(args) if i not in positions], {k: v for k, v in kwargs.items() if k not in names})
        leaves, tree = jax.tree.flatten(dynamic)
        # As for jax.jit, 1 and 1.0 are two static arguments, though they are equal.
        static = (tuple((i, args[i], type(args[i])) for i in sorted(positions)),
                  tuple((name, kwargs[name], type(kwargs[name])) for name in sorted(names)))
        for which, value, _ in (*static[0], *static[1]):
            refuse_unhashable(self._signature.fn, which, value)
        try:
            return tree, tuple(map(_type_of, leaves)), static, settings()
        except TypeError:
            refuse_other_leaves(self._signature.fn, args, kwargs, positions, names)
            raise

    def prepare(self, *args: Any, **kwargs: Any) -> JaxPlan:
        """Plans for arguments of these shapes (arrays or jax.ShapeDtypeStruct) without running anything; returns the plan."""
        self._remember(self._entry(args, kwargs))
        return self.plan

    @property
    def plan(self) -> JaxPlan:
        """The plan of the last call, or of the last `prepare`."""
        return self._known().plan

    @property
    def fit(self) -> Fit | None:
        """With fit="compiled": what the compiled program holds beside its limit, and how the plan was found; else None."""
        return self._known().fit

    def _known(self):
        if self._last is None:
            raise UserError(f"autoshard: {self.__name__} was not called yet, and its plan depends on the shapes of its "
                            "arguments; call it, or prepare(*args) with arrays or jax.ShapeDtypeStruct")
        return self._last

    def place(self, tree: Tree, argnum: int | str | None = None) -> Tree:
        """A tree that is an argument, laid out as planned for it. The argument is found by its structure and shapes, or given
        by number or name. Before the first call or `prepare` nothing is planned, and the tree is returned as it is: the call
        lays it out."""
        if self._last is None:
            return tree
        entry = self._last
        return place(tree, entry.in_shardings[self._argument_like(entry, tree, argnum)])

    def _argument_like(self, entry, tree, argnum):
        parts = [*entry.types[0], *(entry.types[1][name] for name in entry.keywords)]
        names = parameter_names(self._signature.fn, max(entry.positions, default=-1) + 1)
        labels = [names[i] for i in entry.positions] + entry.keywords
        leaves, structure = jax.tree.flatten(tree)
        shapes = [np.shape(leaf) for leaf in leaves]
        fits = [jax.tree.structure(part) == structure and [leaf.shape for leaf in jax.tree.leaves(part)] == shapes for part in parts]
        if argnum is not None:
            key = labels.index(argnum) if argnum in labels else entry.positions.index(argnum) if argnum in entry.positions else None
            if key is None:
                raise UserError(f"place: there is no argument {argnum!r}; there are {', '.join(labels)}")
            if not fits[key]:
                raise UserError(f"place: {labels[key]} was planned for another structure or other shapes "
                                f"({len(jax.tree.leaves(parts[key]))} arrays, and these are {len(leaves)})")
            return key
        if any(fits):
            return fits.index(True)
        raise UserError(f"place: no argument has this structure and these shapes ({len(leaves)} arrays); there are "
                        + ", ".join(f"{label} ({len(jax.tree.leaves(part))} arrays)" for label, part in zip(labels, parts)))

    def check(self, *args: Any, **kwargs: Any) -> Check:
        """Sets what was planned beside what XLA compiled (collectives with their bytes, memory), and compares results with the
        unsharded function: on these arguments, or on random ones of the last call's shapes. Returns the report; raises
        InternalError with it if results or bytes are not as planned."""
        if args or kwargs:
            self._remember(self._entry(args, kwargs))
        entry = self._known()
        if other := [name for name, now, then in zip(SETTINGS, settings(), entry.settings) if now != then]:
            raise UserError(f"check: {self.__name__} was planned under another {other[0]}; check it where that is set alike")
        return check_step(entry, args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """As jax.jit(...).lower, of the planned program."""
        entry = self._entry(args, kwargs)
        self._remember(entry)
        parts, keywords = entry.types
        return entry.jitted.lower(*parts, *(keywords[name] for name in entry.keywords))

    def trace(self, *args: Any, **kwargs: Any) -> jax.stages.Traced:
        """As jax.jit(...).trace, of the planned program."""
        parts, keywords = (entry := self._entry(args, kwargs)).types
        self._remember(entry)
        return entry.jitted.trace(*parts, *(keywords[name] for name in entry.keywords))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As jax.jit(...).eval_shape: shapes and types of the results. Nothing is planned for it."""
        return jax.jit(self._signature.fn, **self._signature.jit_options).eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets the plans and what was compiled; the next call plans again."""
        self._entries.clear()
        self._seen.clear()
        self._last = self._fast = None

    def save_plan(self, path: str | os.PathLike[str]) -> None:
        self.plan.save(path)


def _type_of(leaf):
    shape = getattr(leaf, "shape", None)
    if shape is None or not hasattr(leaf, "dtype"):
        leaf = jax.typeof(leaf)
    return tuple(leaf.shape), leaf.dtype, getattr(leaf, "weak_type", False)


def refuse_unhashable(fn, which, value):
    try:
        hash(value)
    except TypeError:
        name = which if isinstance(which, str) else parameter_names(fn, which + 1)[which]
        raise UserError(f"autoshard: the static argument {name} is a {type(value).__name__}, which has no hash to remember its "
                        "plan by; give a tuple, a frozen dataclass or a string") from None


def refuse_other_leaves(fn, args, kwargs, positions, names):
    """Says which leaf of the arguments is nothing that JAX computes with."""
    roots = parameter_names(fn, len(args))
    trees = [(roots[i], arg) for i, arg in enumerate(args) if i not in positions]
    trees += [(name, kwargs[name]) for name in sorted(kwargs) if name not in names]
    for root, tree in trees:
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            try:
                jax.typeof(leaf)
            except TypeError:
                raise UserError(f"autoshard: {path_text(root, path)} is a {type(leaf).__name__}, which is no array; make the "
                                "argument static (static_argnames), or take such leaves out of the tree and close over them "
                                "(equinox.partition, nnx.split)") from None


def autoshard(fn: Callable[Parameters, Result], mesh: Mesh | AbstractMesh | int, *, static_argnums: Numbers = None,
              static_argnames: Words = None, donate_argnums: Numbers = None, donate_argnames: Words = None,
              **options: Unpack[PlanOptions]) -> AutoshardedFunction[Parameters, Result]:
    """fn as a function like that of jax.jit, planned for a mesh (or a number of devices) and run exactly as planned.

    fn is traced and planned when it is first called with arguments of new shapes. Arguments in other layouts are moved.

    machine         that the plan is for: "h100", "a100", "tpu-v5p", ... or a file of `cleave calibrate`
    memory          of a device: "80GiB"; the machine's if none is given
    pins            layouts by path: {"params/layers/*/attn/q": P(None, "model")}
    in_shardings    layouts of positional arguments, and
    out_shardings   of results, as for jax.jit; None leaves them to the plan
    honour_layouts  arguments that lie on the mesh already stay as they are (True)
    tie_state       a result that looks like an argument (the same tree of the same shapes) is that argument of the next
                    step, and lies as it does (True)
    form            "manual": one manual computation, which XLA runs exactly as planned; "constraints": hints on every value,
                    which XLA may follow otherwise
    plan            a plan file to use instead of planning
    fit             "planned": the planner's count of memory is within the limit; "compiled": XLA's count is, of the program
                    compiled for these devices: it is planned and compiled up to eight times, and the best one that fits is kept
    objective       what the plan is the best for: "step", "sum" (as if nothing overlapped) or "bytes" (received by a device)
    solver, time_limit, gap, trips, every_layout, sub_axes, apart, by_effort, seed: docs/guide/planning.md, docs/guide/jax.md
    progress        True, False or a function that is told lines; None: a line in a terminal if planning takes long
    """
    if isinstance(mesh, bool) or not isinstance(mesh, int):
        layouts.check_mesh(mesh)
    elif not 1 <= mesh <= jax.device_count():
        raise UserError(f"autoshard: {mesh} devices; at least one is needed" if mesh < 1 else
                        f"autoshard: {mesh} devices, and there are {jax.device_count()}; cleave.jax.plan plans for more")
    if not callable(fn):
        raise UserError(f"autoshard: a function is needed, not {type(fn).__name__}")
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return AutoshardedFunction(fn, mesh, signature, make_options("autoshard", options))


def plan(fn: Callable[..., Any], *args: Any, mesh: Mesh | AbstractMesh | int, static_argnums: Numbers = None,
         static_argnames: Words = None, donate_argnums: Numbers = None, donate_argnames: Words = None,
         kwargs: Mapping[str, Any] | None = None, **options: Unpack[PlanOptions]) -> JaxPlan:
    """The plan of fn for arguments of these shapes (arrays or jax.ShapeDtypeStruct), without running anything. The mesh may be
    abstract. Other options are those of `autoshard`; `kwargs` has keyword arguments of fn."""
    layouts.check_mesh(mesh) if not isinstance(mesh, int) else None
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    made = make_options("plan", options)
    if made.fit == "compiled" and isinstance(mesh, jax.sharding.AbstractMesh):
        raise UserError("plan: fit='compiled' compiles for the devices of the mesh, and an AbstractMesh has none")
    return Entry(signature, mesh, made, args, dict(kwargs or {})).plan
