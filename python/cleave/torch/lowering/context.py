"""What is known of a graph while it is lowered, and the decompositions that its nodes share."""

from dataclasses import dataclass, field

from cleave.torch.lowering.builder import Builder
from cleave.torch.lowering.values import Value


@dataclass
class Context:
    opaque: frozenset = frozenset()
    seed: Value | None = None  # inside a decomposition: its argument
    number: int = 0  # of the random op
    functions: dict = field(default_factory=dict)  # text of a body -> name
    cached: dict = field(default_factory=dict)  # (op, types and arguments) -> (name, types of results)
    used: list = field(default_factory=list)  # custom calls
    counts: dict = field(default_factory=dict)
    unknown: dict = field(default_factory=dict)

    def share(self, name, text):
        """The name of a private function of this text."""
        key = name, text
        if key not in self.functions:
            number = self.counts.get(name, 0)
            self.counts[name] = number + 1
            self.functions[key] = f"{name}.{number}"
        return self.functions[key]


class Body(Builder):
    """The builder of one decomposition: `op` is what is lowered, `out` has (dtype, shape) of its results."""

    def __init__(self, context, op, out, prefix=""):
        super().__init__(context, prefix)
        self.op = op
        self.out = out
