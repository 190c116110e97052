"""python -m cleave discover torch.cross: the report of an operator, its rule and the tests of the rule, in one command."""

import argparse
import ast
import contextlib
import io
import os
import sys
import tempfile

FORMS = {"dtensor": "dtensor-tests", "cleave": "tests", "shardy": None}


def shapes_of(text):
    """8x3,8x3 -> [(8, 3), (8, 3)]; `scalar` is a shape too."""
    try:
        return [() if word == "scalar" else tuple(int(size) for size in word.split("x")) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is none; shapes are said as 8x3,8x3") from None


def value_of(word):
    try:
        return {"true": True, "false": False, "none": None}[word.lower()]
    except KeyError:
        pass
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def split_values(text):
    """0,1,-1 or [0,1],[1]"""
    words, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [value_of(word.strip()) for word in words]


def sweep_of(text):
    name, equals, values = text.partition("=")
    if not name or not equals or not values:
        raise argparse.ArgumentTypeError(f"'{text}' is none; values are said as dim=0,1,-1")
    return name, split_values(values)


def parser():
    made = argparse.ArgumentParser(prog="python -m cleave", description="Cleave from Python; `cleave` is the command without it.")
    commands = made.add_subparsers(dest="command", required=True)
    discover = commands.add_parser("discover", help="which placements a function supports", description=(
        "Finds out which placements a function supports, prints the report, and writes rule code and its tests."))
    discover.add_argument("operator", help="torch.cross, jax.numpy.cumsum, numpy.cross, module:function, or a name of the library")
    discover.add_argument("--shapes", type=shapes_of, action="append", help="8x3,8x3; more than one: several calls")
    discover.add_argument("--sweep", type=sweep_of, action="append", help="dim=0,1,-1; proposed from the signature if not given")
    discover.add_argument("--dtype", help="of all operands, or of each: float64,int64")
    discover.add_argument("--domain", help="of each operand: any, nonzero, positive, bool, index:LIMIT, sorted, definite")
    discover.add_argument("--world", default="2,3,4", help="numbers of devices")
    discover.add_argument("--seed", type=int, default=0)
    discover.add_argument("--no-shrink", action="store_true", help="leave witnesses as they were found, which is faster")
    discover.add_argument("--format", choices=["table", "yaml", "json", "html"], default="table")
    discover.add_argument("--report", help="a file for the report: YAML, or JSON or HTML if it ends so")
    discover.add_argument("--rule", help="a file for the rule")
    discover.add_argument("--tests", help="a file for the tests of the rule")
    discover.add_argument("--form", choices=list(FORMS), default="dtensor", help="of the rule")
    return made


def write(path, text):
    """Beside the file first, so that there is never half of one."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, beside = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


class Unheard(io.TextIOBase):
    """What a function prints when it is called thousands of times is no part of the report."""

    lines = 0

    def write(self, text):
        self.lines += text.count("\n")
        return len(text)


def run_discover(said):
    import cleave

    for path in (said.report, said.rule, said.tests):
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise cleave.UserError(f"discover: there is no folder for {path}")
    if said.tests and FORMS[said.form] is None:
        raise cleave.UserError(f"discover: there are no tests in the form {said.form}; dtensor and cleave have some")
    if said.tests and said.rule and os.path.dirname(os.path.abspath(said.rule)) != os.path.dirname(os.path.abspath(said.tests)):
        raise cleave.UserError("discover: the tests look for the rule in their own folder; write both into one")
    dtypes = said.dtype.split(",") if said.dtype else None
    try:
        worlds = [int(word) for word in said.world.split(",")]
    except ValueError:
        raise cleave.UserError(f"discover: --world {said.world}: numbers of devices are said as 2,3,4") from None
    with contextlib.redirect_stdout(Unheard()) as printed:
        report = cleave.discover(
            said.operator, shapes=said.shapes, sweep=dict(said.sweep) if said.sweep else None,
            dtype=dtypes[0] if dtypes and len(dtypes) == 1 else dtypes, domains=said.domain.split(",") if said.domain else None,
            worlds=worlds, seed=said.seed, shrink=not said.no_shrink)
    if printed.lines:
        print(f"python -m cleave: {said.operator} printed {printed.lines} lines while it was tried; they are left out", file=sys.stderr)
    text = {"table": str, "yaml": lambda r: r.yaml(), "json": lambda r: r.json(), "html": lambda r: r.html()}[said.format](report)
    print(text, end="" if text.endswith("\n") else "\n")
    # What is said beside the report is no part of a file that is made of it.
    aside = sys.stderr if said.format == "html" else sys.stdout
    for line in report.dropped:
        print(f"  left out: {line}", file=aside)
    if said.report:
        form = report.json if said.report.endswith(".json") else report.html if said.report.endswith(".html") else report.yaml
        write(said.report, form())
    name = os.path.basename(said.rule) if said.rule else f"{report.rule_name}_rule.py"
    for number, (path, form) in enumerate(((said.rule, said.form), (said.tests, FORMS[said.form]))):
        if path:
            write(path, report.emit(form, rule_file=name, check=number == 0 or not said.rule))
    written = [path for path in (said.report, said.rule, said.tests) if path]
    if written:
        print(f"written: {', '.join(written)}", file=aside)
    for line in report.emitted_failures:
        print(f"fails when DTensor runs it: {line}", file=aside)
    return 0


def main(arguments=None):
    said = parser().parse_args(arguments)
    import cleave

    try:
        return run_discover(said)
    except cleave.UserError as error:
        print(f"python -m cleave: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("python -m cleave: stopped", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"python -m cleave: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
