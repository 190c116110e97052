"""Modules of PyTorch as StableHLO text."""

import contextlib
import functools

import torch
from torch.utils import _pytree as pytree

from cleave._core import UserError
from cleave.torch.effects import is_token, without_tokens
from cleave.torch.lowering import lower_graph

aten = torch.ops.aten

# Ops that have a row of their own, and would lose their meaning in pieces.
_KEPT = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten._fused_rms_norm.default)


def decompositions():
    """PyTorch's table of core ATen, without the ops that are to stay whole."""
    from torch._decomp import core_aten_decompositions

    known = core_aten_decompositions()
    for op in _KEPT:
        known.pop(op, None)
    return known


def export(module, args=(), kwargs=None, *, grad=False):
    """StableHLO text of a module's forward pass on arguments like these, so that every command of Cleave works on it.

    The arguments of @main are the parameters, the buffers and the tensors among args and kwargs, by their names
    (layers.0.attn.q.weight), and then `seed`, an i64 that random numbers come from, if the module draws some. Results are the
    tensors that the module returns, and the new values of buffers that it changes, such as statistics of batch norms. Whether it
    trains or evaluates is as the module is set.

    With `grad` the module returns a loss, and the gradients of its parameters are further results, in their order.
    """
    return exported(module, args, kwargs, grad=grad).text


def exported(module, args=(), kwargs=None, *, grad=False):
    """The same with what is known of arguments and results, a Lowered."""
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"export: a torch.nn.Module is expected, not a {type(module).__name__}")
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    graph, names, results, mutated = (joint_graph if grad else forward_graph)(module, args, dict(kwargs or {}))
    return lower_graph(graph, names=names, opaque=frozenset(), donated=mutated, result_names=results)


def told(error, module):
    """One line of what PyTorch says."""
    text = " ".join(str(error).strip().split("\n")[0].split())
    kind = type(error).__name__
    if "dependent" in str(error).lower() or kind in ("GuardOnDataDependentSymNode", "DataDependentOutputException",
                                                     "DynamicOutputShapeException"):
        return UserError(f"export: {type(module).__name__} makes sizes or decisions that depend on the numbers of a tensor ({text}); "
                         "a plan needs them before it runs: use masks (torch.where) or known sizes")
    return UserError(f"export: PyTorch could not trace {type(module).__name__}: {kind}: {text}")


def forward_graph(module, args, kwargs):
    """The graph, the names of its tensor arguments, names of results by their place, and {argument: result} of buffers."""
    try:
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs, strict=False)
            program = program.run_decompositions(decompositions())
    except UserError:
        raise
    except Exception as error:
        raise told(error, module) from None
    graph, signature = program.graph_module, program.graph_signature
    kind = torch.export.graph_signature.InputKind
    specs = dict(zip([n for n in graph.graph.nodes if n.op == "placeholder"], signature.input_specs))
    gone = without_tokens(graph.graph, [node for node, spec in specs.items() if spec.kind == kind.TOKEN])
    first, places = first_names(module), {}  # name -> (number of the argument, node)
    for node, spec in specs.items():
        if spec.kind == kind.CONSTANT_TENSOR:
            as_constant(graph, node, program.constants[spec.target])
        elif spec.kind != kind.TOKEN and torch.is_tensor(node.meta.get("val")):
            name = first.get(spec.target, spec.target) or spec.arg.name
            if name in places:  # a parameter or buffer of several modules
                node.replace_all_uses_with(places[name][1])
                graph.graph.erase_node(node)
            else:
                places[name] = len(places), node
    names = list(places)
    outputs = [spec for i, spec in enumerate(signature.output_specs) if i not in gone]
    results, mutated = reorder_outputs(graph, outputs, first, {name: number for name, (number, _) in places.items()})
    ordered_names(module, graph, names)
    return graph, names, results, mutated


def first_names(module):
    """By any name of a parameter or buffer: the first one, since modules may share it."""
    first, names = {}, {}
    for named in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            names[name] = first.setdefault(id(tensor), name)
    return names


def as_constant(graph, node, tensor):
    """A tensor that the module made itself, in the place of an argument."""
    name = f"constant_{node.name}"
    setattr(graph, name, tensor.detach())
    with graph.graph.inserting_before(node):
        constant = graph.graph.get_attr(name)
    constant.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(constant)
    graph.graph.erase_node(node)


def reorder_outputs(graph, specs, first, places):
    """What the module returns comes first, then what it changed."""
    output = next(n for n in graph.graph.nodes if n.op == "output")
    flat = pytree.tree_leaves(output.args[0], is_leaf=lambda v: v is None)
    returned, changed = [], []
    for node, spec in zip(flat, specs):
        (changed if "MUTATION" in spec.kind.name else returned).append((node, spec))
    output.args = (tuple(node for node, _ in returned + changed),)
    results, mutated, place = {}, {}, 0
    for i, (node, spec) in enumerate(returned + changed):
        tensor = isinstance(node, torch.fx.Node) and torch.is_tensor(node.meta.get("val"))
        if i >= len(returned):
            results[i] = name = first.get(spec.target, spec.target)
            if name in places:
                mutated[places[name]] = place
        place += tensor
    return results, mutated


def ordered_names(module, graph, names):
    """Checks that parameters and buffers come first, as modules list them."""
    own = [name for name, _ in module.named_parameters()] + [name for name, _ in module.named_buffers()]
    given = [name for name in names if name in set(own)]
    if names[:len(given)] != given:
        raise UserError("export: PyTorch's graph has arguments in another order than the module's parameters and buffers")


@contextlib.contextmanager
def lines_kept():
    """While a joint graph is traced: nodes of the forward pass remember the user's lines."""
    from torch._functorch._aot_autograd import graph_capture

    plain = graph_capture.make_fx
    graph_capture.make_fx = functools.partial(plain, record_stack_traces=True)
    try:
        yield
    finally:
        graph_capture.make_fx = plain


def joint_graph(module, args, kwargs):
    """Forward and backward pass of a loss, with its own gradient set to one."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    try:
        with contextlib.ExitStack() as stack, lines_kept():
            joint = aot_export_joint_with_descriptors(stack, module, args, kwargs, decompositions=decompositions())
            graph = joint.graph_module
    except Exception as error:
        raise told(error, module) from None
    tokens_gone(graph.graph)
    first, known, tangents = first_names(module), {}, []
    for node in [n for n in graph.graph.nodes if n.op == "placeholder"]:
        desc = node.meta["desc"]
        if "Tangent" in type(desc).__name__:
            tangents.append(node)
        elif torch.is_tensor(node.meta.get("val")):
            name = first.get(getattr(desc, "target", None)) or node.name.removeprefix("primals_")
            if name in known:
                node.replace_all_uses_with(known[name])
                graph.graph.erase_node(node)
            else:
                known[name] = node
    names = list(known)
    if len(tangents) != 1 or tangents[0].meta["val"].shape != ():
        shapes = [list(n.meta["val"].shape) for n in tangents]
        raise UserError("export: grad=True needs a module that returns one scalar loss; this one returns differentiable tensors of "
                        f"{shapes}")
    node = tangents[0]
    with graph.graph.inserting_before(node):
        one = graph.graph.call_function(aten.full.default, ((), 1.0), {"dtype": node.meta["val"].dtype})
    one.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(one)
    graph.graph.erase_node(node)
    name_inputs(names)
    return graph, names, *order_of_gradients(graph, names, first)


def tokens_gone(graph):
    """Of a joint graph: calls of ops with effects are plain, and its results and their descriptors are without tokens."""
    gone = without_tokens(graph, [node for node in graph.nodes if node.op == "placeholder" and is_token(node.meta["desc"])])
    output = next(node for node in graph.nodes if node.op == "output")
    output.meta["desc"] = [desc for i, desc in enumerate(output.meta["desc"]) if i not in gone]


def name_inputs(names):
    """Numbers of primals are no names: inputs that have no path are input_0, input_1, ..."""
    number = 0
    for i, name in enumerate(names):
        if name.isdigit():
            names[i] = f"input_{number}"
            number += 1


def order_of_gradients(graph, names, first):
    """Outputs: what was returned, gradients of parameters, buffers that were changed."""
    output = next(n for n in graph.graph.nodes if n.op == "output")
    returned, gradients, changed = [], {}, {}
    for node, desc in zip(output.args[0], output.meta["desc"]):
        inner = getattr(desc, "grad_of", None) or getattr(desc, "mutated_input", None)
        name = first.get(getattr(inner, "target", None))
        if type(desc).__name__ == "PlainAOTOutput":
            returned.append(node)
        elif type(desc).__name__ == "GradAOTOutput" and node is not None:
            name = name or desc.grad_of
            gradients[name] = node if name not in gradients else sum_of(graph.graph, output, gradients[name], node)
        elif "Mutat" in type(desc).__name__:
            changed[name or desc] = node
    output.args = ((*returned, *gradients.values(), *changed.values()),)
    results, mutated, place = {}, {}, len(returned)
    for kind, found in (("grad.", gradients), ("", changed)):
        for name in found:
            if isinstance(name, str):
                results[place] = f"{kind}{name}"
                if not kind and name in names:
                    mutated[names.index(name)] = place
            place += 1
    return results, mutated


def sum_of(graph, output, one, other):
    """Of two gradients of a parameter that modules share."""
    with graph.inserting_before(output):
        total = graph.call_function(aten.add.Tensor, (one, other))
    total.meta = dict(other.meta)
    return total
