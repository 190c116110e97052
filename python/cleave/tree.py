"""Trees: tuples, lists, dicts (by sorted keys; an OrderedDict in its order), named tuples, None, dataclasses and registered
classes, of anything.

    leaves, structure = tree.flatten({"w": w, "b": [b, None]})
    tree.unflatten(structure, leaves)
    tree.map(lambda p, g: p - 0.1 * g, params, grads)
    tree.paths(params)                    [("b[0]", b), ("w", w)]

A field of a dataclass with `field(metadata={"static": True})` is part of the structure, and no child.
"""

import builtins
import collections
import dataclasses
from typing import NamedTuple

from cleave._core import UserError


class Node(NamedTuple):
    """How a class is taken apart, and put together again."""

    flatten: object  # value -> (names of children, children, the rest, which must be hashable)
    unflatten: object  # rest, children -> value


_REGISTERED = {}  # None for classes of leaves


class Structure:
    """A tree without its leaves. Structures can be compared and hashed."""

    __slots__ = ("cls", "rest", "names", "children", "num_leaves", "_hash")

    def __init__(self, cls, rest, names, children):
        self.cls, self.rest, self.names, self.children = cls, rest, names, children
        self.num_leaves = 1 if cls is None else sum(child.num_leaves for child in children)
        self._hash = hash((cls, rest, names, children))

    def __eq__(self, other):
        if self is other:
            return True
        return (isinstance(other, Structure) and self._hash == other._hash and self.cls is other.cls
                and self.rest == other.rest and self.names == other.names and self.children == other.children)

    def __hash__(self):
        return self._hash

    def __repr__(self):
        return str(unflatten(self, ["*"] * self.num_leaves))


LEAF = Structure(None, None, (), ())


def register(cls, flatten, unflatten):
    """Makes a class a tree: `flatten(value)` gives (children, rest), `unflatten(rest, children)` a value. The rest must be
    hashable; children are a tuple, or a dict by name."""

    def with_names(value):
        children, rest = flatten(value)
        if isinstance(children, dict):
            return tuple(f".{name}" for name in children), tuple(children.values()), (tuple(children), rest)
        return tuple(f"[{i}]" for i in range(len(children))), tuple(children), (None, rest)

    def again(rest, children):
        names, rest = rest
        return unflatten(rest, tuple(children) if names is None else dict(zip(names, children)))

    _REGISTERED[cls] = Node(with_names, again)
    return cls


def register_dataclass(cls, static=()):
    """Makes a dataclass a tree in which the fields `static` are part of the structure. (Any dataclass is a tree; this says
    which fields are no children.)"""
    _REGISTERED[cls] = _dataclass_node(cls, static)
    return cls


def _dataclass_node(cls, static=()):
    fields = dataclasses.fields(cls)
    fixed = tuple(f.name for f in fields
                  if f.name in static or f.metadata.get("static") or f.metadata.get("pytree_node") is False)
    free = tuple(f.name for f in fields if f.name not in fixed)
    names = tuple(f".{name}" for name in free)

    def flatten(value):
        return names, tuple(getattr(value, name) for name in free), tuple(getattr(value, name) for name in fixed)

    def unflatten(rest, children):
        value = object.__new__(cls)
        for name, item in (*zip(free, children), *zip(fixed, rest)):
            object.__setattr__(value, name, item)
        return value

    return Node(flatten, unflatten)


def _sequence(value):
    return tuple(f"[{i}]" for i in range(len(value))), tuple(value), None


def _dict(value):
    try:
        keys = tuple(sorted(value))
    except TypeError:
        keys = tuple(sorted(value, key=lambda key: (type(key).__name__, str(key))))
    return tuple(f".{key}" for key in keys), tuple(value[key] for key in keys), keys


_REGISTERED[tuple] = Node(_sequence, lambda rest, children: tuple(children))
_REGISTERED[list] = Node(_sequence, lambda rest, children: list(children))
_REGISTERED[dict] = Node(_dict, lambda keys, children: dict(zip(keys, children)))
_REGISTERED[collections.OrderedDict] = Node(
    lambda value: (tuple(f".{key}" for key in value), tuple(value.values()), tuple(value)),
    lambda keys, children: collections.OrderedDict(zip(keys, children)),
)
_REGISTERED[collections.defaultdict] = Node(
    lambda value: (*_dict(value)[:2], (value.default_factory, _dict(value)[2])),
    lambda rest, children: collections.defaultdict(rest[0], zip(rest[1], children)),
)
_REGISTERED[type(None)] = Node(lambda value: ((), (), None), lambda rest, children: None)


def _node_of(cls):
    """None for the class of a leaf."""
    try:
        return _REGISTERED[cls]
    except KeyError:
        pass
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = tuple(f".{name}" for name in cls._fields)
        node = Node(lambda value: (names, tuple(value), None), lambda rest, children: cls(*children))
    elif issubclass(cls, dict):
        node = Node(_dict, lambda keys, children: cls(zip(keys, children)))
    elif dataclasses.is_dataclass(cls):
        node = _dataclass_node(cls)
    else:
        node = None
    _REGISTERED[cls] = node
    return node


def _take_apart(tree, is_leaf, leaves):
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return LEAF
    node = _node_of(type(tree))
    if node is None:
        leaves.append(tree)
        return LEAF
    names, children, rest = node.flatten(tree)
    return Structure(type(tree), rest, names, tuple([_take_apart(child, is_leaf, leaves) for child in children]))


def flatten(tree, is_leaf=None):
    """The leaves in order, and the structure. `is_leaf(value)` may stop at a value that would be a tree."""
    leaves = []
    structure = _take_apart(tree, is_leaf, leaves)
    return leaves, structure


def unflatten(structure, leaves):
    """The tree of a structure with these leaves."""
    leaves = list(leaves)
    if len(leaves) != structure.num_leaves:
        raise UserError(f"a tree has {structure.num_leaves} leaves, and {len(leaves)} are given")
    given = iter(leaves)

    def build(part):
        if part.cls is None:
            return next(given)
        return _REGISTERED[part.cls].unflatten(part.rest, [build(child) for child in part.children])

    return build(structure)


def leaves(tree, is_leaf=None):
    return flatten(tree, is_leaf)[0]


def structure(tree, is_leaf=None):
    return flatten(tree, is_leaf)[1]


def paths_of(structure, root=""):
    """The path of each leaf of a structure."""
    if structure.cls is None:
        return [root]
    found = []
    for name, child in zip(structure.names, structure.children):
        found += paths_of(child, root + name if root else name.removeprefix("."))
    return found


def paths(tree, is_leaf=None, root=""):
    """(path, leaf) of each leaf: ("layers[0].w", w)."""
    found, parts = flatten(tree, is_leaf)
    return list(zip(paths_of(parts, root), found))


def flatten_like(structure, tree, what="a tree", root="", holes=False):
    """What stands at the leaves of a structure, in a tree that has at least this structure. With `holes`, None may stand for
    a whole part of it."""
    if structure.cls is None:
        return [tree]
    if holes and tree is None:
        return [None] * structure.num_leaves
    node = _node_of(type(tree))
    if type(tree) is not structure.cls or node is None:
        raise UserError(f"{what}: at '{root}' there is a {type(tree).__name__}, not a {structure.cls.__name__}")
    names, children, rest = node.flatten(tree)
    if names != structure.names or rest != structure.rest:
        raise UserError(f"{what}: at '{root}' there are {len(children)} children {list(names)}, not {list(structure.names)}")
    return [leaf for name, part, child in zip(names, structure.children, children)
            for leaf in flatten_like(part, child, what, root + name, holes)]


def broadcast_prefix(prefix, structure, is_leaf=None, what="a prefix", root=""):
    """For each leaf of a structure, the leaf of the prefix at or above it. None is a leaf of a prefix."""
    node = _node_of(type(prefix))
    if prefix is None or node is None or (is_leaf is not None and is_leaf(prefix)):
        return [prefix] * structure.num_leaves
    names, children, _ = node.flatten(prefix)
    same = structure.cls is type(prefix) or {structure.cls, type(prefix)} <= {tuple, list}
    if not same or names != structure.names:
        raise UserError(f"{what}: at '{root}' it has the children {list(names)}, and the tree has {list(structure.names)}")
    return [leaf for name, part, child in zip(names, structure.children, children)
            for leaf in broadcast_prefix(child, part, is_leaf, what, root + name)]


def map(f, tree, *rest, is_leaf=None):
    """f on each leaf, or on the leaves of several trees together; the others may go on below the leaves of the first."""
    first, parts = flatten(tree, is_leaf)
    columns = [flatten_like(parts, other, "tree.map") for other in rest]
    return unflatten(parts, builtins.map(f, first, *columns))
