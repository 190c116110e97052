#!/usr/bin/env python3
"""Measures what XLA's kernels take on this machine's devices, for `cleave calibrate`.

    cleave calibrate --emit jax > measure.py
    python measure.py -o measurements.json                 about a minute; needs JAX alone
    cleave calibrate --from measurements.json --base h200 --out ours.json

Every row of the file is one kind of kernel with its sizes and the microseconds that one of them takes. Rows with
"check" are not used by the fit; they show how well it predicts. With several devices, collectives are measured too.
--quick measures small sizes alone, to see that the script runs."""
import argparse
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
ROWS, COLLECTIVES = [], []
QUICK = False


def seconds(run, *args):
    """Of one call. Short bursts with rests between them: a device that computes without a pause gets hot and slow."""
    jax.block_until_ready(run(*args))
    jax.block_until_ready(run(*args))
    begin = time.perf_counter()
    jax.block_until_ready(run(*args))
    once = max(time.perf_counter() - begin, 1e-6)
    calls = max(1, min(50, int((0.002 if QUICK else 0.004) / once)))
    times = []
    for _ in range(3 if QUICK else 5):
        time.sleep(0.0 if QUICK else 0.01)
        begin = time.perf_counter()
        for _ in range(calls):
            out = run(*args)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - begin) / calls)
    return min(times)


def row(kind, dtype, us, **sizes):
    ROWS.append({"kind": kind, "dtype": dtype, **sizes, "us": round(us, 3)})
    print(f"{kind} {dtype} " + " ".join(f"{k}={v}" for k, v in sizes.items()) + f": {us:.1f} us", file=sys.stderr)


def filled(shape, dtype, seed=0):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32).astype(dtype)


# Products ------------------------------------------------------------------------------------------------------------

def product(dtype, m, k, n, count=1, exact=False, check=False):
    """m x k by k x n, `count` at once. Small ones are repeated inside one program: calls take longer than they do."""
    one = 2.0 * count * m * k * n
    repeats = 1 if QUICK else int(max(1, min(32, 2e11 / one)))
    shapes = ((count, m, k), (count, k, n)) if count > 1 else ((m, k), (k, n))
    pairs = [(filled(shapes[0], dtype, i), filled(shapes[1], dtype, i + 100)) for i in range(repeats)]
    precision = "highest" if exact else None
    run = jax.jit(lambda pairs: [jnp.matmul(a, b, precision=precision) for a, b in pairs])
    name = SHORT[jnp.dtype(dtype).name]
    if name == "f32" and not exact and jax.devices()[0].platform == "gpu":
        name = "tf32"  # what XLA makes of products of f32 unless the program forbids it
    sizes = {"count": count, "m": m, "k": k, "n": n}
    if check:
        sizes["check"] = True
    row("product", name, seconds(run, pairs) / repeats * 1e6, **sizes)


def products():
    bf16, f32 = jnp.bfloat16, jnp.float32
    if QUICK:
        for n in (64, 128, 256):
            product(f32, n, n, n)
            product(bf16, n, n, n, check=n == 128)
        return
    for m, k, n in ((64, 64, 64), (256, 1024, 1024), (512, 4096, 512), (128, 4096, 4096), (1024, 1024, 4096),
                    (8192, 768, 768), (2048, 4096, 1024), (8192, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192)):
        product(bf16, m, k, n)
    for m, k, n in ((512, 512, 512), (8192, 768, 3072), (1024, 8192, 1024), (4096, 4096, 14336)):
        product(bf16, m, k, n, check=True)
    product(bf16, 1024, 64, 1024, count=96)
    product(bf16, 2048, 2048, 128, count=32)
    product(bf16, 512, 64, 512, count=128, check=True)
    product(bf16, 4096, 4096, 4095)
    for n in (1024, 2048, 4096):
        product(f32, n, n, n)
    product(f32, 8192, 768, 3072, check=True)
    for n in (512, 2048, 4096):
        product(f32, n, n, n, exact=True)


def convolutions():
    def convolve(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    sizes = ((2, 8, 8, 8),) if QUICK else ((64, 56, 64, 64), (64, 28, 128, 128), (64, 14, 256, 256), (64, 7, 512, 512))
    for images, size, channels, features in sizes:
        x = filled((images, size, size, channels), jnp.bfloat16)
        w = filled((3, 3, channels, features), jnp.bfloat16)
        us = seconds(jax.jit(convolve), x, w) * 1e6
        row("convolution", "bf16", us, count=1, m=images * size * size, k=9 * channels, n=features,
            bytes=2 * (x.size + w.size + images * size * size * features))


# Fused kernels: one pass over memory ---------------------------------------------------------------------------------

def moved(kind, function, arguments, check=False):
    """A kernel by the bytes that enter and leave it."""
    run = jax.jit(function)
    out = jax.tree.leaves(run(*arguments))
    bytes_moved = sum(x.nbytes for x in list(arguments) + out)
    sizes = {"bytes": bytes_moved}
    if check:
        sizes["check"] = True
    row(kind, SHORT[jnp.dtype(arguments[0].dtype).name], seconds(run, *arguments) * 1e6, **sizes)


def adamw(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def softmax(x):
    return jax.nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype)


def rms_norm(x):
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt(jnp.mean(jnp.square(y), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def kernels():
    f32, bf16 = jnp.float32, jnp.bfloat16
    for dtype in (f32, bf16):
        for n in (2**12, 2**14) if QUICK else (2**24, 2**26):
            a, b, c = (filled((n,), dtype, i) for i in range(3))
            moved("elementwise", lambda a, b: a + b, (a, b))
            moved("elementwise", lambda a, b, c: jnp.tanh(a + b) * c, (a, b, c), check=True)
    n = 2**12 if QUICK else 2**26
    moved("elementwise", adamw, tuple(jnp.abs(filled((n,), f32, i)) for i in range(4)), check=True)
    for rows, columns in ((64, 64), (128, 32)) if QUICK else ((98304, 1024), (16384, 8192), (8192, 4096)):
        check = rows == 16384
        for dtype in (f32, bf16):
            x = filled((rows, columns), dtype)
            moved("reduction", lambda x: jnp.sum(x.astype(f32), 0), (x,), check)
            moved("reduction", lambda x: jnp.sum(x.astype(f32), -1), (x,), check)
            moved("rows", softmax, (x,), check)
            moved("rows", rms_norm, (x,), check)
    for shape, order in (((16, 8, 4, 8), (0, 2, 1, 3)),) if QUICK else (
            ((32, 1024, 16, 64), (0, 2, 1, 3)), ((8192, 8192), (1, 0))):
        moved("transpose", lambda x: jnp.transpose(x, order), (filled(shape, bf16),))
    for rows, columns in ((256, 8),) if QUICK else ((2**23, 8), (2**24, 4)):
        moved("strided", lambda x: x.T, (filled((rows, columns), f32),), check=columns == 4)


def arithmetic():
    """So many ops on each element that memory does not matter; nine in a gelu."""
    def many(x):
        for _ in range(24):
            x = x * 0.5 * (1 + jnp.tanh(0.79788 * (x + 0.044715 * (x * x * x))))
        return x

    n = 2**12 if QUICK else 2**24
    row("arithmetic", "f32", seconds(jax.jit(many), filled((n,), jnp.float32)) * 1e6, ops=24 * 9 * n)


def launches():
    """Many small kernels that cannot become one: each needs sums over all rows that the last one left."""
    links = 4 if QUICK else 64

    def chain(x):
        for _ in range(links):
            x = x * 0.5 + jnp.sum(x, 0) * 0.01
        return x

    run = jax.jit(chain).lower(filled((64, 64), jnp.float32)).compile()
    count = run.as_text().count(" fusion(")
    row("launch", "f32", seconds(run, filled((64, 64), jnp.float32)) * 1e6, kernels=max(count, 1))


def arguments():
    """What the host takes to start a program, by the number of its arguments and results."""
    for count in (8, 64) if QUICK else (8, 128, 512):
        xs = [filled((8,), jnp.float32, 0) + i for i in range(count)]
        run = jax.jit(lambda xs: [x + 1 for x in xs])
        row("arguments", "f32", seconds(run, xs) * 1e6, count=count)


# Collectives ---------------------------------------------------------------------------------------------------------

def chained(kind, ranks, links):
    """`links` collectives, each on what the last one left."""
    def run(x):
        for _ in range(links):
            if kind == "all_reduce":
                x = lax.psum(x, "d") * (1.0 / ranks)
            elif kind == "all_gather":
                x = x + lax.all_gather(x, "d", tiled=True)[: x.shape[0]]
            elif kind == "reduce_scatter":
                x = lax.dynamic_update_slice(x, lax.psum_scatter(x, "d", tiled=True) * (1.0 / ranks), (0,))
            elif kind == "all_to_all":
                x = lax.all_to_all(x.reshape(ranks, -1), "d", 0, 0).reshape(-1)
            else:
                x = lax.ppermute(x, "d", [(i, (i + 1) % ranks) for i in range(ranks)])
        return x
    return run


def collectives():
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    links = 2 if QUICK else 8
    devices = jax.local_devices()
    for ranks in sorted({2, len(devices)}):
        mesh = Mesh(np.array(devices[:ranks]), ("d",))
        for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"):
            for size in (2**12, 2**14) if QUICK else (2**16, 2**20, 2**23, 2**26, 2**28):
                # `size` is the larger side of a device's buffer, in bytes.
                own = size // 4 // ranks if kind == "all_gather" else size // 4
                x = jax.device_put(jnp.ones((own * ranks,), jnp.float32), NamedSharding(mesh, PartitionSpec("d")))
                spec = PartitionSpec("d")
                run = jax.jit(jax.shard_map(chained(kind, ranks, links), mesh=mesh, in_specs=spec, out_specs=spec,
                                            check_vma=False))
                us = seconds(run, x) / links * 1e6
                COLLECTIVES.append({"kind": kind, "ranks": ranks, "bytes": size, "us": round(us, 3)})
                print(f"{kind} over {ranks}, {size} bytes: {us:.1f} us", file=sys.stderr)


def main():
    global QUICK
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--out", default="measurements.json", help="where to write the measurements")
    parser.add_argument("--quick", action="store_true", help="small sizes alone, to see that the script runs")
    options = parser.parse_args()
    QUICK = options.quick
    begin = time.perf_counter()
    device = jax.devices()[0]
    for measure in (products, convolutions, kernels, arithmetic, launches, arguments):
        measure()
    if len(jax.local_devices()) > 1:
        collectives()
    result = {
        "format": "cleave-measurements", "version": 1, "framework": "jax", "framework_version": jax.__version__,
        "device": device.device_kind, "devices": len(jax.local_devices()),
        "units": int(getattr(device, "core_count", 0) or 0),
        "executor": "xla-tpu" if device.platform == "tpu" else "xla-gpu",
        "kernels": ROWS, "collectives": COLLECTIVES,
    }
    with open(options.out, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print(f"{len(ROWS)} kernels and {len(COLLECTIVES)} collectives in {time.perf_counter() - begin:.0f} s: wrote "
          f"{options.out}; now cleave calibrate --from {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
