"""Modules that run as planned: parameters as DTensors, the step on local parts with the planned collectives."""

import contextlib
import copy

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from cleave._core import UserError
from cleave.torch import local_graph, meshes, steps, tracing
from cleave.torch.planning import TorchPlan


def parallelize(model, plan, device_mesh, *, compile=False):
    """The module, in place, so that a step of it runs as planned on the devices of a mesh:

        model = cleave.torch.parallelize(model, plan, device_mesh)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in batches:                     # whole batches, the same on all ranks; or DTensors; or a rank's part of them
            loss = model(x, y)                   # what the planned step returns
            loss.backward()
            optimizer.step(); optimizer.zero_grad()

    Parameters become DTensors in the plan's placements, gradients lie like them, and so does what an optimizer keeps. State
    dicts have the names that they had. `compile` compiles both passes with inductor, as `torch.compile(model)` and
    `model.compile()` do.
    """
    if not isinstance(plan, TorchPlan):
        raise UserError(f"parallelize: a plan of cleave.torch.plan is needed, not a {type(plan).__name__}")
    steps.check_module(model, "parallelize")
    if isinstance(model, Parallel):
        raise UserError("parallelize: the module runs as planned already; plan and parallelize a new one")
    check_mesh(plan, device_mesh)
    check_model(plan, model)
    check_numbers(model, device_mesh)
    rank = own_place(device_mesh)
    original = type(model)
    runner = Runner(model, plan, device_mesh, rank, compile)
    place_parameters(model, plan, device_mesh)
    model.__class__ = type(f"Parallel{original.__name__}", (Parallel, original), {"__module__": original.__module__})
    object.__setattr__(model, "_planned", runner)
    return model


def check_mesh(plan, mesh):
    if not isinstance(mesh, dist.device_mesh.DeviceMesh):
        raise UserError(f"parallelize: the third argument is a torch.distributed.device_mesh.DeviceMesh, not a {type(mesh).__name__}")
    names = tuple(mesh.mesh_dim_names or ())
    if tuple(mesh.shape) != plan.mesh_shape or (names and names != plan.axes):
        def text(names, shape):
            return ", ".join(f"{name}={size}" for name, size in zip(names or ("?",) * len(shape), shape))
        raise UserError(f"parallelize: the plan is for the mesh {text(plan.axes, plan.mesh_shape)}, and the device mesh is "
                        f"{text(names, tuple(mesh.shape))}")
    if not meshes.is_ascending(mesh):
        raise UserError(f"parallelize: ranks must grow along every dimension of the device mesh, which is {mesh.mesh.tolist()}: DTensor "
                        "puts parts together in the order of ranks")


def check_numbers(model, mesh):
    """All ranks start from the same module."""
    names = meshes.differing(dict(model.named_parameters()) | dict(model.named_buffers()), mesh)
    if names:
        more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        raise UserError(f"parallelize: {names[0]}{more} not the same on all ranks: call torch.manual_seed with the same number on all "
                        "of them before the module is made, or load the same checkpoint")


def check_model(plan, model):
    """The parameters and buffers that the plan speaks of."""
    expected = {one.name: one for one in plan._traced.inputs if one.kind in ("parameter", "buffer")}
    found = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, one in expected.items():
        tensor = found.get(name)
        if tensor is None:
            raise UserError(f"parallelize: the plan has {one.kind} {name}, and the module has none of this name")
        if tuple(tensor.shape) != one.shape or tensor.dtype != one.dtype:
            raise UserError(f"parallelize: {name} is {tensor.dtype} {tuple(tensor.shape)}, and was planned as {one.dtype} {one.shape}")


def own_place(mesh):
    """The number of this rank's device in the mesh."""
    ranks = meshes.ranks_of(mesh)
    if dist.get_rank() not in ranks:
        raise UserError(f"parallelize: rank {dist.get_rank()} is not in the device mesh")
    return ranks.index(dist.get_rank())


def place_parameters(model, plan, mesh):
    """Each rank keeps its part; nothing is sent, since all ranks have the same numbers."""
    from torch.distributed.tensor import Replicate, distribute_tensor

    names = {id(parameter): name for name, parameter in model.named_parameters()}
    placements, made = plan.placements, {}
    for module in model.modules():
        for own, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in made:
                where = placements.get(names[id(parameter)], (Replicate(),) * mesh.ndim)
                tensor = distribute_tensor(parameter.detach(), mesh, where, src_data_rank=None)
                # The parameter is kept beside its successor, so that no other one gets its place in memory, and its id.
                made[id(parameter)] = torch.nn.Parameter(tensor, requires_grad=parameter.requires_grad), parameter
            module._parameters[own] = made[id(parameter)][0]
        for own, buffer in module._buffers.items():
            if buffer is not None and buffer.device.type != mesh.device_type and buffer.device.type != "meta":
                module._buffers[own] = buffer.to(mesh.device_type)


def in_parts(state_dict, model):
    """The dictionary, with DTensors for whole tensors of parameters that are split."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    found = copy.copy(state_dict)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        given = found.get(name)
        is_whole = isinstance(given, torch.Tensor) and not isinstance(given, DTensor)
        if isinstance(parameter, DTensor) and is_whole and given.shape == parameter.shape:
            found[name] = distribute_tensor(given.detach().to(parameter.device), parameter.device_mesh, parameter.placements,
                                            src_data_rank=None)
    return found


class Parallel:
    """What a module is after `parallelize`, beside its own class."""

    def forward(self, *args, **kwargs):
        if torch.compiler.is_compiling():  # torch.compile(model): both passes are compiled as they are
            self._planned.compile = True
        return self._planned(self, args, kwargs)

    def compile(self, *args, **kwargs):
        """Both passes are compiled by inductor from the next step on."""
        self._planned.compile = True

    @property
    def plan(self):
        return self._planned.plan

    def place(self, *batch):
        """The tensors of a batch as DTensors in the plan's layouts, of whole tensors that are the same on all ranks."""
        return self._planned.placed(batch)

    def check(self, *args, **kwargs):
        """A step, and what it did beside what was planned: collectives by kind, with their bytes, and what parameters take."""
        from cleave.torch import checking

        return checking.check(self, args, kwargs)

    def load_state_dict(self, state_dict, *args, **kwargs):
        """Of whole tensors, the same on all ranks, each rank takes its parts; DTensors are taken as they are."""
        return super().load_state_dict(in_parts(state_dict, self), *args, **kwargs)

    def __deepcopy__(self, memo):
        raise UserError("a module that runs as planned is not copied; copy the module before parallelize")

    def __reduce_ex__(self, protocol):
        raise UserError("a module that runs as planned is not pickled; save its state_dict()")


class Runner:
    """The planned step of one rank."""

    def __init__(self, model, plan, mesh, rank, compile):
        from cleave.torch.execution import Groups

        self.plan, self.mesh, self.compile = plan, mesh, compile
        self.traced = plan._traced
        self.inputs = local_graph.input_parts(plan, rank)
        self.outputs = local_graph.output_parts(plan, rank)
        # If nothing is split, every device runs the step as it is.
        self.is_whole = plan.is_whole
        if self.is_whole:
            self.step = without_numbers(self.traced.step, model)
        else:
            joint = local_graph.local_graph(plan, rank, Groups(mesh), mesh.device_type)
            self.forward_graph, self.backward_graph, self.num_forward = local_graph.split(joint, self.traced)
            self.passes = [graph and local_graph.called_directly(graph) for graph in (self.forward_graph, self.backward_graph)]
        self.parameters = places(model, "parameters", lambda module: module._parameters)
        self.buffers = places(model, "buffers", lambda module: module._buffers)
        self.modules = [(f"{name}.{key}".lstrip("."), parent._modules, key, child) for name, parent in model.named_modules()
                        for key, child in parent._modules.items()]
        self.wanted = {one.name: one for one in self.traced.inputs if one.kind == "parameter"}
        self.compiled = None
        self.seed = initial_seed(mesh) if plan._lowered.seed_index is not None else None
        self.steps = 0

    @torch._dynamo.disable
    def __call__(self, model, args, kwargs):
        if model.training != self.traced.training:
            mode = "train" if self.traced.training else "eval"
            raise UserError(f"the step was planned in {mode} mode; call model.{mode}(), or plan the other mode and parallelize "
                            "another copy of the module")
        autocast = tracing.autocast_of((self.mesh.device_type,))
        if autocast != self.traced.autocast:
            raise UserError(f"the step was planned {words_of(self.traced.autocast)}, and is run {words_of(autocast)}: call plan and the "
                            "step under the same torch.autocast")
        leaves = self.leaves_of(args, kwargs)
        self.check_modules()
        parameters = {name: owner[key] for name, owner, key in self.parameters}
        buffers = {name: owner[key] for name, owner, key in self.buffers}
        self.check_parameters(parameters)
        if self.is_whole:
            return self.run_whole(leaves, parameters, buffers)
        local = self.local_inputs(leaves, parameters, buffers)
        forward, backward = self.graphs()
        needs = torch.is_grad_enabled() and backward is not None
        with torch.autocast(self.mesh.device_type, enabled=False):  # conversions are part of the graph
            results = PlannedStep.apply(self, forward, backward, *local) if needs else self.run_forward(forward, local)
        return self.returned(results, buffers)

    # ---- what goes in

    def check_modules(self):
        """The module still is the one that was planned."""
        for name, owner, key, child in self.modules:
            if owner.get(key) is not child:
                raise UserError(f"{name} was replaced after parallelize, and the step runs as planned before: change the module first, "
                                "then plan and parallelize it")

    def check_parameters(self, parameters):
        for name, one in self.wanted.items():
            parameter = parameters[name]
            if parameter.dtype != one.dtype:
                raise UserError(f"{name} was planned as {one.dtype}, and is {parameter.dtype}: convert the module before plan")
            if not hasattr(parameter, "_spec"):
                raise UserError(f"{name} was replaced after parallelize by a tensor that is no DTensor; copy numbers into the parameter "
                                "that is there")
            if parameter.requires_grad and not one.requires_grad:
                raise UserError(f"{name} was planned without a gradient, and requires one now: call requires_grad_ before plan")

    def leaves_of(self, args, kwargs):
        """The tensors of the call, which is like that of the example batch."""
        for batch in ((args, kwargs) if kwargs else (args, (args[0] if len(args) == 1 else None), list(args))):
            leaves, structure = pytree.tree_flatten(batch)
            if structure == self.traced.structure:
                return self.traced.step.tensors_of(leaves)
        if kwargs and not args:
            leaves, structure = pytree.tree_flatten(kwargs)
            if structure == self.traced.structure:
                return self.traced.step.tensors_of(leaves)
        given = ", ".join(["a tensor" if isinstance(one, torch.Tensor) else type(one).__name__ for one in args] + list(kwargs))
        raise UserError(f"the planned step takes the whole batch, with {self.traced.step.batch.count(steps.TENSOR)} tensors, as in the "
                        f"example (targets too), and returns what the step returns; it was called with ({given})")

    def local_inputs(self, leaves, parameters, buffers):
        local = []
        for one, part, where in zip(self.traced.inputs, self.inputs, self.plan.input_placements):
            if one.kind == "parameter":
                local.append(parameters[one.name])
            elif one.kind == "buffer":
                local.append(buffers[one.name])
            elif one.kind == "batch":
                local.append(self.local_leaf(leaves[one.name], one, part, where))
        if self.seed is not None:
            self.steps += 1
            local.append(torch.tensor((self.seed + self.steps) % (1 << 62), device=self.mesh.device_type))
        return local

    def local_leaf(self, leaf, one, part, where):
        from torch.distributed.tensor import DTensor

        if not isinstance(leaf, torch.Tensor) or leaf.dtype != one.dtype:
            raise UserError(f"batch.{one.name} was planned as {one.dtype} {list(one.shape)}, and is "
                            f"{leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf).__name__}")
        if leaf.requires_grad and not one.requires_grad and torch.is_grad_enabled():
            raise UserError(f"batch.{one.name} was planned without a gradient, and requires one now: give plan a batch that does")
        if isinstance(leaf, DTensor):
            if tuple(leaf.shape) != one.shape:
                raise UserError(f"batch.{one.name} was planned with the shape {list(one.shape)}, and has {list(leaf.shape)}")
            if leaf.device_mesh != self.mesh:
                raise UserError(f"batch.{one.name} is a DTensor on {leaf.device_mesh}, and the step runs on {self.mesh}")
            return (leaf if leaf.placements == where else leaf.redistribute(placements=where)).to_local()
        leaf = leaf.to(self.mesh.device_type)
        if tuple(leaf.shape) == one.shape:
            return leaf[part.own].contiguous() if one.shape else leaf
        if tuple(leaf.shape) == part.sizes:  # a rank's own part
            return leaf
        raise UserError(f"batch.{one.name} was planned with the shape {list(one.shape)}, of which this rank has {list(part.sizes)}; "
                        f"it has {list(leaf.shape)}")

    def placed(self, batch):
        from torch.distributed.tensor import distribute_tensor

        leaves, structure = pytree.tree_flatten(batch)
        made, places = list(leaves), [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for one, where in zip(self.traced.inputs, self.plan.input_placements):
            if one.kind == "batch":
                made[places[one.name]] = distribute_tensor(leaves[places[one.name]], self.mesh, where, src_data_rank=None)
        return pytree.tree_unflatten(made, structure)

    # ---- the passes

    def graphs(self):
        if not self.compile:
            return self.passes
        if self.compiled is None:
            self.compiled = local_graph.compiled(self.forward_graph, self.backward_graph)
        return self.compiled

    def run_forward(self, forward, local):
        return forward([own_part(tensor).detach() for tensor in local])[: self.traced.num_forward]

    def run_whole(self, leaves, parameters, buffers):
        """The step itself, on whole parameters."""
        own = OwnParts.apply(*parameters.values())
        state = {f"model.{name}": part for name, part in zip(parameters, own)}
        state |= {f"model.{name}": buffer for name, buffer in buffers.items()}
        if self.compiled is None:
            def run(state, leaves):
                return torch.func.functional_call(self.step, state, tuple(leaves))
            self.compiled = torch.compile(run) if self.compile else run
        local = [leaf.to_local() if hasattr(leaf, "to_local") else leaf.to(self.mesh.device_type) for leaf in leaves]
        with self.same_random_numbers():
            returned = self.compiled(state, local)
        with torch.no_grad():
            for name, buffer in buffers.items():
                if state[f"model.{name}"] is not buffer:  # the module assigns it
                    buffer.copy_(state[f"model.{name}"])
        return self.step.returned(returned)

    @contextlib.contextmanager
    def same_random_numbers(self):
        """If every device runs the step as it is, all of them draw the same numbers."""
        if self.seed is None or self.mesh.size() == 1:
            yield
            return
        self.steps += 1
        kind = self.mesh.device_type
        own = [] if kind == "cpu" else [torch.get_device_module(kind).current_device()]
        with torch.random.fork_rng(own, device_type=kind):
            torch.manual_seed((self.seed + self.steps) % (1 << 62))
            yield

    # ---- what comes out

    def returned(self, results, buffers):
        from torch.distributed.tensor import DTensor

        flat = []
        for output, part, where, result in zip(self.traced.outputs, self.outputs, self.plan.output_placements, results):
            if output.kind == "buffer":
                with torch.no_grad():
                    buffers[output.of].copy_(result)
            elif all(placement.is_replicate() for placement in where):
                flat.append(result)
            else:
                stride = torch.empty(part.shape, device="meta").stride()
                flat.append(DTensor.from_local(result, self.mesh, where, run_check=False, shape=torch.Size(part.shape), stride=stride))
        return self.traced.step.returned(flat)


def without_numbers(step, model):
    """The same step of a copy of the module, whose parameters and buffers are given to it at every call."""
    tensors = [*model.parameters(), *model.buffers()]
    memo = {id(tensor): tensor.detach().to("meta") for tensor in tensors}
    memo |= {id(one): torch.nn.Parameter(memo[id(one)], requires_grad=one.requires_grad) for one in model.parameters()}
    return steps.Step(copy.deepcopy(model, memo), step._run, step._structure, step.batch, traced=False)


def initial_seed(mesh):
    """A number that all ranks have, of rank 0's random state."""
    seed = torch.randint(1 << 40, (1,), dtype=torch.int64)
    if mesh.device_type != "cpu":
        seed = seed.to(mesh.device_type)
    if mesh.size() > 1:
        dist.broadcast(seed, src=meshes.ranks_of(mesh)[0], group=meshes.group_of(mesh))
    return int(seed)


def words_of(autocast):
    return "without torch.autocast" if autocast is None else f"under torch.autocast with {str(autocast).removeprefix('torch.')}"


def places(model, kind, owned):
    """Where the parameters or buffers of a module are kept, by their first names: (name, dictionary, key)."""
    found = []
    for name, _ in getattr(model, f"named_{kind}")():
        module, _, key = name.rpartition(".")
        found.append((name, owned(model.get_submodule(module)), key))
    return found


class OwnParts(torch.autograd.Function):
    """This rank's parts of all parameters at once; `to_local` takes a tenth of a millisecond for each of them."""

    @staticmethod
    def forward(ctx, *parameters):
        ctx.specs = [parameter._spec for parameter in parameters]
        ctx.set_materialize_grads(False)
        own = [parameter._local_tensor.detach() for parameter in parameters]
        ctx.mark_non_differentiable(*[part for part, parameter in zip(own, parameters) if not parameter.requires_grad])
        return tuple(own)

    @staticmethod
    def backward(ctx, *gradients):
        from torch.distributed.tensor import DTensor

        return tuple(None if gradient is None else DTensor(gradient, spec, requires_grad=False)
                     for gradient, spec in zip(gradients, ctx.specs))


def own_part(tensor):
    return getattr(tensor, "_local_tensor", tensor)


def taken_out(ctx):
    """What a step kept for its backward pass. Nothing else refers to it from now on, unless the graph is retained."""
    tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
    kept = [next(tensors) if is_tensor else next(others) for is_tensor in ctx.is_tensor]
    if hasattr(ctx, "maybe_clear_saved_tensors"):
        ctx.maybe_clear_saved_tensors()
    return kept


class PlannedStep(torch.autograd.Function):
    """The forward graph, and for its gradients the backward graph. Parameters come as DTensors, and so do their gradients leave:
    between them are parts alone."""

    @staticmethod
    def forward(ctx, runner, forward, backward, *local):
        ctx.specs = [getattr(one, "_spec", None) for one in local]
        made = forward([*map(own_part, local)])
        count = runner.traced.num_forward
        results, kept = made[:count], made[runner.num_forward:]
        ctx.runner, ctx.backward_graph = runner, backward
        ctx.is_tensor = [isinstance(one, torch.Tensor) for one in kept]
        ctx.others = [one for one in kept if not isinstance(one, torch.Tensor)]
        ctx.save_for_backward(*[one for one in kept if isinstance(one, torch.Tensor)])
        with_tangent = {one.name for one in runner.traced.inputs if one.kind == "tangent"}
        ctx.mark_non_differentiable(*[result for result, output in zip(results, runner.traced.outputs)
                                      if output.kind == "buffer" or output.of not in with_tangent])
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        from torch.distributed.tensor import DTensor

        traced = ctx.runner.traced
        by_result = {output.of: gradient for output, gradient in zip(traced.outputs, gradients) if output.kind == "result"}
        tangents = [by_result[one.name] for one in traced.inputs if one.kind == "tangent"]
        made = ctx.backward_graph(taken_out(ctx) + tangents)
        of = {output.of: gradient for output, gradient in zip(traced.outputs[traced.num_forward:], made)}
        primals = [one for one in traced.inputs if one.kind != "tangent"]
        found = [of.get(one.name) if one.kind in ("parameter", "batch") else None for one in primals]
        found = [gradient if gradient is None or spec is None else DTensor(gradient, spec, requires_grad=False)
                 for gradient, spec in zip(found, ctx.specs)]
        return None, None, None, *found, *([None] if ctx.runner.seed is not None else [])
