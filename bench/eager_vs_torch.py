"""A train step of a small MLP, op by op, by Cleave and by PyTorch eager in one run.

Three layers of 128 x 128 with bias and relu, a batch of 32, f32, one device, one thread each: forward, mean squared
error, gradient, and an update by SGD or AdamW. Cleave's step reads all new weights; PyTorch computes at once. PyTorch's
AdamW is its own (torch.optim, foreach and single tensor; the faster one counts), its SGD too. Both are given rounds in
turn, and the best round of each counts: microseconds by the clock and of processor time.
"""

import json
import os
import subprocess
import time

BUILD = os.environ.get("CLEAVE_BUILD", "build/release")
TURNS = int(os.environ.get("CLEAVE_TURNS", "4"))


def torch_step(optimizer, **options):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = [torch.nn.Linear(128, 128) for _ in range(3)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    x, y = torch.randn(32, 128), torch.randn(32, 128)
    update = optimizer(model.parameters(), lr=1e-3, **options)

    def step():
        update.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        update.step()

    return step


def measure(step, rounds=10, steps=100):
    for _ in range(steps):
        step()
    clock = processor = float("inf")
    for _ in range(rounds):
        begin, begin_cpu = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(steps):
            step()
        clock = min(clock, (time.perf_counter_ns() - begin) / steps / 1e3)
        processor = min(processor, (time.process_time_ns() - begin_cpu) / steps / 1e3)
    return clock, processor


def best(a, b):
    return tuple(min(x, y) for x, y in zip(a, b))


def main():
    try:
        import torch
    except ImportError:
        torch = None
        print("SKIPPED PyTorch: it is not installed; Cleave alone")
    ours = {"sgd": (float("inf"),) * 2, "adamw": (float("inf"),) * 2}
    theirs = dict(ours)
    for _ in range(TURNS):
        run = json.loads(subprocess.run([f"{BUILD}/bench/bench_eager_step", "--json", "10"], capture_output=True,
                                        text=True, check=True).stdout)
        for name in ours:
            ours[name] = best(ours[name], run[name])
        if torch:
            theirs["sgd"] = best(theirs["sgd"], measure(torch_step(torch.optim.SGD)))
            for foreach in (False, True):
                step = torch_step(torch.optim.AdamW, weight_decay=0.01, foreach=foreach)
                theirs["adamw"] = best(theirs["adamw"], measure(step))
    print(f"{'step':<8} {'Cleave':>10} {'PyTorch':>10} {'ratio':>7}   {'processor':>10} {'PyTorch':>10} {'ratio':>7}")
    for name, (clock, processor) in ours.items():
        other, other_processor = theirs[name]
        if torch:
            print(f"{name:<8} {clock:>7.1f} us {other:>7.1f} us {clock / other:>7.2f}   {processor:>7.1f} us "
                  f"{other_processor:>7.1f} us {processor / other_processor:>7.2f}")
        else:
            print(f"{name:<8} {clock:>7.1f} us {'':>18}   {processor:>7.1f} us")


if __name__ == "__main__":
    main()
