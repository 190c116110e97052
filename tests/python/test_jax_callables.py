"""What autoshard takes for a function, as jax.jit does: partials, objects, methods; and how arguments are named, donated, laid out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from jax_support import distance

import cleave.jax as cj
from cleave import UserError

MESH = jax.make_mesh((2, 4), ("data", "model"))
W, X = np.linspace(-1, 1, 64 * 128, dtype=np.float32).reshape(64, 128), np.ones((16, 64), np.float32)
autoshard = functools.partial(cj.autoshard, mesh=MESH, machine="h100")


def scaled(scale, w, x):
    return x @ w * scale


class Layer:
    """Called itself, and by methods, one of which is planned where it is written."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, w, x):
        return scaled(self.scale, w, x)

    def method(self, w, x):
        return scaled(self.scale, w, x)

    @functools.partial(autoshard, static_argnums=0)
    def planned(self, w, x):
        return scaled(self.scale, w, x)


@pytest.mark.parametrize("fn, name", [
    (functools.partial(scaled, 3.0), "scaled"), (functools.partial(functools.partial(scaled), 3.0), "scaled"),
    (Layer(3.0), "Layer"), (Layer(3.0).method, "method"), (jax.jit(functools.partial(scaled, 3.0)), None),
    (functools.partial(Layer(3.0)), "Layer"),
])
def test_what_is_called_has_a_name(fn, name):
    step = autoshard(fn, pins={"w": P(None, "model")})
    if name is not None:
        assert step.__name__ == name and repr(step).startswith(f"<{name}, autosharded on ")
        with pytest.raises(UserError, match=f"{name} was not called yet"):
            step.check()
    assert distance(step(W, X), X @ W * 3) < 1e-4
    assert "planned for 1 set" in repr(step) and step.check().ok


def test_methods_are_planned_where_they_are_written():
    layer, other = Layer(2.0), Layer(5.0)
    for one in (layer, other, layer):
        assert distance(one.planned(W, X), X @ W * one.scale) < 1e-4
    assert len(Layer.planned._entries) == 2
    assert isinstance(Layer.planned, cj.AutoshardedFunction)


def test_what_is_donated_by_number_is_donated_by_keyword():
    step = autoshard(lambda w, x: w + x.sum(), donate_argnums=0, pins={"w": P("data")})
    step.prepare(w=jax.ShapeDtypeStruct(W.shape, W.dtype), x=X)
    w = step.place(jnp.array(W), "w")
    step(w=w, x=X)
    assert w.is_deleted()


def counted(x):
    return jnp.arange(4) + x.shape[0], x * 2.0


def test_the_width_of_numbers_is_that_of_the_call():
    """Of the same arguments, results have other types while jax_enable_x64 is set."""
    step = autoshard(counted)
    assert step(X)[0].dtype == np.int32
    with jax.enable_x64(True):
        assert step(X)[0].dtype == jax.jit(counted)(X)[0].dtype == np.int64
        assert step(X)[0].dtype == np.int64
    assert step(X)[0].dtype == np.int32
    assert len(step._entries) == 2
    assert step.check().ok
    with jax.enable_x64(True), pytest.raises(UserError, match="counted was planned under another jax_enable_x64; check it where"):
        step.check()


def test_signs_in_paths_are_meant_as_they_are():
    step = autoshard(lambda params, x: x @ params["w[0]"], pins={"params/w[0]": P(None, "model")})
    step({"w[0]": W}, X)
    assert step.plan.layouts["params/w[0]"] == P(None, "model")


@pytest.mark.parametrize("options", [
    dict(pins={"w": P(None, "model", unreduced={"data"})}), dict(in_shardings=(P(None, reduced={"data"}), None)),
    dict(out_shardings=P(None, unreduced={"data"})),
])
def test_pending_sums_at_the_borders_are_refused(options):
    with pytest.raises(UserError, match=r"(w|result 0): P\(.*\) has unreduced or reduced axes, and arguments and results have no"):
        autoshard(lambda w, x: x @ w, **options)(W, X)


def test_shardings_of_arguments_that_go_by_keyword():
    step = autoshard(lambda w, x: x @ w, in_shardings=(P(None, "model"), P("data")))
    with pytest.raises(UserError, match="in_shardings has 2 entries, and the function was called with 1 positional arguments; "
                                        "pins={'x': ...} lays out an argument that goes by keyword"):
        step(W, x=X)


@jax.tree_util.register_pytree_node_class
class Odd:
    """A tree whose comparison is no answer, as that of sparse arrays."""

    def __init__(self, w):
        self.w = w

    def __eq__(self, other):
        raise TypeError("compared")

    __ne__, __hash__ = __eq__, None

    def tree_flatten(self):
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_trees_that_can_not_be_compared():
    step = autoshard(lambda odd, x: (Odd(odd.w * 2), x @ odd.w), pins={"odd/*": P(None, "model")})
    assert distance(step(Odd(W), X)[1], X @ W) < 1e-4
    assert step.check(Odd(W), X).ok
    sparse = pytest.importorskip("jax.experimental.sparse")
    values = sparse.BCOO.fromdense(np.where(W > 0.9, W, 0))
    assert distance(autoshard(lambda a, x: x @ a)(values, X), X @ np.where(W > 0.9, W, 0)) < 1e-4
