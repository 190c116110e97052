"""JAX's own times of train steps that it printed, for bench/xla_steps.cc:

    python3 bench/xla_steps_jax.py STEPS NAME=FILE.mlir ...   prints NAME=FILE.mlir=MILLISECONDS for each

The same modules, on numbers of the same kind, by JAX's client: an argument that a result takes the place of is that
result in the next step."""

import re
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib import xla_client

BLOCK = 1 << 20
KINDS = {"f32": np.float32, "bf16": jnp.bfloat16, "f16": np.float16, "i32": np.int32, "ui32": np.uint32, "i64": np.int64}


def signature(text):
    """Shape and element type of each argument of @main, and the result that takes its place (or None)."""
    line = next(line for line in text.splitlines() if re.search(r"func\.func .*@main\(", line))
    arguments = re.findall(r"%arg\d+: tensor<((?:\d+x)*)(\w+)>( \{[^}]*\})?", line[:line.index("->")])
    for sizes, element, attributes in arguments:
        place = re.search(r"tf.aliasing_output = (\d+)", attributes)
        yield tuple(int(n) for n in sizes.split("x") if n), element, int(place.group(1)) if place else None


def made_up(shape, element, is_weight, seed):
    count, random = int(np.prod(shape)), np.random.default_rng(seed)
    length = min(count, BLOCK)
    if element[0] in "iu":
        block = random.integers(0, 1000 if count < 1024 else 32000, length)
    else:
        block = random.standard_normal(length)
        block = 0.02 * block if is_weight else 1e-4 * block * block
    block = jnp.asarray(block.astype(np.float32 if element[0] in "bf" else np.int64)).astype(KINDS[element])
    return jnp.tile(block, -(-count // length))[:count].reshape(shape)


def measure(file, steps):
    text = open(file).read()
    options = xla_client.CompileOptions()
    device = jax.devices()[0]
    program = device.client.compile_and_load(text, xla_client.DeviceList((device,)), options)
    arguments, seen = list(signature(text)), 0
    floats = sum(element[0] in "bf" for _, element, _ in arguments)
    values, places = [], [place for _, _, place in arguments]
    for i, (shape, element, _) in enumerate(arguments):
        values.append(made_up(shape, element, 3 * seen < floats, i))
        seen += element[0] in "bf"
    times = []
    for _ in range(steps):
        jax.block_until_ready(values)
        start = time.perf_counter()
        results = program.execute_sharded(values).disassemble_into_single_device_arrays()
        results = [parts[0] for parts in results]
        new = next(r for i, r in enumerate(results) if i not in places)
        new.block_until_ready()
        times.append(time.perf_counter() - start)
        values = [results[place] if place is not None else value for value, place in zip(values, places)]
    return 1e3 * float(np.median(times[3:]))


if __name__ == "__main__":
    for case in sys.argv[2:]:
        print(f"{case}={measure(case.split('=')[1], int(sys.argv[1])):.3f}", flush=True)
