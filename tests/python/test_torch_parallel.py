"""PyTorch modules that run as planned, on four processes of gloo, beside the plain modules."""

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch.distributed is not there", allow_module_level=True)

import torch_more_steps
import torch_steps
from selection import some
from torch_ranks import Ranks


@pytest.fixture(scope="module")
def ranks():
    started = Ranks()
    yield started
    started.close()


CASES = [("mlp", (2, 2), 7, 1), ("gpt", (2, 2), 8, 1), ("gpt", (4,), 8, 2), ("gpt", (2, 2), 6, 3), ("moe", (2, 2), 8, 1), ("moe", (4,), 8, 2),
         ("resnet", (2, 2), 8, 1), ("resnet", (4,), 7, 2), ("vit", (2, 2), 8, 1), ("vit", (4,), 5, 2)]


@pytest.mark.parametrize("name, shape, size, tight", some(CASES))
def test_ten_steps_are_those_of_the_plain_module(ranks, name, shape, size, tight):
    found = ranks.run(torch_steps.steps_as_plain, name, shape, size, {"tight": tight})
    for one in found:
        assert one["losses"] < 1e-8 and one["parameters"] < 1e-6, one
        assert one["counted"] == sum(row[1] for row in one["rows"]), one  # every collective is a planned one
    assert found[0]["split"] > 0


def test_a_checkpoint_of_one_mesh_loads_on_another(ranks, tmp_path):
    for off in ranks.run(torch_steps.checkpoint_between_meshes, str(tmp_path / "saved")):
        assert off < 1e-6


@pytest.mark.parametrize("case", torch_more_steps.CASES)
def test_what_users_do(ranks, case):
    ranks.run(getattr(torch_more_steps, case))
