"""Random modules through Cleave and through Shardy's own passes (inside jaxlib): the same shardings.

CLEAVE_RANDOM_MODULES sets the number of modules per pipeline. All modules of a pipeline go through one run of
`cleave opt`. A module that differs is written to the test's temporary directory.
"""

import os
import re
import subprocess

import pytest

from random_modules import Generator
from shardy_worker import run_shardy

pytest.importorskip("jaxlib.mlir.passmanager")

COUNT = int(os.environ.get("CLEAVE_RANDOM_MODULES", "400"))
FIRST_SEED = int(os.environ.get("CLEAVE_RANDOM_SEED", "0"))
CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")

IMPORT = "sdy-constant-or-scalar-splitter,sdy-add-data-flow-edges,sdy-apply-sharding-constraints,"
PIPELINES = {
    # name: (passes, options of the generator)
    "basic": ("sdy-basic-propagate", {}),
    "aggressive": ("sdy-aggressive-propagate", {}),
    "basic_then_aggressive": ("sdy-aggressive-propagate{propagation-strategy=basic-then-aggressive}", {}),
    "op_priority": ("sdy-op-priority-propagate", {}),
    "user_priority": ("sdy-user-priority-propagate", {"priorities": True}),
    "groups": ("sdy-sharding-group-import,sdy-user-priority-propagate", {"groups": True}),
    "edges": ("sdy-add-data-flow-edges,sdy-aggressive-propagate,sdy-sink-data-flow-edges", {}),
    "imported": (IMPORT + "sdy-user-priority-propagate", {"priorities": True}),
    "exported": (IMPORT + "sdy-user-priority-propagate,sdy-sink-data-flow-edges,sdy-remove-sharding-groups,"
                 "sdy-sharding-constraint-to-reshard,sdy-update-non-divisible-input-output-shardings,"
                 "sdy-remove-sub-axes-in-input-output-shardings,sdy-close-shardings", {}),
}

# Passes that Shardy runs on functions rather than on modules.
ON_FUNCTIONS = ["sdy-sink-data-flow-edges", "sdy-sharding-constraint-to-reshard"]


def shardy_pipeline(passes):
    for name in ON_FUNCTIONS:
        passes = passes.replace(name, f"func.func({name})")
    return f"builtin.module({passes})"


def by_cleave(texts, passes):
    run = subprocess.run([CLEAVE, "opt", "-", "-split-input-file", f"--pass-pipeline=builtin.module({passes})"],
                         input="\n// -----\n".join(texts), capture_output=True, text=True)
    outputs = re.split(r"^// -----\s*$", run.stdout, flags=re.M)
    assert len(outputs) == len(texts), run.stderr[-2000:]
    return outputs, run.stderr


def shardings(text):
    """What the module says of shardings, line by line: the op and its specs."""
    lines = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith(("module", "sdy.mesh", "}")) and "sdy.sharding" not in line:
            continue
        op = re.search(r"\b(?:stablehlo|sdy|func)\.\w+|\breturn\b", line)
        specs = re.findall(r"<@mesh, \[.*?\](?:, replicated=\{[^}]*\})?>", line)
        lines.append((op.group() if op else line[:1], tuple(specs)))
    return lines


@pytest.mark.parametrize("name", PIPELINES)
def test_same_shardings(name, tmp_path):
    passes, options = PIPELINES[name]
    first = FIRST_SEED + COUNT * list(PIPELINES).index(name)  # no module twice
    texts = [Generator(first + i, **options).module() for i in range(COUNT)]
    ours, errors = by_cleave(texts, passes)
    different, refused = [], 0
    for seed, (text, our, theirs) in enumerate(zip(texts, ours, run_shardy(texts, shardy_pipeline(passes)))):
        if theirs is None:
            refused += 1
        elif shardings(our) != shardings(theirs):
            different.append(seed)
            (tmp_path / f"{seed}.in.mlir").write_text(text)
            (tmp_path / f"{seed}.cleave.mlir").write_text(our)
            (tmp_path / f"{seed}.shardy.mlir").write_text(theirs)
    assert refused < COUNT * 0.1
    assert not different, f"{len(different)} of {COUNT} differ: seeds {different[:20]}, see {tmp_path}\n{errors[-1000:]}"
