"""Arguments and results of functions over trees of Tensors: the Tensors apart from all else."""

import enum
import functools

from cleave import _core, tree
from cleave._core import Tensor, UserError
from cleave.specs import is_spec
from cleave.tensors import asarray

NUMBERS = (bool, int, float, complex)
PLAIN = (str, bytes, enum.Enum, type, range, slice, frozenset)


def _is_plain(value):
    """A value that is part of the call, and no Tensor: it is passed along as it is."""
    return isinstance(value, PLAIN) or callable(value) or is_spec(value) or type(value).__name__ in ("dtype", "DType")


def _is_tensor(value):
    return type(value) in NUMBERS or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


class Parts:
    """A tree as a list of Tensors, and what is needed to put it together again."""

    def __init__(self, value, what="argument"):
        leaves, self.structure = tree.flatten(value)
        self.tensors, self.fixed = [], []
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                self.tensors.append(leaf)
            elif _is_plain(leaf) and not _is_tensor(leaf):
                self.fixed.append((place, leaf))
            elif _is_tensor(leaf):
                self.tensors.append(asarray(leaf))
            else:
                path = self._paths()[place]
                raise UserError(f"the {what} '{path}' is a {type(leaf).__name__}, neither a Tensor nor a tree; register its "
                                "class with cleave.tree.register, or name the argument in static_argnums")

    @property
    def key(self):
        """Equal for values that differ in their Tensors alone."""
        return self.structure, tuple(self.fixed)

    @property
    def names(self):
        places = {place for place, _ in self.fixed}
        return [name for place, name in enumerate(self._paths()) if place not in places]

    def _paths(self):
        return tree.paths_of(self.structure)

    def rebuild(self, tensors, fixed=True):
        """The value with other Tensors; without `fixed`, None stands for what is no Tensor."""
        return tree.unflatten(self.structure, self._merged(tensors, fixed))

    def _merged(self, tensors, fixed=True):
        if not self.fixed:
            return tensors
        leaves = list(tensors)
        for place, value in self.fixed:
            leaves.insert(place, value if fixed else None)
        return leaves

    def select(self, leaves):
        """Of one item per leaf, those of Tensors."""
        places = {place for place, _ in self.fixed}
        return [leaf for place, leaf in enumerate(leaves) if place not in places]


class Call(Parts):
    """The arguments of a call: by position, then by name. Names of leaves are those of plans: "[0].layers[0].w", or
    "layers[0].w" for the only argument."""

    def __init__(self, args, kwargs):
        super().__init__((args, kwargs))
        self.num_args = len(args)
        positional, named = self.structure.children
        self.roots = [*positional.children, *named.children]

    def _paths(self):
        positional, named = self.structure.children
        only = len(positional.children) == 1 and not named.children
        paths = []
        for i, part in enumerate(positional.children):
            paths += tree.paths_of(part, "" if only else f"[{i}]")
        for name, part in zip(named.rest, named.children):
            paths += tree.paths_of(part, name)
        return paths

    @property
    def counts(self):
        """The number of Tensors of each argument."""
        counts, begin = [], 0
        places = {place for place, _ in self.fixed}
        for part in self.roots:
            counts.append(sum(place not in places for place in range(begin, begin + part.num_leaves)))
            begin += part.num_leaves
        return counts

    def positions(self, argnums, what):
        """Numbers of arguments, counted from the front."""
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for number in numbers:
            if not -self.num_args <= number < self.num_args:
                raise UserError(f"{what}: argument {number} of a call with {self.num_args} arguments")
        return [number % self.num_args for number in numbers]

    def arguments(self, tensors):
        """(args, kwargs) with other Tensors."""
        return self.rebuild(tensors)

    def argument(self, number, per_tensor):
        """The tree of one argument, of one item per Tensor of the call; None for what is no Tensor."""
        leaves = self._merged(list(per_tensor), fixed=False)
        begin = sum(part.num_leaves for part in self.roots[:number])
        part = self.roots[number]
        return tree.unflatten(part, leaves[begin:begin + part.num_leaves])


class Body:
    """A function of trees as a function of lists of Tensors, for the C++ side. After a call, `result` has the structure of
    what the function returned."""

    def __init__(self, f, call, check=None):
        self.f, self.call, self.check, self.result = f, call, check, None

    def __call__(self, tensors):
        args, kwargs = self.call.arguments(tensors)
        value = self.f(*args, **kwargs)
        if self.check:
            self.check(value)
        self.result = Parts(value, "result")
        return self.result.tensors


def named_like(f, wrapper):
    """The wrapper with the name and the text of f, which may be any callable."""
    return functools.update_wrapper(wrapper, f, updated=())


def inside_another(tensors):
    return _core.inside_another(tensors)
