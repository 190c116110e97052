"""Plans of a JAX step, exported by the command and compiled by XLA through JAX: the module of a jitted function is replaced
by an exported one, which keeps arguments, results and donation."""

import dataclasses
import json
import pathlib
import re
import subprocess
import tempfile

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec


class Refused(Exception):
    """What the command says in one line."""


def run(cleave, *arguments, text=None):
    done = subprocess.run([str(cleave), *map(str, arguments)], capture_output=True, text=True, input=text)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise Refused(said[0] if said else f"status {done.returncode}")
    return done.stdout


def with_module(exported, text):
    """The same export with another module under it."""
    from jax.extend import mlir
    from jax.extend.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(text)
        artifact = mlir.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
    return dataclasses.replace(exported, mlir_module_serialized=artifact)


def draw(tree, seed=1):
    """Small positive floats, and integers that can be indices of anything."""
    random = np.random.default_rng(seed)

    def one(a):
        if np.issubdtype(a.dtype, np.integer):
            return random.integers(0, 4, a.shape).astype(a.dtype)
        if a.dtype == bool:
            return random.integers(0, 2, a.shape).astype(bool)
        return np.abs(random.normal(size=a.shape) * 0.1 + 0.01).astype(a.dtype)
    return jax.tree.map(one, tree)


class Step:
    """A function of JAX with the shapes of its arguments, and its module."""

    def __init__(self, cleave, folder, name, function, arguments, donated=()):
        self.cleave, self.folder, self.name = cleave, pathlib.Path(folder), name
        self.function, self.arguments, self.donated = function, arguments, donated
        self.jitted = jax.jit(function, keep_unused=True, donate_argnums=donated)
        self.module = self.folder / f"{name}.mlir"
        self.module.write_text(self.jitted.lower(*arguments).as_text())

    def run(self, *arguments, text=None):
        return run(self.cleave, *arguments, text=text)

    def least_memory(self, mesh):
        """Bytes within which there is a plan."""
        done = subprocess.run([str(self.cleave), "plan", str(self.module), "--mesh", mesh, "--memory", "1KiB",
                               "--memory-share", "1"], capture_output=True, text=True)
        amount, unit = re.search(r"([\d.]+) (bytes|KiB|MiB|GiB) is enough", done.stdout).groups()
        return int(float(amount) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])

    def plan(self, mesh, name, *options, seconds=5):
        """Where a plan is, and what it says."""
        file = self.folder / f"{self.name}-{name}.json"
        if not file.exists():
            self.run("plan", self.module, "--mesh", mesh, "--memory-share", 1, "--time", seconds, *options, "--out", file)
        return file, json.loads(file.read_text())

    def export(self, plan, form):
        return self.run("plan", self.module, "--plan", plan, "--export", form)

    def specs(self, plan):
        names = {}
        exec(self.export(plan, "jax"), names)
        return names

    def shardings(self, plan):
        """Of arguments and results, as trees."""
        names = self.specs(plan)
        place = lambda specs, tree: jax.tree.unflatten(
            tree, [NamedSharding(names["mesh"], spec if isinstance(spec, PartitionSpec) else PartitionSpec()) for spec in specs])
        results = jax.eval_shape(self.function, *self.arguments)
        return place(names["in_specs"], jax.tree.structure(self.arguments)), place(names["out_specs"], jax.tree.structure(results))

    def compile(self, plan, form=None):
        """The step in a form of the plan; None: XLA alone, from the layouts of arguments and results."""
        inputs, outputs = self.shardings(plan)
        if form:
            call = with_module(jax.export.export(self.jitted)(*self.arguments), self.export(plan, form)).call
        else:
            call = self.function
        jitted = jax.jit(call, keep_unused=True, in_shardings=inputs, out_shardings=outputs, donate_argnums=self.donated)
        return jitted.lower(*self.arguments).compile(), inputs

    def collectives(self, compiled):
        return json.loads(self.run("hlo", "-", "--json", text=compiled.as_text()))

    def own_results(self, values):
        """Cleave's own run, on one device."""
        with tempfile.TemporaryDirectory() as folder:
            arguments = []
            for i, value in enumerate(jax.tree.leaves(values)):
                np.save(f"{folder}/in{i}.npy", np.asarray(value))
                arguments += ["--arg", f"{i}={folder}/in{i}.npy"]
            self.run("run", self.module, "--quiet", "--out", f"{folder}/out", *arguments)
            names = sorted(pathlib.Path(folder, "out").iterdir(), key=lambda file: int("".join(filter(str.isdigit, file.name))))
            return [np.load(name) for name in names]

    def difference(self, compiled, inputs, seed=1, expected=None):
        """The largest one from a run on one device (JAX's, if none is given), over the shards of all devices, relative to the
        largest number."""
        values = draw(self.arguments, seed)
        if expected is None:
            expected = jax.tree.leaves(jax.jit(self.function, keep_unused=True)(*values))
        results = jax.tree.leaves(compiled(*jax.device_put(values, inputs)))
        worst = 0.0
        for whole, result in zip(map(np.asarray, expected), results):
            scale = max(1.0, float(np.max(np.abs(whole), initial=0)))
            for shard in result.addressable_shards:
                off = np.abs(np.asarray(shard.data).astype(np.float64) - whole[shard.index].astype(np.float64))
                worst = max(worst, float(np.max(off, initial=0)) / scale)
        return worst


class Named(Step):
    """A model by name: its module, under a function of JAX with the same arguments and results."""

    TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")
    DTYPES = {"f32": np.float32, "i32": np.int32, "ui32": np.uint32, "i64": np.int64, "i1": np.bool_}

    def __init__(self, cleave, folder, name, model):
        text = run(cleave, "trace", model)
        line = next(line for line in text.splitlines() if "@main(" in line)
        inputs, outputs = (self.shapes(part) for part in line.rsplit(" -> ", 1))
        super().__init__(cleave, folder, name, lambda *args: tuple(np.zeros(o.shape, o.dtype) for o in outputs), inputs)
        self.module.write_text(text)

    def shapes(self, text):
        return tuple(jax.ShapeDtypeStruct([int(n) for n in sizes.split("x") if n], self.DTYPES[dtype])
                     for sizes, dtype in self.TENSOR.findall(text))


def planned_bytes(plan):
    """That one device receives in a step."""
    return sum(c["bytes"] for c in plan["totals"]["collectives"])


# ---- pins


def sizes_of(mesh):
    return {axis: int(size) for axis, size in (part.split("=") for part in mesh.split(","))}


def pin(number, dims):
    """dims: the axes of each dimension, () or ("x", "y")."""
    return ["--pin", f"arg{number}=[" + ", ".join("{" + ", ".join(f'"{a}"' for a in axes) + "}" for axes in dims) + "]"]


COLUMNS, ROWS = ("q", "k", "v", "up", "gate", "w1", "wq", "wk", "wv"), ("o", "down", "w2", "wo")


def pins(step, mesh, data=None, fully=None, model=None):
    """Textbook layouts by the names of leaves: the last argument is the batch, split over axis `data` along its first
    dimension; other arrays are split over `fully` along their first dimension that divides (FSDP), and those with the names of
    weights of products over `model`, columns and then rows (Megatron)."""
    sizes, found = sizes_of(mesh), []
    batch = len(jax.tree.leaves(step.arguments[:-1]))
    for i, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(step.arguments)):
        dims = [()] * len(leaf.shape)

        def split(d, axis):
            if leaf.shape[d] % (sizes[axis] * np.prod([sizes[a] for a in dims[d]], dtype=int)) == 0:
                dims[d] += (axis,)
                return True
            return False
        if i >= batch:
            if data and dims:
                split(0, data)
            if not any(dims):
                continue
        else:
            name = str(getattr(path[-1], "key", ""))
            if model and len(dims) > 1 and name in COLUMNS + ROWS:
                split(len(dims) - 1 if name in COLUMNS else len(dims) - 2, model)
            if fully and len(dims) > 1:
                any(split(d, fully) for d in range(len(dims)))
        found += pin(i, dims)
    return found
