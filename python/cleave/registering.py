"""Ops that a program makes known while it runs: custom calls with a kernel, a rule and types."""

import atexit
import itertools
import re
from collections import namedtuple

from cleave import _core
from cleave._core import UserError
from cleave.layouts import dtype_name

Type = namedtuple("Type", "dtype shape")
Type.__doc__ = "The dtype (f32) and the shape of an operand or a result."
Call = namedtuple("Call", "name operands results attrs")
Call.__doc__ = "What a rule, a shape or a cost may depend on: the types of operands and results, and the attributes."

_known = set()  # let go of before the interpreter ends


def register_rule(name, rule, *, partial=(), verify=False, shapes=None, dtype="float64", attrs=None, worlds=(2, 3, 4), seed=0,
                  replace=False):
    """Makes the sharding rule of an op known, by the target of a custom call, the name of a composite, or that of an op that
    Cleave does not know. Propagation, the planner and the partitioner use it from then on.

    rule      "m k, k n -> m n", in which "..." stands for any leading dimensions; a Rule; or a function of a Call that returns
              one of these, or None if nothing is known of the call
    partial   which operands may be partial: rows such as "P(sum), R -> P(sum)", or linear, bilinear, monotone; or a function
              of a Call that returns such a list
    verify    first runs every claim of the rule on the kernel that is registered for the name, and raises UserError with the
              smallest witness if one is wrong. `shapes` has the shape of each operand, or several calls, [[(8, 3), (8, 3)], ...]
              (from the notation if they are left out), `attrs` the values to try: {"dim": [0, 1]}
    replace   change a rule that is there
    """
    rule, partial = _rule(name, rule), _partial(partial)
    if verify:
        _verify(name, None, rule, partial, shapes, dtype, attrs, worlds, seed)
    _core.register_rule(name, rule, partial, replace)
    _known.add(name)


def register_op(name, fn, *, shape=None, rule=None, partial=(), cost=None, verify=False, shapes=None, dtype="float64", attrs=None,
                worlds=(2, 3, 4), seed=0, replace=False):
    """Makes an op known: `fn` computes it on the NumPy arrays of one device, with the attributes of a call as keywords, and
    returns an array or a tuple of them. `cleave.custom_call(name, ...)` calls it; so do modules, under any sharding.

    shape     a function of a Call that returns the Type, shape or (dtype, shape) of the result, or a list of them. If it is left
              out, `fn` is called on zeros.
    rule      how it may be split, as in register_rule; without one every device computes all of it
    cost      a function of a Call that returns floating-point operations, for the planner
    The rest is as in register_rule.
    """
    if not callable(fn):
        raise UserError(f"register_op {name}: fn must be a function over NumPy arrays, not a {type(fn).__name__}")
    rule, partial = _rule(name, rule), _partial(partial)
    if verify:
        if rule is None:
            raise UserError(f"register_op {name}: verify tries a rule, and none is given")
        _verify(name, fn, rule, partial, shapes, dtype, attrs, worlds, seed)
    _core.register_op(name, fn, _asked(shape, _types), rule, partial, _asked(cost, float), replace)
    _known.add(name)


def unregister_rule(name):
    """Forgets a rule; a kernel stays."""
    _core.unregister_rule(name)


def unregister_op(name):
    """Forgets an op and its rule."""
    _core.unregister_op(name)


def registered():
    """The names that were registered."""
    return _core.registered()


def custom_call(name, *tensors, results=None, **attrs):
    """Calls a registered op on Tensors; its rule says how the results lie. Returns a Tensor, or a tuple of them.

        cleave.custom_call("cross", x, y, dim=1)

    `results` are the types of the results, (dtype, shape) each, if the op has no `shape` and should not be tried on zeros.
    """
    types = [] if results is None else _types(results)
    return _core.custom_call(name, list(tensors), {key: value for key, value in attrs.items() if value is not None}, types)


def _rule(name, rule):
    if isinstance(rule, str):
        if "..." not in rule:
            _core.Rule(rule)  # its errors are those of the notation
        elif "->" not in rule:
            raise UserError(f"{name}: rule '{rule}' has no arrow; \"m k, k n -> m n\" is a rule")
        return rule
    if rule is None or isinstance(rule, _core.Rule):
        return rule
    if not callable(rule):
        raise UserError(f"{name}: a rule is text, a Rule or a function of a call, not a {type(rule).__name__}")
    return _asked(rule, lambda answer: answer)


def _partial(partial):
    if callable(partial):
        return _asked(partial, list)
    return [partial] if isinstance(partial, str) else list(partial)


def _asked(function, form):
    """The function as the library calls it, on parts of a Call."""
    if function is None:
        return None

    def ask(name, operands, results, attrs):
        call = Call(name, [Type(d, tuple(s)) for d, s in operands], [Type(d, tuple(s)) for d, s in results], attrs)
        answer = function(call)
        return form(answer, call) if form is _types else form(answer)
    return ask


def _types(answer, call=None):
    """[(dtype, shape), ...] of a type, a shape, or a list of them."""
    return [_type(one, call) for one in (answer if isinstance(answer, list) else [answer])]


def _type(answer, call):
    if isinstance(answer, tuple) and all(isinstance(size, int) for size in answer):
        dtype = call.operands[0].dtype if call and call.operands else "f32"
        return dtype, list(answer)
    try:
        dtype, shape = answer
        return dtype_name(dtype), [int(size) for size in shape]
    except (TypeError, ValueError):
        raise UserError(f"{answer!r} is no type of a result; (8, 3) and ('float32', (8, 3)) are such") from None


def _verify(name, fn, rule, partial, shapes, dtype, attrs, worlds, seed):
    from cleave.discovery import quiet

    if fn is None and not _core.has_kernel(name):
        raise UserError(f"register_rule {name}: verify runs the op, and no kernel is registered for it; register_op takes one")
    if shapes is None:
        shapes = _shapes_of_notation(name, rule)
    calls = shapes if shapes and isinstance(shapes[0], list) else [shapes]
    names = sorted(attrs or {})
    values = [attrs[key] if isinstance(attrs[key], (list, range)) else [attrs[key]] for key in names]
    samples = []
    for call in calls:
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(call)
        if len(dtypes) != len(call):
            raise UserError(f"{name}: {len(call)} shapes and {len(dtypes)} dtypes were given")
        types = [(dtype_name(d), [int(size) for size in shape]) for d, shape in zip(dtypes, call)]
        samples += [(types, dict(zip(names, chosen))) for chosen in itertools.product(*values)]
    _core.verify_rule(name, fn and quiet(fn), rule, partial, samples, list(worlds), seed)


def _shapes_of_notation(name, rule):
    """Operands for a rule in the short notation: every factor has a size of its own."""
    if not isinstance(rule, str):
        raise UserError(f"{name}: verify needs calls to try, such as shapes=[(8, 3), (8, 3)]")
    left, _, rest = rule.partition("->")
    sizes = {key: int(size) for key, size in re.findall(r"(\w+)\s*=\s*(\d+)", rest)}
    fresh = itertools.cycle((8, 6, 5, 7, 4, 9))

    def size(word):
        made = 1
        for factor in word.strip("()").split():
            if factor not in sizes and factor != "1":
                sizes[factor] = next(fresh)
            made *= sizes.get(factor, 1)
        return made
    left = left.replace("...", "e0_ e1_")
    return [tuple(size(word) for word in re.findall(r"\([^)]*\)|[^\s()\[\]]+", tensor)) for tensor in left.split(",")]


@atexit.register
def _forget():
    for name in _known.intersection(_core.registered()):
        _core.unregister_op(name)
