"""Meshes, shardings, rules, propagation, reshards, machines and runs, against NumPy, JAX and DTensor."""

import itertools
import json
import pickle

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import cleave
from cleave import Mesh, Rule, Sharding, UserError

MATMUL = """
module @product {
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>) -> tensor<6x12xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
    %1 = stablehlo.tanh %0 : tensor<6x12xf32>
    return %1 : tensor<6x12xf32>
  }
}
"""


@pytest.fixture
def mesh():
    return Mesh(x=2, y=4)


@pytest.mark.parametrize("made", [
    lambda: Mesh((2, 4), ("x", "y")),
    lambda: Mesh("x=2,y=4"),
    lambda: Mesh('<["x"=2, "y"=4]>'),
    lambda: Mesh({"x": 2, "y": 4}),
    lambda: Mesh(Mesh(x=2, y=4)),
    lambda: Mesh(jax.make_mesh((2, 4), ("x", "y"))),
    lambda: Mesh(jax.sharding.AbstractMesh((2, 4), ("x", "y"))),
    lambda: Mesh(np.arange(8).reshape(2, 4), ("x", "y")),
    lambda: Mesh(x=2, y=4, device_ids=range(8)),
    lambda: pickle.loads(pickle.dumps(Mesh(x=2, y=4))),
])
def test_meshes_of_all_kinds_are_the_same(made, mesh):
    assert made() == mesh and hash(made()) == hash(mesh)
    assert made().shape == {"x": 2, "y": 4} and made().size == 8


def test_the_order_of_devices_counts():
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    mesh = Mesh(x=2, y=4, device_ids=order)
    assert mesh != Mesh(x=2, y=4)
    assert mesh.device_ids == tuple(order)
    assert mesh.coordinates(6) == (0, 3) and mesh.coordinates(1) == (1, 0)
    assert repr(mesh) == f"Mesh(x=2, y=4, device_ids={order})"
    assert eval(repr(mesh)) == mesh
    devices = np.array(jax.devices())[order].reshape(2, 4)
    assert Mesh(jax.sharding.Mesh(devices, ("x", "y"))) == mesh


def test_meshes_of_pytorch():
    torch = pytest.importorskip("torch")

    class DeviceMesh:  # what it has of a torch.distributed.DeviceMesh, which needs processes
        mesh_dim_names = ("x", "y")
        mesh = torch.tensor([[0, 2], [1, 3]])

    assert Mesh(DeviceMesh()) == Mesh(x=2, y=2, device_ids=[0, 2, 1, 3])


@pytest.mark.parametrize("made, words", [
    (lambda: Mesh(), "at least one axis"),
    (lambda: Mesh((2, 4), ("x",)), "2 sizes and 1 names"),
    (lambda: Mesh(x=0), "size"),
    (lambda: Mesh(x=2.5), "whole number"),
    (lambda: Mesh(x=2, device_ids=[0, 0]), "device_ids"),
    (lambda: Mesh("x=two"), "x=two"),
    (lambda: Mesh(3), "int is no mesh"),
    (lambda: Mesh("x=2", y=2), "by name or by position"),
])
def test_wrong_meshes_say_what_is_wrong(made, words):
    with pytest.raises(UserError, match=words):
        made()
    assert issubclass(UserError, ValueError)


def test_specs_of_all_kinds_are_the_same(mesh):
    wanted = Sharding(mesh, '[{"x"}, {}, {"y"}]')
    jax_mesh = jax.make_mesh((2, 4), ("x", "y"))

    class P(tuple):  # as cleave.P has it
        text = '[{"x"}, {}, {"y"}]'

    for spec in (("x", None, "y"), ["x", (), ("y",)], PartitionSpec("x", None, "y"),
                 NamedSharding(jax_mesh, PartitionSpec("x", None, "y")), P(("x", None, "y"))):
        assert Sharding(mesh, spec) == wanted
    assert Sharding(mesh, ("x",), rank=3) == Sharding(mesh, '[{"x"}, {}, {}]')

    class Short(tuple):
        text = '[{"x"}], replicated={"y"}'

    assert Sharding(mesh, Short(["x"]), rank=3).text == '[{"x"}, {}, {}], replicated={"y"}'
    assert Sharding(mesh, Sharding(mesh, ("x",)), rank=1).text == '[{"x"}]'
    with pytest.raises(UserError, match="dimensions"):
        Sharding(mesh, Short(["x"]), rank=0)
    assert Sharding("x=2,y=4", '[{"x"}, {}, {"y"}]') == wanted
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    assert wanted.dims == (("x",), (), ("y",)) and wanted.rank == 3


@pytest.mark.parametrize("spec, words", [
    ('[{"z"}, {}]', "z"),
    ('[{"x"}, {"x"}]', "x"),
    ("x", r'P\("x"\)'),
    (3, "no layout"),
    ([1.5], "no axis"),
])
def test_wrong_specs_say_what_is_wrong(mesh, spec, words):
    with pytest.raises(UserError, match=words):
        Sharding(mesh, spec)


def specs_of_rank(rank, names):
    """All ways to put each axis on a dimension, in both orders, or on none."""
    for places in itertools.product(range(-1, rank), repeat=len(names)):
        for order in itertools.permutations(range(len(names))):
            dims = [[] for _ in range(rank)]
            for axis in order:
                if places[axis] >= 0:
                    dims[places[axis]].append(names[axis])
            yield [tuple(dim) for dim in dims]


@pytest.mark.parametrize("shape", [(8,), (8, 16), (8, 8, 8)])
def test_even_shards_are_those_of_jax(shape, mesh):
    jax_mesh = jax.make_mesh((2, 4), ("x", "y"))
    for dims in specs_of_rank(len(shape), ("x", "y")):
        own = Sharding(mesh, dims)
        theirs = NamedSharding(jax_mesh, PartitionSpec(*dims))
        assert own.shard_shape(shape) == theirs.shard_shape(shape)
        assert own.is_even(shape)
        expected = {device.id: tuple(part.indices(size)[:2] for part, size in zip(slices, shape))
                    for device, slices in theirs.devices_indices_map(shape).items()}
        found = {device: tuple((part.start, part.stop) for part in slices)
                 for device, slices in own.devices_indices_map(shape).items()}
        assert found == expected


@pytest.mark.parametrize("shape", [(5, 7), (9, 3), (1, 2)])
def test_uneven_shards_are_chunks_of_the_ceiling(shape, mesh):
    """By the arithmetic of the design: a dimension of n over w shards has chunks of ceil(n / w)."""
    sizes = mesh.shape
    for dims in specs_of_rank(2, ("x", "y")):
        own = Sharding(mesh, dims)
        whole = np.arange(np.prod(shape)).reshape(shape)
        seen = np.zeros(shape, int)
        for device in range(8):
            place = dict(zip(("x", "y"), divmod(device, 4)))
            index = []
            for n, axes in zip(shape, dims):
                shards, at = 1, 0
                for axis in axes:
                    shards, at = shards * sizes[axis], at * sizes[axis] + place[axis]
                chunk = -(-n // shards)
                index.append(slice(min(n, at * chunk), min(n, (at + 1) * chunk)))
            slices = own.shard_slices(shape, device)
            assert slices == tuple(index)
            np.testing.assert_array_equal(whole[slices], whole[tuple(index)])
            seen[slices] += 1
        used = np.prod([sizes[axis] for dim in dims for axis in dim], dtype=int)
        assert (seen == 8 // used).all()


def test_placements_both_ways_are_those_of_dtensor(mesh):
    from torch.distributed.tensor import Partial, Replicate, Shard

    for text, objects in [("S(0), R", (Shard(0), Replicate())), ("R, S(1)", (Replicate(), Shard(1))),
                          ("S(0), S(0)", (Shard(0), Shard(0))), ("S(1), P(sum)", (Shard(1), Partial("sum"))),
                          ("P(max), P(max)", (Partial("max"), Partial("max")))]:
        own = Sharding.from_placements(mesh, text, 2)
        assert own == Sharding.from_placements(mesh, objects, 2)
        assert own == Sharding.from_placements(mesh, text.split(", "), 2)
        assert ", ".join(own.placements) == text
        assert own.torch_placements() == objects
    assert Sharding(mesh, '[{"y", "x"}, {}]').placements == ("SS(0,4)", "S(0)")
    with pytest.raises(UserError, match="dimension"):
        Sharding.from_placements(mesh, "S(7), R", 2)


def test_dtensor_has_the_same_uneven_shards(mesh):
    from torch.distributed.tensor import Shard

    own = Sharding(Mesh(x=4), [("x",), ()])
    for n in (1, 5, 8, 9):
        for device in range(4):
            size, offset = Shard(0).local_shard_size_and_offset(n, 4, device)
            (rows, _) = own.shard_slices((n, 3), device)
            assert rows.stop - rows.start == size
            assert size == 0 or rows.start == offset


def test_rules():
    rule = Rule("m k, k n -> m n", m=6, k=8, n=10)
    assert rule.text == "([i, j], [j, k])->([i, k]) {i=6, j=8, k=10} reduction={j}"
    assert str(rule) == "i j, j k -> i k"
    assert rule.factors["j"] == {"size": 8, "kind": "reduction", "blocked": False, "reduction": "sum"}
    assert rule.factors["i"]["kind"] == "pass_through"
    assert rule.operands == ((("i",), ("j",)), (("j",), ("k",)))
    assert rule == Rule("m k, k n -> m n", [(6, 8), (8, 10), (6, 10)]) == Rule(rule.text) == eval(repr(rule))
    assert Rule("(h d) -> h d", h=4, d=2).operands == ((("i", "j"),),)
    assert Rule("m k, k n -> m n {k: max}").factors["j"]["reduction"] == "max"
    for text, words in [("m k", "arrow"), ("m -> m {q: max}", "q")]:
        with pytest.raises(UserError, match=words):
            Rule(text)
    with pytest.raises(UserError, match="factor q"):
        Rule("m -> m", q=2)


def test_modules_have_rules_and_propagate(mesh):
    module = cleave.Module.parse(MATMUL)
    assert [str(rule.rule) for rule in module.rules()] == ["i k, k j -> i j", "i j -> i j"]
    assert module.argument_names() == ["x", "w"]
    found = module.propagate({"x": ("x",), 1: PartitionSpec(None, "y")}, mesh=mesh)
    assert [s.text for s in found.arguments] == ['[{"x"}, {}]', '[{}, {"y"}]']
    assert [s.text for s in found.results] == ['[{"x"}, {"y"}]']
    assert "from %arg0 dimension 0 through stablehlo.dot_general" in found.explain("%1")
    assert '%arg0 was annotated [{"x"}, {}]' in found.explain("1")
    assert found.trace().startswith("given\n")
    assert found.warnings == []
    assert "sdy.mesh @mesh" in found.module.text()
    assert "from %arg0" in cleave.explain(found.module, "%0") or "annotated" in cleave.explain(found.module, "%0")
    with pytest.raises(UserError, match="no argument %z; it has %arg0, %arg1"):
        module.propagate({"z": ("x",)}, mesh=mesh)
    with pytest.raises(UserError, match="mesh="):
        module.propagate({"x": ("x",)})


def test_passes(mesh):
    module = cleave.Module.parse(MATMUL)
    assert "keep-sharding-rules" in cleave.passes()["sdy-basic-propagate"]
    assert module.run_passes(["cleave-simplify"]).text() == module.run_passes("cleave-simplify").text()
    ruled = module.run_passes([("sdy-basic-propagate", {"keep_sharding_rules": True})])
    assert "sdy.sharding_rule" in ruled.text() and "sdy.sharding_rule" not in module.text()
    with pytest.raises(UserError, match="no-such"):
        module.run_passes(["no-such-pass"])


def test_reshards_are_priced(mesh):
    found = cleave.reshard("x=2,y=2", (9,), "f32", '[{"x","y"}]', '[{"x"}]')
    assert [step.kind for step in found] == ["all_gather", "all_slice"]
    # The device without a row receives all nine numbers.
    assert found.bytes == 36 and found.peak_bytes == 56 and found.steps[1].sharding.dims == (("x",),)
    assert found.seconds == pytest.approx(sum(step.seconds for step in found))
    # All but one eighth of a megabyte of 32-bit floats arrives at each of eight devices.
    gathered = cleave.reshard(Mesh(x=8), (1024, 1024), np.float32, ["x", None], None, machine="h100")
    assert gathered.bytes == 1024 * 1024 * 4 * 7 // 8
    priced = cleave.reshard(mesh, (16, 16), "bf16", ("x",), None, via=[("all_gather", (None, None))])
    assert [step.text for step in priced] == ['all_gather [{"x"}, {}]']
    assert str(priced).splitlines()[-1].startswith("1 step, 256 bytes received")
    for wrong in (dict(memory="1"), dict(via=[("all_slice", ("y",))]), dict(via=[("walk", ())]), dict(machine="abacus")):
        with pytest.raises(UserError):
            cleave.reshard(mesh, (16, 16), "f32", ("x",), None, **wrong)


def test_machines(tmp_path):
    assert "h100" in cleave.machines() and cleave.machine("h100").devices_per_node == 8
    assert cleave.machine().name == cleave.machine("default").name
    mine = cleave.machine({"base": "h100", "name": "mine", "memory_bytes": 2e10})
    assert mine.memory_bytes == 2e10 and json.loads(mine.json())["name"] == "mine"
    with pytest.raises(UserError, match="machine.save"):
        cleave.plan(MATMUL, mesh="x=2", machine=mine)
    path = tmp_path / "mine.json"
    mine.save(str(path))
    assert cleave.machine(path) == mine
    assert cleave.plan(MATMUL, mesh="x=2", machine=path).data["machine"] == str(path)
    with pytest.raises(UserError, match="h100"):
        cleave.machine("h1000")


def test_plans_of_modules(mesh, tmp_path):
    plan = cleave.plan(MATMUL, mesh=mesh, machine="h100", pins={"x": ("x",)})
    assert plan.data["values"]["x"] == '[{"x"}, {}]'
    assert "verified" in cleave.verify(plan)
    assert cleave.explain(plan) == plan.explain()
    plan.save(tmp_path / "plan.json")
    again = cleave.read_plan(tmp_path / "plan.json", MATMUL)
    assert again.data["totals"] == plan.data["totals"]
    found = cleave.plan("model:mlp?step=train", devices=4, machine="h100")
    assert found.planning_seconds > 0
    with pytest.raises(UserError, match="mesh"):
        cleave.plan(MATMUL)
    with pytest.raises(UserError, match="memory|fit|within"):
        cleave.plan(MATMUL, mesh=mesh, memory="100")
    (tmp_path / "product.mlir").write_text(MATMUL)
    assert cleave.plan(tmp_path / "product.mlir", mesh=mesh, machine="h100").step_seconds > 0


@pytest.mark.parametrize("how", [
    {}, {"compile": False}, {"shard": "replicated"}, {"shard": "random:7"}, {"shard": "random:8", "compile": False},
    {"shard": {"x": ("x",), "w": (None, "y")}}, {"shard": [("x", "y"), None]}, {"shard": "random:9", "verify": True}])
def test_runs_give_what_numpy_gives(how, mesh):
    random = np.random.default_rng(1)
    x, w = random.normal(size=(6, 8)).astype(np.float32), random.normal(size=(8, 12)).astype(np.float32)
    if how.get("shard"):
        how = {"mesh": mesh, **how}
    (result,) = cleave.run(MATMUL, x, w, **how)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.tanh(x @ w), rtol=1e-5, atol=1e-5)


def test_planned_runs_and_lowered_functions(mesh):
    x, w = np.ones((6, 8), np.float32), np.full((8, 12), 0.1, np.float32)
    plan = cleave.plan(MATMUL, mesh=mesh)
    np.testing.assert_allclose(cleave.run(MATMUL, x, w, plan=plan)[0], np.tanh(x @ w), rtol=1e-5)
    lowered = jax.jit(lambda a, b: a @ b).lower(x, w)
    np.testing.assert_allclose(cleave.run(lowered, x, w)[0], x @ w, rtol=1e-5)
    with pytest.raises(UserError, match="leave out mesh"):
        cleave.run(MATMUL, x, w, plan=plan, mesh=mesh)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64"])
def test_arrays_of_every_dtype_come_back(dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype) if dtype == "bfloat16" else dtype)
    array = (np.arange(6).reshape(2, 3) % 2).astype(kind)
    text = {"bool": "i1", "int8": "i8", "uint16": "ui16", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
            "complex64": "complex<f32>"}[dtype]
    module = (f"func.func @main(%a: tensor<2x3x{text}>) -> tensor<3x2x{text}> {{ %0 = stablehlo.transpose %a, dims = [1, 0] : "
              f"(tensor<2x3x{text}>) -> tensor<3x2x{text}> return %0 : tensor<3x2x{text}> }}")
    (result,) = cleave.run(module, array)
    assert result.dtype == kind
    np.testing.assert_array_equal(result, array.T)


def test_wrong_runs_say_what_is_wrong(mesh):
    x, w = np.ones((6, 8), np.float32), np.ones((8, 12), np.float32)
    for arguments, how, words in [((x,), {}, "argument"), ((x, w.T), {}, "12x8|8x12"), ((x, w.astype(int)), {}, "i64|f32"),
                                  ((x, w), {"mesh": mesh, "shard": "sideways"}, "sideways"),
                                  ((x, object()), {}, "no array"), ((x, w), {"entry": "other"}, "other")]:
        with pytest.raises(UserError, match=words):
            cleave.run(MATMUL, *arguments, **how)
    with pytest.raises(UserError, match="no module"):
        cleave.run(3)
