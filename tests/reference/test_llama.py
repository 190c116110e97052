"""A Llama in Hugging Face's folder (config.json, model.safetensors) through models::llama_config and
train::llama_names, against the same model in plain PyTorch: grouped-query attention, rotary positions, gated
feed-forward layers, RMS norms."""

import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

PROGRAM = pathlib.Path(os.environ["CLEAVE_COMMAND"]).parent / "tests" / "train_reference"
CONFIG = {"model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 3, "hidden_size": 64,
          "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 16}
CASES = {
    "plain": {},
    "old_names": {"rope_theta": 500000.0, "rope_scaling": SCALING, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    "new_names": {"rope_parameters": {**SCALING, "rope_theta": 20000.0}, "head_dim": 8},
    "every_head": {"num_key_value_heads": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
}


def weights(config):
    generator = torch.Generator().manual_seed(7)
    d, hidden, size = config["hidden_size"], config["intermediate_size"], config["hidden_size"] // config["num_attention_heads"]
    keys = config["num_key_value_heads"] * size

    def normal(*shape):
        return torch.randn(*shape, generator=generator) * 0.2

    tensors = {"model.embed_tokens.weight": normal(config["vocab_size"], d), "model.norm.weight": 1 + normal(d)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}{name}.weight"] = 1 + normal(d)
        for name, rows in (("q", d), ("k", keys), ("v", keys), ("o", d)):
            tensors[f"{layer}self_attn.{name}_proj.weight"] = normal(rows, d)
        for name, shape in (("gate", (hidden, d)), ("up", (hidden, d)), ("down", (d, hidden))):
            tensors[f"{layer}mlp.{name}_proj.weight"] = normal(*shape)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = normal(config["vocab_size"], d)
    return tensors


def frequencies(config, size):
    """Of pairs of features. Llama 3.1's scaling, written by wavelengths as in Meta's own code."""
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta", 10000.0), **config.get("rope_scaling", {})}
    rates = [rope["rope_theta"] ** (-2 * i / size) for i in range(size // 2)]
    if rope.get("rope_type") != "llama3":
        return torch.tensor(rates)
    low, high, length = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    scaled = []
    for rate in rates:
        wave = 2 * math.pi / rate
        share = (length / wave - low) / (high - low)
        scaled.append(rate if wave < length / high else rate / rope["factor"] if wave > length / low
                      else (1 - share) * rate / rope["factor"] + share * rate)
    return torch.tensor(scaled)


def llama(config, w, tokens):
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    size = config["hidden_size"] // heads
    batch, length = tokens.shape
    angle = torch.arange(length)[:, None] * frequencies(config, size)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def norm(x, weight):
        return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"])

    def turned(x):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        part = {name.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): value for name, value in w.items()}
        h = norm(x, part["input_layernorm"])
        q, k, v = ((h @ part[f"self_attn.{m}_proj"].T).view(batch, length, -1, size).transpose(1, 2) for m in "qkv")
        k, v = turned(k).repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1)
        mixed = torch.nn.functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(batch, length, -1) @ part["self_attn.o_proj"].T
        h = norm(x, part["post_attention_layernorm"])
        gate = torch.nn.functional.silu(h @ part["mlp.gate_proj"].T)
        x = x + (gate * (h @ part["mlp.up_proj"].T)) @ part["mlp.down_proj"].T
    return norm(x, w["model.norm.weight"]) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def run(folder):
    return subprocess.run([str(PROGRAM), "llama", str(folder)], capture_output=True, text=True)


@pytest.mark.parametrize("name", CASES)
def test_logits(name, tmp_path):
    config = {**CONFIG, **CASES[name]}
    w = weights(config)
    tokens = torch.randint(0, config["vocab_size"], (2, 40), generator=torch.Generator().manual_seed(1))
    (tmp_path / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(w, tmp_path / "model.safetensors", {"format": "pt"})
    np.save(tmp_path / "tokens.npy", tokens.numpy().astype(np.int32))
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    want = llama(config, w, tokens).numpy()
    assert np.abs(want).max() > 1
    for file in ("whole", "steps"):
        np.testing.assert_allclose(np.load(tmp_path / f"{file}.npy"), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("change,expected", [
    ({"model_type": "gpt_neox"}, "'model_type' is \"gpt_neox\", which models::gpt does not compute; it knows llama, mistral"),
    ({"attention_bias": True}, "'attention_bias' is true, which models::gpt does not compute"),
    ({"sliding_window": 4096}, "'sliding_window' is 4096, which models::gpt does not compute"),
    ({"head_dim": 16}, "'head_dim' is 16, which models::gpt does not compute"),
    ({"hidden_size": "wide"}, "'hidden_size' is \"wide\"; a positive integer was expected"),
    ({"vocab_size": None}, "there is no 'vocab_size'"),
    ({"rope_scaling": {"type": "yarn"}}, "'type' is \"yarn\", which models::gpt does not compute; it knows default, llama3"),
    ({"rope_scaling": {"rope_type": "llama3", "low_freq_factor": 4}}, "rotary scaling takes a positive factor"),
])
def test_what_is_not_computed_is_named(change, expected, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **change}))
    done = run(tmp_path)
    assert done.returncode == 1 and expected in done.stderr and done.stderr.count("\n") == 1, done.stderr
