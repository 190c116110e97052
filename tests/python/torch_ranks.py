"""Four processes of gloo that stay, so that importing PyTorch is paid for once: functions of this folder run in all of them."""

import importlib
import os
import queue
import socket
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 4


def serve(rank, port, tasks, answers):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    while True:
        task = tasks.get()
        if task is None:
            break
        module, function, args = task
        try:
            answers.put((rank, True, getattr(importlib.import_module(module), function)(*args)))
        except Exception:  # noqa: BLE001: the test shows it
            answers.put((rank, False, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    def __init__(self):
        self.start()

    def start(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = mp.get_context("spawn")
        self.answers = context.Queue()
        self.tasks = [context.Queue() for _ in range(RANKS)]
        self.processes = [context.Process(target=serve, args=(rank, port, self.tasks[rank], self.answers), daemon=True)
                          for rank in range(RANKS)]
        for process in self.processes:
            process.start()

    def run(self, function, *args, seconds=600):
        """What the function returns on each rank."""
        for tasks in self.tasks:
            tasks.put((function.__module__, function.__name__, args))
        found = {}
        while len(found) < RANKS:
            try:
                rank, good, answer = self.answers.get(timeout=seconds)
            except queue.Empty:
                self.close()
                self.start()
                raise AssertionError(f"ranks {sorted(set(range(RANKS)) - set(found))} did not answer") from None
            if not good:
                self.close()
                self.start()  # the others may wait for that rank
                raise AssertionError(f"rank {rank}:\n{answer}")
            found[rank] = answer
        return [found[rank] for rank in range(RANKS)]

    def close(self):
        for process in self.processes:
            process.kill()
