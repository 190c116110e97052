"""From a function of JAX to a module of Cleave."""

import dataclasses
import inspect
import os

import jax
from jax import export
from jax.extend import source_info_util
from jax.sharding import AxisType, NamedSharding

from cleave import _core
from cleave._core import UserError

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
    exported: export.Exported
    module: _core.Module
    arguments: list  # leaves, in the order of the module
    results: list


# Primitives that call back to Python. A planned program runs on every device, so that each would call.
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


def trace(jitted, fn, args, kwargs, static):
    """`jitted` is fn under jax.jit with its static and donated arguments; args and kwargs are as the caller has them, with
    static arguments in place; `static` has the positions and names of those."""
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
    try:
        traced = jitted.trace(*args, **kwargs)
    except Exception:
        # The function may rely on the layouts that its arguments have, if axes of the mesh are explicit.
        laid_out = typed(layouts=True)
        if laid_out == (args, kwargs):
            raise
        args, kwargs = laid_out
        traced = jitted.trace(*args, **kwargs)
    refuse_callbacks(traced.jaxpr)
    exported = export.export(jitted)(*args, **kwargs)
    if exported.ordered_effects or exported.unordered_effects:
        raise UserError(f"autoshard: the function has effects ({exported.ordered_effects + exported.unordered_effects}), which "
                        "a planned program has no order for; move them out of the function")
    if len(exported.module_kept_var_idx) != len(arguments) or len(exported.platforms) != 1:
        raise _core.InternalError("the exported module has other arguments than the function")
    results = leaves_of([""], [jax.tree.unflatten(exported.out_tree, [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.out_avals])])
    return Traced(exported, _core.Module.parse(module_text(exported), exported.fun_name), arguments, results)


def module_text(exported):
    """With the lines of the user's source."""
    with jax.interpreters.mlir.make_ir_context():
        module = exported.mlir_module(serialized=False)
        return module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)


def refuse_symbolic(leaves):
    for leaf in leaves:
        for size in leaf.shape:
            if not isinstance(size, int):
                raise UserError(f"autoshard: {leaf.path} has the symbolic size {size}; a plan is for certain sizes, and other "
                                "sizes are planned when they come")


def refuse_callbacks(jaxpr):
    found = find_callback(jaxpr.jaxpr)
    if found is None:
        return
    line = source_of(found)
    raise UserError(f"autoshard: {found.primitive.name}{f' at {line}' if line else ''} calls Python, and would do so on every "
                    "device; return the value from the function and use it outside")


def find_callback(jaxpr):
    for equation in jaxpr.eqns:
        if any(word in equation.primitive.name for word in CALLBACKS):
            return equation
        for inner in inner_jaxprs(equation):
            found = find_callback(inner)
            if found is not None:
                return found
    return None


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
