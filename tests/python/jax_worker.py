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


def noisy(w, keys, x):
    """With typed random keys, one of which is the state's, and arguments that lie in another way than planned."""
    kept = jax.random.bernoulli(keys["drop"], 0.8, x.shape)
    rows = jax.vmap(lambda key: jax.random.normal(key, (32,)))(keys["rows"])
    return w + (x * kept).T @ rows * 0.01, {"drop": jax.random.split(keys["drop"])[0], "rows": keys["rows"][::-1]}


keys = {"drop": jax.random.key(3), "rows": jax.random.split(jax.random.key(4, impl="rbg"), 32)}
planned = cj.autoshard(noisy, mesh, machine="h100", pins={"w": P(None, "model"), "keys/rows": P("data")}, donate_argnums=1)
w = np.zeros((64, 32), np.float32)
lying = jax.make_array_from_callback(w.shape, jax.NamedSharding(mesh, P("model")), lambda index: w[index])
own, reference = (lying, jax.tree.map(jax.random.clone, keys)), (w, keys)
for _ in range(3):
    own, reference = planned(*own, x), jax.jit(noisy)(*reference, x)
for found, wanted in zip(jax.tree.leaves((own[0], jax.tree.map(jax.random.key_data, own[1]))),
                         jax.tree.leaves((reference[0], jax.tree.map(jax.random.key_data, reference[1]))), strict=True):
    for shard in found.addressable_shards:
        assert np.allclose(shard.data, np.asarray(wanted)[shard.index], atol=1e-5)
assert planned.check(w, keys, x).ok and planned.check().ok
assert planned.check(*own, x).ok  # with arrays over all processes
if jax.process_index() == 0:  # alone: nobody else plans, and nobody waits
    alone = cj.autoshard(lambda w, x: x @ w, jax.sharding.Mesh(np.array(jax.local_devices()), "x"), machine="h100", pins={"x": P("x")})
    assert np.allclose(alone(w + 1, x[:, :64]), x @ (w + 1), atol=1e-4) and alone.check().ok
    cj.plan(lambda w, x: x @ w, w, x, mesh=jax.sharding.AbstractMesh((2, 8), ("x", "y")), machine="h100")
print("the same over 5 steps; collectives as planned", flush=True)
