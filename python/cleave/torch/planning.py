"""Plans of PyTorch modules: how parameters, activations and gradients of a train step lie on a mesh of devices."""

import fnmatch
import functools
import json
import os

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from cleave import _core, plans, profiles
from cleave._core import InternalError, UserError
from cleave.layouts import spec_text
from cleave.mesh import mesh_text
from cleave.progress import told
from cleave.torch import lowering, meshes, steps, tracing
from cleave.torch.lowering import unknown

CUSTOM_CALL = "stablehlo.custom_call"

# Tensors of a parameter's size that an optimizer keeps for it.
SLOTS = {"adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "adadelta": 2, "rmsprop": 1, "adagrad": 1, "momentum": 1,
         "lion": 1, "muon": 1, "asgd": 1, "rprop": 2, "sgd": 0, "none": 0}
MORE = {"sgd": ("momentum",), "rmsprop": ("momentum", "centered"), "adam": ("amsgrad",), "adamw": ("amsgrad",)}  # options that keep another one


class TorchPlan(plans.Plan):
    """A plan of a step, with the graph that it is of. `placements` has those of parameters, by name."""

    def __init__(self, core, traced, lowered, batch):
        super().__init__(core)
        self._traced, self._lowered, self._batch = traced, lowered, batch
        axes, self._arguments, self._results = core.borders(with_uneven=True)
        self.axes, self.mesh_shape = tuple(name for name, _ in axes), tuple(size for _, size in axes)

    @property
    def placements(self):
        """By the name of each parameter, buffer and tensor of the batch: DTensor's placements."""
        return dict(zip(names_of(self._traced), self.input_placements))

    @functools.cached_property
    def input_placements(self):
        """Of each argument of the traced step."""
        return [self.placements_of(dims, len(one.shape)) for one, (_, dims, _) in zip(self._traced.inputs, self._arguments)]

    @functools.cached_property
    def output_placements(self):
        """Of each result of the traced step; a gradient lies as its parameter."""
        traced, found = self._traced, {}
        of_parameter = {one.name: where for one, where in zip(traced.inputs, self.input_placements) if one.kind == "parameter"}
        for number, (_, dims, _) in zip(self._lowered.result_index, self._results):
            output = traced.outputs[number]
            found[number] = of_parameter[output.of] if output.is_of_parameter else self.placements_of(dims,
                                                                                                     len(traced.output_shapes[number]))
        return [found[i] for i in range(len(traced.outputs))]

    def placements_of(self, dims, rank):
        """DTensor's placements for the axes of each dimension; of a stacked parameter, without the dimension of the stack."""
        from torch.distributed.tensor import Replicate, Shard

        made = [Replicate() for _ in self.axes]
        for d, axes in enumerate(dims[len(dims) - rank:]):
            for axis in axes:
                made[self.axes.index(axis)] = Shard(d)
        return tuple(made)


def plan(model, loss_fn, example_batch, *, mesh=None, axes=None, machine="h100", memory=None, memory_share=None, optimizer="adamw",
         executor="inductor", objective="step", pins=None, plan=None, time_limit=10.0, gap=0.01, progress=None):
    """The best layouts for a train step of a module on a mesh, within the memory of its devices.

        plan = cleave.torch.plan(model, loss_fn, (x, y), mesh=(2, 4), axes=("data", "model"), machine="h100", memory="80GiB")

    model         a torch.nn.Module; its parameters may be on the device "meta"
    loss_fn       called as loss_fn(model(x), y) with the last entry of the batch, or as loss_fn(model, *batch) if its first
                  parameter is called model; None if the model returns its loss, or is only run forward
    example_batch tensors of the sizes of every step; a tuple is positional arguments, a dict keywords
    mesh, axes    sizes and names; or a DeviceMesh with names
    optimizer     what it keeps counts as memory, and lies as the parameters: a name, an optimizer's class or instance, or None
    executor      "inductor" if the step is compiled, "eager" if not
    objective     what the plan is the best for: "step", "sum" or "bytes", as for cleave.plan
    pins          layouts by the names of parameters, with * for any part: {"layers.*.q.weight": ("model", None)}; a whole name goes
                  before patterns
    plan          the path of a plan that was saved, which is taken instead
    If torch.distributed is initialized, all ranks get the same plan: all of the device mesh if one is given, or else all there are.
    """
    text = text_of_mesh(mesh, axes)
    slots = slots_of(optimizer)
    step = steps.step_of(model, loss_fn, example_batch)
    leaves, structure = pytree.tree_flatten(example_batch)
    training = loss_fn is not None or steps.is_loss(steps.tried_on_fakes(step, leaves))
    leaves = step.tensors_of(leaves)
    traced = tracing.trace(step, leaves, training)
    traced.structure = structure
    traced.training = model.training
    traced.autocast = tracing.autocast_of(("cpu", "cuda"))
    lowered = lowered_step(traced, slots)
    module, wanted = with_borders(lowered, traced, text)
    with told(progress) as tell:
        if plan is not None:
            core = _core.read_plan(os.fspath(plan), module)
            check_mesh(plan, core, text)
        else:
            known = texts_of_pins(pins, traced, lowered, _core.Mesh(text).axis_names)
            core = same_everywhere(mesh, module, lambda several: updated_in_place(lambda more: _core.make_plan(
                module, mesh=text, machine=machine_of(machine, executor), memory="" if memory is None else str(memory),
                memory_share=memory_share, pins=wanted + [pin for pin in known if pin.partition("=")[0] not in more] +
                [f"{name}={spec}" for name, spec in more.items()], borders="placements", by_effort=several,
                objective=objective, time_limit=time_limit, gap=gap, trace=tell)))
    return TorchPlan(core, traced, lowered, leaves)


def updated_in_place(make):
    """A plan in which every parameter is updated as it lies, since that is what optimizers of PyTorch do. `make` plans with more
    pins. What a plan would update in another layout, and move back, has to lie in that one."""
    pins = {}
    while True:
        core = make(pins)
        data = json.loads(core.json())
        elsewhere = {}
        returned = {name for name, _ in data["ops"]["return"]["operands"]}
        for number, op in data["ops"].items():
            is_update = op["op"] == CUSTOM_CALL and len(op["operands"]) == 2 and number in returned
            name, spec = op["operands"][1] if is_update else (None, None)
            if name in data["values"] and spec != data["values"][name]:
                elsewhere[name] = spec
        if not elsewhere:
            return core
        if elsewhere.keys() <= pins.keys():
            raise InternalError(f"plan: no plan updates {', '.join(elsewhere)} in place")
        pins |= elsewhere


def check_mesh(path, core, text):
    """A saved plan is for the mesh that is asked for."""
    own, asked = dict(core.borders(with_uneven=True)[0]), _core.Mesh(text).shape
    if list(own.items()) != list(asked.items()):
        raise UserError(f"plan: {path} is for the mesh {words_of(own)}, and the mesh is {words_of(asked)}; plan again for this one")


def words_of(mesh):
    return ", ".join(f"{name}={size}" for name, size in mesh.items())


def text_of_mesh(mesh, axes):
    if mesh is None:
        raise UserError('plan: give a mesh: mesh=(2, 4), axes=("data", "model")')
    if hasattr(mesh, "mesh_dim_names"):
        return mesh_text(mesh, device_ids=list(range(mesh.size()))) if axes is None else mesh_text(tuple(mesh.shape), axes)
    if isinstance(mesh, int):
        mesh = (mesh,)
    if isinstance(mesh, (tuple, list)):
        if axes is None:
            raise UserError(f'plan: name the axes of the mesh {tuple(mesh)}: axes=("data", "model")')
        return mesh_text(tuple(mesh), (axes,) if isinstance(axes, str) else tuple(axes))
    if axes is not None:
        raise UserError("plan: axes go with the sizes of a mesh: mesh=(2, 4), axes=(\"data\", \"model\")")
    return mesh_text(mesh)


def slots_of(optimizer):
    if optimizer is None or isinstance(optimizer, int):
        if optimizer is not None and optimizer < 0:
            raise UserError(f"plan: optimizer={optimizer}: the number of tensors that it keeps for each parameter is 0 or more")
        return optimizer or 0
    options = {}
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer, options = type(optimizer), optimizer.defaults
    elif isinstance(optimizer, functools.partial):
        optimizer, options = optimizer.func, optimizer.keywords
    name = str(getattr(optimizer, "__name__", optimizer)).lower()
    if name not in SLOTS:
        raise UserError(f"plan: the optimizer {name} is not known ({', '.join(SLOTS)}); give the number of tensors that it keeps for "
                        "each parameter")
    return SLOTS[name] + sum(bool(options.get(option)) for option in MORE.get(name, ()))


def machine_of(machine, executor):
    """The machine's name with the executor that runs its programs, unless a profile says so itself."""
    if executor not in (None, "inductor", "eager"):
        raise UserError(f'plan: executor={executor!r}: it is "inductor" for a compiled step, or "eager" for one that is not')
    if isinstance(machine, str) and machine in profiles.machines() and executor:
        return f"{machine}+{executor}"
    return profiles.source_of(machine)


def lowered_step(traced, slots):
    """StableHLO of the step, in which parameters are updated: with what an optimizer keeps for them."""
    names = names_of(traced)
    where = {one.name: i for i, one in enumerate(traced.inputs) if one.kind in ("parameter", "buffer")}
    optimizer = [(where[one.of], i, slots) for i, one in enumerate(traced.outputs) if one.is_of_parameter]
    donated = {where[one.of]: i for i, one in enumerate(traced.outputs) if one.kind == "buffer"}
    return lowering.lower_graph(traced.graph, names=names, optimizer=optimizer, donated=donated, composites=False)


def names_of(traced):
    kinds = {"batch": "batch.{}", "tangent": "tangent.{}"}
    return [kinds[one.kind].format(one.name) if one.kind in kinds else one.name for one in traced.inputs]


def with_borders(lowered, traced, mesh):
    """The module with names for its arguments; buffers, and single numbers that come back, are whole on every device."""
    module = _core.Module.parse(lowered.text, type(traced.step.model).__name__)
    names = [name for name, _, _ in lowered.arguments]
    results = []
    for (shape, _), index in zip(module.results("main"), lowered.result_index):
        whole = traced.outputs[index].kind == "buffer" or not shape
        results.append(spec_text(None, len(shape)) if whole else "")
    pins = [f"{name}={spec_text(None, len(one.shape))}" for one, name in zip(traced.inputs, names) if one.kind == "buffer"]
    return module.with_borders(names, mesh, results, [-1] * len(names)), pins


def texts_of_pins(pins, traced, lowered, axes):
    """NAME=LAYOUT. What an optimizer keeps is stacked on its parameter in a first dimension, which stays whole."""
    if pins is not None and not isinstance(pins, dict):
        raise UserError(f'plan: pins are layouts by the names of parameters, {{"layers.*.weight": ("model", None)}}, not a {type(pins).__name__}')
    for pattern, given in (pins or {}).items():
        check_axes(pattern, given, axes)
    texts, used = [], set()
    names = names_of(traced)
    for one, known_as, (name, shape, _) in zip(traced.inputs, names, lowered.arguments):
        patterns = [pattern for pattern in pins or {} if fnmatch.fnmatchcase(known_as, pattern)]
        used.update(patterns)
        if known_as in patterns:
            patterns = [known_as]
        stacked = len(shape) > len(one.shape)
        given = [spec_text(pins[pattern], len(one.shape)) for pattern in patterns]
        if stacked and not given:
            given = ["[" + ", ".join(["{?}"] * len(one.shape)) + "]"]
        texts += [f"{name}={stacked_text(text) if stacked else text}" for text in given]
    for pattern in pins or {}:
        if pattern not in used:
            raise UserError(f"plan: no parameter, buffer or tensor of the batch is called {pattern}; there are "
                            f"{', '.join(names[:8])}, ...")
    return texts


def check_axes(pattern, given, axes):
    """Names in a layout are axes of the mesh, each once; what is written in Shardy's syntax is read by Cleave."""
    entries = given if isinstance(given, (tuple, list)) else ()
    names = [name for entry in entries for name in (entry if isinstance(entry, (tuple, list)) else (entry,)) if isinstance(name, str)]
    for name in names:
        if name.partition(":")[0] not in axes:
            raise UserError(f'plan: the pin of {pattern} names the axis "{name}", and the mesh has {", ".join(axes)}')
        if names.count(name) > 1:
            raise UserError(f'plan: the pin of {pattern} names the axis "{name}" twice; an axis splits one dimension')


def stacked_text(text):
    inside = text.strip().removeprefix("[")
    return "[{}" + inside if inside.startswith("]") else "[{}, " + inside


def same_everywhere(mesh, module, make):
    """One plan on all ranks of a device mesh, or on all that there are: that of the first one. A process alone makes its own."""
    device_mesh = mesh if hasattr(mesh, "get_group") else None
    if not (dist.is_available() and dist.is_initialized()):
        return make(False)
    if dist.get_world_size() == 1 or (device_mesh is not None and device_mesh.size() == 1):
        return make(False)
    first = 0 if device_mesh is None else meshes.ranks_of(device_mesh)[0]
    sent, core, failure = [None], None, None
    if dist.get_rank() == first:
        try:
            core = make(True)
            sent = [(core.json(), unknown.known_rules())]  # of ops without a row: all ranks split them in the same way
        except Exception as error:  # noqa: BLE001: whatever it is, the others must not wait
            failure = error
            sent = [error if isinstance(error, UserError) else RuntimeError(f"plan: rank {first}: {type(error).__name__}: {error}")]
    dist.broadcast_object_list(sent, src=first, group=meshes.group_of(device_mesh))
    if isinstance(sent[0], Exception):
        raise failure or sent[0]
    if core is None:
        text, rules = sent[0]
        unknown.adopt(rules)
        core = _core.plan_from_json(text, module)
    return core
