"""The graph of a step: forward and backward in one, as ATen ops."""

import contextlib
import copy
import dataclasses

import torch

from cleave._core import UserError
from cleave.torch.exporting import decompositions, first_names, lines_kept, sum_of, tokens_gone
from cleave.torch.steps import TENSOR


@dataclasses.dataclass
class Input:
    """A placeholder of the graph. `kind` is parameter, buffer, batch or tangent; `name` is its path, or the number of the leaf of
    the batch, or of the result that the tangent belongs to."""

    kind: str
    name: object
    shape: tuple
    dtype: torch.dtype
    requires_grad: bool = False


@dataclasses.dataclass
class Output:
    """A result of the graph: a buffer that was changed (`of` is its path), something that the step returns (`of` is its number), or
    the gradient of a parameter (its path) or of a leaf of the batch (its number)."""

    kind: str
    of: object

    @property
    def is_of_parameter(self):
        """The gradient of one."""
        return self.kind == "gradient" and isinstance(self.of, str)


@dataclasses.dataclass
class Traced:
    graph: torch.fx.GraphModule
    inputs: list
    outputs: list  # of the results that are there: None is left out
    output_shapes: list
    step: torch.nn.Module
    structure: object = None  # of the batch
    training: bool = True  # the mode of the module
    autocast: object = None  # the type that products are computed in, if torch.autocast was on

    @property
    def num_forward(self):
        return sum(output.kind in ("buffer", "result") for output in self.outputs)

    def numbers(self, kind):
        return [i for i, one in enumerate(self.inputs) if one.kind == kind]


def autocast_of(devices):
    """The type that torch.autocast computes products in, if it is on for one of these kinds of devices."""
    return next((torch.get_autocast_dtype(device) for device in devices if torch.is_autocast_enabled(device)), None)


def trace(step, leaves, training):
    """The joint graph of a step on a batch with these leaves; the forward graph alone unless `training`."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    if any(tensor.is_meta for tensor in [*step.parameters(), *step.buffers(), *leaves]):
        step, leaves = without_devices(step, leaves)  # on "meta", PyTorch takes ops apart in a way that has no gradients
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(lines_kept())
        stack.enter_context(constants_known([*step.parameters(), *step.buffers(), *leaves]))
        if not training:
            stack.enter_context(torch.no_grad())
        try:
            made = aot_export_joint_with_descriptors(stack, step, tuple(leaves), decompositions=decompositions())
        except Exception as error:  # noqa: BLE001: what a module does may fail in any way
            raise UserError(f"plan: the step of {type(step.model).__name__} cannot be traced: "
                            f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    graph = made.graph_module
    if training:
        refuse_hidden_parameters(graph)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    tokens_gone(graph.graph)
    names = {f"model.{name}": first for name, first in first_names(step.model).items()}
    inputs = inputs_of(graph.graph, names)
    note_gradients(inputs, step.model, leaves)
    output = next(node for node in graph.graph.nodes if node.op == "output")
    found = [(output_of(desc, names), node) for node, desc in zip(output.args[0], output.meta["desc"]) if node is not None]
    outputs, nodes = zip(*added_up(graph.graph, output, found))
    output.args = (nodes,)
    graph.recompile()
    returned = sum(other is TENSOR for other in step.results[1])
    if sum(one.kind == "result" for one in outputs) != returned:
        raise UserError(f"plan: the step of {type(step.model).__name__} returns one of its own arguments; return a copy of it "
                        "(x.clone()), or nothing")
    return Traced(graph, inputs, list(outputs), [tuple(node.meta["val"].shape) for node in nodes], step)


def constants_known(tensors):
    """While a joint graph is traced: tensors that a model or a loss function holds itself, such as weights of classes, are constants."""
    from torch._guards import TracingContext, detect_fake_mode, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode

    return tracing(TracingContext(detect_fake_mode(tensors) or FakeTensorMode(allow_non_fake_inputs=True)))


def without_devices(step, leaves):
    """A copy of the step, and its arguments, with tensors that hold no numbers and say that they are on the CPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def made(tensor):
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    memo = {id(one): torch.nn.Parameter(made(one), requires_grad=one.requires_grad) for one in step.parameters()}
    memo |= {id(one): made(one) for one in step.buffers()}
    memo |= {id(one): one for one in (step._structure, step.results and step.results[0])}
    return copy.deepcopy(step, memo), [made(leaf) for leaf in leaves]


def refuse_hidden_parameters(module):
    """Tensors that the model or the loss function holds itself become constants, so that none of them may ask for a gradient."""
    for node in module.graph.nodes:
        tensor = getattr(module, node.target, None) if node.op == "get_attr" else None
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            raise UserError(f"plan: the step uses a tensor {list(tensor.shape)} that requires a gradient and is no parameter of the model; "
                            "make it one, with the loss inside of the model if it is the loss function's")


def inputs_of(graph, names):
    """Of each placeholder. A parameter that several modules share comes once for each of them, and becomes one."""
    inputs, known = [], {}
    for node in [node for node in graph.nodes if node.op == "placeholder"]:
        one = input_of(node, names)
        if one.kind in ("parameter", "buffer") and one.name in known:
            node.replace_all_uses_with(known[one.name])
            graph.erase_node(node)
            continue
        known[one.name if one.kind in ("parameter", "buffer") else node] = node
        inputs.append(one)
    return inputs


def note_gradients(inputs, model, leaves):
    """Which parameters and tensors of the batch ask for a gradient."""
    parameters = dict(model.named_parameters())
    for one in inputs:
        if one.kind in ("parameter", "batch"):
            one.requires_grad = (parameters[one.name] if one.kind == "parameter" else leaves[one.name]).requires_grad


def added_up(graph, output, found):
    """Results with their nodes; of a shared parameter one gradient, the sum of those of its places."""
    made = {}
    for one, node in found:
        key = (one.kind, one.of)
        if key in made and one.kind == "gradient":
            node = sum_of(graph, output, made[key][1], node)
        made[key] = one, node
    return made.values()


def input_of(node, names):
    from torch._functorch._aot_autograd import descriptors as d

    value, desc = node.meta["val"], node.meta["desc"]
    if any(not isinstance(size, int) for size in value.shape):
        raise UserError(f"plan: {node.name} has the shape {tuple(value.shape)}; sizes that are not known are not planned")
    where = dict(shape=tuple(value.shape), dtype=value.dtype)
    if isinstance(desc, d.ParamAOTInput):
        return Input("parameter", names[desc.target], **where)
    if isinstance(desc, d.BufferAOTInput):
        return Input("buffer", names[desc.target], **where)
    if isinstance(desc, d.PlainAOTInput):
        return Input("batch", desc.idx, **where)
    if isinstance(desc, d.TangentAOTInput):
        return Input("tangent", getattr(desc.output, "idx", None), **where)
    raise UserError(f"plan: {node.name} is a {type(desc).__name__} of the step, which cannot be planned")


def output_of(desc, names):
    from torch._functorch._aot_autograd import descriptors as d

    if isinstance(desc, d.InputMutationAOTOutput):
        changed = desc.mutated_input
        if not isinstance(changed, d.BufferAOTInput):
            what = names.get(getattr(changed, "target", None), f"batch.{getattr(changed, 'idx', '')}")
            raise UserError(f"plan: the step changes {what} in place, and only buffers of the model may change; let it change a copy "
                            "(x.clone())")
        return Output("buffer", names[changed.target])
    if isinstance(desc, d.PlainAOTOutput):
        return Output("result", desc.idx)
    if isinstance(desc, d.GradAOTOutput):
        of = desc.grad_of
        return Output("gradient", names[of.target] if hasattr(of, "target") else of.idx)
    raise UserError(f"plan: the step has a result of the kind {type(desc).__name__}, which cannot be planned")
