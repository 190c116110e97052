#!/usr/bin/env python3
"""Measures what XLA's kernels take on this machine's devices, for `cleave calibrate`.

    cleave calibrate --emit jax > measure.py
    python measure.py -o measurements.json                 half a minute; needs JAX alone
    cleave calibrate --from measurements.json --base h200 --out ours.json

Kernels run inside one program, as they do in a train step: products between kernels that wait for memory. JAX's
profiler says what each took; what it does not see is measured by the clock, alone. Every row of the file is one kind
of kernel with its sizes and the microseconds that one of them takes. Rows with "check" are not used by the fit; they
show how well it predicts. With several devices, collectives are measured too.
--quick measures small sizes alone, to see that the script runs."""
import argparse
import glob
import json
import re
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
ROWS, COLLECTIVES = [], []
QUICK = False
BEGIN = time.perf_counter()


def tell(what):
    print(f"{time.perf_counter() - BEGIN:5.1f} s  {what}", file=sys.stderr)


def seconds(run, *args):
    """Of one call, by the clock."""
    jax.block_until_ready(run(*args))
    begin = time.perf_counter()
    jax.block_until_ready(run(*args))
    once = max(time.perf_counter() - begin, 1e-6)
    calls = max(1, min(50, int(0.002 / once)))
    times = []
    for _ in range(3 if QUICK else 5):
        begin = time.perf_counter()
        for _ in range(calls):
            out = run(*args)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - begin) / calls)
    return min(times)


def row(kind, dtype, us, **sizes):
    ROWS.append({"kind": kind, "dtype": dtype, **sizes, "us": round(us, 3)})
    print(f"{kind} {dtype} " + " ".join(f"{k}={v}" for k, v in sizes.items()) + f": {us:.1f} us", file=sys.stderr)


# Kernels in one program ----------------------------------------------------------------------------------------------

class Case:
    """One function and the shapes of its arguments; `kernel` says what its row has beside the time."""

    def __init__(self, kind, function, arguments, dtype, check=False, **sizes):
        self.kind, self.function, self.arguments, self.dtype = kind, function, arguments, dtype
        self.sizes = {**sizes, "check": True} if check else sizes


def make_arguments(cases):
    """Any numbers, of one array of random ones: a device takes less power, and is faster, on zeros."""
    shapes = [[(shape, dtype) for shape, dtype in case.arguments] for case in cases]
    most = max(int(np.prod(shape)) for case in shapes for shape, _ in case)
    source = jax.random.normal(jax.random.key(0), (most,), jnp.float32)
    return jax.jit(lambda source: [[lax.dynamic_slice_in_dim(source, 0, int(np.prod(shape))).reshape(shape).astype(dtype)
                                    for shape, dtype in case] for case in shapes])(source)


def program_of(cases):
    """Runs the functions one after the other: each waits for the last, and shares nothing with it."""
    def program(arguments):
        results, last = [], jnp.zeros(())
        for number, (case, own) in enumerate(zip(cases, arguments)):
            with jax.named_scope(f"case_{number}_"):
                own, _ = lax.optimization_barrier((own, last))
                last = case.function(*own)
            results.append(last)
        return results
    return program


def profiled(compiled, arguments, runs):
    """Microseconds by case, of those whose ops the profiler names."""
    case_of = {}
    for line in compiled.as_text().splitlines():
        found = re.match(r'\s*(?:ROOT )?%?([\w.\-]+) = .*op_name="[^"]*case_(\d+)_', line)
        if found:
            case_of[found[1]] = int(found[2])
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(runs):
                jax.block_until_ready(compiled(arguments))
                time.sleep(0.0 if QUICK else 0.02)
        paths = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
        data = [jax.profiler.ProfileData.from_file(path) for path in paths]
        times = {}
        for plane in [plane for each in data for plane in each.planes]:
            for line in plane.lines:
                if plane.name.startswith("/device:") and not line.name.startswith("Stream"):
                    continue  # sums of the others
                for event in line.events:
                    name = dict(event.stats).get("hlo_op")
                    if name in case_of:
                        times.setdefault(name, []).append((event.start_ns, event.duration_ns * 1e-3))
    us = {}
    for name, events in times.items():
        if len(events) % runs == 0:  # an op may be several kernels
            each = np.array([duration for _, duration in sorted(events)]).reshape(runs, -1).sum(1)
            us[case_of[name]] = us.get(case_of[name], 0) + float(np.median(each))
    return us


def compile_plain(lowered):
    """Without CUDA graphs, whose kernels the profiler does not name."""
    try:
        return lowered.compile(compiler_options={"xla_gpu_graph_min_graph_size": 1 << 20})
    except Exception:  # an XLA without that option
        return lowered.compile()


def measure(cases):
    arguments = make_arguments(cases)
    compiled = compile_plain(jax.jit(program_of(cases)).lower(arguments))
    tell(f"compiled {len(cases)} kernels")
    for _ in range(2):
        results = jax.block_until_ready(compiled(arguments))
    try:
        us = profiled(compiled, arguments, 3 if QUICK else 10)
    except Exception as error:  # a profiler that is missing, or that may not be used
        print(f"JAX's profiler does not work here ({error}); every kernel is measured alone", file=sys.stderr)
        us = {}
    tell(f"ran them; the profiler names {len(us)}")
    for number, case in enumerate(cases):
        if number not in us:
            us[number] = seconds(jax.jit(case.function), *arguments[number]) * 1e6
        sizes = dict(case.sizes)
        if case.kind not in ("product", "arithmetic"):
            out = jax.tree.leaves(results[number])
            sizes["bytes"] = sum(x.nbytes for x in list(arguments[number]) + out)
        row(case.kind, case.dtype, us[number], **sizes)


# Products ------------------------------------------------------------------------------------------------------------

def product(dtype, m, k, n, count=1, exact=False, check=False):
    """m x k by k x n, `count` at once."""
    name = SHORT[jnp.dtype(dtype).name]
    if name == "f32" and not exact and jax.devices()[0].platform == "gpu":
        name = "tf32"  # what XLA makes of products of f32 unless the program forbids it
    shapes = ((count, m, k), (count, k, n)) if count > 1 else ((m, k), (k, n))
    precision = "highest" if exact else None
    return Case("product", lambda a, b: jnp.matmul(a, b, precision=precision), [(shape, dtype) for shape in shapes], name,
                check, count=count, m=m, k=k, n=n)


def products():
    bf16, f32 = jnp.bfloat16, jnp.float32
    if QUICK:
        return [product(dtype, n, n, n, check=n == 128) for dtype in (bf16, f32) for n in (64, 128, 256)]
    cases = [product(bf16, m, k, n) for m, k, n in (
        (256, 1024, 1024), (128, 4096, 4096), (512, 4096, 512), (8192, 768, 768), (8192, 768, 3072), (768, 8192, 3072),
        (4096, 2048, 8192), (4096, 4096, 4096), (8192, 8192, 4096), (8192, 768, 50304), (4096, 4096, 4095))]
    cases += [product(bf16, 1024, 64, 1024, 96), product(bf16, 2048, 2048, 128, 32)]
    cases += [product(bf16, m, k, n, check=True) for m, k, n in (
        (1024, 1024, 1024), (8192, 3072, 768), (1024, 8192, 1024), (4096, 4096, 14336))]
    cases += [product(bf16, 1024, 1024, 64, 96, check=True)]
    cases += [product(f32, 2048, 2048, 2048), product(f32, 8192, 768, 3072), product(f32, 4096, 4096, 4096, check=True)]
    cases += [product(f32, 2048, 2048, 2048, exact=True)]
    return cases


def convolve(stride):
    return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolution(images, size, channels, features, window=3, stride=1, of="result", check=False):
    """The result, or one of the gradients, as a product: pixels, what each is made of, features."""
    x, w = (images, size, size, channels), (window, window, channels, features)
    y = (images, size // stride, size // stride, features)
    forward = convolve(stride)
    bf16 = jnp.bfloat16
    if of == "result":
        function, shapes = forward, (x, w)
        m, k, n = y[0] * y[1] * y[2], window * window * channels, features
    elif of == "input":
        function = lambda g, w: jax.linear_transpose(lambda x: forward(x, w), jax.ShapeDtypeStruct(x, bf16))(g)[0]
        shapes = (y, w)
        m, k, n = images * size * size, window * window * features // (stride * stride), channels
    else:
        function = lambda g, v: jax.linear_transpose(lambda w: forward(v, w), jax.ShapeDtypeStruct(w, bf16))(g)[0]
        shapes = (y, x)
        m, k, n = window * window * channels, y[0] * y[1] * y[2], features
    return Case("convolution", function, [(shape, bf16) for shape in shapes], "bf16", check, count=1, m=m, k=k, n=n,
                channels=min(channels, features) if of == "result" else n)


def convolutions():
    if QUICK:
        return [convolution(2, 8, 8, 8, of=of) for of in ("result", "input", "kernel")]
    return [convolution(64, 56, 64, 64), convolution(64, 14, 256, 256), convolution(64, 28, 512, 128, window=1),
            convolution(64, 28, 128, 128, of="input"), convolution(64, 28, 128, 128, of="kernel"),
            convolution(64, 28, 128, 128, check=True), convolution(64, 7, 512, 512, check=True),
            convolution(64, 14, 256, 256, of="kernel", check=True)]


# Fused kernels: one pass over memory ---------------------------------------------------------------------------------

def moved(kind, function, shapes, dtype, check=False):
    """A kernel by the bytes that enter and leave it."""
    return Case(kind, function, [(shape, dtype) for shape in shapes], SHORT[jnp.dtype(dtype).name], check)


def adamw(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 1e-3 * m / (jnp.sqrt(jnp.abs(v)) + 1e-8), m, v


def softmax(x):
    return jax.nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype)


def rms_norm(x):
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt(jnp.mean(jnp.square(y), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def over(dim):
    return lambda x: jnp.sum(x.astype(jnp.float32), dim)


def kernels():
    f32, bf16 = jnp.float32, jnp.bfloat16
    n = 2**12 if QUICK else 2**25
    cases = [moved("elementwise", lambda a, b: a + b, [(n,)] * 2, f32),
             moved("elementwise", lambda a, b, c: jnp.tanh(a + b) * c, [(n,)] * 3, bf16),
             moved("elementwise", adamw, [(n,)] * 4, f32),
             moved("elementwise", lambda a, b: a + b, [(2 * n,)] * 2, bf16, check=True),
             moved("elementwise", lambda a, b: jax.nn.silu(a) * b, [(2 * n,)] * 2, bf16, check=True)]
    for rows, columns in ((64, 64), (128, 32)) if QUICK else ((65536, 1024), (8192, 4096)):
        check = rows in (128, 8192)
        cases += [moved("reduction", over(0), [(rows, columns)], f32, check),
                  moved("reduction", over(0), [(rows, columns)], bf16, check),
                  moved("reduction", over(-1), [(rows, columns)], bf16, check),
                  moved("rows", softmax, [(rows, columns)], bf16, check),
                  moved("rows", softmax, [(rows, columns)], f32, check),
                  moved("rows", rms_norm, [(rows, columns)], bf16, check)]
    for shape, order in (((16, 8, 4, 8), (0, 2, 1, 3)),) if QUICK else (
            ((32, 1024, 16, 64), (0, 2, 1, 3)), ((8192, 8192), (1, 0))):
        cases.append(moved("transpose", lambda x, order=order: jnp.transpose(x, order), [shape], bf16))
    # Rows of 8 bytes, such as those of four heads in a group; longer ones take less.
    rows = 256 if QUICK else 2**23
    cases += [moved("strided", lambda x: x.T, [(rows, 4)], bf16),
              moved("strided", lambda x: x.T, [(rows, 4)], f32, check=True)]
    return cases


def arithmetic():
    """So many ops on each element that memory does not matter; nine in a gelu."""
    def many(x):
        for _ in range(16):
            x = x * 0.5 * (1 + jnp.tanh(0.79788 * (x + 0.044715 * (x * x * x))))
        return x

    n = 2**12 if QUICK else 2**23
    return [Case("arithmetic", many, [((n,), jnp.float32)], "f32", ops=16 * 9 * n)]


def by_turns(products, others):
    """Products between the others, as in a step: a device that computes all the time takes more power than it may."""
    cases, every = [], max(1, len(others) // max(1, len(products)))
    while products or others:
        cases += products[:1] + others[:every]
        products, others = products[1:], others[every:]
    return cases


# Beside kernels ------------------------------------------------------------------------------------------------------

def launches():
    """What a small kernel adds to a program: many that cannot become one, since each needs sums over all rows that the
    last one left. Products come first, so that the host is ahead of the device."""
    def chain(links):
        def run(x, a):
            a = a @ a @ a
            x, a = lax.optimization_barrier((x, a))
            for _ in range(links):
                x = x * 0.5 + jnp.sum(x, 0) * 0.01
            return x, a
        return run

    size = 64 if QUICK else 4096
    x, a = jnp.ones((64, 64)), jnp.full((size, size), 1e-3, jnp.bfloat16)
    runs = [jax.jit(chain(links)).lower(x, a).compile() for links in ((2, 66) if QUICK else (8, 72))]
    counts = [run.as_text().count(" fusion(") for run in runs]
    times = [[], []]
    for _ in range(40):
        for run, own in zip(runs, times):
            begin = time.perf_counter()
            jax.block_until_ready(run(x, a))
            own.append(time.perf_counter() - begin)
    more, kernels = min(times[1]) - min(times[0]), counts[1] - counts[0]
    if kernels > 0 and more > 0:
        row("launch", "f32", more * 1e6, kernels=kernels)


def arguments():
    """What the host takes to start a program, by the number of its arguments and results. They are donated, so that the
    device has next to nothing to do."""
    for count in (8, 64) if QUICK else (8, 256):
        xs = [jnp.ones((8,)) for _ in range(count)]
        run = jax.jit(lambda xs: [xs[0] + 1, *lax.optimization_barrier(xs[1:])], donate_argnums=0)
        times = []
        for _ in range(15):
            begin = time.perf_counter()
            for _ in range(10):
                xs = run(xs)
            jax.block_until_ready(xs)
            times.append((time.perf_counter() - begin) / 10)
        row("arguments", "f32", min(times) * 1e6, count=count)


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
    device = jax.devices()[0]
    tell(f"found {device.device_kind}")
    measure(by_turns(products() + convolutions(), kernels() + arithmetic()))
    launches()
    arguments()
    tell("measured what the host does")
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
    print(f"{len(ROWS)} kernels and {len(COLLECTIVES)} collectives in {time.perf_counter() - BEGIN:.0f} s: wrote "
          f"{options.out}; now cleave calibrate --from {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
