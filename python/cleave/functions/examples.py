"""Calls to try if no shapes are given: made from the names of the parameters, and tried until the operator takes them."""

import itertools

from cleave._core import UserError
from cleave.functions import sweeps
from cleave.functions.target import Call, Operand, combinations, refusal

# Shapes of the first operand, by rank: sizes that two, three and four devices do not divide alike.
SHAPES = {1: [(5,), (3,)], 2: [(5, 4), (5, 3), (3, 3)], 3: [(3, 4, 5), (2, 5, 3), (4, 3, 3), (3, 4, 6)],
          4: [(2, 3, 5, 4), (2, 4, 6, 5), (4, 3, 3, 3), (2, 3, 4, 6)]}
MOST_TRIES = 60  # of operands of one shape
MOST_CALLS = {1: 16, 2: 8, 3: 6}  # of a rank, by the number of operands: each of them costs a factor
FLOATS = ("f64", "i64", "i1", "f32", "complex<f64>")
OF_A_PART = {"src", "source"}  # whose shape goes with the dimension
SORTED = {"boundaries", "sorted_sequence", "bins"}
CONDITIONS = {"condition", "pred"}
NORM_ARGUMENTS = {"weight", "bias"}
TABLES = {"embedding", "embedding_bag", "_embedding_bag", "one_hot"}  # whose first operand are indices
SQUARE = ("cholesky", "inv", "det", "logdet", "slogdet", "solve", "eig", "matrix", "lu", "triangular", "expm", "trace")


def is_table(operator):
    return not TABLES.isdisjoint(operator.split("."))


def weights_for(shape, dtype, operator):
    """Those of norms, tables, products and convolutions (with and without a batch, transposed or not)."""
    rank, last, channels = len(shape), tuple(shape[-1:]), tuple(shape[1:2])
    if "norm" in operator:
        shapes = [last, channels]
    elif is_table(operator):
        return [Operand((6, 3), "f64")]
    elif "transpose" in operator:
        shapes = [(*channels, 2, *[2] * (rank - 2)), (*shape[:1], 2, *[2] * (rank - 1))]
    else:
        shapes = [(2, *channels, *[2] * (rank - 2)), (2, *shape[:1], *[2] * (rank - 1)), (6, *last), (6, *last, *last), channels, last]
    return [Operand(one, dtype) for one in shapes]


def operands_for(parameter, shape, dtype, operator=""):
    """What an operand beside the first may be, likely ones first."""
    name, least = parameter.name, max(1, min(shape, default=1))
    if name in ("index", "indices", "ind", "sorter"):
        return [Operand(shape, "i64", "index", least), Operand((3,), "i64", "index", least), Operand((2, 3), "i64", "index", least)]
    if name in ("target", "labels", "label"):
        return [Operand(shape, dtype), Operand(shape[:1], "i64", "index", shape[1] if len(shape) > 1 else least),
                Operand(shape[:1] + shape[2:], "i64", "index", shape[1] if len(shape) > 1 else least),
                Operand((), "i64", "index", least), Operand(shape, dtype, "positive")]
    if name in SORTED:
        return [Operand((6,), dtype, "sorted"), Operand(shape, dtype, "sorted")]
    if "mask" in name or name in CONDITIONS:
        return [Operand(shape, "i1", "bool")]
    same = Operand(shape, dtype)
    if name in ("running_mean", "running_var"):
        return [Operand(shape[1:2], dtype, "positive")]
    if name == "grid":
        return [Operand((*shape[:1], 3, 5, 2), dtype)]
    if name in NORM_ARGUMENTS or name == "rhs":
        return weights_for(shape, dtype, operator) + [same]
    if name in ("xp", "fp"):
        return [Operand((6,), dtype, "sorted" if name == "xp" else "any")]
    more = [same, Operand(tuple(shape[:-2]) + tuple(reversed(shape[-2:])), dtype), Operand(shape[-1:], dtype), Operand(shape[:1], dtype),
            Operand((*shape[:-1], 6), dtype), Operand((), dtype)]
    if len(shape) == 1:
        more.insert(1, Operand((*shape, 6), dtype))  # a matrix beside a vector
    if len(shape) == 2:
        more.append(Operand((2, *shape), dtype))  # a batch beside a matrix
    if name in ("src", "source"):  # what is put into a part of the first operand
        more += [Operand(shape[:k] + shape[k + 1:], dtype) for k in range(len(shape))]
        more += [Operand((*shape[:k], 3, *shape[k + 1:]), dtype) for k in range(len(shape))]
    return unique([*more, Operand(shape, "i64"), Operand(shape, "i1", "bool")])


def unique(operands):
    kept = []
    for operand in operands:
        if operand not in kept:
            kept.append(operand)
    return kept


def first_operands(parameter, shape, dtype, name):
    if parameter.name in SORTED:
        return [Operand(shape, dtype, "sorted")]
    if parameter.name in ("indices", "index") or is_table(name):
        return [Operand(shape, "i64", "index", 4)]
    if "mask" in parameter.name or parameter.name in CONDITIONS:
        return [Operand(shape, "i1", "bool")]
    made = [Operand(shape, dtype)]
    if len(shape) > 1 and shape[-1] == shape[-2] and any(word in name for word in SQUARE):
        made = [Operand(shape, dtype, "definite")]
    return made


def tensors_of(target, parameters):
    """The parameters that operands are given for: those that must be, and the weights of norms."""
    if target.name.split(".")[-1] == "where":
        return [p for p in parameters if p.kind != "other"][:3]
    norm = "norm" in target.name
    chosen = []
    for parameter in parameters:
        if parameter.kind == "other" or parameter.keyword_only and not parameter.required:
            continue
        if parameter.required or (norm and parameter.name in NORM_ARGUMENTS):
            chosen.append(parameter)
    if not chosen:
        chosen = [p for p in parameters if p.kind != "other"][:1]
    return chosen


def candidates(target, parameters, shape, dtype):
    """Operands of calls whose first has this shape."""
    lists = []
    for number, parameter in enumerate(parameters):
        made = first_operands(parameter, shape, dtype, target.name) if number == 0 else operands_for(parameter, shape, dtype, target.name)
        if parameter.kind == "tensors":
            made = [[operand, operand] for operand in made]
        else:
            made = [[operand] for operand in made]
        lists.append(made)
    for chosen in itertools.islice(itertools.product(*lists), MOST_TRIES):
        operands = [operand for one in chosen for operand in one]
        given = [p.name for p, one in zip(parameters, chosen) for _ in one]
        yield operands, tuple(given)


def propose(target, sweep=None, ranks=(1, 2, 3, 4), dtype=None):
    """(calls, notes): calls that the operator takes, over the ranks, and what it refused in words."""
    parameters = target.parameters()
    if not target.proposes():
        raise UserError(f"discover: give a shape for each operand of {target.name}, such as shapes=[(8, 3), (8, 3)]")
    tensors = tensors_of(target, parameters)
    calls, refused = [], ""
    for kind in [dtype] if dtype else FLOATS:
        for rank in ranks:
            best = []
            for shape in SHAPES[rank]:
                found, why = calls_of_shape(target, parameters, tensors, shape, kind, sweep, calls)
                refused = refused or why
                best = max(best, found, key=len)  # a size may be one that few values go with
                if best and not why:
                    break
            calls += best
        if calls:
            break
    if not calls:
        raise UserError(f"discover: no call of {target.name} was found that it takes ({refused}); "
                        "give shapes=, and sweep= for its other arguments")
    return calls, []


def kinds(given, operands):
    return given, [(operand.dtype, operand.domain) for operand in operands]


def calls_of_shape(target, parameters, tensors, shape, dtype, sweep, before):
    most = MOST_CALLS.get(len(tensors), 4) if len(shape) < 4 else max(4, MOST_CALLS.get(len(tensors), 4) // 2)
    refused = ""
    for whole in [sweep] if sweep is not None else sweeps.variants(parameters, shape, target.takes_list, target.name):
        # Of many values first those that are likely, then, if it takes none of them, the others.
        for values in [whole] if sweep is not None else sweeps.few_values(whole, most):
            taken, why = calls_with_values(target, tensors, shape, dtype, values, before)
            if taken:
                return taken, why
            refused = refused or why
    return [], refused


def calls_with_values(target, tensors, shape, dtype, values, before):
    """Calls with operands that go with most of the values; for each of the other values, with operands of its own."""
    refused, found = "", []
    is_part = any(parameter.name in OF_A_PART for parameter in tensors)
    for operands, given in candidates(target, tensors, shape, dtype):
        if before and kinds(given, operands) != kinds(before[0].given, before[0].operands):
            continue  # all calls have operands of the same kinds
        target.given = given
        taken, here = [], ""
        for attrs in combinations(values):
            call = Call(operands, attrs, given)
            why = refusal(target, call)
            if not why:
                taken.append(call)
            here = here or why
        refused = refused or here
        if taken and not (is_part and here):
            return taken, here
        if taken:
            found.append(taken)
    if not found:
        return [], refused
    first = kinds(found[0][0].given, found[0][0].operands)
    by_values = {}
    for taken in found:
        for call in taken:
            if kinds(call.given, call.operands) == first:
                by_values.setdefault(str(call.attrs), call)
    return list(by_values.values()), "" if len(by_values) == len(combinations(values)) else refused


def given(target, calls, sweep):
    """(calls, notes) for operands whose shapes are given: dtypes and domains by the names of parameters if they are not."""
    parameters = target.parameters()
    names = given_names(target, parameters, len(calls[0]))
    target.given = names
    made, dropped, refused = [], [], ""
    for operands in calls:
        shape = tuple(operands[0][1]) if operands else ()
        values = sweep
        if sweep is None:
            others = [p for p in parameters or [] if p.name not in names]
            values = sweeps.thinned(sweeps.propose(others, shape, target.takes_list), MOST_CALLS.get(len(operands), 4))
        found = []
        for described in described_operands(operands, names):
            for attrs in combinations(values):
                call = Call(described, attrs, names)
                why = refusal(target, call)
                if not why:
                    found.append(call)
                    continue
                refused = refused or why
                if sweep:
                    dropped.append(f"{', '.join(f'{k}={v}' for k, v in attrs.items())} with {[o.shape for o in described]}: {why}")
            if found:
                break
        made += found
    if not made:
        raise UserError(f"discover: {target.name} takes none of the calls ({refused})")
    return made, dropped


def given_names(target, parameters, count):
    """The parameters that so many operands are; none if the signature does not say."""
    names = []
    tensors = [p for p in parameters or [] if p.kind != "other"]
    for parameter in sorted(tensors, key=lambda p: not p.required):  # those that must be given first
        if parameter.kind == "tensors":
            names += [parameter.name] * (count - len(names))
        elif len(names) < count:
            names.append(parameter.name)
    required = [p for p in parameters or [] if p.required and not p.keyword_only]
    if len(names) < count == len(required) and not any(p.type for p in required):  # such as the q of rel_entr(p, q)
        return tuple(p.name for p in required)
    if len(names) != count:
        return ()
    order = [p.name for p in parameters]
    return tuple(sorted(names, key=order.index))


def described_operands(operands, names):
    """Operands with dtypes and domains, the likely ones first."""
    first = operands[0][1] if operands else ()
    least = max(1, min(first, default=1))

    def one(number, dtype):
        kind, shape, domain, limit = operands[number]
        name = names[number] if names else ""
        if not kind and not domain:
            if name in ("index", "indices", "sorter", "labels", "label"):
                return Operand(tuple(shape), "i64", "index", least)
            if "mask" in name or name in CONDITIONS:
                return Operand(tuple(shape), "i1", "bool")
            if name in SORTED:
                return Operand(tuple(shape), dtype, "sorted")
        if domain == "index" and not kind:
            kind = "i64"
        return Operand(tuple(shape), kind or dtype, domain or "any", limit)

    for dtype in FLOATS if not any(o[0] or o[2] for o in operands) else FLOATS[:1]:
        yield [one(number, dtype) for number in range(len(operands))]
