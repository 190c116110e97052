"""The way from one layout of a tensor to another: collectives, with bytes and seconds."""

from collections import namedtuple

from cleave import _core


class Step(namedtuple("Step", "kind text axes sharding bytes seconds")):
    """One collective: `sharding` is the layout after it, `bytes` what a device receives."""

    __slots__ = ()

    def __str__(self):
        return f"{self.text} -> {self.sharding}: {self.bytes} bytes, {_core.seconds_text(self.seconds, 3)}"


class Reshard:
    """Priced steps; `bytes` are received by one device, `peak_bytes` are operand and result of a step together."""

    def __init__(self, source, steps, seconds, received, peak):
        self.source, self.steps, self.seconds, self.bytes, self.peak_bytes = source, steps, seconds, received, peak

    def __iter__(self):
        return iter(self.steps)

    def __len__(self):
        return len(self.steps)

    def rows(self):
        """What is done, the layout after it, what it costs; the first row is the source."""
        costs = [f"{step.bytes} bytes, {_core.seconds_text(step.seconds, 3)}" for step in self.steps]
        return [("", str(self.source), "")] + [(step.text, str(step.sharding), cost) for step, cost in zip(self.steps, costs)]

    def totals(self):
        count = len(self.steps)
        return (f"{count} step{'' if count == 1 else 's'}, {self.bytes} bytes received, {self.peak_bytes} peak, "
                f"{_core.seconds_text(self.seconds, 3)}")

    def __str__(self):
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        lines = [f"{what:<{widths[0]}}  {spec:<{widths[1]}}  {cost}".rstrip() for what, spec, cost in rows]
        return "\n".join(lines + [self.totals()])

    __repr__ = __str__

    def _repr_html_(self):
        from cleave import pictures

        return pictures.table_html(("step", "layout", "cost"), self.rows(), self.totals())


def reshard(mesh, shape, dtype, source, target, *, machine="default", memory=None, to_mesh=None, via=()):
    """The cheapest collectives from one layout of a tensor to another on a machine.

    `memory` bounds operand and result of a step on one device ("2GiB"); `to_mesh` is the mesh of the target if it differs;
    `via` prices given steps instead of searching: [("all_gather", P()), ("all_slice", P(None, "x"))].
    """
    limit = "" if memory is None else str(memory)
    steps, seconds, received, peak, start = _core.reshard(mesh, shape, dtype, source, target, machine, limit, to_mesh, list(via))
    return Reshard(start, [Step(*step) for step in steps], seconds, received, peak)
