"""Options of `autoshard` and `plan`: what is planned, for which machine, under which conditions."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from jax.sharding import PartitionSpec

from cleave import _core, profiles
from cleave._core import UserError
from cleave.jax import layouts

FORMS = ("manual", "constraints")
FITS = ("planned", "compiled")
OBJECTIVES = ("step", "sum", "bytes")


class PlanOptions(TypedDict, total=False):
    """Options of `autoshard` and `plan`, as type checkers know them."""

    machine: str | os.PathLike[str] | _core.Machine
    memory: str | int | float | None
    memory_share: float | None
    pins: Mapping[str, PartitionSpec] | None
    in_shardings: Any
    out_shardings: Any
    honour_layouts: bool
    tie_state: bool
    form: str
    plan: str | os.PathLike[str] | None
    fit: str
    objective: str
    solver: str
    time_limit: float
    gap: float
    trips: int
    every_layout: bool
    sub_axes: bool
    apart: bool
    by_effort: bool
    seed: int
    progress: bool | Callable[[str], object] | None


class Options:
    def __init__(self, machine="default", memory=None, memory_share=None, pins=None, in_shardings=None, out_shardings=None,
                 honour_layouts=True, tie_state=True, form="manual", plan=None, objective="step", solver="cleave",
                 time_limit=10.0, gap=0.01, trips=1, every_layout=False, sub_axes=False, apart=False, by_effort=False, seed=0,
                 progress=None, fit="planned"):
        for name, value, known in (("form", form, FORMS), ("fit", fit, FITS), ("objective", objective, OBJECTIVES)):
            if value not in known:
                raise UserError(f"autoshard: {name} '{value}': there are {', '.join(known[:-1])} and {known[-1]}")
        if fit == "compiled" and plan is not None:
            raise UserError("autoshard: fit='compiled' plans until the compiled program fits, and plan= does not plan; leave "
                            "one out")
        if not isinstance(plan, (str, os.PathLike, type(None))):
            raise UserError(f"autoshard: plan is the path of a file, not {type(plan).__name__}; cleave.jax.plan makes one, and "
                            "plan.save(path) writes it")
        if progress not in (None, True, False) and not callable(progress):
            raise UserError(f"autoshard: progress {progress!r}: True, False, None or a function of a line is needed")
        self.memory = memory_text(memory)
        self.memory_share = None if memory_share is None else number("memory_share", memory_share)
        self.machine, self.pins = profiles.source_of(machine), layouts.Pins(pins)
        self.in_shardings, self.out_shardings, self.honour_layouts = in_shardings, out_shardings, honour_layouts
        self.tie_state, self.form, self.plan, self.progress, self.fit = tie_state, form, plan, progress, fit
        self.objective, self.seed, self.by_effort = objective, whole_number("seed", seed), by_effort
        self.solver = dict(solver=solver, time_limit=number("time_limit", time_limit), gap=number("gap", gap),
                           trips=whole_number("trips", trips), every_layout=bool(every_layout), sub_axes=bool(sub_axes),
                           apart=bool(apart))


def number(name, value):
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        raise UserError(f"autoshard: {name} {value!r}: a number is needed")
    return float(value)


def whole_number(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 0:
        raise UserError(f"autoshard: {name} {value!r}: a whole number from 0 on is needed")
    return value.__index__()


def memory_text(memory):
    """Of "80GiB", "80 GiB" or a number of bytes."""
    if memory is None:
        return ""
    if isinstance(memory, str):
        return memory.replace(" ", "") if re.fullmatch(r"\s*[\d.]+\s+[KMGT]?i?B\s*", memory) else memory
    if isinstance(memory, bool) or not hasattr(memory, "__float__") or not math.isfinite(memory) or memory < 0:
        raise UserError(f"autoshard: memory {memory!r}: a text such as \"80GiB\" or a number of bytes is needed")
    return str(int(memory))


def memory_limit(options):
    """What programs can use of a device, in bytes, and which share of it that is."""
    machine = profiles.machine(options.machine)
    share = options.memory_share
    if share is None:
        share = json.loads(machine.json())["executor"]["memory_share"]
    return int(share * (_core.parse_bytes(options.memory) if options.memory else machine.memory_bytes)), share


def make_options(what, given):
    unknown = [name for name in given if name not in PlanOptions.__annotations__]
    if unknown:
        way_out = f"; arguments of the function that go by keyword are kwargs={{'{unknown[0]}': ...}}" if what == "plan" else ""
        raise UserError(f"{what}: got an unexpected keyword argument '{unknown[0]}'{way_out}")
    return Options(**given)
