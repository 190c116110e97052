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
import concurrent.futures
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
    p = row["parallel"]
    device = systems[row["system"]]["device"]
    if row["pipeline"] or p["pp"] != 1:
        return "pipeline"
    if not any(name in device for name in ("A100", "H100", "H200")):
        return "other device"
    if p["cp"] != 1 or p["ep"] != 1:
        return "context or expert parallelism"
    if "fp8" in row["precision"]:
        return "fp8"
    if row["micro_batch"] is None or row["grad_accum"] is None:
        return "no micro batch"
    if step_time(row) is None:
        return "no step time"
    if remat_of(row) is None:
        return "recomputation not stated"
    if row["compile"] == "xla":
        return "XLA"
    return None


def step_time(row):
    """Seconds of a step, as stated or by the tokens of a step."""
    measured, p = row["measured"], row["parallel"]
    if measured.get("step_time_s"):
        return measured["step_time_s"]
    rate = measured.get("tokens_per_s_per_device")
    if not rate:
        return None
    sequences = row["micro_batch"] * row["grad_accum"] * p["dp_replicate"] * p["dp_shard"]
    return sequences * row["seq_len"] / (rate * row["devices"])


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


def has_flash(row):
    """Megatron of 2021 and Megatron-DeepSpeed write the scores of attention; all others have a kernel for it."""
    return not row["system"].startswith(("a100-selene", "a100-jz"))


def model_name(row, models, step):
    """The model of one micro batch of all devices. Master weights are f32; if FSDP shards them, they are converted and
    gathered again for the backward pass."""
    m, p = models[row["model"]], row["parallel"]
    options = {"layers": m["layers"], "d": m["d_model"], "heads": m["heads"], "kv_heads": m["kv_heads"],
               "hidden": m["ffn"], "vocab": m["vocab"], "length": row["seq_len"],
               "batch": row["micro_batch"] * p["dp_replicate"] * p["dp_shard"], **kinds_of(row["model"], m),
               "compute": "f16" if "fp16" in row["precision"] else "bf16",
               "attention": "flash" if has_flash(row) else "plain", **remat_of(row), "borders": "yes", "step": step}
    if p["zero_stage"] == 3:
        options["weights"] = "again"
    return "model:gpt?" + "&".join(f"{key}={value}" for key, value in options.items())


def executor_of(row):
    """PyTorch with or without torch.compile; if the source does not say, its default is without."""
    name = "inductor" if row["compile"] else "eager"
    return name if has_flash(row) else {"name": name, "flash_attention": False}


# Rates of products in full tiles in 16 bits, as the built-in profiles have them, 1e12 FLOP/s; PyTorch's executors take a
# share of it, because devices get hot.
TILES = {"a100": 290, "h100": 920, "h200": 920}
# Of an H100 and of its HBM, for systems that have less.
POWER, IDLE_POWER, BANDWIDTH, REACHED_GBPS = 700, 100, 3.35, 2960
# Kernels of attention, 1e12 FLOP/s forward and backward for heads of 128, and the share that heads of 64 reach.
# FlashAttention reaches 30 to 50% of an A100's peak forward and 25 to 35% backward (arXiv 2307.08691, section 1): the
# middle of both; on an H100 1.6 times that, as FlashAttention-2 does (the same paper, 190 and 300). FlashAttention-2 on
# an A100 by the same paper (73% and 63% at most), on an H100 by figures 5 and 6 of arXiv 2407.08608.
ATTENTION = {("first", "a100"): (125, 94, 1), ("first", "h100"): (200, 150, 1),
             ("second", "a100"): (228, 197, 0.9), ("second", "h100"): (370, 322, 0.9),
             ("second", "h200"): (370, 322, 0.9)}
# GB/s of one GPU's share of the network and the latency of a hop, us (docs/guide/machines.md), by what a system says.
NETWORKS = {"a100-80-ibm": (6.25, 30), "h100-80-ibm": (12.5, 30), "a100-jz": (6.25, 30), "h100-hf": (50, 66)}
INFINIBAND = {"a100": (25, 30), "h100": (50, 30), "h200": (50, 30)}


def attention_of(row):
    """MPT's benchmarks ran in 2023, with FlashAttention or its port to Triton: the scripts beside the table ask for
    `attn_impl: triton`. The others ran PyTorch's own, which was FlashAttention-2."""
    return "first" if row["system"].endswith("-mosaic") else "second"


def machine_of(row, system):
    """A machine profile for a system, as JSON: a built-in one, with what the system is known to have otherwise."""
    device = system["device"]
    base = "a100" if "A100" in device else "h200" if "H200" in device else "h100"
    forward, backward, small = ATTENTION[attention_of(row), base]
    gbps, hop = NETWORKS.get(row["system"], INFINIBAND[base])
    machine = {"version": 1, "base": base, "devices_per_node": system["devices_per_node"],
               "memory_bytes": system["memory_gb"] * 1e9, "executor": executor_of(row),
               "network": {"gbps": gbps, "hop_us": hop}, "attention_small_heads": small}
    clock = 1
    if "HBM2e" in device:
        # 2.4 TB/s and 500 W, as torchtitan's page says of its H100s of 2024. Power beside that of an idle device grows
        # with the third power of the clock.
        machine["memory_gbps"] = REACHED_GBPS * 2.4 / BANDWIDTH
        clock = ((500 - IDLE_POWER) / (POWER - IDLE_POWER)) ** (1 / 3)
    rate = TILES[base] * clock
    machine["tiles"] = {"tflops": {"bf16": rate, "f16": rate}}
    machine |= {"attention_tflops": forward * clock, "attention_backward_tflops": backward * clock}
    return machine


# ---- layouts


def spec(*dims, partial=()):
    text = "[" + ", ".join("{" + ", ".join(f'"{axis}"' for axis in dim) + "}" for dim in dims) + "]"
    return text + (", unreduced={" + ", ".join(f'"{axis}"' for axis in partial) + "}" if partial else "")


class Layout:
    """The layout of a row: which axes split weights, state and activations."""

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
            return [self.tp + over if leaf in COLUMN_BIASES else over]
        if leaf in ROWS or leaf == "embed":
            return [self.tp + over, []]
        return [over, self.tp if leaf in COLUMNS or leaf == "head" else []]


class Module:
    """The ops of a flat module by name, as the plan file lists them, with their types."""

    PASSING = ("convert", "optimization_barrier", "transpose", "reshape")
    STREAM = {"add", "subtract", "multiply", "divide", "convert", "negate", "select"}

    def __init__(self, plan, text):
        self.ops, self.values = plan["ops"], plan["values"]
        self.types, self.forward, count = {}, set(), collections.Counter()
        for line in text.splitlines():
            found = re.match(r'    %[\w:]+ = "?\w+\.(\w+)"?', line)
            if not found:
                continue
            types = re.findall(r"tensor<([^>]*)>", line.split(" -> ")[-1])
            # A barrier has the types of all its results, other ops end with that of their one result.
            kept = types if found[1] == "optimization_barrier" else types[-1:]
            self.types[f"{found[1]}.{count[found[1]]}"] = [text.split("x")[:-1] for text in kept]
            if "contracting_dims = [2] x [0]" in line:  # rows of a weight; its derivative takes columns
                self.forward.add(f"{found[1]}.{count[found[1]]}")
            count[found[1]] += 1

    def kind(self, name):
        return self.ops[name]["op"].split(".")[-1] if name in self.ops else ""

    def shape(self, name):
        name, _, number = name.partition("#")
        types = self.types.get(name)
        return [int(size) for size in types[int(number or 0)]] if types else []

    def root(self, value):
        """The argument that a value is but for its type and order, and whether it is transposed; or None."""
        turned = False
        while not value.startswith("["):
            name, _, number = value.partition("#")
            op = self.ops.get(name)
            if op is None or op["op"].split(".")[-1] not in self.PASSING:
                return None
            turned ^= op["op"].endswith("transpose")
            value = op["operands"][int(number or 0)][0]
        return value, turned

    def weight(self, value):
        found = self.root(value)
        return found if found and found[0].startswith("[0].") else None

    def products(self):
        """For every weight, the products with it: forward, computed again, and the derivative by what enters."""
        found = collections.defaultdict(list)
        for name, op in self.ops.items():
            if not op["op"].endswith("dot_general"):
                continue
            weights = [self.weight(operand[0]) for operand in op["operands"]]
            weights = [weight[0] for weight in weights if weight]
            if len(weights) == 1:
                found[weights[0]].append(name)
        return found


def rank_of(text):
    return text.count("{")


def pins_of_weights(layout, module):
    """Arguments and results as they are kept; converted weights lie the same and are gathered for use, or with tensor
    parallelism, where an op could otherwise gather them over both axes, as they are used."""
    arguments = [name for name in module.values if name.startswith("[")]
    weights = [name for name in arguments if name.startswith("[0].")]
    for name in arguments:
        rank = rank_of(module.values[name])
        if name.startswith("[0]."):
            yield name, spec(*layout.weight(name, rank, layout.shard))
        elif name.startswith("[1].") and rank:
            yield name, spec(*layout.weight(name, rank, layout.state))
        elif rank == 2:  # tokens
            yield name, spec(layout.batch, [])
    for i, name in enumerate(weights):
        yield f"return#{i + 1}", spec(*layout.weight(name, rank_of(module.values[name]), layout.shard))
    for name, op in module.ops.items():
        found = module.weight(name) if op["op"] == "stablehlo.convert" else None
        if found:
            dims = layout.weight(found[0], rank_of(op["results"][0]), [] if layout.tp else layout.shard)
            yield name, spec(*(reversed(dims) if found[1] else dims))


def pins_of_products(layout, module):
    """Results of products with weights, as Megatron has them: split by columns of the weight, or a sum that is still to
    be completed if the weight is split by rows. A sum of such sums is completed once."""
    pending = set()
    for weight, products in module.products().items():
        for name in products:
            if (weight.rsplit(".", 1)[-1] in ROWS) == (name in module.forward):
                pending.add(name)
            else:
                yield name, spec(layout.batch, [], layout.tp)
    for name, op in module.ops.items():
        if op["op"].endswith("add") and all(operand[0] in pending for operand in op["operands"]):
            pending.add(name)
    for name in pending:
        yield name, spec(layout.batch, [], [], partial=layout.tp)


def pins_of_stream(layout, module, width):
    """What is added up from layer to layer, and the norms of it: values of the width of the model that ops compute one
    element at a time. A bias of queries, keys or values belongs to its product. At borders (`borders=yes`), products
    take whole sequences."""
    products = {name: weight.rsplit(".", 1)[-1] for weight, names in module.products().items() for name in names}
    users = collections.defaultdict(set)
    for name, op in module.ops.items():
        for operand in op["operands"]:
            users[operand[0]].add(name)
    for name, op in module.ops.items():
        shape, kind = module.shape(name), op["op"].split(".")[-1]
        if len(shape) != 3 or shape[-1] != width:
            continue
        if kind == "optimization_barrier" and len(op["operands"]) == 1:
            whole = any(user in products for user in users[name])
            yield name, spec(layout.batch, [] if whole else layout.sequence, [])
        elif kind in Module.STREAM and products.get(op["operands"][0][0], "o") in ROWS:
            yield name, spec(layout.batch, layout.sequence, [])


def pins_of_barriers(layout, module, width, pins):
    """What is computed again for the derivative goes through a barrier, with the weights and what comes back: of a whole
    layer, or of one product if FSDP gathers its weight again. What is kept lies as it lay; heads are split."""
    for name, op in module.ops.items():
        if module.kind(name) != "optimization_barrier" or len(op["operands"]) < 2:
            continue
        found = [module.weight(operand[0]) for operand in op["operands"]]
        leaves = [weight[0].rsplit(".", 1)[-1] for weight in found if weight]
        for i, weight in enumerate(found):
            each = f"{name}#{i}"
            shape = module.shape(each)
            if weight:
                dims = layout.weight(weight[0], len(shape), layout.shard)
                yield each, spec(*(reversed(dims) if weight[1] else dims))
            elif len(shape) == 3 and len(leaves) == 1:
                is_split = (leaves[0] in ROWS) == (i == 0)  # what enters it, and what comes back
                yield each, spec(layout.batch, [], layout.tp if is_split else [])
            elif len(shape) == 3 and leaves:
                source = op["operands"][i][0]
                split = module.kind(source) == "reshape" or shape[-1] != width
                known = pins.get(source, spec(layout.batch, *([[], layout.tp] if split else [layout.sequence, []])))
                yield each, known.split(", unreduced")[0]


def pins_of_gradients(layout, module, in_f32):
    """Gradients of matrices are added up over devices at the border behind their conversion; or before it, if not in
    f32."""
    for name, op in module.ops.items():
        if module.kind(name) != "optimization_barrier" or len(op["operands"]) != 1 or module.weight(name):
            continue
        if len(module.shape(name)) != 2:
            continue
        chain = [op["operands"][0][0]]
        while module.kind(chain[-1]) in ("convert", "transpose"):
            chain.append(module.ops[chain[-1]]["operands"][0][0])
        if module.kind(chain[-1]) == "dot_general":
            for each in chain:
                if in_f32 or module.kind(each) != "convert":
                    yield each, "[{?}, {?}]" + spec(partial=layout.batch)[2:]


def reduces_in_f32(row):
    """As the source says, or as Composer's DEFAULT and Megatron do it."""
    extras = row.get("extras") or {}
    return extras.get("reduce_dtype") == "fp32" or "DEFAULT" in row["precision"] or "fp32 grad" in row["precision"]


def pins_of(row, layout, module, width):
    pins = dict(pins_of_weights(layout, module))
    if layout.tp:
        pins.update(pins_of_stream(layout, module, width))
    pins.update(pins_of_products(layout, module))
    pins.update(pins_of_barriers(layout, module, width, pins))
    if layout.batch:
        pins.update(pins_of_gradients(layout, module, reduces_in_f32(row)))
    return [f"{name}={text}" for name, text in pins.items()]


# ---- running


class Planner:
    def __init__(self, cleave, folder, table):
        self.cleave, self.folder, self.table = cleave, pathlib.Path(folder), table
        self.modules = {}  # by model without its batch and length, on which no name depends

    def run(self, tag, model, mesh, machine, pins=(), export=False):
        out, pin_file = self.folder / f"{tag}.plan.json", self.folder / f"{tag}.pins.txt"
        pin_file.write_text("\n".join(pins) + "\n")
        command = [self.cleave, "plan", model, "--mesh", mesh, "--machine", str(machine), "--memory", "1000000GiB",
                   "--solver", "propagation", "--out", str(out)]
        command += ["--pin", f"@{pin_file}"] if pins else []
        self.call(command)
        text = self.call([self.cleave, "plan", model, "--plan", str(out), "--export", "sdy"]) if export else ""
        return json.loads(out.read_text()), text

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def step(self, row, step):
        """The plan of one micro batch in the layout of the row."""
        models, system = self.table["models"], self.table["systems"][row["system"]]
        machine = self.folder / f"{row['id']}.machine.json"
        machine.write_text(json.dumps({"name": row["system"], **machine_of(row, system)}))
        layout, model = Layout(row), model_name(row, models, step)
        key = re.sub(r"(batch|length)=\d+", "", model)
        if key not in self.modules:
            self.modules[key] = Module(*self.run(row["id"], model, "shard=1", machine, export=True))
        module = self.modules[key]
        pins = pins_of(row, layout, module, models[row["model"]]["d_model"])
        return self.run(row["id"], model, layout.mesh, machine, pins)[0]

    def predict(self, row):
        """Seconds of a step: micro batches before the last have no optimizer."""
        train = self.step(row, "train")
        seconds = train["totals"]["step_seconds"]
        if row["grad_accum"] > 1:
            seconds += (row["grad_accum"] - 1) * self.step(row, "grad")["totals"]["step_seconds"]
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
           f"{max(ratios):.2f}; off by {100 * statistics.median(errors):.0f}% at the median, " \
           f"{sum(error <= 0.25 for error in errors)} within 25%"


def describe_totals(plan):
    totals = plan["totals"]
    lines = [f"    {kind['kind']} {kind['axes']}: x{kind['count']:.0f}, {kind['bytes'] / 2**30:.2f} GiB, "
             f"{kind['seconds']:.3f} s" for kind in totals["collectives"]]
    return lines + [f"    compute {totals['compute_seconds']:.3f} s, step {totals['step_seconds']:.3f} s, without overlap "
                    f"{totals['seconds']:.3f} s, peak {plan['memory']['peak'] / 2**30:.1f} GiB"]


def line_of(row, seconds):
    measured = step_time(row)
    return (row["id"], row["model"], row["seq_len"], row["system"], describe(row),
            f"{row['micro_batch']} x {row['grad_accum']}", row["activation_checkpointing"], f"{seconds:.3f}",
            f"{measured:.3f}", f"{seconds / measured:.2f}")


def write_markdown(path, lines, text):
    head = ("row", "model", "length", "system", "layout", "micro batch x steps", "recomputation", "predicted s",
            "measured s", "ratio")
    body = ["| " + " | ".join(map(str, line)) + " |" for line in [head, ("---",) * len(head), *lines]]
    path.write_text("\n".join(body + [""] + [f"- {line}" for line in text]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--cleave", default=str(ROOT / "build/release/cleave"))
    parser.add_argument("--rows", default="", help="only these ids, after commas")
    parser.add_argument("--every", type=int, default=1, help="every so many rows of those that qualify")
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time")
    parser.add_argument("--totals", action="store_true", help="print the totals of each plan by kind of collective")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there")
    args = parser.parse_args()
    table = json.loads(args.table.read_text())
    wanted = set(filter(None, args.rows.split(",")))
    left_out = collections.Counter(filter(None, (skipped(row, table["systems"]) for row in table["rows"])))
    rows = [row for row in table["rows"] if not skipped(row, table["systems"])]
    rows = [row for row in rows if not wanted or row["id"] in wanted][::args.every]
    lines, groups = [], collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        planner = Planner(args.cleave, folder, table)
        for number, (row, made) in enumerate([(row, pool.submit(planner.predict, row)) for row in rows], 1):
            try:
                seconds, plan = made.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{row['id']} failed: {str(error)[-1000:]}", file=sys.stderr, flush=True)
                continue
            groups[group_of(row)].append(seconds / step_time(row))
            lines.append(line_of(row, seconds))
            print(f"{number} of {len(rows)}: " + " | ".join(str(cell) for cell in lines[-1]), flush=True)
            if args.totals:
                print("\n".join(describe_totals(plan)), flush=True)
    text = [f"{name}: {summary(ratios)}" for name, ratios in sorted(groups.items())]
    everything = [ratio for ratios in groups.values() for ratio in ratios]
    if everything:
        text.append(f"all: {summary(everything)}")
    text.append("left out: " + ", ".join(f"{count} {why}" for why, count in left_out.items()))
    print("\n".join(text))
    if args.markdown:
        write_markdown(args.markdown, lines, text)


if __name__ == "__main__":
    main()
