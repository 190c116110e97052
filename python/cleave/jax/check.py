"""What was planned beside what XLA compiled, and results beside those of the unsharded function."""

import dataclasses
import json

import jax
import numpy as np

from cleave import _core

# What XLA calls the collectives of plans. Others move nothing between devices.
KINDS = {"all_gather": "all-gather", "all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "all_to_all": "all-to-all",
         "collective_permute": "collective-permute", "halo": "collective-permute"}
SAME_BYTES = 1e-3  # of all bytes
MEMORY_WITHIN = 0.15  # of the compiled memory, the predicted one
NOISE = 4  # times what roundings of the arguments change, a result may differ
TRIALS = 8  # of other roundings


@dataclasses.dataclass
class CollectiveRow:
    """Of one kind: what was planned, what the module asks XLA for, and what XLA compiled; bytes that one device receives."""

    kind: str
    planned_bytes: float = 0.0
    asked_bytes: float = 0.0
    widened_bytes: float = 0.0  # what XLA for CPUs adds to them: it moves bf16 as f32 and floats of 8 bits as f16
    compiled_bytes: float = 0.0
    planned_count: float = 0.0
    asked_count: float = 0.0
    compiled_count: float = 0.0

    @property
    def rounded(self) -> float:
        """How many bytes a plan may count more: whole ones for each all-reduce, of which a device receives 2 b (n-1)/n."""
        return self.planned_count if self.kind == "all-reduce" else 0.0


@dataclasses.dataclass
class Memory:
    """Bytes of one device."""

    planned_arguments: int
    compiled_arguments: int
    planned: int  # the peak
    compiled: int  # arguments + results - aliased + temporaries
    executor: str  # whose memory was planned
    platform: str = ""  # that compiled it
    predicted: int | None = None  # what its compiler was expected to hold; None if that is not known


@dataclasses.dataclass
class Check:
    form: str
    rows: list[CollectiveRow]
    is_uneven: bool  # shards of different sizes travel padded
    memory: Memory
    differences: list[str]  # results that are not those of the unsharded function, in words
    num_results: int
    largest: float  # difference, relative to the largest number of its array
    fit: object = None  # how the plan was fitted to the compiled memory, if it was (fit.Fit)

    @property
    def planned_bytes(self) -> float:
        return sum(row.planned_bytes for row in self.rows)

    @property
    def compiled_bytes(self) -> float:
        return sum(row.compiled_bytes for row in self.rows)

    @property
    def results_good(self) -> bool:
        return not self.differences

    @property
    def asked_bytes(self) -> float:
        return sum(row.asked_bytes for row in self.rows)

    @property
    def widened_bytes(self):
        return sum(row.widened_bytes for row in self.rows)

    @property
    def is_exact(self) -> bool:
        """XLA compiled the planned bytes, kind by kind."""
        limit = SAME_BYTES * max(self.planned_bytes, 1.0)
        return all(abs(row.compiled_bytes - row.planned_bytes) <= limit + row.rounded for row in self.rows)

    @property
    def asked_good(self) -> bool:
        """XLA is asked for the planned bytes, kind by kind; for more only if shards are uneven."""
        limit = SAME_BYTES * max(self.planned_bytes, 1.0)
        more = [(row.asked_bytes - row.planned_bytes, row.rounded) for row in self.rows]
        return all(m >= -limit - rounded and (self.is_uneven or m <= limit) for m, rounded in more)

    @property
    def bytes_good(self) -> bool:
        """XLA is asked for what was planned, and compiles no more than it is asked for; for CPUs it moves narrow floats as wider
        ones. It may be less: XLA takes out of loops what does not change there, and joins what is the same."""
        return self.asked_good and self.compiled_bytes <= (1 + SAME_BYTES) * (self.asked_bytes + self.widened_bytes)

    @property
    def arguments_good(self) -> bool:
        return self.memory.compiled_arguments == self.memory.planned_arguments

    @property
    def memory_good(self) -> bool:
        """The compiled memory is within 15% of what this compiler was expected to hold. It is an estimate, and no part of `ok`."""
        memory = self.memory
        return memory.predicted is None or abs(memory.compiled - memory.predicted) <= MEMORY_WITHIN * memory.compiled

    @property
    def ok(self) -> bool:
        bytes_good = self.bytes_good or self.form != "manual"
        return self.results_good and self.arguments_good and bytes_good and self.fit_good

    @property
    def fit_good(self) -> bool:
        """The compiled program is within the limit that it was fitted to."""
        return self.fit is None or self.fit.compiled <= self.fit.limit

    def __str__(self) -> str:
        said = lambda good: "ok  " if good else "BAD "
        lines = [f"{said(self.results_good)} {self.num_results} results are those of the unsharded function; largest difference "
                 f"{self.largest:.2g} of the largest number" if self.results_good else
                 f"BAD  {len(self.differences)} of {self.num_results} results differ: {'; '.join(self.differences[:4])}"]
        lines += self._bytes_lines(said)
        memory = self.memory
        lines.append(f"{said(self.arguments_good)} arguments of a device: {size(memory.compiled_arguments)} compiled, "
                     f"{size(memory.planned_arguments)} planned")
        verdict = "    " if memory.predicted is None else "ok  " if self.memory_good else "off "
        predicted = "" if memory.predicted is None else f"{size(memory.predicted)} predicted for this compiler, "
        lines.append(f"{verdict} memory of a device: {size(memory.compiled)} compiled ({memory.platform}), {predicted}"
                     f"{size(memory.planned)} planned for {memory.executor}")
        if self.fit is not None:
            lines.append(f"{said(self.fit_good)} {self.fit}")
        return "\n".join(lines)


    def _bytes_lines(self, said):
        manual = self.form == "manual"
        lines = [f"{said(self.bytes_good) if manual else '    '} a device receives {size(self.compiled_bytes)} as compiled, "
                 f"{size(self.planned_bytes)} planned"]
        for row in self.rows:
            asked = f"asked {size(row.asked_bytes):>10} x{row.asked_count:<6.0f} " if manual and not self.is_exact else ""
            lines.append(f"       {row.kind:<20} planned {size(row.planned_bytes):>10} x{row.planned_count:<6.0f} {asked}"
                         f"compiled {size(row.compiled_bytes):>10} x{row.compiled_count:.0f}")
        if not manual:
            lines.append(f"       form {self.form}: XLA takes the plan for hints")
        elif self.bytes_good and not self.is_exact:
            if self.asked_bytes > (1 + SAME_BYTES) * self.planned_bytes:
                lines.append("       uneven shards travel padded")
            if self.compiled_bytes > (1 + SAME_BYTES) * self.asked_bytes:
                lines.append("       XLA for CPUs computes bf16 as f32 and floats of 8 bits as f16, and moves twice the bytes for "
                             "them")
            if self.compiled_bytes < (1 - SAME_BYTES) * self.asked_bytes:
                lines.append("       XLA takes out of loops what does not change there, and joins what is the same")
        return lines


def size(number):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{number:.0f} bytes" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024


def check_step(entry, args, kwargs):
    values = entry.arguments(args, kwargs) if args or kwargs else draw(entry.types)
    asked, is_uneven = entry.plan._core.asked()
    widens = entry.plan.mesh.devices.flat[0].platform == "cpu"
    rows = collective_rows(entry.plan.collectives, entry.compiled, asked, widens)
    differences, count, largest = compare(entry, values)
    made = Check(entry.options.form, rows, is_uneven, memory_of(entry), differences, count, largest, entry.fit)
    if not made.ok:
        raise _core.InternalError(str(made))
    return made


def collective_rows(planned, compiled, asked=(), widens=False):
    """By kind: the collectives of a plan beside those that a program asks for and those of a compiled module."""
    rows = {}

    def row(kind):
        return rows.setdefault(kind, CollectiveRow(kind))
    for total in planned:
        if total["bytes"] > 0:
            of_kind = row(KINDS.get(total["kind"], total["kind"]))
            of_kind.planned_bytes += total["bytes"]
            of_kind.planned_count += total["count"]
    for kind, count, bytes_asked, bytes_narrow in asked:
        row(kind).asked_bytes += bytes_asked
        row(kind).widened_bytes += bytes_narrow if widens else 0.0
        row(kind).asked_count += count
    for total in json.loads(_core.read_compiled(compiled.as_text()).json())["totals"]:
        if total["received_bytes"] > 0:
            of_kind = row(total["kind"])
            of_kind.compiled_bytes += total["received_bytes"]
            of_kind.compiled_count += total["executions"]
    return sorted(rows.values(), key=lambda r: -max(r.planned_bytes, r.compiled_bytes))


def compiled_memory(compiled):
    """What a device holds, in bytes."""
    found = compiled.memory_analysis()
    return found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes + found.temp_size_in_bytes


def memory_of(entry):
    memory, platform = entry.plan.data["memory"], jax.default_backend()
    # As hints, a plan leaves the program to XLA.
    predicted = (entry.plan._core.predicted_memory(platform, entry.compiled.as_text())
                 if entry.options.form == "manual" else None)
    return Memory(memory["arguments"] - packed_bytes(entry), entry.compiled.memory_analysis().argument_size_in_bytes, memory["peak"],
                  compiled_memory(entry.compiled), entry.plan.data["machine"], platform, predicted)


def packed_bytes(entry):
    """Of arguments in types of four bits and fewer, which XLA packs into bytes, and a plan counts as bytes."""
    parts, keywords = entry.types
    leaves = jax.tree.leaves([parts, keywords])
    saved = 0
    for leaf, sharding in zip(leaves, jax.tree.leaves(entry.in_shardings)):
        bits = 8 if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended) else jax.dtypes.itemsize_bits(leaf.dtype)
        if bits < 8 and leaf.dtype != bool:
            elements = int(np.prod(sharding.shard_shape(leaf.shape)))
            saved += elements - -(-elements * bits // 8)
    return saved


# ---- results


def draw(types, seed=1):
    """Random arguments: small positive floats (moments of optimizers are), integers that can be indices of anything."""
    random = np.random.default_rng(seed)

    def one(leaf):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
            return draw_keys(leaf, random)
        if jax.dtypes.issubdtype(leaf.dtype, np.integer):
            return random.integers(0, 4, leaf.shape).astype(leaf.dtype)
        if leaf.dtype == bool:
            return random.integers(0, 2, leaf.shape).astype(bool)
        return np.asarray(np.abs(random.normal(size=leaf.shape) * 0.1) + 0.01).astype(leaf.dtype)

    def typed(leaf):
        value = one(leaf)
        # Numbers of Python are arrays of weak types, which NumPy does not know.
        return jax.numpy.broadcast_to(value.flat[0].item(), leaf.shape) if leaf.weak_type and value.size else value
    parts, keywords = jax.tree.map(typed, types)
    return [*parts, *(keywords[name] for name in sorted(keywords))]


def draw_keys(leaf, random):
    """Random keys of the implementation that the dtype names, such as key<fry>."""
    data = jax.eval_shape(jax.random.key_data, leaf)
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        keys = jax.random.wrap_key_data(random.integers(0, 1 << 32, data.shape, np.uint64).astype(np.uint32), impl=impl) \
            if data.shape[-1] == {"threefry2x32": 2}.get(impl, 4) else None
        if keys is not None and keys.dtype == leaf.dtype:
            return keys
    raise _core.UserError(f"check: random keys of dtype {leaf.dtype} cannot be drawn; give the arguments: check(*args)")


def on_one_device(entry, values):
    """The unsharded function."""
    statics, named = entry.static_values
    args, rest = [], iter(values)
    for i in range(len(entry.positions) + len(statics)):
        args.append(statics[i] if i in statics else next(rest))
    kwargs = dict(zip(entry.keywords, rest)) | named
    jitted = jax.jit(entry.signature.fn, **{k: v for k, v in entry.signature.jit_options.items() if k.startswith("static")})
    return jitted(*args, **kwargs)


def host(leaf):
    """The part of an array that this process has, as numbers; whole, if it has all of it."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        leaf = jax.random.key_data(leaf)
    return leaf


def numbers(array):
    """As numbers that can be subtracted."""
    array = np.asarray(array)
    if array.dtype.kind in "c":
        return array.astype(np.complex128)
    return array.astype(np.float64)


def copy_of(value):
    """On the host if it can be, so that the function runs as it does without a mesh, and no argument of the caller is donated."""
    if not isinstance(value, jax.Array):
        return value
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(copy_of(jax.random.key_data(value)), impl=jax.random.key_impl(value))
    if not value.is_fully_addressable:
        from jax.experimental import multihost_utils
        return multihost_utils.process_allgather(value, tiled=True)
    return jax.numpy.array(value) if value.weak_type else np.array(value)  # NumPy knows no weak types


def compare(entry, values):
    """Results that differ, how many there are, and the largest difference."""
    whole = jax.tree.map(copy_of, values)
    local = jax.local_devices()[0]
    with jax.default_device(local):
        expected = jax.tree.leaves(on_one_device(entry, whole))
        expected = [np.asarray(host(leaf)) for leaf in expected]
    results = jax.tree.leaves(entry.jitted(*entry.moved(jax.tree.map(copy_of, whole))))  # which may be donated
    noise, worst, differences = None, 0.0, []
    for i, (reference, result, leaf) in enumerate(zip(expected, results, entry.traced.results)):
        scale = max(float(np.max(np.abs(numbers(reference)[np.isfinite(numbers(reference))]), initial=0.0)), 1e-30)
        limit = tolerance(reference.dtype) * scale
        for shard in host(result).addressable_shards:
            wanted, found = numbers(reference[shard.index]), numbers(shard.data)
            with np.errstate(invalid="ignore"):  # of infinities
                off = np.where((wanted == found) | (np.isnan(wanted) & np.isnan(found)), 0.0, np.abs(found - wanted))
            if not np.all(off <= limit):
                noise = noise or rounding_noise(entry, whole, expected)
                if not np.all(off <= limit + allowance(noise[i], scale)[shard.index]):
                    differences.append(f"{leaf.path or f'result {i}'} by {np.nanmax(off):.3g}, largest number {scale:.3g}")
                    break
            worst = max(worst, float(np.max(off, initial=0.0)) / scale)
    return differences, len(expected), worst


def tolerance(dtype):
    """Relative to the largest number: sums are in another order."""
    if dtype.kind == "b" or jax.numpy.issubdtype(dtype, np.integer):
        return 0.0
    eps = float(jax.numpy.finfo(dtype).eps)
    return (4 if eps > 1e-4 else 200) * eps  # 0.03 for bf16, 0.004 for f16, 2.4e-05 for f32


def rounding_noise(entry, values, expected):
    """How far each number moves if the arguments are rounded otherwise: by so much a result may differ."""
    random = np.random.default_rng(0)
    noise = [np.zeros(reference.shape) for reference in expected]
    for _ in range(TRIALS):
        def nudge(leaf):
            if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended) or not jax.dtypes.issubdtype(leaf.dtype, np.inexact):
                return leaf
            array = np.asarray(leaf)
            step = float(jax.numpy.finfo(array.dtype).eps)
            return (numbers(array) * (1 + step * random.uniform(-1, 1, array.shape))).astype(array.dtype)
        with jax.default_device(jax.local_devices()[0]):
            moved = jax.tree.leaves(on_one_device(entry, jax.tree.map(nudge, values)))
        for i, leaf in enumerate(moved):
            with np.errstate(invalid="ignore"):
                off = np.abs(numbers(np.asarray(host(leaf))) - numbers(expected[i]))
            noise[i] = np.maximum(noise[i], np.nan_to_num(off, nan=0.0))
    return noise


def allowance(noise, scale):
    """What numbers may differ by that move by `noise`, in an array whose largest is `scale`.

    In an array that is mostly noise, as the gradient of a bias before a normalization, how far one number happens to have moved
    says little about how far it may. There, those that move noticeably may move as far as others do. If even the largest number
    is such noise, sums in another order leave another noise in its place, and in a second moment its square.
    """
    most = float(np.max(noise, initial=0.0))
    if noise.size == 0 or np.median(noise) < 0.05 * scale:
        return NOISE * noise
    if most < 0.5 * scale:
        return np.where(noise > 0.01 * most, NOISE * most, NOISE * noise)
    return np.where(noise > 0, NOISE**3 * most, 0.0)
