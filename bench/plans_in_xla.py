"""Plans of two cost models, compiled by XLA: which of them was right?

The old model prices every op as a kernel of its own, one after the other; the new one prices the kernels that XLA makes
of them, and lets collectives run beside computation. Where their plans for a JAX train step on eight devices differ,
both are compiled by XLA for eight CPU devices in the form that it follows exactly: one manual computation whose body is
the partitioned program (`cleave plan --export manual`). Read back are the collectives with their bytes, the memory, and XLA's own
count of flops and of bytes that kernels access.

    bench/plans_in_xla.py [--cleave build/release/cleave] [--models gpt,moe] [--check] [--markdown FILE] [--keep FOLDER]

--check runs small versions of the steps in both plans and compares results with one device; it compiles nothing else.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/xla"))
import compiled as hlo  # noqa: E402
import steps  # noqa: E402

MESHES = {"x=8": {"x": 8}, "x=2,y=4": {"x": 2, "y": 4}}
# Products of float32 run in tf32 in both, so that the models differ in kernels and overlap alone.
MODELS = {"old": {"version": 1, "base": "h100", "name": "old", "executor": "",
                  "matmul": {"f32": {"tflops": 340, "ramp_us": 0.47, "ramp_exponent": 0.29}}},
          "new": {"version": 1, "base": "h100", "name": "new"}}
# The third opinion, at published rates of an H100 SXM: dense tf32, HBM3, NVLink in one direction, and what a collective
# over 2, 4 and 8 GPUs of a node takes however small it is (NCCL, from the tables of meta-pytorch/autoparallel).
FLOPS, HBM, NVLINK = 495e12, 3.35e12, 450e9
LATENCY = {1: 0, 2: 8e-6, 4: 17e-6, 8: 30e-6}
MIB = 1 << 20


@dataclasses.dataclass
class Planned:
    seconds: dict        # of the step, by model
    memory: int          # bytes, by the model that made the plan
    received: int        # bytes
    layouts: dict        # of values and of the operands and results of ops


class Refused(Exception):
    """Cleave's message."""


@dataclasses.dataclass
class Compiled:
    received: int        # bytes
    kinds: dict          # of collectives, by kind and group: how often, and bytes received
    memory: int
    flops: float
    accessed: float      # bytes, by kernels
    copied: float        # by kernels that only put a value in another order

    def seconds(self):
        """Of kernels, of copies into another order, and of links, each by itself."""
        links = sum(count * LATENCY[n] + size / NVLINK for (_, n), (count, size) in self.kinds.items())
        return max(self.flops / FLOPS, self.accessed / HBM), self.copied / HBM, links


class Case:
    """One step on one mesh."""

    def __init__(self, cleave, folder, name, config, mesh, seconds=60):
        self.cleave, self.folder, self.name, self.mesh, self.seconds = cleave, folder, name, mesh, seconds
        self.function, self.arguments = steps.step(name, config)
        self.jitted = jax.jit(self.function, keep_unused=True, donate_argnums=steps.DONATED)
        self.module = folder / f"{name}.mlir"
        self.module.write_text(self.jitted.lower(*self.arguments).as_text())
        self.devices = jax.make_mesh(tuple(MESHES[mesh].values()), tuple(MESHES[mesh]),
                                     axis_types=(jax.sharding.AxisType.Auto,) * len(MESHES[mesh]))

    def run(self, *arguments):
        done = subprocess.run([self.cleave, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise Refused((done.stdout + done.stderr).strip().splitlines()[0])
        return done.stdout

    def machine(self, model):
        file = self.folder / f"{model}.json"
        file.write_text(json.dumps(MODELS[model]))
        return file

    def plan(self, model, limit):
        """The plan of a model within `limit` bytes (None: those of the machine), and where it is."""
        file = self.folder / "-".join([self.name, self.mesh, model, str(limit)])
        options = ["--mesh", self.mesh, "--memory-share", 1, "--time", self.seconds]
        bound = ["--memory", limit] if limit else []
        if not pathlib.Path(f"{file}.json").exists():
            self.run("plan", self.module, "--machine", self.machine(model), *options, *bound, "--out", f"{file}.json")
        pathlib.Path(f"{file}.mlir").write_text(self.run("plan", self.module, "--plan", f"{file}.json", "--export", "sdy"))
        plan = json.loads(pathlib.Path(f"{file}.json").read_text())
        seconds = {}
        for by in MODELS:  # the module with the plan in it, priced by both
            again = f"{file}-by-{by}.json"
            if not pathlib.Path(again).exists():
                self.run("plan", f"{file}.mlir", "--machine", self.machine(by), *options, "--memory", "1000GiB", "--out", again)
            seconds[by] = json.loads(pathlib.Path(again).read_text())["totals"]["step_seconds"]
        layouts = {name: value for part in ("values", "ops") for name, value in named(plan[part])}
        return Planned(seconds, plan["memory"]["peak"],
                       round(sum(c["bytes"] for c in plan["totals"]["collectives"])), layouts), file

    def tight(self):
        """A limit that binds, and that both models can plan for: halfway between what is enough for both and what they
        hold without a limit, if there is room between; else just what is enough."""
        kept = self.folder / f"{self.name}-{self.mesh}-limit"
        if kept.exists():
            return int(kept.read_text())
        least, free = 0, []
        for model in MODELS:
            done = subprocess.run([self.cleave, "plan", self.module, "--mesh", self.mesh, "--machine", self.machine(model),
                                   "--memory-share", "1", "--memory", "1KiB"], capture_output=True, text=True)
            amount, unit = re.search(r"([\d.]+) (bytes|MiB|GiB) is enough", done.stdout).groups()
            least = max(least, float(amount) * {"bytes": 1, "MiB": MIB, "GiB": 1024 * MIB}[unit])
            free.append(self.plan(model, None)[0].memory)
        limit = int(max(1.02 * least, (least + min(free)) / 2))
        kept.write_text(str(limit))
        return limit

    def lower(self, file):
        """The step as one manual computation, jitted with the plan's layouts."""
        text = self.run("plan", self.module, "--plan", f"{file}.json", "--export", "manual")
        pathlib.Path(f"{file}-manual.mlir").write_text(text)
        names = {}
        exec(self.run("plan", self.module, "--plan", f"{file}.json", "--export", "jax"), names)
        placed = lambda specs, tree: jax.tree.unflatten(
            tree, [NamedSharding(self.devices, spec if isinstance(spec, PartitionSpec) else PartitionSpec()) for spec in specs])
        inputs = placed(names["in_specs"], jax.tree.structure(self.arguments))
        outputs = placed(names["out_specs"], jax.tree.structure(jax.eval_shape(self.function, *self.arguments)))
        call = with_module(jax.export.export(self.jitted)(*self.arguments), text).call
        return jax.jit(call, in_shardings=inputs, out_shardings=outputs, donate_argnums=steps.DONATED), inputs

    def compile(self, file):
        try:
            step, _ = self.lower(file)
        except Refused as reason:
            return str(reason)
        done = step.lower(*self.arguments).compile()
        text = done.as_text()
        kinds, cost = hlo.collectives(self.cleave, text), done.cost_analysis()
        own, copied = hlo.traffic(text)
        return Compiled(sum(size for _, size in kinds.values()), kinds, hlo.memory(done), cost["flops"],
                        cost["bytes accessed"] - own - copied, copied)


def named(part):
    return part.items() if isinstance(part, dict) else ((entry["name"], entry) for entry in part)


def with_module(exported, text):
    """The same export with another module under it."""
    from jax.extend import mlir
    from jax.extend.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(text)
        artifact = mlir.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
    return dataclasses.replace(exported, mlir_module_serialized=artifact)


# ---- small versions, executed


def difference(case, model, limit):
    """The plan of a model, run on eight devices: the largest difference from one device, over the shards of all."""
    random = np.random.default_rng(1)
    draw = lambda a: (random.integers(0, 16, a.shape).astype(a.dtype) if a.dtype == np.int32 else
                      np.abs(random.normal(size=a.shape) * 0.1 + 0.01).astype(a.dtype))
    values = jax.tree.map(draw, case.arguments)
    expected = jax.tree.leaves(case.jitted(*values))
    step, inputs = case.lower(case.plan(model, limit)[1])
    results = jax.tree.leaves(step(*jax.device_put(values, inputs)))
    return max(float(np.max(np.abs(np.asarray(shard.data) - np.asarray(whole)[shard.index])))
               for whole, result in zip(expected, results) for shard in result.addressable_shards)


def check(cleave, folder, names):
    """Both plans of each small step give the results of one device, on every device."""
    worst = 0.0
    for name in names:
        for mesh in MESHES:
            case = Case(cleave, folder, name, steps.SMALL[name], mesh, seconds=5)
            for model in MODELS:
                for limit in (None, case.tight()):
                    what = f"{name} on {mesh}, {model}{' tight' if limit else ''}"
                    try:
                        off = difference(case, model, limit)
                    except Refused as reason:
                        print(f"{what}: not checked: {reason}")
                        continue
                    worst = max(worst, off)
                    print(f"{what}: largest difference {off:.1e}", flush=True)
    print(f"largest difference of all: {worst:.1e}")
    return worst < 1e-3


# ---- large versions, compiled


def cases(cleave, folder, names):
    """(step, mesh, limit, plans, compiled) for every case whose plans differ; a line for those that do not."""
    for name in names:
        for mesh in MESHES:
            case = Case(cleave, folder, name, steps.SIZES[name], mesh)
            for limit in (None, case.tight()) if len(MESHES[mesh]) > 1 else (None,):
                plans = {}
                for model in MODELS:
                    try:
                        plans[model] = case.plan(model, limit)
                    except Refused as reason:
                        print(f"{name} on {mesh} within {size(limit)}, {model}: {reason}", flush=True)
                if len(plans) < len(MODELS):
                    continue
                if plans["old"][0].layouts == plans["new"][0].layouts:
                    print(f"{name} on {mesh} within {size(limit)}: both models give the same plan", flush=True)
                    continue
                built = {model: case.compile(file) for model, (_, file) in plans.items()}
                for model, result in built.items():
                    if isinstance(result, str):
                        print(f"{name} on {mesh} within {size(limit)}, {model}: not compiled: {result}", flush=True)
                if all(isinstance(result, Compiled) for result in built.values()):
                    yield name, mesh, limit, {model: plan for model, (plan, _) in plans.items()}, built


def size(count):
    return "any memory" if count is None else f"{count / MIB:.0f} MiB"


def verdict(built):
    """Which plan takes less by XLA's count at published rates: kernels alone (copies and links hide, or XLA for GPUs
    needs none of the copies), with copies, and with links as well."""
    ratios = [sum(built["new"].seconds()[:n]) / sum(built["old"].seconds()[:n]) for n in (1, 2, 3)]
    if max(ratios) < 0.995:
        return "new", ratios
    return ("old" if min(ratios) > 1.005 else "either"), ratios


def row(name, mesh, limit, model, plan, built):
    kernels, copies, links = (1e3 * seconds for seconds in built.seconds())
    kinds = ", ".join(f"{kind}/{n} {count}x" for (kind, n), (count, _) in built.kinds.items())
    return (f"| {name} {mesh} | {size(limit)} | {model} | {1e3 * plan.seconds['old']:.2f} | {1e3 * plan.seconds['new']:.2f} "
            f"| {plan.received / MIB:.1f} | {built.received / MIB:.1f} | {plan.memory / MIB:.0f} | {built.memory / MIB:.0f} "
            f"| {kernels:.2f} + {copies:.2f} + {links:.2f} | {kinds} |")


HEAD = """| step | limit | plan of | ms by old | ms by new | MiB received: planned | compiled | MiB held: planned | compiled \
| XLA's count, ms: kernels + copies + links | collectives of the module |
|---|---|---|---|---|---|---|---|---|---|---|"""


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else float("nan")


def report(found):
    lines = [HEAD]
    verdicts = {"new": [], "old": [], "either": []}
    for name, mesh, limit, plans, built in found:
        lines += [row(name, mesh, limit, model, plans[model], built[model]) for model in MODELS]
        which, ratios = verdict(built)
        verdicts[which].append((name, mesh, limit, ratios))
    lines += ["", "Plan of the new model over that of the old one, by XLA's count: kernels, with copies, with links as well:", ""]
    for which, said in (("new", "the plan of the new model takes less"), ("old", "the plan of the old model takes less"),
                        ("either", "it depends on which of them count")):
        for name, mesh, limit, ratios in verdicts[which]:
            lines.append(f"- {name} on {mesh} within {size(limit)}: {', '.join(f'{r:.3f}' for r in ratios)}; {said}")
    notes = []
    for model in MODELS:
        bytes_off = [abs(b[model].received / p[model].received - 1) for *_, p, b in found if p[model].received]
        held = [p[model].memory / b[model].memory for *_, p, b in found]
        notes.append(f"Plans of the {model} model: bytes received as planned within 0.1% in "
                     f"{sum(off <= 1e-3 for off in bytes_off)} of {len(bytes_off)} modules; memory planned over compiled "
                     f"{median(held):.2f} at the median, {min(held):.2f} to {max(held):.2f}.")
    within = {model: sum(b[model].memory <= limit for _, _, limit, _, b in found if limit) for model in MODELS}
    tight = sum(limit is not None for _, _, limit, _, _ in found)
    notes.append(f"Of {tight} pairs within a limit that binds, XLA for CPUs holds no more than the limit in {within['old']} "
                 f"plans of the old model and {within['new']} of the new one.")
    return "\n".join(lines) + "\n\n" + "\n\n".join(textwrap.fill(note, 120) for note in notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default=ROOT / "build/release/cleave")
    parser.add_argument("--models", default=",".join(steps.SIZES))
    parser.add_argument("--check", action="store_true", help="execute small versions instead")
    parser.add_argument("--markdown", type=pathlib.Path, help="a page to write the table into, between its marks")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for modules and plans; plans that are in it are not made again")
    options = parser.parse_args()
    names = options.models.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if options.check:
            sys.exit(0 if check(options.cleave, folder, names) else 1)
        text = report(list(cases(options.cleave, folder, names)))
    print(text)
    if options.markdown:
        begin, end = "<!-- measured: made by scripts/bench -->", "<!-- end of measured -->"
        page = options.markdown.read_text()
        head, tail = page.split(begin)[0], page.split(end)[1]
        options.markdown.write_text(f"{head}{begin}\njax {jax.__version__}, eight CPU devices.\n\n{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
