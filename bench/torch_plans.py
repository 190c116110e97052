#!/usr/bin/env python3
"""A planned GPT beside FSDP2 (`fully_shard`) and tensor parallelism (`parallelize_module`), all by PyTorch on four processes of gloo.

    bench/torch_plans.py [--layers 4] [--steps 10]

In one run, of each way: the bytes that a rank receives in a step (a collective over n ranks counts as a ring), the most that it
holds (parameters, gradients, AdamW's state, activations: every storage that is alive after an op), and the processor time of
forward and backward on rank 0 with tensors so small that dispatching is what takes time. The plan is made for few bytes within
the memory that its rival holds: the limit is lowered until what is held, as it is measured, is no more.
"""

import argparse
import collections
import pathlib
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples/torch"))
import gpt  # noqa: E402
from launching import launched, say  # noqa: E402

import cleave.torch as ct  # noqa: E402
from cleave.torch.checking import KINDS, RECEIVED, nbytes  # noqa: E402

MIB = 1 << 20
RANKS = 4
ROUNDS = 6


class Watch(TorchDispatchMode):
    """Bytes received by kind, and the most bytes that were alive at once."""

    C10D = {"_allgather_base_": ("all-gather", 1, 0), "_reduce_scatter_base_": ("reduce-scatter", 1, 0), "allreduce_": ("all-reduce", 0, 0)}

    def __init__(self, tensors=()):
        super().__init__()
        self.received, self.alive, self.now, self.most = collections.Counter(), {}, 0, 0
        for tensor in tensors:
            self.see(tensor)

    def see(self, tensor):
        tensor = getattr(tensor, "_local_tensor", tensor)
        if type(tensor) is not torch.Tensor and not isinstance(tensor, torch.nn.Parameter):
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.alive or storage.nbytes() == 0:
            return
        self.alive[key] = size = storage.nbytes()
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.gone, key)

    def gone(self, key):
        self.now -= self.alive.pop(key, 0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.namespace == "_c10d_functional" and name in KINDS:
            self.received[KINDS[name]] += RECEIVED[KINDS[name]](RANKS, nbytes(args[0]), nbytes(result))
        elif func.namespace == "c10d" and name in self.C10D:
            kind, operand, into = self.C10D[name]
            def first(one):
                return one[0] if isinstance(one, (list, tuple)) else one
            self.received[kind] += RECEIVED[kind](RANKS, nbytes(first(args[operand])), nbytes(first(args[into])))
        for leaf in torch.utils._pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        return result


def sized(layers, small):
    gpt.LAYERS = layers
    size = dict(D=64, HEADS=8, KV_HEADS=4, HIDDEN=192, VOCAB=256, LENGTH=16, HEAD=8) if small else \
        dict(D=256, HEADS=8, KV_HEADS=4, HIDDEN=768, VOCAB=1024, LENGTH=128, HEAD=32)  # fmt: skip
    for name, value in size.items():
        setattr(gpt, name, value)
    return 4 if small else 8


def loss_of(model):
    return lambda x, y: gpt.loss_fn(model(x), y)


def fsdp(batch):
    from torch.distributed.fsdp import fully_shard

    model = gpt.GPT()
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("data",))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    own = tuple(one.chunk(RANKS)[dist.get_rank()] for one in batch)
    return model, loss_of(model), own, None


def tensor_parallel(batch):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = gpt.GPT()
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("model",))
    for layer in model.layers:
        columns = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v", "gate", "up")}
        parallelize_module(layer, mesh, columns | {"attention.o": RowwiseParallel(), "down": RowwiseParallel()})
    parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Replicate())})
    return model, loss_of(model), batch, None


def planned(memory):
    def make(batch):
        model = gpt.GPT()
        mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("x",))
        plan = ct.plan(model, gpt.loss_fn, batch, mesh=mesh, machine="h100", executor="eager", memory=int(memory), memory_share=1.0,
                       objective="bytes", time_limit=5)
        model = ct.parallelize(model, plan, mesh)
        return model, model, batch, plan
    return make


def stepped(model, loss, batch, optimizer):
    loss(*batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def figures(make, size):
    """Bytes received in the second step, the most bytes held in it, and what was planned."""
    torch.manual_seed(0)
    model, loss, batch, plan = make(gpt.batch(0, size))
    optimizer = torch.optim.AdamW(model.parameters())
    with Watch() as first:
        for one in [*model.parameters(), *model.buffers()]:
            first.see(one)
        stepped(model, loss, batch, optimizer)
        before = first.now
    state = [one for entry in optimizer.state.values() for one in entry.values() if isinstance(one, torch.Tensor)]
    with Watch([*model.parameters(), *model.buffers(), *state]) as watch:
        stepped(model, loss, batch, optimizer)
    del before
    return sum(watch.received.values()), watch.most, plan


def host_seconds(make, size, steps):
    """Processor time of a forward and a backward pass on this rank."""
    torch.manual_seed(0)
    model, loss, batch, _ = make(gpt.batch(0, size))
    for _ in range(3):
        loss(*batch).backward()
    times = []
    for _ in range(steps):
        dist.barrier()
        begin = time.thread_time()
        loss(*batch).backward()
        times.append(time.thread_time() - begin)
    return sorted(times)[len(times) // 2]


def main(layers, steps):
    torch.set_num_threads(1)
    rivals = {"FSDP2": fsdp, "tensor parallelism": tensor_parallel}
    size = sized(layers, small=False)
    say(f"GPT of {layers} layers, d={gpt.D}, {size} x {gpt.LENGTH} tokens, f32, {RANKS} ranks; torch {torch.__version__}")
    say(f"{'':<42} {'received':>11} {'held':>11}   beside the rival: {'received':>8} {'held':>6}")
    for name, make in rivals.items():
        received, held, _ = figures(make, size)
        say(f"{name:<42} {received / MIB:>7.2f} MiB {held / MIB:>7.2f} MiB")
        limit = held
        for _ in range(ROUNDS):
            own, own_held, plan = figures(planned(limit), size)
            if own_held <= held:
                break
            limit *= 0.97 * held / own_held
        say(f"{'planned within its memory':<42} {own / MIB:>7.2f} MiB {own_held / MIB:>7.2f} MiB   "
            f"{'':<18} {own / received:>8.3f} {own_held / held:>6.3f}   (planned: {plan.received_bytes / MIB:.2f} MiB, "
            f"{plan.memory_bytes / MIB:.2f} MiB)")
    size = sized(layers, small=True)
    dispatched = host_seconds(tensor_parallel, size, steps)
    own = host_seconds(planned(1 << 40), size, steps)
    split = host_seconds(planned_like_megatron, size, steps)
    say(f"host time of a step, d={gpt.D}: tensor parallelism by DTensor {dispatched * 1e3:.1f} ms; planned in the same layout "
        f"{split * 1e3:.1f} ms, {dispatched / split:.2f} times less; planned freely {own * 1e3:.1f} ms")


def planned_like_megatron(batch):
    model = gpt.GPT()
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("x",))
    pins = {f"layers.*.{name}.weight": ("x", None) for name in ("attention.q", "attention.k", "attention.v", "gate", "up")}
    pins |= {f"layers.*.{name}.weight": (None, "x") for name in ("attention.o", "down")}
    plan = ct.plan(model, gpt.loss_fn, batch, mesh=mesh, machine="h100", executor="eager", pins=pins | {"head.weight": ("x", None)},
                   objective="sum", time_limit=5)
    model = ct.parallelize(model, plan, mesh)
    return model, model, batch, plan


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    launched(main, options.layers, options.steps)
