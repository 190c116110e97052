"""Functions over Tensors as programs: compiled (`jit`), over a mesh (`shard_map`), planned for a machine (`autoshard`)."""

import collections
import threading
import types

from cleave import _core, tree
from cleave._core import UserError
from cleave.calls import Body, Call, Parts, inside_another, named_like
from cleave.specs import is_spec, mesh_text, spec_text

MAX_PROGRAMS = 64  # those that ran last are kept


def _numbers(value):
    return (value,) if isinstance(value, int) else tuple(value)


class Cache:
    """By structure and plain values, the programs that ran last."""

    def __init__(self):
        self.entries = collections.OrderedDict()
        self.lock = threading.RLock()

    def find(self, key, fits):
        for entry in self.entries.get(key, ()):
            if fits(entry):
                self.entries.move_to_end(key)
                return entry
        return None

    def add(self, key, entry):
        self.entries.setdefault(key, []).insert(0, entry)
        self.entries.move_to_end(key)
        while sum(map(len, self.entries.values())) > MAX_PROGRAMS:
            oldest = next(iter(self.entries))
            self.entries[oldest].pop()
            if not self.entries[oldest]:
                del self.entries[oldest]


def _hashable(key, what):
    try:
        hash(key)
    except TypeError as error:
        raise UserError(f"{what}: a static argument can not be compared with that of another call: {error}") from None
    return key


class JitFunction:
    """See `jit`."""

    def __init__(self, f, donate_argnums, static_argnums, static_argnames, engine, threads):
        self.f, self.engine, self.threads = f, engine, threads
        self.donate, self.static = _numbers(donate_argnums), _numbers(static_argnums)
        self.static_names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.cache, self.traces, self.runs = Cache(), 0, 0
        named_like(f, self)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def _split(self, args, kwargs):
        """The call without what is static, the function of it, and the key of what is static."""
        places = {number % len(args) for number in self.static if -len(args) <= number < len(args)}
        named = {name: kwargs[name] for name in self.static_names if name in kwargs}
        if not places and not named:
            return Call(args, kwargs), self.f, None, list(range(len(args)))
        free = [i for i in range(len(args)) if i not in places]
        fixed = {i: args[i] for i in places}

        def f(*inner, **options):
            given = dict(zip(free, inner)) | fixed
            return self.f(*(given[i] for i in range(len(args))), **options, **named)

        rest = {name: value for name, value in kwargs.items() if name not in named}
        key = tuple((i, type(v), v) for i, v in sorted(fixed.items())), tuple(sorted(named.items()))
        return Call(tuple(args[i] for i in free), rest), f, _hashable(key, "jit"), free

    def __call__(self, *args, **kwargs):
        call, f, static, free = self._split(args, kwargs)
        if inside_another(call.tensors):
            return self.f(*args, **kwargs)
        key = _hashable((call.key, static), "jit")
        with self.cache.lock:
            entry = self.cache.find(key, lambda known: known[0].fits(call.tensors))
            if entry is None:
                entry = self._compile(call, f, free)
                self.cache.add(key, entry)
            self.runs += 1
        program, result = entry
        return result.rebuild(program.run(call.tensors))

    def _compile(self, call, f, free):
        body = Body(f, call)
        counts, donated = call.counts, []
        for number in self.donate:
            if number not in free:
                raise UserError(f"jit: argument {number} is to be donated, and is static or missing")
            place = free.index(number)
            begin = sum(counts[:place])
            donated += range(begin, begin + counts[place])
        self.traces += 1
        program = _core.compile(body, call.tensors, call.names, donated, self.engine, self.threads)
        body.result.tensors = []  # they belong to the trace
        return program, body.result

    def clear_cache(self):
        self.cache = Cache()

    def description(self):
        """Of the program that ran last: steps, memory, times of passes."""
        if not self.cache.entries:
            raise UserError("jit: nothing is compiled yet; call the function first")
        return next(reversed(self.cache.entries.values()))[0][0].description()


def jit(f=None, *, donate_argnums=(), static_argnums=(), static_argnames=(), engine="cleave", threads=0):
    """f, traced once for each signature of its arguments and run as one program. The signature has the structure of the
    arguments, the types and layouts of Tensors, and what is static: the arguments `static_argnums`, strings, functions.

    Memory of the arguments `donate_argnums` goes to results; they have no value afterwards. engine="xla" compiles and runs by
    XLA. Inside another transform it is f itself. Tensors from outside keep the values that they have at the trace."""
    if f is None:
        return lambda g: jit(g, donate_argnums=donate_argnums, static_argnums=static_argnums,
                             static_argnames=static_argnames, engine=engine, threads=threads)
    return JitFunction(f, donate_argnums, static_argnums, static_argnames, engine, threads)


def _spec_leaves(specs, structure, select, what):
    """The text of a spec, or None, for each Tensor."""
    found = tree.broadcast_prefix(specs, structure, is_leaf=lambda value: is_spec(value) or isinstance(value, str), what=what)
    return [None if spec is None else spec_text(spec) for spec in select(found)]


def _in_specs(specs, call, what):
    if specs is None or is_spec(specs):
        return _spec_leaves(specs, call.structure, call.select, what)
    specs = tuple(specs)
    if len(specs) > call.num_args:
        raise UserError(f"{what}: {len(specs)} specs for {call.num_args} arguments")
    padded = specs + (None,) * (call.num_args - len(specs))
    return _spec_leaves((padded, dict.fromkeys(call.structure.children[1].rest)), call.structure, call.select, what)


def shard_map(f, mesh, in_specs=None, out_specs=None, *, mode="manual", check=True, machine="default", memory=""):
    """f over a mesh. Specs are P(...), for an argument or a result with all its leaves, or trees of them.

    mode="manual": f sees its device's part and calls collectives (`cleave.comm`), as in JAX; what has no spec is replicated.
    A result that its spec calls the same on all devices along an axis must be so, unless check=False. mode="auto": f is
    written for whole tensors, and propagation decides what specs leave open. mode="plan": the best plan does (`autoshard`)."""
    if mode == "plan":
        return autoshard(f, mesh, in_specs=in_specs, out_specs=out_specs, machine=machine, memory=memory)
    if mode not in ("manual", "auto"):
        raise UserError(f"shard_map: mode is 'manual', 'auto' or 'plan', not {mode!r}")
    text = mesh_text(mesh)

    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        body = Body(f, call)

        def out():
            return _spec_leaves(out_specs, body.result.structure, body.result.select, "shard_map: out_specs")

        values = _core.shard_map(body, call.tensors, call.names, text, _in_specs(in_specs, call, "shard_map: in_specs"), out,
                                 mode == "manual", check)
        return body.result.rebuild(values)

    return named_like(f, wrapped)


class AutoshardedFunction:
    """See `autoshard`."""

    def __init__(self, f, mesh, in_specs, out_specs, options):
        self.f, self.in_specs, self.out_specs, self.options = f, in_specs, out_specs, options
        self.mesh, self.devices = ("", mesh) if isinstance(mesh, int) else (mesh_text(mesh), 0)
        if not self.mesh and (in_specs is not None or out_specs is not None or options.get("pins")):
            raise UserError(f"autoshard: specs and pins speak of axes of a mesh, and for a number of devices ({mesh}) the "
                            "mesh is chosen; give a mesh instead")
        self.cache, self.last, self.num_plans = Cache(), None, 0
        named_like(f, self)

    def __call__(self, *args, **kwargs):
        if _core.in_manual_scope():
            return self.f(*args, **kwargs)
        call, (planned, result, _) = self._entry(args, kwargs)
        run = planned.replay if inside_another(call.tensors) else planned.run
        return result.rebuild(run(call.tensors))

    def prepare(self, *args, **kwargs):
        """Plans for arguments like these, without running anything."""
        self._entry(args, kwargs)
        return self

    def _entry(self, args, kwargs):
        call = Call(args, kwargs)
        types_of = tuple((x.shape, x.dtype_name) for x in call.tensors)
        key = _hashable((call.key, types_of), "autoshard")
        with self.cache.lock:
            entry = self.cache.find(key, lambda known: True)
            if entry is None:
                entry = self._plan(call)
                self.cache.add(key, entry)
                self.num_plans += 1
            self.last = entry
        return call, entry

    def _plan(self, call):
        body = Body(self.f, call)

        def out():
            return _spec_leaves(self.out_specs, body.result.structure, body.result.select, "autoshard: out_specs")

        planned = _core.plan_function(body, call.tensors, call.names, call.counts, self.mesh, self.devices,
                                      _in_specs(self.in_specs, call, "autoshard: in_specs"), out, self.options)
        body.result.tensors = []
        return planned, body.result, (call.roots, call.counts)

    def _planned(self):
        if self.last is None:
            raise UserError("autoshard: nothing is planned yet; call the function first, or prepare(arguments)")
        return self.last[0]

    @property
    def plan(self):
        """The Plan of the last call, or of `prepare`."""
        from cleave.plans import Plan

        planned = self._planned()
        return Plan(_core.plan_from_json(planned.plan_json(), planned.module()))

    def place(self, value, argnum=None):
        """A tree that is an argument of the function (the first one like it, or `argnum`), laid out as planned. Before the
        first call nothing is planned, and the tree is returned as it is: the call lays it out."""
        if self.last is None:
            return value
        planned, _, (roots, counts) = self.last
        parts = Parts(value)
        if argnum is None:
            alike = [i for i, root in enumerate(roots) if root == parts.structure]
            argnum = next((i for i in alike if planned.takes(sum(counts[:i]), parts.tensors)), None)
            if argnum is None:
                raise UserError("place: no argument of the function is such a tree, of these types: the plan is for other "
                                "sizes, or for another function")
        return parts.rebuild(planned.place(sum(counts[:argnum]), parts.tensors))

    def explain(self):
        """What was chosen, what it costs, and why."""
        return self._planned().explain()

    def verify(self):
        """Runs the plan on virtual devices and on one, and compares results, collectives, bytes and memory with what was
        planned. Returns the report; raises InternalError with it if anything differs."""
        return self._planned().verify()

    def save_plan(self, path):
        self._planned().save_plan(str(path))

    def description(self):
        """How the planned function is made up: steps, memory, times of passes."""
        return self._planned().description()


def autoshard(f=None, mesh=None, *, in_specs=None, out_specs=None, pins=(), donate_argnums=(), trace=None, **options):
    """f, written for whole tensors, over a mesh (or a number of devices, for which the mesh is chosen), in the layouts of the
    best plan for a machine: traced, planned and made ready once for each signature, then run.

        step = cleave.autoshard(train_step, "data=2,model=4", machine="h100", memory="80GiB", donate_argnums=0)
        state, loss = step(step.place(state), batch)
        print(step.plan.explain())

    Options are those of C++'s AutoshardOptions: machine, memory, memory_share, objective, solver, compiled, engine, plan (a
    file), debug, time_limit, gap, every_layout, sub_axes. `pins` maps names of leaves to specs; `trace` is called with lines of progress."""
    known = {"machine", "memory", "memory_share", "objective", "solver", "compiled", "engine", "plan", "debug", "time_limit",
             "gap", "every_layout", "sub_axes"}  # fmt: skip
    if unknown := set(options) - known:
        raise TypeError(f"autoshard: no option {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    if mesh is None:
        raise UserError("autoshard: give a mesh, or a number of devices")
    if f is None:
        return lambda g: autoshard(g, mesh, in_specs=in_specs, out_specs=out_specs, pins=pins, donate_argnums=donate_argnums,
                                   trace=trace, **options)
    options = {name: str(value) if name == "plan" else value for name, value in options.items() if value is not None}
    options["donate"] = list(_numbers(donate_argnums))
    if pins:
        options["pins"] = [(name, spec_text(spec)) for name, spec in dict(pins).items()]
    if trace is not None:
        options["trace"] = trace
    return AutoshardedFunction(f, mesh, in_specs, out_specs, options)
