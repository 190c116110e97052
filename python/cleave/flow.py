"""Control flow as functions of functions. Each traces what it is given and records one op, which stays a loop or a branch in
a trace, and has derivatives."""

from cleave import _core, tree
from cleave._core import UserError
from cleave.calls import Body, Call, Parts


def _same(first, second, what):
    if first.key != second.key:
        raise UserError(f"{what}: trees of two structures, {first.structure} and {second.structure}")


def cond(pred, true_fun, false_fun, *operands):
    """true_fun(*operands) if the condition holds, else false_fun(*operands); both return trees of one structure."""
    call = Call(operands, {})
    yes, no = Body(true_fun, call), Body(false_fun, call)

    def other(tensors):
        made = no(tensors)
        _same(yes.result, no.result, "cond: the branches give")
        return made

    values = _core.cond(pred, yes, other, call.tensors)
    return yes.result.rebuild(values)


def switch(index, branches, *operands):
    """The branch of an int32 scalar on the operands; the nearest one if it is out of range."""
    first = []

    def traced(branch):
        def run():
            made = Parts(branch(*operands), "result")
            if first:
                _same(first[0], made, "switch: the branches give")
            first.append(made)
            return made.tensors
        return run

    last = len(branches) - 1
    values = _core.switch_case(_core.numpy.clip(index, 0, last), [traced(branch) for branch in branches])
    return first[0].rebuild(values)


def while_loop(cond_fun, body_fun, init_val):
    """while cond_fun(x): x = body_fun(x)"""
    call = Call((init_val,), {})
    init = Parts(init_val)
    body = Body(body_fun, call)

    def step(tensors):
        made = body(tensors)
        _same(init, body.result, "while_loop: the body takes and gives")
        return made

    return init.rebuild(_core.while_loop(Body(cond_fun, call), step, call.tensors))


def fori_loop(lower, upper, body_fun, init_val):
    """for i in range(lower, upper): x = body_fun(i, x); i is a Tensor of int32."""
    start = _core.filled(lower, "int32") if isinstance(lower, int) else lower
    _, last = while_loop(lambda state: state[0] < upper, lambda state: (state[0] + 1, body_fun(*state)), (start, init_val))
    return last


def scan(f, init, xs=None, length=None, reverse=False):
    """carry, ys[i] = f(carry, xs[i]) for each i, along the first dimension of all leaves of xs; gives (carry, ys). Without xs,
    `length` times with None."""
    carry = Parts(init)
    if xs is None or not tree.leaves(xs):
        if length is None:
            raise UserError("scan: without xs, say the length")
        return scan(lambda state, _: f(state, None), init, _core.numpy.arange(length), reverse=reverse)
    inputs = Parts(xs)
    count, made = len(carry.tensors), []

    def body(tensors):
        after, y = f(carry.rebuild(tensors[:count]), inputs.rebuild(tensors[count:]))
        after, y = Parts(after, "carry"), Parts(y, "result")
        _same(carry, after, "scan: the carry before and after")
        made[:] = [y]
        return after.tensors + y.tensors

    values = _core.scan(body, carry.tensors, inputs.tensors, reverse)
    return carry.rebuild(values[:count]), made[0].rebuild(values[count:])


def associative_scan(fn, elems, reverse=False, axis=0):
    """Running combinations along a dimension of all leaves, for an associative fn of two trees of slices."""
    parts = Parts(elems)
    sizes = {x.shape[axis] for x in parts.tensors}
    if len(sizes) != 1:
        raise UserError(f"associative_scan: the leaves have {sorted(sizes)} elements along dimension {axis}")
    np = _core.numpy

    def cut(tensors, start, stop, step=1):
        index = (slice(None),) * (axis % tensors[0].ndim) + (slice(start, stop, step),)
        return [x[index] for x in tensors]

    def combined(a, b):
        return Parts(fn(parts.rebuild(a), parts.rebuild(b))).tensors

    def run(xs, size):
        if size < 2:
            return xs
        odd = run(combined(cut(xs, 0, size - 1, 2), cut(xs, 1, None, 2)), size // 2)
        even = cut(xs, 0, 1)
        if size > 2:
            between = combined(cut(odd, 0, size // 2 - 1) if size % 2 == 0 else odd, cut(xs, 2, None, 2))
            even = [np.concatenate([a, b], axis) for a, b in zip(even, between)]
        return [_core.interleave(a, b, axis) for a, b in zip(even, odd)]

    def turned(xs):
        return [np.flip(x, axis) for x in xs] if reverse else xs

    return parts.rebuild(turned(run(turned(parts.tensors), sizes.pop())))
