"""From a function of JAX to a module of Cleave."""

import contextlib
import dataclasses
import functools
import inspect
import os

import jax
from jax import export
from jax.extend import source_info_util
from jax.extend.mlir import ir
from jax.sharding import AbstractMesh, AxisType, NamedSharding

from cleave import _core
from cleave._core import UserError
from cleave.jax import callbacks

source_info_util.register_exclusion(os.path.dirname(__file__))  # lines of the user's source are wanted


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array among the arguments or results."""

    path: str  # params/layers/0/w
    shape: tuple
    dtype: object
    trailing: int = 0  # dimensions that only the module knows: those of a random key

    @property
    def rank(self):
        return len(self.shape)


@dataclasses.dataclass
class Traced:
    exported: export.Exported | callbacks.LoweredFunction
    module: _core.Module
    arguments: list  # leaves, in the order of the module
    results: list


# Primitives that call back to Python.
CALLBACKS = ("callback", "debug_print")


def abstract(tree, layouts=False):
    """The tree with shapes and dtypes alone: what the arrays are, not where they lie. With `layouts`, those on explicit axes
    of a mesh keep theirs, which is part of their type for JAX."""
    def one(leaf):
        aval = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
        given = getattr(leaf, "sharding", None)
        keeps = layouts and isinstance(given, NamedSharding) and AxisType.Explicit in given.mesh.axis_types
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False),
                                    sharding=given if keeps else None)
    return jax.tree.map(one, tree)


def name_of(fn):
    """That of the function, of the function in a partial, or of the class of an object that is called."""
    name = getattr(fn, "__name__", None)
    if name is not None:
        return name
    return name_of(fn.func) if isinstance(fn, functools.partial) else type(fn).__name__


def parameter_names(fn, count):
    """Of the positional arguments: those of the signature, arg3 if it has none there."""
    names = []
    try:
        for parameter in inspect.signature(fn).parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
    except (TypeError, ValueError):
        pass
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def path_text(root, path):
    parts = [root] if root else []
    for key in path:
        name = next((str(getattr(key, field)) for field in ("key", "name", "idx") if hasattr(key, field)), str(key))
        parts.append("".join(c if c not in "=/*#'\" \t\n" else "_" for c in name) or "_")
    return "/".join(parts)


def leaves_of(roots, trees):
    """Leaves with their paths; each root is the name of a tree."""
    found, used = [], {}
    for root, tree in zip(roots, trees):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            text = path_text(root, path)
            used[text] = used.get(text, 0) + 1
            if used[text] > 1:
                text += f"_{used[text]}"
            found.append(Leaf(text, tuple(leaf.shape), leaf.dtype, trailing_dimensions(leaf)))
    return found


def trailing_dimensions(leaf):
    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return 0
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))
    return len(data.shape) - len(leaf.shape)


def trace(jitted, fn, args, kwargs, static, platform=None):
    """`jitted` is fn under jax.jit with its static and donated arguments; args and kwargs are as the caller has them, with
    static arguments in place; `static` has the positions and names of those. `platform` is that of the devices, if they are not
    JAX's default ones."""
    positions, names = static
    given = args, kwargs

    def typed(layouts):
        args, kwargs = given
        return ([arg if i in positions else abstract(arg, layouts) for i, arg in enumerate(args)],
                {name: value if name in names else abstract(value, layouts) for name, value in kwargs.items()})
    args, kwargs = typed(layouts=False)
    roots = parameter_names(fn, len(args))
    dynamic = [(roots[i], arg) for i, arg in enumerate(args) if i not in positions]
    dynamic += [(name, kwargs[name]) for name in sorted(kwargs) if name not in names]
    arguments = leaves_of([root for root, _ in dynamic], [tree for _, tree in dynamic])
    refuse_symbolic(arguments)
    ways = list(ways_to_trace(typed))
    for number, (context, with_types, (args, kwargs)) in enumerate(ways, 1):
        is_last = number == len(ways)
        with context:
            try:
                traced = jitted.trace(*args, **kwargs)
            except Exception:
                if is_last:
                    raise
                continue
            # On auto axes a reshard to a replicated layout says nothing.
            if is_last or with_types or not any(one.primitive.name == "reshard" for one in equations_of(traced.jaxpr.jaxpr)):
                return lowered_as(jitted, fn, args, kwargs, static, platform, traced, arguments, with_types)


def ways_to_trace(typed):
    """One after the other, until the function can be traced: a context, whether types have layouts in it, and the arguments.

    If axes of the mesh that is set (jax.set_mesh) are explicit, every op pins its result where its operands lie, which leaves
    nothing to plan. So these axes are auto at first. The function may rely on explicit ones, or on layouts of its arguments.
    """
    bare, laid_out, mesh = typed(layouts=False), typed(layouts=True), jax.sharding.get_abstract_mesh()
    if AxisType.Explicit in mesh.axis_types:
        auto = AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        yield jax.sharding.use_abstract_mesh(auto), False, bare
        yield contextlib.nullcontext(), True, bare
    else:
        yield contextlib.nullcontext(), False, bare
    if jax.tree.leaves(laid_out) != jax.tree.leaves(bare):  # trees of the user's own may compare as they like
        yield contextlib.nullcontext(), True, laid_out


def lowered_as(jitted, fn, args, kwargs, static, platform, traced, arguments, with_types):
    """The module of a function that can be traced like this. `with_types`: its types have layouts."""
    positions, names = static
    refuse_host_memory(traced.jaxpr.jaxpr)
    calls = callbacks_of(traced.jaxpr.jaxpr)
    for call in calls:
        refuse_results_of_effects(call)
    if calls:
        given = (tuple(arg for i, arg in enumerate(args) if i not in positions),
                 {name: value for name, value in kwargs.items() if name not in names})
        if platform:
            raise UserError("autoshard: a function that calls Python is planned for JAX's default devices alone")
        lowered = callbacks.lower(jitted, args, kwargs, given, name_of(fn))
        text = without_replicated(lowered.text) if with_types else lowered.text
        return Traced(lowered, _core.Module.parse(text, lowered.fun_name), arguments, results_of(lowered))
    exported = export.export(jitted, platforms=[platform] if platform else None)(*args, **kwargs)
    if exported.ordered_effects or exported.unordered_effects:
        call = next((call for call in equations_of(traced.jaxpr.jaxpr) if call.effects), None)
        what = "" if call is None else f", {call.primitive.name}{f' at {line}' if (line := source_of(call)) else ''}"
        raise UserError(f"autoshard: {name_of(fn)} has an effect that a planned program does not "
                        f"have{what}; take it out of the function")
    if len(exported.module_kept_var_idx) != len(arguments) or len(exported.platforms) != 1:
        raise _core.InternalError("the exported module has other arguments than the function")
    return Traced(exported, _core.Module.parse(module_text(exported, with_types), exported.fun_name), arguments, results_of(exported))


def results_of(exported):
    return leaves_of([""], [jax.tree.unflatten(exported.out_tree, [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.out_avals])])


def module_text(exported, with_types):
    """With the lines of the user's source."""
    with jax.interpreters.mlir.make_ir_context():
        module = exported.mlir_module(serialized=False)
        if with_types:
            drop_replicated(module)
        return module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)


def without_replicated(text):
    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(text)
        drop_replicated(module)
        return module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)


def drop_replicated(module):
    """Takes out what types with layouts say about arrays that nobody has laid out: that they are replicated. What the function
    writes itself stays."""
    def is_replicated(sharding):
        return "sdy.sharding<" in str(sharding) and '{"' not in str(sharding)
    constraints = []

    def visit(op):
        if op.name == "sdy.sharding_constraint" and is_replicated(op.attributes["sharding"]):
            if "reshard" not in str(op.location) and "sharding_constraint" not in str(op.location):
                constraints.append(op)
        if op.name == "func.func":
            for which in ("arg_attrs", "res_attrs"):
                if which in op.attributes:
                    op.attributes[which] = ir.ArrayAttr.get([ir.DictAttr.get({
                        one.name: one.attr for one in attributes if one.name != "sdy.sharding" or not is_replicated(one.attr)})
                        for attributes in op.attributes[which]])
        return ir.WalkResult.ADVANCE
    module.operation.walk(visit)
    for op in constraints:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def refuse_symbolic(leaves):
    for leaf in leaves:
        for size in leaf.shape:
            if not isinstance(size, int):
                raise UserError(f"autoshard: {leaf.path} has the symbolic size {size}; a plan is for certain sizes, and other "
                                "sizes are planned when they come")


def refuse_results_of_effects(equation):
    """What every device calls must be the same everywhere: io_callback may return something else each time."""
    if equation.primitive.name != "io_callback" or not equation.outvars:
        return
    line = source_of(equation)
    raise UserError(f"autoshard: io_callback{f' at {line}' if line else ''} returns something, and would be called on every "
                    "device; use pure_callback if it always returns the same, or call it outside of the function")


def refuse_host_memory(jaxpr):
    """A plan has every array in the memory of devices, and would leave out that one is moved."""
    for equation in equations_of(jaxpr):
        if any(getattr(result.aval, "memory_space", None) == jax.memory.Space.Host for result in equation.outvars):
            line = source_of(equation)
            raise UserError(f"autoshard: {equation.primitive.name}{f' at {line}' if line else ''} moves an array to the memory of "
                            "the host, and a plan has every array in that of devices; take it out of the function (in "
                            "jax.checkpoint, a policy that does not offload)")


def callbacks_of(jaxpr):
    return [one for one in equations_of(jaxpr) if any(word in one.primitive.name for word in CALLBACKS)]


def equations_of(jaxpr):
    """All of them, the innermost first."""
    for equation in jaxpr.eqns:
        for inner in inner_jaxprs(equation):
            yield from equations_of(inner)
        yield equation


def inner_jaxprs(equation):
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


def source_of(equation):
    frame = None
    traceback = getattr(equation.source_info, "traceback", None)
    if traceback is not None:
        own = [f for f in traceback.frames if "site-packages/jax/" not in f.file_name and "/jax/_src/" not in f.file_name]
        frame = own[0] if own else None
    return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.line_num}" if frame else ""
