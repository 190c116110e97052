"""Every sharding rule of DTensor, held against execution.

    audit = cleave.torch.audit(["mm", "cumsum"])      # OpInfo entries or ATen overloads; "all" for everything
    print(audit)                                      # incorrect, missing and untestable rules
    audit.save("audit")                               # audit.json, audit.md, and a DTensor script for each incorrect rule
"""

import contextlib
import difflib
import fnmatch
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from functools import cached_property

from cleave._core import UserError, __version__
from cleave.progress import told

SECONDS_FOR_ONE = 300  # of one overload, before it is given up
MOST_DEVICES = 64


class Audit:
    """What was found; `records` has a dictionary for each overload, in the order of their names."""

    def __init__(self, records, skipped, about):
        self.records = sorted(records, key=lambda record: record["op"])
        self.skipped, self.about = skipped, about

    def _rows(self, kind):
        return [{"op": record["op"], **row} for record in self.records for row in record[kind]]

    @staticmethod
    def script(row):
        """The program that shows an incorrect rule by DTensor alone, with status 1."""
        from cleave.torch import findings

        return findings.script(f"{row['rule']} on {row['devices']} devices is wrong.", row["difference"], row["finding"])

    @cached_property
    def incorrect(self):
        """Rules of DTensor with a wrong result, each seen in a run of DTensor's own: rule, call, difference; script(row) shows it."""
        return self._rows("incorrect")

    @cached_property
    def missing(self):
        """Placements that are right and that DTensor redistributes; what moves most bytes comes first."""
        def kinds(row):  # of two that cost the same, what is met most comes first
            return max((("S", "P(s", "P(a", "P(m").index(text[:1] if text[0] == "S" else text[:3]) for text in row["inputs"] if text != "R"),
                       default=0)
        return sorted(self._rows("missing"), key=lambda row: (-row["bytes_per_mib"], kinds(row)))

    @cached_property
    def untestable(self):
        return self._rows("untestable")

    @cached_property
    def unsupported(self):
        """Overloads that DTensor has no strategy for."""
        return [record["op"] for record in self.records if not record["strategy"]]

    @property
    def entries(self):
        """The OpInfo entries that were audited."""
        return sorted({entry for record in self.records for entry in record["entries"]})

    def total(self, key):
        return sum(record[key] for record in self.records)

    def summary(self):
        agreed = self.total("agreed") + self.total("agreed_by_running")
        return (f"{len(self.records)} overloads of {len(self.entries)} OpInfo entries, {sum(len(r['calls']) for r in self.records)} "
                f"calls, {self.total('combinations')} combinations decided; torch {self.about['torch']}\n"
                f"{self.total('rules')} rules of DTensor on one mesh axis: {agreed} right, {len(self.incorrect)} incorrect "
                f"(with {self.total('pairs')} pairs of rules on 2x2 devices); {len(self.untestable)} could not be tested\n"
                f"{len(self.missing)} placements are right that DTensor redistributes; {len(self.unsupported)} overloads have no "
                f"strategy at all")

    def __str__(self):
        lines = [self.summary()]
        for row in self.incorrect[:20]:
            lines.append(f"incorrect  {row['rule']}  on {row['devices']} devices: {row['difference']}\n           {row['call']}")
        if len(self.incorrect) > 20:
            lines.append(f"           and {len(self.incorrect) - 20} more")
        for row in self.missing[:20]:
            lines.append(f"missing    {row['op']}: {', '.join(row['inputs'])} -> {', '.join(row['outputs'])}  "
                         f"({row['bytes_per_mib'] / 1024:.0f} KiB for each MiB of operands)")
        if len(self.missing) > 20:
            lines.append(f"           and {len(self.missing) - 20} more")
        return "\n".join(lines)

    def json(self):
        return json.dumps({"about": self.about, "records": self.records, "skipped": self.skipped}, indent=1)

    def page(self):
        from cleave.torch import page

        return page.page_of(self)

    def save(self, folder):
        """audit.json, audit.md, and incorrect_N.py for every incorrect rule."""
        with writing(folder):
            os.makedirs(folder, exist_ok=True)
        files = {"audit.json": self.json(), "audit.md": self.page()}
        for number, row in enumerate(self.incorrect, 1):
            files[f"incorrect_{number}.py"] = self.script(row)
        for name, text in files.items():
            with writing(folder):
                replace(os.path.join(folder, name), text)


@contextlib.contextmanager
def writing(folder):
    try:
        yield
    except OSError as error:
        raise UserError(f"audit: {error.filename or folder} cannot be written: {error.strerror}") from None


def replace(path, text):
    """Beside the file first, so that there is never half of one."""
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


def audit(ops="all", *, dtypes=("float64", "float32", "int64"), calls=5, worlds=(2, 3), two_axes=True, processes=2, folder=None,
          seed=0, progress=None):
    """Discovers what placements operators really support, expands DTensor's strategies for the same calls, and compares.

    ops        "all", or names: of OpInfo entries ("cumsum", "nn.functional.*") or of overloads ("aten.mm.default")
    dtypes     of the samples
    calls      at most so many of each overload, that differ in ranks, dtypes or arguments
    worlds     numbers of devices; one that divides the sizes is added
    two_axes   also pairs of rules on 2x2 devices
    processes  that work side by side; 0: in this one
    folder     keeps what is done, overload by overload, so that an audit that was stopped goes on
    """
    import torch

    names = checked(ops, calls, worlds, processes)
    options = {"calls": calls, "dtypes": list(dtypes), "worlds": list(worlds), "two_axes": two_axes, "seed": seed}
    about = {"torch": torch.__version__, "cleave": __version__, "options": options}
    with told(progress) as tell:
        kept = Kept(folder, about) if folder else None
        found, skipped = kept.calls(names, options, tell) if kept else collected(names, options, tell)
        done = kept.records if kept else {}
        left = {name: of for name, of in found.items() if name not in done}
        records = [record for name, record in done.items() if name in found]
        begin = time.monotonic()

        def take(record):
            records.append(record)
            if kept:
                kept.add(record)
            if tell:
                share = (len(records)) / len(found)
                tell(f"{100 * share:3.0f} % {record['op']}, {time.monotonic() - begin:.0f} s")
        if processes < 1:
            in_this_process(left, options, take)
        else:
            Workers(left, options, min(processes, max(len(left), 1)), take).run()
    return Audit(records, skipped, about)


def checked(ops, calls, worlds, processes):
    """The names of `ops`; none if it is all of them."""
    if not (isinstance(worlds, (list, tuple)) and worlds and all(isinstance(w, int) and 2 <= w <= MOST_DEVICES for w in worlds)):
        raise UserError(f"audit: worlds={worlds!r}: numbers of devices are a list, from 2 to {MOST_DEVICES}, such as (2, 3)")
    if not isinstance(calls, int) or calls < 1:
        raise UserError(f"audit: calls={calls!r}: at least one call of each overload is tried")
    if not isinstance(processes, int) or processes < 0:
        raise UserError(f"audit: processes={processes!r}: a number of processes is meant, or 0 for this one")
    if ops == "all":
        return None
    names = [ops] if isinstance(ops, str) else ops
    if not isinstance(names, (list, tuple, set)) or not all(isinstance(name, str) for name in names):
        raise UserError(f"audit: ops={ops!r}: names of operators are meant, such as ['cumsum', 'aten.mm.default'], or \"all\"")
    if not names:
        raise UserError("audit: ops is empty, so there is no operator to audit; \"all\" takes every one")
    return list(names)


def collected(names, options, tell):
    """Calls by overload."""
    import torch

    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise UserError(f"audit: PyTorch's samples of its operators cannot be imported ({error}); "
                        "install expecttest beside it") from None
    from cleave.torch import samples

    dtypes = []
    for name in options["dtypes"]:
        dtype = getattr(torch, str(name).removeprefix("torch."), None)
        if dtype not in samples.DTYPES:
            raise UserError(f"audit: dtype '{name}' is not tried; there are "
                            f"{', '.join(str(d).removeprefix('torch.') for d in samples.DTYPES)}")
        dtypes.append(dtype)
    entries, overloads = list(op_db), None
    if names is not None:
        overloads = {name for name in names if name.startswith("aten.")}
        for name in sorted(overloads):
            overload_named(name)
        wanted = [name.removeprefix("torch.") for name in names if name not in overloads]
        entries = [e for e in op_db if any(fnmatch.fnmatch(e.name, n) or e.formatted_name == n for n in wanted)]
        for name in wanted:
            if not any(fnmatch.fnmatch(e.name, name) or e.formatted_name == name for e in op_db):
                near = difflib.get_close_matches(name, [e.name for e in op_db], 3)
                raise UserError(f"audit: PyTorch has no samples of '{name}'; " + (f"near it: {', '.join(near)}; " if near else "")
                                + "names are those of OpInfo entries, such as 'cumsum' or 'nn.functional.*', or of overloads, such as "
                                  "'aten.mm.default'")
    found, skipped = samples.collect(entries, dtypes, options["calls"], tell)
    if overloads:
        # Which entries call them is known only when they have run: those with a similar name come first.
        def is_near(entry):
            return any(name.split(".")[1].strip("_") in entry.name.replace(".", "_") for name in overloads)
        left = set(overloads)
        for some in ([e for e in op_db if is_near(e)], [e for e in op_db if not is_near(e)]):
            if left:
                more, reasons = samples.collect(some, dtypes, options["calls"], tell)
                found |= {name: calls for name, calls in more.items() if name in left}
                skipped |= {name: reason for name, reason in reasons.items() if name in left}
                left -= set(found)
        for name in sorted(left):
            raise UserError(f"audit: no sample of PyTorch's calls {name}: {skipped.get(name, 'there is none')}")
    return found, skipped


def in_this_process(found, options, take):
    import torch

    from cleave.torch import compare, dtensor

    dtensor.start()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, calls in sorted(found.items()):
            take(compare.audit_overload(name, calls, options["worlds"], options["two_axes"], options["seed"]))
    finally:
        torch.set_num_threads(threads)


class Kept:
    """A file with a line for each overload that is done, behind a line that says what the audit is about."""

    def __init__(self, folder, about):
        self.path, self.records = os.path.join(folder, "audit.jsonl"), {}
        with writing(folder):
            os.makedirs(folder, exist_ok=True)
            lines = []
            if os.path.exists(self.path):
                with open(self.path) as file:
                    lines = file.read().split("\n")
        if lines and lines[0]:
            if not isinstance(self._json(lines[0]), dict):
                raise UserError(f"audit: {self.path} is no audit; remove it, or give another folder")
            if self._json(lines[0]) != about:
                raise UserError(f"audit: {self.path} is of another version or other options; remove it, or give another folder")
            for record in map(self._json, lines[1:]):
                if isinstance(record, dict) and "op" in record:
                    self.records[record["op"]] = record
        whole = [json.dumps(about), *(json.dumps(record) for record in self.records.values())]
        with writing(folder):
            replace(self.path, "\n".join(whole) + "\n")

    @staticmethod
    def _json(line):
        """Nothing of a line that is none, as the last one if the audit was stopped while it was written."""
        try:
            return json.loads(line)
        except ValueError:
            return None

    def calls(self, names, options, tell):
        """As `collected` gives them; kept too, since they take minutes."""
        path = os.path.join(os.path.dirname(self.path), "calls.pickle")
        if self.records and os.path.exists(path):
            with open(path, "rb") as file, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of PyTorch, about its own trees
                of, found, skipped = pickle.load(file)
            if of == names:
                return {name: [unpack(data) for data in calls] for name, calls in found.items()}, skipped
        found, skipped = collected(names, options, tell)
        with open(path + ".part", "wb") as file:
            pickle.dump((names, {name: [pack(call) for call in calls] for name, calls in found.items()}, skipped), file)
        os.replace(path + ".part", path)
        return found, skipped

    def add(self, record):
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")


class Workers:
    """Processes of their own: an operator that crashes or hangs takes one of them along, and is named."""

    def __init__(self, found, options, count, take):
        self.found, self.options, self.count, self.take = found, options, count, take
        # The short ones first: an audit that is stopped has then seen most of them.
        self.names = sorted(found, key=lambda name: sum(sum(t.ndim + 4 for t in call.tensors) * len(call.tensors) for call in found[name]))
        self.lock, self.error = threading.Lock(), None

    def run(self):
        if not self.names:
            return
        with tempfile.NamedTemporaryFile(suffix=".calls") as file:
            pickle.dump({name: [pack(call) for call in calls] for name, calls in self.found.items()}, file)
            file.flush()
            threads = [threading.Thread(target=self._serve, args=(file.name,), daemon=True) for _ in range(self.count)]
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    while thread.is_alive():
                        thread.join(0.2)
            except KeyboardInterrupt:
                self.names.clear()
                raise
        if self.error:
            raise self.error

    def _next(self):
        with self.lock:
            return self.names.pop(0) if self.names and not self.error else None

    def _start(self, path):
        command = [sys.executable, "-m", "cleave.torch.worker", path, json.dumps(self.options)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                start_new_session=True)

    def _serve(self, path):
        worker = None
        try:
            while (name := self._next()) is not None:
                worker = worker or self._start(path)
                record = self._ask(worker, name)
                if isinstance(record, str) and worker.poll() is None and "crashed" in record:
                    record = self._ask(worker, name + " careful")  # DTensor's own rules alone
                if isinstance(record, str):
                    if worker.poll() is not None:
                        worker = None
                    record = gave_up(name, self.found[name], record)
                with self.lock:
                    self.take(record)
        except BaseException as error:  # noqa: BLE001: raised again by run
            self.error = error
        finally:
            if worker:
                end(worker)

    def _ask(self, worker, name):
        """The record of an overload, or why there is none."""
        timer = threading.Timer(SECONDS_FOR_ONE, lambda: end(worker))
        timer.start()
        begin = time.monotonic()
        try:
            worker.stdin.write(name + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        answer = json.loads(line) if line else {"status": worker.wait()}
        if "status" not in answer:
            return answer
        if time.monotonic() - begin >= SECONDS_FOR_ONE:
            return f"took more than {SECONDS_FOR_ONE} s"
        status = answer["status"]
        return f"PyTorch crashed on a device's part (signal {-status})" if status < 0 else f"the process ended with status {status}"


def end(worker):
    """With its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def gave_up(name, calls, reason):
    from cleave.torch import compare

    return compare.empty_record(name, calls) | {"untestable": [{"call": calls[0].text(), "reason": reason}]}


def pack(call):
    """For another process: operators and tensors have no form of their own there."""
    return {**vars(call), "op": str(call.op)}


def unpack(data):
    from cleave.torch.samples import Call

    return Call(**{**data, "op": overload_named(data["op"])})


def overload_named(name):
    """aten.mm.default as PyTorch has it."""
    import torch

    try:
        _, base, overload = name.split(".")
        return getattr(getattr(torch.ops.aten, base), overload)
    except (ValueError, AttributeError):
        raise UserError(f"audit: PyTorch has no overload '{name}'; overloads are written as aten.mm.default") from None
