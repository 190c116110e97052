"""What must be known of an operator before discovery runs it: how it counts dimensions, and what would end this process."""

import itertools
import os
import select
import signal
import time
import warnings

import numpy as np

from cleave._core import UserError
from cleave.functions.target import DIM_NAMES, LONG, numbers
from cleave.dtypes import numpy_dtype

INTEGERS = ("i64", "i32", "i16", "i8")
MOST_PARTS = 4000  # shapes on devices that are tried before the others
MOST_DEATHS = 300
FAR = (-1 << 62, -1 << 31, 1 << 30, 1 << 62)
SECONDS_FOR_A_CHILD = 20
SIZES = (1e2, 1e3, 1e4, 1e5, 1e6, 1e8, 1e10, 1e12, 1e15, 1e20, 1e100)
SECONDS_FOR_LARGE_NUMBERS = 0.1  # of a processor, for one call
TIMES_LONGER = 20
LARGEST = {"f32": 1e38, "bf16": 1e38, "f16": 6e4}
BESIDE = 1.5  # numbers of a size are a little larger than it
MOST_SETTINGS = 8  # values of other arguments with which large numbers are tried


def counted_from_front(target, calls):
    """The calls without negative dimensions if a result has more dimensions than the operand: torch.stack counts from the end of
    the result, Tensor.unfold from that of the operand, which shows when both are tried."""
    return [(operands, {**attrs, **counted(target, operands, attrs)}) for operands, attrs in calls]


def counted(target, operands, attrs):
    negative = {key: value for key, value in attrs.items() if is_dim(key) and type(value) is int and value < 0}
    if not negative or not operands:
        return {}
    arrays = [numbers(operand, seed) for seed, operand in enumerate(operands)]
    results = run(target, arrays, attrs)
    ranks = (len(operands[0].shape), max((one.ndim for one in results or ()), default=0))
    if results is None or ranks[1] <= ranks[0]:
        return {}
    found = {}
    for key, value in negative.items():
        for rank in ranks:
            others = run(target, arrays, {**attrs, key: value + rank})
            if others is not None and all(map(same, results, others)):
                found[key] = value + rank
                break
    return found


def is_dim(key):
    return key.startswith("dim") or key in DIM_NAMES


def run(target, arrays, attrs):
    try:
        with np.errstate(all="ignore"):
            made = target.run(*[array.copy() for array in arrays], **attrs)
        return [np.asarray(one) for one in (made if isinstance(made, (list, tuple)) else [made])]
    except (Exception, SystemExit):  # noqa: BLE001: refusals have many types
        return None


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def survivor(target, calls, worlds=(2, 3, 4)):
    """`target.run`, or one that refuses what would end the process or not end at all: the least integers of a type (a division of
    them by -1), positions far outside of an operand, parts of operands that do not go together, and numbers that a kernel counts up
    to. Some kernels take these without a look."""
    if target.framework != "torch":
        return target.run
    integers = [(operands, attrs) for operands, attrs in calls[:1] if any(is_free_integer(operand) for operand in operands)]
    least = [([ends(operand, turn * (number + 1)) for number, operand in enumerate(operands)], attrs)
             for operands, attrs in integers for turn in range(5)]
    no_least = bool(deadly(target, least))
    limits = {number: operand.limit for number, operand in enumerate(calls[0][0]) if operand.domain == "index"}
    no_far = bool(deadly(target, [(far(calls[0][0], number, value), calls[0][1]) for number in limits for value in FAR]))
    local = list(itertools.islice(parts_on_devices(calls, worlds), MOST_PARTS))
    known = dict.fromkeys([key_of(*one) for one in local], False)
    known |= {key_of(*local[index]): True for index in deadly(target, local)}
    are_parts_safe = not any(known.values())
    bounds = slow_beyond(target, calls)
    if are_parts_safe and not no_least and not no_far and not bounds:
        return target.run

    def run_what_is_safe(*arrays, **attributes):
        arrays = [np.asarray(array) for array in arrays]
        if no_least and any(a.dtype.kind == "i" and a.size and a.min() == np.iinfo(a.dtype).min for a in arrays):
            raise UserError(f"{target.name} ends the process on the least integers of their type")
        if no_far and any(arrays[i].size and not 0 <= arrays[i].min() <= arrays[i].max() < limit for i, limit in limits.items()):
            raise UserError(f"{target.name} ends the process on positions outside of their range")
        for (number, sign), bound in bounds.items():
            if has_beyond(arrays[number], sign, bound):
                raise UserError(f"{target.name} does not end, or not soon, on numbers beyond {sign * bound:g}")
        key = key_of(arrays, attributes)
        if not are_parts_safe and key not in known:
            known[key] = bool(deadly(target, [(arrays, attributes)]))
        if known.get(key):
            raise UserError(f"{target.name} ends the process on operands of these shapes")
        return target.run(*arrays, **attributes)
    return run_what_is_safe


def far(operands, number, value):
    """Operands of which one has a position that is nowhere."""
    arrays = [numbers(operand, seed) for seed, operand in enumerate(operands)]
    ends_of_type = np.iinfo(arrays[number].dtype)
    arrays[number] = np.full_like(arrays[number], min(max(value, ends_of_type.min), ends_of_type.max))
    return arrays


def slow_beyond(target, calls):
    """{(operand, sign): size}: an operator that counts up to its numbers (a zeta function, a polynomial of that degree) takes them up
    to this size, and larger ones take minutes or years."""
    settings = {}
    for operands, attrs in calls:
        key = str({name: value for name, value in attrs.items() if not is_dim(name)})
        settings[key] = max(settings.get(key, (operands, attrs)), (operands, attrs), key=elements)
    tries, about = [], []
    for setting, (operands, attrs) in enumerate(itertools.islice(settings.values(), MOST_SETTINGS)):
        ordinary = [numbers(operand, seed) for seed, operand in enumerate(operands)]
        for number, sign in itertools.product(range(len(operands)), (-1, 1)):
            for size in (0, *SIZES):
                large = with_size(operands[number], ordinary[number], sign, size)
                if large is not None:
                    tries.append(([*ordinary[:number], large, *ordinary[number + 1:]], attrs))
                    about.append((setting, number, sign, size))
    found, begin = {}, 0
    while begin < len(tries):
        at = first_that_kills(target, tries, begin, SECONDS_FOR_LARGE_NUMBERS)
        if at == len(tries):
            break
        *where, size = about[at]
        if size:  # else it is slow on all numbers
            key = tuple(where[1:])
            found[key] = min(about[at - 1][-1], found.get(key, float("inf")))
        begin = next((i for i in range(at, len(tries)) if about[i][:-1] != tuple(where)), len(tries))
    return found


def elements(call):
    return sum(int(np.prod(operand.shape)) for operand in call[0])


def with_size(operand, array, sign, size):
    """An operand's numbers, each moved away from zero by so much; none if its type or its domain has none such."""
    if operand.domain not in ("any", "nonzero", "positive", "sorted") or sign < 0 and operand.domain == "positive":
        return None
    if array.dtype.kind in "bc" or sign < 0 and array.dtype.kind == "u":
        return None
    whole = array.dtype.kind in "iu"
    if size > (float(np.iinfo(array.dtype).max) / 2 if whole else LARGEST.get(operand.dtype, 1e300)):
        return None
    return array if size == 0 else (sign * (np.abs(array.astype(np.float64)) + size)).astype(array.dtype)


def has_beyond(array, sign, size):
    if array.dtype.kind in "bc":
        return False
    values = sign * array.astype(np.float64)
    return bool(np.any((values > size * BESIDE) & (values < np.inf)))


def is_free_integer(operand):
    return operand.dtype in INTEGERS and operand.domain == "any"


def key_of(arrays, attrs):
    return tuple(array.shape for array in arrays), str(attrs)


def parts_on_devices(calls, worlds):
    """Operands of every shape that a device may have, with the attributes of the call."""
    seen = set()
    for operands, attrs in calls:
        whole = [numbers(operand, seed) for seed, operand in enumerate(operands)]
        for w in worlds:
            for device in range(w) if w <= 8 else (0, w // 2, w - 1):
                parts = [[array, *(chunk(array, dim, w, device) for dim in range(array.ndim))] for array in whole]
                for arrays in itertools.product(*parts):
                    key = key_of(arrays, attrs)
                    if key not in seen:
                        seen.add(key)
                        yield arrays, attrs


def chunk(array, dim, w, device):
    length = -(-array.shape[dim] // w)
    return array[(slice(None),) * dim + (slice(device * length, (device + 1) * length),)]


def deadly(target, tries):
    """The numbers of those (arrays, attributes) that end a child process which runs them."""
    found, begin = [], 0
    while begin < len(tries) and len(found) < MOST_DEATHS:
        begin = first_that_kills(target, tries, begin)
        if begin < len(tries):
            found.append(begin)
        begin += 1
    return [*found, *range(begin, len(tries))]  # what nobody has tried is not trusted


def first_that_kills(target, tries, begin, seconds=None):
    """The number of the first from `begin` on that ends a child by a signal; that after the last if none does. With `seconds`, one
    that takes longer than that, and much longer than the first, does too."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of frameworks with threads: the child uses none
        child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            target.use_one_thread()
            longest = seconds and max(seconds, TIMES_LONGER * seconds_of(target, tries[begin]))
            for index in range(begin, len(tries)):
                os.write(sink, b".")
                if longest:
                    signal.setitimer(signal.ITIMER_PROF, longest)  # its signal ends the process
                run(target, *tries[index])
        finally:
            os._exit(0)
    os.close(sink)
    started, limit = 0, time.monotonic() + SECONDS_FOR_A_CHILD
    with open(source, "rb", buffering=0) as told:
        while select.select([told], [], [], max(0.0, limit - time.monotonic()))[0]:
            dots = told.read(1 << 16)
            if not dots:
                break
            started += len(dots)
        else:  # it hangs, which says nothing
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return len(tries)
    _, ended = os.waitpid(child, 0)
    return begin + max(started, 1) - 1 if os.WIFSIGNALED(ended) else len(tries)


def seconds_of(target, one):
    """Of a processor, for a call that is not the first."""
    for _ in range(2):
        started = time.process_time()
        run(target, *one)
    return time.process_time() - started


def ends(operand, turn):
    """The least and largest numbers of a type, minus one, zero and one, in an order of its own."""
    if not is_free_integer(operand):
        return numbers(operand)
    dtype = np.dtype(numpy_dtype(LONG.get(operand.dtype, operand.dtype)))
    limits = np.iinfo(dtype)
    values = np.array([limits.min, -1, limits.max, 0, 1], dtype)
    return np.resize(np.roll(values, turn), operand.shape)
