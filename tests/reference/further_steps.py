"""Nine further train steps in plain JAX, written after the executor's rules stood and used to find more of them: BERT, T5, a
diffusion transformer, ConvNeXt, a U-Net, a Llama by a scan over layers with recomputation, Mamba by an associative scan,
a graph network and an LSTM. Only shapes are made."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from train_steps import BF16, F32, convolve, cross_entropy, group_norm, shape


def norm(x, gain, bias=None):
    y = x.astype(F32)
    mean = y.mean(-1, keepdims=True)
    variance = ((y - mean) ** 2).mean(-1, keepdims=True)
    y = (y - mean) * jax.lax.rsqrt(variance + 1e-5) * gain
    return (y if bias is None else y + bias).astype(x.dtype)


def attend(q, k, v, heads, causal=False, bias=None):
    b, t, d = q.shape
    s = k.shape[1]
    q, k, v = (a.reshape(b, -1, heads, d // heads) for a in (q, k, v))
    scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(F32) / np.sqrt(d // heads)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((t, s), bool)), scores, -1e30)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1).astype(q.dtype), v).reshape(b, t, d)


def tokens(*sizes):
    return shape(*sizes, dtype=jnp.int32)


def bert():
    layers, d, heads, ff, vocab, batch, length = 24, 1024, 16, 4096, 30522, 16, 512
    layer = dict(qkv=shape(d, 3 * d), o=shape(d, d), u=shape(d, ff), d=shape(ff, d), b1=shape(ff), g1=shape(d), c1=shape(d),
                 g2=shape(d), c2=shape(d))
    params = dict(e=shape(vocab, d), pos=shape(length, d), ls=[layer] * layers, g=shape(d))

    def loss(p, b):
        x = p["e"][b[0]] + p["pos"]
        for l in p["ls"]:
            q, k, v = jnp.split(x @ l["qkv"], 3, -1)
            x = norm(x + attend(q, k, v, heads) @ l["o"], l["g1"], l["c1"])
            x = norm(x + jax.nn.gelu(x @ l["u"] + l["b1"]) @ l["d"], l["g2"], l["c2"])
        return cross_entropy(norm(x, p["g"]) @ p["e"].T, b[1])

    return loss, params, (tokens(batch, length), tokens(batch, length))


def t5():
    layers, d, heads, ff, vocab, batch, length = 8, 768, 12, 2048, 32128, 16, 512
    att = dict(q=shape(d, d), k=shape(d, d), v=shape(d, d), o=shape(d, d), n=shape(d))
    net = dict(a=shape(d, ff), b=shape(d, ff), c=shape(ff, d), n=shape(d))
    params = dict(e=shape(vocab, d), rb=shape(32, heads), en=[dict(s=att, f=net)] * layers,
                  de=[dict(s=att, x=att, f=net)] * layers, n1=shape(d), n2=shape(d), h=shape(d, vocab))

    def attention(p, x, other, causal, bias):
        h = norm(x, p["n"])
        other = h if other is None else other
        return x + attend(h @ p["q"], other @ p["k"], other @ p["v"], heads, causal, bias) @ p["o"]

    def feed_forward(p, x):
        h = norm(x, p["n"])
        return x + (jax.nn.gelu(h @ p["a"]) * (h @ p["b"])) @ p["c"]

    def loss(p, b):
        distance = jnp.clip(jnp.abs(jnp.arange(length)[:, None] - jnp.arange(length)[None]) // 8, 0, 31)
        bias = p["rb"][distance].transpose(2, 0, 1)[None].astype(F32)
        x = p["e"][b[0]]
        for l in p["en"]:
            x = feed_forward(l["f"], attention(l["s"], x, None, False, bias))
        memory = norm(x, p["n1"])
        y = p["e"][b[1]]
        for l in p["de"]:
            y = attention(l["x"], attention(l["s"], y, None, True, bias), memory, False, None)
            y = feed_forward(l["f"], y)
        return cross_entropy(norm(y, p["n2"]) @ p["h"], b[1])

    return loss, params, (tokens(batch, length), tokens(batch, length))


def waves(t):
    angles = t[:, None] * jnp.exp(-jnp.arange(128) / 14)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1).astype(BF16)


def diffusion_transformer():
    layers, d, heads, batch, length = 12, 768, 12, 32, 256
    layer = dict(a=shape(d, 6 * d), qkv=shape(d, 3 * d), o=shape(d, d), u=shape(d, 4 * d), d=shape(4 * d, d))
    params = dict(i=shape(16, d), pos=shape(length, d), t=shape(256, d), ls=[layer] * layers, f=shape(d, 2 * d),
                  out=shape(d, 16))

    def loss(p, b):
        x, noise, t = b
        x = x @ p["i"] + p["pos"]
        c = waves(t) @ p["t"]
        one = jnp.ones(d, F32)
        for l in p["ls"]:
            m = jnp.split((jax.nn.silu(c) @ l["a"])[:, None], 6, -1)
            q, k, v = jnp.split((norm(x, one) * (1 + m[0]) + m[1]) @ l["qkv"], 3, -1)
            x = x + m[2] * (attend(q, k, v, heads) @ l["o"])
            h = norm(x, one) * (1 + m[3]) + m[4]
            x = x + m[5] * (jax.nn.gelu(h @ l["u"]) @ l["d"])
        scale, shift = jnp.split((jax.nn.silu(c) @ p["f"])[:, None], 2, -1)
        out = (norm(x, one) * (1 + scale) + shift) @ p["out"]
        return jnp.mean((out - noise).astype(F32) ** 2)

    return loss, params, (shape(batch, length, 16), shape(batch, length, 16), shape(batch, dtype=F32))


def convnext():
    widths, blocks = [96, 192, 384, 768], [3, 3, 9, 3]

    def block(w):
        return dict(dw=shape(7, 7, 1, w), g=shape(w), b=shape(w), u=shape(w, 4 * w), d=shape(4 * w, w), s=shape(w))

    params = dict(stem=shape(4, 4, 3, 96), st=[[block(w)] * n for w, n in zip(widths, blocks)],
                  dn=[dict(w=shape(2, 2, a, b), g=shape(a)) for a, b in zip(widths, widths[1:])], h=shape(768, 1000))

    def conv(x, w, stride=1, groups=1, padding="SAME"):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                            feature_group_count=groups)

    def loss(p, b):
        x = conv(b[0], p["stem"], 4, padding="VALID")
        for i, stage in enumerate(p["st"]):
            for l in stage:
                h = norm(conv(x, l["dw"], groups=x.shape[-1]), l["g"], l["b"])
                x = x + (jax.nn.gelu(h @ l["u"]) @ l["d"]) * l["s"]
            if i < 3:
                x = conv(norm(x, p["dn"][i]["g"]), p["dn"][i]["w"], 2, padding="VALID")
        return cross_entropy(x.mean((1, 2)) @ p["h"], b[1])

    return loss, params, (shape(64, 224, 224, 3), tokens(64))


def unet():
    def residual(a, b):
        return dict(g=shape(a), b=shape(a), w=shape(3, 3, a, b), g2=shape(b), b2=shape(b), w2=shape(3, 3, b, b),
                    t=shape(512, b), s=shape(1, 1, a, b))

    params = dict(i=shape(3, 3, 3, 128), t=shape(256, 512), d=[residual(128, 128), residual(128, 256), residual(256, 256)],
                  m=residual(256, 256), qkv=shape(256, 768), o=shape(256, 256),
                  u=[residual(512, 256), residual(512, 256), residual(384, 128)], out=shape(3, 3, 128, 3))

    def run(p, x, t):
        h = convolve(jax.nn.silu(group_norm(x, p["g"], p["b"])), p["w"]) + (t @ p["t"])[:, None, None]
        return convolve(x, p["s"]) + convolve(jax.nn.silu(group_norm(h, p["g2"], p["b2"])), p["w2"])

    def loss(p, b):
        x, noise, t = b
        t = waves(t) @ p["t"]
        x = convolve(x, p["i"])
        kept = []
        for i, l in enumerate(p["d"]):
            x = run(l, x, t)
            kept.append(x)
            if i < 2:
                x = x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, x.shape[3]).mean((2, 4))
        x = run(p["m"], x, t)
        n, h, w, c = x.shape
        q, k, v = jnp.split(x.reshape(n, h * w, c) @ p["qkv"], 3, -1)
        x = x + (attend(q, k, v, 4) @ p["o"]).reshape(x.shape)
        for i, l in enumerate(p["u"]):
            x = run(l, jnp.concatenate([x, kept[-1 - i]], -1), t)
            if i < 2:
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        return jnp.mean((convolve(x, p["out"]) - noise).astype(F32) ** 2)

    return loss, params, (shape(32, 64, 64, 3), shape(32, 64, 64, 3), shape(32, dtype=F32))


def llama_scan():
    layers, d, heads, ff, vocab, batch, length = 24, 1536, 12, 4096, 32000, 8, 1024
    wide = functools.partial(shape, dtype=F32)
    stack = dict(q=wide(layers, d, d), k=wide(layers, d, d), v=wide(layers, d, d), o=wide(layers, d, d),
                 a=wide(layers, d, ff), b=wide(layers, d, ff), c=wide(layers, ff, d), n=wide(layers, d), m=wide(layers, d))
    params = dict(e=wide(vocab, d), ls=stack, h=wide(d, vocab))

    @jax.checkpoint
    def layer(x, l):
        l = jax.tree.map(lambda a: a.astype(BF16), l)
        h = norm(x, l["n"])
        x = x + attend(h @ l["q"], h @ l["k"], h @ l["v"], heads, True) @ l["o"]
        h = norm(x, l["m"])
        return x + (jax.nn.silu(h @ l["a"]) * (h @ l["b"])) @ l["c"], None

    def loss(p, b):
        x = p["e"].astype(BF16)[b[0][:, :-1]]
        x, _ = jax.lax.scan(layer, x, p["ls"])
        return cross_entropy(x @ p["h"].astype(BF16), b[0][:, 1:])

    return loss, params, (tokens(batch, length + 1),)


def mamba():
    layers, d, n, vocab, batch, length = 12, 768, 16, 50304, 2, 1024
    one = dict(i=shape(d, 4 * d), dt=shape(2 * d, 2 * d), b=shape(2 * d, n), c=shape(2 * d, n),
               a=shape(2 * d, n, dtype=F32), o=shape(2 * d, d), n=shape(d))
    params = dict(e=shape(vocab, d), ls=[one] * layers)

    @jax.checkpoint
    def layer(x, l):
        u, z = jnp.split(norm(x, l["n"]) @ l["i"], 2, -1)
        u = jax.nn.silu(u)
        step = jax.nn.softplus((u @ l["dt"]).astype(F32))
        decay = jnp.exp(-step[..., None] * jnp.exp(l["a"]))
        given = (step * u)[..., None] * (u @ l["b"]).astype(F32)[:, :, None]
        _, h = jax.lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (decay, given), axis=1)
        y = jnp.einsum("btdn,btn->btd", h, (u @ l["c"]).astype(F32)).astype(BF16)
        return x + (y * jax.nn.silu(z)) @ l["o"]

    def loss(p, b):
        x = p["e"][b[0][:, :-1]]
        for l in p["ls"]:
            x = layer(x, l)
        return cross_entropy(x @ p["e"].T, b[0][:, 1:])

    return loss, params, (tokens(batch, length + 1),)


def graph_network():
    nodes, edges, d = 65536, 524288, 256
    wide = functools.partial(shape, dtype=F32)
    params = dict(ls=[dict(w=wide(d, d), s=wide(d, d))] * 4, h=wide(d, 40))

    def loss(p, b):
        x, source, target, labels = b
        for l in p["ls"]:
            mean = jax.ops.segment_sum(x[source], target, num_segments=nodes) / 8
            x = jax.nn.relu(mean @ l["w"] + x @ l["s"])
        return cross_entropy(x @ p["h"], labels)

    return loss, params, (wide(nodes, d), tokens(edges), tokens(edges), tokens(nodes))


def lstm():
    d, batch, length, vocab = 1024, 64, 256, 10000
    params = dict(e=shape(vocab, d), ls=[dict(x=shape(d, 4 * d), h=shape(d, 4 * d))] * 2, o=shape(d, vocab))

    def cell(weights, carry, given):
        h, c = carry
        i, f, g, o = jnp.split(given + h @ weights, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def loss(p, b):
        x = p["e"][b[0][:, :-1]].swapaxes(0, 1)
        for l in p["ls"]:
            start = (jnp.zeros((batch, d), BF16),) * 2
            _, x = jax.lax.scan(functools.partial(cell, l["h"]), start, x @ l["x"])
        return cross_entropy(x.swapaxes(0, 1) @ p["o"], b[0][:, 1:])

    return loss, params, (tokens(batch, length + 1),)


STEPS = dict(bert=bert, t5=t5, dit=diffusion_transformer, convnext=convnext, unet=unet, llama_scan=llama_scan, mamba=mamba,
             gnn=graph_network, lstm=lstm)
