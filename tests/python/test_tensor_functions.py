"""Functions over Tensors beside those of NumPy and JAX, in several uneven layouts."""

import cleave
import cleave.numpy as cnp
import numpy as np
import pytest
from test_tensors import close, normal, placed

RNG = np.random.default_rng(1)
UNARY = """negative abs absolute sign exp exp2 expm1 cbrt square reciprocal sin cos tan arctan sinh cosh tanh arcsinh floor ceil
rint trunc isfinite isnan isinf real imag conj logical_not""".split()
POSITIVE = "log log1p log2 log10 sqrt arccosh".split()
BINARY = """add subtract multiply divide true_divide floor_divide remainder mod maximum minimum arctan2 logaddexp hypot
logical_and logical_or logical_xor equal not_equal less less_equal greater greater_equal""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    a = normal(7, 5)
    for t in placed(a):
        close(getattr(cnp, name)(t), getattr(np, name)(a))


@pytest.mark.parametrize("name", POSITIVE)
def test_unary_of_positive(name):
    a = np.abs(normal(4, 5)) + 1
    close(getattr(cnp, name)(a), getattr(np, name)(a))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    a, b = normal(7, 5), normal(7, 1)
    for t in placed(a):
        close(getattr(cnp, name)(t, b), getattr(np, name)(a, b))


REDUCTIONS = "sum prod mean max min any all var std count_nonzero nansum nanmean median".split()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_reductions(name, axis):
    if name == "median" and isinstance(axis, tuple):
        pytest.skip("along one dimension")
    a = normal(5, 3, 4)
    for t in placed(a):
        close(getattr(cnp, name)(t, axis=axis), getattr(np, name)(a, axis=axis))
    close(getattr(cnp, name)(a, axis=axis, keepdims=True), getattr(np, name)(a, axis=axis, keepdims=True))


ALONG = "argmax argmin cumsum cumprod sort argsort".split()


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_along(name, axis):
    a = normal(5, 4)
    for t in placed(a):
        close(getattr(cnp, name)(t, axis=axis), getattr(np, name)(a, axis=axis))


A, B, C = normal(4, 3, 5), normal(4, 3, 5), normal(6, 6)
V = normal(5)
IDS = np.array([2, 0, 1, 2], np.int32)
# The same call of NumPy's module and of Cleave's.
CASES = {
    "reshape": lambda np, a: np.reshape(a, (12, -1)),
    "reshape_scalar": lambda np, a: np.reshape(np.sum(a), ()),
    "transpose": lambda np, a: np.transpose(a),
    "transpose_axes": lambda np, a: np.transpose(a, (1, 0, 2)),
    "swapaxes": lambda np, a: np.swapaxes(a, 0, 2),
    "moveaxis": lambda np, a: np.moveaxis(a, 0, -1),
    "moveaxis_several": lambda np, a: np.moveaxis(a, (0, 1), (2, 0)),
    "expand_dims": lambda np, a: np.expand_dims(a, (0, 3)),
    "squeeze": lambda np, a: np.squeeze(a[:1], 0),
    "broadcast_to": lambda np, a: np.broadcast_to(a[0], (2, 3, 5)),
    "ravel": lambda np, a: np.ravel(a),
    "concatenate": lambda np, a: np.concatenate([a, a * 2], axis=1),
    "concatenate_flat": lambda np, a: np.concatenate([a, a[0]], axis=None),
    "stack": lambda np, a: np.stack([a, a], axis=1),
    "vstack": lambda np, a: np.vstack([a[0, 0], a[1, 1]]),
    "hstack": lambda np, a: np.hstack([a[0], a[1]]),
    "split": lambda np, a: np.split(a, 2)[1],
    "split_at": lambda np, a: np.split(a, [1, 3], axis=2)[1],
    "pad": lambda np, a: np.pad(a, ((1, 0), (0, 2), (1, 1)), constant_values=3),
    "pad_all": lambda np, a: np.pad(a, 1),
    "pad_edge": lambda np, a: np.pad(a, ((1, 2), (1, 1), (0, 0)), mode="edge"),
    "pad_reflect": lambda np, a: np.pad(a, ((1, 2), (1, 1), (0, 0)), mode="reflect"),
    "flip": lambda np, a: np.flip(a, 1),
    "roll": lambda np, a: np.roll(a, 2, axis=2),
    "roll_flat": lambda np, a: np.roll(a, 2),
    "repeat": lambda np, a: np.repeat(a, 2, axis=1),
    "tile": lambda np, a: np.tile(a, (1, 2, 1)),
    "triu": lambda np, a: np.triu(a, 1),
    "tril": lambda np, a: np.tril(a),
    "rot90": lambda np, a: np.rot90(a),
    "diff": lambda np, a: np.diff(a, axis=1),
    "diag": lambda np, a: np.diag(a[0, 0], 1),
    "diagonal": lambda np, a: np.diagonal(a, 1),
    "trace": lambda np, a: np.trace(a),
    "take": lambda np, a: np.take(a, IDS, axis=1),
    "take_flat": lambda np, a: np.take(a, IDS),
    "take_along_axis": lambda np, a: np.take_along_axis(a, IDS[:, None, None], axis=1),
    "clip": lambda np, a: np.clip(a, -0.5, 0.5),
    "clip_below": lambda np, a: np.clip(a, 0, None),
    "where": lambda np, a: np.where(a > 0, a, 0.0),
    "round": lambda np, a: np.round(a, 1),
    "quantile": lambda np, a: np.quantile(a, 0.3, axis=1),
    "std_ddof": lambda np, a: np.std(a, axis=0, ddof=1),
    "isclose": lambda np, a: np.isclose(a, a + 1e-9),
    "matmul": lambda np, a: np.matmul(a, np.swapaxes(a, 1, 2)),
    "dot": lambda np, a: np.dot(a, V),
    "dot_matrices": lambda np, a: np.dot(a, np.swapaxes(B, 1, 2)),
    "tensordot": lambda np, a: np.tensordot(a, B, ((1, 2), (1, 2))),
    "einsum": lambda np, a: np.einsum("bij,bkj->bik", a, B),
    "outer": lambda np, a: np.outer(a[0, 0], V),
    "inner": lambda np, a: np.inner(a[0], B[0]),
    "vdot": lambda np, a: np.vdot(a, B),
    "kron": lambda np, a: np.kron(a[0], B[0]),
    "cross": lambda np, a: np.cross(a[0, :, :3], B[0, :, :3]),
    "meshgrid": lambda np, a: np.meshgrid(a[0, 0], a[0, 1])[0],
    "searchsorted": lambda np, a: np.searchsorted(np.sort(V), a[0, 0], side="right"),
    "bincount": lambda np, a: np.bincount(IDS, minlength=5),
    "nan_to_num": lambda np, a: np.nan_to_num(np.log(a), nan=-1.0),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("case", CASES)
def test_like_numpy(case):
    expected = CASES[case](np, A)
    for t in placed(A):
        close(CASES[case](cnp, t), expected, 2e-5)


MATRICES = {
    "solve": lambda m, a: m.linalg.solve(a, V6),
    "inv": lambda m, a: m.linalg.inv(a),
    "det": lambda m, a: m.linalg.det(a),
    "slogdet": lambda m, a: m.linalg.slogdet(a)[1],
    "svdvals": lambda m, a: m.linalg.svd(a, compute_uv=False),
    "svd": lambda m, a: abs(m.linalg.svd(a)[0]),
    "qr": lambda m, a: abs(m.linalg.qr(a)[1]),
    "eigh": lambda m, a: m.linalg.eigh(a + m.transpose(a))[0],
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a + m.transpose(a)),
    "cholesky": lambda m, a: m.linalg.cholesky(a @ m.transpose(a) + 6 * m.eye(6)),
    "pinv": lambda m, a: m.linalg.pinv(a[:, :4]),
    "lstsq": lambda m, a: m.linalg.lstsq(a[:, :4], V6)[0],
    "matrix_power": lambda m, a: m.linalg.matrix_power(a, 3),
    "norm": lambda m, a: m.linalg.norm(a),
    "norm_axis": lambda m, a: m.linalg.norm(a, ord=1, axis=1),
    "vector_norm": lambda m, a: m.linalg.vector_norm(a, axis=0),
    "fft": lambda m, a: m.fft.fft(a, axis=0),
    "fft_longer": lambda m, a: m.fft.fft(a, 9),
    "rfft_shorter": lambda m, a: m.fft.rfft(a, 4, 0),
    "irfft_odd": lambda m, a: m.fft.irfft(m.fft.rfft(a), 5),
    "irfft": lambda m, a: m.fft.irfft(m.fft.rfft(a)),
}
V6 = normal(6)


@pytest.mark.parametrize("case", MATRICES)
def test_matrices_like_numpy(case):
    a = C.astype(np.float64)
    close(MATRICES[case](cnp, cleave.tensor(a)), MATRICES[case](np, a), 1e-4)


LAYERS = {
    "relu": (), "silu": (), "softplus": (), "sigmoid": (), "relu6": (), "selu": (), "hard_sigmoid": (), "hard_tanh": (),
    "log_sigmoid": (), "soft_sign": (), "gelu": (), "leaky_relu": (), "elu": (), "celu": (), "squareplus": (), "softmax": (0,),
    "log_softmax": (1,), "logsumexp": (1,), "mish": (), "swish": (), "hard_swish": (),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_like_jax(name):
    jax = pytest.importorskip("jax")
    a = normal(7, 5)
    expected = getattr(jax.nn, name)(a, *LAYERS[name])
    for t in placed(a):
        close(getattr(cleave.nn, name)(t, *LAYERS[name]), expected)


def test_more_layers():
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    a, w, b = normal(7, 5), normal(5), normal(5)
    close(cleave.nn.layer_norm(a, w, b), F.layer_norm(torch.tensor(a), (5,), torch.tensor(w), torch.tensor(b)))
    close(cleave.nn.rms_norm(a, w), F.rms_norm(torch.tensor(a), (5,), torch.tensor(w), 1e-6))
    labels = np.array([0, 1, 2, 3, 4, 0, -1])
    close(cleave.nn.cross_entropy(a, labels, ignore_index=-1, label_smoothing=0.1),
          F.cross_entropy(torch.tensor(a), torch.tensor(labels), ignore_index=-1, label_smoothing=0.1))
    q, k, v = normal(2, 4, 6, 8), normal(2, 4, 6, 8), normal(2, 4, 6, 8)
    close(cleave.nn.attention(q, k, v, causal=True),
          F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True))
    image, kernel = normal(2, 3, 8, 8), normal(4, 3, 3, 3)
    close(cleave.nn.conv(image, kernel, strides=(2, 2), padding=((1, 1), (1, 1)), channels_first=True),
          F.conv2d(torch.tensor(image), torch.tensor(kernel), stride=2, padding=1), 1e-4)
    close(cleave.nn.max_pool(image, (2, 2), strides=(2, 2), channels_first=True), F.max_pool2d(torch.tensor(image), 2))
    close(cleave.nn.one_hot(labels[:3], 4), np.eye(4)[:3])
    close(cleave.nn.embedding(a, [3, 1]), a[[3, 1]])
    jax = pytest.importorskip("jax")
    close(cleave.nn.resize(image, (2, 3, 4, 12), "cubic"), jax.image.resize(image, (2, 3, 4, 12), "cubic"), 1e-4)


class TestRandom:
    def test_does_not_depend_on_layouts(self):
        key = cleave.random.key(7)
        whole = np.asarray(cleave.random.normal(key, (9, 5)))
        np.testing.assert_array_equal(np.asarray(cleave.random.normal(key, (9, 5)).shard("x=2,y=3", cleave.P("x", "y"))), whole)

    def test_keys(self):
        first, second = cleave.random.split(cleave.random.key(1))
        assert np.asarray(cleave.random.bits(first, (4,))).tolist() != np.asarray(cleave.random.bits(second, (4,))).tolist()
        assert cleave.random.split(first, 3).shape == (3, 2)

    def test_moments(self):
        key, n = cleave.random.key(3), 20000
        for made, mean, std in [
            (cleave.random.normal(key, (n,)), 0, 1),
            (cleave.random.uniform(key, (n,), minval=1, maxval=3), 2, 3**-0.5),
            (cleave.random.bernoulli(key, 0.25, (n,)), 0.25, 0.433),
            (cleave.random.exponential(key, (n,)), 1, 1),
            (cleave.random.gamma(key, 4.0, (n,)), 4, 2),
            (cleave.random.poisson(key, 4.0, (n,)), 4, 2),
            (cleave.random.randint(key, (n,), 0, 10), 4.5, 2.872),
            (cleave.random.beta(key, 2.0, 2.0, (n,)), 0.5, 0.2236),
            (cleave.random.rademacher(key, (n,)), 0, 1),
            (cleave.random.truncated_normal(key, -1, 1, (n,)), 0, 0.54),
        ]:
            values = np.asarray(made).astype(np.float64)
            assert abs(values.mean() - mean) < 0.05 * max(1, std) and abs(values.std() - std) < 0.05 * max(1, std)

    def test_choices(self):
        key = cleave.random.key(5)
        assert sorted(cleave.random.permutation(key, 10).tolist()) == list(range(10))
        assert sorted(cleave.random.choice(key, 10, (10,), replace=False).tolist()) == list(range(10))
        assert cleave.random.choice(key, normal(5, 3), (2, 4)).shape == (2, 4, 3)
        assert cleave.random.categorical(key, normal(8, 50)).shape == (8,)
        assert cleave.random.categorical(key, normal(8, 50), shape=(3, 8)).shape == (3, 8)
        with pytest.raises(cleave.UserError, match="does not end with"):
            cleave.random.categorical(key, normal(8, 50), shape=(3, 7))


def test_reduced_types():
    a = normal(64).astype(np.float32)
    t = cleave.tensor(a, dtype="bfloat16")
    assert cnp.sum(t).dtype_name == "bfloat16" and cnp.sum(t, dtype="float32").dtype_name == "float32"
    assert cnp.sum(cleave.tensor([True, True])).item() == 2
    with pytest.raises(cleave.UserError, match="axis=\\(\\) names no dimension"):
        cnp.sum(t, axis=())
    with pytest.raises(cleave.UserError, match="5"):
        cnp.sum(t, axis=5)


def test_namespaces():
    assert cnp.linalg is cleave.linalg and cnp.fft is cleave.fft
    assert cnp.float32 == np.float32 and cnp.pi == np.pi
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cnp.nothing
    values, places = cnp.top_k(np.float32([1, 5, 3]), 2)
    assert values.tolist() == [5, 3] and places.tolist() == [1, 2]
    assert cleave.tensor([[1.0, 2.0]]).T.shape == (2, 1)
    t = cleave.tensor(normal(2, 3))
    for name in cleave.tensors.METHODS:
        assert callable(getattr(t, name))
    assert t.reshape(3, 2).shape == t.reshape((3, -1)).shape == (3, 2)
    assert t.transpose(1, 0).shape == t.transpose().shape == (3, 2)


NOT_SMOOTH = {"searchsorted", "bincount", "isclose", "round", "nan_to_num"}


@pytest.mark.parametrize("case", [case for case in CASES if case not in NOT_SMOOTH])
def test_gradients_like_jax(case):
    jax = pytest.importorskip("jax")
    weights = normal(*np.shape(CASES[case](np, A)))

    def f(a, np):
        return np.sum(CASES[case](np, a) * weights)

    expected = jax.grad(lambda a: f(a, jax.numpy))(A)
    for t in list(placed(A))[::3]:
        close(cleave.grad(lambda a: f(a, cnp))(t), expected, 5e-5)


@pytest.mark.parametrize("case", MATRICES)
def test_gradients_of_matrices_like_jax(case):
    jax = pytest.importorskip("jax")
    if case in ("svd", "qr"):
        pytest.skip("signs of vectors are a choice, and full matrices have no derivative")

    def f(a, np):
        return np.sum(np.abs(MATRICES[case](np, a)) ** 2)

    a = C.astype(np.float64)
    with jax.enable_x64(True):
        expected = np.asarray(jax.grad(lambda a: f(a, jax.numpy))(a))
    close(cleave.grad(lambda a: f(a, cnp))(a), expected, 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers_like_jax(name):
    jax = pytest.importorskip("jax")
    a, weights = normal(7, 5), normal(7, 5)
    more = LAYERS[name]

    def f(a, nn, np):
        return np.sum(nn(a, *more) * (1 if name == "logsumexp" else weights))

    expected = jax.grad(lambda a: f(a, getattr(jax.nn, name), jax.numpy))(a)
    for t in list(placed(a))[::3]:
        close(cleave.grad(lambda a: f(a, getattr(cleave.nn, name), cnp))(t), expected)
