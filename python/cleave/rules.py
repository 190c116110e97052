"""The short notation of rules, with the shapes that its reader needs."""

import re

from cleave._core import UserError


def notation(text, shapes, sizes):
    """The notation and a shape for each operand and result: those given, or what the sizes of factors say; factors without a
    size have 1."""
    if shapes is not None:
        if sizes:
            raise UserError("Rule: give shapes or sizes of factors, not both")
        return text, [list(shape) for shape in shapes]
    rule, _, rest = text.partition("{")
    left, arrow, right = rule.partition("->")
    if not arrow:
        raise UserError(f"Rule: '{text}' has no arrow; \"m k, k n -> m n\" is a rule")
    sizes = dict(sizes)
    sizes.update((name, int(size)) for name, size in re.findall(r"(\w+)\s*=\s*(\d+)", rest))
    used = set()

    def dimension(word):
        size = 1
        for name in word.strip("()").split():
            used.add(name)
            size *= 1 if name == "1" else int(sizes.get(name, 1))
        return size

    made = [[dimension(word) for word in re.findall(r"\([^)]*\)|[^\s()]+", tensor)]
            for side in (left, right) for tensor in side.split(",")]
    unknown = sorted(set(sizes) - used)
    if unknown:
        raise UserError(f"Rule: '{text}' has no factor {unknown[0]}")
    inside = rest.rstrip().removesuffix("}")
    compound = set(" ".join(re.findall(r"\(([^)]*)\)", rule)).split())
    more = [f"{name}={int(sizes.get(name, 1))}" for name in sorted(compound) if not re.search(rf"\b{name}\s*=", inside)]
    parts = [part for part in (inside.strip(), "; ".join(more)) if part]
    return rule + ("{" + "; ".join(parts) + "}" if parts else ""), made
