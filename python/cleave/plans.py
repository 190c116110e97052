"""Plans: the layouts of a module, what they cost, and what bounds it."""

import json
from functools import cached_property

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

    def _repr_html_(self):
        from cleave import pictures

        return pictures.plan_html(self)


def plan(module, *, mesh=None, devices=None, machine="default", memory=None, memory_share=None, pins=None, entry="main",
         solver="cleave", time_limit=10.0, gap=0.01, trips=1, every_layout=False, sub_axes=False, apart=False, seed=0,
         progress=None):
    """The best layouts of a module on a mesh, with what they cost and a bound.

    `module` is a Module, StableHLO text, the path of a file, or a model by name ('model:gpt?layers=2&step=train'). `mesh` is a
    Mesh, text, or a mesh of JAX or PyTorch; `devices` asks for the fastest mesh of so many. `memory` is that of a device
    ("80GiB"), of which programs can use `memory_share`. `pins` fixes layouts by the names of values: {"%arg0": P("data")}.
    Raises UserError that says what is in the way if no plan fits.
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
            entry=entry, solver=solver, time_limit=time_limit, gap=gap, trips=trips, every_layout=every_layout,
            sub_axes=sub_axes, apart=apart, seed=seed, trace=tell))


def pin_texts(pins, module, entry):
    """NAME=SPEC of a dict; a list of such texts is taken as it is."""
    if pins is None or not hasattr(pins, "items"):
        return list(pins or [])
    shapes = [shape for shape, _ in module.arguments(entry)]
    ranks = {name: len(shape) for name, shape in zip(module.argument_names(entry), shapes)}
    return [f"{name}={spec_text(spec, ranks.get(str(name).lstrip('%')))}" for name, spec in pins.items()]


def read_plan(path, module):
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
