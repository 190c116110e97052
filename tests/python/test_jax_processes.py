"""The same callable in several processes of jax.distributed, each with some of the devices."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

WORKER = pathlib.Path(__file__).parent / "jax_worker.py"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("processes", [2, 4])
def test_planned_steps_over_processes(processes):
    port, devices = str(free_port()), 8 // processes
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    workers = [subprocess.Popen([sys.executable, str(WORKER), str(processes), str(i), port], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(processes)]
    try:
        said = [worker.communicate(timeout=300) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (out, err) in zip(workers, said):
        assert worker.returncode == 0, err[-2000:]
        assert "the same over 5 steps; collectives as planned" in out
