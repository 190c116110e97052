"""Pages that the command writes, each made when a test first asks for it."""

import base64
import json
import os
import re
import subprocess
import zlib

MESH = ["--mesh", "data=2,model=4", "--machine", "h100"]
MODELS = {"gpt": "model:gpt?step=train", "moe": "model:moe?step=train", "resnet": "model:resnet?step=train"}
# With less than these models would take whole on every device, so that there are collectives to show.
LIMITS = {"gpt": "6MiB", "moe": "8MiB", "resnet": "1MiB"}
GPT12 = ("model:gpt?layers=12&d=768&heads=12&kv_heads=12&hidden=3072&vocab=50304&batch=64&length=1024&step=train"
         "&dtype=bf16")  # that of README.md


def command():
    """The command, if it writes pages."""
    path = os.environ.get("CLEAVE_COMMAND", "")
    known = path and os.path.exists(path) and subprocess.run([path, "report", "--help"], capture_output=True).returncode == 0
    return path if known else None


def report_of(page):
    """The report inside a page."""
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script id="report"[^>]*>([^<]*)</script>', text).group(1)
    return json.loads(zlib.decompress(base64.b64decode(data), -15))


class RealPages:
    def __init__(self, command, folder):
        self.command, self.folder, self.made = command, folder, {}

    def run(self, *arguments, status=0):
        done = subprocess.run([self.command, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == status, done.stderr
        return done.stdout

    def plan(self, name, model, *options):
        path = self.folder / f"{name}.json"
        if not path.exists():
            self.run("plan", model, *MESH, "--time", 3, "--out", path, *options)
        return path

    def plan_within(self, name, limit):
        return self.plan(name if limit == LIMITS[name] else f"{name}-{limit}", MODELS[name], "--memory", limit, "--memory-share", 1)

    def plan_of(self, name):
        return self.plan_within(name, LIMITS[name])

    def page(self, name):
        """The file of a page, and its report."""
        if name not in self.made:
            path = self.folder / f"{name}.html"
            getattr(self, f"make_{name}", lambda to: self.make_model(name, to))(path)
            self.made[name] = path, report_of(path)
        return self.made[name]

    def make_model(self, name, to):
        self.run("report", self.plan_of(name), "--out", to)

    def make_gpt12(self, to):
        self.run("report", self.plan("gpt12", GPT12, "--memory", "80GiB"), "--out", to)

    def make_whole(self, to):
        """A plan without collectives."""
        self.run("report", self.plan("whole", MODELS["gpt"]), "--out", to)

    def make_limited(self, to):
        self.run("report", self.plan_within("gpt", "4MiB"), "--out", to)

    def make_compare(self, to):
        self.run("report", self.plan_within("gpt", "4MiB"), "--compare", self.plan_of("gpt"), "--out", to)

    def make_front(self, to):
        self.run("report", self.plan_of("gpt"), "--memory", "1MiB,6MiB,80MiB", "--time", 3, "--out", to)

    def make_infeasible(self, to):
        self.run("plan", MODELS["gpt"], *MESH, "--memory", "1MiB", "--time", 3, "--report", to, status=3)

    def make_discovery(self, to):
        self.run("discover", "stablehlo.dot_general", "--format", "html", "--out", to)

    def make_cross(self, to):
        self.run("discover", "cross", "--format", "html", "--out", to)

    def make_measured(self, to):
        plan = self.plan_of("gpt")
        self.run("run", MODELS["gpt"], "--plan", plan, "--timeline", self.folder / "run.json")
        self.run("verify", MODELS["gpt"], "--plan", plan, "--json", self.folder / "verify.json")
        self.run("report", plan, "--run", self.folder / "run.json", "--verify", self.folder / "verify.json", "--out", to)

    def make_without_module(self, to):
        """A plan whose module is gone."""
        plan = json.loads(self.plan_of("gpt").read_text())
        plan["module"]["source"] = str(self.folder / "gone.mlir")
        (self.folder / "alone.json").write_text(json.dumps(plan))
        self.run("report", self.folder / "alone.json", "--out", to)
