"""Train steps in plain JAX for plans on eight devices: only shapes, no parameters. Llama-like models and mixtures of
experts are those of tests/reference/train_steps.py in another size; GPT and the vision transformer are here."""

import functools
import math
import pathlib
import sys

import jax
import jax.numpy as jnp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/reference"))
import train_steps  # noqa: E402

F32, I32 = jnp.float32, jnp.int32


def shape(*sizes, dtype=F32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def layer_norm(x, gain, bias):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def block(p, x, heads, causal):
    """A layer of GPT-2 or of a vision transformer: norms before, gelu, biases."""
    b, t, d = x.shape
    y = layer_norm(x, p["g1"], p["b1"])
    q, k, v = ((y @ p[w]).reshape(b, t, heads, d // heads) for w in "qkv")
    scores = jnp.einsum("bthe,bshe->bhts", q, k) / math.sqrt(d // heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)
    x = x + jnp.einsum("bhts,bshe->bthe", jax.nn.softmax(scores, -1), v).reshape(b, t, d) @ p["o"]
    return x + jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["up"] + p["bias"]) @ p["down"]


def block_params(d, ff):
    return dict(q=shape(d, d), k=shape(d, d), v=shape(d, d), o=shape(d, d), up=shape(d, ff), down=shape(ff, d),
                bias=shape(ff), g1=shape(d), b1=shape(d), g2=shape(d), b2=shape(d))


def gpt(params, tokens, config):
    x = params["embed"][tokens[:, :-1]] + params["positions"]
    for p in params["layers"]:
        x = block(p, x, config["heads"], True)
    return train_steps.cross_entropy(layer_norm(x, params["g"], params["b"]) @ params["embed"].T, tokens[:, 1:])


def gpt_arguments(config):
    d = config["d"]
    params = dict(embed=shape(config["vocab"], d), positions=shape(config["length"], d), g=shape(d), b=shape(d),
                  layers=[block_params(d, config["ff"]) for _ in range(config["layers"])])
    return params, shape(config["batch"], config["length"] + 1, dtype=I32)


def vit(params, batch, config):
    patches, labels = batch
    x = patches @ params["patch"] + params["positions"]
    for p in params["layers"]:
        x = block(p, x, config["heads"], False)
    return train_steps.cross_entropy(layer_norm(x.mean(1), params["g"], params["b"]) @ params["head"], labels)


def vit_arguments(config):
    d, pixels = config["d"], 3 * config["patch"] ** 2
    params = dict(patch=shape(pixels, d), positions=shape(config["length"], d), g=shape(d), b=shape(d),
                  head=shape(d, config["classes"]),
                  layers=[block_params(d, config["ff"]) for _ in range(config["layers"])])
    return params, (shape(config["batch"], config["length"], pixels), shape(config["batch"], dtype=I32))


def language_arguments(config):
    params = jax.tree.map(lambda p: shape(*p.shape), train_steps.language_model_params(config))
    return params, shape(config["batch"], config["length"] + 1, dtype=I32)


KINDS = {"gpt": (gpt, gpt_arguments), "vit": (vit, vit_arguments),
         "llama": (train_steps.language_model, language_arguments),
         "moe": (train_steps.language_model, language_arguments)}

# In float32: XLA for CPUs computes and sends 16-bit floats in 32 bits, so that its bytes would not be those of a GPU.
SIZES = {
    "gpt": dict(layers=4, d=1024, heads=16, ff=4096, vocab=32768, batch=16, length=512),
    "llama": dict(layers=4, d=4096, heads=32, kv=8, ff=11264, vocab=32768, batch=8, length=256),
    "moe": dict(layers=2, d=1024, heads=16, kv=8, ff=4096, vocab=16384, experts=8, batch=8, length=512),
    "vit": dict(layers=4, d=1024, heads=16, ff=4096, patch=16, length=256, classes=1024, batch=64),
}
SMALL = {  # the same in sizes that can be executed here
    "gpt": dict(layers=1, d=32, heads=8, ff=64, vocab=64, batch=8, length=16),
    "llama": dict(layers=1, d=64, heads=8, kv=8, ff=64, vocab=64, batch=8, length=16),
    "moe": dict(layers=1, d=64, heads=8, kv=8, ff=64, vocab=64, experts=8, batch=8, length=16),
    "vit": dict(layers=1, d=32, heads=8, ff=64, patch=4, length=16, classes=16, batch=8),
}
DONATED = (0, 1, 2)


def step(name, config):
    """The function of one train step with AdamW, and its arguments."""
    loss, make_arguments = KINDS[name]
    params, batch = make_arguments(config)
    moments = jax.tree.map(lambda p: shape(*p.shape), params)
    return train_steps.adamw_step(functools.partial(loss, config=config)), (params, moments, moments, batch)
