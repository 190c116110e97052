"""The memory of a device as the runtime measures it and as it is predicted, for models that JAX prints."""

import os
import re
import subprocess

import jax
import pytest

import jax_models

CLEAVE = os.environ["CLEAVE_COMMAND"]


def mlp():
    def loss(params, x, y):
        for layer in params:
            x = jax.numpy.tanh(x @ layer["weight"] + layer["bias"])
        return jax.numpy.mean((x - y) ** 2)

    shaped = jax_models.shaped
    layer = lambda a, b: dict(weight=shaped(a, b), bias=shaped(b))
    params = [layer(64, 256), layer(256, 256), layer(256, 32)]
    return jax_models.train_step(loss), jax_models.train_arguments(
        params, shaped(128, 64), shaped(128, 32))


MODELS = {"mlp": mlp} | {name: jax_models.MODELS[name] for name in (
    "transformer", "transformer_scan", "mixture_of_experts", "resnet", "unet_block")}


def difference(text, shard):
    """Predicted against measured, in percent."""
    run = subprocess.run(
        [CLEAVE, "run", "-", "--mesh", "x=2,y=2", "--shard", shard, "--arg", "*=random:1", "--stats", "--no-compile",
         "--quiet"], input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return float(re.search(r"memory of a device: .* \(([-+0-9.]+)%\)", run.stderr).group(1))


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_predicted_peak_is_measured_peak(name, donate):
    step, arguments = MODELS[name]()
    text = jax.jit(step, donate_argnums=(0, 1, 2) if donate else ()).lower(*arguments).as_text()
    for shard in ("replicated", "random:1", "random:2"):
        assert abs(difference(text, shard)) <= 5, shard
