"""Synthetic reports: the data of a page without a planner.

A report is built like a real one: a GPT of blocks with forward and backward ops, changes of layout where a layout
differs, a schedule of three streams, and the buffers of its memory. `gpt(layers=4)` is small; `of_size(50_000)` has as
many ops as asked for. `hostile` puts markup into every string of a report.
"""

import base64
import json
import pathlib
import zlib

PAGE = pathlib.Path(__file__).resolve().parents[2] / "cleave" / "report" / "page"
CLASSES = ["parameters", "optimizer state", "inputs", "activations", "temporaries", "results"]
HOSTILE = "<img src=x onerror=alert(1)>\"'`&amp;</script><script>alert(2)</script>\u2028\u2029{{}}${alert(3)}"


class Table:
    """Distinct things, each known by its place."""

    def __init__(self):
        self.items, self.places = [], {}

    def place(self, item, key=None):
        key = key if key is not None else item
        if key not in self.places:
            self.places[key] = len(self.items)
            self.items.append(item)
        return self.places[key]


class PlanBuilder:
    def __init__(self, axes, limit=2 << 30, share=0.9):
        self.axes = axes  # (name, size, kind)
        self.strings, self.spec_table, self.type_table, self.ways = Table(), Table(), Table(), []
        self.blocks, self.block_places = [], {}
        self.ops = {name: [] for name in (
            "name", "kind", "type", "seconds", "times", "line", "block", "group", "class", "operands", "in", "out",
            "alternatives")}
        self.args = {name: [] for name in ("name", "type", "spec", "role", "group")}
        self.changes = {name: [] for name in (
            "kind", "axes", "bytes", "seconds", "times", "exposed", "hidden", "op", "source", "type", "from", "to",
            "line", "reason", "stream", "group")}
        self.counters, self.limit, self.share = {}, limit, share
        self.block("step", -1)

    def text(self, text):
        return self.strings.place(text)

    def spec(self, *dims, pending=(), pre=()):
        """Each dimension: the names of its axes, or (name, pre, size); `pending` likewise."""
        index = {axis[0]: i for i, axis in enumerate(self.axes)}

        def ref(axis):
            name, before, size = axis if isinstance(axis, tuple) else (axis, 1, self.axes[index[axis]][1])
            whole = before == 1 and size == self.axes[index[name]][1]
            return [index[name], before, size], f'"{name}"' + ("" if whole else f":({before}){size}")

        refs = [[ref(axis) for axis in dim] for dim in dims]
        waits = [ref(axis) for axis in pending]
        text = "[" + ", ".join("{" + ", ".join(t for _, t in dim) + "}" for dim in refs) + "]"
        if waits:
            text += ", unreduced={" + ", ".join(t for _, t in waits) + "}"
        return self.spec_table.place(
            {"text": text, "dims": [[r for r, _ in dim] for dim in refs], "replicated": [],
             "unreduced": [r for r, _ in waits], "reduction": "sum"}, text)

    def type(self, *shape, dtype="f32"):
        size = 4 if dtype == "f32" else 2
        for n in shape:
            size *= n
        text = "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"
        return self.type_table.place({"text": text, "shape": list(shape), "dtype": dtype, "bytes": size}, text)

    def block(self, name, parent, like=-1):
        if (parent, name) not in self.block_places:
            self.block_places[parent, name] = len(self.blocks)
            self.blocks.append({"name": self.text(name), "parent": parent, "like": like, "count": 1})
            if like >= 0:
                self.blocks[like]["count"] += 1
        return self.block_places[parent, name]

    def arg(self, name, type_, spec, role, group):
        for key, value in zip(self.args, (self.text(name), type_, spec, self.text(role), group)):
            self.args[key].append(value)
        return -len(self.args["name"])

    def op(self, kind, operands, layouts, out, type_, block, line, seconds, class_=None, times=1, ways=True):
        number = self.counters[kind] = self.counters.get(kind, -1) + 1
        name = f"{kind}.{number}"
        place = len(self.ops["name"])
        class_ = class_ or {"dot_general": "matmul", "reduce": "reduction", "transpose": "transpose"}.get(
            kind, "elementwise")
        alternatives = -1
        if ways and kind == "dot_general":
            alternatives = self.alternatives(layouts, out, seconds)
        for key, value in zip(self.ops, (self.text(name), self.text("stablehlo." + kind), type_, seconds, times,
                                         self.text(line), block, 0, self.text(class_), operands, layouts, [out],
                                         alternatives)):
            self.ops[key].append(value)
        for operand, wanted in zip(operands, layouts):
            has = self.args["spec"][-1 - operand] if operand < 0 else self.ops["out"][operand][0]
            if has != wanted:
                self.change(place, operand, has, wanted, line)
        return place

    def change(self, op, source, from_, to, line):
        before, after = self.spec_table.items[from_], self.spec_table.items[to]
        flat = lambda dims: {tuple(r) for dim in dims for r in dim}
        gone = flat(before["dims"]) - flat(after["dims"])
        gained = flat(after["dims"]) - flat(before["dims"])
        if before["unreduced"]:
            kind = "reduce_scatter" if gained else "all_reduce"
            axes = before["unreduced"]
        elif gone and gained:
            kind, axes = "all_to_all", sorted(gone | gained)
        elif gone:
            kind, axes = "all_gather", sorted(gone)
        else:
            kind, axes = "all_slice", sorted(gained)
        across = any(self.axes[a[0]][2] == "across" for a in axes)
        type_ = self.args["type"][-1 - source] if source < 0 else self.ops["type"][source]
        group = 1
        for a in axes:
            group *= a[2]
        shards = 1
        for dim in after["dims"]:
            for ref in dim:
                shards *= ref[2]
        received = 0 if kind == "all_slice" else self.type_table.items[type_]["bytes"] / shards * (group - 1) / group
        seconds = 1.2e-6 if kind == "all_slice" else (9e-6 if across else 4e-6) + received / (5e10 if across else 4.5e11)
        names = ", ".join(f'"{self.axes[a[0]][0]}"' for a in axes)
        hidden = seconds * (0.75 if len(self.changes["kind"]) % 3 else 0.0)
        who = self.strings.items[self.ops["name"][op]] if op >= 0 else "a result"
        row = (self.text(kind), self.text(names), received, seconds, 1, seconds - hidden, hidden, op, source, type_,
               from_, to, self.text(line), self.text(f"{who} reads it as {after['text']}: split alike it runs without "
                                                     "a sum, which costs less than this change"),
               0 if kind == "all_slice" else 2 if across else 1, 0)
        for key, value in zip(self.changes, row):
            self.changes[key].append(value)

    def alternatives(self, layouts, out, seconds):
        def text(ins, result):
            spec = lambda i: self.spec_table.items[i]["text"]
            return ", ".join(map(spec, ins)) + " -> " + spec(result)

        ways = [{"layouts": self.text(text(layouts, out)), "compute": seconds, "operands": 1.19e-6, "results": 0.0,
                 "bytes": 57344, "chosen": 1, "why": self.text("")}]
        for i, (more, what) in enumerate([(0.4, "compute"), (1.5, "for operands"), (2.7, "for results")]):
            spec = self.spec([], ["model"] if i else [], [])
            ways.append({"layouts": self.text(text(layouts, spec)), "compute": seconds * (1 + more * (i == 0)),
                         "operands": 1.19e-6 + seconds * more * (i == 1), "results": seconds * more * (i == 2),
                         "bytes": 57344 * (i + 2), "chosen": 0,
                         "why": self.text(f"{seconds * more * 1e6:.2f} us more {what}, {56 * (i + 1)}.0 KiB more memory")})
        self.ways.append({"count": 29, "list": ways})
        return len(self.ways) - 1

    def schedule(self):
        """Ops one after another; each change on its stream, next to the op before."""
        events = {name: [] for name in ("stream", "start", "length", "op", "change", "executions", "exposed", "critical")}
        waiting = {}
        for i, op in enumerate(self.changes["op"]):
            waiting.setdefault(op, []).append(i)
        now, busy, exposed_all = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0.0

        def event(stream, start, length, op, change, times, exposed, critical):
            for key, value in zip(events, (stream, start, length, op, change, times, exposed, critical)):
                events[key].append(value)
            busy[stream] += length

        def do_change(i):
            nonlocal exposed_all
            stream, exposed = self.changes["stream"][i], self.changes["exposed"][i]
            length = self.changes["seconds"][i]
            start = max(now[stream], now[0] + exposed - length, 0.0)
            event(stream, start, length, -1, i, 1, exposed if stream else 0.0, int(exposed > 0))
            now[stream] = start + length
            if stream:
                exposed_all += max(0.0, now[stream] - now[0])
            now[0] = max(now[0], now[stream])

        for op, seconds in enumerate(self.ops["seconds"]):
            for i in waiting.get(op, []):
                do_change(i)
            length = seconds * self.ops["times"][op]
            if length > 0:
                event(0, now[0], length, op, -1, self.ops["times"][op], 0.0, 1)
                now[0] += length
        for i in waiting.get(-1, []):
            do_change(i)
        return {"seconds": max(now), "streams": ["compute", "inside a node", "across nodes"], "busy": busy,
                "slowed": 0.0, "exposed": exposed_all, "events": events, "more": []}

    def memory(self):
        last = {}
        for op, operands in enumerate(self.ops["operands"]):
            for source in operands:
                last[source] = op
        steps = len(self.ops["name"])
        buffers = {name: [] for name in ("label", "type", "cls", "bytes", "first", "last")}

        def local(type_, spec):
            size = self.type_table.items[type_]["bytes"]
            for dim in self.spec_table.items[spec]["dims"]:
                for ref in dim:
                    size //= ref[2]
            return size

        def buffer(label, type_, cls, size, first, last_step):
            text = self.type_table.items[type_]["text"]
            for key, value in zip(buffers, (self.text(label), self.text(text), cls, size, first, last_step)):
                buffers[key].append(value)

        for i, name in enumerate(self.args["name"]):
            cls = CLASSES.index(self.strings.items[self.args["role"][i]])
            buffer("%" + self.strings.items[name], self.args["type"][i], cls,
                   local(self.args["type"][i], self.args["spec"][i]), 0, steps - 1)
        for op in range(steps):
            end = last.get(op, op)
            cls = 3 if end - op > 20 else 4
            buffer(self.strings.items[self.ops["kind"][op]], self.ops["type"][op], cls,
                   local(self.ops["type"][op], self.ops["out"][op][0]), op, end)
        change = [0] * (steps + 1)
        for size, first, end in zip(buffers["bytes"], buffers["first"], buffers["last"]):
            change[first] += size
            change[end + 1] -= size
        held, now = [], 0
        for s in range(steps):
            now += change[s]
            held.append(now)
        inside = [4096 if self.strings.items[c] == "matmul" else 0 for c in self.ops["class"]]
        held = [a + b for a, b in zip(held, inside)]
        top = max(range(steps), key=lambda s: held[s])
        arguments = sum(b for b, c in zip(buffers["bytes"], buffers["cls"]) if c < 3)
        usable = int(self.limit * self.share)
        return {"limit": usable, "device": self.limit, "share": self.share, "peak": int(held[top] * 0.97),
                "peak_at": self.strings.items[self.ops["name"][top]], "arguments": arguments,
                "program_peak": held[top], "program_peak_step": top, "steps": steps, "classes": CLASSES,
                "step_op": list(range(steps)), "step_change": [-1] * steps, "held": held, "buffers": buffers,
                "inside": inside}

    def groups(self):
        rows = {}
        for i in range(len(self.ops["name"])):
            key = ("op", self.ops["kind"][i], self.ops["type"][i], tuple(self.ops["in"][i]), self.ops["out"][i][0])
            rows.setdefault(key, []).append(i)
        for i in range(len(self.changes["kind"])):
            key = ("change", self.changes["kind"][i], self.changes["axes"][i], self.changes["type"][i],
                   self.changes["from"][i], self.changes["to"][i])
            rows.setdefault(key, []).append(i)
        spec = lambda i: self.spec_table.items[i]["text"]
        groups = []
        for key, members in rows.items():
            table = self.ops if key[0] == "op" else self.changes
            seconds = sum(table["seconds"][i] * table["times"][i] for i in members)
            if seconds == 0:
                for i in members:
                    table["group"][i] = -1
                continue
            first = members[0]
            if key[0] == "op":
                what = self.strings.items[key[1]].removeprefix("stablehlo.")
                layouts = ", ".join(map(spec, key[3])) + " -> " + spec(key[4])
                op, type_ = first, key[2]
            else:
                op, type_ = self.changes["op"][first], key[3]
                example = self.strings.items[self.ops["name"][op]] if op >= 0 else "the results"
                what = f"{self.strings.items[key[1]]} {self.strings.items[key[2]]} for {example.split('.')[0]}"
                layouts = spec(key[4]) + " -> " + spec(key[5])
            groups.append((seconds, members, table, {
                "what": what, "type": self.text(self.type_table.items[type_]["text"]),
                "layouts": self.text(layouts), "count": len(members),
                "times": sum(table["times"][i] for i in members), "seconds": seconds, "op": op}))
        groups.sort(key=lambda g: -g[0])
        for place, (_, members, table, _) in enumerate(groups):
            for i in members:
                table["group"][i] = place
        return [g[3] for g in groups]

    def finish(self, title, source, machine, per_node):
        memory, schedule, groups = self.memory(), self.schedule(), self.groups()
        devices = 1
        for _, size, _ in self.axes:
            devices *= size
        axes = [{"name": n, "size": s, "kind": k, "nodes": 2 if k == "across" else 1, "ranks": s,
                 "gbps": 50.0 if k == "across" else 450.0, "latency_us": 9.0 if k == "across" else 4.0,
                 "text": f"{n}: {s} devices " + ("across nodes" if k == "across" else "inside a node")}
                for n, s, k in self.axes]
        classes, totals = {}, {}
        for i, class_ in enumerate(self.ops["class"]):
            name = self.strings.items[class_]
            classes[name] = classes.get(name, 0.0) + self.ops["seconds"][i] * self.ops["times"][i]
        for i, kind in enumerate(self.changes["kind"]):
            key = self.strings.items[kind], self.strings.items[self.changes["axes"][i]]
            row = totals.setdefault(key, {"kind": key[0], "axes": key[1], "count": 0, "bytes": 0.0, "seconds": 0.0})
            row["count"] += 1
            row["bytes"] += self.changes["bytes"][i]
            row["seconds"] += self.changes["seconds"][i]
        collectives = sorted(totals.values(), key=lambda t: -t["seconds"])
        compute, communication = sum(classes.values()), sum(t["seconds"] for t in collectives)
        step = schedule["seconds"]
        lower = step * 0.94
        patterns = [{"ops": self.ops["kind"].count(self.text("stablehlo.dot_general")),
                     "example": self.ops["kind"].index(self.text("stablehlo.dot_general")),
                     "names": ["data parallel over \"data\"", "column parallel over \"model\""],
                     "types": "tensor<8x32x128xf32>, tensor<128x128xf32>", "weight": "layers[0].attention.q",
                     "weight_layout": '[{}, {"model"}]', "result_layout": '[{"data"}, {}, {"model"}]'}]
        text = (f"{step * 1e6:.2f} us, at least {lower * 1e6:.2f} us (gap 6.000%)" if step < 1e-3 else
                f"{step * 1e3:.2f} ms, at least {lower * 1e3:.2f} ms (gap 6.000%)")
        mesh = "<[" + ", ".join(f'"{n}"={s}' for n, s, _ in self.axes) + "]>"
        return {
            "title": title, "module": "main", "source": source, "machine": machine, "executor": "xla",
            "entry": "main", "objective": "step", "trips": 1.0, "mesh_text": mesh,
            "notes": ["A note of the planner, with a <tag> in it."], "fingerprint": "d483fefde568c412",
            "mesh": {"axes": axes, "devices": devices, "devices_per_node": per_node, "order": None},
            "totals": {"seconds": compute + communication, "compute": compute, "step": step,
                       "communication": communication, "exposed": schedule["exposed"], "slowed": 0.0,
                       "received_bytes": sum(t["bytes"] for t in collectives), "collectives": collectives},
            "bound": {"solver": "cleave", "exists": True, "lower": lower, "gap": 0.06, "proven": False, "cut": False,
                      "alike": False, "step_bound": lower, "step_gap": 0.06, "model_gap": 0.004, "text": text},
            "memory": memory,
            "figures": {"model_flops": 8.3e8, "recomputed": 0.0, "dtype": "tf32", "peak_flops": 3.96e15, "mfu": 2.1e-4,
                        "items": "tokens", "items_per_second": 257746.36,
                        "limits": [{"what": "products", "seconds": step * 0.31},
                                   {"what": "memory", "seconds": step * 0.22},
                                   {"what": "launches", "seconds": step * 0.12},
                                   {"what": "communication", "seconds": step * 0.35}],
                        "text": "MFU 0.0211%: 8.3e+08 FLOP of the model a step, 3960 TFLOP/s of tf32 at most\n"
                                "2.577e+05 tokens/s\n"},
            "strings": self.strings.items, "specs": self.spec_table.items, "types": self.type_table.items,
            "blocks": self.blocks, "args": self.args, "arg_groups": self.arg_groups, "ops": self.ops,
            "changes": self.changes, "groups": groups,
            "classes": [{"what": w, "seconds": s} for w, s in sorted(classes.items(), key=lambda c: -c[1])],
            "patterns": patterns, "schedule": schedule, "ways": self.ways, "measured": None}


def gpt(layers=4, axes=(("data", 4, "across"), ("model", 4, "inside")), extra=0, batch=8, hidden=128, uneven=False,
        seconds=1.0, moved=0):
    """A plan of a train step: `extra` elementwise ops are added to every layer, of which each `moved`th is not split."""
    p = PlanBuilder(list(axes))
    names = [a[0] for a in axes]
    data, model = names[0], names[-1]
    width = hidden + (5 if uneven else 0)
    rows = p.spec([data], [], [])
    columns = p.spec([data], [], [model])
    weight, weight_t = p.spec([], [model]), p.spec([model], [])
    sharded = p.spec([data, model], [])
    pending = p.spec([data], [], [], pending=[model])
    whole, vector = p.spec([], []), p.spec([])
    gradient = p.spec([], [model], pending=[data])
    state = p.type(batch, 32, width)
    us = 1e-6 * seconds
    p.arg_groups = []

    def add_group(role, pattern_name, count, type_, spec, pattern):
        p.arg_groups.append({"role": role, "name": pattern_name, "count": count, "type": type_, "spec": spec,
                             "pattern": pattern})
        return len(p.arg_groups) - 1

    parts = {"attention.q": (width, hidden), "attention.o": (hidden, width), "feed_forward.up": (width, 4 * hidden),
             "feed_forward.down": (4 * hidden, width)}
    groups, moments = {}, {}
    embed_type = p.type(256, width)
    embed_group = add_group("parameters", "[0].embed", 1, embed_type, sharded, "fully sharded over all axes")
    embed = p.arg("[0].embed", embed_type, sharded, "parameters", embed_group)
    norm_group = add_group("parameters", "[0].layers[*].norm", layers, p.type(width), vector, "whole on every device")
    for name, shape in parts.items():
        spec = weight if name.endswith(("q", "up")) else weight_t
        groups[name] = add_group("parameters", f"[0].layers[*].{name}", layers, p.type(*shape), spec,
                                 f'data parallel over "{data}", tensor parallel over "{model}"')
    for name, shape in parts.items():
        moments[name] = add_group("optimizer state", f"[1].m.layers[*].{name}", layers, p.type(*shape), sharded,
                                  f'dimension 0 split over "{data}", "{model}"')
    inputs = add_group("inputs", "[2]", 1, p.type(batch, 32), p.spec([data], []), f'data parallel over "{data}"')
    tokens = p.arg("[2]", p.type(batch, 32, dtype="i32"), p.spec([data], []), "inputs", inputs)

    model_block = p.block("transformer", 0)
    layer_blocks, weights, saved = [], [], []
    x = p.op("gather", [embed, tokens], [whole, p.spec([data], [])], rows, state, model_block, "model.py:12", 4 * us)
    for layer in range(layers):
        first = layer_blocks[0] if layer_blocks else None
        block = p.block(f"layers[{layer}]", model_block, -1 if first is None else first["layer"])
        here = {"layer": block}
        for part in ("attention", "feed_forward"):
            here[part] = p.block(part, block, -1 if first is None else first[part])
        layer_blocks.append(here)
        norm = p.arg(f"[0].layers[{layer}].norm", p.type(width), vector, "parameters", norm_group)
        w = {name: p.arg(f"[0].layers[{layer}].{name}", p.type(*shape),
                         weight if name.endswith(("q", "up")) else weight_t, "parameters", groups[name])
             for name, shape in parts.items()}
        m = {name: p.arg(f"[1].m.layers[{layer}].{name}", p.type(*shape), sharded, "optimizer state", moments[name])
             for name, shape in parts.items()}
        weights.append((w, m))
        square = p.op("multiply", [x, x], [rows, rows], rows, state, block, "model.py:20", 1.1 * us)
        mean = p.op("reduce", [square], [rows], p.spec([data], []), p.type(batch, 32), block, "model.py:20", 0.6 * us)
        normed = p.op("multiply", [x, norm], [rows, vector], rows, state, block, "model.py:21", 1.2 * us)
        saved.append(normed)
        inner = p.type(batch, 32, hidden)
        for part, up, down, line in (("attention", "attention.q", "attention.o", 31),
                                     ("feed_forward", "feed_forward.up", "feed_forward.down", 47)):
            wide = inner if part == "attention" else p.type(batch, 32, 4 * hidden)
            h = p.op("dot_general", [normed, w[up]], [rows, weight], columns, wide, here[part], f"model.py:{line}",
                     (9 if part == "attention" else 21) * us)
            a = p.op("logistic", [h], [columns], columns, wide, here[part], f"model.py:{line + 1}", 0.8 * us)
            h = p.op("multiply", [h, a], [columns, columns], columns, wide, here[part], f"model.py:{line + 1}", 0.9 * us)
            if part == "attention":
                for i in range(extra):
                    layout = rows if moved and i % moved == 1 else columns
                    h = p.op("tanh" if i % 2 else "add", [h], [layout], layout, wide, here[part],
                             f"model.py:{60 + i % 40}", 0.2 * us)
                heads = p.spec([data], [model], [], [])
                grid = p.type(batch, 4, 32, hidden // 4)
                t = p.op("transpose", [h], [columns], heads, grid, here[part], "model.py:33", 0.4 * us)
                h = p.op("reshape", [t], [heads], columns, wide, here[part], "model.py:34", 0)
            o = p.op("dot_general", [h, w[down]], [columns, weight_t], pending, state, here[part],
                     f"model.py:{line + 3}", (8 if part == "attention" else 20) * us)
            x = p.op("add", [x, o], [rows, rows], rows, state, here[part], f"model.py:{line + 4}", 1.3 * us)
            normed = x
        del mean
    loss_block = p.block("loss", 0)
    logits = p.op("dot_general", [x, embed], [rows, p.spec([model], [])], p.spec([data], [], [model]),
                  p.type(batch, 32, 256), loss_block, "model.py:70", 12 * us)
    loss = p.op("reduce", [logits], [p.spec([data], [], [model])], p.spec(pending=[data, model]), p.type(), loss_block,
                "model.py:71", 1 * us)
    p.op("negate", [loss], [p.spec()], p.spec(), p.type(), loss_block, "model.py:71", 0.1 * us)
    grad = logits
    back = p.block("backward", 0)
    update = p.block("optimizer", 0)
    first_back = None
    for layer in reversed(range(layers)):
        block = p.block(f"layers[{layer}]", back, -1 if first_back is None else first_back)
        first_back = block if first_back is None else first_back
        w, m = weights[layer]
        for name, shape in reversed(parts.items()):
            spec = weight if name.endswith(("q", "up")) else weight_t
            dw = p.op("dot_general", [saved[layer], grad], [rows, p.ops["out"][grad][0]], gradient, p.type(*shape),
                      block, "model.py:31", 17 * us)
            grad = p.op("dot_general", [grad, w[name]], [p.ops["out"][grad][0], spec], rows, state, block,
                        "model.py:31", 18 * us)
            g = p.op("multiply", [dw, m[name]], [sharded, sharded], sharded, p.type(*shape), update, "optimizer.py:9",
                     0.7 * us)
            p.op("subtract", [w[name], g], [spec, spec], spec, p.type(*shape), update, "optimizer.py:12", 0.5 * us)
    return p.finish("model:gpt?step=train", "model:gpt?step=train", "h100", 8)


def of_size(ops):
    """A plan of about so many ops, in 32 layers."""
    return gpt(layers=32, extra=max(0, (ops - 32 * 34) // 32), seconds=0.1, moved=12)


def report(*plans, kind="plan", **more):
    return {"format": "cleave-page", "version": 1, "made_by": "cleave 0.1.0", "kind": kind, "plans": list(plans),
            "compare": None, "front": [], "infeasible": None, "discovery": None, **more}


def compared():
    before = gpt()
    after = gpt(axes=(("data", 2, "across"), ("model", 8, "inside")))
    for arg in (2, 4, 6):  # some weights lie otherwise
        after["args"]["spec"][arg] = after["args"]["spec"][0]
    a, b = before["totals"], after["totals"]
    rows = []
    for i, name in enumerate(before["args"]["name"]):
        text = lambda p: p["specs"][p["args"]["spec"][i]]["text"]
        if text(before) != text(after):
            rows.append({"what": "value", "name": before["strings"][name], "before": text(before),
                         "after": text(after), "seconds": None})
    for i, (x, y) in enumerate(zip(before["ops"]["seconds"], after["ops"]["seconds"])):
        if i % 3 == 0:
            rows.append({"what": "op", "name": before["strings"][before["ops"]["name"][i]],
                         "before": f"{x * 1e6:.2f} us", "after": f"{y * 1e6 * 1.1:.2f} us",
                         "seconds": y * 1.1 - x if i % 2 else x - y * 1.2})
    totals = [{"what": "step", "name": "step", "before": f"{a['step'] * 1e6:.2f} us",
               "after": f"{b['step'] * 1e6:.2f} us", "seconds": b["step"] - a["step"]},
              {"what": "memory", "name": "memory peak", "before": "3.40 MiB", "after": "2.10 MiB", "seconds": None}]
    why = ["The axes differ: \"data\" has 2 devices instead of 4, so sums over gradients take less.",
           "\"model\" has 8 devices instead of 4: each product of a layer is half as large on a device."]
    return report(before, after, compare={"before": 0, "after": 1, "rows": rows, "totals": totals, "why": why})


def front():
    plans = [gpt(layers=n) for n in (2, 3, 4)]
    rows = [{"limit": 1 << 21, "share": 0.9, "plan": -1, "step": 0, "bound": 0, "memory": 0,
             "reason": "no plan needs less than 3.10 MiB"}]
    for i, plan in enumerate(reversed(plans)):
        rows.append({"limit": (4 + 4 * i) << 20, "share": 0.9, "plan": 2 - i, "step": plan["totals"]["step"],
                     "bound": plan["bound"]["step_bound"], "memory": plan["memory"]["peak"], "reason": ""})
    return report(*plans, front=rows)


def infeasible():
    return report(kind="infeasible", infeasible={
        "title": "model:gpt?step=train", "machine": "h100", "mesh": '<["data"=2, "model"=4]>', "limit": 943718,
        "share": 0.9, "least": 1887436, "least_at": "dot_general.18", "enough": 2097152,
        "conflict": ["[0].embed is pinned to [{}, {}]: 128.0 KiB on every device",
                     "dot_general.18 holds 256.0 KiB of operands, however they lie"],
        "bytes": ["128.0 KiB  parameters  [0].embed", "256.0 KiB  operands of dot_general.18"],
        "text": "no plan fits into 0.90 MiB: at least 1.80 MiB at dot_general.18"})


def discovery():
    rows = [
        (["Shard(0)", "Replicate"], "Shard(0)", "proved", "", "The result's dimension 0 is the operand's.", -1),
        (["Replicate", "Shard(1)"], "Shard(1)", "proved", "", "The result's dimension 1 is the operand's.", -1),
        (["Shard(1)", "Shard(0)"], "Partial(sum)", "tested", "", "Sums over the split dimension are added.", -1),
        (["Partial(sum)", "Replicate"], "Partial(sum)", "implied", "", "It is linear in operand 0.", -1),
        (["Shard(0)", "Replicate"], "Replicate", "refuted", "", "", 0),
        (["Shard(0)", "Shard(0)"], "Shard(0)", "conditional", "dim == 0", "With a batch.", -1),
        (["Partial(max)", "Replicate"], "Partial(max)", "rejected", "", "A maximum does not pass a product.", 1),
        (["Shard(1)", "Replicate"], "Shard(1)", "untestable", "", "The shapes do not fit.", -1)]
    whole = {"shape": [4, 3], "values": [float(i) for i in range(12)]}
    shard = lambda a: {"shape": [2, 3], "values": [float(a * 6 + i) for i in range(6)]}
    other = {"shape": [3, 2], "values": [1, 0, 0, 1, 1, -1]}
    witness = {"text": "Shard(0), Replicate -> Replicate is wrong", "call": "dot(A, B)", "world": 2,
               "operands": [{"whole": whole, "shards": [shard(0), shard(1)]}, {"whole": other, "shards": [other, other]}],
               "result": {"expected": {"shape": [4, 2], "values": [2, -1, 8, -1, 14, -1, 20, -1]},
                          "devices": [{"shape": [2, 2], "values": [2, -1, 8, -1]},
                                      {"shape": [2, 2], "values": [14, -1, 20, -1]}]},
               "element": [2, 0], "note": "Device 0 has no row 2."}
    document = {"operator": "stablehlo.dot_general", "signature": "dot_general(lhs, rhs)",
                "analysis": {"category": "matmul-like", "dim_parameter": None, "parameters": [],
                             "mathematical_properties": [{"name": "linear", "about": "operand 0", "how": "proved",
                                                          "tests": 6}], "deterministic": True,
                             "depends_on_attributes": []},
                "counts": {"tests": 1042}, "seconds": 1.5, "seed": 1, "tolerance": 1e-9, "versions": {"cleave": "0.1.0"},
                "sample_inputs_tested": {"shapes": [[[4, 3], [3, 2]]], "dtypes": ["f64"], "world_size": [2, 3, 4]},
                "matrix": {"results": 1, "operands": ["lhs", "rhs"], "columns": [
                    "Replicate", "Shard(0)", "Shard(1)", "Partial(max)", "Partial(sum)"], "rows": [
                    {"inputs": i, "output": o, "result": 0, "verdict": v, "condition": c, "justification": j,
                     "witness": w, "tests": 12} for i, o, v, c, j, w in rows]},
                "witnesses": [witness, dict(witness, text="Partial(max), Replicate -> Partial(max) is wrong")]}
    return report(kind="discovery", discovery=document)


def measured(document):
    plan = document["plans"][0]
    ops = [i for i, s in enumerate(plan["ops"]["seconds"]) if s > 0]
    plan["measured"] = {
        "source": "run.json", "text": "Measured on 16 devices, the median of 20 steps.",
        "ops": {"op": ops, "seconds": [plan["ops"]["seconds"][i] * (0.8 + (i * 7 % 13) / 20) for i in ops],
                "times": [1] * len(ops)},
        "changes": {"change": list(range(len(plan["changes"]["kind"]))),
                    "seconds": [s * (0.9 + (i % 5) / 10) for i, s in enumerate(plan["changes"]["seconds"])],
                    "times": [1] * len(plan["changes"]["kind"])},
        "total": plan["totals"]["step"] * 1.07,
        "checks": [{"ok": True, "text": "65 results are those of one device"},
                   {"ok": False, "text": "memory of a device: measured 4.7 MiB, predicted 4.1 MiB"},
                   {"ok": None, "text": "no collectives were counted"}]}
    return document


def hostile(document):
    """The same report with markup in every string that can come from a module."""
    kept = {"kind", "format", "verdict", "objective", "dtype", "reduction", "what"}

    def change(value, key=""):
        if isinstance(value, str):
            return value if key in kept else HOSTILE + value
        if isinstance(value, list):
            return [change(v, key) for v in value]
        if isinstance(value, dict):
            return {k: change(v, k) for k, v in value.items()}
        return value

    return change(document)


def embedded(document):
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def page(document):
    """The page as the command joins it: the template with its styles, its script and the report."""
    order = [name for name in (PAGE / "order.txt").read_text().split() if name]
    joined = lambda end: "\n".join((PAGE / name).read_text() for name in order if name.endswith(end))
    title = document["plans"][0]["title"] if document["plans"] else "cleave"
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    text = (PAGE / "page.html").read_text()
    for mark, part in (("@STYLE@", joined(".css")), ("@SCRIPT@", joined(".js")), ("@TITLE@", escaped),
                       ("@REPORT@", embedded(document))):
        before, after = text.split(mark)
        text = before + part + after
    return text
