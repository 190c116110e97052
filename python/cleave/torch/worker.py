"""A process of an audit: names of overloads come in, line by line, and records go out.

    python -m cleave.torch.worker CALLS OPTIONS

Each overload has a child of its own: PyTorch may crash on operands whose parts do not fit together.
"""

import json
import os
import pickle
import sys
import warnings


def main():
    path, options = sys.argv[1], json.loads(sys.argv[2])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is no record
    warnings.simplefilter("ignore")
    import torch

    from cleave.torch import compare, dtensor
    from cleave.torch.auditing import unpack

    torch.set_num_threads(1)
    dtensor.start()
    with open(path, "rb") as file:
        packed = pickle.load(file)
    for line in sys.stdin:
        name, _, careful = line.strip().partition(" ")
        out.write(in_child(lambda: json.dumps(compare.audit_overload(  # noqa: B023: called at once
            name, [unpack(data) for data in packed[name]], options["worlds"], options["two_axes"], options["seed"],
            bool(careful)))) + "\n")  # noqa: B023
        out.flush()


def in_child(make):
    """A text that a child makes, or how it ended as {"status": ...}."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(source)
            with os.fdopen(sink, "w") as answer:
                answer.write(make())
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    with os.fdopen(source) as answer:
        text = answer.read()
    _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return text if status == 0 else json.dumps({"status": status})


if __name__ == "__main__":
    main()
