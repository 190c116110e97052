"""Train steps to plan for, as StableHLO text, without a byte of memory for their weights.

    python examples/plan_models.py llama --layers 32 > llama.mlir
    python examples/plan_models.py moe --layers 60 > moe.mlir
    cleave plan llama.mlir --mesh data=8,model=8 --machine h100 --memory 80GiB

A dense decoder of the size of Llama 3 8B, and a mixture of experts in which every expert chooses
its tokens; both with AdamW, unrolled, with donated state. Weights and moments are f32, matmuls
bf16.
"""

import argparse

import jax
import jax.numpy as jnp


def norm(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-5)
    return (y * scale).astype(jnp.bfloat16)


def rotate(x, positions):
    half = x.shape[-1] // 2
    angle = positions[:, None] * (500000.0 ** (-jnp.arange(half) / half))
    cos, sin = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(jnp.bfloat16)


def attention(x, w, positions):
    q = rotate(jnp.einsum("bsm,mhd->bshd", x, w["q"].astype(jnp.bfloat16)), positions)
    k = rotate(jnp.einsum("bsm,mgd->bsgd", x, w["k"].astype(jnp.bfloat16)), positions)
    v = jnp.einsum("bsm,mgd->bsgd", x, w["v"].astype(jnp.bfloat16))
    groups = w["k"].shape[1]
    q = q.reshape(*q.shape[:2], groups, q.shape[2] // groups, q.shape[3])
    scores = jnp.einsum("bqgrd,bkgd->bgrqk", q, k).astype(jnp.float32) * (q.shape[-1] ** -0.5)
    mask = positions[:, None] >= positions[None, :]
    scores = jnp.where(mask[None, None, None], scores, -1e30)
    weights = jax.nn.softmax(scores, axis=-1).astype(jnp.bfloat16)
    out = jnp.einsum("bgrqk,bkgd->bqgrd", weights, v)
    return jnp.einsum("bqgrd,grdm->bqm", out, w["o"].astype(jnp.bfloat16))


def dense(x, w):
    gate = jnp.einsum("bsm,mf->bsf", x, w["gate"].astype(jnp.bfloat16))
    up = jnp.einsum("bsm,mf->bsf", x, w["up"].astype(jnp.bfloat16))
    return jnp.einsum("bsf,fm->bsm", jax.nn.silu(gate) * up, w["down"].astype(jnp.bfloat16))


def experts(x, w):
    probs = jax.nn.softmax(jnp.einsum("bsm,me->bes", x, w["router"].astype(jnp.bfloat16))
                           .astype(jnp.float32), axis=1)
    capacity = 2 * x.shape[1] // w["gate"].shape[0]
    scores, chosen = jax.lax.top_k(probs, capacity)
    pick = jax.nn.one_hot(chosen, x.shape[1], dtype=jnp.bfloat16)
    tokens = jnp.einsum("becs,bsm->becm", pick, x)
    gate = jnp.einsum("becm,emf->becf", tokens, w["gate"].astype(jnp.bfloat16))
    up = jnp.einsum("becm,emf->becf", tokens, w["up"].astype(jnp.bfloat16))
    out = jnp.einsum("becf,efm->becm", jax.nn.silu(gate) * up, w["down"].astype(jnp.bfloat16))
    out = out * scores[..., None].astype(jnp.bfloat16)
    return jnp.einsum("becs,becm->bsm", pick, out)


def make(args):
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    m, h, g = args.model, args.heads, args.groups
    d = m // h
    layer = {"attention_norm": f32(m), "mlp_norm": f32(m), "q": f32(m, h, d), "k": f32(m, g, d),
             "v": f32(m, g, d), "o": f32(g, h // g, d, m)}
    if args.experts:
        layer |= {"router": f32(m, args.experts), "gate": f32(args.experts, m, args.hidden),
                  "up": f32(args.experts, m, args.hidden), "down": f32(args.experts, args.hidden, m)}
    else:
        layer |= {"gate": f32(m, args.hidden), "up": f32(m, args.hidden), "down": f32(args.hidden, m)}
    return {"embedding": f32(args.vocabulary, m), "final_norm": f32(m), "head": f32(m, args.vocabulary),
            "layers": [dict(layer) for _ in range(args.layers)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["llama", "moe"])
    for name in ("layers", "batch", "sequence", "model", "heads", "groups", "hidden", "vocabulary",
                 "experts"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--remat", action="store_true")
    args = parser.parse_args()
    sizes = {"llama": dict(layers=32, batch=64, sequence=2048, model=4096, heads=32, groups=8,
                           hidden=14336, vocabulary=128256, experts=0),
             "moe": dict(layers=60, batch=64, sequence=1024, model=2048, heads=16, groups=16,
                         hidden=1408, vocabulary=102400, experts=64)}[args.kind]
    for name, value in sizes.items():
        if getattr(args, name) is None:
            setattr(args, name, value)

    def block(x, w, positions):
        x = x + attention(norm(x, w["attention_norm"]), w, positions)
        y = norm(x, w["mlp_norm"])
        return x + (experts(y, w) if args.experts else dense(y, w))

    def loss_of(params, tokens):
        positions = jnp.arange(args.sequence, dtype=jnp.float32)
        x = params["embedding"].astype(jnp.bfloat16)[tokens[:, :-1]]
        step = jax.checkpoint(block) if args.remat else block
        for w in params["layers"]:
            x = step(x, w, positions)
        logits = jnp.einsum("bsm,mv->bsv", norm(x, params["final_norm"]),
                            params["head"].astype(jnp.bfloat16)).astype(jnp.float32)
        target = jax.nn.one_hot(tokens[:, 1:], args.vocabulary, dtype=jnp.float32)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * target, axis=-1))

    def train_step(params, first, second, count, tokens):
        loss, grads = jax.value_and_grad(loss_of)(params, tokens)
        count = count + 1

        def update(p, m, v, g):
            m = 0.9 * m + 0.1 * g
            v = 0.95 * v + 0.05 * g * g
            step = (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.95**count)) + 1e-8)
            return p - 3e-4 * (step + 0.1 * p), m, v

        leaves, tree = jax.tree.flatten(params)
        new = [update(p, m, v, g) for p, m, v, g in
               zip(leaves, jax.tree.leaves(first), jax.tree.leaves(second), jax.tree.leaves(grads))]
        state = [jax.tree.unflatten(tree, [n[i] for n in new]) for i in range(3)]
        return *state, count, loss

    params = make(args)
    tokens = jax.ShapeDtypeStruct((args.batch, args.sequence + 1), jnp.int32)
    count = jax.ShapeDtypeStruct((), jnp.float32)
    lowered = jax.jit(train_step, donate_argnums=(0, 1, 2, 3)).lower(params, params, params, count, tokens)
    print(lowered.as_text())


if __name__ == "__main__":
    main()
