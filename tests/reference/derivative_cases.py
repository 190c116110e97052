"""Functions whose derivatives Cleave and JAX both take: one per op of JAX, and small models."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    return np.abs(RNG.standard_normal(shape)) + 0.5


def unit(*shape):
    return RNG.uniform(-0.9, 0.9, shape)


def cplx(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def distinct(*shape):
    """No two elements are near each other."""
    n = int(np.prod(shape))
    return (RNG.permutation(n) + 0.3 * RNG.uniform(0, 1, n)).reshape(shape) / 3 - n / 6


def spd(n):
    a = normal(n, n)
    return a @ a.T + n * np.eye(n)


def lower(n):
    return np.tril(normal(n, n)) + 2 * np.eye(n)


CASES = {}


def case(name, f, *args):
    CASES[name] = (f, args)


for name, make in {
    "sin": normal, "cos": normal, "tan": unit, "tanh": normal, "exp": normal, "expm1": normal, "log": positive,
    "log1p": positive, "logistic": normal, "rsqrt": positive, "sqrt": positive, "cbrt": positive, "neg": normal,
    "abs": normal, "sign": normal, "floor": normal, "ceil": normal, "round": normal, "square": normal,
    "acos": unit, "asin": unit, "atan": normal, "acosh": lambda *s: positive(*s) + 1, "asinh": normal,
    "atanh": unit, "cosh": normal, "sinh": normal, "erf": normal, "erfc": normal, "erf_inv": unit,
    "lgamma": positive, "digamma": positive, "bessel_i1e": normal, "bessel_i0e": normal,
}.items():
    case(name, getattr(lax, name), make(3, 5))
case("bitcast", lambda x: jnp.where(lax.bitcast_convert_type(x, np.int64) > 0, jnp.sin(x), x), normal(6))
case("bessel_i1e_large", lax.bessel_i1e, normal(20) * 30)
for name, make in {"add": normal, "sub": normal, "mul": normal, "div": positive, "rem": positive, "max": distinct,
                   "min": distinct, "atan2": positive, "pow": positive}.items():
    case(name, getattr(lax, name), make(3, 5), make(3, 5) + (0.1 if name in ("max", "min") else 0))
case("integer_pow", lambda x: lax.integer_pow(x, 3) + lax.integer_pow(x, -2), positive(4))
case("pow_int", lambda x: x ** jnp.array([2.0, 3.0, 1.0]), np.array([0.0, 1.5, -2]))
case("polygamma", lambda x: lax.polygamma(jnp.full_like(x, 1.0), x), positive(4))
case("convert", lambda x: x.astype(jnp.float32).astype(jnp.float64) * 2, normal(4).astype(np.float32).astype(np.float64))
case("select", lambda x, y: jnp.where(x > 0, x * y, jnp.sin(y)), normal(3, 4), normal(3, 4))
case("clamp", lambda x: lax.clamp(-0.5, x, 0.6), normal(9))
case("clamp_arrays", lambda a, x, b: lax.clamp(a, x, b), normal(9) - 1, normal(9), normal(9) + 2)
case("reduce_precision", lambda x: lax.reduce_precision(x, 8, 23) * 3, normal(4))

# shapes
case("reshape", lambda x: jnp.sin(x.reshape(6, 2)), normal(3, 4))
case("transpose", lambda x: jnp.sin(x.transpose(2, 0, 1)), normal(2, 3, 4))
case("broadcast", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2)) * 2, normal(3, 1))
case("slice", lambda x: lax.slice(x, (1, 2), (5, 9), (2, 3)) * 2, normal(6, 9))
case("rev", lambda x: lax.rev(x, (0, 1)) * 2, normal(3, 4))
case("pad", lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 3, 0))), normal(3, 4), np.array(0.7))
case("pad_negative", lambda x, v: lax.pad(x, v, ((-1, -1, 2), (2, -2, 1))), normal(4, 5), np.array(0.7))
case("concatenate", lambda x, y, z: jnp.concatenate([x, y, z * 2], 1), normal(2, 3), normal(2, 1), normal(2, 4))
case("dynamic_slice", lambda x: lax.dynamic_slice(x, (1, 9), (2, 3)) * 2, normal(4, 6))
case("dynamic_update_slice", lambda x, u: lax.dynamic_update_slice(x, u, (2, 1)), normal(4, 6), normal(2, 3))
case("roll", lambda x: jnp.roll(x, 2, 1), normal(3, 5))
case("tile", lambda x: jnp.tile(x, (2, 3)), normal(3, 2))
case("diagonal", lambda x: jnp.diagonal(x) * jnp.trace(x), normal(4, 4))

# reductions
case("reduce_sum", lambda x: x.sum((0, 2)), normal(3, 4, 2))
case("reduce_max", lambda x: x.max(1), distinct(3, 4))
case("reduce_min", lambda x: x.min((0, 1)), distinct(3, 4))
case("reduce_max_ties", lambda x: jnp.round(x).max(1) + x.max(1), np.array([[1.0, 1.0, 0.0], [2.0, 0.0, 2.0]]))
case("reduce_prod", lambda x: x.prod((0, 2)), normal(3, 4, 2))
case("reduce_prod_zero", lambda x: x.prod(1), np.array([[0.0, 2, 3], [0, 0, 1], [1, 2, 3]]))
case("logsumexp", lambda x: jax.scipy.special.logsumexp(x, 1), normal(3, 4))
case("reduce_general", lambda x: lax.reduce(x, 0.5, lambda a, b: a + b + 0.1 * a * b, (1,)), normal(3, 7))
case("cumsum", lambda x: jnp.cumsum(x, 1), normal(3, 7))
case("cumprod", lambda x: jnp.cumprod(x, 0), normal(5, 3))
case("cummax", lambda x: lax.cummax(x, 0), distinct(5, 3))
case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), normal(3, 5))
case("var", lambda x: jnp.var(x, 1) + jnp.std(x), normal(3, 5))
case("argmax", lambda x: x.max() * jnp.argmax(x), distinct(6))


def window(op, init, **kw):
    return lambda x: lax.reduce_window(x, init, op, **kw)


POOL = dict(window_dimensions=(1, 3, 2), window_strides=(1, 2, 2), padding=((0, 0), (1, 1), (0, 1)))
case("window_sum", window(lax.add, 0.0, **POOL), normal(2, 7, 5))
case("window_max", window(lax.max, -np.inf, **POOL), distinct(2, 7, 5))
case("window_min", window(lax.min, np.inf, **POOL), distinct(2, 7, 5))
DILATED = dict(window_dimensions=(3, 2), window_strides=(2, 1), padding=((2, 1), (0, 3)), base_dilation=(2, 3),
               window_dilation=(2, 1))
case("window_sum_dilated", window(lax.add, 0.0, **DILATED), normal(5, 4))

# products
case("dot", lambda x, y: x @ y, normal(3, 4), normal(4, 5))
case("dot_vector", lambda x, y: x @ y, normal(4), normal(4))
case("dot_general", lambda x, y: lax.dot_general(x, y, (((3, 1), (0, 2)), ((0,), (3,)))), normal(2, 3, 4, 5),
     normal(5, 6, 3, 2))
case("einsum", lambda x, y: jnp.einsum("bhqd,bkhd->bhqk", x, y), normal(2, 3, 4, 5), normal(2, 6, 3, 5))


def conv(**kw):
    return lambda x, w: lax.conv_general_dilated(x, w, **kw)


case("conv", conv(window_strides=(1, 1), padding="SAME"), normal(2, 3, 5, 6), normal(4, 3, 3, 3))
case("conv_strided", conv(window_strides=(2, 3), padding=((1, 2), (0, 1))), normal(2, 3, 7, 8), normal(4, 3, 3, 2))
case("conv_dilated", conv(window_strides=(2, 1), padding=((2, 1), (1, 3)), lhs_dilation=(2, 3), rhs_dilation=(1, 2)),
     normal(2, 3, 5, 4), normal(4, 3, 3, 2))
case("conv_groups", conv(window_strides=(2,), padding=((1, 1),), feature_group_count=3), normal(2, 6, 7),
     normal(9, 2, 3))
case("conv_depthwise", conv(window_strides=(1,), padding="VALID", feature_group_count=4), normal(2, 4, 7),
     normal(4, 1, 3))
case("conv_batch_groups", conv(window_strides=(1,), padding=((1, 0),), batch_group_count=2), normal(4, 3, 7),
     normal(6, 3, 3))
case("conv_nhwc", conv(window_strides=(1, 1), padding=((-1, 1), (0, -1)),
                       dimension_numbers=("NHWC", "HWIO", "NHWC")), normal(2, 6, 5, 3), normal(2, 3, 3, 4))
case("conv_transpose", lambda x, w: lax.conv_transpose(x, w, (2,), "SAME"), normal(2, 5, 3), normal(3, 3, 4))

# indices
INDEX = np.array([3, 0, 3, 1, 7, -9])
case("take", lambda x: x[np.array([3, 0, 3, 1, 4, -1])], normal(5, 2))
case("take_fill", lambda x: jnp.take(x, INDEX, axis=0, mode="fill", fill_value=0.0), normal(5, 2))
case("take_clip", lambda x: jnp.take(x, INDEX, axis=0, mode="clip"), normal(5, 2))
case("take_two", lambda x: x[np.array([0, 2, 1]), :, np.array([1, 1, 3])], normal(3, 2, 4))
case("take_along_axis", lambda x: jnp.take_along_axis(x, np.array([[0, 1], [2, 2], [1, 0]]), 1), normal(3, 4))
case("scatter_add", lambda x, u: x.at[np.array([1, 3, 1])].add(u), normal(5, 2), normal(3, 2))
case("scatter_set", lambda x, u: x.at[np.array([1, 3, 0])].set(u), normal(5, 2), normal(3, 2))
case("scatter_mul", lambda x, u: x.at[np.array([1, 3, 0])].mul(u, unique_indices=True), normal(5, 2), normal(3, 2))
case("scatter_max", lambda x, u: x.at[np.array([1, 3, 0])].max(u), normal(5, 2), normal(3, 2))
case("scatter_drop", lambda x, u: x.at[np.array([1, 9, 0])].add(u, mode="drop"), normal(5, 2), normal(3, 2))
case("sort", lambda x: jnp.sort(x, 0), distinct(5, 3))
case("sort_two", lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), distinct(3, 5), normal(3, 5))
case("top_k", lambda x: lax.top_k(x, 2)[0], distinct(3, 5))
case("median", lambda x: jnp.median(x, 1), distinct(3, 5))

# linear algebra
case("cholesky", jnp.linalg.cholesky, spd(4))
case("triangular_left", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), lower(4), normal(4, 2))
for flags in [(l, lo, tr, un) for l in (0, 1) for lo in (0, 1) for tr in (0, 1) for un in (0, 1)]:
    case("triangular_%d%d%d%d" % flags,
         lambda a, b, f=flags: lax.linalg.triangular_solve(a, b, left_side=bool(f[0]), lower=bool(f[1]),
                                                           transpose_a=bool(f[2]), unit_diagonal=bool(f[3])),
         lower(3) + lower(3).T, normal(3, 3))
case("solve", jnp.linalg.solve, normal(4, 4) + 3 * np.eye(4), normal(4, 2))
case("inv_det", lambda a: jnp.linalg.inv(a) * jnp.linalg.det(a), normal(3, 3) + 3 * np.eye(3))
case("qr", lambda a: jnp.linalg.qr(a), normal(4, 3))
case("qr_square", lambda a: jnp.linalg.qr(a), normal(3, 3))
case("qr_batch", lambda a: jnp.linalg.qr(a)[0] * 2, normal(2, 4, 2))
case("qr_complex", lambda a: jnp.linalg.qr(a)[1], cplx(4, 3))
case("lstsq_by_qr", lambda a, b: jax.scipy.linalg.solve_triangular(jnp.linalg.qr(a)[1], jnp.linalg.qr(a)[0].T @ b), normal(5, 3), normal(5))
case("eigh_values", lambda a: jnp.linalg.eigh(a)[0], spd(4))
case("eigh", lambda a: jnp.linalg.eigh(a)[1] ** 2, spd(4))
case("svd_values", lambda a: jnp.linalg.svd(a, compute_uv=False), normal(4, 3))
case("svd", lambda a: jnp.abs(jnp.linalg.svd(a, full_matrices=False)[0]) + jnp.linalg.svd(a, full_matrices=False)[1], normal(5, 3))
case("svd_wide", lambda a: jnp.abs(jnp.linalg.svd(a, full_matrices=False)[2]), normal(3, 5))
case("pinv", jnp.linalg.pinv, normal(4, 3))
case("svd_full_square", lambda a: jnp.abs(jnp.linalg.svd(a)[0]) + jnp.linalg.svd(a)[2] ** 2, normal(4, 4))
case("svd_values_complex", lambda a: jnp.linalg.svd(a, compute_uv=False), cplx(4, 3))
for shape in ((5, 3), (3, 5), (4, 4), (2, 4, 3)):
    case("svd_complex_%s" % "x".join(map(str, shape)), lambda a: jnp.linalg.svd(a, full_matrices=False), cplx(*shape))
case("svd_batch", lambda a: jnp.linalg.svd(a, full_matrices=False)[1:], normal(2, 3, 4))
case("pinv_complex", jnp.linalg.pinv, cplx(4, 3))
case("nuclear_norm", lambda a: jnp.linalg.norm(a, "nuc"), cplx(4, 3))
case("eigh_complex", lambda a: jnp.abs(jnp.linalg.eigh(a + a.conj().T)[1]) ** 2, cplx(4, 4))
case("cholesky_complex", lambda a: jnp.linalg.cholesky(a @ a.conj().T + 4 * jnp.eye(3)), cplx(3, 3))
case("solve_complex", jnp.linalg.solve, cplx(4, 4) + 3 * np.eye(4), cplx(4, 2))
case("triangular_conjugate", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True,
                                                                      conjugate_a=True), cplx(3, 3) + 3 * np.eye(3), cplx(3, 2))
case("expm", jax.scipy.linalg.expm, 0.3 * normal(3, 3))
case("matrix_power", lambda a: jnp.linalg.matrix_power(a, 3), normal(3, 3))
case("eigvals", lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), normal(4, 4))
case("eigvals_complex", lambda a: jnp.abs(jnp.linalg.eigvals(a)), cplx(3, 3))
case("eigvals_parts", lambda a: (jnp.linalg.eigvals(a).real, jnp.linalg.eigvals(a).imag), normal(2, 3, 3))
case("tridiagonal", lambda l, d, u, b: lax.linalg.tridiagonal_solve(l, d, u, b), normal(5), normal(5) + 4, normal(5), normal(5, 2))
case("cond_number", lambda a: jnp.linalg.cond(a), normal(4, 3))
case("slogdet", lambda a: jnp.linalg.slogdet(a)[1], spd(3))

# complex
case("complex", lambda x, y: lax.complex(x, y) * (1 + 2j), normal(4), normal(4))
case("real_imag", lambda z: jnp.real(z) ** 2 + jnp.imag(z), cplx(4))
case("abs_complex", jnp.abs, cplx(4))
case("conj", lambda z: jnp.conj(z) * z * (1 - 1j), cplx(4))
case("mul_complex", lambda x, y: x * y / (x + 2 * y), cplx(4), cplx(4))
case("exp_complex", lambda z: jnp.exp(z) + jnp.sin(z), cplx(4))
case("dot_complex", lambda x, y: x @ y, cplx(3, 2), cplx(2, 4))
case("fft", jnp.fft.fft, cplx(2, 5))
case("ifft", jnp.fft.ifft, cplx(2, 6))
case("rfft", jnp.fft.rfft, normal(2, 7))
case("rfft_even", jnp.fft.rfft, normal(2, 6))
case("irfft", lambda z: jnp.fft.irfft(z, 6), cplx(2, 4))
case("irfft_odd", lambda z: jnp.fft.irfft(z, 5), cplx(2, 3))
case("fft2", jnp.fft.fft2, cplx(2, 3, 4))

# control flow
case("cond", lambda x: lax.cond(x.sum() > 0, lambda x: jnp.sin(x), lambda x: x * 2, x), normal(3))
case("switch", lambda x: lax.switch(1, [lambda x: x, lambda x: x * x, jnp.sin], x), normal(3))
case("scan", lambda w, xs: lax.scan(lambda h, x: (jnp.tanh(w @ h + x), h * x), jnp.zeros(3), xs), normal(3, 3),
     normal(5, 3))
case("scan_reverse", lambda xs: lax.scan(lambda h, x: (h * x + 1, h), 0.5, xs, reverse=True), normal(5))
case("fori", lambda x: lax.fori_loop(0, 4, lambda i, h: jnp.sin(h) * (i + 1.0), x), normal(3))
case("scan_of_scan", lambda w, xs: lax.scan(
    lambda h, x: (lax.fori_loop(0, 3, lambda i, h: jnp.tanh(w @ h), h) + x, h.sum()), jnp.zeros(3), xs),
    normal(3, 3), normal(4, 3))
case("checkpoint", jax.checkpoint(lambda w, x: jnp.sin(jnp.sin(x @ w))), normal(3, 3), normal(2, 3))


# models
def mlp(w1, b1, w2, x):
    return ((jax.nn.gelu(x @ w1 + b1) @ w2) ** 2).mean()


def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def attention(q, k, v, wo):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    mask = jnp.tril(jnp.ones(s.shape[-2:], bool))
    p = jax.nn.softmax(jnp.where(mask, s, -1e9), -1)
    return jnp.einsum("bhqk,bkhd,hde->bqe", p, v, wo)


def conv_net(w1, w2, w3, x):
    y = jax.nn.relu(lax.conv_general_dilated(x, w1, (1, 1), "SAME"))
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    y = jax.nn.silu(lax.conv_general_dilated(y, w2, (2, 2), "SAME"))
    return jax.nn.log_softmax(y.mean((2, 3)) @ w3)


def rnn(wx, wh, xs):
    def step(h, x):
        h = jnp.tanh(x @ wx + h @ wh)
        return h, h

    return lax.scan(step, jnp.zeros((xs.shape[1], wh.shape[0])), xs)[1].sum(0)


case("mlp", mlp, normal(4, 8), normal(8), normal(8, 2), normal(3, 4))
case("layer_norm", layer_norm, normal(3, 6), normal(6), normal(6))
case("attention", attention, normal(2, 5, 3, 4), normal(2, 5, 3, 4), normal(2, 5, 3, 4), normal(3, 4, 6))
case("conv_net", conv_net, normal(4, 2, 3, 3), normal(5, 4, 3, 3), normal(5, 3), normal(2, 2, 8, 8))
case("rnn", rnn, normal(3, 4), normal(4, 4) * 0.5, normal(6, 2, 3))
case("cross_entropy", lambda w, e: -jnp.take_along_axis(jax.nn.log_softmax(e[np.array([1, 2, 0, 2])] @ w),
                                                        np.array([[1], [0], [4], [2]]), 1).mean(),
     normal(3, 5), normal(4, 3))


# devices
MESH = jax.make_mesh((2, 3), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:6])


def mapped(f, ins, outs):
    return jax.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs)


case("shard_map_psum", mapped(lambda x, w: lax.psum(jnp.tanh(x @ w), "y"), (P("x", "y"), P("y", None)), P("x", None)),
     normal(4, 6), normal(6, 2))
case("shard_map_replicated", mapped(lambda x, w: lax.psum(jnp.tanh(x @ w).sum(), ("x", "y")), (P("x", None), P(None, "y")),
                                    P()), normal(4, 3), normal(3, 6))
case("shard_map_all_gather", mapped(lambda x: jnp.sin(lax.all_gather(x, "x", axis=0, tiled=True)).sum(0, keepdims=True),
                                    (P("x", "y"),), P("x", "y")), normal(4, 6))
case("shard_map_psum_scatter", mapped(lambda x: lax.psum_scatter(jnp.sin(x), "y", scatter_dimension=1, tiled=True),
                                      (P("x", None),), P("x", "y")), normal(4, 6))
case("shard_map_ppermute", mapped(lambda x: x * lax.ppermute(jnp.sin(x), "y", [(0, 1), (1, 2), (2, 0)]),
                                  (P("x", "y"),), P("x", "y")), normal(4, 6))
case("shard_map_all_to_all", mapped(lambda x: jnp.sin(lax.all_to_all(x, "x", 1, 0, tiled=True)),
                                    (P("x", "y"),), P(None, ("x", "y"))), normal(4, 6))


RING = [(0, 1), (1, 2), (2, 0)]


def ring_attention(q, k, v):
    """Keys and values go round; the softmax is put together from its parts."""

    def step(_, carry):
        k, v, best, total, out = carry
        s = q @ k.T
        new = jnp.maximum(best, s.max(1))
        p = jnp.exp(s - new[:, None])
        scale = jnp.exp(best - new)
        out = out * scale[:, None] + p @ v
        total = total * scale + p.sum(1)
        return lax.ppermute(k, "y", RING), lax.ppermute(v, "y", RING), new, total, out

    start = (k, v, jnp.full_like(q[:, 0], -1e9), jnp.zeros_like(q[:, 0]), jnp.zeros_like(q @ v.T @ v))
    *_, total, out = lax.fori_loop(0, 3, step, start)
    return out / total[:, None]


def scan_of_sums(w, xs):
    def step(h, x):
        h = jnp.tanh(lax.psum(x @ w, "y") + h)
        return h, h.sum()

    h0 = lax.pcast(jnp.zeros(2), "x", to="varying")
    return lax.scan(step, h0, xs[0])[1][None]


def gathered_cond(x):
    whole = lax.all_gather(x, "y", axis=1, tiled=True)
    return lax.cond(x[0, 0] > 0, lambda: jnp.sin(x) * whole.sum(), lambda: x * x)


case("shard_map_ring_attention", mapped(ring_attention, (P("y", None),) * 3, P("y", None)), normal(6, 4), normal(6, 4), normal(6, 4))
case("shard_map_scan", mapped(scan_of_sums, (P("y", None), P("x", None, "y")), P("x", None)), normal(6, 2), normal(2, 4, 6))
case("shard_map_cond", mapped(gathered_cond, (P("x", "y"),), P("x", "y")), normal(4, 6))
case("shard_map_vmap", mapped(lambda x, w: lax.psum(jax.vmap(lambda r: jnp.tanh(r @ w))(x), "y"), (P("x", "y"), P("y", None)),
                              P("x", None)), normal(4, 6), normal(6, 2))
case("shard_map_axis_index", mapped(lambda x: x * (lax.axis_index("y") + 1) + lax.psum(jnp.cos(x), "x"), (P("x", "y"),), P("x", "y")),
     normal(4, 6))
