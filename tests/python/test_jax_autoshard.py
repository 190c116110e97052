"""autoshard as a function of JAX: arguments of every kind, pins, layouts, refusals."""

import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jax_support import distance

import cleave.jax as cj
from cleave import InternalError, UserError

MESH = jax.make_mesh((2, 4), ("data", "model"))
AUTO = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
W = jax.random.normal(jax.random.key(0), (64, 128))
X = jax.random.normal(jax.random.key(1), (16, 64))
COLUMNS = {"w": P(None, "model")}


def mlp(w, x):
    return jnp.tanh(x @ w).sum(), w * 2


def planned(fn=mlp, mesh=MESH, pins=COLUMNS, **options):
    return cj.autoshard(fn, mesh, machine="h100", pins=pins, **options)


def expect_same(step, fn, *args, **kwargs):
    assert distance(step(*args, **kwargs), fn(*args, **kwargs)) < 1e-5
    assert step.check(*args, **kwargs).ok
    assert step.check().ok  # on arguments of its own


# ---- arguments


@pytest.mark.parametrize("mesh", [MESH, AUTO], ids=["explicit", "auto"])
def test_positional(mesh):
    step = planned(mesh=mesh)
    expect_same(step, mlp, W, X)
    assert step.plan.layouts == {"w": P(None, "model"), "x": P()}
    assert step(W, X)[1].sharding.spec == P(None, "model")


def test_keywords():
    step = planned()
    expect_same(step, mlp, W, x=X)
    expect_same(step, mlp, w=W, x=X)


def test_static_arguments():
    def fn(w, x, *, mode, scale=2):
        return (jnp.tanh(x @ w) if mode == "tanh" else x @ w) * scale
    step = planned(fn, static_argnames=("mode",))
    expect_same(step, fn, W, X, mode="tanh")
    expect_same(step, fn, W, X, mode="plain", scale=3)

    def by_number(n, w, x):
        return x @ w * n
    step = planned(by_number, static_argnums=0)
    expect_same(step, by_number, 2, W, X)
    expect_same(step, by_number, 3, W, X)


def test_static_arguments_that_are_equal_and_not_the_same():
    fn = lambda x, scale: x * scale
    step, x = planned(fn, pins=None, static_argnames="scale"), jnp.arange(8)
    for scale in (1, 1.0, 1):
        for found in (step(x, scale), step(x, scale=scale)):
            assert found.dtype == (x * scale).dtype


def test_calls_of_several_kinds_go_to_the_plans_that_they_have():
    """Whatever tells them apart: shapes, keywords, static arguments; and wherever their arrays are."""
    fn = lambda w, x, scale=1, *, shift=0.0: (x @ w * scale + shift).sum(0)
    step = planned(fn, static_argnames="scale")
    rows = [X, X[:8], np.asarray(X), jax.device_put(X[:8], jax.devices()[3])]
    for _ in range(2):
        for x in rows:
            for call in (lambda f: f(W, x), lambda f: f(W, x, scale=2), lambda f: f(W, x=x, shift=1.0)):
                assert distance(call(step), call(fn)) < 1e-5
        assert len(step._entries) == 6


def test_numbers_and_numpy_arrays():
    def fn(w, x, rate, count):
        return w - rate * (x.T @ (x @ w)), count + 1
    step, wanted = planned(fn), jax.jit(fn)(W, X, 0.2, 4)
    result = step(np.asarray(W), np.asarray(X), 0.2, 4)
    assert distance(result, wanted) < 1e-5
    assert result[1].dtype == wanted[1].dtype and result[1].weak_type == wanted[1].weak_type


def test_trees_without_leaves_and_without_arguments():
    step = planned(lambda t: {"a": t["a"] * 2, "n": None}, pins=None)
    assert step({"a": X, "n": None})["n"] is None
    assert (planned(lambda: jnp.arange(8.0), pins=None)() == jnp.arange(8.0)).all()


def test_dtypes_and_empty_arrays():
    def fn(a, b, c, d, e):
        return a * 2, b + 1, c & True, (d * 2).astype(jnp.bfloat16), d > 0, e.sum(), jnp.zeros((0, 4))
    step = planned(fn, pins=None)
    args = (jnp.ones((8, 8), jnp.bfloat16), jnp.ones((8,), jnp.int8), jnp.ones((4, 4), bool), jnp.ones((16,), jnp.float16),
            jnp.zeros((0, 3)))
    assert [r.dtype for r in step(*args)] == [r.dtype for r in jax.jit(fn)(*args)]
    assert step.check().ok


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "int8"])
def test_parameters_in_narrow_types(dtype):
    """XLA for CPUs moves floats of 8 bits as f16, and packs integers of 4 bits in two."""
    w = jnp.arange(64 * 128).reshape(64, 128) % 7
    step = planned(lambda w, x: x @ w.astype(jnp.float32), pins={"w": P("model")})
    expect_same(step, lambda w, x: x @ w.astype(jnp.float32), w.astype(dtype), X)


def test_complex_numbers():
    fn = lambda a, b: (a @ b, jnp.abs(a), a.conj())
    step = planned(fn, pins={"a": P("data", "model"), "b": P("model")})
    a = X + 1j * X[::-1]
    assert distance([jnp.abs(r) for r in step(a, W + 0j)], [jnp.abs(r) for r in fn(a, W + 0j)]) < 1e-5
    assert step.check(a, W + 0j).ok and step.plan.received_bytes > 0


def test_numbers_of_python_and_arrays_are_told_apart():
    """A number of Python takes the type of the array that it meets; an array of one number has a type of its own."""
    fn = lambda w, x: w * x
    step, w = planned(fn), W.astype(jnp.bfloat16)
    for x in (2.0, jnp.float32(2.0), 2.0, np.float32(2.0)):
        assert step(w, x).dtype == jax.jit(fn)(w, x).dtype
    assert len(step._entries) == 2


def test_random_keys():
    def fn(x, keys):
        return jax.vmap(lambda key, row: jax.random.normal(key, row.shape) + row)(keys, x), keys
    keys = jax.random.split(jax.random.key(5), 16)
    step = planned(fn, pins={"keys": P("model")})
    values, same = step(X, keys)
    assert distance(values, fn(X, keys)[0]) < 1e-6
    assert same.dtype == keys.dtype and step.plan.layouts["keys"] == P("model")
    assert step.check().ok


def test_arrays_from_outside_scans_and_remat():
    weights = jax.random.normal(jax.random.key(3), (3, 64, 64)) * 0.1

    def fn(ws, x):
        @jax.checkpoint
        def body(h, w):
            return h + jnp.tanh(h @ w) @ W[:, :64].T, None
        return jax.value_and_grad(lambda ws: jax.lax.scan(body, x, ws)[0].mean())(ws)
    step = planned(fn, pins={"ws": P(None, None, "model"), "x": P("data")})
    expect_same(step, fn, weights, X)
    assert step.plan.received_bytes > 0


@pytest.mark.parametrize("make", [
    lambda: (lambda w, x: x @ w), lambda: jax.jit(lambda w, x: x @ w), lambda: functools.partial(lambda s, w, x: x @ w, 1)])
def test_callables(make):
    assert distance(planned(make())(W, X), X @ W) < 1e-5


def test_manual_regions_of_the_user():
    def fn(w, x):
        h = jax.shard_map(lambda a, b: jax.lax.psum(a @ b, "model"), mesh=AUTO, in_specs=(P("data", "model"), P("model", None)),
                          out_specs=P("data", None))(x, w)
        return jnp.tanh(h).sum()
    step = planned(fn, mesh=AUTO, pins=None)
    expect_same(step, lambda w, x: jnp.tanh(x @ w).sum(), W, X)


# ---- layouts


def test_constraints_of_the_user_hold():
    def fn(w, x):
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(AUTO, P("data", "model"))).sum()
    step = planned(fn, mesh=AUTO, pins=None)
    expect_same(step, fn, W, X)
    assert step.plan.layouts == {"w": P(None, "model"), "x": P("data")}
    with jax.set_mesh(MESH):
        step = planned(lambda w, x: jax.sharding.reshard(x @ w, P("data", "model")).sum(), pins=None)
        assert distance(step(W, X), (X @ W).sum()) < 1e-5
        assert step.plan.layouts == {"w": P(None, "model"), "x": P("data")}


def test_layouts_of_arguments_are_honoured_unless_told_otherwise():
    w = jax.device_put(W, NamedSharding(MESH, P("model", None)))
    x = jax.device_put(X, NamedSharding(MESH, P("data", "model")))
    step = planned(pins=None)
    step(w, x)
    assert step.plan.layouts == {"w": P("model"), "x": P("data", "model")}
    free = planned(pins=None, honour_layouts=False)
    free(w, x)
    assert free.plan.layouts == {"w": P(), "x": P()}


def test_pins_by_path_and_by_argument():
    def fn(params, x):
        return [x @ layer["w"] for layer in params["layers"]], params
    params = {"layers": [{"w": W}, {"w": W}]}
    for pattern in ("params/layers/*/w", "layers/*/w", "*w"):
        step = planned(fn, pins={pattern: P(None, "model")})
        step(params, X)
        assert {step.plan.layouts[f"params/layers/{i}/w"] for i in (0, 1)} == {P(None, "model")}
    step = planned(fn, pins=None, in_shardings=({"layers": [P("data"), None]}, None), out_shardings=(P(None, "model"), None))
    result = step(params, X)
    assert step.plan.layouts["params/layers/0/w"] == P("data")
    assert {r.sharding.spec for r in result[0]} == {P(None, "model")}
    assert step.check().ok


def test_results_that_are_the_next_arguments_lie_like_them():
    def fn(state, batch):
        return {k: v + batch.sum() for k, v in state.items()}, batch.mean()
    step = planned(fn, pins={"state/a": P("data", "model")})
    state, _ = step({"a": W, "b": W}, X)
    assert state["a"].sharding.spec == P("data", "model")
    before = step(state, X)[0]["a"].sharding
    assert before == state["a"].sharding


def test_random_keys_of_the_state_lie_like_the_next_ones():
    def fn(state, x):
        return {"keys": jax.vmap(jax.random.split)(state["keys"])[:, 0], "n": state["n"] + 1}, x * 2
    state = {"keys": jax.random.split(jax.random.key(0), 16), "n": jnp.int32(0)}
    step = planned(fn, pins={"state/keys": P("model")})
    for _ in range(2):
        state, _ = step(state, X)
    assert state["keys"].sharding.is_equivalent_to(step.plan.shardings(step.plan.in_specs[0][0]["keys"]), 1)
    assert state["keys"].sharding.spec == P("model") and step.check().ok


def test_arguments_elsewhere_are_moved():
    step = planned()
    wanted = mlp(W, X)
    assert distance(step(W, X), wanted) < 1e-5
    for w in (jax.device_put(W, NamedSharding(MESH, P("data", None))), jax.device_put(W, jax.devices()[3]), np.asarray(W)):
        assert distance(step(w, X), wanted) < 1e-5
    assert len(step._entries) == 1


def test_other_shapes_are_planned_again():
    step = planned()
    for rows in (16, 7, 16, 7):
        assert distance(step(W, X[:rows]), mlp(W, X[:rows])) < 1e-5
    assert len(step._entries) == 2


def test_place():
    def fn(state, batch):
        return jax.tree.map(lambda a: a * 2, state), batch.sum()
    step, state = planned(fn, pins={"state/w": P("data")}), {"w": W, "x": X}
    assert step.place(state) is state  # nothing is planned yet
    step.prepare(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), state), X)
    assert step.place(state)["w"].sharding == NamedSharding(MESH, P("data"))
    assert step.place(X, argnum="batch").sharding.mesh == MESH
    placed = step.place(state)
    assert jax.tree.leaves(step.place(placed))[0] is jax.tree.leaves(placed)[0]
    with pytest.raises(UserError, match=r"place: no argument has this structure and these shapes \(1 arrays\); there are state"):
        step.place(W)


def test_donated_arguments_are_gone():
    step = planned(lambda w, x: (w - x.T @ (x @ w) * 1e-3,), donate_argnums=0)
    (w,) = step(step.place(jnp.array(W)), X)
    step(w, X)
    assert w.is_deleted()


def test_uneven_sizes():
    w, x = W[:, :123], X[:13]
    step = cj.autoshard(lambda w, x: (jnp.tanh(x @ w), w), MESH, machine="h100", memory="56KiB", memory_share=1.0)
    expect_same(step, lambda w, x: (jnp.tanh(x @ w), w), w, x)


def test_a_number_of_devices():
    step = cj.autoshard(mlp, 8, machine="h100", memory="60KiB", memory_share=1.0)
    assert distance(step(W, X), mlp(W, X)) < 1e-5
    assert step.plan.mesh.size == 8 and step.check().ok


# ---- plans


def test_a_plan_is_saved_and_used_again(tmp_path):
    step = planned()
    step(W, X)
    step.save_plan(tmp_path / "plan.json")
    again = cj.autoshard(mlp, MESH, plan=tmp_path / "plan.json")
    assert distance(again(W, X), mlp(W, X)) < 1e-5
    assert again.plan.layouts == step.plan.layouts
    with pytest.raises(UserError, match="made for another module"):
        again(W, X[:8])


def test_a_plan_of_an_abstract_mesh():
    mesh = jax.sharding.AbstractMesh((8, 8), ("data", "model"))
    made = cj.plan(mlp, W, X, mesh=mesh, machine="h100", pins={"x": P("data")})
    assert made.in_specs == ((P(), P("data")), {}) or made.in_specs[0][1] == P("data")
    assert made.step_seconds > 0 and made.memory_bytes > 0
    with pytest.raises(UserError, match="has no devices"):
        cj.autoshard(mlp, mesh)(W, X)


def test_explanations_name_lines_of_the_source():
    step = planned()
    step(W, X)
    line = mlp.__code__.co_firstlineno + 1
    assert f"test_jax_autoshard.py:{line}" in step.plan.explain()
    assert f"dot_general.0 (test_jax_autoshard.py:{line})" in step.plan.explain("dot_general.0")


def test_conflicts_name_lines_of_the_source():
    def fn(w, x):
        return jax.lax.with_sharding_constraint(w * 2, NamedSharding(AUTO, P()))
    line = fn.__code__.co_firstlineno + 1
    with pytest.raises(UserError, match=rf"test_jax_autoshard.py:{line}"):
        planned(fn, mesh=AUTO, pins=None, memory="30KiB", memory_share=1.0)(W, X)


def test_the_form_of_constraints_says_that_it_is_hints():
    step = planned(form="constraints")
    assert distance(step(W, X), mlp(W, X)) < 1e-5
    assert "XLA takes the plan for hints" in str(step.check())


def test_check_sets_plan_and_module_side_by_side():
    step = planned()
    step(W, X)
    made = step.check()
    assert [row.kind for row in made.rows] == ["all-gather"]
    text = re.sub(r"difference \S+ of", "difference N of", str(made))
    assert text.splitlines()[:3] == [
        "ok   2 results are those of the unsharded function; largest difference N of the largest number",
        "ok   a device receives 6.0 KiB as compiled, 6.0 KiB planned",
        "       all-gather           planned    6.0 KiB x1      compiled    6.0 KiB x1",
    ]


def test_check_finds_a_program_that_is_not_the_function():
    """A plan of another function under the same one: results differ, and the check says which."""
    step = planned(lambda w, x: {"y": x @ w})
    step(W, X)
    entry = step._last
    entry.signature.fn = lambda w, x: {"y": x @ w + 1e-2}
    with pytest.raises(InternalError, match="1 of 1 results differ: y by"):
        step.check()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_check_is_strict_in_every_dtype(dtype):
    step, x = planned(lambda x: x * 2, pins=None), jnp.ones((8, 8), dtype)
    step(x)
    assert step.check(x).ok
    step._last.signature.fn = lambda x: x * 2.5
    with pytest.raises(InternalError, match="1 of 1 results differ"):
        step.check(x)


def test_check_leaves_the_callers_arguments_alone():
    step = planned(lambda key, x: (jax.random.split(key, 1)[0], x + jax.random.normal(key, x.shape)), pins=None,
                   donate_argnums=(0, 1))
    key, x = jax.random.key(3), jnp.ones((8, 8))
    assert step.check(key, x).ok
    assert not key.is_deleted() and not x.is_deleted()


@pytest.mark.parametrize("dtype, compiled", [(jnp.bfloat16, 2), (jnp.float16, 1)])
def test_check_knows_that_xla_moves_bf16_as_f32_on_cpus(dtype, compiled):
    """The gather of a weight: asked for as planned. This compiler has no arithmetic in bf16, and converts before it sends."""
    step = planned(lambda w, x: jnp.tanh(x @ w), pins={"w": P("model", None), "x": P("data", None)})
    w, x = W.astype(dtype), X.astype(dtype)
    step(w, x)
    made = step.check(w, x)
    assert made.ok and made.planned_bytes > 0
    assert made.asked_bytes == made.planned_bytes and made.compiled_bytes == compiled * made.planned_bytes
    assert ("XLA for CPUs computes bf16 as f32" in str(made)) == (compiled == 2)


def test_check_finds_other_bytes():
    step = planned()
    step(W, X)
    data = json.loads(step.plan._core.json())
    data["totals"]["collectives"][0]["bytes"] *= 2
    step.plan.__dict__["data"] = data
    with pytest.raises(InternalError, match="BAD  a device receives 6.0 KiB as compiled, 12.0 KiB planned"):
        step.check()


@pytest.mark.parametrize("sizes, axes", [((1,), ("x",)), ((1, 1), ("data", "model"))])
def test_a_mesh_of_one_device(sizes, axes):
    step = cj.autoshard(mlp, jax.make_mesh(sizes, axes), machine="h100", donate_argnums=0)
    w = jnp.array(W)
    assert distance(step(w, X), mlp(W, X)) < 1e-5 and w.is_deleted()
    assert step.check(W, X).ok and step.plan.received_bytes == 0
    with pytest.raises(UserError, match="has no derivative of its own"):
        jax.grad(lambda w: step(w, X)[0])(W)


@pytest.mark.parametrize("sizes, pins", [
    ((1, 8), {"x": P("data", "model"), "w": P("model", "data")}), ((1, 8), {"w": P(None, ("data", "model"))}),
    ((8, 1), {"x": P("data", "model"), "w": P("model", "data")}), ((8, 1), {"x": P(("model", "data"))})])
def test_axes_of_one_device(sizes, pins):
    step = planned(mesh=jax.make_mesh(sizes, ("data", "model")), pins=pins)
    expect_same(step, mlp, W, X)
    assert step.plan.received_bytes > 0


@pytest.mark.parametrize("sizes", [(8,), (2, 2, 2), (1, 2, 1, 4)])
def test_meshes_of_one_to_four_axes(sizes):
    axes = "abcd"[: len(sizes)]
    mesh = jax.make_mesh(sizes, tuple(axes))
    expect_same(planned(mesh=mesh, pins={"x": P(axes[-1]), "w": P(None, axes[0])} if len(sizes) > 1 else {"x": P("a")}), mlp, W, X)


def test_shard_map_inside_on_a_mesh_of_one_device():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    inside = jax.shard_map(lambda x: jax.lax.psum(jnp.tanh(x), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    step = cj.autoshard(lambda x: inside(x) * 2, mesh, machine="h100")
    assert distance(step(X), jnp.tanh(X) * 2) < 1e-5 and step.check(X).ok


# ---- under other transforms


def test_inside_jit_and_scan():
    step = planned()
    assert distance(jax.jit(lambda w, x: step(w, x)[0] * 2)(W, X), mlp(W, X)[0] * 2) < 1e-5
    step = planned(lambda w, x: w + x.T @ (x @ w) * 1e-3)
    result = jax.lax.scan(lambda w, _: (step(w, X), None), W, None, length=2)[0]
    twice = W + X.T @ (X @ W) * 1e-3
    assert distance(result, twice + X.T @ (X @ twice) * 1e-3) < 1e-5


@pytest.mark.parametrize("use", [
    lambda step: jax.grad(lambda w: step(w, X)[0])(W),
    lambda step: jax.grad(jax.jit(lambda w: step(w, X)[0]))(W),
    lambda step: jax.jvp(lambda w: step(w, X)[0], (W,), (W,)),
])
def test_derivatives_are_refused_with_a_way_out(use):
    with pytest.raises(UserError, match=r"plan the derivative instead: autoshard\(jax.value_and_grad\(mlp\), mesh\)"):
        use(planned())


def test_batching_is_refused_with_a_way_out():
    with pytest.raises(UserError, match=r"plan the batched one instead: autoshard\(jax.vmap\(mlp\), mesh\)"):
        jax.vmap(planned(), in_axes=(None, 0))(W, jnp.stack([X, X]))


# ---- what users get wrong


def test_symbolic_sizes_are_refused():
    (rows,) = jax.export.symbolic_shape("rows")
    with pytest.raises(UserError, match="x has the symbolic size rows"):
        cj.plan(mlp, W, jax.ShapeDtypeStruct((rows, 64), jnp.float32), mesh=MESH)


@pytest.mark.parametrize("options, said", [
    (dict(pins={"w": P("nope")}), 'unknown axis "nope"; the mesh is'),
    (dict(pins={"weights": P("data")}), "pin 'weights': no argument has such a path; there are w, x"),
    (dict(pins={"w": P("data", None, None)}), "pin 'w' of w: .* is for 3 dimensions or more, and there are 2"),
    (dict(pins={"w": "data"}), r'"data" is no PartitionSpec; P\("data"\) splits the first dimension'),
    (dict(pins={"x": P(("data", "model"))}, mesh=jax.make_mesh((3,), ("data",))), "unknown axis|does not divide"),
    (dict(machine="h1000"), "unknown machine 'h1000'; built in are"),
    (dict(memory="80 bananas"), "bytes '80 bananas': expected a number"),
    (dict(memory="10KiB"), "no plan fits 10240 bytes.*is enough"),
    (dict(memory_share=2.0), "memory_share 2: it must be above 0 and at most 1"),
    (dict(solver="best"), "solver 'best': there are cleave, mip, heuristic and propagation"),
    (dict(time_limit=0), "time_limit 0: it must be more than 0 s"),
    (dict(form="magic"), "form 'magic': there are manual and constraints"),
    (dict(machin="h100"), "autoshard: got an unexpected keyword argument 'machin'"),
    (dict(mesh="data=2"), "a jax.sharding.Mesh or a number of devices is needed, not str"),
    (dict(mesh=0), "0 devices; at least one is needed"),
    (dict(mesh=8, pins=COLUMNS), "pins and shardings name axes of a mesh; give a mesh instead of 8 devices"),
    (dict(mesh=8, in_shardings=P("x")), "pins and shardings name axes of a mesh"),
    (dict(machine={"base": "h100", "name": "ours"}), "write the profile first, with machine.save"),
    (dict(in_shardings=(P(),)), "in_shardings has 1 entries, and the function was called with 2"),
    (dict(plan="nowhere.json"), "cannot read 'nowhere.json'"),
    (dict(plan=3), "plan is the path of a file, not int"),
    (dict(memory=float("nan")), "memory nan: a text such as"),
    (dict(memory=True), "memory True: a text such as"),
    (dict(memory=[1]), r"memory \[1\]: a text such as"),
    (dict(machine=None), 'a machine is a name such as "h100", a path or a profile, not NoneType'),
    (dict(memory_share="most"), "memory_share 'most': a number is needed"),
    (dict(time_limit="long"), "time_limit 'long': a number is needed"),
    (dict(gap="a"), "gap 'a': a number is needed"),
    (dict(trips="a"), "trips 'a': a whole number from 0 on is needed"),
    (dict(seed=-1), "seed -1: a whole number from 0 on is needed"),
    (dict(progress="x"), "progress 'x': True, False, None or a function"),
    (dict(pins="params/w"), "pins is a dict of layouts by path"),
    (dict(pins={3: P()}), "pins is a dict of layouts by path"),
    (dict(pins={"w": P(1)}), "has an entry 1; a dimension has the name of an axis, several or None"),
    (dict(pins={"": P("data")}), "pin '': no argument has such a path"),
    (dict(in_shardings=(None, P("nope"))), 'in_shardings of x: unknown axis "nope"'),
    (dict(out_shardings=(None, P("nope"))), 'out_shardings of result 1: unknown axis "nope"'),
    (dict(pins={"w": NamedSharding(jax.make_mesh((4, 2), ("data", "model")), P("data"))}),
     r"pin 'w' of w: .* is for the mesh <.*4.*>, and the plan's is"),
    (dict(in_shardings=(NamedSharding(MESH, P(), memory_kind="pinned_host"), None)), "w: the memory pinned_host is not planned for"),
    (dict(in_shardings=({"w": P()}, None)), r"in_shardings\[0\] does not fit the tree"),
])
def test_bad_options_get_one_line(options, said):
    options = dict(machine="h100", mesh=MESH) | options
    with pytest.raises(UserError, match=said) as error:
        cj.autoshard(mlp, options.pop("mesh"), **options)(W, X)
    assert "\n" not in str(error.value).strip()


@pytest.mark.parametrize("args, options, said", [
    (({"name": "adam", "w": W}, X), {}, "w/name is a str, which is no array; make the argument static"),
    ((W, object()), {}, "x is a object, which is no array"),
    ((W, [X, jnp.tanh]), {}, "x/1 is a .*, which is no array"),
    (({"a": 2}, X), dict(static_argnums=0), "the static argument w is a dict, which has no hash"),
])
def test_bad_arguments_get_one_line(args, options, said):
    with pytest.raises(UserError, match=said) as error:
        planned(pins=None, **options)(*args)
    assert "\n" not in str(error.value).strip()


def test_results_in_uneven_shards_are_refused():
    step = planned(lambda w, x: {"y": x[:7] @ w}, pins=None, out_shardings={"y": P("data")})
    with pytest.raises(UserError, match=r"out_shardings of result y: .* splits 7 in 2, and arguments and results are to lie in even"):
        step(W, X)


def test_memory_of_the_host_is_refused():
    step = planned(lambda w, x: jax.device_put(x @ w, jax.memory.Space.Host), pins=None)
    with pytest.raises(UserError, match=r"device_put at test_jax_autoshard.py:\d+ moves an array to the memory of the host"):
        step(W, X)
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host")
    layer = jax.checkpoint(lambda w, x: jnp.tanh(checkpoint_name(jnp.sin(x @ w), "h")).sum(), policy=policy)
    with pytest.raises(UserError, match="moves an array to the memory of the host"):
        planned(jax.grad(layer), pins=None)(W, X)


def test_pins_say_what_is_near():
    def of(params, x):
        return x @ params["layers"][0]["query"]
    for pattern, said in (("params/layers", "'params/layers/*' matches params/layers/0/query"),
                          ("params['layers'][0]['query']", "'params/layers/0/query' matches params/layers/0/query"),
                          ("params/layers/0/qeury", "'params/layers/0/query' is near to it")):
        with pytest.raises(UserError) as error:
            planned(of, pins={pattern: P("data")})({"layers": [{"query": W}]}, X)
        assert said in str(error.value)


def test_memory_may_have_a_space():
    assert cj.plan(mlp, W, X, mesh=MESH, machine="h100", memory="80 GiB").memory_bytes > 0


def test_keyword_arguments_of_the_function_are_said():
    with pytest.raises(UserError, match=r"keyword argument 'x'; arguments of the function that go by keyword are kwargs="):
        cj.plan(mlp, W, x=X, mesh=MESH)


def test_place_wants_the_argument_itself():
    step = planned()
    step(W, X)
    with pytest.raises(UserError, match=r"place: w was planned for another structure or other shapes \(1 arrays, and these are 2"):
        step.place({"a": W, "b": X}, "w")


def test_no_plan_before_the_first_call():
    step = planned()
    for ask in (lambda: step.plan, step.check):
        with pytest.raises(UserError, match="mlp was not called yet"):
            ask()


def test_errors_of_the_function_are_the_users_own():
    with pytest.raises(NameError, match="nothing"):
        planned(lambda w, x: nothing, pins=None)(W, X)  # noqa: F821
    step = planned()
    step(W, X)
    with pytest.raises(TypeError):
        step(W, X[:, :3])
