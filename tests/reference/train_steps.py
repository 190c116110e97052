"""Steps in plain JAX at real sizes, as StableHLO: a language model of GPT-2's size, a Llama-like one, a mixture of experts,
ResNet-50, ViT-L, MLP-Mixer and a recommender with tables, each with AdamW, and a Llama-like model forward. Only shapes are
made, no parameters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

BF16, F32 = jnp.bfloat16, jnp.float32


def shape(*sizes, dtype=BF16):
    return jax.ShapeDtypeStruct(sizes, dtype)


def rms_norm(x, gain):
    y = x.astype(F32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)
    return (y * gain).astype(x.dtype)


def rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] / (10000 ** (jnp.arange(half) / half))
    c, s = jnp.cos(angles)[:, None].astype(x.dtype), jnp.sin(angles)[:, None].astype(x.dtype)
    u, v = x[..., :half], x[..., half:]
    return jnp.concatenate([u * c - v * s, u * s + v * c], -1)


def attention(p, x, heads, kv):
    b, t, d = x.shape
    h = d // heads
    q = rotate((x @ p["q"]).reshape(b, t, heads, h), jnp.arange(t)).reshape(b, t, kv, heads // kv, h)
    k = rotate((x @ p["k"]).reshape(b, t, kv, h), jnp.arange(t))
    v = (x @ p["v"]).reshape(b, t, kv, h)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(F32) / np.sqrt(h)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)
    weights = jax.nn.softmax(scores, -1).astype(x.dtype)
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(b, t, d) @ p["o"]


def experts(p, x, count, capacity):
    b, t, d = x.shape
    n = b * t
    y = x.reshape(n, d)
    slots = int(capacity * n * 2 / count)
    gates, chosen = jax.lax.top_k(jax.nn.softmax((y @ p["router"]).astype(F32), -1), 2)
    one_hot = jax.nn.one_hot(chosen, count, dtype=F32)
    place = (jnp.cumsum(one_hot.reshape(n * 2, count), 0) - 1).reshape(n, 2, count)
    kept = ((place < slots) * one_hot).astype(x.dtype)
    slot = jax.nn.one_hot(jnp.sum(place * one_hot, -1).astype(jnp.int32), slots, dtype=x.dtype)
    dispatch = jnp.einsum("nke,nkc->nec", kept, slot)
    combine = jnp.einsum("nke,nkc,nk->nec", kept, slot, gates.astype(x.dtype))
    z = jnp.einsum("nec,nd->ecd", dispatch, y)
    z = jnp.einsum("ecf,efd->ecd", jax.nn.silu(jnp.einsum("ecd,edf->ecf", z, p["w1"])), p["w2"])
    return jnp.einsum("nec,ecd->nd", combine, z).reshape(b, t, d)


def feed_forward(p, x):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits.astype(F32), -1), labels[..., None], -1))


def language_model(params, tokens, config):
    x = params["embed"][tokens[:, :-1]]
    for p in params["layers"]:
        x = x + attention(p, rms_norm(x, p["n1"]), config["heads"], config["kv"])
        y = rms_norm(x, p["n2"])
        x = x + (experts(p, y, config["experts"], 1.25) if "experts" in config else feed_forward(p, y))
    return cross_entropy(rms_norm(x, params["norm"]) @ params["head"], tokens[:, 1:])


def language_model_params(config):
    d, f, vocab = config["d"], config["ff"], config["vocab"]
    kv = d // config["heads"] * config["kv"]

    def layer():
        p = dict(q=shape(d, d), k=shape(d, kv), v=shape(d, kv), o=shape(d, d), n1=shape(d), n2=shape(d))
        if "experts" in config:
            e = config["experts"]
            return p | dict(router=shape(d, e), w1=shape(e, d, f), w2=shape(e, f, d))
        return p | dict(gate=shape(d, f), up=shape(d, f), down=shape(f, d))

    return dict(embed=shape(vocab, d), layers=[layer() for _ in range(config["layers"])], norm=shape(d),
                head=shape(d, vocab))


STAGES = [(256, 64, 3, 1), (512, 128, 4, 2), (1024, 256, 6, 2), (2048, 512, 3, 2)]  # out, middle, blocks, stride


def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def group_norm(x, gain, bias, groups=32):
    n, h, w, c = x.shape
    y = x.astype(F32).reshape(n, h, w, groups, c // groups)
    mean, variance = y.mean((1, 2, 4), keepdims=True), y.var((1, 2, 4), keepdims=True)
    return (((y - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(n, h, w, c) * gain + bias).astype(x.dtype)


def resnet_params():
    params, c = [dict(stem=shape(7, 7, 3, 64), g=shape(64), b=shape(64))], 64
    for out, middle, blocks, _ in STAGES:
        for i in range(blocks):
            p = dict(a=shape(1, 1, c, middle), b=shape(3, 3, middle, middle), c=shape(1, 1, middle, out))
            p |= {f"{kind}{which}": shape(out if which == "c" else middle) for kind in "gb" for which in "abc"}
            if i == 0:
                p |= dict(skip=shape(1, 1, c, out))
            params.append(p)
            c = out
    return params + [dict(head=shape(2048, 1000))]


def resnet(params, batch, _config):
    x, labels = batch
    p = params[0]
    x = jax.nn.relu(group_norm(convolve(x, p["stem"], 2), p["g"], p["b"]))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    i = 1
    for _, _, blocks, first_stride in STAGES:
        for k in range(blocks):
            p, stride = params[i], first_stride if k == 0 else 1
            i += 1
            h = jax.nn.relu(group_norm(convolve(x, p["a"]), p["ga"], p["ba"]))
            h = jax.nn.relu(group_norm(convolve(h, p["b"], stride), p["gb"], p["bb"]))
            h = group_norm(convolve(h, p["c"]), p["gc"], p["bc"])
            x = jax.nn.relu(h + (convolve(x, p["skip"], stride) if "skip" in p else x))
    return cross_entropy(x.mean((1, 2)) @ params[-1]["head"], labels)


def layer_norm(x, p):
    y = x.astype(F32)
    mean, variance = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
    return ((y - mean) * jax.lax.rsqrt(variance + 1e-5) * p["g"] + p["b"]).astype(x.dtype)


def norm_params(d):
    return dict(g=shape(d), b=shape(d))


def perceptron(p, x):
    return jax.nn.gelu(x @ p["a"] + p["ab"]) @ p["b"] + p["bb"]


def perceptron_params(d, hidden):
    return dict(a=shape(d, hidden), ab=shape(hidden), b=shape(hidden, d), bb=shape(d))


def vision_transformer_params(layers, d, tokens):
    layer = dict(n1=norm_params(d), att={name: shape(d, d) for name in "qkvo"}, n2=norm_params(d),
                 mlp=perceptron_params(d, 4 * d))
    return dict(stem=shape(16, 16, 3, d), cls=shape(1, 1, d), pos=shape(tokens, d), layers=[layer] * layers,
                n=norm_params(d), head=shape(d, 1000))


def vision_transformer(params, batch, heads):
    images, labels = batch
    x = jax.lax.conv_general_dilated(images, params["stem"], (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    b, d = x.shape[0], x.shape[-1]
    x = jnp.concatenate([jnp.broadcast_to(params["cls"], (b, 1, d)), x.reshape(b, -1, d)], 1) + params["pos"]
    for p in params["layers"]:
        y = layer_norm(x, p["n1"])
        q, k, v = ((y @ p["att"][name]).reshape(*y.shape[:-1], heads, d // heads) for name in "qkv")
        scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(F32) / np.sqrt(d // heads)
        weights = jax.nn.softmax(scores, -1).astype(x.dtype)
        x = x + jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ p["att"]["o"]
        x = x + perceptron(p["mlp"], layer_norm(x, p["n2"]))
    return cross_entropy(layer_norm(x[:, 0], params["n"]) @ params["head"], labels)


def mixer_params(layers, d, tokens):
    layer = dict(n1=norm_params(d), tok=perceptron_params(tokens, d // 2), n2=norm_params(d),
                 ch=perceptron_params(d, 4 * d))
    return dict(stem=shape(768, d), layers=[layer] * layers, n=norm_params(d), head=shape(d, 1000))


def mixer(params, batch):
    images, labels = batch
    b, side = images.shape[0], images.shape[1] // 16
    x = images.reshape(b, side, 16, side, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, side * side, 768) @ params["stem"]
    for p in params["layers"]:
        x = x + perceptron(p["tok"], layer_norm(x, p["n1"]).swapaxes(1, 2)).swapaxes(1, 2)
        x = x + perceptron(p["ch"], layer_norm(x, p["n2"]))
    return cross_entropy(layer_norm(x, params["n"]).mean(1) @ params["head"], labels)


def recommender_params(tables, rows, d):
    def net(widths):
        return [dict(w=shape(a, b, dtype=F32), b=shape(b, dtype=F32)) for a, b in zip(widths, widths[1:])]

    return dict(tables=[shape(rows, d, dtype=F32)] * tables, bot=net([13, 512, 256, d]),
                top=net([d + (tables + 1) * tables // 2, 1024, 512, 1]))


def recommender(params, batch):
    dense, ids, clicks = batch

    def run(layers, x, ends):
        for i, p in enumerate(layers):
            x = x @ p["w"] + p["b"]
            x = jax.nn.relu(x) if i + 1 < len(layers) or ends else x
        return x

    x = run(params["bot"], dense, True)
    rows = [table[ids[:, i] % table.shape[0]] for i, table in enumerate(params["tables"])]
    embedded = jnp.stack([x, *rows], 1)
    pairs = jnp.einsum("bid,bjd->bij", embedded, embedded)
    i, j = np.tril_indices(embedded.shape[1], -1)
    out = run(params["top"], jnp.concatenate([x, pairs[:, i, j]], 1), False)[:, 0]
    return jnp.mean(jnp.maximum(out, 0) - out * clicks + jnp.log1p(jnp.exp(-jnp.abs(out))))


def llama_forward(params, tokens, config):
    x = params["embed"][tokens]
    for p in params["layers"]:
        x = x + attention(p, rms_norm(x, p["n1"]), config["heads"], config["kv"])
        x = x + feed_forward(p, rms_norm(x, p["n2"]))
    return rms_norm(x, params["norm"]) @ params["head"]


def adamw_step(loss):
    def update(p, m, v):
        wide = p.astype(F32)
        return (wide - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * wide)).astype(p.dtype)

    def step(params, m, v, batch):
        value, gradients = jax.value_and_grad(loss)(params, batch)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g.astype(F32), m, gradients)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * jnp.square(g.astype(F32)), v, gradients)
        return jax.tree.map(update, params, m, v), m, v, value

    return step


LANGUAGE_MODELS = {
    "gpt2": dict(layers=12, d=768, heads=12, kv=12, ff=3072, vocab=50304, batch=8, length=1024),
    "llama_1b": dict(layers=16, d=2048, heads=32, kv=8, ff=8192, vocab=128256, batch=2, length=2048),
    "moe": dict(layers=8, d=1024, heads=16, kv=8, ff=2048, vocab=32000, experts=8, batch=4, length=1024),
}


FORWARD = dict(layers=16, d=2048, heads=32, kv=8, ff=8192, vocab=32000, batch=4, length=2048)


def images(count):
    return shape(count, 224, 224, 3), shape(count, dtype=jnp.int32)


def training(name):
    """The loss of a step, its parameters and its batch."""
    if name == "resnet50":
        return functools.partial(resnet, _config={}), resnet_params(), images(64)
    if name == "vit":
        return functools.partial(vision_transformer, heads=16), vision_transformer_params(24, 1024, 197), images(32)
    if name == "mixer":
        return mixer, mixer_params(24, 1024, 196), images(64)
    if name == "recommender":
        batch = (shape(16384, 13, dtype=F32), shape(16384, 16, dtype=jnp.int32), shape(16384, dtype=F32))
        return recommender, recommender_params(16, 1000000, 64), batch
    config = LANGUAGE_MODELS[name]
    loss = functools.partial(language_model, config=config)
    return loss, language_model_params(config), shape(config["batch"], config["length"] + 1, dtype=jnp.int32)


def step_text(loss, params, batch):
    moments = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, F32), params)
    step = jax.jit(adamw_step(loss), donate_argnums=(0, 1, 2))
    return step.lower(params, moments, moments, batch).as_text()


def module(name):
    """The step as text."""
    if name == "llama_forward":
        tokens = shape(FORWARD["batch"], FORWARD["length"], dtype=jnp.int32)
        step = jax.jit(functools.partial(llama_forward, config=FORWARD))
        return step.lower(language_model_params(FORWARD), tokens).as_text()
    return step_text(*training(name))
