"""autoshard: a function of JAX, planned and run as planned."""

import functools

import jax
import numpy as np
from jax.sharding import NamedSharding

from cleave import _core, profiles, progress
from cleave._core import UserError
from cleave.jax import applied, layouts
from cleave.jax.check import check_step
from cleave.jax.plans import JaxPlan
from cleave.jax.traced import abstract, parameter_names, trace

FORMS = ("manual", "constraints")


class Options:
    """What is planned, for which machine, under which conditions."""

    def __init__(self, machine="default", memory=None, memory_share=None, pins=None, in_shardings=None, out_shardings=None,
                 honour_layouts=True, tie_state=True, form="manual", plan=None, solver="cleave", time_limit=10.0, gap=0.01, trips=1,
                 every_layout=False, sub_axes=False, apart=False, seed=0, progress=None):
        if form not in FORMS:
            raise UserError(f"autoshard: form '{form}': there are {' and '.join(FORMS)}")
        self.memory = "" if memory is None else memory if isinstance(memory, str) else str(int(memory))
        self.machine, self.memory_share, self.pins = profiles.source_of(machine), memory_share, layouts.Pins(pins)
        self.in_shardings, self.out_shardings, self.honour_layouts = in_shardings, out_shardings, honour_layouts
        self.tie_state, self.form, self.plan, self.progress = tie_state, form, plan, progress
        self.solver = dict(solver=solver, time_limit=float(time_limit), gap=float(gap), trips=trips, every_layout=every_layout,
                           sub_axes=sub_axes, apart=apart, seed=seed)


def as_tuple(value):
    return () if value is None else (value,) if isinstance(value, (int, str)) else tuple(value)


class Signature:
    """Which arguments of a function are static and which are donated."""

    def __init__(self, fn, static_argnums, static_argnames, donate_argnums, donate_argnames):
        self.fn = fn
        self.jit_options = dict(static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
                                donate_argnames=donate_argnames)
        jax.jit(fn, **self.jit_options)  # JAX checks them
        self.static_numbers, self.static_names = as_tuple(static_argnums), as_tuple(static_argnames)
        self.donated_numbers, self.donated_names = as_tuple(donate_argnums), as_tuple(donate_argnames)

    def split(self, args, kwargs):
        """Positions and names of static arguments, and positions and names of donated ones, of a call."""
        names = parameter_names(self.fn, len(args))
        positions = {n % len(args) for n in self.static_numbers if args and -len(args) <= n < len(args)}
        positions |= {names.index(name) for name in self.static_names if name in names}
        named = {name for name in kwargs if name in self.static_names}
        named |= {name for name in kwargs if self._number_of(name) in {n for n in self.static_numbers}}
        donated = {n % len(args) for n in self.donated_numbers if args and -len(args) <= n < len(args)}
        donated |= {names.index(name) for name in self.donated_names if name in names}
        donated_names = {name for name in kwargs if name in self.donated_names}
        return (positions, named), (donated - positions, donated_names)

    def _number_of(self, name):
        names = parameter_names(self.fn, 64)
        return names.index(name) if name in names else None


class Entry:
    """A function for arguments of certain shapes: traced, planned, ready to run."""

    def __init__(self, signature, mesh, options, args, kwargs):
        self.signature, self.options = signature, options
        self.static, self.donated = signature.split(args, kwargs)
        positions, names = self.static
        self.keywords = [name for name in sorted(kwargs) if name not in names]
        self.positions = [i for i in range(len(args)) if i not in positions]
        self.is_plain = not kwargs and not positions
        self.reference = jax.jit(signature.fn, keep_unused=True, **signature.jit_options)
        self.traced = trace(self.reference, signature.fn, args, kwargs, self.static, layouts.other_platform(mesh))
        self.types = abstract((tuple(args[i] for i in self.positions), {name: kwargs[name] for name in self.keywords}))
        self.static_values = ({i: args[i] for i in positions}, {name: kwargs[name] for name in kwargs if name in names})
        core = self._planned(mesh, args, kwargs)
        self.plan = JaxPlan(core, self.traced, mesh if not isinstance(mesh, int) else mesh_for(core))
        self.in_shardings = [self.plan.shardings(specs) for specs in self._by_argument(self.plan.in_specs)]
        self.out_shardings = self.plan.shardings(self.plan.out_specs)

    def _by_argument(self, pair):
        return [*pair[0], *(pair[1][name] for name in self.keywords)]

    def _planned(self, mesh, args, kwargs):
        options, traced = self.options, self.traced
        names = [leaf.path for leaf in traced.arguments]
        text = layouts.mesh_text(mesh) if not isinstance(mesh, int) else f"x={mesh}"
        wanted = self._result_texts()
        pins = self._pins(mesh, args, kwargs)
        following = next_arguments(self.types, traced) if options.tie_state else [-1] * len(names)
        module = traced.module.with_borders(names, text, wanted, following)
        if options.plan is not None:
            return _core.read_plan(str(options.plan), module)
        where = dict(devices=mesh) if isinstance(mesh, int) else dict(mesh=text)
        several = jax.process_count() > 1
        with progress.told(options.progress) as tell:
            core = _core.make_plan(module, **where, machine=options.machine, memory=options.memory,
                                   memory_share=options.memory_share, pins=pins, even_borders=True, by_effort=several,
                                   trace=tell, **options.solver)
        return core if not several else same_everywhere(core, module)

    def _pins(self, mesh, args, kwargs):
        """Pins of paths, then in_shardings, then layouts that arguments have; dimensions of random keys that only the module
        has stay whole."""
        leaves, options = self.traced.arguments, self.options
        if isinstance(mesh, int):
            if options.pins.pins or options.in_shardings is not None or options.out_shardings is not None:
                raise UserError(f"autoshard: pins and shardings name axes of a mesh; give a mesh instead of {mesh} devices")
            return []
        pins = options.pins.texts(leaves)
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
            elif leaf.trailing:
                pins.append(f"{leaf.path}=[{', '.join(['{?}'] * leaf.rank + ['{}'] * leaf.trailing)}]")
        return pins

    def _given(self, shardings):
        """A layout or None for each leaf of the arguments, from a tree of which each part may stand for a whole tree."""
        parts, keywords = self.types
        whole = shardings if isinstance(shardings, (tuple, list)) else (shardings,) * len(parts)
        if len(whole) != len(parts):
            raise UserError(f"autoshard: in_shardings has {len(whole)} entries, and the function was called with {len(parts)} "
                            "positional arguments")
        flat = []
        for i, (spec, tree) in enumerate(zip(whole, parts)):
            flat += broadcast(spec, tree, f"in_shardings[{i}]")
        return flat + [None] * len(jax.tree.leaves(keywords))

    def _result_texts(self):
        leaves = self.traced.results
        given = [None] * len(leaves)
        if self.options.out_shardings is not None:
            tree = jax.tree.unflatten(self.traced.exported.out_tree, leaves)
            given = broadcast(self.options.out_shardings, tree, "out_shardings")
        texts = []
        for i, (leaf, spec) in enumerate(zip(leaves, given)):
            if spec is not None:
                texts.append(layouts.spec_text(spec, leaf.rank, f"out_shardings of result {leaf.path or i}", leaf.trailing))
            elif leaf.trailing:
                texts.append(f"[{', '.join(['{?}'] * leaf.rank + ['{}'] * leaf.trailing)}]")
            else:
                texts.append("")
        return texts

    @functools.cached_property
    def jitted(self):
        """The planned program under jax.jit, by positional arguments."""
        exported = applied.with_module(self.traced.exported, self.plan.export(self.options.form))
        call, count, keywords = applied.callable_of(exported), len(self.positions), self.keywords

        def planned(*args):
            return call(args[:count], dict(zip(keywords, args[count:])))
        planned.__name__ = planned.__qualname__ = getattr(self.signature.fn, "__name__", "planned")
        donated = [self.positions.index(i) for i in sorted(self.donated[0])]
        donated += [count + keywords.index(name) for name in sorted(self.donated[1])]
        return jax.jit(planned, in_shardings=tuple(self.in_shardings), out_shardings=self.out_shardings,
                       donate_argnums=tuple(donated), keep_unused=True)

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
        if sharding.is_fully_addressable or isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        value = np.asarray(leaf)  # the same in all processes
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])
    return jax.tree.map(one, tree, shardings)


def broadcast(prefix, tree, what):
    """For each leaf of the tree the entry of the prefix that stands above it."""
    is_leaf = lambda x: x is None or isinstance(x, (jax.sharding.PartitionSpec, jax.sharding.Sharding))
    spread = []

    def take(spec, part):
        spread.extend([spec] * len(jax.tree.leaves(part)))
    try:
        jax.tree.map(take, prefix, tree, is_leaf=is_leaf)
    except ValueError as error:
        raise UserError(f"autoshard: {what} does not fit the tree: {str(error).splitlines()[0]}") from None
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
    axes, _, _ = core.borders()
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(size for _, size in axes), tuple(name for name, _ in axes), axis_types=kinds)


def same_everywhere(core, module):
    """The plan of process 0 in all processes."""
    from jax.experimental import multihost_utils
    own = np.frombuffer(core.json().encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(own.size)))
    text = np.zeros(size, np.uint8)
    text[: min(size, own.size)] = own[:size]
    text = bytes(np.asarray(multihost_utils.broadcast_one_to_all(text))).decode()
    return core if text == core.json() else _core.plan_from_json(text, module)


class AutoshardedFunction:
    """A function that is planned for the shapes of its arguments and runs as planned: see `autoshard`."""

    def __init__(self, fn, mesh, signature, options):
        functools.update_wrapper(self, fn, updated=())
        self._mesh, self._signature, self._options = mesh, signature, options
        self._entries = {}
        self._last = None
        self._fast = None  # of the only entry, if it takes positional arguments as they are

    def __call__(self, *args, **kwargs):
        fast = self._fast
        if fast is None or kwargs:
            return self._call(args, kwargs)
        try:
            return fast(*args)
        except (TypeError, ValueError) as error:
            return self._call(args, kwargs, error)

    def _call(self, args, kwargs, error=None):
        entry = self._entry(args, kwargs)
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

    def _entry(self, args, kwargs):
        key = self._key(args, kwargs)
        entry = self._entries.get(key)
        if entry is None:
            if isinstance(self._mesh, jax.sharding.AbstractMesh):
                raise UserError("autoshard: an AbstractMesh has no devices to run on; cleave.jax.plan plans for it")
            entry = self._entries[key] = Entry(self._signature, self._mesh, self._options, args, kwargs)
        return entry

    def _key(self, args, kwargs):
        (positions, names), _ = self._signature.split(args, kwargs)
        dynamic = ([arg for i, arg in enumerate(args) if i not in positions], {k: v for k, v in kwargs.items() if k not in names})
        leaves, tree = jax.tree.flatten(dynamic)
        static = (tuple((i, args[i]) for i in sorted(positions)), tuple((name, kwargs[name]) for name in sorted(names)))
        return tree, tuple(map(_type_of, leaves)), static

    def prepare(self, *args, **kwargs):
        """Plans for arguments of these shapes (arrays or jax.ShapeDtypeStruct) without running anything; returns the plan."""
        self._remember(self._entry(args, kwargs))
        return self.plan

    @property
    def plan(self):
        """The plan of the last call, or of the last `prepare`."""
        return self._known().plan

    def _known(self):
        if self._last is None:
            raise UserError(f"autoshard: {self.__name__} was not called yet, and its plan depends on the shapes of its "
                            "arguments; call it, or prepare(*args) with arrays or jax.ShapeDtypeStruct")
        return self._last

    def place(self, tree, argnum=None):
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
        if argnum is not None:
            key = labels.index(argnum) if argnum in labels else entry.positions.index(argnum) if argnum in entry.positions else None
            if key is None:
                raise UserError(f"place: there is no argument {argnum!r}; there are {', '.join(labels)}")
            return key
        leaves, structure = jax.tree.flatten(tree)
        shapes = [np.shape(leaf) for leaf in leaves]
        for i, part in enumerate(parts):
            if jax.tree.structure(part) == structure and [leaf.shape for leaf in jax.tree.leaves(part)] == shapes:
                return i
        raise UserError(f"place: no argument has this structure and these shapes ({len(leaves)} arrays); there are "
                        + ", ".join(f"{label} ({len(jax.tree.leaves(part))} arrays)" for label, part in zip(labels, parts)))

    def check(self, *args, **kwargs):
        """Sets what was planned beside what XLA compiled (collectives with their bytes, memory), and compares results with the
        unsharded function: on these arguments, or on random ones of the last call's shapes. Returns the report; raises
        InternalError with it if results or bytes are not as planned."""
        if args or kwargs:
            self._remember(self._entry(args, kwargs))
        return check_step(self._known(), args, kwargs)

    def lower(self, *args, **kwargs):
        """As jax.jit(...).lower, of the planned program."""
        entry = self._entry(args, kwargs)
        self._remember(entry)
        parts, keywords = entry.types
        return entry.jitted.lower(*parts, *(keywords[name] for name in entry.keywords))

    def save_plan(self, path):
        self.plan.save(path)


def _type_of(leaf):
    shape = getattr(leaf, "shape", None)
    if shape is None or not hasattr(leaf, "dtype"):
        aval = jax.typeof(leaf)
        return aval.shape, aval.dtype
    return tuple(shape), leaf.dtype


def autoshard(fn, mesh, *, static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None, **options):
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
    solver, time_limit, gap, trips, every_layout, sub_axes, apart, seed: docs/guide/planning.md
    progress        True, False or a function that is told lines; None: a line in a terminal if planning takes long
    """
    if isinstance(mesh, bool) or not isinstance(mesh, int):
        layouts.check_mesh(mesh)
    elif mesh < 1:
        raise UserError(f"autoshard: {mesh} devices; at least one is needed")
    if not callable(fn):
        raise UserError(f"autoshard: a function is needed, not {type(fn).__name__}")
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return AutoshardedFunction(fn, mesh, signature, make_options("autoshard", options))


def make_options(what, given):
    try:
        return Options(**given)
    except TypeError as error:
        raise UserError(f"{what}: {str(error).partition('__init__() ')[2]}") from None


def plan(fn, *args, mesh, static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None, kwargs=None,
         **options):
    """The plan of fn for arguments of these shapes (arrays or jax.ShapeDtypeStruct), without running anything. The mesh may be
    abstract. Other options are those of `autoshard`; `kwargs` has keyword arguments of fn."""
    layouts.check_mesh(mesh) if not isinstance(mesh, int) else None
    signature = Signature(fn, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Entry(signature, mesh, make_options("plan", options), args, kwargs or {}).plan
