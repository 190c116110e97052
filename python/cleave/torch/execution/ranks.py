"""The graphs of all ranks, run in one process in step: collectives wait for each other and exchange their tensors."""

import operator
from collections import Counter

import torch

c10d = torch.ops._c10d_functional
REDUCE = {
    "sum": operator.add, "product": operator.mul, "max": torch.maximum, "min": torch.minimum,
    "band": operator.and_, "bor": operator.or_, "bxor": operator.xor,
}  # fmt: skip


class Ranks:
    """Runs one graph per rank, whose groups `NamedGroups` named. For tests, and to look at results without processes.

        ranks = Ranks([to_fx(text, rank=r, groups=NamedGroups(r)) for r in range(4)])
        results = ranks.run(arguments_of_each_rank)
        ranks.counts, ranks.received          # of rank 0: collectives by kind, bytes that came from others"""

    def __init__(self, graphs):
        self.graphs, self.counts, self.received = graphs, Counter(), Counter()

    def run(self, arguments):
        self.counts, self.received = Counter(), Counter()
        runs = [walk(graph, args) for graph, args in zip(self.graphs, arguments)]
        waiting, results, inbox = {}, [None] * len(runs), [None] * len(runs)
        ready = list(range(len(runs)))
        while ready:
            for rank in ready:
                try:
                    waiting[rank] = runs[rank].send(inbox[rank])
                except StopIteration as end:
                    results[rank] = end.value
            ready = self.exchange(waiting, inbox)
        if waiting:
            raise RuntimeError(f"collectives of ranks {sorted(waiting)} do not meet")
        return results

    def exchange(self, waiting, inbox):
        """Serves every group whose members all wait at a collective of it. Those that go on."""
        ready = []
        for rank in sorted(waiting):
            if rank not in waiting:
                continue
            name = waiting[rank][2]
            members = [int(r) for r in name.split(",")]
            if not all(r in waiting and waiting[r][2] == name for r in members):
                continue
            calls = [waiting.pop(r) for r in members]
            kind = calls[0][0].meta.get("collective", str(calls[0][0].target)).removeprefix("stablehlo.")
            for index, member in enumerate(members):
                inbox[member] = received(calls, index)
            if 0 in members:
                index = members.index(0)
                self.counts[kind] += 1
                self.received[kind] += bytes_of(calls, index)
            ready += members
        return ready


def walk(graph, arguments):
    """A generator that runs the nodes of a graph, and yields at collectives."""
    values, given = {}, iter(arguments)

    def load(node):
        return values[node]

    for node in graph.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = getattr(graph, node.target)
        elif node.op == "output":
            return list(torch.fx.map_arg(node.args[0], load))
        else:
            args, kwargs = torch.fx.map_arg(node.args, load), torch.fx.map_arg(node.kwargs, load)
            if node.target is c10d.wait_tensor.default:
                values[node] = args[0]
            elif getattr(node.target, "namespace", "") == "_c10d_functional":
                values[node] = yield node, args, args[-1]
            else:
                values[node] = node.target(*args, **kwargs)
    return None


def received(calls, index):
    """What the member `index` of a group gets."""
    target, args = calls[0][0].target, [call[1] for call in calls]
    inputs = [a[0] for a in args]
    if target in (c10d.all_reduce.default, c10d.reduce_scatter_tensor.default):
        total = inputs[0]
        for other in inputs[1:]:
            total = REDUCE[args[0][1]](total, other)
        return total.clone() if target is c10d.all_reduce.default else total.chunk(len(inputs))[index].clone()
    if target is c10d.all_gather_into_tensor.default:
        return torch.cat(inputs)
    if target is c10d.all_to_all_single.default:
        parts = [a[0].split(a[2])[index] for a in args]
        assert [len(part) for part in parts] == list(args[index][1])
        return torch.cat(parts)
    if target is c10d.broadcast.default:
        return inputs[args[0][1]].clone()
    raise RuntimeError(f"{target} is no collective")


def bytes_of(calls, index):
    """Bytes that come from other members in a ring."""
    target, args, n = calls[0][0].target, calls[index][1], len(calls)
    size = args[0].numel() * args[0].element_size()
    if target is c10d.all_reduce.default:
        return 2 * size * (n - 1) / n
    if target is c10d.reduce_scatter_tensor.default:
        return size * (n - 1) / n
    if target is c10d.all_gather_into_tensor.default:
        return size * (n - 1)
    if target is c10d.all_to_all_single.default:
        rest = sum(rows for i, rows in enumerate(args[1]) if i != index)
        return rest * args[0].element_size() * (args[0].numel() // max(1, args[0].shape[0]) if args[0].dim() > 1 else 1)
    return size
