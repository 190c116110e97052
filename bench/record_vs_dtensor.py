"""What one op on sharded tensors costs before anything is computed: recording it with Cleave, dispatching it with
PyTorch's DTensor, in one run.

Both know the signature of the op already (the same op has run before), on a 2 x 4 mesh, tensors of 64 x 64. DTensor's time
includes the op on the local shard, which is given beside it and taken off; its process group is a fake one of 8, so
nothing is communicated.
"""

import json
import os
import subprocess
import time

BUILD = os.environ.get("CLEAVE_BUILD", "build/release")


def nanoseconds(op, count=500, rounds=15):
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(count):
            op()
        best = min(best, (time.perf_counter_ns() - begin) / count)
    return best


def dtensor():
    """By op: nanoseconds of DTensor, and of the local op alone."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))
    local, weight = torch.randn(32, 16), torch.randn(16, 64)
    x = DTensor.from_local(local, mesh, [Shard(0), Shard(1)], run_check=False)
    w = DTensor.from_local(weight, mesh, [Replicate(), Shard(0)], run_check=False)
    times = {
        "add": (nanoseconds(lambda: x + x), nanoseconds(lambda: local + local)),
        "matmul": (nanoseconds(lambda: x @ w), nanoseconds(lambda: local @ weight)),
        "reshape": (nanoseconds(lambda: x.reshape(64, 8, 8)), nanoseconds(lambda: local.reshape(32, 2, 8))),
    }
    dist.destroy_process_group()
    return times


def main():
    ours = json.loads(subprocess.run([f"{BUILD}/bench/bench_record", "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    try:
        theirs = dtensor()
    except ImportError:
        theirs = {}
        print("SKIPPED DTensor: PyTorch is not installed; Cleave alone")
    print(f"{'op':<10} {'Cleave records':>15} {'DTensor':>12} {'local op':>10} {'DTensor / Cleave':>18}")
    for op, time_ns in ours.items():
        if op not in theirs:
            print(f"{op:<10} {time_ns:>12.0f} ns")
            continue
        total, local = theirs[op]
        print(f"{op:<10} {time_ns:>12.0f} ns {total:>9.0f} ns {local:>7.0f} ns {(total - local) / time_ns:>17.0f}x")


if __name__ == "__main__":
    main()
