"""Runs a module for several partitions with XLA's CPU client, as JAX brings it: one array for each device in, one out."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client


class Partitions:
    """A compiled module. `text` is StableHLO for n partitions: local shapes, or shardings and whole shapes."""

    def __init__(self, text, n, shardy=True):
        self.devices = jax.devices()[:n]
        options = xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = 1, n
        build = options.executable_build_options
        build.use_spmd_partitioning, build.use_shardy_partitioner, build.num_partitions = True, shardy, n
        build.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(1, n))
        devices = xla_client.DeviceList(tuple(self.devices))
        self.executable = self.devices[0].client.compile_and_load(text, devices, options)

    def hlo(self):
        return self.executable.hlo_modules()[0].to_string()

    def run(self, stacked):
        """Arrays of all devices along a new first dimension, for each argument; the same for each result."""
        n = len(self.devices)
        split = NamedSharding(Mesh(np.array(self.devices), ("d",)), PartitionSpec("d"))
        whole = NamedSharding(Mesh(np.array(self.devices), ("d",)), PartitionSpec())
        arguments = []
        for array in stacked:
            parts = [jax.device_put(array[d], self.devices[d]) for d in range(n)]
            # What it is called does not matter to the executable: every device has its own.
            shape = (n * array.shape[1], *array.shape[2:]) if array.ndim > 1 else ()
            sharding = split if array.ndim > 1 else whole
            arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, parts))
        results = self.executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [np.stack([np.asarray(part) for part in parts]) for parts in results]
