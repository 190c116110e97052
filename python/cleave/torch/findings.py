"""Findings of an audit as plain data, and the programs that show them by DTensor alone."""

from cleave.torch import own_placements, trial

SCRIPT = '''"""{title}

{words}"""
import torch
import torch.distributed as dist
from math import inf, nan
from torch import device
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_leaves
{imports}
torch.set_printoptions(precision=10, threshold=64)
dist.init_process_group("fake", rank=0, world_size={ranks}, store=FakeStore())
with LocalTensorMode(frozenset(range({ranks}))):  # all ranks in this process
    mesh = init_device_mesh("cpu", {mesh})

    def on_ranks(parts, shape, placements):
        return DTensor.from_local(LocalTensor(dict(enumerate(parts))), mesh, placements, run_check=False,
                                  shape=torch.Size(shape), stride=torch.empty(shape).stride())

{operands}
    result = {call}
    found = [one.full_tensor() for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
    found = [one._local_tensors[0] if isinstance(one, LocalTensor) else one for one in found]

{wholes}
expected = [one for one in tree_leaves({call}) if isinstance(one, torch.Tensor)]
wrong = False
for true, value in zip(expected, found):
    print("expected", true, "\\nDTensor ", value)
    scale = {scale}
    near = {rounding} * scale if true.dtype.is_floating_point else 0
    a, b = (true.double(), value.double()) if not true.is_complex() else (true, value)
    wrong |= a.shape != b.shape or not bool(((a == b) | ((a - b).abs() <= near) | (a.isnan() & b.isnan())).all())
print("WRONG" if wrong else "right")
raise SystemExit(1 if wrong else 0)
'''


def literal(tensor):
    return f"torch.tensor({tensor.tolist()!r}, dtype={tensor.dtype}).reshape({tuple(tensor.shape)})"


def placement_literal(placement):
    own = own_placements.literal(placement)
    if own:
        return own
    if placement.is_shard():
        return f"Shard({placement.dim})"
    return f"Partial({placement.reduce_op!r})" if placement.is_partial() else "Replicate()"


class Name(str):
    """Prints as a name in an argument list."""

    __repr__ = str.__str__


def finding(call, made):
    """What a script must know, as plain data: `call` has x0, x1, ... for the operands."""
    operands = [{"shape": list(tensor.shape), "whole": literal(tensor), "parts": [literal(part) for part in parts],
                 "placements": [placement_literal(placement) for placement in placements]}
                for tensor, parts, placements in zip(made.operands, made.parts, made.placements)]
    args, kwargs = call.arguments([Name(f"x{i}") for i in range(len(operands))])
    texts = [repr(arg) for arg in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    dtypes = [t.dtype for t in made.operands if t.dtype.is_floating_point]
    return {"mesh": list(made.mesh), "operands": operands, "call": f"torch.ops.{call.op}({', '.join(texts)})",
            "scale": trial.magnitude([*made.operands, *(part for parts in made.parts for part in parts)]),
            "rounding": max((trial.ROUNDING[d] for d in dtypes), default=1e-4)}


def script(title, words, data):
    """A program of its own that runs a finding by DTensor, and ends with status 1 if a number is wrong."""
    lines, wholes, ranks = [], [], 1
    for i, operand in enumerate(data["operands"]):
        held = ",\n                  ".join(operand["parts"])
        lines.append(f"    x{i} = on_ranks([{held}],\n                  {tuple(operand['shape'])}, "
                     f"[{', '.join(operand['placements'])}])")
        wholes.append(f"x{i} = {operand['whole']}")
    for size in data["mesh"]:
        ranks *= size
    text = "\n".join(lines)
    return SCRIPT.format(title=title, words=words, imports=own_placements.imports(text), ranks=ranks, mesh=tuple(data["mesh"]),
                         operands=text, wholes="\n".join(wholes), call=data["call"], scale=repr(data["scale"]),
                         rounding=data["rounding"])
