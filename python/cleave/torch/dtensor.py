"""What DTensor does with placements: the rules that it has, and what it redistributes where it has none."""

import contextlib
import functools
import math

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema
from torch.utils import _pytree as pytree

from cleave._core import UserError

WORLD = 64  # ranks of the group that stands for all meshes
REDUCTIONS = {"sum": "sum", "avg": "avg", "max": "max", "min": "min", "prod": "product"}


def start():
    """A process group without processes; meshes and rules need one."""
    if not dist.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())


@functools.cache
def mesh_of(shape):
    return init_device_mesh("cpu", shape)


def propagator():
    return DTensor._op_dispatcher.sharding_propagator


def placement_of(text):
    """R, S(0), P(sum) as DTensor has it."""
    if text == "R":
        return Replicate()
    kind, argument = text[0], text[2:-1]
    return Shard(int(argument)) if kind == "S" else Partial(REDUCTIONS[argument])


def text_of(placement):
    """The other way; nothing for placements that are DTensor's alone (masked or strided)."""
    if type(placement) is Replicate:
        return "R"
    if type(placement) is Shard:
        return f"S({placement.dim})"
    if type(placement) is Partial:
        return f"P({'prod' if placement.reduce_op == 'product' else placement.reduce_op})"
    return None


def has_strategy(op):
    rules = propagator()
    from torch.distributed.tensor._decompositions import DecompShardingStrategy

    return (op in rules.op_single_dim_strategy_funcs or op in rules.op_strategy_funcs
            or op in getattr(rules, "op_to_rules", {}) or DecompShardingStrategy.has_decomp(op))


def schema_of(call, mesh, placements):
    """The call as the propagator is asked: `placements` are of each operand, a tuple by mesh axis."""
    specs = [DTensorSpec(mesh, tuple(of), tensor_meta=TensorMeta(t.shape, t.stride(), t.dtype))
             for of, t in zip(placements, call.tensors)]
    args, kwargs = call.arguments(specs)
    rules = propagator()
    info = rules.op_to_schema_info.get(call.op) or rules.op_to_schema_info_for_single_dim_strategy.get(call.op)
    return OpSchema(call.op, tuple(args), kwargs, schema_info=info)


class Answer:
    """What DTensor does with operands that lie so."""

    def __init__(self, output, inputs, redistributed):
        self.outputs = [spec.placements if spec is not None else None for spec in specs_in(output)]
        self.has_rule = not redistributed
        self.redistributed = redistributed  # (placements, placements) of each operand that moves


def specs_in(tree):
    if tree is None:
        return []
    return [leaf for leaf in pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, DTensorSpec) or x is None)
            if leaf is None or isinstance(leaf, DTensorSpec)]


def operand_placements(schema):
    return [spec.placements for spec in specs_in((schema.args_schema, schema.kwargs_schema)) if spec is not None]


def ask(call, mesh, placements):
    """The Answer; a text if DTensor refuses."""
    schema = schema_of(call, mesh, placements)
    try:
        sharding = propagator().propagate_op_sharding_non_cached(schema)
    except Exception as error:  # noqa: BLE001: refusals have many types
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    given = operand_placements(schema)
    wanted = given
    if sharding.redistribute_schema is not None:
        wanted = operand_placements(sharding.redistribute_schema)
    moves = [(i, a, b) for i, (a, b) in enumerate(zip(given, wanted)) if tuple(a) != tuple(b)]
    return Answer(sharding.output_spec, given, moves)


def moved_bytes(answer, call, ranks):
    """What a device receives in the redistribution that a missing rule forces, on a mesh axis of so many ranks."""
    total = 0.0
    for i, before, after in answer.redistributed:
        size = call.tensors[i].numel() * call.tensors[i].element_size()
        for a, b in zip(before, after):
            if a == b or a.is_replicate():
                continue
            share = (ranks - 1) / ranks
            if a.is_partial():
                total += size * share * (2 if not b.is_shard() else 1)
            else:
                total += size * share / (ranks if b.is_shard() else 1)
    return total


@contextlib.contextmanager
def local_ranks(count):
    """All ranks in this process: a tensor holds what each of them has."""
    try:
        from torch.distributed._local_tensor import LocalTensorMode
    except ImportError:
        raise UserError("audit: this PyTorch has no LocalTensorMode, which runs all ranks in one process; take 2.10 or later") from None
    with LocalTensorMode(frozenset(range(count))):
        yield


def distributed(mesh, parts, shape, placements):
    """A DTensor from what each rank holds."""
    from torch.distributed._local_tensor import LocalTensor

    local = LocalTensor({rank: part.clone() for rank, part in enumerate(parts)})
    stride = torch.empty(shape).stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


def run(call, mesh_shape, parts, shapes, placements):
    """The call by DTensor itself: (results as whole tensors, placements of the results, number of collectives)."""
    from torch.distributed.tensor.debug import CommDebugMode

    with local_ranks(math.prod(mesh_shape)):
        mesh = init_device_mesh("cpu", tuple(mesh_shape))
        operands = [distributed(mesh, *one) for one in zip(parts, shapes, placements)]
        args, kwargs = call.arguments(operands)
        with CommDebugMode() as counted:
            results = [leaf for leaf in pytree.tree_leaves(call.op(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        count = counted.get_total_counts()
        return [whole(result) for result in results], [result.placements for result in results], count


def gathered(mesh_shape, parts, shapes, placements):
    """Operands put together again by DTensor."""
    with local_ranks(math.prod(mesh_shape)):
        mesh = init_device_mesh("cpu", tuple(mesh_shape))
        return [whole(distributed(mesh, *one)) for one in zip(parts, shapes, placements)]


def whole(tensor):
    """As rank 0 sees it."""
    from torch.distributed._local_tensor import LocalTensor

    full = tensor.full_tensor()
    return full._local_tensors[0] if isinstance(full, LocalTensor) else full
