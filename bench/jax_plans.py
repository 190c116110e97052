"""Planned train steps of JAX beside batch sharding, Megatron, FSDP and XLA's own propagation, as XLA compiles them.

Every way is compiled by XLA for eight devices: CPU devices of this host, or, where JAX has a GPU, eight of that kind (XLA
compiles for devices that are not there). Read back from the compiled modules are the bytes that a device receives, its memory,
and XLA's count of its flops (in the module for CPU devices). The time of a step is that of those figures at the machine's
published rates, nothing overlapped: flops / peak + received / link. Plans are made for the machine's profile without overlap,
within the memory that the other way takes, as predicted, or up to 30% more if nothing fits.

    bench/jax_plans.py [--models gpt2,moe] [--small] [--speed] [--markdown FILE]

--small takes sizes that compile quickly. --speed, on one GPU: steps of GPT-2 on a mesh of one, beside plain jax.jit in turns.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import argparse
import json
import pathlib
import sys
import tempfile
import time

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import cleave.jax as cj
from cleave import UserError
from cleave.jax.check import collective_rows, compiled_memory

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench/xla"), str(ROOT / "tests/reference")]
import corpus  # noqa: E402
from corpus import num_state  # noqa: E402
import train_steps  # noqa: E402

# Published, of an H200 SXM: dense products of bf16, NVLink in one direction.
PEAK, LINK = 989e12, 450e9
PROFILE = {"base": "h200", "name": "h200 without overlap", "executor": {"name": "xla-gpu", "overlaps": False}}
AXES, SIZES = ("data", "model"), (2, 4)
GIB, MIB = 1 << 30, 1 << 20
COLUMNS, ROWS = ("q", "k", "v", "up", "gate", "w1", "wq", "wk", "wv"), ("o", "down", "w2", "wo")


def model(name, small):
    """The step and its arguments: state, then the batch."""
    if small:
        return corpus.STEPS[name][0]()[:2]
    loss, params, batch = train_steps.training(name)
    moments = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, np.float32), params)
    return train_steps.adamw_step(loss), (params, moments, moments, batch)


def meshes():
    """Of the devices in question, and of CPU devices."""
    made = lambda devices: Mesh(np.array(devices[:8]).reshape(SIZES), AXES, axis_types=(AxisType.Auto,) * 2)
    cpus = made(jax.devices("cpu"))
    if jax.default_backend() != "gpu":
        return cpus, cpus
    from jax.experimental import topologies
    return made(topologies.get_topology_desc("", "cuda", topology="1x1x8").devices), cpus


# ---- layouts by hand


def split(leaf, wishes):
    """The axes of each dimension: each wish (dimension, axis) that divides."""
    dims = [()] * len(leaf.shape)
    sizes = dict(zip(AXES, SIZES))
    for d, axes in wishes:
        count = int(np.prod([sizes[axis] for axis in dims[d] + axes]))
        if leaf.shape[d] % count == 0:
            dims[d] += axes
    return P(*[axes or None for axes in dims])


def whole(path, leaf):
    return P()


def fully(path, leaf):
    """FSDP: the first dimension that all devices divide."""
    for d, size in enumerate(leaf.shape):
        if size % 8 == 0 and len(leaf.shape) > 1:
            return P(*[None] * d, AXES)
    return P()


def megatron(path, leaf):
    name = next((str(key.key) for key in reversed(path) if hasattr(key, "key")), "")
    if len(leaf.shape) > 1 and name in COLUMNS:
        return split(leaf, [(len(leaf.shape) - 1, ("model",))])
    if len(leaf.shape) > 1 and name in ROWS:
        return split(leaf, [(len(leaf.shape) - 2, ("model",))])
    return P()


def rows(axes):
    return lambda path, leaf: split(leaf, [(0, axes)]) if leaf.shape else P()


BY_HAND = {"batch": (whole, rows(AXES)), "Megatron": (megatron, rows(("data",))), "FSDP": (fully, rows(AXES))}


# ---- compiled modules


class Figures:
    """Of a way to run a step: `compiled` for the devices in question, and `counted` for CPU devices, whose compiler tells how
    many flops it counts; the one for GPUs that are not there does not."""

    def __init__(self, compiled, counted):
        self.rows = collective_rows([], compiled)
        self.received = sum(row.compiled_bytes for row in self.rows)
        self.memory = compiled_memory(compiled)
        cost = counted.cost_analysis()
        self.flops = (cost[0] if isinstance(cost, list) else cost)["flops"]
        self.seconds = self.flops / PEAK + self.received / LINK


def by_hand(fn, args, mesh, way):
    state, batch = BY_HAND[way]
    place = lambda tree, rule: jax.tree_util.tree_map_with_path(lambda path, leaf: NamedSharding(mesh, rule(path, leaf)), tree)
    count = num_state(fn, args)
    inputs = tuple(place(arg, state if i < count else batch) for i, arg in enumerate(args))
    return compile_with(fn, args, inputs, inputs[:count] + (None,) * (len(jax.eval_shape(fn, *args)) - count))


def compile_with(fn, args, inputs, outputs):
    donated = tuple(range(num_state(fn, args)))
    return jax.jit(fn, keep_unused=True, in_shardings=inputs, out_shardings=outputs, donate_argnums=donated).lower(*args).compile()


def planned(fn, args, mesh, machine, memory):
    """Within this memory; if nothing fits, within as little more as possible."""
    for share in (1, 1.05, 1.15, 1.3):
        step = cj.autoshard(fn, mesh, machine=str(machine), memory=int(share * memory), memory_share=1.0,
                            donate_argnums=tuple(range(num_state(fn, args))))
        try:
            step.prepare(*args)
            return step
        except UserError as error:
            if "no plan fits" not in str(error):
                raise
    return None


def compile_both(make, pair):
    """`make` compiles for a mesh."""
    return Figures(*(make(mesh) for mesh in (pair if pair[0] is not pair[1] else pair[:1] * 2)))


def as_planned(fn, args, machine, plan, mesh):
    """The program of a plan on another mesh of the same shape."""
    with tempfile.TemporaryDirectory() as folder:
        plan.save(f"{folder}/plan.json")
        step = cj.autoshard(fn, mesh, plan=f"{folder}/plan.json", donate_argnums=tuple(range(num_state(fn, args))))
        step.prepare(*args)
        return step


def compare(name, small, pair, machine):
    """Rows of the table: model, way, and the figures of it and of the plan within its memory."""
    fn, args = model(name, small)
    plans = {}

    def plan_within(memory):
        """Its plan, its figures, and whether XLA's bytes are the planned ones."""
        step = planned(fn, args, pair[0], machine, memory)
        if step is None:
            return None
        key = json.dumps([step.plan.data[part] for part in ("values", "copies", "ops")])
        if key not in plans:
            compiled = step._last.compiled
            counted = compiled if pair[0] is pair[1] else as_planned(fn, args, machine, step.plan, pair[1])._last.compiled
            exact = all(abs(row.planned_bytes - row.compiled_bytes) <= 1e-3 * max(1, step.plan.received_bytes)
                        for row in collective_rows(step.plan.collectives, compiled))
            plans[key] = step.plan, Figures(compiled, counted), exact
        return plans[key]
    for way in BY_HAND:
        other = compile_both(lambda mesh: by_hand(fn, args, mesh, way), pair)
        yield name, way, other, plan_within(other.memory)
    plan, figures, exact = plan_within(other.memory)
    moved = lambda specs, mesh: jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda s: isinstance(s, P))
    other = compile_both(lambda mesh: compile_with(fn, args, moved(plan.in_specs[0], mesh), moved(plan.out_specs, mesh)), pair)
    yield name, "XLA from the plan's layouts", other, (plan, figures, exact)


HEAD = ("| step | other way | its received | its memory | its time | planned: received | memory | time | ratio | bytes as planned "
        "| memory planned / compiled |\n" + "|---" * 11 + "|")


def line(name, way, other, made):
    said = f"| {name} | {way} | {other.received / MIB:,.1f} MiB | {other.memory / GIB:.2f} GiB | {other.seconds * 1e3:.2f} ms "
    if made is None:
        return said + "| no plan fits | | | | | |"
    plan, own, exact = made
    return said + (f"| {own.received / MIB:,.1f} MiB | {own.memory / GIB:.2f} GiB | {own.seconds * 1e3:.2f} ms "
                   f"| {own.seconds / other.seconds:.2f} | {'yes' if exact else 'NO'} | {plan.memory_bytes / own.memory:.2f} |")


# ---- speed on one device


def speed(name="gpt2", count=30):
    """Milliseconds of plain jit and of autoshard on a mesh of one, in turns."""
    fn, args = model(name, False)
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",), axis_types=(AxisType.Auto,))
    random = np.random.default_rng(0)

    def value(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return random.integers(0, 1000, leaf.shape).astype(leaf.dtype)
        return (random.standard_normal(leaf.shape, np.float32) ** 2 * 1e-2).astype(leaf.dtype)
    values = jax.tree.map(value, args)
    donated = tuple(range(len(args) - 1))
    step = cj.autoshard(fn, mesh, machine="h200", donate_argnums=donated)
    ways = {"jit": jax.jit(fn, donate_argnums=donated), "autoshard": step}
    states = {way: jax.device_put(values[:-1], jax.devices()[0]) for way in ways}
    batch = jax.device_put(values[-1], jax.devices()[0])
    times, after = {way: [] for way in ways}, {}
    for i in range(count + 3):
        for way, call in ways.items():
            jax.block_until_ready(states[way])
            start = time.perf_counter()
            *states[way], loss = call(*states[way], batch)
            jax.block_until_ready((states[way], loss))
            if i == 0:
                after[way] = [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(states[way][:1])]
            if i >= 3:
                times[way].append(time.perf_counter() - start)
    best = {way: 1e3 * float(np.median(found)) for way, found in times.items()}
    off = max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in zip(*after.values()))
    print(f"{name} on {jax.devices()[0].device_kind}: jit {best['jit']:.2f} ms, autoshard {best['autoshard']:.2f} ms, "
          f"{best['autoshard'] / best['jit']:.3f} of it; predicted {step.plan.step_seconds * 1e3:.2f} ms; parameters differ by "
          f"{off:.2g} of their largest number after a step", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path, help="a page to write the table into, between its marks")
    options = parser.parse_args()
    if options.speed:
        return speed()
    names = (options.models or ("gpt,moe,vit,resnet,unet,ssm,dlrm" if options.small else
                                "gpt2,llama_1b,moe,resnet50,vit,mixer,recommender")).split(",")
    pair = meshes()
    lines = [HEAD]
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        machine = pathlib.Path(folder, "machine.json")
        machine.write_text(json.dumps(PROFILE))
        for name in names:
            try:
                for row in compare(name, options.small, pair, machine):
                    lines.append(line(*row))
                    print(lines[-1], flush=True)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    if options.markdown:
        begin, end = "<!-- measured: made by scripts/bench -->", "<!-- end of measured -->"
        page = options.markdown.read_text()
        head, tail = page.split(begin)[0], page.split(end)[1]
        text = "\n".join([f"jax {jax.__version__}, eight devices of kind {pair[0].devices.flat[0].device_kind}.", "", *lines])
        options.markdown.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
