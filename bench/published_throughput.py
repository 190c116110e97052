"""Predicted step times beside published ones.

Every row of the table that ran without pipelines on A100s or H100s becomes a model by name (with its precision and
recomputation), a mesh, and pins that give the layout of FSDP and Megatron; `cleave plan --solver propagation` prices
that layout. Nothing is fitted here: rows differ in their model, mesh, layout and machine alone, and all of these are
what the row's source says.

    bench/published_throughput.py TABLE.json [--cleave build/release/cleave] [--rows t001,t225] [--markdown FILE]

TABLE.json has `models`, `systems` and `rows`; bench/results/published_throughput.md says which fields are read.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Weights by the last part of their name: split along columns or rows by tensor parallelism.
COLUMNS = {"q", "k", "v", "gate", "up"}
ROWS = {"o", "down"}
COLUMN_BIASES = {"b_q", "b_k", "b_v", "b_up"}


# ---- what a row says


def skipped(row, systems):
    """Why a row is left out, or None."""
    p, measured = row["parallel"], row["measured"]
    device = systems[row["system"]]["device"]
    if row["pipeline"] or p["pp"] != 1:
        return "pipeline"
    if not any(name in device for name in ("A100", "H100", "H200")):
        return "other device"
    if p["cp"] != 1 or p["ep"] != 1:
        return "context or expert parallelism"
    if p["tp"] != 1:
        return "tensor parallelism"
    if "fp8" in row["precision"] or "fp16" in row["precision"]:
        return "precision"
    if measured.get("step_time_s") is None:
        return "no step time"
    if row["micro_batch"] is None or row["grad_accum"] is None:
        return "no micro batch"
    if remat_of(row) is None:
        return "recomputation not stated"
    if row["compile"] == "xla":
        return "XLA"
    return None


def remat_of(row):
    """The options of the model for the recomputation that the row states; None if it states none."""
    mode = row["activation_checkpointing"]
    if mode is None or "not stated" in mode:
        return None
    if mode.startswith("selective-layer"):
        return {"remat": "full", "remat_every": 2}
    if mode.startswith("selective"):
        return {"remat": "selective"}
    return {"remat": mode} if mode in ("none", "full") else None


def kinds_of(name, model):
    """Options of the architecture: Llama's is the default of `model:gpt`."""
    kinds = {}
    if not model["ffn_gated"]:
        kinds = {"norm": "layer", "feed_forward": "gelu", "positions": "learned", "bias": "yes"}
        if name.startswith("nemotron"):
            kinds = {"norm": "layer", "feed_forward": "relu2"}
    if model["tied_embeddings"]:
        kinds["tied"] = "yes"
    return kinds


def model_name(row, models, step):
    """The model of one micro batch of all devices. Master weights are f32; if FSDP shards them, they are converted and
    gathered again for the backward pass."""
    m, p = models[row["model"]], row["parallel"]
    options = {"layers": m["layers"], "d": m["d_model"], "heads": m["heads"], "kv_heads": m["kv_heads"],
               "hidden": m["ffn"], "vocab": m["vocab"], "length": row["seq_len"],
               "batch": row["micro_batch"] * p["dp_replicate"] * p["dp_shard"], **kinds_of(row["model"], m),
               "compute": "bf16", "attention": "flash", **remat_of(row), "step": step}
    if p["zero_stage"] == 3:
        options["weights"] = "again"
    return "model:gpt?" + "&".join(f"{key}={value}" for key, value in options.items())


def executor_of(row):
    """PyTorch with or without torch.compile; if the source does not say, its default is without."""
    if row["compile"]:
        return "inductor"
    # Without the compiler a norm, an activation or a loss is still one kernel of PyTorch's, though its derivative
    # here is written in several ops: what has one user is fused, and nothing is computed twice or reordered.
    return {"name": "eager", "fuses": True, "longest_row": 65536, "most_reads": 24}


# What products reach in runs of hours, beside what they reach in a short step: one repeated alone on an H200 falls to
# this share of it when it gets hot (cleave/machine/profile.cc).
HOT = 0.86
# Rates of products in full tiles in 16 bits, as the built-in profiles have them, 1e12 FLOP/s.
TILES = {"a100": 290, "h100": 920, "h200": 920}
# Of an H100 and of its HBM, for systems that have less.
POWER, IDLE_POWER, BANDWIDTH, REACHED_GBPS = 700, 100, 3.35, 2960


def machine_of(system, executor):
    """A machine profile for a system, as JSON: a built-in one, with what the system is known to have otherwise."""
    device = system["device"]
    base = "a100" if "A100" in device else "h200" if "H200" in device else "h100"
    machine = {"version": 1, "base": base, "devices_per_node": system["devices_per_node"],
               "memory_bytes": system["memory_gb"] * 1e9, "executor": executor}
    rate = TILES[base] * HOT
    if "HBM2e" in device:
        # 2.4 TB/s and 500 W, as torchtitan's page says of its H100s of 2024. Power beside that of an idle device grows
        # with the third power of the clock.
        machine["memory_gbps"] = REACHED_GBPS * 2.4 / BANDWIDTH
        rate *= ((500 - IDLE_POWER) / (POWER - IDLE_POWER)) ** (1 / 3)
    machine["tiles"] = {"tflops": {"bf16": rate, "f16": rate}}
    return machine


# ---- layouts


def spec(*dims):
    return "[" + ", ".join("{" + ", ".join(f'"{axis}"' for axis in dim) + "}" for dim in dims) + "]"


class Layout:
    """The layout of a row as pins of values by name."""

    def __init__(self, row):
        p = row["parallel"]
        sizes = {"replicate": p["dp_replicate"], "shard": p["dp_shard"], "tp": p["tp"]}
        self.axes = {name: size for name, size in sizes.items() if size > 1} or {"shard": 1}
        self.mesh = ",".join(f"{name}={size}" for name, size in self.axes.items())
        self.shard = self.some("shard") if p["zero_stage"] == 3 else []
        self.tp = self.some("tp")
        self.sequence = self.tp if p["sp"] else []
        self.batch = self.some("replicate") + self.some("shard")
        # ZeRO 1: the optimizer's state is split over the devices that have the same weights.
        self.state = self.batch if p["zero_stage"] == 1 else self.shard

    def some(self, axis):
        return [axis] if axis in self.axes else []

    def weight(self, name, rank, over):
        """How a weight lies if devices of `over` share it: over its first dimension, beside tensor parallelism."""
        leaf = name.rsplit(".", 1)[-1]
        if rank == 1:
            return spec(self.tp + over if leaf in COLUMN_BIASES else over)
        if leaf in ROWS:
            return spec(self.tp + over, [])
        if leaf in COLUMNS or leaf == "head":
            return spec(over, self.tp)
        return spec(over, self.tp if leaf == "embed" else [])


class Module:
    """The ops of a flat module by name, as the plan file lists them."""

    PASSING = ("convert", "optimization_barrier", "transpose", "reshape")

    def __init__(self, plan):
        self.ops = plan["ops"]

    def root(self, value):
        """The argument that a value is but for its type and order, or None."""
        while not value.startswith("["):
            name, _, number = value.partition("#")
            op = self.ops.get(name)
            if op is None or op["op"].split(".")[-1] not in self.PASSING:
                return None
            value = op["operands"][int(number or 0)][0]
        return value

    def products(self):
        """For every weight, the products with it, in order."""
        found = collections.defaultdict(list)
        for name, op in self.ops.items():
            if not op["op"].endswith("dot_general"):
                continue
            roots = [self.root(operand[0]) for operand in op["operands"]]
            weights = [root for root in roots if root and root.startswith("[0].")]
            if len(weights) == 1:
                found[weights[0]].append(name)
        return found


def rank_of(text):
    return text.count("{")


def pins_of(layout, module, plan):
    """Pins that give the layout: arguments as they are kept, converted weights as they are used, results of products
    with weights as Megatron has them."""
    pins = []
    arguments = [name for name in plan["values"] if name.startswith("[")]
    weights = [name for name in arguments if name.startswith("[0].")]
    for name in arguments:
        rank = rank_of(plan["values"][name])
        if name.startswith("[0]."):
            pins.append(f"{name}={layout.weight(name, rank, layout.shard)}")
        elif name.startswith("[1].") and rank:
            pins.append(f"{name}={layout.weight(name, rank, layout.state)}")
        elif rank == 2:  # tokens
            pins.append(f"{name}={spec(layout.batch, [])}")
    for i, name in enumerate(weights):
        pins.append(f"return#{i + 1}={layout.weight(name, rank_of(plan['values'][name]), layout.shard)}")
    for name, op in module.ops.items():
        if op["op"] == "stablehlo.convert":
            root = module.root(name)
            if root and root.startswith("[0]."):
                pins.append(f"{name}={layout.weight(root, rank_of(op['results'][0]), [])}")
    for weight, products in module.products().items():
        leaf = weight.rsplit(".", 1)[-1]
        for name in products[:-1] if len(products) > 1 else products:  # the last one is the derivative
            if leaf in COLUMNS or leaf in ("head", "embed"):
                pins.append(f"{name}={spec(layout.batch, [], layout.tp)}")
            elif leaf in ROWS:
                pins.append(f"{name}={spec(layout.batch, layout.sequence, [])}")
    return pins


# ---- running


class Planner:
    def __init__(self, cleave, folder, systems):
        self.cleave, self.folder, self.systems = cleave, pathlib.Path(folder), systems
        self.names = {}  # plans of one device, by model: they name the ops

    def run(self, model, mesh, machine, pins=()):
        out, pin_file = self.folder / "plan.json", self.folder / "pins.txt"
        pin_file.write_text("\n".join(pins) + "\n")
        command = [self.cleave, "plan", model, "--mesh", mesh, "--machine", str(machine), "--memory", "1000000GiB",
                   "--solver", "propagation", "--out", str(out)]
        if pins:
            command += ["--pin", f"@{pin_file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return json.loads(out.read_text())

    def machine(self, row):
        path, system = self.folder / f"{row['system']}.json", self.systems[row["system"]]
        path.write_text(json.dumps({"name": row["system"], **machine_of(system, executor_of(row))}))
        return path

    def step(self, row, models, step):
        """The plan of one micro batch in the layout of the row."""
        layout, model, machine = Layout(row), model_name(row, models, step), self.machine(row)
        key = re.sub(r"batch=\d+|length=\d+", "", model)
        if key not in self.names:
            self.names = {key: self.run(model, "shard=1", machine)}
        names = self.names[key]
        return self.run(model, layout.mesh, machine, pins_of(layout, Module(names), names))

    def predict(self, row, models):
        """Seconds of a step: micro batches before the last have no optimizer."""
        train = self.step(row, models, "train")
        seconds = train["totals"]["seconds"]
        if row["grad_accum"] > 1:
            seconds += (row["grad_accum"] - 1) * self.step(row, models, "grad")["totals"]["seconds"]
        return seconds, train


def group_of(row):
    source = re.sub(r"^github.com/", "", row["source"]).split("@")[0].split(" ")[0]
    return f"{source}, {row['system']}" + (", TP" if row["parallel"]["tp"] > 1 else "")


def describe(row):
    p = row["parallel"]
    parts = [f"{name} {p[key]}" for key, name in (("dp_replicate", "replicate"), ("dp_shard", "shard"), ("tp", "tp"))
             if p[key] > 1]
    return ", ".join(parts) or "one device"


def summary(ratios):
    errors = [abs(ratio - 1) for ratio in ratios]
    return f"{len(ratios)} rows: ratio {statistics.median(ratios):.2f} at the median, from {min(ratios):.2f} to " \
           f"{max(ratios):.2f}; off by {100 * statistics.median(errors):.0f}% at the median"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--cleave", default=str(ROOT / "build/release/cleave"))
    parser.add_argument("--rows", default="", help="only these ids, after commas")
    parser.add_argument("--every", type=int, default=1, help="every so many rows of those that qualify")
    parser.add_argument("--totals", action="store_true", help="print the totals of each plan by kind of collective")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there")
    args = parser.parse_args()
    table = json.loads(args.table.read_text())
    wanted = set(filter(None, args.rows.split(",")))
    left_out = collections.Counter(filter(None, (skipped(row, table["systems"]) for row in table["rows"])))
    rows = [row for row in table["rows"] if not skipped(row, table["systems"])]
    rows = [row for row in rows if not wanted or row["id"] in wanted][::args.every]
    lines, groups = [], collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(args.cleave, folder, table["systems"])
        for row in rows:
            try:
                seconds, plan = planner.predict(row, table["models"])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{row['id']} failed: {error}", file=sys.stderr)
                continue
            measured = row["measured"]["step_time_s"]
            ratio = seconds / measured
            groups[group_of(row)].append(ratio)
            lines.append((row["id"], row["model"], row["seq_len"], row["system"], describe(row),
                          f"{row['micro_batch']} x {row['grad_accum']}", row["activation_checkpointing"],
                          f"{seconds:.3f}", f"{measured:.3f}", f"{ratio:.2f}"))
            print(" | ".join(str(cell) for cell in lines[-1]), flush=True)
            if args.totals:
                for kind in plan["totals"]["collectives"]:
                    print(f"    {kind['kind']} {kind['axes']}: x{kind['count']:.0f}, {kind['bytes'] / 2**30:.2f} GiB, "
                          f"{kind['seconds']:.3f} s")
                print(f"    compute {plan['totals']['compute_seconds']:.3f} s, peak {plan['memory']['peak'] / 2**30:.1f} GiB")
    text = [f"{name}: {summary(ratios)}" for name, ratios in sorted(groups.items())]
    everything = [ratio for ratios in groups.values() for ratio in ratios]
    if everything:
        text.append(f"all: {summary(everything)}")
    text.append("left out: " + ", ".join(f"{count} {why}" for why, count in left_out.items()))
    print("\n".join(text))
    if args.markdown:
        head = ("row", "model", "length", "system", "layout", "micro batch x steps", "recomputation", "predicted s",
                "measured s", "ratio")
        body = ["| " + " | ".join(map(str, line)) + " |" for line in [head, ("---",) * len(head), *lines]]
        args.markdown.write_text("\n".join(body + [""] + [f"- {line}" for line in text]) + "\n")


if __name__ == "__main__":
    main()
