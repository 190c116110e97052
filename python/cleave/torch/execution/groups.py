"""Process groups of the replica groups of a module."""

import torch

from cleave.torch.execution.table import Op

COLLECTIVES = {
    "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter", "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
}  # fmt: skip


def partition_of(op: Op):
    """The ranks that take part in a collective, as lists: its replica groups, or the parts that a permutation connects."""
    if op.name in COLLECTIVES:
        table = op.get("replica_groups")
        rows = table.tolist() if table.dim() == 2 else [table.tolist()]
        return [[rank for rank in row if rank >= 0] for row in rows]
    if op.name == "stablehlo.collective_permute":
        return connected(op.get("source_target_pairs").tolist())
    return None


def connected(pairs):
    """[[0, 1], [1, 0], [2, 3]] -> [[0, 1], [2, 3]]"""
    parts = {}
    for pair in pairs:
        joined = tuple(sorted(set().union(*(parts.get(rank, (rank,)) for rank in pair))))
        parts.update(dict.fromkeys(joined, joined))
    return [list(part) for part in sorted(set(parts.values())) if len(part) > 1]


class Groups:
    """Makes a torch.distributed group for each set of ranks, once, and answers the name of this rank's.

    Every rank must ask for the same partitions in the same order, as `to_fx` does. Groups of `mesh`, a DeviceMesh, and the
    group of all ranks are used if they are the same. `ranks` maps the devices of the program to ranks of torch.distributed;
    without it the devices are those of the mesh in order, or the ranks themselves. If the mesh has some of the ranks only,
    the others need not ask."""

    def __init__(self, mesh=None, ranks=None):
        self.ranks = mesh.mesh.flatten().tolist() if ranks is None and mesh is not None else ranks
        self.is_partial, self.names = mesh is not None and mesh.size() < torch.distributed.get_world_size(), {}
        # What all ranks know to be there, whether they are members or not.
        self.made = set(dimension_groups(mesh))
        for group in [torch.distributed.group.WORLD, *(mesh.get_all_groups() if mesh is not None else [])]:
            members = tuple(torch.distributed.get_process_group_ranks(group))
            self.names.setdefault(members, group.group_name)
        self.made.add(tuple(torch.distributed.get_process_group_ranks(torch.distributed.group.WORLD)))

    def __call__(self, partition):
        rank, name = torch.distributed.get_rank(), None
        for part in partition:
            members = tuple(part if self.ranks is None else (self.ranks[device] for device in part))
            if len(members) > 1 and members not in self.made:
                self.made.add(members)
                self.make(members, rank)
            if rank in members:
                name = self.names.get(members)
        return name

    def make(self, members, rank):
        if self.is_partial:  # those of other meshes make no groups now
            if rank in members and members not in self.names:
                group = torch.distributed.new_group(list(members), sort_ranks=False, use_local_synchronization=True)
                self.names[members] = group.group_name
            return
        group = torch.distributed.new_group(list(members), sort_ranks=False)
        if rank in members:
            self.names[members] = group.group_name


def dimension_groups(mesh):
    """The ranks of all groups along the dimensions of a DeviceMesh, in the order that its groups have them."""
    if mesh is None:
        return
    for dim in range(mesh.mesh.dim()):
        for row in mesh.mesh.movedim(dim, -1).reshape(-1, mesh.mesh.shape[dim]).tolist():
            yield tuple(sorted(row))


class NamedGroups:
    """Names of groups without processes: "0,1,2,3". For graphs that are looked at, or run by `Ranks`."""

    def __init__(self, rank):
        self.rank = rank

    def __call__(self, partition):
        return next((",".join(map(str, part)) for part in partition if self.rank in part), None)
