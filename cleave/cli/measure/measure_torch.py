#!/usr/bin/env python3
"""Measures what PyTorch's kernels take on this machine's devices, for `cleave calibrate`.

    cleave calibrate --emit torch > measure.py
    python measure.py -o measurements.json                 about a minute; needs PyTorch alone
    cleave calibrate --from measurements.json --base h200 --out ours.json

Fused kernels are those of torch.compile; with --eager, none are fused and the profile's executor is `eager`.
Every row of the file is one kind of kernel with its sizes and the microseconds that one of them takes. Rows with
"check" are not used by the fit; they show how well it predicts. With several devices, collectives are measured too.
--quick measures small sizes alone, uncompiled, to see that the script runs."""
import argparse
import json
import os
import sys
import time

import torch

SHORT = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.float64: "f64"}
ROWS = []
QUICK = EAGER = False
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def repeated(run, times):
    """A function that does `run` so often; as a CUDA graph, so that the host does not count."""
    def plain():
        for _ in range(times):
            run()

    if DEVICE != "cuda":
        return plain
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plain()
    return graph.replay


def seconds(run):
    """Of one call. Short bursts with rests between them: a device that computes without a pause gets hot and slow."""
    for _ in range(3):
        run()
    wait()
    begin = time.perf_counter()
    run()
    wait()
    once = max(time.perf_counter() - begin, 1e-6)
    calls = max(1, min(50, int((0.002 if QUICK else 0.004) / once)))
    burst = repeated(run, calls)
    burst()
    wait()
    times = []
    for _ in range(3 if QUICK else 5):
        time.sleep(0.0 if QUICK else 0.01)
        begin = time.perf_counter()
        burst()
        wait()
        times.append((time.perf_counter() - begin) / calls)
    return min(times)


def row(kind, dtype, us, **sizes):
    ROWS.append({"kind": kind, "dtype": dtype, **sizes, "us": round(us, 3)})
    print(f"{kind} {dtype} " + " ".join(f"{k}={v}" for k, v in sizes.items()) + f": {us:.1f} us", file=sys.stderr)


def filled(shape, dtype):
    return torch.randn(shape, device=DEVICE).to(dtype)


# Products ------------------------------------------------------------------------------------------------------------

def product(dtype, m, k, n, count=1, tf32=False, check=False):
    """m x k by k x n, `count` at once."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = filled((count, m, k) if count > 1 else (m, k), dtype)
    b = filled((count, k, n) if count > 1 else (k, n), dtype)
    us = seconds(lambda: torch.matmul(a, b)) * 1e6
    sizes = {"count": count, "m": m, "k": k, "n": n}
    if check:
        sizes["check"] = True
    row("product", "tf32" if tf32 else SHORT[dtype], us, **sizes)


def products():
    bf16, f32 = torch.bfloat16, torch.float32
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
    if DEVICE == "cuda":
        for n in (1024, 2048, 4096):
            product(f32, n, n, n, tf32=True)
        product(f32, 8192, 768, 3072, tf32=True, check=True)
    for n in (512, 2048, 4096):
        product(f32, n, n, n)


def convolutions():
    sizes = ((2, 8, 8, 8),) if QUICK else ((64, 56, 64, 64), (64, 28, 128, 128), (64, 14, 256, 256), (64, 7, 512, 512))
    torch.backends.cudnn.benchmark = True
    for images, size, channels, features in sizes:
        x = filled((images, channels, size, size), torch.bfloat16).to(memory_format=torch.channels_last)
        w = filled((features, channels, 3, 3), torch.bfloat16).to(memory_format=torch.channels_last)
        us = seconds(lambda: torch.nn.functional.conv2d(x, w, padding=1)) * 1e6
        row("convolution", "bf16", us, count=1, m=images * size * size, k=9 * channels, n=features,
            bytes=2 * (x.numel() + w.numel() + images * size * size * features))


# Fused kernels: one pass over memory ---------------------------------------------------------------------------------

def moved(kind, function, arguments, check=False, fused=True):
    """A kernel by the bytes that enter and leave it; `fused`: it is one only if something fuses it."""
    if fused and EAGER:
        return
    run = torch.compile(function) if fused and not QUICK else function
    out = run(*arguments)
    out = out if isinstance(out, tuple) else (out,)
    sizes = {"bytes": sum(x.numel() * x.element_size() for x in tuple(arguments) + out)}
    if check:
        sizes["check"] = True
    row(kind, SHORT[arguments[0].dtype], seconds(lambda: run(*arguments)) * 1e6, **sizes)


def adamw(p, m, v, g):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 1e-3 * m / (torch.sqrt(v) + 1e-8), m, v


def scaled_tanh(a, b, c):
    return torch.tanh(a + b) * c


def rms_norm(x):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def kernels():
    f32, bf16 = torch.float32, torch.bfloat16
    for dtype in (f32, bf16):
        for n in (2**12, 2**14) if QUICK else (2**24, 2**26):
            a, b, c = (filled((n,), dtype) for _ in range(3))
            moved("elementwise", torch.add, (a, b), fused=False)
            if n == 2**26 or QUICK:
                moved("elementwise", scaled_tanh, (a, b, c), check=True)
    n = 2**12 if QUICK else 2**26
    moved("elementwise", adamw, tuple(filled((n,), f32).abs() for _ in range(4)), check=True)
    for rows, columns in ((64, 64), (128, 32)) if QUICK else ((98304, 1024), (16384, 8192), (8192, 4096)):
        check = rows == 16384
        for dtype in (f32, bf16):
            x = filled((rows, columns), dtype)
            moved("reduction", lambda x: torch.sum(x, 0), (x,), check, fused=False)
            moved("reduction", lambda x: torch.sum(x, -1), (x,), check, fused=False)
            moved("rows", lambda x: torch.softmax(x, -1), (x,), check, fused=False)
        moved("rows", rms_norm, (filled((rows, columns), bf16),), check)
    for shape, order in (((16, 8, 4, 8), (0, 2, 1, 3)),) if QUICK else (
            ((32, 1024, 16, 64), (0, 2, 1, 3)), ((8192, 8192), (1, 0))):
        x = filled(shape, bf16)
        moved("transpose", lambda x: x.permute(order).contiguous(), (x,), fused=False)
    for rows, columns in ((256, 8),) if QUICK else ((2**23, 8), (2**24, 4)):
        moved("strided", lambda x: x.T.contiguous(), (filled((rows, columns), f32),), columns == 4, fused=False)


def gelus(x):
    for _ in range(24):
        x = x * 0.5 * (1 + torch.tanh(0.79788 * (x + 0.044715 * (x * x * x))))
    return x


def arithmetic():
    """So many ops on each element that memory does not matter; nine in a gelu. Fused ones alone can show it."""
    if EAGER:
        return
    n = 2**12 if QUICK else 2**24
    x = filled((n,), torch.float32)
    run = gelus if QUICK else torch.compile(gelus)
    row("arithmetic", "f32", seconds(lambda: run(x)) * 1e6, ops=24 * 9 * n)


def launches():
    """Many small kernels, one after the other."""
    links = 4 if QUICK else 64
    x = filled((64, 64), torch.float32)

    def chain():
        for _ in range(links):
            torch.add(x, 1.0, out=x)

    row("launch", "f32", seconds(chain) * 1e6, kernels=links)


# Collectives ---------------------------------------------------------------------------------------------------------

def one_collective(kind, ranks, size, rank):
    """A function that runs one of them; `size` is the larger side of a device's buffer, in bytes."""
    import torch.distributed as dist
    n = size // 4
    whole = torch.ones(n, device=DEVICE)
    part = torch.ones(n // ranks, device=DEVICE)
    other = torch.empty_like(whole)
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if kind == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if kind == "all_to_all":
        return lambda: dist.all_to_all_single(other, whole)

    def permute():
        for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, (rank + 1) % ranks),
                                               dist.P2POp(dist.irecv, other, (rank - 1) % ranks)]):
            request.wait()
    return permute


def worker(rank, ranks, quick, path):
    import torch.distributed as dist
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", rank=rank, world_size=ranks)
    kinds = ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"]
    if DEVICE != "cuda":  # gloo has no others
        kinds = ["all_gather", "all_reduce"]
    found = []
    for kind in kinds:
        for size in (2**12, 2**14) if quick else (2**16, 2**20, 2**23, 2**26, 2**28):
            run = one_collective(kind, ranks, size, rank)
            times = []
            for _ in range(5):
                dist.barrier()
                run()
                wait()
                begin = time.perf_counter()
                for _ in range(20):
                    run()
                wait()
                times.append((time.perf_counter() - begin) / 20)
            found.append({"kind": kind, "ranks": ranks, "bytes": size, "us": round(min(times) * 1e6, 3)})
    if rank == 0:
        with open(path, "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


def collectives(devices):
    import tempfile
    rows = []
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in sorted({2, devices}):
            os.environ["MASTER_PORT"] = str(29500 + ranks)
            path = os.path.join(folder, f"{ranks}.json")
            torch.multiprocessing.spawn(worker, (ranks, QUICK, path), nprocs=ranks)
            with open(path) as file:
                rows += json.load(file)
    for found in rows:
        print("{kind} over {ranks}, {bytes} bytes: {us:.1f} us".format(**found), file=sys.stderr)
    return rows


def main():
    global QUICK, EAGER
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--out", default="measurements.json", help="where to write the measurements")
    parser.add_argument("--eager", action="store_true", help="measure what runs without torch.compile")
    parser.add_argument("--quick", action="store_true", help="small sizes alone, to see that the script runs")
    parser.add_argument("--ranks", type=int, default=0, help="devices of collectives (default: all)")
    options = parser.parse_args()
    QUICK, EAGER = options.quick, options.eager
    begin = time.perf_counter()
    for measure in (products, convolutions, kernels, arithmetic, launches):
        measure()
    devices = torch.cuda.device_count() if DEVICE == "cuda" else 1
    ranks = options.ranks or devices
    found = collectives(ranks) if ranks > 1 else []
    properties = torch.cuda.get_device_properties(0) if DEVICE == "cuda" else None
    result = {
        "format": "cleave-measurements", "version": 1, "framework": "torch", "framework_version": torch.__version__,
        "device": properties.name if properties else "cpu", "devices": devices,
        "units": properties.multi_processor_count if properties else 0,
        "memory_bytes": properties.total_memory if properties else 0,
        "executor": "eager" if EAGER else "inductor",
        "kernels": ROWS, "collectives": found,
    }
    with open(options.out, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print(f"{len(ROWS)} kernels and {len(found)} collectives in {time.perf_counter() - begin:.0f} s: wrote "
          f"{options.out}; now cleave calibrate --from {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
