"""Planned train steps of JAX beside batch sharding, Megatron, FSDP and XLA's own propagation, as XLA compiles them.

Every way is compiled by XLA for eight devices: CPU devices of this host, or, where JAX has a GPU, eight of that kind (XLA
compiles for devices that are not there). Read back from the compiled modules are the bytes that a device receives, what it
holds (arguments + results - aliased + temporaries), and XLA's count of its flops (in the module for CPU devices). Two
comparisons are made, each with a plan for its objective, within what the other way holds as it is compiled
(autoshard(fit="compiled")): received bytes, and the time of a step if nothing overlaps, flops / peak + received / link.

    bench/jax_plans.py [--models gpt2,moe] [--ways FSDP] [--small | --full] [--speed] [--markdown FILE] [--keep FILE] [--verbose]

Steps are those of tests/reference/train_steps.py: on CPU devices in f32 (XLA's CPU compiler computes bf16 in f32 and sends it
so) with two layers, which compile in a minute, on GPUs as they are; --full takes all layers on CPU devices too, and --small
sizes that compile in seconds. --keep FILE writes down each step that is done, and goes on after the last one. --speed, on one
GPU: steps of GPT-2 on a mesh of one, beside plain jax.jit in turns.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import argparse
import json
import logging
import pathlib
import sys
import tempfile
import textwrap
import time

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import cleave
import cleave.jax as cj
from cleave import UserError
from cleave.jax.check import collective_rows, compiled_memory

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench/xla"), str(ROOT / "tests/reference")]
import corpus  # noqa: E402
from corpus import num_state  # noqa: E402
import train_steps  # noqa: E402

LINK = 450e9  # bytes per second: NVLink of an H200 SXM in one direction, as published
PEAKS = {"bf16": 989e12, "f32": 495e12}  # FLOP/s of an H200 SXM, as published: dense products of bf16 and tf32
AXES, SIZES = ("data", "model"), (2, 4)
GIB, MIB = 1 << 30, 1 << 20
COLUMNS, ROWS = ("q", "k", "v", "up", "gate", "w1", "wq", "wk", "wv"), ("o", "down", "w2", "wo")
SECONDS = 1.5  # of each planning, in work


def for_bytes(executor):
    """The machine whose times decide between plans that receive the same bytes."""
    return {"base": "h200", "name": f"h200 by {executor}", "executor": {"name": executor}}


def for_time(executor, peak, more=1e6):
    """The machine of the other comparison: products and links at their rates, and other kernels that take next to nothing."""
    base = json.loads(cleave.machine("h200").json())
    links = {kind: [{"name": "link", "inside_gbps": LINK / 1e9, "across_gbps": LINK / 1e9}] for kind in base["collectives"]}
    rate = {"tflops": peak / 1e12, "ramp_us": 0, "ramp_exponent": 0}
    made = dict(base="h200", name=f"flops and links by {executor}", memory_gbps=more * base["memory_gbps"],
                cache_gbps=more * base["cache_gbps"], launch_us=0, matmul_launch_us=0, vector_tflops=more * base["vector_tflops"],
                attention_tflops=0, attention_backward_tflops=0, matmul={dtype: rate for dtype in base["matmul"]},
                tiles={"units": 0}, collectives=links)
    own = {"name": executor, "overlaps": False, "launch_us": 0, "step_us": 0, "argument_us": 0, "loop_launch_us": 0}
    if executor == "xla-gpu":
        own |= {"vector_tops": more * base["executor"]["vector_tops"], "rows_tops": more * base["executor"]["rows_tops"]}
    return made | {"executor": own}


def model(name, size):
    """The step and its arguments: state, then the batch."""
    if size == "small":
        return corpus.STEPS[name][0]()[:2]
    loss, params, batch = train_steps.training(name) if size == "gpu" else on_cpu(name, size)
    moments = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, np.float32), params)
    return train_steps.adamw_step(loss), (params, moments, moments, batch)


def on_cpu(name, size):
    """In f32, and with two layers of those that are alike unless all are wanted."""
    known = dict(train_steps.LANGUAGE_MODELS)
    if size != "full" and name in known:
        train_steps.LANGUAGE_MODELS[name] = known[name] | {"layers": 2}
    loss, params, batch = train_steps.training(name)
    train_steps.LANGUAGE_MODELS.update(known)
    if size != "full" and name in ("vit", "mixer"):
        params = params | {"layers": params["layers"][:2]}
    wide = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, np.float32 if leaf.dtype == train_steps.BF16 else leaf.dtype)
    return loss, jax.tree.map(wide, params), jax.tree.map(wide, batch)


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

    def __init__(self, compiled, counted, peak):
        self.received = sum(row.compiled_bytes for row in collective_rows([], compiled))
        self.memory = compiled_memory(compiled)
        cost = counted.cost_analysis()
        self.flops = (cost[0] if isinstance(cost, list) else cost)["flops"]
        self.seconds = self.flops / peak + self.received / LINK


def by_hand(fn, args, mesh, way):
    state, batch = BY_HAND[way]
    place = lambda tree, rule: jax.tree_util.tree_map_with_path(lambda path, leaf: NamedSharding(mesh, rule(path, leaf)), tree)
    count = num_state(fn, args)
    inputs = tuple(place(arg, state if i < count else batch) for i, arg in enumerate(args))
    return compile_with(fn, args, inputs, inputs[:count] + (None,) * (len(jax.eval_shape(fn, *args)) - count))


def compile_with(fn, args, inputs, outputs):
    donated = tuple(range(num_state(fn, args)))
    return jax.jit(fn, keep_unused=True, in_shardings=inputs, out_shardings=outputs, donate_argnums=donated).lower(*args).compile()


class Comparison:
    """The ways to run one step, compiled, and plans within what they hold."""

    def __init__(self, name, size, pair, machines, peak):
        self.name, self.pair, self.machines, self.peak = name, pair, machines, peak
        self.fn, self.args = model(name, size)
        self.donated = tuple(range(num_state(self.fn, self.args)))
        self.made = []  # all plans of this step so far, as `planned` returns them

    def figures(self, make):
        """`make` compiles for a mesh."""
        compiled = make(self.pair[0])
        return Figures(compiled, compiled if self.pair[0] is self.pair[1] else make(self.pair[1]), self.peak)

    def planned(self, objective, memory):
        """The best plan for an objective within so much compiled memory among all that were made for this step: one more is made
        within it. With its figures, and whether XLA's bytes are the planned ones; None if no plan fits."""
        self.plan_within(objective, memory)
        fitting = [made for made in self.made if made[1].memory <= memory]
        return min(fitting, key=lambda made: value_of(objective, made[1]), default=None)

    def plan_within(self, objective, memory):
        """Of plans that receive the same, other ones are taken on the other machine."""
        machines = [self.machines[objective], *(path for other, path in self.machines.items() if other != objective)]
        for machine in machines if objective == "bytes" else machines[:1]:
            step = cj.autoshard(self.fn, self.pair[0], machine=str(machine), memory=memory, memory_share=1.0, fit="compiled",
                                objective=objective, gap=0, time_limit=SECONDS, by_effort=True, donate_argnums=self.donated)
            try:
                plan = step.prepare(*self.args)
                break
            except UserError as error:
                print(f"{self.name}: {error}", file=sys.stderr, flush=True)
        else:
            return
        compiled = step._last.compiled
        counted = compiled if self.pair[0] is self.pair[1] else self.on_cpu_devices(plan)
        exact = all(abs(row.planned_bytes - row.compiled_bytes) <= 1e-3 * max(1, plan.received_bytes)
                    for row in collective_rows(plan.collectives, compiled))
        self.made.append((plan, Figures(compiled, counted, self.peak), exact))

    def on_cpu_devices(self, plan):
        """The program of a plan compiled for CPU devices; None if it is another module there."""
        with tempfile.TemporaryDirectory() as folder:
            plan.save(f"{folder}/plan.json")
            step = cj.autoshard(self.fn, self.pair[1], plan=f"{folder}/plan.json", donate_argnums=self.donated)
            step.prepare(*self.args)
            return step._last.compiled

    def from_layouts(self, plan):
        """XLA's own propagation from the layouts of a plan's arguments and results."""
        moved = lambda specs, mesh: jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda s: isinstance(s, P))
        return self.figures(lambda mesh: compile_with(self.fn, self.args, moved(plan.in_specs[0], mesh),
                                                      moved(plan.out_specs, mesh)))

    def rows(self, ways):
        """Of each way and objective: name, way, objective, the figures of the way, and the plan's."""
        last = {}
        for way in ways:
            if way in BY_HAND:
                other = self.figures(lambda mesh: by_hand(self.fn, self.args, mesh, way))
            for objective in ("bytes", "sum"):
                if way not in BY_HAND:
                    other = self.from_layouts(last[objective][0])
                    fits = last[objective][1].memory <= other.memory
                    made = last[objective] if fits else self.planned(objective, other.memory)
                else:
                    made = self.planned(objective, other.memory)
                last[objective] = made or last.get(objective)
                yield self.name, way, objective, other, made


XLA = "XLA from the plan's layouts"
HEAD = ("| step | other way | its received | its memory | planned for bytes: received | memory | ratio | its time "
        "| planned for time: time | memory | ratio | bytes as planned |\n" + "|---" * 12 + "|")


def value_of(objective, figures):
    return figures.received if objective == "bytes" else figures.seconds


def ratio(own, other):
    return own / other if other > 0 else 1.0 if own == 0 else float("inf")


def cells(objective, other, made):
    """Of one objective: what the plan takes, what it holds, the ratio."""
    if made is None:
        return "no plan fits | | "
    _, own, _ = made
    value = f"{own.received / MIB:,.2f} MiB" if objective == "bytes" else f"{own.seconds * 1e3:.3f} ms"
    return f"{value} | {own.memory / GIB:.3f} GiB | {quotient(objective, other, made):.3f}"


def quotient(objective, other, made):
    return ratio(value_of(objective, made[1]), value_of(objective, other))


def line(name, way, both):
    """A row of the table, of both objectives."""
    (first, by_bytes), (second, by_time) = both["bytes"], both["sum"]
    exact = all(made is None or made[2] for made in (by_bytes, by_time))
    other_row = "" if first is second else f" ({second.received / MIB:,.2f} MiB and {second.memory / GIB:.3f} GiB for time)"
    return (f"| {name} | {way} | {first.received / MIB:,.2f} MiB{other_row} | {first.memory / GIB:.3f} GiB "
            f"| {cells('bytes', first, by_bytes)} | {second.seconds * 1e3:.3f} ms | {cells('sum', second, by_time)} "
            f"| {'yes' if exact else 'NO'} |")


def verdict(steps):
    """How the ratios are, in a sentence for each objective."""
    said = []
    for objective, what in (("bytes", "received bytes"), ("sum", "time")):
        ratios = [r for step in steps for r in step["ratios"][objective]]
        held = [h for step in steps for h in step["held"][objective]]
        said.append(f"By {what}: {sum(r <= 1.0005 for r in ratios)} of {len(ratios)} rows are not worse than the other way, "
                    f"{sum(r < 0.9995 for r in ratios)} are better, {sum(held)} hold no more; the largest ratio is "
                    f"{max(ratios):.3f}.")
    return said


def compared(comparison, ways):
    """The rows of one step, printed as they come, with the ratios, and whether the plan holds no more than the other way."""
    step = {"lines": [], "ratios": {"bytes": [], "sum": []}, "held": {"bytes": [], "sum": []}}
    both = {}
    for _, way, objective, other, made in comparison.rows(ways):
        both[objective] = other, made
        step["ratios"][objective].append(quotient(objective, other, made) if made else float("inf"))
        step["held"][objective].append(made is not None and made[1].memory <= other.memory)
        if objective == "sum":
            step["lines"].append(line(comparison.name, way, both))
            print(step["lines"][-1], flush=True)
    return step


# ---- speed on one device


def speed(name="gpt2", count=30):
    """Milliseconds of plain jit and of autoshard on a mesh of one, in turns."""
    fn, args = model(name, "gpu")
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
    parser.add_argument("--ways")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="rounds of fitting")
    parser.add_argument("--keep", type=pathlib.Path, help="a file that keeps what is done")
    parser.add_argument("--markdown", type=pathlib.Path, help="a page to write the table into, between its marks")
    options = parser.parse_args()
    if options.speed:
        return speed()
    if options.verbose:
        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        logging.getLogger("cleave").setLevel(logging.INFO)
    names = (options.models or ("gpt,moe,vit,resnet,unet,ssm,dlrm" if options.small else
                                "gpt2,llama_1b,mixer,recommender,resnet50,vit,moe")).split(",")
    ways = options.ways.split(",") if options.ways else [*BY_HAND, XLA]
    pair = meshes()
    is_gpu = pair[0] is not pair[1]
    size = "small" if options.small else "gpu" if is_gpu else "full" if options.full else "cpu"
    dtype = "bf16" if is_gpu else "f32"
    steps = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    print(HEAD, *(text for name in names if name in steps for text in steps[name]["lines"]), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        machines = {objective: pathlib.Path(folder, f"{objective}.json") for objective in ("bytes", "sum")}
        executor = "xla-gpu" if is_gpu else "xla-cpu"
        machines["bytes"].write_text(json.dumps(for_bytes(executor)))
        machines["sum"].write_text(json.dumps(for_time(executor, PEAKS[dtype])))
        for name in names:
            if name not in steps:
                steps[name] = compared(Comparison(name, size, pair, machines, PEAKS[dtype]), ways)
                if options.keep:
                    options.keep.write_text(json.dumps(steps))
    said = verdict([steps[name] for name in names])
    print(*said, sep="\n")
    if options.markdown:
        begin, end = "<!-- measured: made by scripts/bench -->", "<!-- end of measured -->"
        page = options.markdown.read_text()
        head, tail = page.split(begin)[0], page.split(end)[1]
        what = f"jax {jax.__version__}, eight devices of kind {pair[0].devices.flat[0].device_kind}, steps in {dtype}."
        text = "\n".join([what, "", HEAD, *(text for name in names for text in steps[name]["lines"]), "",
                          textwrap.fill(" ".join(said), 120)])
        options.markdown.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
