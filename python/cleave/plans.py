"""Plans: the layouts of a module, what they cost, and what bounds it."""

import json
from functools import cached_property
from typing import Any

from cleave import _core, profiles
from cleave.layouts import spec_text
from cleave.mesh import mesh_text
from cleave.progress import told
from cleave.sources import module_of


class Plan:
    """The best layouts of one module on one mesh, with their cost, their bound and their memory.

    `plan.explain()` says what was chosen and why; `plan.save(path)` writes the file that the command `cleave` reads too.
    """

    def __init__(self, core):
        self._core = core

    @cached_property
    def data(self) -> dict[str, Any]:
        """All of the plan as its file has it (docs/guide/planning.md)."""
        return json.loads(self._core.json())

    @property
    def step_seconds(self) -> float:
        """The predicted length of a step, with collectives beside computation."""
        return self.data["totals"]["step_seconds"]

    @property
    def objective(self) -> str:
        """What the plan is the best for: "step", "sum" or "bytes"."""
        return self.data.get("objective", "step")

    @property
    def objective_value(self) -> float:
        """What plans of its objective are compared by: seconds of the step or of the sum, or bytes that a device receives."""
        return self.value_of(self.objective)

    def value_of(self, objective: str) -> float:
        """The same for any objective."""
        if objective == "bytes":
            return self.received_bytes
        return self.step_seconds if objective == "step" else self.data["totals"]["seconds"]

    @property
    def is_whole(self) -> bool:
        """Nothing is split: every device runs the module as it is."""
        return not self.data["copies"] and not any('"' in spec for spec in self.data["values"].values() if spec)

    @property
    def memory_bytes(self) -> int:
        """The predicted peak of one device."""
        return self.data["memory"]["peak"]

    @property
    def collectives(self) -> list[dict[str, Any]]:
        """Rows of kind, axes, count, bytes (received by one device in a step) and seconds."""
        return self.data["totals"]["collectives"]

    @property
    def received_bytes(self) -> float:
        """What one device receives in a step."""
        return sum(row["bytes"] for row in self.collectives)

    @property
    def planning_seconds(self) -> float:
        """What planning took; 0 for a plan that was read."""
        return self._core.seconds

    def explain(self, op: str | None = None) -> str:
        """What was chosen, what it costs and why; of one op, the ways to run it and what each would cost."""
        if not isinstance(op, (str, type(None))):
            raise _core.UserError(f"explain: the name of an op such as \"dot_general.0\" is needed, not {type(op).__name__}")
        return self._core.explain() if op is None else self._core.explain_op(op)

    def export(self, form: str = "manual") -> str:
        """The plan as text: manual, constraints, spmd, sdy, jax or dtensor."""
        return self._core.export(form)

    def verify(self, engine: str = "cleave", seed: int = 1, as_is: bool = False) -> str:
        """Runs the plan on virtual devices (or by "xla") and on one, and compares results, collectives, bytes and memory.
        Returns the report; raises InternalError with it if anything differs."""
        report, good = self._core.verify(engine=engine, seed=seed, as_is=as_is)
        if not good:
            raise _core.InternalError(report)
        return report

    def diff(self, other: "Plan") -> list[str]:
        """What changed from this plan to another, as lines."""
        return self._core.diff(other._core)

    def save(self, path: object) -> None:
        self._core.save(str(path))

    def __reduce__(self):
        raise _core.UserError("a plan is not pickled or copied: write it with plan.save(path), and read it for its module, with "
                              "cleave.read_plan(path, module) or autoshard(..., plan=path)")

    def __str__(self) -> str:
        return self._core.summary() + self._core.figures()

    def __repr__(self):
        name = self.data["module"]["name"] or self.data["module"]["source"] or "a module"
        return f"<Plan of {name} on {self.data['mesh']} of {self.data['machine']}: step {self.step_seconds * 1e3:.3f} ms>"

    def _repr_html_(self):
        from cleave import pictures

        return pictures.plan_html(self)


def plan(module: object, *, mesh: object = None, devices: int | None = None, machine: object = "default",
         memory: str | int | None = None, memory_share: float | None = None, pins: Any = None, entry: str = "main",
         objective: str = "step", solver: str = "cleave", time_limit: float = 10.0, gap: float = 0.01, trips: int = 1,
         every_layout: bool = False, sub_axes: bool = False, apart: bool = False, seed: int = 0, progress: Any = None) -> Plan:
    """The best layouts of a module on a mesh, with what they cost and a bound.

    `module` is a Module, StableHLO text, the path of a file, or a model by name ('model:gpt?layers=2&step=train'). `mesh` is a
    Mesh, text, or a mesh of JAX or PyTorch; `devices` asks for the fastest mesh of so many. `memory` is that of a device
    ("80GiB"), of which programs can use `memory_share`. `pins` fixes layouts by the names of values: {"%arg0": P("data")}.
    `objective` is what it is the best for: "step" (the shortest step), "sum" (the same if nothing overlapped) or "bytes" (the
    fewest bytes received by a device). Raises UserError that says what is in the way if no plan fits.
    """
    source = module_of(module)
    if (mesh is None) == (devices is None):
        if mesh is not None or not source.meshes:
            raise _core.UserError("plan: give a mesh, such as mesh=cleave.Mesh(data=2, model=4), or a number of devices")
        mesh = source.meshes[0][1]
    with told(progress) as tell:
        return Plan(_core.make_plan(
            source, mesh="" if mesh is None else mesh_text(mesh), devices=devices or 0, machine=profiles.source_of(machine),
            memory="" if memory is None else str(memory), memory_share=memory_share, pins=pin_texts(pins, source, entry),
            entry=entry, objective=objective, solver=solver, time_limit=time_limit, gap=gap, trips=trips, every_layout=every_layout,
            sub_axes=sub_axes, apart=apart, seed=seed, trace=tell))


def pin_texts(pins, module, entry):
    """NAME=SPEC of a dict; a list of such texts is taken as it is."""
    if pins is None or not hasattr(pins, "items"):
        return list(pins or [])
    shapes = [shape for shape, _ in module.arguments(entry)]
    ranks = {name: len(shape) for name, shape in zip(module.argument_names(entry), shapes)}
    return [f"{name}={spec_text(spec, ranks.get(str(name).lstrip('%')))}" for name, spec in pins.items()]


def read_plan(path: object, module: object) -> Plan:
    """A plan that was saved, of this module."""
    return Plan(_core.read_plan(str(path), module_of(module)))


def verify(plan, engine="cleave", seed=1, as_is=False):
    """Runs a plan on virtual devices and on one, and compares; see Plan.verify."""
    return plan.verify(engine=engine, seed=seed, as_is=as_is)


def explain(what, value=None):
    """Of a plan: what was chosen and why, or of one op of it. Of a module: why a value has its sharding."""
    if isinstance(what, Plan):
        return what.explain(value)
    source = module_of(what)
    if value is None:
        return "\n".join(source.propagate().warnings) or "no conflicts, and a rule for every op"
    return source.explain(value)
