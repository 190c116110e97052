"""Trees: what is one, paths, prefixes, errors."""

import collections
import dataclasses

import cleave
import pytest
from cleave import UserError, tree

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    heads: int = dataclasses.field(default=4, metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object


class Own:
    def __init__(self, x, label):
        self.x, self.label = x, label


tree.register(Own, lambda own: ({"x": own.x}, own.label), lambda label, children: Own(children["x"], label))

TREES = [
    1,
    None,
    (),
    (1, 2),
    [1, (2, None)],
    {"b": 1, "a": [2, 3]},
    Pair(1, {"x": 2}),
    Layer([1, 2], 3),
    Frozen((1, 2)),
    collections.OrderedDict(z=1, a=2),
    {2: 1, 10: 2},
]


@pytest.mark.parametrize("value", TREES, ids=str)
def test_there_and_back(value):
    leaves, structure = tree.flatten(value)
    assert tree.unflatten(structure, leaves) == value
    assert structure == tree.structure(value) and hash(structure) == hash(tree.structure(value))
    doubled = tree.map(lambda x: 2 * x, value)
    assert tree.leaves(doubled) == [2 * x for x in leaves]


def test_structures_differ():
    different = [tree.structure(value) for value in [(1, 2), [1, 2], (1, (2,)), Pair(1, 2), {"a": 1, "b": 2}, {"a": 1, "c": 2},
                                                     Layer(1, 2), Layer(1, 2, heads=8)]]
    assert len(set(different)) == len(different)


def test_paths():
    value = {"layers": [Layer(1, 2), Layer(3, 4)], "head": Pair(5, None)}
    assert tree.paths(value) == [("head.a", 5), ("layers[0].w", 1), ("layers[0].b", 2), ("layers[1].w", 3), ("layers[1].b", 4)]
    assert [path for path, _ in tree.paths((1, [2]), root="x")] == ["x[0]", "x[1][0]"]


def test_static_fields_stay():
    made = tree.map(lambda x: x + 1, Layer(1, 2, heads=8))
    assert made == Layer(2, 3, heads=8)
    own = tree.map(lambda x: x + 1, Own(1, "label"))
    assert (own.x, own.label) == (2, "label")
    assert tree.paths(Own(1, "label")) == [("x", 1)]


def test_register_dataclass():
    @dataclasses.dataclass
    class Config:
        x: object
        name: str

    tree.register_dataclass(Config, static=("name",))
    assert tree.leaves(Config(1, "a")) == [1]


def test_several_trees():
    assert tree.map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]}) == {"x": 11, "y": [22]}
    with pytest.raises(UserError, match="tree.map: at '.y' there is a tuple, not a list"):
        tree.map(lambda a, b: a, {"y": [2]}, {"y": (2,)})
    with pytest.raises(UserError, match="tree.map"):
        tree.map(lambda a, b: a, [1, 2], [1])


def test_is_leaf():
    assert tree.leaves([(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]
    assert tree.leaves(cleave.P("x", None)) == [cleave.P("x", None)]


def test_prefixes():
    structure = tree.structure({"a": [1, 2], "b": 3})
    assert tree.broadcast_prefix(0, structure) == [0, 0, 0]
    assert tree.broadcast_prefix({"a": None, "b": 1}, structure) == [None, None, 1]
    assert tree.broadcast_prefix({"a": [0, 1], "b": 2}, structure) == [0, 1, 2]
    with pytest.raises(UserError, match="a prefix"):
        tree.broadcast_prefix({"a": 0}, structure)


def test_refuses():
    with pytest.raises(UserError, match="a tree has 2 leaves, and 1 are given"):
        tree.unflatten(tree.structure((1, 2)), [1])
