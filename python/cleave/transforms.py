"""Derivatives and batches of functions over trees of Tensors. Each traces the function to a graph, transforms the graph and
records the outcome on the arguments, which may be those of an outer trace: all of them compose, in any order."""

from cleave import _core, tree
from cleave._core import Tensor, UserError
from cleave.calls import Body, Call, Parts, named_like


def _check_value(has_aux):
    def check(result):
        if has_aux and not (isinstance(result, tuple) and len(result) == 2):
            raise UserError("grad: with has_aux the function returns a pair, (value, aux)")
        value = result[0] if has_aux else result
        if len(tree.leaves(value)) != 1:
            raise UserError("grad: the function returns a tree, not one number; return (value, aux), and say has_aux=True")

    return check


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that gives f's value, and its gradient by the arguments `argnums`: a tree like the argument, a tuple of
    them for several. With has_aux f returns (value, aux), and the value here is that pair. Leaves of integers have None."""

    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        by = call.positions(argnums, "grad")
        body = Body(f, call, _check_value(has_aux))
        values, cotangents = _core.value_and_grad(body, call.tensors, call.names, call.counts, by)
        grads = tuple(call.argument(number, cotangents) for number in by)
        return body.result.rebuild(values), grads[0] if isinstance(argnums, int) else grads

    return named_like(f, wrapped)


def grad(f, argnums=0, has_aux=False):
    """A function that gives the gradient of f: as `value_and_grad`, without the value; with has_aux (gradient, aux)."""
    both = value_and_grad(f, argnums, has_aux)

    def wrapped(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return named_like(f, wrapped)


def jvp(f, primals, tangents):
    """(f(*primals), its derivative in the direction of the tangents). A tangent of None is zero."""
    call = Call(tuple(primals), {})
    directions = tree.flatten_like(call.structure, (tuple(tangents), {}), "jvp: tangents", holes=True)
    body = Body(f, call)
    values, made = _core.jvp(body, call.tensors, call.select(directions), call.names)
    return body.result.rebuild(values), body.result.rebuild(made, fixed=False)


def vjp(f, *primals, has_aux=False):
    """(f(*primals), pull), or with has_aux (value, pull, aux): pull(cotangent of the value) gives a tuple of the cotangents
    of all primals. The forward part is done once."""
    call = Call(primals, {})

    def check(result):
        if has_aux and not (isinstance(result, tuple) and len(result) == 2):
            raise UserError("vjp: with has_aux the function returns a pair, (value, aux)")

    body = Body(f, call, check)
    values, pullback = _core.vjp(body, call.tensors, call.names)
    result = body.result.rebuild(values)
    value = result[0] if has_aux else result
    shape = tree.structure(value)

    def pull(cotangent):
        given = tree.flatten_like(shape, cotangent, "vjp: the cotangent", holes=True)
        places = {place for place, _ in body.result.fixed}
        given = [item for place, item in enumerate(given) if place not in places]
        given += [None] * (len(values) - len(given))
        made = pullback(given)
        return tuple(call.argument(number, made) for number in range(call.num_args))

    return (value, pull, result[1]) if has_aux else (value, pull)


def _jacobian(f, argnums, forward):
    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        by = call.positions(argnums, "jacfwd" if forward else "jacrev")
        counts = call.counts
        outer = Body(f, call)
        _core.trace(outer, call.tensors, call.names)
        results = outer.result

        def by_leaf(leaf):
            """A tree like the result: the derivatives of each leaf by a leaf of the arguments."""
            def one(place):
                def body(tensors):
                    return [Body(f, call)(tensors)[place]]
                return _core.jacobian(body, call.tensors, call.names, leaf, forward)
            return [one(place) for place in range(len(results.tensors))]

        columns = {leaf: by_leaf(leaf) for number in by
                   for leaf in range(sum(counts[:number]), sum(counts[:number + 1]))}

        def of_result(place):
            cells = [columns[leaf][place] if leaf in columns else None for leaf in range(len(call.tensors))]
            made = tuple(call.argument(number, cells) for number in by)
            return made[0] if isinstance(argnums, int) else made

        return results.rebuild([of_result(place) for place in range(len(results.tensors))], fixed=False)

    return named_like(f, wrapped)


def jacfwd(f, argnums=0):
    """The matrix of derivatives, of shape (result, argument), by forward mode; of trees, a tree of trees."""
    return _jacobian(f, argnums, True)


def jacrev(f, argnums=0):
    """The same by reverse mode."""
    return _jacobian(f, argnums, False)


def hessian(f, argnums=0):
    """The second derivatives of a function with one number as its result."""
    return jacfwd(grad(f, argnums), argnums)


def vmap(f, in_axes=0, out_axes=0, *, axis_size=None, spmd_axis=None):
    """A function of one example as a function of many. `in_axes` says where the examples of each argument are (None: it is
    shared): a number, or a tuple with an entry per argument, which may be a tree. `spmd_axis` shards them over a mesh axis.
    Arguments by name have their examples in front."""

    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        positional, named = call.structure.children
        wanted = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * call.num_args
        if len(wanted) != call.num_args:
            raise UserError(f"vmap: in_axes has {len(wanted)} entries, and there are {call.num_args} arguments")
        axes = [axis for part, entry in zip(positional.children, wanted)
                for axis in tree.broadcast_prefix(entry, part, what="vmap: in_axes")]
        axes += [0] * named.num_leaves
        body = Body(f, call)

        def finish(count):
            out = tree.broadcast_prefix(out_axes, body.result.structure, what="vmap: out_axes")
            return body.result.select(out)

        values = _core.vmap(body, call.tensors, call.names, call.select(axes), finish, axis_size or 0, spmd_axis or "")
        return body.result.rebuild(values)

    return named_like(f, wrapped)


def trace(f):
    """trace(f)(*args) runs f on arguments without values, and gives its graph: `.text` is StableHLO, `.module()` a Module
    for the planner."""

    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        return _core.trace(Body(f, call), call.tensors, call.names)

    return named_like(f, wrapped)


def stop_gradient(value):
    """The same values, through which no derivative flows."""
    parts = Parts(value)
    return parts.rebuild(_core.stop_gradient(parts.tensors))


def checkpoint(f):
    """f, whose inner values are computed again for the derivative and not kept, except those marked by `keep`."""

    def wrapped(*args, **kwargs):
        call = Call(args, kwargs)
        body = Body(f, call)
        values = _core.named("cleave.checkpoint", body, call.tensors, call.names)
        return body.result.rebuild(values)

    return named_like(f, wrapped)


def keep(x):
    """The same value; inside a checkpoint it is kept for the derivative."""
    return _core.named("cleave.keep", lambda tensors: tensors, [x], [""])[0]


class custom_vjp:
    """f with a derivative of its own, as in JAX:

        @cleave.custom_vjp
        def f(x): ...
        f.defvjp(fwd, bwd)       fwd(x) -> (f(x), residuals);  bwd(residuals, cotangent) -> (cotangent of x,)

    The functions may use no Tensors but those that they are given."""

    def __init__(self, f, fwd=None, bwd=None):
        self.f, self.fwd, self.bwd = f, fwd, bwd
        named_like(f, self)

    def defvjp(self, fwd, bwd):
        self.fwd, self.bwd = fwd, bwd
        return self

    def __call__(self, *args):
        if self.fwd is None or self.bwd is None:
            raise UserError("custom_vjp: say what the derivative is with f.defvjp(fwd, bwd)")
        call = Call(args, {})
        body = Body(self.f, call)
        kept = []

        def forward(tensors):
            inside, _ = call.arguments(tensors)
            value, residuals = self.fwd(*inside)
            value, residuals = Parts(value, "result"), Parts(residuals, "residual")
            kept[:] = [value, residuals]
            return value.tensors + residuals.tensors

        def backward(tensors):
            value, residuals = kept
            count = len(residuals.tensors)
            made = self.bwd(residuals.rebuild(tensors[:count]), value.rebuild(tensors[count:]))
            if not (isinstance(made, tuple) and len(made) == call.num_args):
                raise UserError(f"custom_vjp: the backward function returns a tuple of {call.num_args} cotangents")
            given = call.select(tree.flatten_like(call.structure, (made, {}), "custom_vjp: cotangents", holes=True))
            return [item for item, x in zip(given, call.tensors) if item is not None and _is_smooth(x)]

        values = _core.custom_vjp(body, forward, backward, call.tensors, call.names)
        return body.result.rebuild(values)


def _is_smooth(x: Tensor):
    return "float" in x.dtype_name or "complex" in x.dtype_name
