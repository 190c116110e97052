"""The ranks of a device mesh, which may be some of those that torch.distributed has, in any order."""

import torch
import torch.distributed as dist

_made = {}  # ranks -> their group


def ranks_of(mesh):
    """The rank of each device of a plan."""
    return mesh.mesh.flatten().tolist()


def covers_the_world(mesh):
    return mesh.size() == dist.get_world_size()


def group_of(mesh):
    """The group of all ranks of the mesh; None for that of all ranks there are. Only ranks of the mesh may ask."""
    if mesh is None or covers_the_world(mesh):
        return None
    ranks = tuple(sorted(ranks_of(mesh)))
    if ranks not in _made:
        _made[ranks] = mesh.get_group() if mesh.ndim == 1 else dist.new_group(list(ranks), use_local_synchronization=True)
    return _made[ranks]


def is_ascending(mesh):
    """Whether ranks grow along every dimension. Groups of a DeviceMesh have their ranks in order, whatever the mesh says, so that
    DTensor would put parts together in another order than they lie."""
    return all(bool((mesh.mesh.diff(dim=d) > 0).all()) for d in range(mesh.mesh.dim()))


WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def sum_of_bits(tensor):
    """A number that differs if a tensor does, most likely, and does not depend on the order of a sum."""
    tensor = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return tensor.contiguous().view(WORDS[tensor.element_size()]).sum(dtype=torch.int64)


def differing(tensors, mesh):
    """The names of those that are not the same on all ranks of the mesh, known to all of them."""
    named = [(name, tensor) for name, tensor in tensors.items() if not tensor.is_meta and tensor.layout == torch.strided]
    if mesh.size() == 1 or not named:
        return []
    own = torch.stack([sum_of_bits(tensor).to(mesh.device_type) for _, tensor in named])
    first = own.clone()
    dist.broadcast(first, src=ranks_of(mesh)[0], group=group_of(mesh))
    differs = (own != first).to(torch.int64)
    dist.all_reduce(differs, dist.ReduceOp.MAX, group=group_of(mesh))
    return [name for (name, _), differs in zip(named, differs.tolist()) if differs]
