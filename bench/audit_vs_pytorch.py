#!/usr/bin/env python3
"""An audit of DTensor's rules (cleave.torch.audit) beside PyTorch's own validator of strategies, on the same OpInfo entries, in
one run: combinations decided for each second of processor time, and what each of them finds.

    bench/audit_vs_pytorch.py [ENTRIES [SEED]]     so many entries, drawn at random (12)

PyTorch's validator decides a combination with a few fixed inputs on two ranks. The audit decides it on two and more, with all
generators and every way to split partial operands, and runs DTensor itself on what it calls incorrect.
"""

import random
import sys
import time

SAMPLES = 2  # of PyTorch's, per entry; its speed does not depend on their number


def main():
    try:
        import torch
        import torch.distributed as dist
        from torch.distributed.tensor._ops.strategy_validation import compare_operator, get_registered_op_names
        from torch.testing._internal.distributed.fake_pg import FakeStore

        import cleave.torch as ct
    except ImportError as error:
        print(f"SKIPPED: PyTorch's strategy validation or the package cleave is not installed ({error})")
        return 0
    count, seed = (int(sys.argv[1]) if len(sys.argv) > 1 else 12), (int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    names = sorted(random.Random(seed).sample(get_registered_op_names(), count))
    torch.set_num_threads(1)
    # Before PyTorch's validator, which wants a group of two ranks.
    ours = {}
    for name in names:
        audit = ct.audit(name, calls=SAMPLES, dtypes=("float32",), processes=0)
        ours[name] = (audit.total("combinations"), sum(record["seconds"] for record in audit.records), len(audit.incorrect),
                      len(audit.missing))
    dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    print(f"{'entry':<34} {'combinations per second':>26} {'ratio':>6}  {'incorrect':>12} {'missing':>12}   (audit, PyTorch)")
    sums = [0, 0.0, 0, 0.0]
    for name in names:
        begin = time.process_time()
        stats = compare_operator(name, max_samples=SAMPLES)
        theirs = (stats.total_combinations, time.process_time() - begin, len(stats.false_positives), len(stats.false_negatives))
        mine = ours[name]
        sums = [a + b for a, b in zip(sums, (*mine[:2], *theirs[:2]))]
        rates = [n / s if s else 0 for n, s in (mine[:2], theirs[:2])]
        ratio = f"{rates[0] / rates[1]:6.0f}" if rates[1] else "     -"
        print(f"{name:<34} {rates[0]:>15.0f} {rates[1]:>10.0f} {ratio}  {mine[2]:>5} {theirs[2]:>6} {mine[3]:>5} {theirs[3]:>6}")
    rates = [sums[0] / max(sums[1], 1e-9), sums[2] / max(sums[3], 1e-9)]
    print(f"{'all':<34} {rates[0]:>15.0f} {rates[1]:>10.0f} {rates[0] / max(rates[1], 1e-9):6.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
