"""Prints the train step of a small transformer as a StableHLO module: examples/transformer.mlir.

Forward, backward and an AdamW update; two layers. Four annotations are given: the batch of tokens over
"data", and of each layer the first weights of attention and of the MLP over "model". Everything else is
left to propagation.

    python examples/transformer.py > examples/transformer.mlir
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

BATCH, SEQUENCE, VOCABULARY = 8, 32, 256
MODEL, HEADS, HIDDEN, LAYERS = 64, 4, 256, 2


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, layer):
    q, k, v = (jnp.einsum("bsm,mhd->bshd", x, layer[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (MODEL // HEADS) ** 0.5
    mask = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bqhd,hdm->bqm", jnp.einsum("bhqk,bkhd->bqhd", weights, v), layer["out"])


def mlp(x, layer):
    return jnp.einsum("bsf,fm->bsm", jax.nn.silu(jnp.einsum("bsm,mf->bsf", x, layer["up"])),
                      layer["down"])


def loss_of(params, tokens):
    x = params["embedding"][tokens[:, :-1]]
    for layer in params["layers"]:
        x = x + attention(norm(x, layer["attention_norm"]), layer)
        x = x + mlp(norm(x, layer["mlp_norm"]), layer)
    logits = jnp.einsum("bsm,vm->bsv", norm(x, params["final_norm"]), params["embedding"])
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -jnp.mean(picked)


def train_step(params, first, second, step, tokens):
    loss, grads = jax.value_and_grad(loss_of)(params, tokens)
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)

    def update(p, m, v):
        m = m / (1 - 0.9**step)
        v = v / (1 - 0.99**step)
        return p - 1e-3 * (m / (jnp.sqrt(v) + 1e-6) + 0.01 * p)

    return jax.tree.map(update, params, first, second), first, second, step, loss


def main():
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def weight(*shape, spec=None):
        sharding = NamedSharding(mesh, spec) if spec else None
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def params(annotate):
        heads = P(None, "model", None) if annotate else None
        columns = P(None, "model") if annotate else None
        layer = {
            "attention_norm": weight(MODEL),
            "query": weight(MODEL, HEADS, MODEL // HEADS, spec=heads),
            "key": weight(MODEL, HEADS, MODEL // HEADS),
            "value": weight(MODEL, HEADS, MODEL // HEADS),
            "out": weight(HEADS, MODEL // HEADS, MODEL),
            "mlp_norm": weight(MODEL),
            "up": weight(MODEL, HIDDEN, spec=columns),
            "down": weight(HIDDEN, MODEL),
        }
        return {
            "embedding": weight(VOCABULARY, MODEL),
            "final_norm": weight(MODEL),
            "layers": [dict(layer) for _ in range(LAYERS)],
        }

    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE + 1), jnp.int32,
                                  sharding=NamedSharding(mesh, P("data", None)))
    step = jax.ShapeDtypeStruct((), jnp.float32)
    lowered = jax.jit(train_step).lower(params(True), params(False), params(False), step, tokens)
    print(lowered.as_text())


if __name__ == "__main__":
    main()
