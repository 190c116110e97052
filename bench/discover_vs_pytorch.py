#!/usr/bin/env python3
"""Combinations of placements decided per second: `cleave discover` beside PyTorch's own strategy validation
(torch.distributed.tensor._ops.strategy_validation), on the same operators, in one run.

PyTorch decides a combination with a few fixed inputs on two ranks; Cleave with all its generators, every way to split
partial operands, and two, three and four devices. Both run the operator natively on the CPU, each in one process for
all operators, and count the processor time of the operator alone: neither the start of the process, nor its waiting on
a busy machine. Each side gets the better of two runs.
"""

import json
import os
import subprocess
import sys
import time

OPERATORS = {  # Cleave's name: PyTorch's name
    "abs": "abs", "neg": "neg", "exp": "exp", "tanh": "tanh", "add": "add", "sub": "sub", "mul": "mul", "div": "div",
    "maximum": "maximum", "minimum": "minimum", "where": "where", "matmul": "mm", "bmm": "bmm", "sum": "sum",
    "amax": "amax", "cumsum": "cumsum", "flip": "flip", "softmax": "softmax",
}
RUNS = 2
SAMPLES = 1  # of PyTorch's, per operator; its speed per combination does not depend on their number


def cleave():
    """By operator: combinations, processor seconds."""
    command = os.path.join(os.environ.get("CLEAVE_BUILD", "build/release"), "cleave")
    run = subprocess.run([command, "discover", *OPERATORS, "--no-shrink", "--threads", "1", "--format", "json"],
                         check=True, capture_output=True, text=True)
    return {report["operator"]: (report["combinations"], report["processor_seconds"])
            for report in json.loads(run.stdout)}


def pytorch(operator):
    from torch.distributed.tensor._ops.strategy_validation import compare_operator

    begin = time.process_time()
    stats = compare_operator(operator, max_samples=SAMPLES)
    return stats.total_combinations, time.process_time() - begin


def main():
    try:
        import torch
        import torch.distributed as dist
        import torch.distributed.tensor._ops.strategy_validation  # noqa: F401
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        print(f"SKIPPED: PyTorch's strategy validation is not installed ({error})")
        return 0
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    print(f"{'operator':<10} {'cleave/s':>10} {'pytorch/s':>10} {'ratio':>7}   combinations (cleave, pytorch)")
    totals = [0, 0.0, 0, 0.0]
    runs = [cleave() for _ in range(RUNS)]
    for ours, theirs in OPERATORS.items():
        count, seconds = min((run[ours] for run in runs), key=lambda pair: pair[1])
        their_count, their_seconds = min((pytorch(theirs) for _ in range(RUNS)), key=lambda pair: pair[1])
        totals = [a + b for a, b in zip(totals, (count, seconds, their_count, their_seconds))]
        if not their_count:
            print(f"{ours:<10} {count / seconds:>10.0f} {'none':>10} {'':>7}   {count}, 0")
            continue
        ratio = count / seconds / (their_count / their_seconds)
        print(f"{ours:<10} {count / seconds:>10.0f} {their_count / their_seconds:>10.1f} {ratio:>7.0f}   "
              f"{count}, {their_count}")
    ratio = totals[0] / totals[1] / (totals[2] / totals[3])
    print(f"{'all':<10} {totals[0] / totals[1]:>10.0f} {totals[2] / totals[3]:>10.1f} {ratio:>7.0f}   "
          f"{totals[0]}, {totals[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
