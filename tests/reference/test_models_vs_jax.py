"""Every model of the command line against the same model written in JAX: loss and gradients, whole and over a mesh."""

import os
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cleave_runs import CLEAVE, run_text


def rms_norm(x, w):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w


def layer_norm(x, w, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(q, k, v, causal):
    groups = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, groups, 1), jnp.repeat(v, groups, 1)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = jnp.where(np.tril(np.ones(s.shape[-2:], bool)), s, -jnp.inf)
    y = jax.nn.softmax(s) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def rotate(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def causal_attention(w, x, heads, kv_heads):
    norm, q, k, v, o = w
    h = rms_norm(x, norm)
    return attention(rotate(split(h @ q, heads)), rotate(split(h @ k, kv_heads)), split(h @ v, kv_heads), True) @ o


def token_loss(logits, tokens):
    rows = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1)
    return -rows.mean()


def mlp(w, x, y):
    for i in range(0, len(w), 2):
        x = x @ w[i] + w[i + 1]
        if i + 2 < len(w):
            x = jax.nn.gelu(x)
    return ((x - y) ** 2).mean()


def gpt(w, tokens, heads=4, kv_heads=2):
    x = w[0][tokens]
    for i in range(1, len(w) - 2, 9):
        x = x + causal_attention(w[i : i + 5], x, heads, kv_heads)
        norm, gate, up, down = w[i + 5 : i + 9]
        h = rms_norm(x, norm)
        x = x + (jax.nn.silu(h @ gate) * (h @ up)) @ down
    return token_loss(rms_norm(x, w[-2]) @ w[-1], tokens)


def experts(w, x, capacity):
    """Tokens one by one, in Python's own way: no one-hot matrices."""
    norm, router, gate, up, down = w
    h = rms_norm(x, norm)
    p = jax.nn.softmax(h @ router)
    order = np.argsort(-np.asarray(lax.stop_gradient(p)), -1, kind="stable")
    b, s, n = p.shape
    out = [[jnp.zeros_like(x[0, 0])] * s for _ in range(b)]
    for i in range(b):
        used = np.zeros(n, int)
        for choice in (0, 1):
            for t in range(s):
                e = order[i, t, choice]
                used[e] += 1
                if used[e] > capacity:
                    continue
                first, second = p[i, t, order[i, t, 0]], p[i, t, order[i, t, 1]]
                weight = p[i, t, e] / (first + second)
                y = (jax.nn.silu(h[i, t] @ gate[e]) * (h[i, t] @ up[e])) @ down[e]
                out[i][t] = out[i][t] + weight * y
    share = (order[..., 0][..., None] == np.arange(n)).mean((0, 1))
    return jnp.stack([jnp.stack(rows) for rows in out]), n * (share * p.mean((0, 1))).sum()


def moe(w, tokens, heads=4, kv_heads=2, capacity=4):
    x, balance, layers = w[0][tokens], 0.0, (len(w) - 3) // 10
    for i in range(1, len(w) - 2, 10):
        x = x + causal_attention(w[i : i + 5], x, heads, kv_heads)
        y, more = experts(w[i + 5 : i + 10], x, capacity)
        x, balance = x + y, balance + more / layers
    return token_loss(rms_norm(x, w[-2]) @ w[-1], tokens) + 0.01 * balance


def encoder(w, x, y, heads=4):
    norm1, bias1, qkv, out, norm2, bias2, up, b_up, down, b_down = w
    q, k, v = jnp.split(layer_norm(x, norm1, bias1) @ qkv, 3, -1)
    x = x + attention(split(q, heads), split(k, heads), split(v, heads), False) @ out
    x = x + jax.nn.gelu(layer_norm(x, norm2, bias2) @ up + b_up) @ down + b_down
    return ((x - y) ** 2).mean()


def group_norm(x, scale, shift, groups=4):
    g = x.reshape(*x.shape[:3], groups, -1)
    m = g.mean((1, 2, 4), keepdims=True)
    g = (g - m) * lax.rsqrt(((g - m) ** 2).mean((1, 2, 4), keepdims=True) + 1e-5)
    return g.reshape(x.shape) * scale + shift


def conv(x, k, stride=1):
    low, high = (k.shape[0] - 1) // 2, k.shape[0] // 2
    return lax.conv_general_dilated(x, k, (stride, stride), ((low, high),) * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def resnet(w, images, labels):
    w = list(w)
    take = lambda n: [w.pop(0) for _ in range(n)]
    stem, scale, shift = take(3)
    x = jax.nn.relu(group_norm(conv(images, stem), scale, shift))
    while len(w) > 2:
        conv1, s1, b1, conv2, s2, b2 = take(6)
        grows = conv1.shape[2] != conv1.shape[3]
        h = jax.nn.relu(group_norm(conv(x, conv1, 2 if grows else 1), s1, b1))
        h = group_norm(conv(h, conv2), s2, b2)
        if grows:
            x = conv(x, take(1)[0], 2)
        x = jax.nn.relu(x + h)
    logits = x.mean((1, 2)) @ w[0] + w[1]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1).mean()


def batch_norm(x, scale, shift):
    m = x.mean((0, 1, 2))
    return (x - m) * lax.rsqrt(((x - m) ** 2).mean((0, 1, 2)) + 1e-5) * scale + shift


def bottlenecks(w, images, labels):
    """ResNet-50's parts: a large stem, bottlenecks, norms over the batch."""
    w = list(w)
    take = lambda n: [w.pop(0) for _ in range(n)]
    stem, scale, shift = take(3)
    x = jax.nn.relu(batch_norm(conv(images, stem, 2), scale, shift))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    first = True
    while len(w) > 2:
        conv1, s1, b1, conv2, s2, b2 = take(6)
        grows = w[0].shape[2] == conv1.shape[2] and w[0].shape[3] == 4 * conv1.shape[3]
        shortcut = take(1) if grows else []
        conv3, s3, b3 = take(3)
        stride = 2 if grows and not first else 1
        h = jax.nn.relu(batch_norm(conv(x, conv1), s1, b1))
        h = jax.nn.relu(batch_norm(conv(h, conv2, stride), s2, b2))
        h = batch_norm(conv(h, conv3), s3, b3)
        if grows:
            x = batch_norm(conv(x, shortcut[0], stride), *take(2))
        x, first = jax.nn.relu(x + h), False
    logits = x.mean((1, 2)) @ w[0] + w[1]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1).mean()


def time_block(w, x, time):
    s1, b1, conv1, told, s2, b2, conv2, *shortcut = w
    h = conv(jax.nn.silu(group_norm(x, s1, b1)), conv1) + (jax.nn.silu(time) @ told)[:, None, None]
    h = conv(jax.nn.silu(group_norm(h, s2, b2)), conv2)
    return h + (conv(x, shortcut[0]) if shortcut else x)


def unet(w, images, times, noise, heads=2):
    inp, time1, time2 = w[:3]
    left, down, middle, (scale, shift, qkv, mix, up), right, (so, bo, out) = (
        w[3:10], w[10], w[11:18], w[18:23], w[23:31], w[31:])
    half = time1.shape[0] // 2
    angle = times[:, None] * (10000.0 ** (-np.arange(half) / half)).astype(np.float32)
    time = jax.nn.silu(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], 1) @ time1) @ time2
    skip = time_block(left, conv(images, inp), time)
    x = time_block(middle, conv(skip, down, 2), time)
    flat = group_norm(x, scale, shift).reshape(x.shape[0], -1, x.shape[3])
    q, k, v = (split(part, heads) for part in jnp.split(flat @ qkv, 3, -1))
    x = x + (attention(q, k, v, False) @ mix).reshape(x.shape)
    x = conv(jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), up)
    x = time_block(right, jnp.concatenate([x, skip], 3), time)
    return ((conv(jax.nn.silu(group_norm(x, so, bo)), out) - noise) ** 2).mean()


SMALL = "d=16&heads=4&kv_heads=2&hidden=24&vocab=11&batch=3&length=7"
MODELS = {  # name of the model, or with what its options make of it: options, function, inputs
    "mlp": ("layers=3&d=6&hidden=10&batch=5", mlp, 2),
    "gpt": (f"layers=2&{SMALL}", gpt, 1),
    "moe": (f"layers=2&experts=4&{SMALL}&capacity_factor=1", moe, 1),
    "encoder": ("d=16&heads=4&hidden=24&batch=3&length=7", encoder, 2),
    "resnet": ("blocks=2,1&channels=8&size=8&batch=3&classes=5", resnet, 2),
    "resnet/bottlenecks": ("blocks=1,2&channels=4&size=16&batch=3&classes=5&bottleneck=yes&stem=large&norm=batch",
                           bottlenecks, 2),
    "gpt/borders": (f"layers=2&{SMALL}&borders=yes", gpt, 1),
    "unet": ("channels=8&embedding=16&size=8&batch=3", unet, 3),
}


def traced(name, step, *more):
    options = "&".join([MODELS[name][0], f"step={step}", *more])
    run = subprocess.run([CLEAVE, "trace", f"model:{name.split('/')[0]}?{options}"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def arguments(text):
    """Random ones, of the types that the module takes."""
    rng = np.random.default_rng(5)
    head = text[text.index("@main(") : text.index(") -> ")]
    args = []
    for part in head.split("tensor<")[1:]:
        *shape, dtype = part[: part.index(">")].split("x")
        shape = [int(n) for n in shape]
        if dtype == "f32":
            # Near one for scales, small for the rest.
            args.append((rng.standard_normal(shape) * 0.4 + (1 if len(shape) == 1 else 0)).astype(np.float32))
        else:
            args.append(rng.integers(0, 5, shape).astype(np.int32))
    return args


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients(name):
    _, f, inputs = MODELS[name]
    text = traced(name, "grad")
    args = arguments(text)
    weights, batch = args[:-inputs], args[-inputs:]
    value, gradients = jax.value_and_grad(f)([jnp.asarray(w) for w in weights], *batch)
    expected = [value, *gradients]
    # What a norm over the batch takes away has a gradient of zero, up to rounding.
    least = 1e-2 if "norm=batch" in MODELS[name][0] else 1e-3
    for how in ([], ["--mesh", "data=2,model=2", "--shard", "random:3"], ["--mesh", "data=4", "--shard", "random:9"]):
        actual = run_text(text, args, *how)
        assert len(actual) == len(expected)
        for i, (a, e) in enumerate(zip(actual, expected)):
            scale = max(least, float(np.abs(np.asarray(e)).max()))
            np.testing.assert_allclose(a, np.asarray(e), atol=2e-4 * scale, rtol=2e-3, err_msg=f"{name} result {i} {how}")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sharding", ["data", "megatron", "fsdp", "mixed"])
def test_shardings_by_name(name, sharding):
    """The gradient under a scheme is the one on one device."""
    spec = f"model:{name.split('/')[0]}?{MODELS[name][0]}&step=grad&sharding={sharding}"
    run = subprocess.run([CLEAVE, "run", spec, "--mesh", "data=2,model=2", "--shard", "annotations", "--quiet", "--verify"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "verified" in run.stdout + run.stderr


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("step", ["forward", "loss", "grad", "train"])
def test_trace_is_the_model(name, step):
    """What is printed parses, prints as it was, and runs to the numbers of the model itself."""
    text = traced(name, step)
    again = subprocess.run([CLEAVE, "opt", "-"], input=text, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout == text
    args = arguments(text)
    first = run_text(text, args)
    for a, b in zip(first, run_text(again.stdout, args)):
        np.testing.assert_array_equal(a, b)
