"""Plans of many steps, run by XLA on eight devices: are results those of Cleave's own run, and collectives those of the plan?

Steps of JAX (bench/xla/corpus.py) and models by name are planned in five ways: within memory that binds on two meshes,
pinned as Megatron and FSDP do it, and in uneven sizes on a mesh of three axes. Every plan is exported in the forms that XLA
takes. `spmd` is run by XLA's CPU plugin from the command, without Python: `cleave verify --engine xla`. `manual` and
`constraints` are compiled by XLA for CPUs through JAX; their modules are read back by `cleave hlo`. JAX takes no arguments
or results in uneven shards, so that those of `uneven` are gathered and cut at the border there.

    bench/engines.py [--cleave build/release/cleave] [--steps gpt,lstm] [--forms spmd,manual,constraints] [--keep FOLDER]
                     [--markdown FILE]
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import jax

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/xla"))
import corpus  # noqa: E402
import exports  # noqa: E402

# What XLA calls the collectives of plans. Steps that move nothing are left out.
KINDS = {"all_gather": "all-gather", "all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "all_to_all": "all-to-all",
         "collective_permute": "collective-permute", "halo": "collective-permute"}
WAYS = ("tight", "loose", "megatron", "fsdp", "uneven")
MESHES = {"tight": "x=2,y=4", "loose": "x=8", "megatron": "data=2,model=4", "fsdp": "data=8", "uneven": "x=2,y=2,z=2"}


class Case:
    """A step planned in one way."""

    def __init__(self, cleave, folder, name, way):
        self.name, self.way, self.mesh = name, way, MESHES[way]
        uneven = way == "uneven"
        label = f"{name.replace(':', '_')}-{way}"
        if name in corpus.NAMED:
            options = corpus.NAMED[name][uneven] + "&step=train"
            if way in ("megatron", "fsdp"):
                options += f"&sharding={'mixed' if way == 'megatron' else 'fsdp'}&mesh={self.mesh}"
            self.step = exports.Named(cleave, folder, label, f"{name}?{options}")
        else:
            self.step = exports.Step(cleave, folder, label, *corpus.STEPS[name][uneven]())

    def plan(self):
        if self.way == "megatron" and self.name not in corpus.NAMED:
            options = exports.pins(self.step, self.mesh, data="data", model="model")
        elif self.way == "fsdp" and self.name not in corpus.NAMED:
            options = exports.pins(self.step, self.mesh, data="data", fully="data")
        elif self.way in ("megatron", "fsdp"):
            options = []
        else:
            share = {"tight": 1.05, "loose": 1.6, "uneven": 1.2}[self.way]
            options = ["--memory", int(share * self.step.least_memory(self.mesh))]
        return self.step.plan(self.mesh, "plan", *options, seconds=3)


def by_kind(totals, name, count):
    sums = {}
    for total in totals:
        kind = KINDS.get(total[name], total[name])
        if total[count] > 0:
            sums[kind] = sums.get(kind, 0) + total[count]
    return sums


def verdict(planned, received):
    """How bytes by kind compare."""
    kinds = planned.keys() | received.keys()
    off = {kind: received.get(kind, 0) - planned.get(kind, 0) for kind in kinds}
    whole = max(sum(planned.values()), 1)
    if all(abs(d) <= 1e-3 * whole for d in off.values()):
        return "as planned"
    return ", ".join(f"{kind} {d:+.0f}" for kind, d in sorted(off.items()) if abs(d) > 1e-3 * whole)


def verified(case, file):
    """What `cleave verify --engine xla` says: bytes, the difference of results, and what is not as planned."""
    done = subprocess.run([str(case.step.cleave), "verify", str(case.step.module), "--plan", str(file), "--engine", "xla",
                           "--as-is"], capture_output=True, text=True)
    if "ran by" not in done.stdout:
        raise exports.Refused((done.stderr + done.stdout).strip().splitlines()[0])
    kinds = re.findall(r"^ {7}(\S+) +planned +([\d.]+ \S+) +x\d+ +asked +([\d.]+ \S+) +x\d+ +compiled +([\d.]+ \S+) +x",
                       done.stdout, re.M)
    size = lambda text: float(text.split()[0]) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[text.split()[1]]
    planned, asked, compiled = (sum(size(kind[i]) for kind in kinds) for i in (1, 2, 3))
    off, scale = map(float, re.search(r"largest difference (\S+), largest magnitude (\S+)", done.stdout).groups())
    bad = [line[5:].split(":")[0] for line in done.stdout.splitlines() if line.startswith("BAD")]
    said = "as planned" if not bad else "; ".join(bad)
    if not bad and compiled < 0.99 * asked:
        said = "as planned; XLA takes some out of loops"
    if not bad and asked > 1.01 * planned:
        said = "as planned, padded"
    results = any(line.startswith("ok") and "results are those" in line for line in done.stdout.splitlines())
    return dict(planned=planned, received=compiled, off=off / max(1.0, scale), equal=results, said=said)


def rows(cleave, folder, names, forms, ways):
    for name in names:
        for way in ways:
            case, row = None, dict(step=name, way=way, mesh=MESHES[way])
            try:
                case = Case(cleave, folder, name, way)
                file, plan = case.plan()
                values = exports.draw(case.step.arguments)
                expected = case.step.own_results(values)
                planned = by_kind(plan["totals"]["collectives"], "kind", "bytes")
            except Exception as error:
                yield row | dict(form="-", said=f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")
                continue
            for form in forms:
                try:
                    if form == "spmd":
                        yield row | dict(form=form) | verified(case, file)
                        continue
                    compiled, inputs = case.step.compile(file, form)
                    found = case.step.collectives(compiled)
                    received = by_kind(found["totals"], "kind", "received_bytes")
                    off = case.step.difference(compiled, inputs, expected=expected)
                    yield row | dict(form=form, planned=sum(planned.values()), received=sum(received.values()), off=off,
                                     said=verdict(planned, received))
                except Exception as error:
                    yield row | dict(form=form, said=f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")


HEAD = "| step | plan | mesh | form | planned, bytes | received, bytes | difference of results | collectives |\n" + "|---" * 8 + "|"


def line(row):
    if "off" not in row:
        return f"| {row['step']} | {row['way']} | {row['mesh']} | {row['form']} | | | | {row['said']} |"
    return (f"| {row['step']} | {row['way']} | {row['mesh']} | {row['form']} | {row['planned']:,.0f} | {row['received']:,.0f} "
            f"| {row['off']:.1e} | {row['said']} |")


def summary(found, forms):
    lines = []
    for form in forms:
        ran = [row for row in found if row["form"] == form and "off" in row]
        failed = [row for row in found if row["form"] in (form, "-") and "off" not in row]
        equal = sum(row.get("equal", row["off"] < 1e-3) for row in ran)
        same = sum(row["said"].startswith("as planned") for row in ran)
        moving = sum(row["planned"] > 0 for row in ran)
        lines.append(f"- {form}: {len(ran)} of {len(ran) + len(failed)} plans ran ({moving} of them move bytes); results equal "
                     f"Cleave's own run in {equal}; collectives as planned, kind by kind, in {same}.")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cleave", default=ROOT / "build/release/cleave")
    parser.add_argument("--steps", default=",".join([*corpus.STEPS, *corpus.NAMED]))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--forms", default="spmd,manual,constraints")
    parser.add_argument("--markdown", type=pathlib.Path, help="a page to write the table into, between its marks")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for modules and plans; plans that are in it are not made again")
    options = parser.parse_args()
    forms = options.forms.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(HEAD)
        found = []
        for row in rows(options.cleave, folder, options.steps.split(","), forms, options.ways.split(",")):
            found.append(row)
            print(line(row), flush=True)
    text = "\n".join([*summary(found, forms), "", HEAD, *map(line, found)])
    print("\n".join(summary(found, forms)))
    if options.markdown:
        begin, end = "<!-- measured: made by scripts/bench -->", "<!-- end of measured -->"
        page = options.markdown.read_text()
        head, tail = page.split(begin)[0], page.split(end)[1]
        options.markdown.write_text(f"{head}{begin}\njax {jax.__version__}, eight CPU devices.\n\n{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
