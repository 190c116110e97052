"""The graphs of a plan in processes of torch.distributed: real groups, real collectives, and PyTorch's compilers over them."""

import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

sys.path.append(str(Path(__file__).parent))

import cleave  # noqa: E402
from cleave.torch.execution import Groups, NamedGroups, Ranks, to_fx  # noqa: E402
from torch_execution_support import close, examples  # noqa: E402

GROUPS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>"
SUM = """({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""
ALL = f"""
func.func @main(%x: tensor<4x6xf32>, %b: tensor<4xi1>) -> (tensor<4x6xf32>, tensor<4x12xf32>, tensor<4x3xf32>, tensor<2x12xf32>, tensor<4x6xf32>, tensor<4xi1>) {{
  %0 = "stablehlo.all_reduce"(%x) <{{{GROUPS.format(1)}, use_global_device_ids}}> {SUM} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "stablehlo.all_gather"(%x) <{{{GROUPS.format(2)}, all_gather_dim = 1 : i64, use_global_device_ids}}> : (tensor<4x6xf32>) -> tensor<4x12xf32>
  %2 = "stablehlo.reduce_scatter"(%x) <{{{GROUPS.format(3)}, scatter_dimension = 1 : i64, use_global_device_ids}}> {SUM} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %3 = "stablehlo.all_to_all"(%x) <{{{GROUPS.format(4)}, split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64}}> : (tensor<4x6xf32>) -> tensor<2x12xf32>
  %4 = "stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<[[0, 1], [1, 3], [3, 2]]> : tensor<3x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>}}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %5 = "stablehlo.all_reduce"(%b) <{{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, use_global_device_ids}}> ({{
    ^bb0(%p: tensor<i1>, %q: tensor<i1>):
      %s = stablehlo.and %p, %q : tensor<i1>
      stablehlo.return %s : tensor<i1>
    }}) : (tensor<4xi1>) -> tensor<4xi1>
  return %0, %1, %2, %3, %4, %5 : tensor<4x6xf32>, tensor<4x12xf32>, tensor<4x3xf32>, tensor<2x12xf32>, tensor<4x6xf32>, tensor<4xi1>
}}
"""


def inputs(rank):
    rng = np.random.default_rng(rank)
    return [torch.from_numpy(rng.standard_normal((4, 6)).astype(np.float32)), torch.from_numpy(rng.integers(0, 2, 4).astype(bool))]


def expected():
    x, b = zip(*[[t.numpy() for t in inputs(rank)] for rank in range(4)])
    results = []
    senders = {1: 0, 3: 1, 2: 3}
    for rank in range(4):
        pair, i = (0, 1) if rank < 2 else (2, 3), rank % 2
        whole = x[pair[0]] + x[pair[1]]
        across = (rank, (rank + 2) % 4)
        results.append([whole, np.concatenate([x[p] for p in pair], 1), whole[:, 3 * i:3 * i + 3],
                        np.concatenate([x[p][2 * i:2 * i + 2] for p in pair], 1),
                        x[senders[rank]] if rank in senders else np.zeros((4, 6)), b[across[0]] & b[across[1]]])  # fmt: skip
    return results


def test_collectives_in_one_process():
    graphs = [to_fx(ALL, rank=rank, groups=NamedGroups(rank)) for rank in range(4)]
    for actual, wanted in zip(Ranks(graphs).run([inputs(rank) for rank in range(4)]), expected()):
        for a, e in zip(actual, wanted):
            assert np.allclose(a.numpy(), e, atol=1e-6)


def start(rank, port, function, queue, *arguments):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=4 if not arguments else arguments[0])
    try:
        queue.put((rank, function(rank, *arguments[1:])))
    finally:
        dist.destroy_process_group()


def spawn(function, *arguments, count=4):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = mp.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=start, args=(rank, port, function, queue, count, *arguments)) for rank in range(count)]
    for worker in workers:
        worker.start()
    found = dict(queue.get(timeout=300) for _ in workers)
    for worker in workers:
        worker.join()
    return [found[rank] for rank in range(count)]


def collectives(rank):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
    groups = Groups(mesh)
    graph = to_fx(ALL, rank=rank, groups=groups)
    known = mesh.get_group("y").group_name
    used = {node.args[-1] for node in graph.graph.nodes if "collective" in node.meta}
    assert known in used and mesh.get_group("x").group_name in used
    return [t.numpy() for t in graph(*inputs(rank))]


def test_collectives_of_processes():
    for actual, wanted in zip(spawn(collectives), expected()):
        for a, e in zip(actual, wanted):
            assert np.allclose(a, e, atol=1e-6)


def planned_step(rank, text, parts):
    graph = to_fx(text, rank=rank, groups=Groups())
    return [t.numpy() for t in graph(*[torch.from_numpy(part[rank]) for part in parts])]


def test_a_planned_step_of_processes():
    from test_torch_execution_spmd import layouts, shards

    module = cleave.Module.load("model:gpt?step=grad&layers=1&d=32&heads=4&vocab=64&hidden=64&batch=4&length=8")
    plan = cleave.plan(module, mesh={"x": 2}, memory="200KiB")
    whole, manual, spmd = examples(module, 1), plan.export("manual"), plan.export("spmd")
    parts = [[np.ascontiguousarray(p) for p in shards(a, axes, {"x": 2})] for a, axes in zip(whole, layouts(manual, "("))]
    in_step = Ranks([to_fx(spmd, rank=r, groups=NamedGroups(r)) for r in range(2)])
    wanted = in_step.run([[torch.from_numpy(part[r]) for part in parts] for r in range(2)])
    assert in_step.counts
    for actual, results in zip(spawn(planned_step, spmd, parts, count=2), wanted):
        for a, e in zip(actual, results):
            assert close(a, e.numpy())


def test_pytorchs_partitioner_takes_the_graph():
    """A joint graph of values and gradients is cut in two, as ahead-of-time autograd does it, and gives the same."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    text = """
    func.func @main(%p: tensor<8x8xf32>, %x: tensor<4x8xf32>, %t: tensor<f32>) -> (tensor<f32>, tensor<8x8xf32>) {
      %i = stablehlo.iota dim = 1 : tensor<4x8xf32>
      %0 = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %1 = stablehlo.tanh %0 : tensor<4x8xf32>
      %2 = stablehlo.multiply %1, %i : tensor<4x8xf32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
      %o = stablehlo.constant dense<1.0> : tensor<4x8xf32>
      %4 = stablehlo.multiply %1, %1 : tensor<4x8xf32>
      %5 = stablehlo.subtract %o, %4 : tensor<4x8xf32>
      %6 = stablehlo.multiply %5, %i : tensor<4x8xf32>
      %7 = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
      %8 = stablehlo.multiply %6, %7 : tensor<4x8xf32>
      %9 = stablehlo.dot_general %x, %8, contracting_dims = [0] x [0] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
      return %3, %9 : tensor<f32>, tensor<8x8xf32>
    }"""
    graph = to_fx(text, arguments=["primals_1", "primals_2", "tangents_1"])
    values = [torch.randn(8, 8), torch.randn(4, 8), torch.tensor(2.0)]
    loss, gradient = graph(*values)
    forward, backward = min_cut_rematerialization_partition(graph, [], num_fwd_outputs=1)
    value, *saved = forward(*values[:2])
    assert torch.allclose(value, loss)
    assert torch.allclose(backward(*saved, values[2])[0], gradient)


def test_inductor_takes_the_graph():
    from torch._inductor.compile_fx import compile_fx

    module = cleave.Module.load("model:gpt?step=grad&layers=1&d=32&heads=4&vocab=64&hidden=64&batch=2&length=8")
    values = [torch.from_numpy(np.array(a)) for a in examples(module, 1)]
    graph = to_fx(module)
    wanted = graph(*values)
    with torch.no_grad():
        compiled = compile_fx(graph, values)
    for a, e in zip(compiled(*values), wanted):
        assert torch.allclose(a, e, rtol=1e-3, atol=1e-5)
