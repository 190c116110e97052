"""From a StableHLO module to a torch.fx.GraphModule of ATen ops: the functions, their regions, and what is around them."""

import json

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cleave import _core
from cleave._core import UserError
from cleave.torch.execution import (  # noqa: F401  (they fill the table)
    calls, collectives, control, convolutions, elementwise, gathers, linalg, products, reductions, scatters, sorting,
    views, windows,
)  # fmt: skip
from cleave.torch.execution.attributes import kind_of
from cleave.torch.execution.builder import Builder, Value
from cleave.torch.execution.dtypes import border, carrier
from cleave.torch.execution.groups import partition_of
from cleave.torch.execution.table import TABLE, Op

aten = torch.ops.aten
OPTIMIZERS = ("cleave.optimizer", "optimizer")


class Translation:
    """One module for one rank. `b` is the builder; functions of the table ask it and `regions` for nodes."""

    def __init__(self, functions, rank, groups, device, fake_mode=None):
        self.functions, self.rank, self.groups = functions, rank, groups
        self.b = Builder(device, fake_mode)

    def op(self, op, operands):
        function = TABLE.get(op.name)
        if function is None:
            raise op.error(operands)
        try:
            found = function(self, op, *operands)
        except (UserError, _core.InternalError):
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise op.error(operands, f"PyTorch refuses it: {lines[0]}") from error
        return found if isinstance(found, list) else [found]

    def block(self, nodes, values):
        """Runs nodes over an environment of names; what the terminator returns."""
        live = live_nodes(nodes)
        for data in nodes:
            if id(data) not in live:
                continue
            op = Op(data, values)
            operands = [values[name] for name in op.operands]
            if op.name in ("func.return", "stablehlo.return", "sdy.return"):
                return operands
            values.update(zip(op.results, self.op(op, operands)))
        return []

    def region(self, op, number, arguments):
        """The results of a region of an op for arguments. It sees the names around it."""
        region, inner = op.regions[number], dict(op.scope)
        inner.update((argument["name"], value) for argument, value in zip(region["arguments"], arguments))
        return self.block(region["nodes"], inner)

    def function(self, name, arguments):
        if name not in self.functions:
            raise UserError(f"the module has no function @{name}")
        function = self.functions[name]
        return self.block(function["nodes"], {i["name"]: value for i, value in zip(function["inputs"], arguments)})

    def group_of(self, partition):
        """The name of this rank's group, and the ranks of that group."""
        mine = next((ranks for ranks in partition if self.rank in ranks), None)
        if mine is None or len(mine) == 1:
            return None, mine
        if self.groups is None:
            raise UserError(f"a collective among {mine} needs process groups: give to_fx groups=cleave.torch.execution.Groups()")
        return self.groups(partition), mine


def live_nodes(nodes):
    """Those that the terminator needs. It is asked of the text, so that all ranks drop the same collectives."""
    needed, live = set(), set()
    for number, node in reversed(list(enumerate(nodes))):
        if number == len(nodes) - 1 or any(result["name"] in needed for result in node["results"]):
            live.add(id(node))
            needed |= set(node["operands"])
            needed |= {name for region in node.get("regions", [])
                       for inner in all_nodes(region["nodes"]) for name in inner["operands"]}  # fmt: skip
    return live


def parse(module):
    """The graph JSON as a dictionary, of text, JSON, a Module or that dictionary."""
    if isinstance(module, dict):
        return module
    if isinstance(module, _core.Module):
        return json.loads(module.json())
    return json.loads(_core.Module.parse(str(module)).json())


def stacked_arguments(function):
    """The arguments that hold a parameter and the state of its optimizer: what `cleave.optimizer` updates."""
    inputs = {i["name"]: number for number, i in enumerate(function["inputs"])}
    found = set()
    for data in function["nodes"]:
        if data["op"] == "stablehlo.custom_call" and data["attributes"].get("call_target_name", "").strip('"') in OPTIMIZERS:
            shapes = {r["name"]: r for r in function["inputs"]}
            result = kind_of(data["results"][0]["type"]).shape
            found |= {inputs[name] for name in data["operands"]
                      if name in inputs and kind_of(shapes[name]["type"]).shape == result}
    return found


def all_nodes(nodes):
    for node in nodes:
        yield node
        for region in node.get("regions", []):
            yield from all_nodes(region["nodes"])


def make_groups(functions, groups):
    """Every rank makes all groups in the order of the text, whether it takes part in them or not."""
    if groups is None:
        return
    seen = set()
    for function in functions.values():
        for node in all_nodes(function.get("nodes", [])):
            partition = partition_of(Op(node))
            if partition and tuple(map(tuple, partition)) not in seen:
                seen.add(tuple(map(tuple, partition)))
                if any(len(ranks) > 1 for ranks in partition):
                    groups(partition)


def to_fx(module, *, rank=0, groups=None, device="cpu", entry=None, fake_mode=None, arguments=None):
    """The function @main (or `entry`) of a StableHLO module, as device `rank` runs it: a torch.fx.GraphModule of functional
    ATen ops that takes its arguments as flat tensors and returns a flat list of tensors.

        graph = to_fx(plan.export("spmd"), rank=dist.get_rank(), groups=Groups(device_mesh), device="cuda")
        loss, *gradients = graph(*tensors)

    `module` is text, graph JSON, a Module. `groups` gives the name of the process group for the replica groups of a
    collective; one device needs none. Every node has a fake tensor as meta["val"]. `arguments` names the placeholders.

    An argument that `@cleave.optimizer` updates is, in the graph, the parameter alone, and the op's result its gradient."""
    data = parse(module)
    functions = {function["name"]: function for function in data["functions"]}
    name = entry or ("main" if "main" in functions else next(iter(functions), "main"))
    make_groups(functions, groups)
    with _disable_current_modes(), torch.no_grad():
        translation = Translation(functions, rank, groups, device, fake_mode)
        if name not in functions:
            raise UserError(f"the module has no function @{name}")
        values = placeholders(translation.b, functions[name], arguments)
        return finish(translation.b, translation.function(name, values))


def placeholders(b, function, names):
    stacked, values = stacked_arguments(function), []
    for number, argument in enumerate(function["inputs"]):
        kind = kind_of(argument["type"])
        name = names[number] if names else f"arg{number}"
        if number in stacked:
            value = b.placeholder(name, kind._replace(shape=kind.shape[1:]))
            value = Value(b.view(value.t, (1, *kind.shape[1:])), kind.shape, kind.dtype)
            value.t.meta["stacked"] = True
        else:
            value = b.placeholder(name, kind)
        values.append(value)
    return values


def finish(b, results):
    outputs = []
    for value in results:
        t = b.full(value)
        t = b.contiguous(t) if 0 in b.val(t).stride() and b.val(t).numel() > 1 else t
        if value.dtype == "ui64":
            t = b.call(aten.view.dtype, t, torch.uint64)
        elif border(value.dtype) != carrier(value.dtype):
            t = b.convert(t, border(value.dtype))
        outputs.append(b.attribute(t) if isinstance(t, torch.Tensor) else t)
    output = b.graph.output(outputs)
    output.meta["val"] = [t.meta["val"] for t in outputs]
    wait_late(b.graph)
    b.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or "collective" in node.meta)
    root = torch.nn.Module()
    used = {node.target for node in b.graph.nodes if node.op == "get_attr"}
    for name, tensor in b.attributes.items():
        if name in used:
            root.register_buffer(name, tensor, persistent=False)
    b.graph.lint()
    return torch.fx.GraphModule(root, b.graph)


def wait_late(graph):
    """Moves each wait to the first use, so that what is in between runs beside the collective."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in order:
        if node.target is torch.ops._c10d_functional.wait_tensor.default and node.users:
            first = min(node.users, key=order.get)
            if first.op != "output":
                first.prepend(node)
