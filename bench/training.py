"""A language model trained on the text of this repository by `cleave train`: losses, processor time, and how far the
losses of the same training over virtual devices are from those. --large adds one of ten million weights.

    python bench/training.py [--large]
"""

import glob
import json
import os
import resource
import subprocess
import sys
import tempfile

CLEAVE = os.path.join(os.environ.get("CLEAVE_BUILD", "build/release"), "cleave")
SMALL = ("model:gpt?layers=4&d=128&heads=8&kv_heads=4&hidden=384&length=128", 300, 16, "3e-3")
# A device of the plan: the smallest limit that any plan fits is 65 MiB, and one device takes more.
LIMIT = "72MiB"
LARGE = ("model:gpt?layers=6&d=384&heads=6&kv_heads=6&hidden=1024&length=128", 200, 8, "1e-3")


def train(folder, text, size, *more):
    model, steps, batch, rate = size
    command = [CLEAVE, "train", model, "--data", text, "--steps", str(steps), "--batch", str(batch), "--rate", rate,
               "--warmup", "20", "--schedule", "cosine", "--clip", "1", "--eval-share", "0.05", "--quiet", "--out", folder]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([*command, *more], check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    losses = [line["loss"] for line in lines if "loss" in line]
    memory = [line["memory"] for line in lines if "memory" in line][-1]
    return losses, [line["eval_loss"] for line in lines if "eval_loss" in line][-1], seconds, memory / 2**20


def mean(values):
    return sum(values) / len(values)


def main():
    large = "--large" in sys.argv
    with tempfile.TemporaryDirectory() as scratch:
        text = f"{scratch}/text.txt"
        with open(text, "wb") as out:
            for page in sorted(glob.glob("docs/**/*.md", recursive=True)):
                out.write(open(page, "rb").read())
        print(f"{os.path.getsize(text)} bytes of text; losses in nats a byte, log(256) = 5.545")
        for name, size in [("853 thousand weights", SMALL)] + [("10.8 million weights", LARGE)] * large:
            losses, evaluation, seconds, memory = train(f"{scratch}/{name}", text, size)
            points = sorted({1, 10, 50, 100, len(losses) // 2, len(losses)})
            print(f"{name}: " + ", ".join(f"step {p} {losses[p - 1]:.3f}" for p in points))
            tokens = len(losses) * size[2] * 128
            print(f"  mean of the last 20 steps {mean(losses[-20:]):.3f}, evaluation {evaluation:.3f}; "
                  f"{seconds:.0f} s of processor time, {tokens / seconds:.0f} tokens in each; state {memory:.1f} MiB")
            if size is LARGE:
                continue
            # Without a limit, the plan of so small a model splits nothing: every device computes all of it.
            for place in (["--mesh", "data=2,model=2", "--memory", LIMIT], ["--mesh", "data=4", "--plan", "fsdp"]):
                other, other_evaluation, _, part = train(f"{scratch}/{'-'.join(place)}", text, size, *place)
                apart = max(abs(a - b) for a, b in zip(losses, other))
                print(f"  {' '.join(place)}: evaluation {other_evaluation:.3f}; losses at most {apart:.2g} apart; "
                      f"state {part:.1f} MiB of a device")


if __name__ == "__main__":
    main()
