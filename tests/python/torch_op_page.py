"""docs/torch-ops.md: the ops that the table of lowerings has, written from the table."""

import pathlib
import textwrap

from cleave.torch.lowering import covered, table
from cleave.torch.lowering.opaque import DEFAULT_OPAQUE, OPTIMIZER

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/torch-ops.md"

FAMILIES = {
    "elementwise": "Functions of one tensor", "arithmetic": "Functions of two and more tensors", "activations": "Activations",
    "reductions": "Reductions, norms, softmax", "distances": "Distances", "views": "Views, copies, joins", "products": "Matrix products",
    "convolutions": "Convolutions", "attention": "Attention", "indexing": "Lookups", "bags": "Bags of rows", "scatters": "Writes at indices",
    "normalization": "Normalization", "pooling": "Pools and resizing", "sorting": "Sorts", "losses": "Losses",
    "linear_algebra": "Linear algebra and Fourier transforms", "factories": "Factories", "random": "Random numbers"}


def rows():
    """{family: {packet: [overloads]}}"""
    table.load()
    found = {}
    for op, row in table.ROWS.items():
        family = getattr(row, "__wrapped__", row).__module__.rsplit(".", 1)[-1]
        packet, _, overload = str(op).rpartition(".")
        found.setdefault(family, {}).setdefault(packet, []).append(overload)
    return found


def page():
    packets = {name.rpartition(".")[0] for name in covered()}
    lines = ["# ATen ops that Cleave lowers", "",
             f"`cleave.torch.export` and `cleave.torch.plan` lower these {len(packets)} ops of PyTorch ({len(covered())} overloads) to "
             "StableHLO by a table of their own (`python/cleave/torch/lowering`). Other ops are taken apart by PyTorch's own "
             "decompositions. What has none stays one custom call with the rule that discovery finds, or is replicated with a warning.",
             "", "This page is written by `python tests/python/torch_op_page.py`.", ""]
    found = rows()
    for family, title in FAMILIES.items():
        ops = found.pop(family)
        lines += [f"## {title}", ""]
        for packet in sorted(ops):
            names = sorted(ops[packet])
            more = "" if names == ["default"] else ": " + ", ".join(names)
            lines.append(f"- `{packet}`{more}")
        lines.append("")
    assert not found, f"a family without a title: {sorted(found)}"
    lines += ["## Custom calls", "", "A plan keeps attention as one op, with a rule of its own; `cleave.torch.export` writes it out.", ""]
    lines += [f"- `{name}`" for name in sorted(DEFAULT_OPAQUE)]
    lines += [f"- `{OPTIMIZER}`: a parameter's step, so that the state of its optimizer counts", ""]
    return "\n".join("\n".join(textwrap.wrap(line, 120, subsequent_indent="  " * line.startswith("- "))) for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
