"""The same real modules through Cleave's propagation pipeline and through Shardy's inside jaxlib, in one run.

Prints the time of each and their ratio. Both start from a parsed module; processor time, the best of several runs.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "reference"))

BUILD = os.environ.get("CLEAVE_BUILD", "build/release")


def transformer(layers):
    """value_and_grad of a transformer with unrolled layers, data and tensor parallel."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    width, heads, hidden, vocabulary, batch, length = 256, 8, 1024, 512, 8, 64

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def layer(x, p):
        h = norm(x, p["n1"])
        q, k, v = (jnp.einsum("bld,dhk->bhlk", h, p[n]) for n in ("q", "k", "v"))
        scores = jnp.einsum("bhlk,bhmk->bhlm", q, k) / (width // heads) ** 0.5
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + jnp.einsum("bhlm,bhmk,hkd->bld", weights, v, p["o"])
        h = norm(x, p["n2"])
        return x + jax.nn.gelu(h @ p["up"]) @ p["down"]

    def loss(params, tokens):
        x = params["embed"][tokens]
        for p in params["layers"]:
            x = layer(x, p)
        logits = x @ params["embed"].T
        targets = jnp.roll(tokens, -1, 1)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1))

    def shaped(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    head = (width, heads, width // heads)
    one = {
        "n1": shaped((width,)), "n2": shaped((width,)),
        "q": shaped(head, None, "model", None), "k": shaped(head, None, "model", None),
        "v": shaped(head, None, "model", None), "o": shaped((heads, width // heads, width), "model", None, None),
        "up": shaped((width, hidden), None, "model"), "down": shaped((hidden, width), "model", None),
    }
    params = {"embed": shaped((vocabulary, width)), "layers": [dict(one) for _ in range(layers)]}
    tokens = shaped((batch, length), "data", None, dtype=jnp.int32)
    return jax.jit(jax.value_and_grad(loss)).lower(params, tokens).as_text()


def shardy_seconds(text, repetitions=5):
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir, passmanager

    best = float("inf")
    with mlir.make_ir_context():
        for _ in range(repetitions):
            module = ir.Module.parse(text)
            passes = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
            begin = time.process_time()
            passes.run(module.operation)
            best = min(best, time.process_time() - begin)
    return best


def cleave_seconds(text):
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        run = subprocess.run([f"{BUILD}/bench/bench_propagation", file.name], capture_output=True, text=True, check=True)
    ops = int(re.search(r"ops (\d+)", run.stdout).group(1))
    return ops, float(re.search(r"pipeline ([\d.]+) ms", run.stdout).group(1)) / 1e3


def main():
    print(f"{'module':28} {'ops':>7} {'Shardy':>11} {'Cleave':>11} {'us/op':>7} {'ratio':>8}")
    for layers in (4, 12, 32):
        text = transformer(layers)
        ops, ours = cleave_seconds(text)
        theirs = shardy_seconds(text)
        print(f"transformer, {layers:2} layers, grad {'':1} {ops:7} {theirs * 1e3:8.2f} ms {ours * 1e3:8.2f} ms "
              f"{ours / ops * 1e6:7.2f} {theirs / ours:7.1f}x")


if __name__ == "__main__":
    main()
