"""Planned steps in the contexts in which users call them: jax.set_mesh, disable_jit, inside transforms, and as objects."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jax_support import distance

import cleave.jax as cj
from cleave import UserError

EXPLICIT = jax.make_mesh((2, 4), ("data", "model"))
AUTO = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
TIGHT = dict(machine="h100", memory="12MiB", memory_share=1.0, time_limit=3, by_effort=True)
SPLIT = {"params/a": P(None, "model"), "params/b": P("model"), "x": P()}


def train(params, x):
    def loss(p):
        return jnp.mean((jax.nn.relu(x @ p["a"]) @ p["b"]) ** 2)
    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def arguments():
    return {"a": jnp.full((512, 2048), 0.01), "b": jnp.full((2048, 512), 0.01)}, jnp.ones((64, 512))


def mlp(w, x):
    return w * 2, jnp.tanh(x @ w).sum()


W, X = np.linspace(-1, 1, 64 * 128, dtype=np.float32).reshape(64, 128), np.ones((16, 64), np.float32)


# ---- jax.set_mesh


@pytest.mark.parametrize("mesh", [EXPLICIT, AUTO], ids=["explicit", "auto"])
def test_a_mesh_that_is_set_leaves_the_plan_free(mesh):
    """Under explicit axes every array and every result of an op is of a replicated type, which pins nothing."""
    with jax.set_mesh(mesh):
        args = arguments()
        step = cj.autoshard(train, mesh, **TIGHT)
        result = step(*args)
        assert step.plan.layouts == SPLIT
        assert distance(result, jax.jit(train)(*args)) < 1e-5
        assert step.check().ok
        assert distance(jax.jit(step)(*args), result) < 1e-6


def test_closed_over_arrays_of_a_mesh_that_is_set():
    with jax.set_mesh(EXPLICIT):
        shift, args = jnp.arange(512.0), arguments()
        step = cj.autoshard(lambda params, x: train(params, x + shift), EXPLICIT, **TIGHT)
        assert distance(step(*args), jax.jit(lambda params, x: train(params, x + shift))(*args)) < 1e-4
        assert step.plan.layouts == SPLIT
        assert step.check().ok


@pytest.mark.parametrize("wanted", [P("data", None), P(None, None)], ids=str)
def test_reshards_of_the_user_hold_on_explicit_axes(wanted):
    def fn(w, x):
        return jax.sharding.reshard(x @ w, wanted) * 2
    with jax.set_mesh(EXPLICIT):
        step = cj.autoshard(fn, EXPLICIT, machine="h100", pins={"w": P(None, "model")})
        result = step(W, X)
        assert distance(result, fn(W, X)) < 1e-4
        assert step.check().ok
        whole = "all_gather" in {row["kind"] for row in step.plan.collectives}
        assert whole or result.sharding.is_equivalent_to(NamedSharding(EXPLICIT, wanted), 2)


def test_layouts_that_split_are_honoured_under_a_mesh_that_is_set():
    with jax.set_mesh(EXPLICIT):
        w = jax.device_put(W, P("model", None))
        step = cj.autoshard(mlp, EXPLICIT, machine="h100")
        step(w, X)
        assert step.plan.layouts["w"] == P("model")


# ---- other contexts


def test_disable_jit_runs_the_plan_all_the_same():
    step = cj.autoshard(mlp, EXPLICIT, machine="h100", pins={"w": P(None, "model")})
    before = step(W, X)
    with jax.disable_jit():
        result = step(W, X)
    assert distance(result, before) == 0
    assert result[0].sharding == before[0].sharding


def test_parts_of_arrays_are_refused():
    step = cj.autoshard(mlp, EXPLICIT, machine="h100", pins={"w": P(None, "model")})
    step(W, X)
    with pytest.raises(UserError, match="mlp is planned for whole arrays, and inside jax.shard_map"):
        jax.shard_map(step, mesh=AUTO, in_specs=P(), out_specs=P())(W, X)


def test_results_without_a_number_are_compared_without_warnings(recwarn):
    step = cj.autoshard(lambda x: (jnp.max(x, axis=1, initial=jnp.inf), x / 0 - x / 0), EXPLICIT, machine="h100")
    step(X)
    assert step.check().ok
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


# ---- like a function of jax.jit


def test_it_has_the_methods_of_a_jitted_function():
    step = cj.autoshard(mlp, EXPLICIT, machine="h100", pins={"w": P(None, "model")})
    shapes = step.eval_shape(W, X)
    assert [leaf.shape for leaf in shapes] == [(64, 128), ()]
    assert "planned for 0 sets of shapes" in repr(step)
    traced = step.trace(W, X)
    assert traced.lower().compile()(step.place(W), step.place(X))[1] == step(W, X)[1]
    assert repr(step) == '<mlp, autosharded on <["data"=2, "model"=4]>; planned for 1 set of shapes>'
    step.clear_cache()
    assert "planned for 0 sets" in repr(step)
    assert step.place(W) is W
    step(W, X)


def test_more_devices_than_there_are_can_be_planned_for():
    with pytest.raises(UserError, match="16 devices, and there are 8; cleave.jax.plan plans for more"):
        cj.autoshard(mlp, 16)
    plan = cj.plan(mlp, W, X, mesh=64, machine="h100")
    assert plan.mesh.size == 64
    assert set(plan.layouts) == {"w", "x"}


@pytest.mark.parametrize("use", [copy.deepcopy, pickle.dumps])
def test_plans_are_saved_and_not_pickled(use):
    plan = cj.plan(mlp, W, X, mesh=EXPLICIT, machine="h100")
    with pytest.raises(UserError, match=r"write it with plan.save\(path\)"):
        use(plan)


def test_explanations_name_the_line_that_calls_a_library():
    nnx = pytest.importorskip("flax.nnx")
    graph, state = nnx.split(nnx.Linear(64, 128, rngs=nnx.Rngs(0)))

    def forward(state, x):
        return nnx.merge(graph, state)(x)
    text = cj.plan(forward, state, X, mesh=EXPLICIT, machine="h100").explain("dot_general.0")
    assert f"dot_general.0 (test_jax_contexts.py:{forward.__code__.co_firstlineno + 1})" in text
