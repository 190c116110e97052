"""Values of arguments to try if none are given."""

from cleave.functions.target import DIM_NAMES

# What a parameter of this name is called with, whatever the operator is.
VALUES = {
    "keepdim": [False, True],
    "keepdims": [False, True],
    "reduction": ["none", "mean", "sum"],
    "descending": [False, True],
    "largest": [True, False],
    "right": [False, True],
    "approximate": ["none", "tanh"],
    "correction": [0, 1],
    "unbiased": [False, True],
    "ddof": [0, 1],
    "p": [1.0, 2.0, 3.0, float("inf")],
    "ord": [1.0, 2.0, 3.0, float("inf")],
    "alpha": [1, 2, -1],
    "negative_slope": [0.01, 0.5, -0.5],
    "diagonal": [0, 1],
    "offset": [0, 1],
    "include_self": [True, False],
    "upper": [False, True],
    "transpose": [False, True],
    "reverse": [False, True],
    "exclusive": [False, True],
    "rounding_mode": ["trunc", "floor"],
    "log_target": [False, True],
    "ceil_mode": [False, True],
    "count_include_pad": [True, False],
    "num_classes": [5],
}
# What a required parameter of this name is called with, by the shape of the first operand.
REQUIRED = {
    "kernel_size": lambda shape: [2, 3],
    "output_size": lambda shape: [2],
    "upscale_factor": lambda shape: [2],
    "downscale_factor": lambda shape: [2],
    "groups": lambda shape: [2],
    "num_groups": lambda shape: [2],
    "k": lambda shape: [1, 2],
    "n": lambda shape: [2],
    "normalized_shape": lambda shape: [list(shape[k:]) for k in range(len(shape) - 1, max(-1, len(shape) - 3), -1)],
    "shifts": lambda shape: [1],
    "shift": lambda shape: [1],
    "size": lambda shape: [2],
    "step": lambda shape: [1],
    "min": lambda shape: [-1.0],
    "max": lambda shape: [2.0],
    "lambd": lambda shape: [0.5],
    "threshold": lambda shape: [0.5],
    "value": lambda shape: [2.0],
    "exponent": lambda shape: [2, 3],
    "weight": lambda shape: [0.25],
    "pad": lambda shape: [[1, 2]],
    "pad_width": lambda shape: [1],
    "chunks": lambda shape: [2],
    "split_size": lambda shape: [2],
    "sections": lambda shape: [2],
    "start": lambda shape: [0],
    "length": lambda shape: [2],
    "q": lambda shape: [0.25],
    "N": lambda shape: [3],
    "num_classes": lambda shape: [5],
    "num_weights": lambda shape: [6],
    "ignore_index": lambda shape: [-100],
    "maxnorm": lambda shape: [1.5],
    "n_fft": lambda shape: [2],
    "index": lambda shape: [0, 1],
    "split_size_or_sections": lambda shape: [2],
    "train": lambda shape: [False],
    "reduce": lambda shape: ["sum", "prod", "amax", "amin", "mean"],
    "kth": lambda shape: [1],
    "repeats": lambda shape: [2],
    "reps": lambda shape: [[2, 1]],
    "source": lambda shape: list(range(len(shape))),
    "destination": lambda shape: list(range(len(shape))),
    "window_strides": lambda shape: [[1] * (len(shape) - 2)],
    "padding": lambda shape: ["VALID"],
    "equation": lambda shape: [EQUATIONS[len(shape)]],
    "sizes": lambda shape: [[-1, 2]],
    "ind": lambda shape: [max(1, len(shape) // 2)],
}
# The same by type, of a name that says nothing.
BY_TYPE = {"number": [2.0], "Scalar": [2.0], "float": [0.5], "int": [2], "bool": [False, True]}
EQUATIONS = {1: "i,i->", 2: "ij,kj->ik", 3: "bij,bkj->bik", 4: "abij,abkj->abik"}  # of two operands of one shape
# What is not required, but some of it must be there.
INSTEAD = {"scale_factor": [2.0], "size": [3]}
BOUNDS = ((-1.0, ("min", "a_min")), (2.0, ("max", "a_max")))
TWO_DIMS = ({"dim0", "dim1"}, {"axis0", "axis1"}, {"axis1", "axis2"}, {"dim1", "dim2"})


TRAINS = ("training", "train")
GROWS = ("stack", "unsqueeze", "diag_embed", "expand_dims")  # whose results have one more dimension


def variants(parameters, shape, is_list, name):
    """Sweeps, likely ones first: lists of one dimension, of two and of all, and arguments of which one must be given."""
    first = propose(parameters, shape, is_list)
    if name.split(".")[-1] in GROWS:
        first |= {key: list(range(len(shape) + 1)) for key in first if key in DIM_NAMES}
    if name.split(".")[-1] in ("clip", "clamp"):
        older = any(p.name == "a_min" for p in parameters)  # NumPy has two names for each bound
        first |= {p.name: [bound] for p in parameters for bound, names in BOUNDS if p.name == names[older]}
    if any(word.endswith("dropout") or word == "bernoulli" for word in name.split(".")):  # whose p is a probability
        first |= {"p": [0.5, 0.25]} if "p" in {p.name for p in parameters} else {}
        first |= {p.name: [True, False] for p in parameters if p.name in TRAINS}
    if name.split(".")[-1] == "tile" and "dims" in first:  # which are no dimensions
        first |= {"dims": [[2], [2, 1]]}
    yield first
    rank = len(shape)
    lists = [p.name for p in parameters if p.kind == "other" and is_list(p) and (p.name in DIM_NAMES or p.required)]
    pairs = [[a, b] for a in range(rank) for b in range(rank) if a < b]
    orders = [[*range(k, rank), *range(k)] for k in range(rank)] + [list(reversed(range(rank)))]
    for key in lists:
        if rank > 1 and key in DIM_NAMES and "permute" not in name:
            yield first | {key: pairs}
        yield first | {key: orders if key in DIM_NAMES else [[2, *shape]]}
        yield first | {key: [[*shape]]}
    for key in (p.name for p in parameters if p.required and p.name in ("axes", "dims", "dimensions") and p.name not in lists):
        yield first | {key: dims_of(rank, True)}
    for parameter in parameters:
        if parameter.kind == "other" and not parameter.required and parameter.name in INSTEAD:
            yield first | {parameter.name: INSTEAD[parameter.name]}


def dims_of(rank, is_list):
    """All dimensions from the front, and the last from the end."""
    dims = list(range(rank))
    return [[dim] for dim in dims] if is_list else [*dims, -1] if rank == 2 else dims


def whole(value):
    """As an integer, if it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else None if isinstance(value, float) else value


def propose(parameters, shape, is_list=lambda parameter: False):
    """{parameter: values} for operands of which the first has this shape."""
    sweep = {}
    names = {parameter.name for parameter in parameters}
    pairs = next((pair for pair in TWO_DIMS if pair <= names), set())
    for parameter in parameters:
        if parameter.kind != "other":
            continue
        name = parameter.name
        if name in pairs:
            sweep[name] = list(range(len(shape)))
        elif name in DIM_NAMES:
            sweep[name] = dims_of(max(1, len(shape)), is_list(parameter))
        elif name in VALUES and not (parameter.default is None and name in ("correction", "unbiased", "rounding_mode")):
            sweep[name] = list(VALUES[name])
        elif parameter.required and name in REQUIRED:
            sweep[name] = REQUIRED[name](shape)
        elif parameter.required and parameter.type in BY_TYPE:
            sweep[name] = list(BY_TYPE[parameter.type])
        if parameter.type == "int" and name == "reduction":  # of ATen, which has numbers for none, mean and sum
            sweep[name] = [0, 1, 2]
        elif parameter.type == "int" and name in sweep:
            sweep[name] = [value for value in map(whole, sweep[name]) if value is not None]
    return {name: values for name, values in sweep.items() if values}


def thinned(sweep, most):
    """Fewer values, so that there are at most so many combinations: all dimensions stay, each with all that is left."""
    sweep = {name: list(values) for name, values in sweep.items()}

    def count():
        total = 1
        for values in sweep.values():
            total *= len(values)
        return total

    while count() > most:
        name = max(sweep, key=lambda key: 0 if key in DIM_NAMES else len(sweep[key]))
        if name in DIM_NAMES or len(sweep[name]) == 1:
            return sweep
        sweep[name].pop()
    return sweep


def few_values(sweep, most):
    """Sweeps with at most so many combinations; behind the first, each has other values of one argument."""
    first = thinned(sweep, most)
    yield first
    for name, values in sweep.items():
        for value in values:
            if name not in DIM_NAMES and value not in first[name]:
                yield thinned(sweep | {name: [value]}, most)
