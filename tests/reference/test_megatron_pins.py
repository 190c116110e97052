"""Pins that bench/published_throughput.py writes give Megatron's tensor parallelism: the collectives that a further layer
adds, with and without sequence parallelism, and beside FSDP."""

import importlib.util
import os
import pathlib

import pytest

CLEAVE = os.environ["CLEAVE_COMMAND"]
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/published_throughput.py"
spec = importlib.util.spec_from_file_location("published_throughput", SCRIPT)
published = importlib.util.module_from_spec(spec)
spec.loader.exec_module(published)

WIDTH = 1024


def collectives(folder, layers, sequence, shard=1):
    """By kind: how many go over tensor parallelism alone, and how many bytes a device receives."""
    model = (f"model:gpt?layers={layers}&d={WIDTH}&heads=8&kv_heads=8&hidden=4096&vocab=32000&batch={4 * shard}&length=2048"
             "&compute=bf16&attention=flash&borders=yes&step=grad" + ("&weights=again" if shard > 1 else ""))
    row = {"id": "row", "precision": "", "parallel": {"dp_replicate": 1, "dp_shard": shard, "tp": 8, "sp": sequence,
                                                      "zero_stage": 3 if shard > 1 else 0}}
    planner = published.Planner(CLEAVE, folder, None)
    module = published.Module(*planner.run("row", model, "shard=1", "h100", export=True))
    layout = published.Layout(row)
    plan, _ = planner.run("row", model, layout.mesh, "h100", published.pins_of(row, layout, module, WIDTH))
    return {each["kind"]: (each["count"], each["bytes"]) for each in plan["totals"]["collectives"]
            if each["axes"] == '"tp"'}


@pytest.mark.parametrize("sequence", [False, True])
def test_a_layer_makes_megatrons_collectives(tmp_path, sequence):
    two, three = (collectives(tmp_path, layers, sequence) for layers in (2, 3))
    more = {kind: three[kind][0] - two.get(kind, (0, 0))[0] for kind in three}
    received = sum(three[kind][1] - two.get(kind, (0, 0))[1] for kind in three)
    activation = 4 * 2048 * WIDTH * 2  # bytes in bf16
    if sequence:
        # Gathered before both parts of a layer and scattered behind them, forward and backward; the gradients of two
        # norms are scattered as well.
        assert more["all_gather"] == 4 and more["reduce_scatter"] == 4 + 2
        assert received == pytest.approx(8 * activation * 7 / 8, rel=0.02)
    else:
        assert more == {"all_reduce": 4}
        assert received == pytest.approx(4 * 2 * activation * 7 / 8, rel=0.02)


def test_beside_fsdp_activations_travel_the_same(tmp_path):
    alone, beside = collectives(tmp_path, 2, True), collectives(tmp_path, 2, True, shard=4)
    for kind in ("all_gather", "reduce_scatter"):
        assert beside[kind][1] == pytest.approx(alone[kind][1], rel=0.35)
