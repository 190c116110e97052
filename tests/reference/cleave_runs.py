"""Runs the text of a module with Cleave."""

import os
import subprocess
import tempfile

import numpy as np

CLEAVE = os.environ.get("CLEAVE_COMMAND", "build/release/cleave")


def run_text(text, args, *options):
    with tempfile.TemporaryDirectory() as folder:
        command = [CLEAVE, "run", "-", "--quiet", "--out", folder, *options]
        for i, arg in enumerate(args):
            np.save(f"{folder}/in{i}.npy", np.asarray(arg))
            command += ["--arg", f"{i}={folder}/in{i}.npy"]
        run = subprocess.run(command, input=text, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        names = sorted((n for n in os.listdir(folder) if not n.startswith("in")), key=lambda n: int("".join(filter(str.isdigit, n))))
        return [np.load(f"{folder}/{name}") for name in names]
