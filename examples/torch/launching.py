"""Processes for the examples: those of torchrun if it started this one, or four of this host."""

import os
import socket

import torch
import torch.distributed as dist


def launched(main, *args):
    """Runs main(*args) in every process."""
    if "RANK" in os.environ:
        return in_group(main, *args)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(worker, (4, port, main, args), 4)


def worker(rank, ranks, port, main, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    in_group(main, *args)


def in_group(main, *args):
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        main(*args)
    finally:
        dist.destroy_process_group()


def mesh_of(names):
    """All processes as two by the rest."""
    ranks = dist.get_world_size()
    shape = (2, ranks // 2) if ranks % 2 == 0 else (1, ranks)
    return dist.device_mesh.init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", shape, mesh_dim_names=names)


def say(what):
    if dist.get_rank() == 0:
        print(what, flush=True)
