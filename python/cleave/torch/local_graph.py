"""What one rank runs of a plan: the graphs of the forward and of the backward pass, on its own parts of all tensors."""

import dataclasses
import functools
import re

import torch

from cleave.torch.execution import to_fx
from cleave.torch.execution.kernels import with_kernels

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Part:
    """The part of a tensor that a rank has. Programs hold every part in the size of the largest one."""

    shape: tuple  # of the whole tensor
    own: tuple  # slices of it
    padded: tuple

    @property
    def sizes(self):
        return tuple(one.stop - one.start for one in self.own)

    @property
    def is_padded(self):
        return self.sizes != self.padded


def part_of(shape, placements, mesh_shape, coordinate):
    """DTensor's parts: along one axis of the mesh after the other, each chunk again."""
    own, padded = [], []
    for d, size in enumerate(shape):
        begin, length, largest = 0, size, size
        for placement, count, at in zip(placements, mesh_shape, coordinate):
            if placement.is_shard(d):
                chunk = -(-length // count)
                first = min(at * chunk, length)
                begin, length = begin + first, min(chunk, length - first)
                largest = -(-largest // count)
        own.append(slice(begin, begin + length))
        padded.append(largest)
    return Part(tuple(shape), tuple(own), tuple(padded))


def input_parts(plan, rank):
    """Of each argument of the traced step."""
    at = coordinate_of(rank, plan.mesh_shape)
    return [part_of(one.shape, where, plan.mesh_shape, at) for one, where in zip(plan._traced.inputs, plan.input_placements)]


def output_parts(plan, rank):
    """Of each result of the traced step."""
    at = coordinate_of(rank, plan.mesh_shape)
    return [part_of(shape, where, plan.mesh_shape, at) for shape, where in zip(plan._traced.output_shapes, plan.output_placements)]


def local_graph(plan, rank, groups, device):
    """The joint graph of one rank: parts of parameters, buffers, batch and tangents in; parts of changed buffers, results and
    gradients out, all in their own sizes."""
    graph = to_fx(plan.export("spmd"), rank=rank, groups=groups, device=device)
    index = plan._lowered.result_index
    order = [index.index(i) for i in range(len(index))]
    outputs = output_parts(plan, rank)
    with_kernels(graph)
    rewrite_borders(graph, input_parts(plan, rank), [outputs[number] for number in index], order)
    return graph


OVERLOAD = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


class Boxed(torch.fx.graph.CodeGen):
    """Code of a function that takes its arguments out of a list, so that each of them is freed after its last use."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, **options):
        names = [one.split(":")[0].split("=")[0].strip() for one in free_vars if one != "self"]
        taken = "".join(f"\n    {name} = arguments[{i}]" for i, name in enumerate(names))
        return f"def forward(self, arguments){maybe_return_annotation}:{taken}\n    arguments.clear()"


def called_directly(module):
    """The module as a function of a list, which it empties. It calls ops without what OpOverload does in Python for each of them."""
    names, graph = {}, module.graph

    def name_of(found):
        names[f"_{'_'.join(found.groups())}"] = getattr(getattr(getattr(torch.ops, found[1]), found[2]), found[3])._op
        return f"_{'_'.join(found.groups())}("
    plain = graph._codegen
    graph.set_codegen(Boxed())
    code = graph.python_code("self")
    graph.set_codegen(plain)
    source = OVERLOAD.sub(name_of, code.src)
    space = {**code.globals, **names}
    exec(compile(source, "<a planned pass>", "exec"), space)  # as FX runs its own code
    return functools.partial(space["forward"], module)


def compiled(forward, backward):
    """Both passes by inductor."""
    from torch._inductor import compile as compile_graph

    def made(graph):
        run = []

        def call(args):
            if not run:
                with torch.no_grad():
                    run.append(compile_graph(graph, list(args)))
            with torch.no_grad():
                return run[0](*args)
        return call
    return made(forward), made(backward) if backward is not None else None


def coordinate_of(rank, mesh_shape):
    at = []
    for size in reversed(mesh_shape):
        at.append(rank % size)
        rank //= size
    return tuple(reversed(at))


def rewrite_borders(module, inputs, outputs, order):
    """Parts in their own sizes outside, padded inside."""
    graph = module.graph
    for node, part in zip([node for node in graph.nodes if node.op == "placeholder"], inputs):
        if part.is_padded:
            pad_input(graph, node, part)
    output = next(node for node in graph.nodes if node.op == "output")
    results = []
    for node, part in zip(output.args[0], outputs):
        with graph.inserting_before(output):
            for d, (size, padded) in enumerate(zip(part.sizes, part.padded)):
                if size != padded:
                    node = with_value(graph.call_function(aten.slice.Tensor, (node, d, 0, size)))
        results.append(node)
    output.args = (tuple(results[i] for i in order),)
    graph.lint()
    module.recompile()


def unused_communication(graph):
    """Collectives whose results this rank does not need. Other ranks may, and would wait for it."""
    needed = ancestors(next(node for node in graph.nodes if node.op == "output").args[0])
    unused = []
    for node in [node for node in graph.nodes if is_communication(node) and not is_wait(node) and node not in needed]:
        wait = next((user for user in node.users if is_wait(user)), None)
        if wait is None:
            with graph.inserting_after(node):
                wait = with_value(graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (node,)))
        unused.append(wait)
    return unused


def ancestors(nodes):
    """The nodes and all that they are computed from."""
    found, pending = set(), list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += node.all_input_nodes
    return found


def with_value(node):
    """The node with the type of its result, worked out from those of its operands."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda operand: operand.meta["val"])
    with node.all_input_nodes[0].meta["val"].fake_mode:
        node.meta["val"] = node.target(*args, **kwargs)
    return node


def pad_input(graph, node, part):
    users = list(node.users)
    amounts = []
    for size, padded in zip(reversed(part.sizes), reversed(part.padded)):
        amounts += [0, padded - size]
    with graph.inserting_after(node):
        made = graph.call_function(aten.constant_pad_nd.default, (node, amounts))
    node.meta["val"] = node.meta["val"].new_empty(part.sizes)
    with_value(made)
    for user in users:
        user.replace_input_with(node, made)


def split(joint, traced):
    """The graphs of the forward and of the backward pass; the first keeps what the second needs, or the second computes it again.
    Also how many results the first one has: those of the step, then those of collectives that this rank does not need."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graph, tangents = joint.graph, set(traced.numbers("tangent"))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for i, node in enumerate(placeholders):  # the partitioner tells them apart by their names
        node.target = node.name = f"tangents_{i}" if i in tangents else f"primals_{i}"
    output = next(node for node in graph.nodes if node.op == "output")
    results, gradients = output.args[0][: traced.num_forward], output.args[0][traced.num_forward:]
    of_tangents = {placeholders[i] for i in tangents}
    unused = unused_communication(graph)
    forward = [node for node in unused if not of_tangents & ancestors([node])]
    output.args = ((*results, *forward, *gradients, *(node for node in unused if node not in forward)),)
    graph.eliminate_dead_code()
    joint.recompile()
    count = traced.num_forward + len(forward)
    if not tangents:
        return joint, None, count
    leave_to_backward(graph, count)
    # What is gathered for each pass is gathered twice, as planned, and not kept in between.
    with torch._functorch.config.patch(cse=False):
        return *min_cut_rematerialization_partition(joint, None, num_fwd_outputs=count), count


def leave_to_backward(graph, num_forward):
    """Collectives that no result of the forward pass needs belong to the backward pass."""
    needed = ancestors(next(node for node in graph.nodes if node.op == "output").args[0][:num_forward])
    for node in graph.nodes:
        if is_communication(node) and node not in needed:
            node.meta["partitioner_tag"] = "must_be_in_backward"


def is_communication(node):
    return getattr(node.target, "namespace", None) == "_c10d_functional"


def is_wait(node):
    return node.target is torch.ops._c10d_functional.wait_tensor.default
