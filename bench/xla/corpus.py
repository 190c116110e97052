"""Steps in plain JAX that differ in what they ask of a partitioner, in sizes that can be executed here: attention, experts,
convolutions, tables, scans of two kinds, recurrences, a decode loop with a cache. `steps` gives each in even and in uneven
sizes."""

import functools
import pathlib
import sys

import jax
import jax.numpy as jnp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reference"))
import jax_models  # noqa: E402
import steps as small_steps  # noqa: E402
import train_steps  # noqa: E402

F32, I32 = jnp.float32, jnp.int32
shape = small_steps.shape


def adamw(loss, params, batch):
    moments = jax.tree.map(lambda p: shape(*p.shape), params)
    return train_steps.adamw_step(loss), (params, moments, moments, batch)


# ---- a state space model: a diagonal recurrence by an associative scan


def state_space(params, batch):
    x, y = batch
    for p in params["layers"]:
        u = jax.nn.silu(x @ p["up"])
        decay = jax.nn.sigmoid(x @ p["decay"])

        def join(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]
        _, state = jax.lax.associative_scan(join, (decay, (1 - decay) * u), axis=1)
        x = x + state @ p["down"]
    return jnp.mean((x - y) ** 2)


def ssm(batch, length, d, inner):
    layer = dict(up=shape(d, inner), decay=shape(d, inner), down=shape(inner, d))
    return adamw(state_space, dict(layers=[layer] * 2), (shape(batch, length, d), shape(batch, length, d)))


# ---- an LSTM: a scan over time


def lstm_loss(params, batch):
    x, y = batch
    width = params["h"].shape[0]
    start = (jnp.zeros((x.shape[0], width)), jnp.zeros((x.shape[0], width)))

    def cell(carry, now):
        h, c = carry
        i, f, g, o = jnp.split(now @ params["x"] + h @ params["h"] + params["b"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), jax.nn.sigmoid(o) * jnp.tanh(c)
    _, out = jax.lax.scan(cell, start, x.swapaxes(0, 1))
    return jnp.mean((out.swapaxes(0, 1) @ params["head"] - y) ** 2)


def lstm(batch, length, d, width):
    params = dict(x=shape(d, 4 * width), h=shape(width, 4 * width), b=shape(4 * width), head=shape(width, d))
    return adamw(lstm_loss, params, (shape(batch, length, d), shape(batch, length, d)))


# ---- decoding: a loop that writes keys and values into a cache


def decode_loop(params, caches, tokens, steps, heads):
    b = tokens.shape[0]
    d = params["embed"].shape[1]

    def one(i, state):
        keys, values, token = state
        x = params["embed"][token]
        for n, p in enumerate(params["layers"]):
            y = small_steps.layer_norm(x, p["g1"], p["b1"])
            q, k, v = ((y @ p[w]).reshape(b, heads, d // heads) for w in "qkv")
            keys = keys.at[n, :, i].set(k)
            values = values.at[n, :, i].set(v)
            scores = jnp.einsum("bhe,bshe->bhs", q, keys[n]) / (d // heads) ** 0.5
            seen = jnp.arange(keys.shape[2]) <= i
            weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), -1)
            x = x + jnp.einsum("bhs,bshe->bhe", weights, values[n]).reshape(b, d) @ p["o"]
            x = x + jax.nn.gelu(small_steps.layer_norm(x, p["g2"], p["b2"]) @ p["up"] + p["bias"]) @ p["down"]
        return keys, values, jnp.argmax(x @ params["embed"].T, -1).astype(I32)
    keys, values, token = jax.lax.fori_loop(0, steps, one, (*caches, tokens))
    return keys, values, token


def decode(batch, length, d, heads, ff, vocab):
    params = dict(embed=shape(vocab, d), layers=[small_steps.block_params(d, ff)] * 2)
    cache = shape(2, batch, length, heads, d // heads)
    return functools.partial(decode_loop, steps=length // 2, heads=heads), (params, (cache, cache), shape(batch, dtype=I32))


def recommender(batch, tables, rows, d):
    narrow = train_steps.recommender_params(tables, rows, d)
    net = lambda widths: [dict(w=shape(a, b), b=shape(b)) for a, b in zip(widths, widths[1:])]
    params = dict(tables=narrow["tables"], bot=net([13, 32, d]), top=net([d + (tables + 1) * tables // 2, 32, 1]))
    return adamw(train_steps.recommender, params, (shape(batch, 13), shape(batch, tables, dtype=I32), shape(batch)))


def small(name, **changes):
    return small_steps.step(name, small_steps.SMALL[name] | changes)


def num_state(fn, args):
    """How many of the arguments are state, which the step returns first."""
    look = lambda trees: [(jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]) for tree in trees]
    results, args = look(jax.eval_shape(fn, *args)), look(args)
    return next((n for n, (a, b) in enumerate(zip(results, args)) if a != b), min(len(results), len(args)))


STEPS = {  # even sizes, uneven sizes
    "gpt": (lambda: small("gpt"), lambda: small("gpt", vocab=61, batch=6, ff=60)),
    "moe": (lambda: small("moe"), lambda: small("moe", vocab=61, batch=6, ff=60)),
    "vit": (lambda: small("vit"), lambda: small("vit", classes=10, batch=6, length=9)),
    "llama_scan": (lambda: jax_models.transformer(scan=True, layers=2, d=32, heads=8, ff=64, vocab=64, batch=8, time=16),
                   lambda: jax_models.transformer(scan=True, layers=3, d=32, heads=4, ff=60, vocab=61, batch=6, time=10)),
    "resnet": (lambda: jax_models.resnet(batch=8, size=16, widths=(8, 16)),
               lambda: jax_models.resnet(batch=6, size=14, classes=7, widths=(8, 12))),
    "unet": (lambda: jax_models.unet_block(batch=4, size=8, channels=16, width=32),
             lambda: jax_models.unet_block(batch=3, size=10, channels=16, width=24)),
    "dlrm": (lambda: recommender(16, 4, 64, 16), lambda: recommender(10, 3, 50, 12)),
    "ssm": (lambda: ssm(8, 16, 16, 32), lambda: ssm(6, 13, 12, 20)),
    "lstm": (lambda: lstm(8, 8, 16, 32), lambda: lstm(6, 7, 12, 20)),
    "decode": (lambda: decode(8, 16, 32, 8, 64, 64), lambda: decode(6, 10, 24, 4, 44, 61)),
}

# By name, in sizes that can be executed here; even and uneven.
NAMED = {
    "model:mlp": ("d=32&hidden=64&batch=16", "d=30&hidden=50&batch=12"),
    "model:gpt": ("layers=1&d=32&heads=8&kv_heads=8&hidden=64&vocab=64&batch=8&length=16",
                  "layers=1&d=24&heads=4&kv_heads=4&hidden=44&vocab=61&batch=6&length=10"),
    "model:moe": ("layers=1&d=32&heads=8&kv_heads=8&hidden=64&vocab=64&batch=8&length=16&experts=8",
                  "layers=1&d=24&heads=4&kv_heads=4&hidden=44&vocab=61&batch=6&length=10"),
    "model:encoder": ("d=32&heads=8&hidden=64&batch=8&length=16", "d=24&heads=4&hidden=44&batch=6&length=10"),
    "model:resnet": ("blocks=1,1&channels=8&size=8", "blocks=1,1&channels=12&size=10&batch=6&classes=7"),
    "model:unet": ("channels=8&size=8&embedding=16", "channels=12&size=10&embedding=20&batch=3"),
}
