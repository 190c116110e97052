"""Placements that DTensor alone has: two mesh axes on one dimension in the opposite order, and parts of a norm."""

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _StridedShard


def opposite_orders(placements):
    """`placements` on two axes of two ranks, with the axes of one dimension of one operand the other way round."""
    for i, of in enumerate(placements):
        if type(of[0]) is Shard and of[0] == of[1]:
            turned = [list(other) for other in placements]
            turned[i][0] = _StridedShard(of[0].dim, split_factor=2)
            yield turned


def pending_norms(tensors):
    """On one axis: one operand as a norm of which every rank has a part, then all that can be, the others whole."""
    can_be = [i for i, tensor in enumerate(tensors) if tensor.dtype.is_floating_point]
    sets = [[i] for i in can_be] + ([can_be] if len(can_be) > 1 else [])
    for pending in sets:
        yield [[_NormPartial(2)] if i in pending else [Replicate()] for i in range(len(tensors))]


def is_norm(placement):
    return isinstance(placement, _NormPartial)


def parts_of_norm(tensor, ranks, random):
    """Parts whose squares add up to those of a tensor without negative numbers."""
    weights = [torch.rand(tensor.shape, generator=random, dtype=torch.float64) + 0.1 for _ in range(ranks)]
    whole = sum(weight**2 for weight in weights).sqrt()
    return [(tensor * (weight / whole)).to(tensor.dtype) for weight in weights]


def literal(placement):
    """As a script writes it; nothing for placements that everybody has."""
    if isinstance(placement, _StridedShard):
        return f"_StridedShard({placement.dim}, split_factor={placement.split_factor})"
    return f"_NormPartial({placement.norm_type})" if is_norm(placement) else None


IMPORTS = {"_StridedShard": "from torch.distributed.tensor.placement_types import _StridedShard",
           "_NormPartial": "from torch.distributed.tensor._ops._math_ops import _NormPartial"}


def imports(text):
    """The lines that a script with such literals needs."""
    return "".join(line + "\n" for name, line in IMPORTS.items() if name + "(" in text)
