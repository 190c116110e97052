"""Plans: the layouts of a module, what they cost, and what bounds it."""

import json
from functools import cached_property

from cleave import _core


class Plan:
    """The best layouts of one module on one mesh, with their cost, their bound and their memory.

    `plan.explain()` says what was chosen and why; `plan.save(path)` writes the file that the command `cleave` reads too.
    """

    def __init__(self, core):
        self._core = core

    @cached_property
    def data(self):
        """All of the plan as its file has it (docs/guide/planning.md)."""
        return json.loads(self._core.json())

    @property
    def step_seconds(self):
        """The predicted length of a step, with collectives beside computation."""
        return self.data["totals"]["step_seconds"]

    @property
    def memory_bytes(self):
        """The predicted peak of one device."""
        return self.data["memory"]["peak"]

    @property
    def collectives(self):
        """Rows of kind, axes, count, bytes (received by one device in a step) and seconds."""
        return self.data["totals"]["collectives"]

    @property
    def received_bytes(self):
        """What one device receives in a step."""
        return sum(row["bytes"] for row in self.collectives)

    @property
    def planning_seconds(self):
        """What planning took; 0 for a plan that was read."""
        return self._core.seconds

    def explain(self, op=None):
        """What was chosen, what it costs and why; of one op, the ways to run it and what each would cost."""
        return self._core.explain() if op is None else self._core.explain_op(op)

    def export(self, form="manual"):
        """The plan as text: manual, constraints, spmd, sdy, jax or dtensor."""
        return self._core.export(form)

    def verify(self, engine="cleave", seed=1, as_is=False):
        """Runs the plan on virtual devices (or by "xla") and on one, and compares results, collectives, bytes and memory.
        Returns the report; raises InternalError with it if anything differs."""
        report, good = self._core.verify(engine=engine, seed=seed, as_is=as_is)
        if not good:
            raise _core.InternalError(report)
        return report

    def diff(self, other):
        """What changed from this plan to another, as lines."""
        return self._core.diff(other._core)

    def save(self, path):
        self._core.save(str(path))

    def __str__(self):
        return self._core.summary() + self._core.figures()

    def __repr__(self):
        name = self.data["module"]["name"] or self.data["module"]["source"] or "a module"
        return f"<Plan of {name} on {self.data['mesh']} of {self.data['machine']}: step {self.step_seconds * 1e3:.3f} ms>"
