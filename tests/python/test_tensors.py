"""Tensors beside NumPy: elements, dtypes, operators, indexing, memory, layouts, errors."""

import copy
import math
import pickle
import subprocess
import sys
import threading

import cleave
import cleave.numpy as cnp
import numpy as np
import pytest
from cleave import P, UserError

RNG = np.random.default_rng(0)
MESHES = {
    "x=3": [P("x"), P(None, "x"), P()],
    "x=2,y=3": [P("x", "y"), P(("y", "x")), P(None, "y")],
    "x=2,y=2,z=2": [P("x", "y"), P(("x", "z"), "y"), P("z", ("x", "y"))],
}


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def placed(a):
    """A Tensor of an array, on no mesh and in several uneven layouts."""
    yield cleave.tensor(a)
    for mesh, specs in MESHES.items():
        for spec in specs:
            if len(spec) <= a.ndim:
                yield cleave.tensor(a).shard(mesh, spec)


def close(t, a, tolerance=1e-5):
    made = np.asarray(t)
    assert made.shape == np.shape(a)
    np.testing.assert_allclose(made.astype(np.complex128), np.asarray(a).astype(np.complex128), rtol=tolerance, atol=tolerance)


class TestImport:
    def test_import_is_light(self):
        code = "import sys, cleave; print([m for m in ('numpy', 'jax', 'torch', 'ml_dtypes') if m in sys.modules])"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

    def test_without_ml_dtypes(self):
        code = """
import sys
sys.modules["ml_dtypes"] = None
import cleave, numpy as np
t = cleave.tensor([1.0, 2.0], dtype="bfloat16") * 1.5
assert t.dtype == "bfloat16" and t.astype("float32").tolist() == [1.5, 3.0]
try:
    np.asarray(t)
except cleave.UserError as error:
    print(error)
"""
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert out == "NumPy has no bfloat16 without the package ml_dtypes; install it, or cast the tensor\n"

    def test_names(self):
        for name in cleave.__all__:
            assert getattr(cleave, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            cleave.nothing


class TestCreation:
    def test_numbers_and_lists(self):
        assert cleave.tensor(True).dtype == np.bool_
        assert cleave.tensor(3).dtype == np.int32
        assert cleave.tensor(3.5).dtype == np.float32
        assert cleave.tensor(1j).dtype == np.complex64
        assert cleave.tensor([[1, 2], [3, 4.5]]).tolist() == [[1, 2], [3, 4.5]]
        assert cleave.tensor([]).shape == (0,)
        assert cleave.tensor([[], []]).shape == (2, 0)
        assert cleave.tensor([1, 2], dtype="bfloat16").dtype_name == "bfloat16"
        assert cleave.tensor([np.ones(2), np.zeros(2)]).shape == (2, 2)
        assert cleave.tensor(2**63, dtype="uint64").item() == 2**63

    def test_refuses(self):
        with pytest.raises(UserError, match="lists of different lengths side by side"):
            cleave.tensor([[1, 2], [3]])
        with pytest.raises(UserError, match="numbers and lists side by side"):
            cleave.tensor([1, [2]])
        with pytest.raises(ValueError, match="1000"):
            cleave.tensor([1000], dtype="int8")
        with pytest.raises(UserError, match="a set has no elements"):
            cleave.tensor({1, 2})
        with pytest.raises(UserError, match="'float33' is no dtype"):
            cleave.tensor(1, dtype="float33")
        with pytest.raises(UserError, match="is none of Cleave's"):
            cleave.tensor(np.array(["a"]))

    @pytest.mark.parametrize("name", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                      "float16", "float32", "float64", "complex64", "complex128"])
    def test_numpy_there_and_back(self, name):
        a = (normal(3, 5) * 4).astype(name)
        for array in (a, a.T, a[::-1], a[1:, ::2], a.astype(a.dtype.newbyteorder(">"))):
            t = cleave.tensor(array)
            assert t.dtype == np.dtype(name) and t.shape == array.shape
            np.testing.assert_array_equal(np.asarray(t), array)

    @pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4", "uint4"])
    def test_ml_dtypes_there_and_back(self, name):
        dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
        a = np.abs(normal(3, 5)).astype(dtype)
        t = cleave.tensor(a)
        assert t.dtype == dtype and t.dtype_name == name
        assert np.asarray(t).tobytes() == a.tobytes()
        close(t.astype("float32"), a.astype(np.float32))

    def test_tensor_owns_its_elements(self):
        a = normal(4)
        t = cleave.tensor(a)
        before = a.copy()
        a[:] = 0
        np.testing.assert_array_equal(np.asarray(t), before)

    def test_read_only_arrays(self):
        a = normal(3, 4)
        a.flags.writeable = False
        close(cleave.tensor(a), a)
        assert np.asarray(cleave.from_dlpack(a)).ctypes.data == a.ctypes.data

    def test_view_is_not_writable(self):
        t = cleave.tensor(normal(4))
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(t)[0] = 1
        t.numpy()[0] = 1

    @pytest.mark.parametrize("dtype", ["float64", float, np.float32, np.dtype("int8"), "bf16", "f8E4M3FN"])
    def test_dtypes_by_any_name(self, dtype):
        assert cnp.zeros((2,), dtype=dtype).shape == (2,)

    def test_creation_functions(self):
        close(cnp.arange(5), np.arange(5))
        close(cnp.arange(1, 9, 2), np.arange(1, 9, 2))
        close(cnp.arange(0.0, 1.0, 0.25), np.arange(0.0, 1.0, 0.25))
        close(cnp.linspace(0, 1, 7), np.linspace(0, 1, 7))
        close(cnp.eye(3, 4), np.eye(3, 4))
        close(cnp.full((2, 3), 7), np.full((2, 3), 7))
        close(cnp.full((), 7.0), 7.0)
        close(cnp.ones_like(np.zeros((2, 2), np.int32)), np.ones((2, 2)))
        assert cnp.zeros_like(np.zeros(2, np.int32), dtype="float64").dtype == np.float64


class TestDlpack:
    def test_torch(self):
        torch = pytest.importorskip("torch")
        x = torch.arange(6.0).reshape(2, 3)
        shared = cleave.from_dlpack(x)
        assert np.asarray(shared).ctypes.data == x.data_ptr()
        owned = cleave.tensor(x)
        assert np.asarray(owned).ctypes.data != x.data_ptr()
        x[0, 0] = 100
        assert owned[0, 0].item() == 0
        back = torch.from_dlpack(owned)
        np.testing.assert_array_equal(back.numpy(), np.asarray(owned))
        close(cleave.tensor(x.t()), x.t().numpy())
        assert cleave.tensor(torch.ones(3, dtype=torch.bfloat16)).dtype_name == "bfloat16"
        assert torch.from_dlpack(cleave.tensor([1.0], dtype="bfloat16")).dtype == torch.bfloat16
        assert cleave.tensor(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
        assert cleave.tensor(torch.tensor([True, False])).tolist() == [True, False]

    def test_jax(self):
        jax = pytest.importorskip("jax")
        jnp = jax.numpy
        x = jnp.arange(64.0)
        shared = cleave.tensor(x)
        assert np.asarray(shared).ctypes.data == x.unsafe_buffer_pointer()
        back = jnp.from_dlpack(cleave.tensor(normal(64)))
        assert back.shape == (64,)
        for name in ("bfloat16", "float8_e4m3fn", "int4", "bool", "uint8"):
            y = jnp.array([1, 0, 1]).astype(name)
            assert cleave.tensor(y).astype("float32").tolist() == [1, 0, 1]
        close(x + cleave.tensor(x), 2 * np.arange(64))

    def test_jax_on_several_devices(self):
        pytest.importorskip("jax")
        code = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import cleave, jax, numpy as np
mesh = jax.make_mesh((2,), ("x",))
a = jax.device_put(np.arange(4.0), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
print(cleave.tensor(a).tolist(), (cleave.tensor([1.0]) + jax.device_put(a, jax.devices()[1])).tolist())
"""
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert made.stdout == "[0.0, 1.0, 2.0, 3.0] [1.0, 2.0, 3.0, 4.0]\n"

    def test_numpy(self):
        t = cleave.tensor(normal(3, 4))
        view = np.from_dlpack(t)
        assert view.ctypes.data == np.asarray(t).ctypes.data and not view.flags.writeable
        assert np.from_dlpack(t, copy=True).flags.writeable

    def test_shared_memory_is_never_written(self):
        jnp = pytest.importorskip("jax.numpy")
        x = jnp.ones(1000)
        step = cleave.jit(lambda t: t * 2, donate_argnums=0)
        for _ in range(2):
            close(step(cleave.tensor(x)), np.full(1000, 2))
            close(cleave.tensor(x) + 1 + 1, np.full(1000, 3))
        np.testing.assert_array_equal(np.asarray(x), np.ones(1000))

    def test_view_outlives_donation(self):
        t = cleave.tensor(np.ones(1000, np.float32))
        view = np.asarray(t)
        close(cleave.jit(lambda x: x * 2, donate_argnums=0)(t), np.full(1000, 2))
        np.testing.assert_array_equal(view, 1)

    def test_memory_is_given_back(self):
        before = cleave._core.borrowed_buffers()
        a = np.ones(10, np.float32)
        t = cleave.from_dlpack(a)
        count = sys.getrefcount(a)
        assert cleave._core.borrowed_buffers() == before + 1
        del t
        assert cleave._core.borrowed_buffers() == before
        assert sys.getrefcount(a) < count

    def test_other_devices(self):
        class OnGpu:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, **options):
                raise AssertionError

        with pytest.raises(UserError, match="is not in host memory"):
            cleave.tensor(OnGpu())
        with pytest.raises(BufferError):
            cleave.tensor(1.0).__dlpack__(dl_device=(2, 0), max_version=(1, 0))


BINARY = ["__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__lt__", "__le__", "__gt__",
          "__ge__", "__eq__", "__ne__"]


class TestOperators:
    @pytest.mark.parametrize("name", BINARY)
    def test_both_sides(self, name):
        a, b = np.abs(normal(7, 5)) + 1, np.abs(normal(5)) + 1
        expected = getattr(a, name)(b)
        for t in placed(a):
            close(getattr(t, name)(cleave.tensor(b)), expected)
            close(getattr(t, name)(b), expected)
            close(getattr(t, name)(2.0), getattr(a, name)(np.float32(2)))

    def test_reflected(self):
        a, t = normal(3, 4), cleave.tensor(normal(3, 4))
        b = np.asarray(t)
        for made, expected in [(2 - t, 2 - b), (a - t, a - b), (2 / t, 2 / b), (2.0**t, 2.0**b), (a * t, a * b), (3 // t, 3 // b),
                               (3 % t, 3 % b), (a < t, a < b), (a == t, a == b), (1 <= t, 1 <= b)]:
            assert isinstance(made, cleave.Tensor)
            close(made, expected)
        m = normal(2, 3)
        assert isinstance(m @ t, cleave.Tensor)
        close(m @ t, m @ b)
        close(np.float32(2) * t, 2 * b)

    def test_bits(self):
        a, b = np.array([6, 5, 1], np.int32), np.array([3, 3, 2], np.int32)
        t = cleave.tensor(a)
        close(t & b, a & b)
        close(t | 1, a | 1)
        close(b ^ t, a ^ b)
        close(~t, ~a)
        close(t << 2, a << 2)
        close(~cleave.tensor([True, False]), [False, True])

    def test_promotion(self):
        assert (cleave.tensor([1], dtype="bfloat16") * 2.5).dtype_name == "bfloat16"
        assert (cleave.tensor([1]) * 0.5).dtype_name == "float32"
        assert (cleave.tensor([1], dtype="float16") + np.float32([1])).dtype_name == "float32"
        with pytest.raises(UserError, match="1000"):
            cleave.tensor([1], dtype="int8") * 1000

    def test_others_are_refused(self):
        t = cleave.tensor([1.0])
        with pytest.raises(TypeError):
            t + "a"
        with pytest.raises(TypeError):
            t + [1.0]
        assert (t == None) is False  # noqa: E711
        assert (t != "a") is True
        with pytest.raises(TypeError, match="unhashable"):
            hash(t)
        with pytest.raises(TypeError, match="use \\*"):
            t @ 2
        with pytest.raises(UserError):
            cnp.zeros((2, 3)) + cnp.zeros((4, 5))

    def test_single_values(self):
        assert bool(cleave.tensor(1.0) > 0)
        assert float(cleave.tensor([2.5])) == 2.5 and int(cleave.tensor(3)) == 3
        assert [10, 20, 30][cleave.tensor(1)] == 20
        assert cleave.tensor(2**60, dtype="int64").item() == 2**60
        assert f"{cleave.tensor(1.25):.1f}" == "1.2"
        with pytest.raises(UserError, match="has 2 elements, not one"):
            bool(cleave.tensor([1, 2]))
        with pytest.raises(UserError, match="item: tensor<2> has 2 elements, not one"):
            cleave.tensor([1, 2]).item()
        with pytest.raises(TypeError):
            len(cleave.tensor(1))
        with pytest.raises(TypeError):
            iter(cleave.tensor(1))

    def test_sequence(self):
        t = cleave.tensor([[1, 2], [3, 4], [5, 6]])
        assert len(t) == 3 and [row.tolist() for row in t] == [[1, 2], [3, 4], [5, 6]]
        first, *rest = t
        assert first.tolist() == [1, 2] and len(rest) == 2

    def test_copies(self):
        t = cleave.tensor(normal(3), dtype="bfloat16")
        assert copy.copy(t) is t and copy.deepcopy([t])[0] is t
        again = pickle.loads(pickle.dumps(t))
        assert again.dtype_name == "bfloat16" and again.tolist() == t.tolist()

    def test_repr_computes(self):
        t = cleave.tensor([[1.0, 2.0]]) + 1
        assert not t.is_computed
        assert repr(t) == "tensor<1x2xf32>\n[[2.0000, 3.0000]]"
        assert t.is_computed


KEYS = {
    "number": 1,
    "negative": -1,
    "numpy_number": np.int64(2),
    "slice": slice(1, 4),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "ellipsis": (..., 0),
    "newaxis": (None, slice(None), None),
    "numbers": (1, -2),
    "rows": np.array([3, 0, 3]),
    "list": [0, 2],
    "pairs": (np.array([0, 1]), np.array([2, 3])),
    "apart": (np.array([[0], [1]]), slice(None), np.array([1, 0])),
    "empty": slice(3, 3),
}


class TestIndexing:
    @pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
    def test_reads(self, key):
        a = normal(5, 7, 3)
        for t in placed(a):
            close(t[key], a[key])

    @pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
    def test_writes(self, key):
        a = normal(5, 7, 3)
        values = normal(*a[key].shape)
        for t in placed(a):
            expected = a.copy()
            expected[key] = 4
            close(t.at[key].set(4), expected)
            expected = a.copy()
            np.add.at(expected, key, values)
            close(t.at[key].add(values), expected)
            close(t, a)

    def test_other_changes(self):
        a = normal(5)
        t = cleave.tensor(a)
        close(t.at[1:3].multiply(2), np.concatenate([a[:1], a[1:3] * 2, a[3:]]))
        close(t.at[0].max(10), np.concatenate([[10], a[1:]]))
        close(t.at[0].min(-10), np.concatenate([[-10], a[1:]]))
        close(t.at[0].get(), a[0])

    def test_masks(self):
        a = normal(5, 4)
        close(cleave.tensor(a)[a > 0], a[a > 0])
        close(cleave.tensor(a)[cleave.tensor(a) > 0], a[a > 0])
        with pytest.raises(UserError, match="where"):
            cleave.jit(lambda x: x[x > 0])(a)

    def test_refuses(self):
        t = cleave.tensor(normal(3, 4))
        with pytest.raises(UserError, match="7"):
            t[7]
        with pytest.raises(UserError):
            t[0, 0, 0]
        with pytest.raises(UserError, match="an index is True"):
            t[True]
        with pytest.raises(TypeError):
            t[1.5:2]
        with pytest.raises(TypeError):
            t[0] = 1


class TestLayouts:
    @pytest.mark.parametrize("mesh", MESHES)
    def test_uneven_there_and_back(self, mesh):
        a = normal(7, 5)
        for spec in MESHES[mesh]:
            t = cleave.tensor(a).shard(mesh, spec)
            close(t, a)
            assert t.sharding == P(*spec, *[None] * (2 - len(spec)))
            for shard in t.addressable_shards:
                close(shard.data, a[shard.index])
            assert len(t.addressable_shards) == _devices(mesh)

    def test_collectives_are_counted(self):
        x = cleave.tensor(normal(8, 6)).shard("data=2,model=3", P("data", "model"))
        w = cleave.tensor(normal(6, 4)).shard("data=2,model=3", P("model"))
        y = x @ w
        assert y.sharding == P("data", None).unreduced("model")
        assert y.sharding.text == '[{"data"}, {}], unreduced={"model"}'
        with cleave.CommLog() as log:
            close(cleave.nn.relu(y), np.maximum(np.asarray(x) @ np.asarray(w), 0))
        assert log.count("all_reduce") == 1 and log.count() == 1
        assert log.bytes > 0 and 'all_reduce          "model"' in str(log)
        with cleave.CommLog() as quiet:
            cleave.evaluate([x * 2, {"w": w + 1}])
        assert quiet.count() == 0 and str(quiet) == "no communication"
        close(y + 1, np.asarray(x) @ np.asarray(w) + 1)
        assert log.count() == 1  # what comes after is not heard

    def test_log_belongs_to_a_thread(self):
        log = cleave.CommLog()
        errors = []

        def close_it():
            try:
                log.__exit__(None, None, None)
            except UserError as error:
                errors.append(str(error))

        with log:
            with pytest.raises(UserError, match="it is open already"):
                log.__enter__()
            other = threading.Thread(target=close_it)
            other.start()
            other.join()
            np.asarray(cleave.tensor(normal(4)).shard("x=2", P("x")).reshard(P()))
            assert log.count("all_gather") == 1  # while it is open, too
        assert errors == ["CommLog: it was opened by another thread, which has to close it"]
        log.clear()
        assert log.count() == 0 and log.events == []

    def test_changes_of_layout(self):
        a = normal(6, 4)
        x = cleave.tensor(a).shard({"x": 2, "y": 2}, P("x", "y"))
        with cleave.CommLog() as log:
            close(x.reshard(P(None, "y")).evaluate(), a)
        assert log.count("all_gather") == 1
        assert x.with_sharding(P("y")).sharding == P("y", None)
        assert x.mesh is not None and cleave.tensor(a).mesh is None
        with pytest.raises(UserError, match="is on no mesh yet"):
            cleave.tensor(a).with_sharding(P("x"))
        with pytest.raises(UserError, match="z"):
            x.reshard(P("z"))
        with pytest.raises(UserError, match="one entry each"):
            x.reshard(P(None, None, "x"))

    def test_jax_objects(self):
        jax = pytest.importorskip("jax")
        x = cleave.tensor(normal(4, 4)).shard("x=2,y=2", jax.sharding.PartitionSpec("x", ("y",)))
        assert x.sharding == P("x", "y")
        open_spec = jax.sharding.PartitionSpec(jax.sharding.PartitionSpec.UNCONSTRAINED, "x")
        assert cleave.specs.spec_text(open_spec) == '[{?}, {"x"}]'


def _devices(mesh):
    return math.prod(int(part.split("=")[1]) for part in mesh.split(","))


class TestSpecs:
    @pytest.mark.parametrize(
        "spec, text",
        [
            (P("data", None), '[{"data"}, {}]'),
            (P(None, ("x", "y")), '[{}, {"x", "y"}]'),
            (P(P.open("data"), P.open()), '[{"data", ?}, {?}]'),
            (P(P.priority("x", 1), None), '[{"x"}p1, {}]'),
            (P(P.priority(P.open("x"), 2)), '[{"x", ?}p2]'),
            (P("x").replicated("z"), '[{"x"}], replicated={"z"}'),
            (P("x").unreduced("w"), '[{"x"}], unreduced={"w"}'),
            (P("x").unreduced("w", op="max"), '[{"x"}], unreduced=max{"w"}'),
            (P("x:(1)2"), '[{"x":(1)2}]'),
            (P(), "[]"),
        ],
    )
    def test_text(self, spec, text):
        assert spec.text == text
        assert P.parse(text) == spec and hash(P.parse(text)) == hash(spec)
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert eval(repr(spec)) == spec

    def test_equality(self):
        assert P("x") != P("y") and P(("x",)) == P("x") and P("x") != P("x").replicated("y")
        with pytest.raises(UserError, match="an entry is an axis"):
            P(3)
        with pytest.raises(UserError, match="spec"):
            P.parse("[x]")


def test_threads():
    """Several threads compute at the same time."""
    a = normal(64, 64)
    results = [None] * 4

    def work(i):
        t = cleave.tensor(a)
        for _ in range(20):
            t = cnp.tanh(t @ a)
        results[i] = np.asarray(t)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
