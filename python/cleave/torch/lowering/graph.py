"""From a graph of ATen ops to a StableHLO module."""

import os
import re
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from cleave._core import UserError
from cleave.torch.lowering import attention, decompose, opaque, table, unknown
from cleave.torch.lowering.context import Body, Context
from cleave.torch.lowering.nodes import (attributes_of, body_of, custom_call, is_getitem, real_of, target_of, type_of,
                                         types_of, unpacked, write)
from cleave.torch.lowering.opaque import DEFAULT_OPAQUE, OPTIMIZER
from cleave.torch.lowering.values import Value, type_text

_RENAMES = {torch.ops.aten.alias.default, torch.ops.aten.detach.default, torch.ops.aten.lift_fresh_copy.default,
            torch.ops.aten.lift_fresh.default}
_CHECKS = {"aten._assert_async.msg", "aten._assert_scalar.default", "aten.sym_size.int", "aten._assert_tensor_metadata.default",
           "aten.sym_constrain_range_for_size.default",
           "aten._linalg_check_errors.default"}
_TORCH = os.path.dirname(torch.__file__)


@dataclass
class Lowered:
    """A module as text, and what its borders are. Types are (name, shape, dtype)."""

    text: str
    arguments: list
    results: list
    result_index: list  # of each result, its place among the flat outputs of the graph
    seed_index: int | None  # the argument that random numbers come from
    opaque: list  # targets of custom calls
    argument_index: list  # of each argument, its place among the placeholders; None for the seed
    node_of: dict = field(default_factory=dict)  # SSA name -> name of the FX node
    donated: dict = field(default_factory=dict)  # argument -> result
    paths: list = field(default_factory=list)  # names of arguments as they were given; those above are fit for StableHLO


def lower_graph(gm, *, names=None, opaque=DEFAULT_OPAQUE, donated=None, extra=None, optimizer=(), result_names=None,
                composites=True):
    """StableHLO of an FX graph of ATen ops with fake tensors in meta["val"].

    names      of the tensor arguments, in the order of placeholders; those of the graph if left out
    opaque     overloads (or their names) that stay one custom call
    donated    {argument: result}: arguments whose memory a result takes, by their places in the module
    extra      text in the attributes of the module
    optimizer  [(argument of a parameter, place of its gradient in the flat outputs, slots)]: the gradient goes into
               cleave.optimizer with the parameter and its state, which are one argument, stacked, if there are slots
    composites False writes decompositions in place, each op with the line of its node
    """
    return Lowering(gm, names, opaque, dict(donated or {}), extra, optimizer, result_names, composites).run()


class Lowering:
    def __init__(self, gm, names, kept, donated, extra, optimizer, result_names, composites):
        self.gm, self.names, self.donated, self.extra = gm, names, donated, extra
        self.optimizer, self.result_names, self.composites = list(optimizer), result_names, composites
        self.context = Context(frozenset(str(op) for op in kept))
        self.body = Body(self.context, None, [], prefix="v")
        self.lines, self.values, self.taken, self.node_of = self.body.lines, {}, set(), {}
        self.arguments, self.argument_index, self.paths = [], [], []
        opaque.register()

    def name(self, text):
        """A free SSA name near the text."""
        text = re.sub(r"[^A-Za-z0-9_.$-]", "_", text) or "value"
        if not re.match(r"[A-Za-z_$.-]", text) or re.fullmatch(r"c(st)?(_\d+)?", text):
            text = "_" + text
        name, number = text, 1
        while name in self.taken:
            number += 1
            name = f"{text}_{number}"
        self.taken.add(name)
        return name

    def run(self):
        self.read_arguments()
        self.seed = Value("%" + self.name("seed"), torch.int64, ())
        self.random = False
        output = None
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                tensor = real_of(attribute_at(self.gm, node.target))
                if torch.is_tensor(tensor):
                    self.values[node] = self.body.const(tensor, *type_of(tensor, node.name)[:1])
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                output = node
            elif node.op != "placeholder":
                raise UserError(f"{node.name}: a graph of ATen ops is expected, and this node is a {node.op} of {node.target}")
        return self.finish(output)

    def read_arguments(self):
        stacks = {argument: slots for argument, _, slots in self.optimizer if slots}
        place = 0
        for node in self.gm.graph.nodes:
            if node.op != "placeholder":
                continue
            index, place = place, place + 1
            meta = node.meta.get("val")
            if not torch.is_tensor(meta):
                self.values[node] = meta
                continue
            dtype, shape = type_of(meta, node.name)
            number = len(self.arguments)
            given = self.names[number] if self.names and number < len(self.names) else node.name
            value = Value("%" + self.name(given), dtype, shape)
            if number in stacks:
                value = Value(value.name, dtype, (1 + stacks[number],) + shape)
            self.arguments.append(value)
            self.argument_index.append(index)
            self.paths.append(given)
            self.values[node] = value if number not in stacks else self.first_of(value)

    def first_of(self, stacked):
        return self.body.reshape(self.body.slice_dim(stacked, 0, 0, 1), stacked.shape[1:])

    def call(self, node):
        op = node.target
        if is_getitem(node):
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return
        if not isinstance(op, torch._ops.OpOverload):
            if isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat)) or callable(op):
                refuse_symbolic(node)
            raise UserError(f"{node.name}: {op} is not an ATen op; export the module without control flow of its own")
        if op in _RENAMES and node.args[0] in self.values:
            self.values[node] = self.values[node.args[0]]
            return
        if str(op) in _CHECKS or makes_nothing(op) or node.meta.get("val") is None and not node.users:
            return
        out = types_of(node.meta["val"], node.name)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: self.values[n])
        args, kwargs = list(unpacked(args)), dict(kwargs)
        results = self.results_of(node, op, args, kwargs, out)
        outs = node.meta["val"]
        if isinstance(outs, (tuple, list)):
            self.values[node] = [None if value is None and torch.is_tensor(v) else v if value is None else value
                                 for value, v in zip(results, outs)]
        else:
            self.values[node] = results[0]

    def results_of(self, node, op, args, kwargs, out):
        if not out:  # such as parts of nothing
            return []
        if str(op) in self.context.opaque:
            attention.refuse_dropout(op, args, kwargs)
            return self.located(node, custom_call, self.body, op, args, kwargs, out)
        try:
            if not self.composites:
                return self.in_place(node, op, args, kwargs, out)
            name, types, random = body_of(self.context, op, args, kwargs, out)
        except LookupError:
            unknown.refuse_random(op)
            unknown.make_known(op, target_of(op))
            return self.located(node, custom_call, self.body, op, args, kwargs, out)
        except NotImplementedError as error:
            raise UserError(f"{node.name}: {op} is not lowered: {error}") from None
        return self.composite(node, op, args, kwargs, name, types, random)

    def composite(self, node, op, args, kwargs, name, types, random):
        leaves = pytree.tree_leaves((args, kwargs), is_leaf=lambda v: isinstance(v, Value) or v is None)
        operands = [v for v in leaves if isinstance(v, Value)]
        if random:
            operands.append(self.seed)
            self.random = True
        present = [t for t in types if t is not None]
        result = "%" + self.name(node.name)
        self.node_of[result[1:]] = node.name
        results, count = [], 0
        for t in types:
            if t is None:
                results.append(None)
                continue
            results.append(Value(result if len(present) == 1 else f"{result}#{count}", *t))
            count += 1
        attributes = ", ".join(attributes_of(op, args, kwargs))
        attributes = f"composite_attributes = {{{attributes}}}, " if attributes else ""
        ends = ", ".join(type_text(*t) for t in present)
        self.lines.append(
            f"{result}{f':{len(present)}' if len(present) > 1 else ''} = stablehlo.composite \"{target_of(op)}\" "
            f"{', '.join(v.name for v in operands)} {{{attributes}decomposition = @{name}}} : "
            f"({', '.join(v.type for v in operands)}) -> " + (ends if len(present) == 1 else f"({ends})") + location_of(node))
        return results

    def in_place(self, node, op, args, kwargs, out):
        begin, number, self.context.seed = len(self.lines), self.context.number, self.seed
        try:
            results = write(self.body, op, args, kwargs, out)
        except LookupError:
            del self.lines[begin:]
            raise
        self.random = self.random or self.context.number != number
        place = location_of(node)
        self.lines[begin:] = [line + place for line in self.lines[begin:]]
        return results

    def located(self, node, function, *args):
        """What the function writes, with the node's name and place."""
        begin = len(self.lines)
        results = function(*args)
        if len(self.lines) > begin:
            line = self.lines[-1]
            old = re.match(r"%\w+", line).group()
            new = "%" + self.name(node.name)
            self.node_of[new[1:]] = node.name
            self.lines[-1] = new + line[len(old):] + location_of(node)
            results = [v and Value(v.name.replace(old, new), v.dtype, v.shape) for v in results]
        return results

    def step(self, flat):
        """Puts the optimizer in the place of gradients."""
        for argument, gradient, slots in self.optimizer:
            parameter, grad = self.arguments[argument], flat[gradient]
            if grad is None:
                continue
            expected = parameter.shape[1:] if slots else parameter.shape
            if not isinstance(grad, Value) or grad.shape != expected:
                raise UserError(f"lower_graph: the gradient of {parameter.name[1:]} is expected at output {gradient}, which is "
                                f"{getattr(grad, 'type', grad)}")
            (flat[gradient],) = self.body.custom_call(OPTIMIZER, [grad, parameter], [(parameter.dtype, parameter.shape)],
                                                      f"slots = {slots} : i64")
            if OPTIMIZER not in self.context.used:
                self.context.used.append(OPTIMIZER)

    def finish(self, output):
        flat = [self.values[v] if isinstance(v, torch.fx.Node) else v for v in pytree.tree_flatten(
            output.args[0], is_leaf=lambda v: v is None or isinstance(v, torch.fx.Node))[0]]
        self.step(flat)
        index = [i for i, v in enumerate(flat) if isinstance(v, Value)]
        results = [flat[i] for i in index]
        for argument, gradient, _ in self.optimizer:
            if gradient in index:
                self.donated.setdefault(argument, index.index(gradient))
        seed_index = None
        if self.random:
            seed_index = len(self.arguments)
            self.arguments.append(self.seed)
            self.argument_index.append(None)
            self.paths.append("seed")
        names = self.result_names or {}
        names = names if isinstance(names, dict) else dict(enumerate(names))
        return Lowered(self.module_text(results, index, names), [(v.name[1:], v.shape, v.dtype) for v in self.arguments],
                       [(names.get(i, v.name[1:]), v.shape, v.dtype) for i, v in zip(index, results)], index, seed_index,
                       list(self.context.used), self.argument_index, self.node_of, self.donated, self.paths)

    def module_text(self, results, index, names):
        arguments = []
        for i, value in enumerate(self.arguments):
            alias = f" {{tf.aliasing_output = {self.donated[i]} : i32}}" if i in self.donated else ""
            arguments.append(f"{value.name}: {value.type}{alias}")
        ends = [v.type + (f' {{jax.result_info = "{names[i]}"}}' if i in names else "") for i, v in zip(index, results)]
        lines = [f"module @{self.extra_name()} {{", f"  func.func public @main({', '.join(arguments)}) -> ({', '.join(ends)}) {{"]
        lines += [f"    {line}" for line in self.lines]
        plain = ", ".join(v.type for v in results)
        lines += [f"    return {', '.join(v.name for v in results)}" + (f" : {plain}" if results else ""), "  }"]
        for (_, text), name in self.context.functions.items():
            lines.append(f"  func.func private @{name}{text}")
        return "\n".join([*lines, "}", ""])

    def extra_name(self):
        return self.extra if isinstance(self.extra, str) and re.fullmatch(r"\w+", self.extra) else "torch"


def makes_nothing(op):
    """Neither tensors nor numbers: such as the begin and the end of a range of the profiler."""
    return all(str(one.type).startswith("__torch__") for one in op._schema.returns)


def attribute_at(gm, target):
    found = gm
    for part in target.split("."):
        found = getattr(found, part)
    return found


def refuse_symbolic(node):
    for one in (node, *node.all_input_nodes):
        val = one.meta.get("val")
        if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise UserError(f"{one.name}: the size {val} is symbolic; a plan is for certain sizes: trace the module with static "
                            "shapes (dynamic_shapes=None), and again for other sizes")


def location_of(node):
    """loc("node"("file.py":12:0)) of the user's line."""
    frame = None
    for path, line in re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or ""):
        if not path.startswith(_TORCH):
            frame = path, line
    if frame is None:
        return f' loc("{node.name}")'
    path = frame[0].replace("\\", "/").replace('"', "")
    return f' loc("{node.name}"("{path}":{frame[1]}:0))'


def covered():
    """Names of overloads that are lowered by a row of the table."""
    return table.covered()


def is_known(op):
    """By a row, or by a decomposition of PyTorch's."""
    return table.row_of(op) is not None or decompose.has(op)
