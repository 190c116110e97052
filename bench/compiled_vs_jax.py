"""Compiled StableHLO against jax.jit of the same module, on the same cores in one run.

A transformer block (forward) and a train step of a GPT-like model (forward, backward, AdamW), on one device and on
eight virtual ones with the same shardings. Times are the best of many runs after a warm-up, processor times
the mean over them; each measurement is a process of its own, and the two take turns. Needs jax; CLEAVE_BUILD says where the programs are.

    CLEAVE_BUILD=build/release python bench/compiled_vs_jax.py [--layers 2,12] [--seconds 3]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CLEAVE_BUILD", ROOT / "build/release"))

BLOCK = dict(batch=8, sequence=128, vocabulary=512, model=256, heads=8, hidden=1024, layers=1)
STEP = dict(batch=8, sequence=128, vocabulary=1024, model=256, heads=8, hidden=1024, layers=2)


def build(kind, config, devices):
    """The jitted function, its arguments as shape structs with shardings."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    c = config
    mesh = jax.make_mesh((2, devices // 2) if devices > 1 else (1, 1), ("data", "model"),
                         axis_types=(AxisType.Auto,) * 2)

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale

    def attention(x, layer):
        q, k, v = (jnp.einsum("bsm,mhd->bshd", x, layer[name]) for name in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (c["model"] // c["heads"]) ** 0.5
        mask = jnp.tril(jnp.ones((c["sequence"], c["sequence"]), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.einsum("bqhd,hdm->bqm", jnp.einsum("bhqk,bkhd->bqhd", weights, v), layer["out"])

    def mlp(x, layer):
        return jnp.einsum("bsf,fm->bsm", jax.nn.gelu(jnp.einsum("bsm,mf->bsf", x, layer["up"])), layer["down"])

    def block(layer, x):
        x = x + attention(norm(x, layer["attention_norm"]), layer)
        return x + mlp(norm(x, layer["mlp_norm"]), layer)

    def loss_of(params, tokens):
        x = params["embedding"][tokens[:, :-1]]
        for layer in params["layers"]:
            x = block(layer, x)
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

    def tensor(*shape, spec=P(), dtype=jnp.float32):
        sharding = NamedSharding(mesh, spec) if devices > 1 else None
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    m, h, f = c["model"], c["heads"], c["hidden"]
    layer = {
        "attention_norm": tensor(m),
        "query": tensor(m, h, m // h, spec=P(None, "model", None)),
        "key": tensor(m, h, m // h, spec=P(None, "model", None)),
        "value": tensor(m, h, m // h, spec=P(None, "model", None)),
        "out": tensor(h, m // h, m, spec=P("model", None, None)),
        "mlp_norm": tensor(m),
        "up": tensor(m, f, spec=P(None, "model")),
        "down": tensor(f, m, spec=P("model", None)),
    }
    if kind == "block":
        x = tensor(c["batch"], c["sequence"], m, spec=P("data", None, None))
        return block, (layer, x)
    params = {"embedding": tensor(c["vocabulary"], m), "final_norm": tensor(m),
              "layers": [dict(layer) for _ in range(c["layers"])]}
    tokens = tensor(c["batch"], c["sequence"] + 1, spec=P("data", None), dtype=jnp.int32)
    return train_step, (params, params, params, tensor(), tokens)


def out_shardings(kind, args):
    import jax

    shardings = jax.tree.map(lambda a: a.sharding, args)
    if kind == "block":
        return shardings[1]
    return shardings[0], shardings[1], shardings[2], shardings[3], shardings[3]


def worker(task):
    """Runs in a process of its own: prints the module, or times jax.jit."""
    import time

    import jax
    import numpy as np

    function, args = build(task["kind"], task["config"], task["devices"])
    options = {}
    if task["devices"] > 1:
        options["out_shardings"] = out_shardings(task["kind"], args)
    jitted = jax.jit(function, **options)
    lowered = jitted.lower(*args)
    if task["do"] == "text":
        print(lowered.as_text())
        return
    compiled = lowered.compile()
    rng = np.random.default_rng(1)

    def array(a):
        value = np.zeros(a.shape, a.dtype) if a.dtype == np.int32 else rng.random(a.shape).astype(a.dtype)
        return jax.device_put(value, a.sharding)

    values = jax.block_until_ready(jax.tree.map(array, args))
    for _ in range(2):
        jax.block_until_ready(compiled(*values))
    times = []
    processor = time.process_time()
    end = time.perf_counter() + task["seconds"]
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*values))
        times.append(time.perf_counter() - begin)
    processor = 1e3 * (time.process_time() - processor) / len(times)
    memory = compiled.memory_analysis()
    # Of one device, as XLA plans it.
    temporary = getattr(memory, "temp_size_in_bytes", 0) if memory else 0
    peak = temporary + sum(getattr(memory, f"{kind}_size_in_bytes", 0) for kind in ("argument", "output")) if memory else 0
    print(json.dumps({"ms": 1e3 * min(times), "cpu_ms": processor, "median_ms": 1e3 * sorted(times)[len(times) // 2],
                      "temp_bytes": temporary, "peak_bytes": peak}))


def call(task, devices):
    env = dict(os.environ, JAX_PLATFORMS="cpu")
    if devices > 1:
        env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.run([sys.executable, __file__, "--worker", json.dumps(task)], env=env, check=True,
                          capture_output=True, text=True).stdout


def measure(name, kind, config, devices, seconds):
    task = dict(kind=kind, config=config, devices=devices, seconds=seconds)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(call(dict(task, do="text"), devices))
        file.flush()
        best_jax, best_cleave = None, None
        for _ in range(2):
            jax_run = json.loads(call(dict(task, do="time"), devices))
            command = [str(BUILD / "bench/bench_compiled"), file.name, "--json", "--seconds", str(seconds)]
            if devices > 1:
                command += ["--mesh", "annotations"]
            own = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if not best_jax or jax_run["ms"] < best_jax["ms"]:
                best_jax = jax_run
            if not best_cleave or own["compiled_ms"] < best_cleave["compiled_ms"]:
                best_cleave = own
    ratio = best_jax["ms"] / best_cleave["compiled_ms"]
    print(f"{name:28} {devices} device{'s' if devices > 1 else ' '}  jax {best_jax['ms']:9.3f} ms   "
          f"cleave {best_cleave['compiled_ms']:9.3f} ms   {ratio:5.2f} times as fast   "
          f"op by op {best_cleave['eager_ms']:9.3f} ms   "
          f"processor time: jax {best_jax['cpu_ms']:9.3f} ms, cleave {best_cleave['compiled_cpu_ms']:9.3f} ms   "
          f"peak memory of a device (of it temporaries): jax {best_jax['peak_bytes'] / 2**20:7.1f} MiB "
          f"({best_jax['temp_bytes'] / 2**20:.1f}), cleave {best_cleave['peak_bytes'] / 2**20:7.1f} MiB "
          f"({best_cleave['arena_bytes'] / 2**20:.1f}), op by op {best_cleave['eager_peak_bytes'] / 2**20:7.1f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker")
    parser.add_argument("--layers", default="2")
    parser.add_argument("--devices", default="1,8")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    if options.worker:
        return worker(json.loads(options.worker))
    devices = [int(d) for d in options.devices.split(",")]
    for count in devices:
        measure("transformer block, forward", "block", BLOCK, count, options.seconds)
    for layers in options.layers.split(","):
        for count in devices:
            measure(f"train step, {layers} layers", "step", dict(STEP, layers=int(layers)), count, options.seconds)


if __name__ == "__main__":
    main()
