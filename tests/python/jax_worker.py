"""One of several processes: jax_worker.py PROCESSES NUMBER PORT"""

import sys

import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[3]}", int(sys.argv[1]), int(sys.argv[2]))

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import cleave.jax as cj  # noqa: E402

optimizer = optax.adamw(1e-2)


def step(params, state, x):
    def loss(p):
        return ((jnp.tanh(x @ p["w"]) @ p["v"] - x) ** 2).mean()
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


random = np.random.default_rng(0)
params = {"w": random.normal(size=(64, 128)).astype(np.float32) * 0.1, "v": random.normal(size=(128, 64)).astype(np.float32) * 0.1}
state = jax.tree.map(np.asarray, optimizer.init(params))
x = random.normal(size=(32, 64)).astype(np.float32)

mesh = jax.make_mesh((2, 4), ("data", "model"))
planned = cj.autoshard(step, mesh, machine="h100", pins={"params/w": P(None, "model"), "x": P("data")}, donate_argnums=(0, 1))
own, reference = (params, state), (params, state)
for _ in range(5):
    *own, value = planned(*own, x)
    *reference, wanted = jax.jit(step)(*reference, x)
    assert abs(float(value) - float(wanted)) < 1e-5, (value, wanted)
assert not own[0]["w"].is_fully_addressable and own[0]["w"].sharding.spec == P(None, "model")
assert planned.check(params, state, x).ok and planned.check().ok
print("the same over 5 steps; collectives as planned", flush=True)
