"""A step that ran, beside its plan: what it sent, and what parameters take."""

import collections

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cleave._core import InternalError

# Of a collective over n ranks: the bytes that one of them receives, by those of its operand and of its result.
RECEIVED = {
    "all-reduce": lambda n, operand, result: 2 * (n - 1) / n * operand,
    "all-gather": lambda n, operand, result: (n - 1) / n * result,
    "reduce-scatter": lambda n, operand, result: (n - 1) / n * operand,
    "all-to-all": lambda n, operand, result: (n - 1) / n * result,
    "collective-permute": lambda n, operand, result: result,
}
KINDS = {"all_reduce": "all-reduce", "all_gather_into_tensor": "all-gather", "reduce_scatter_tensor": "reduce-scatter",
         "all_to_all_single": "all-to-all", "collective_permute": "collective-permute"}


class Collectives(TorchDispatchMode):
    """The collectives that run inside: by kind, how many, and the bytes that this rank receives.

        with Collectives() as ran:
            model(x, y).backward()
        print(ran.counts, ran.bytes)
    """

    def __init__(self):
        super().__init__()
        self.counts, self.bytes = collections.Counter(), collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        kind = KINDS.get(func.overloadpacket.__name__) if func.namespace in ("_c10d_functional", "cleave") else None
        if kind:
            self.counts[kind] += 1
            self.bytes[kind] += RECEIVED[kind](self._ranks(func, args, kwargs or {}), nbytes(args[0]), nbytes(result))
        return result

    @staticmethod
    def _ranks(func, args, kwargs):
        from torch.distributed.distributed_c10d import _resolve_process_group

        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args)) | kwargs
        return _resolve_process_group(given["group_name"]).size()


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


class Check:
    """What a step did beside what was planned; `good` if all is as planned."""

    def __init__(self, rows, arguments):
        self.rows, self.arguments = rows, arguments
        planned, counted = arguments
        self.good = planned == counted and all(row[1:3] == row[3:5] for row in rows)

    def __str__(self):
        total = sum(row[4] for row in self.rows)
        same = all(row[1:3] == row[3:5] for row in self.rows)
        lines = [f"{'ok  ' if same else 'NOT '} a device receives {text_of(total)} in a step, "
                 f"{text_of(sum(row[2] for row in self.rows))} planned"]
        for kind, count, planned, ran, received in self.rows:
            lines.append(f"       {kind:<20} planned {text_of(planned):>10} x{count:<5} ran {text_of(received):>10} x{ran}")
        planned, counted = self.arguments
        lines.append(f"{'ok  ' if planned == counted else 'NOT '} parameters and buffers of a device: {text_of(counted)}, "
                     f"{text_of(planned)} planned")
        return "\n".join(lines)

    def __repr__(self):
        return f"<{str(self)}>"


def check(model, args, kwargs):
    """Runs a step, and its gradients, which are dropped. Raises InternalError if it did not do what was planned."""
    kept = {name: parameter.grad for name, parameter in model.named_parameters()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with Collectives() as ran:
        results = model(*args, **kwargs)
        losses = [leaf for leaf in torch.utils._pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if losses:
            torch.autograd.backward(losses, [torch.ones_like(loss) for loss in losses])
    for name, parameter in model.named_parameters():
        parameter.grad = kept[name]
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    found = Check(rows_of(model.plan, ran), argument_bytes(model))
    if not found.good:
        raise InternalError(f"a step did not do what was planned:\n{found}")
    return found


def rows_of(plan, ran):
    """Of each kind: planned executions and bytes, and those that ran."""
    asked = {} if plan.is_whole else {kind: (round(count), round(received)) for kind, count, received, _ in plan._core.asked()[0]}
    return [(kind, *asked.get(kind, (0, 0)), ran.counts[kind], round(ran.bytes[kind])) for kind in sorted({*asked, *ran.counts})]


def argument_bytes(model):
    """What parameters and buffers take on a device: as planned, and as they are."""
    runner = model._planned
    planned = sum(size_of(part, one) for one, part in zip(runner.traced.inputs, runner.inputs) if one.kind in ("parameter", "buffer"))
    names = {one.name for one in runner.traced.inputs if one.kind in ("parameter", "buffer")}
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    held = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for name, tensor in tensors.items() if name in names]
    return planned, sum(nbytes(tensor) for tensor in held)


def size_of(part, one):
    size = one.dtype.itemsize
    for length in part.sizes:
        size *= length
    return size


def text_of(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{round(count)} B"
