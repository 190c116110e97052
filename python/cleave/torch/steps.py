"""A module and its loss as one module over the tensors of a batch."""

import contextlib
import inspect

import torch
from torch.utils import _pytree as pytree

from cleave._core import UserError

MODEL_NAMES = ("model", "module", "net", "network")  # of a loss function's first parameter: it calls the module itself
TENSOR = type("Tensor", (), {})  # in the place of a tensor among what a step takes or returns, where None may be, too
CONSTANTS = (type(None), bool, int, float, str)  # what may be in a batch beside tensors, and is a part of the step


class Step(torch.nn.Module):
    """What is planned: from the leaves of a batch to the loss and whatever else is returned with it.

    `run` says how the module and the loss function are called on a batch; see `calls_of`. `batch` has the leaves of one: those that
    are no tensors are the same in every step. A step that is `traced` changes no attributes of the module.
    """

    def __init__(self, model, run, structure, batch, traced=True):
        super().__init__()
        self.model = model
        self.traced = traced
        self._run = run
        self._structure = structure
        self.batch = [TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in batch]
        self.results = None  # what was returned last: its structure, and the leaves that are no tensors

    def tensors_of(self, leaves):
        """The tensors among the leaves of a batch."""
        for i, (leaf, known) in enumerate(zip(leaves, self.batch)):
            if known is not TENSOR and (type(leaf) is not type(known) or leaf != known):
                raise UserError(f"leaf {i} of the batch was planned as {known!r}, which is a part of the step, and is now "
                                f"{'a tensor' if isinstance(leaf, torch.Tensor) else repr(leaf)}: plan with a tensor in its place")
        return [leaf for leaf, known in zip(leaves, self.batch) if known is TENSOR]

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if known is TENSOR else known for known in self.batch]
        with assigned_in_place(self.model) if self.traced else contextlib.nullcontext():
            returned = self._run(self.model, pytree.tree_unflatten(leaves, self._structure))
        flat, structure = pytree.tree_flatten(returned)
        self.results = structure, [TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
        return tuple(leaf for leaf in flat if isinstance(leaf, torch.Tensor))

    def returned(self, tensors):
        """What the step returns, of its tensors."""
        structure, others = self.results
        tensors = iter(tensors)
        return pytree.tree_unflatten([next(tensors) if other is TENSOR else other for other in others], structure)


@contextlib.contextmanager
def assigned_in_place(model):
    """Buffers that a module assigns, self.mean = 0.9 * self.mean + ..., are the old ones with new numbers; other attributes are as
    they were."""
    modules = [(name, module, dict(module._buffers), dict(module.__dict__)) for name, module in model.named_modules()]
    yield
    for name, module, buffers, attributes in modules:
        for key, buffer in buffers.items():
            new = module._buffers.get(key)
            if new is not buffer and isinstance(new, torch.Tensor) and isinstance(buffer, torch.Tensor):
                refuse_other_type(f"{name}.{key}".lstrip("."), buffer, new)
                buffer.copy_(new.detach())
                module._buffers[key] = buffer
        for key, old in attributes.items():
            new = module.__dict__.get(key)
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and new is not old:
                raise UserError(f"plan: the model assigns the tensor {f'{name}.{key}'.lstrip('.')}, which is neither a parameter nor a "
                                f'buffer; register_buffer("{key}", ...) keeps it between steps')
        module.__dict__.clear()
        module.__dict__.update(attributes)


def refuse_other_type(name, old, new):
    if old.shape != new.shape or old.dtype != new.dtype:
        raise UserError(f"plan: the model assigns the buffer {name}, which was {old.dtype} {list(old.shape)}, a tensor that is "
                        f"{new.dtype} {list(new.shape)}; a step takes and leaves buffers of one type")


def call_model(model, batch):
    """A dict is keywords, a tuple or a list is positional arguments, anything else is the only argument."""
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def calls_of(loss_fn, batch):
    """The ways to call a loss function, as (words, function of the module and the batch), the likeliest first."""
    if loss_fn is None:
        return [("model(*batch)", call_model)]
    several = isinstance(batch, (tuple, list))
    itself = ("loss_fn(model, *batch)", lambda model, of: loss_fn(model, *of) if several else loss_fn(model, of))
    whole = ("loss_fn(model, batch)", lambda model, of: loss_fn(model, of))
    of_output = ("loss_fn(model(*batch))", lambda model, of: loss_fn(call_model(model, of)))
    ways = [itself, whole, of_output]
    if several and len(batch) > 1:
        def with_target(model, of):
            inputs = of[0] if len(of) == 2 else of[:-1]
            return loss_fn(call_model(model, inputs), of[-1])
        ways.insert(0, ("loss_fn(model(*inputs), target), the target last in the batch", with_target))
    if first_parameter(loss_fn) in MODEL_NAMES:
        ways.sort(key=lambda way: way[0] not in (itself[0], whole[0]))
    elif isinstance(batch, dict):
        ways.insert(0, ("loss_fn(model(**batch), batch)", lambda model, of: loss_fn(call_model(model, of), of)))
    return ways


def first_parameter(function):
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):  # a builtin
        return None


def is_loss(returned):
    """The first tensor that comes back is a number with a gradient."""
    leaves = pytree.tree_leaves(returned)
    first = leaves[0] if leaves else None
    return isinstance(first, torch.Tensor) and first.dim() == 0 and first.dtype.is_floating_point and first.requires_grad


def check_module(model, who):
    """A plain module: nothing around it that splits or compiles it, and no part that is split already."""
    if not isinstance(model, torch.nn.Module):
        raise UserError(f"{who}: the model is a torch.nn.Module, not a {type(model).__name__}")
    if hasattr(model, "_orig_mod"):
        raise UserError(f"{who}: the model was compiled already; {who} the module itself (model._orig_mod), and compile what parallelize "
                        "returns")
    if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        raise UserError(f"{who}: a {type(model).__name__} splits the batch itself; {who} the module in it (model.module)")
    if who == "plan":
        split = next((name for name, parameter in model.named_parameters() if hasattr(parameter, "placements")), None)
        if split is not None:
            raise UserError(f"plan: {split} is a DTensor already; plan a module of whole tensors, and parallelize it by that plan alone")


def step_of(model, loss_fn, batch):
    """The Step for this way to call the loss function: the first one that gives a loss on tensors without numbers."""
    check_module(model, "plan")
    lazy = next((name for name, one in [*model.named_parameters(), *model.named_buffers()]
                 if torch.nn.parameter.is_lazy(one)), None)
    if lazy is not None:
        raise UserError(f"plan: {lazy} has no shape yet; run the model once on an example batch, which gives lazy modules their shapes")
    if loss_fn is not None and not callable(loss_fn):
        raise UserError(f"plan: the loss function is called with the model's output and the target, and a "
                        f"{type(loss_fn).__name__} is no function; None if the model returns its loss itself")
    leaves, structure = pytree.tree_flatten(batch)
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise UserError("plan: the example batch has no tensor; give the arguments of a step, such as (inputs, targets)")
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, (torch.Tensor, *CONSTANTS)):
            raise UserError(f"plan: leaf {i} of the example batch is a {type(leaf).__name__}; a step takes tensors: make it one, or "
                            "bind it in the loss function")
    tried, numbers = [], []
    for words, run in calls_of(loss_fn, batch):
        step = Step(model, run, structure, leaves)
        try:
            returned = tried_on_fakes(step, leaves)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001: whatever the user's functions raise
            if is_about_numbers(error) and not numbers:
                numbers.append(f"plan: {words}: a size or a decision depends on the numbers of a tensor ({one_line(error)}), and a plan "
                               "needs it before there are any: use masks (torch.where) or known sizes")
            tried.append(f"{words}: {one_line(error)}")
            continue
        if loss_fn is None or is_loss(returned):
            return step
        tried.append(f"{words}: returns {described(returned)}, which is no loss (one number with a gradient)")
    if numbers:
        raise UserError(numbers[0])
    if loss_fn is None:
        raise UserError(f"plan: the model does not run on the example batch: {tried[0].partition(': ')[2]}")
    raise UserError("plan: no way to call the loss function gives a loss; " + "; ".join(tried))


def tried_on_fakes(step, leaves):
    """The step on tensors of the same types that hold no numbers; neither the model nor random states change."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    state = {**dict(step.named_parameters(remove_duplicate=False)), **dict(step.named_buffers(remove_duplicate=False))}
    made = {id(tensor): fake_of(mode, tensor) for tensor in state.values()}
    fakes = {name: made[id(tensor)] for name, tensor in state.items()}
    inputs = [fake_of(mode, leaf) for leaf in step.tensors_of(leaves)]
    with mode, torch.random.fork_rng(devices=[]), torch.enable_grad():
        return torch.func.functional_call(step, fakes, tuple(inputs))


def fake_of(mode, tensor):
    """A tensor like this one. It says that it is on the CPU if it is on "meta", since those that a loss function holds itself are."""
    if not tensor.is_meta:
        return mode.from_tensor(tensor)
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu", requires_grad=tensor.requires_grad)


def is_about_numbers(error):
    """What tensors without numbers raise if they are asked for some."""
    return type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")


def one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"


def described(returned):
    leaves = pytree.tree_leaves(returned)
    tensors = [f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return ", ".join(tensors) or "no tensor"
