"""Transforms of functions over trees of Tensors, beside those of JAX."""

import collections
import dataclasses
import signal

import cleave
import cleave.numpy as cnp
import numpy as np
import pytest
from cleave import P, UserError
from test_tensors import close, normal, placed

jax = pytest.importorskip("jax")
jnp = jax.numpy

PARAMS = {"w": normal(4, 3), "b": [normal(3)]}
X = normal(6, 4)
Pair = collections.namedtuple("Pair", "first second")


def loss(params, x, np=cnp):
    return np.mean(np.tanh(x @ params["w"] + params["b"][0]) ** 2)


def jax_loss(params, x):
    return loss(params, x, jnp)


def same(made, expected, tolerance=2e-5):
    """Trees of one shape with the same numbers."""
    assert cleave.tree.structure(made) == cleave.tree.structure(expected)
    for a, b in zip(cleave.tree.leaves(made), cleave.tree.leaves(expected)):
        close(a, b, tolerance)


class TestGrad:
    def test_like_jax(self):
        same(cleave.grad(loss)(PARAMS, X), jax.grad(jax_loss)(PARAMS, X))
        same(cleave.value_and_grad(loss)(PARAMS, X), jax.value_and_grad(jax_loss)(PARAMS, X))
        same(cleave.grad(loss, argnums=(0, 1))(PARAMS, X), jax.grad(jax_loss, argnums=(0, 1))(PARAMS, X))
        same(cleave.grad(loss, argnums=-1)(PARAMS, X), jax.grad(jax_loss, argnums=-1)(PARAMS, X))

    def test_over_meshes(self):
        expected = jax.grad(jax_loss, argnums=1)(PARAMS, X)
        for x in placed(X):
            gradient = cleave.grad(loss, argnums=1)(PARAMS, x)
            close(gradient, expected)
            assert gradient.mesh == x.mesh

    def test_aux(self):
        def f(x):
            return cnp.sum(x**2), {"twice": x * 2, "name": "aux"}

        (value, aux), gradient = cleave.value_and_grad(f, has_aux=True)(X)
        close(value, np.sum(X**2))
        close(aux["twice"], 2 * X)
        assert aux["name"] == "aux"
        gradient, aux = cleave.grad(f, has_aux=True)(X)
        close(gradient, 2 * X)

    def test_numbers_and_integers(self):
        assert cleave.grad(lambda x: x**3)(2.0).item() == 12
        assert cleave.grad(lambda x: x**2)(0.0).item() == 0
        assert cleave.grad(lambda x: x**2)(-3.0).item() == -6
        gradient = cleave.grad(lambda p: cnp.sum(p["x"]) * p["n"])({"x": X, "n": 3})
        close(gradient["x"], np.full_like(X, 3))
        assert gradient["n"] is None
        same(cleave.grad(lambda x: cnp.sum(x.astype("float32") ** 2))(cleave.tensor(X, "bfloat16")).astype("float32"),
             jax.grad(lambda x: jnp.sum(x.astype("float32") ** 2))(jnp.asarray(X, "bfloat16")).astype("float32"))

    def test_trees(self):
        @dataclasses.dataclass
        class Model:
            w: object
            heads: int = dataclasses.field(default=2, metadata={"static": True})

        gradient = cleave.grad(lambda m, pair: cnp.sum(m.w) * m.heads + cnp.sum(pair.first))(Model(X), Pair(X, None))
        assert isinstance(gradient, Model) and gradient.heads == 2
        close(gradient.w, np.full_like(X, 2))

    def test_higher(self):
        def f(x, np=cnp):
            return np.sum(np.sin(x) * x**2)

        x = X[0]
        close(cleave.hessian(f)(x), jax.hessian(lambda x: f(x, jnp))(x))
        close(cleave.jacrev(cleave.jacfwd(f))(x), jax.hessian(lambda x: f(x, jnp))(x))
        close(cleave.grad(lambda x: cnp.sum(cleave.grad(f)(x)))(x),
              jax.grad(lambda x: jnp.sum(jax.grad(lambda y: f(y, jnp))(x)))(x))

    def test_jacobians(self):
        def f(p, x, np=cnp):
            return {"y": np.tanh(x @ p["w"]), "s": np.sum(x)}

        p, x = {"w": PARAMS["w"]}, X[0]
        expected = jax.jacfwd(lambda p, x: f(p, x, jnp))(p, x)
        same(cleave.jacfwd(f)(p, x), expected)
        same(cleave.jacrev(f)(p, x), expected)
        same(cleave.jacrev(f, argnums=(0, 1))(p, x), jax.jacrev(lambda p, x: f(p, x, jnp), argnums=(0, 1))(p, x))

    def test_errors(self):
        with pytest.raises(UserError, match="returns a tree, not one number"):
            cleave.grad(lambda x: (x, x))(X)
        with pytest.raises(UserError, match="returns a pair"):
            cleave.grad(lambda x: cnp.sum(x), has_aux=True)(X)
        with pytest.raises(UserError):
            cleave.grad(lambda x: x)(X)
        with pytest.raises(UserError, match="no tensor of floats or complex numbers to differentiate by"):
            cleave.grad(lambda x: cnp.sum(x))(np.arange(3))
        with pytest.raises(UserError, match="argument 3 of a call with 1 arguments"):
            cleave.grad(lambda x: cnp.sum(x), argnums=3)(X)
        with pytest.raises(UserError, match="'x' is a object, neither a Tensor nor a tree"):
            cleave.grad(lambda p: p["x"])({"x": object()})
        with pytest.raises(ZeroDivisionError):
            cleave.grad(lambda x: 1 / 0)(X)
        close(cleave.grad(lambda x: cnp.sum(x))(X), np.ones_like(X))  # nothing is left behind


class TestJvpVjp:
    def test_jvp(self):
        tangents = {"w": normal(4, 3), "b": [normal(3)]}, normal(6, 4)
        made = cleave.jvp(loss, (PARAMS, X), tangents)
        same(made, jax.jvp(jax_loss, (PARAMS, X), tangents))
        same(cleave.jvp(loss, (PARAMS, X), (tangents[0], None)), jax.jvp(jax_loss, (PARAMS, X), (tangents[0], np.zeros_like(X))))
        with pytest.raises(UserError, match="they must be alike"):
            cleave.jvp(cnp.sin, (X,), (X[0],))
        with pytest.raises(UserError, match="jvp: tangents"):
            cleave.jvp(loss, (PARAMS, X), ({"w": X}, X))

    def test_vjp(self):
        def f(p, x, np=cnp):
            return Pair(np.tanh(x @ p["w"]), np.sum(x))

        p, ct = {"w": PARAMS["w"]}, Pair(normal(6, 3), np.float32(2))
        value, pull = cleave.vjp(f, p, X)
        expected_value, expected_pull = jax.vjp(lambda p, x: f(p, x, jnp), p, X)
        same(value, expected_value)
        for _ in range(2):
            same(pull(ct), expected_pull(ct))
        close(pull(Pair(None, 1.0))[1], np.ones_like(X))

    def test_vjp_aux(self):
        value, pull, aux = cleave.vjp(lambda x: (x**2, x * 3), X, has_aux=True)
        close(pull(np.ones_like(X))[0], 2 * X)
        close(aux, 3 * X)


class TestVmap:
    def test_like_jax(self):
        a, w = normal(5, 4), normal(4, 3)
        close(cleave.vmap(lambda x, w: x @ w, in_axes=(0, None))(a, w), a @ w)
        close(cleave.vmap(lambda x: cnp.sum(x), in_axes=1)(a), a.sum(0))
        close(cleave.vmap(lambda x: x * 2, out_axes=1)(a), 2 * a.T)
        made = cleave.vmap(lambda p: {"s": p["x"] + p["y"]}, in_axes=({"x": 0, "y": None},))({"x": a, "y": w[:, 0]})
        close(made["s"], a + w[:, 0])
        same(cleave.vmap(cleave.grad(loss), in_axes=(None, 0))(PARAMS, X),
             jax.vmap(jax.grad(jax_loss), in_axes=(None, 0))(PARAMS, X))
        close(cleave.vmap(lambda x, *, k: x * k)(a, k=a), a * a)
        one, two = cleave.vmap(lambda x: (x, x), out_axes=(0, 1))(a)
        close(two, a.T)
        close(cleave.vmap(lambda: cnp.ones((2,)), axis_size=3)(), np.ones((3, 2)))

    def test_over_a_mesh(self):
        a = cleave.tensor(normal(5, 4)).shard("x=2", P())
        made = cleave.vmap(lambda x: x * 2, spmd_axis="x")(a)
        assert made.sharding == P("x", None)
        close(made, 2 * np.asarray(a))

    def test_errors(self):
        with pytest.raises(UserError, match="in_axes has 2 entries, and there are 1 arguments"):
            cleave.vmap(lambda x: x, in_axes=(0, 0))(X)
        with pytest.raises(UserError):
            cleave.vmap(lambda x, y: x)(np.ones((2, 3)), np.ones((3, 3)))


class TestJit:
    def test_cached_by_signature(self):
        f = cleave.jit(loss)
        expected = jax_loss(PARAMS, X)
        close(f(PARAMS, X), expected)
        close(f(PARAMS, X), expected)
        assert f.traces == 1 and f.runs == 2
        close(f(PARAMS, X[:2]), jax_loss(PARAMS, X[:2]))  # another shape
        close(f(PARAMS, cleave.tensor(X).shard("x=2", P("x"))), expected)  # another layout
        assert f.traces == 3
        f({"w": PARAMS["w"], "b": (PARAMS["b"][0],)}, X)  # another structure
        assert f.traces == 4
        assert "step" in f.description()

    def test_numbers_are_inputs(self):
        f = cleave.jit(lambda x, rate: x * rate)
        for rate in (0.5, 1.5, 2.5):
            close(f(X, rate), X * np.float32(rate))
        assert f.traces == 1

    def test_static(self):
        @cleave.jit(static_argnums=1, static_argnames="flag")
        def f(x, n, flag=False, mode="a"):
            assert isinstance(n, int)
            return sum([x] * n) + (1 if flag else 0) + (10 if mode == "b" else 0)

        close(f(X, 3), 3 * X)
        close(f(X, 3), 3 * X)
        assert f.traces == 1
        close(f(X, 2, flag=True), 2 * X + 1)
        close(f(X, 2, mode="b"), 2 * X + 10)
        assert f.traces == 3
        with pytest.raises(UserError, match="can not be compared"):
            cleave.jit(lambda x, n: x, static_argnums=1)(X, [1])

    def test_donate(self):
        step = cleave.jit(lambda state, x: ({"s": state["s"] + x}, x), donate_argnums=0)
        state = {"s": cleave.tensor(X)}
        after, _ = step(state, X)
        close(after["s"], 2 * X)
        with pytest.raises(UserError):
            np.asarray(state["s"])
        with pytest.raises(UserError, match="argument 5 is to be donated"):
            cleave.jit(lambda x: x, donate_argnums=5)(X)

    def test_methods_and_results(self):
        class Model:
            @cleave.jit(static_argnums=0)
            def __call__(self, x):
                return {"y": x + 1, "none": None, "name": "model", "number": 3}

        made = Model()(X)
        close(made["y"], X + 1)
        assert made["none"] is None and made["name"] == "model" and made["number"].item() == 3

    def test_reading_inside_is_refused(self):
        with pytest.raises(UserError):
            cleave.jit(lambda x: x * float(x.sum()))(X)
        with pytest.raises(UserError):
            cleave.jit(lambda x: np.asarray(x))(X)

    def test_collectives(self):
        x = cleave.tensor(X).shard("data=2", P("data"))
        f = cleave.jit(cleave.value_and_grad(loss))
        with cleave.CommLog() as log:
            value, gradient = f(PARAMS, x)
            np.asarray(gradient["w"])
        close(value, jax_loss(PARAMS, X))
        assert log.count("all_reduce") >= 1

    def test_xla(self):
        f = cleave.jit(loss, engine="xla")
        try:
            value = f(PARAMS, X)
        except UserError as error:
            pytest.skip(f"no plugin: {error}")
        close(value, jax_loss(PARAMS, X))


CHAINS = {
    "grad(jit)": (lambda t, f: t.grad(t.jit(f))),
    "jit(grad)": (lambda t, f: t.jit(t.grad(f))),
    "jit(grad(jit))": (lambda t, f: t.jit(t.grad(t.jit(f)))),
    "grad(checkpoint)": (lambda t, f: t.grad(t.checkpoint(f))),
    "jit(vmap(grad))": (lambda t, f: t.jit(t.vmap(t.grad(f), in_axes=(None, 0)))),
    "vmap(jit(grad))": (lambda t, f: t.vmap(t.jit(t.grad(f)), in_axes=(None, 0))),
    "jacfwd(grad)": (lambda t, f: t.jacfwd(t.grad(f, argnums=1), argnums=1)),
    "jit(jacrev(vmap))": (lambda t, f: t.jit(t.jacrev(t.vmap(f, in_axes=(None, 0)), argnums=1))),
    "grad(vmap(jit))": (lambda t, f: t.grad(lambda p, x: t.vmap(t.jit(f), in_axes=(None, 0))(p, x).sum(), argnums=1)),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_compositions(chain):
    same(CHAINS[chain](cleave, loss)(PARAMS, X), CHAINS[chain](jax, jax_loss)(PARAMS, X))


class TestFlow:
    def test_cond(self):
        def f(x, np=cnp, cond=cleave.cond):
            return cond(np.sum(x) > 0, lambda x: np.sum(x**2), lambda x: np.sum(x), x)

        for x in (X, -X, np.abs(X), -np.abs(X)):
            close(f(x), f(x, jnp, jax.lax.cond))
            close(cleave.grad(f)(x), jax.grad(lambda x: f(x, jnp, jax.lax.cond))(x))
        with pytest.raises(UserError, match="trees of two structures"):
            cleave.cond(True, lambda x: (x,), lambda x: x, X)

    def test_switch(self):
        branches = [lambda x: x, lambda x: 2 * x, lambda x: 3 * x]
        for i in (-1, 0, 1, 2, 7):
            close(cleave.switch(i, branches, X), jax.lax.switch(i, branches, X))
        with pytest.raises(UserError, match="trees of two structures"):
            cleave.switch(0, [lambda x: x, lambda x: (x,)], X)

    def test_loops(self):
        count, value = cleave.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, 1.0))
        assert (count.item(), value.item()) == (5, 32)
        assert cleave.fori_loop(0, 5, lambda i, x: x + i, 0).item() == 10
        close(cleave.grad(lambda x: cleave.fori_loop(0, 3, lambda i, y: y * x, 1.0))(2.0), 12)
        close(cleave.jit(lambda x: cleave.fori_loop(0, 3, lambda i, y: y + 1, x))(X), X + 3)
        with pytest.raises(UserError, match="trees of two structures"):
            cleave.while_loop(lambda s: s < 5, lambda s: (s, s), 0)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_scan(self, reverse):
        def f(w, xs, np=cnp, scan=cleave.scan):
            def body(carry, x):
                carry = {"h": np.tanh(carry["h"] @ w + x["a"])}
                return carry, carry["h"] * 2

            return scan(body, {"h": np.zeros((3,))}, {"a": xs}, reverse=reverse)

        w, xs = normal(3, 3), normal(7, 3)
        made, expected = f(w, xs), f(w, xs, jnp, jax.lax.scan)
        same(made, expected)
        close(cleave.grad(lambda w: cnp.sum(f(w, xs)[1]))(w), jax.grad(lambda w: jnp.sum(f(w, xs, jnp, jax.lax.scan)[1]))(w))
        batch = normal(2, 7, 3)
        same(cleave.vmap(f, in_axes=(None, 0))(w, batch),
             jax.vmap(lambda w, x: f(w, x, jnp, jax.lax.scan), in_axes=(None, 0))(w, batch))

    def test_scan_without_inputs(self):
        last, all_of = cleave.scan(lambda c, _: (c * 2, c), 1.0, length=4)
        assert last.item() == 16 and all_of.tolist() == [1, 2, 4, 8]
        with pytest.raises(UserError, match="say the length"):
            cleave.scan(lambda c, _: (c, c), 1.0)
        with pytest.raises(UserError, match="the carry before and after"):
            cleave.scan(lambda c, x: ((c, c), x), 1.0, X)

    @pytest.mark.parametrize("n", [1, 2, 5, 8])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_associative_scan(self, n, reverse):
        a, b = normal(3, n), normal(3, n)

        def combine(x, y):
            return x[0] * y[0], y[0] * x[1] + y[1]

        same(cleave.associative_scan(combine, (a, b), reverse=reverse, axis=1),
             jax.lax.associative_scan(combine, (a, b), reverse=reverse, axis=1))

    def test_stop_gradient(self):
        close(cleave.grad(lambda x: cnp.sum(x * cleave.stop_gradient(x)))(X), X)

    def test_custom_vjp(self):
        @cleave.custom_vjp
        def f(x, n):
            return x**3 * n["n"]

        f.defvjp(lambda x, n: (f.f(x, n), {"x": x}), lambda r, ct: (ct * r["x"] * 100, None))
        close(f(X, {"n": 2}), 2 * X**3, 1e-4)
        close(cleave.grad(lambda x: cnp.sum(f(x, {"n": 2})))(X), 100 * X)
        close(cleave.jit(cleave.grad(lambda x: cnp.sum(f(x, {"n": 2}))))(X), 100 * X)
        with pytest.raises(UserError, match="defvjp"):
            cleave.custom_vjp(lambda x: x)(X)
        with pytest.raises(UserError, match="a tuple of 1 cotangents"):
            cleave.grad(cleave.custom_vjp(cnp.sum, lambda x: (cnp.sum(x), x), lambda r, ct: r))(X)

    def test_keep(self):
        f = cleave.checkpoint(lambda x: cnp.sum(cnp.sin(cleave.keep(cnp.exp(x)))))
        close(cleave.grad(f)(X), np.cos(np.exp(X)) * np.exp(X))


class TestShardMap:
    def test_manual(self):
        def f(x):
            assert x.shape == (2, 4)
            return cleave.comm.all_reduce(cnp.sum(x, axis=0), "data"), x + cleave.comm.axis_index("data")

        mapped = cleave.shard_map(f, "data=3", in_specs=P("data"), out_specs=(P(), P("data")))
        with cleave.CommLog() as log:
            total, moved = mapped(X)
            close(total, X.sum(0))
        close(moved, X + np.repeat(np.arange(3), 2)[:, None])
        assert log.count("all_reduce") == 1
        close(cleave.jit(mapped)(X)[0], X.sum(0))
        close(cleave.grad(lambda x: cnp.sum(mapped(x)[0] ** 2))(X), 2 * np.broadcast_to(X.sum(0), X.shape), 1e-4)

    def test_collectives(self):
        a = normal(4, 4)

        def run(f, out, mesh="x=4", spec=P("x")):
            return cleave.shard_map(f, mesh, in_specs=spec, out_specs=out)(a)

        close(run(lambda x: cleave.comm.all_gather(x, "x"), P()), a)
        close(run(lambda x: cleave.comm.ppermute(x, "x", [(0, 1), (1, 2), (2, 3), (3, 0)]), P("x")), np.roll(a, 1, axis=0))
        close(run(lambda x: cleave.comm.all_to_all(x, "x", 0, 1), P(None, "x")), a)
        close(run(lambda x: cleave.comm.reduce_scatter(x, "x", 1), P(None, "x")), a.sum(0, keepdims=True))
        largest = run(lambda x: cleave.comm.all_reduce(x, ("x", "y"), op="max"), P(), "x=2,y=2", P(("x", "y")))
        close(largest, a.max(0, keepdims=True))

    def test_checks(self):
        with pytest.raises(UserError, match="x"):
            cleave.shard_map(lambda x: x, "x=2", in_specs=P("x"), out_specs=P())(X)
        with pytest.raises(UserError, match="mode is"):
            cleave.shard_map(lambda x: x, "x=2", mode="other")
        with pytest.raises(UserError, match="2 specs for 1 arguments"):
            cleave.shard_map(lambda x: x, "x=2", in_specs=(P(), P()))(X)

    def test_auto(self):
        specs = {"w": P(None, "model"), "b": None}, P("data")
        f = cleave.shard_map(cleave.value_and_grad(loss), "data=2,model=3", mode="auto", in_specs=specs)
        value, gradient = f(PARAMS, X)
        same((value, gradient), jax.value_and_grad(jax_loss)(PARAMS, X))
        assert gradient["w"].sharding == P(None, "model")

    def test_jax_mesh(self):
        mesh = jax.sharding.AbstractMesh((3,), ("data",))
        spec = jax.sharding.PartitionSpec("data")
        close(cleave.shard_map(lambda x: x * 2, mesh, in_specs=spec, out_specs=spec)(X), 2 * X)


class TestAutoshard:
    @staticmethod
    def step(params, x):
        value, gradient = cleave.value_and_grad(loss)(params, x)
        return cleave.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    @staticmethod
    def expected(params, x):
        value, gradient = jax.value_and_grad(jax_loss)(params, x)
        return jax.tree.map(lambda p, g: p - np.float32(0.1) * g, params, gradient), value

    def test_runs(self):
        step = cleave.autoshard(self.step, "data=2,model=2", in_specs=(None, P("data")), donate_argnums=0)
        assert step.place(PARAMS) is PARAMS
        params, value = step(PARAMS, X)
        same((params, value), self.expected(PARAMS, X))
        params = step.place(PARAMS)
        same(step(params, X), self.expected(PARAMS, X))
        assert step.num_plans == 1
        assert "ok" in step.verify()
        assert step.plan.step_seconds > 0 and "x" in step.explain()
        with pytest.raises(UserError, match="no argument of the function is such a tree"):
            step.place({"other": X})

    def test_pins_and_specs(self, tmp_path):
        def f(p, x):
            return x @ p["w"]

        mapped = cleave.autoshard(f, "x=2,y=3", pins={"[0].w": P(None, "y")}, out_specs=P("x", "y"))
        made = mapped({"w": PARAMS["w"]}, X)
        close(made, X @ PARAMS["w"])
        assert made.sharding == P("x", "y")
        assert mapped.place({"w": PARAMS["w"]})["w"].sharding == P(None, "y")
        mapped.save_plan(tmp_path / "plan.json")
        again = cleave.autoshard(f, "x=2,y=3", pins={"[0].w": P(None, "y")}, out_specs=P("x", "y"), plan=tmp_path / "plan.json")
        close(again({"w": PARAMS["w"]}, X), X @ PARAMS["w"])

    def test_devices_and_transforms(self):
        f = cleave.autoshard(loss, 4)
        close(f(PARAMS, X), jax_loss(PARAMS, X))
        same(cleave.grad(f)(PARAMS, X), jax.grad(jax_loss)(PARAMS, X))
        lines = []
        cleave.autoshard(loss, "x=2", trace=lines.append).prepare(PARAMS, X)
        assert any("Phase 1" in line for line in lines)

    def test_errors(self):
        with pytest.raises(UserError, match="nothing is planned yet"):
            cleave.autoshard(loss, "x=2").plan
        with pytest.raises(TypeError, match="no option memry"):
            cleave.autoshard(loss, "x=2", memry="1GiB")
        with pytest.raises(UserError, match="for a number of devices"):
            cleave.autoshard(loss, 4, in_specs=(P("x"),))
        with pytest.raises(UserError):
            cleave.autoshard(loss, "x=2", memory="10B")(PARAMS, X)


    def test_place_by_number(self):
        def f(config, p, m):
            return p * 2, m @ m

        mapped = cleave.autoshard(f, "x=2", in_specs=(None, P("x"), P(None, "x")))
        a = normal(4, 4)
        mapped.prepare({"name": "f"}, a, a)
        assert mapped.place(a).sharding == P("x", None)
        assert mapped.place(a, argnum=2).sharding == P(None, "x")
        with pytest.raises(UserError, match="other types"):
            mapped.place(normal(2), argnum=2)

    def test_interrupted(self):
        with pytest.raises(KeyboardInterrupt):
            cleave.autoshard(loss, "x=2", trace=lambda line: signal.raise_signal(signal.SIGINT)).prepare(PARAMS, X)


def test_trace():
    traced = cleave.trace(loss)(PARAMS, X)
    assert "stablehlo.dot_general" in traced.text
    assert traced.module().num_ops > 3
    close(traced.replay([PARAMS["b"][0], PARAMS["w"], 2 * X])[0], jax_loss(PARAMS, 2 * X))
