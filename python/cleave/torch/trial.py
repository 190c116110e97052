"""One call under the placements of a mesh: numbers of the devices' parts, and what DTensor makes of them in a run."""

import dataclasses

import numpy as np
import torch
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import _StridedShard

from cleave.torch import dtensor, own_placements

ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2,
            torch.complex128: 1e-9, torch.complex64: 1e-4}


@dataclasses.dataclass
class Trial:
    """Operands on devices: `parts` are by operand and rank, `placements` by operand and mesh axis."""

    mesh: tuple
    operands: list
    parts: list
    placements: list


def split(tensor, placement, ranks, random):
    """What each rank holds of a tensor; chunks as DTensor cuts them, and parts of a pending reduction that all differ."""
    if placement.is_replicate():
        return [tensor.clone() for _ in range(ranks)]
    if placement.is_shard():
        chunks = list(torch.chunk(tensor, ranks, placement.dim))
        empty = tensor.narrow(placement.dim, 0, 0)
        return [c.contiguous() for c in chunks] + [empty.clone() for _ in range(ranks - len(chunks))]
    if own_placements.is_norm(placement):
        return own_placements.parts_of_norm(tensor, ranks, random)
    parts = [pieces(tensor, random) for _ in range(ranks)]
    if placement.reduce_op in ("sum", "avg"):
        whole = tensor * ranks if placement.reduce_op == "avg" else tensor
        parts[-1] = whole - sum(parts[:-1])
        return parts
    sign = -1 if placement.reduce_op == "max" else 1
    parts = [tensor + sign * part.abs() for part in parts]
    holder = torch.randint(0, ranks, tensor.shape, generator=random)
    return [torch.where(holder == rank, tensor, part) for rank, part in enumerate(parts)]


def pieces(tensor, random):
    if tensor.dtype.is_floating_point:
        return (torch.randn(tensor.shape, generator=random) * (tensor.abs().double().nan_to_num(1, 1, 1) + 1)).to(tensor.dtype)
    return torch.randint(-3, 4, tensor.shape, generator=random).to(tensor.dtype)


def can_split(tensor, placement):
    """Bools have no sums, and integers no averages in general."""
    if not placement.is_partial():
        return True
    return tensor.dtype != torch.bool and (tensor.dtype.is_floating_point or placement.reduce_op != "avg")


def trial_of(call, mesh, placements, seed):
    """The sample's own numbers, under placements by operand and mesh axis; none if they cannot be split so."""
    random = torch.Generator().manual_seed(seed)
    operands, parts = [], []
    for tensor, of in zip(call.tensors, placements):
        if not all(can_split(tensor, placement) for placement in of):
            return None
        operands.append(tensor.abs() if any(map(own_placements.is_norm, of)) else tensor)
        parts.append(held_by_ranks(operands[-1], mesh, of, random))
    return Trial(mesh, operands, parts, placements)


def held_by_ranks(tensor, mesh, placements, random):
    if isinstance(placements[0], _StridedShard):  # the second axis cuts first
        halves = split(tensor, placements[1], mesh[1], random)
        quarters = [split(half, Shard(placements[0].dim), mesh[0], random) for half in halves]
        return [quarters[j][i] for i in range(mesh[0]) for j in range(mesh[1])]
    held = [tensor]
    for size, placement in zip(mesh, placements):
        held = [part for whole in held for part in split(whole, placement, size, random)]
    return held


def trial_of_witness(witness, placements):
    """What discovery found, on one mesh axis."""
    tensors = [torch.from_numpy(np.array(array)) for array in witness["operands"]]
    parts = [[torch.from_numpy(np.array(part)) for part in of] for of in witness["parts"]]
    return Trial((witness["devices"],), tensors, parts, [[placement] for placement in placements])


def difference(expected, found, scale):
    """In words, the first number that is another one; empty if all are the same."""
    if tuple(expected.shape) != tuple(found.shape):
        return f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    a, b = expected.to(torch.complex128 if expected.is_complex() else torch.float64), found
    b = b.to(a.dtype)
    limit = ROUNDING.get(expected.dtype, 0.0) * scale
    same = (a == b) | ((a - b).abs() <= limit) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return ""
    element = int((~same).flatten().nonzero()[0])
    return f"element {element}: expected {expected.flatten()[element].item():.6g}, DTensor gives {found.flatten()[element].item():.6g}"


LARGE = 2.0**30  # integers from here on: sums of a few leave their type, and casts of them too


def what_is_special(call, trial):
    """What numbers that alone show a fault have beside those of everyday, in words; empty if nothing."""
    held = [*trial.operands, *(part for parts in trial.parts for part in parts)]
    if not all(bool(t.isfinite().all()) for t in held):
        return "an operand has a NaN or an infinity"
    largest = max([0.0, *(t.double().abs().max().item() for t in held if t.numel() and not t.is_complex())])
    if any(not t.dtype.is_floating_point and t.numel() and t.double().abs().max() >= LARGE for t in held) or largest > 1e30:
        return "numbers near the ends of their type"
    if not all(bool(t.isfinite().all()) for t in call.run(trial.operands)):
        return "the true result is not finite"
    return "ties, zeros or another pattern"


def why_unfit(call, trial):
    """Why a difference between two ways to compute the same is no fault of a rule; empty if it is one."""
    held = [*trial.operands, *(part for parts in trial.parts for part in parts)]
    floats = [t for t in held if t.dtype.is_floating_point and t.numel()]
    if any(bool(((t != 0) & (t.abs() < torch.finfo(t.dtype).tiny)).any()) for t in floats):
        return "wrong for denormal numbers only, which kernels treat by the length of what they are given"
    if "_polynomial_" in call.op.name() and any(bool(t.isnan().any()) for t in floats):
        return "PyTorch's kernels of polynomials take a degree of NaN from the element before"
    if not is_repeatable(call, trial.operands):
        return "two runs differ: its result holds memory that nobody has written"
    random = torch.Generator().manual_seed(1)
    nudged = [t * (1 + torch.finfo(t.dtype).eps * torch.randn(t.shape, generator=random, dtype=t.dtype)) if t.dtype.is_floating_point
              else t for t in trial.operands]
    scale = magnitude(held)
    for true, other in zip(call.run(trial.operands), call.run(nudged)):
        if true.dtype.is_floating_point and difference(true, other, scale):
            return "the result depends on rounding: its operands are ill-conditioned"
    return ""


def is_repeatable(call, operands):
    """Whether runs agree if the memory that is given out held other numbers before."""
    first = call.run(operands)
    for number in (1.5, -7.25):
        for true in first:
            dirty = [torch.full_like(true, number) if true.dtype != torch.bool else torch.ones_like(true) for _ in range(8)]
            del dirty
        for a, b in zip(first, call.run([t.clone() for t in operands])):
            if difference(a, b, 0.0):
                return False
    return True


def magnitude(tensors):
    numbers = [t.double().abs().nan_to_num(0, 0, 0).max().item() for t in tensors if t.numel() and not t.is_complex()]
    return max([1.0, *numbers])


def comes_back(trial):
    """Whether DTensor puts every operand together again: it does not know every layout of uneven parts in both orders."""
    shapes = [tuple(t.shape) for t in trial.operands]
    try:
        whole = dtensor.gathered(trial.mesh, trial.parts, shapes, trial.placements)
    except Exception:  # noqa: BLE001: refusals have many types
        return False
    return not any(difference(a, b, magnitude([a])) for a, b in zip(trial.operands, whole))


def run(call, trial):
    """DTensor's own run: (what differs in words, number of collectives, placements of the results)."""
    expected = call.run(trial.operands)
    shapes = [tuple(t.shape) for t in trial.operands]
    found, layouts, count = dtensor.run(call, trial.mesh, trial.parts, shapes, trial.placements)
    scale = magnitude([*trial.operands, *(part for parts in trial.parts for part in parts), *expected])
    for number, (true, value) in enumerate(zip(expected, found)):
        words = difference(true, value, scale)
        if words:
            return (f"result {number}, {words}" if len(expected) > 1 else words), count, layouts
    return "", count, layouts
