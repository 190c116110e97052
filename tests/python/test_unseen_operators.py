"""Operators that nobody looked at: calls are proposed from their names, and every rule is tried again by other code (rule_check).

A few of them by default; CLEAVE_ALL_OPERATORS=1 takes all, which is minutes.
"""

import os

import pytest

torch = pytest.importorskip("torch")

import cleave
from cleave import discovery
from cleave.functions import examples
from rule_check import Check

# Of each name the ranks of the first operand that are tried.
EVERY_RANK = {1, 2, 3, 4}
RANKS = {
    "torch.roll": EVERY_RANK, "torch.flip": EVERY_RANK, "torch.permute": EVERY_RANK, "torch.tile": EVERY_RANK,
    "torch.movedim": EVERY_RANK, "torch.select": EVERY_RANK, "torch.split": EVERY_RANK, "torch.quantile": EVERY_RANK,
    "torch.scatter_reduce": EVERY_RANK, "torch.einsum": EVERY_RANK, "torch.clamp": EVERY_RANK, "torch.stack": EVERY_RANK,
    "torch.broadcast_to": EVERY_RANK, "torch.special.multigammaln": EVERY_RANK, "torch.nn.functional.embedding": EVERY_RANK,
    "torch.nn.functional.one_hot": EVERY_RANK, "torch.rot90": {2, 3, 4}, "torch.renorm": {2, 3, 4}, "torch.linalg.matrix_norm": {2, 3, 4},
    "torch.addmv": {1}, "torch.block_diag": {1, 2}, "torch.cartesian_prod": {1}, "torch.nn.functional.grid_sample": {4},
    "torch.nn.functional.interpolate": {3, 4}, "torch.nn.functional.embedding_bag": {2}, "torch.nn.functional.conv3d": {4},
    "torch.nn.functional.conv_transpose1d": {2, 3}, "torch.nn.functional.pixel_unshuffle": {3, 4},
    "torch.index_reduce": EVERY_RANK, "torch.select_scatter": EVERY_RANK, "torch.unflatten": EVERY_RANK, "torch.full_like": EVERY_RANK,
    "torch.diagonal_scatter": {2, 3, 4}, "torch._foreach_add": EVERY_RANK, "torch.nn.functional.hinge_embedding_loss": EVERY_RANK,
    "torch.nn.functional.lp_pool2d": {3, 4}, "torch.fft.ifft": EVERY_RANK, "torch.view_as_real": EVERY_RANK,
    "numpy.ptp": EVERY_RANK, "numpy.interp": EVERY_RANK, "numpy.lexsort": EVERY_RANK, "numpy.gradient": EVERY_RANK,
    "numpy.clip": EVERY_RANK, "numpy.where": EVERY_RANK, "numpy.rot90": {2, 3, 4}, "numpy.isin": EVERY_RANK,
    "numpy.pad": EVERY_RANK,
}


@pytest.mark.parametrize("name", RANKS)
def test_calls_are_proposed(name):
    """Without a shape or a sweep."""
    target, _ = discovery.target_of(name, None)
    target.choose()
    calls, _ = examples.propose(target)
    assert {len(call.operands[0].shape) for call in calls} == RANKS[name]


@pytest.mark.parametrize("name", ["reduce_max", "rev", "select"])
def test_functions_of_lax(name):
    """Dimensions that must be a list, by several names; and a predicate."""
    pytest.importorskip("jax")
    target, _ = discovery.target_of(f"jax.lax.{name}", None)
    target.choose()
    assert {len(call.operands[0].shape) for call in examples.propose(target)[0]} == EVERY_RANK


def test_what_is_proposed():
    def proposed(name):
        target, _ = discovery.target_of(name, None)
        target.choose()
        return examples.propose(target)[0]
    assert {tuple(call.attrs["dims"]) for call in proposed("torch.permute") if len(call.operands[0].shape) == 2} == {(0, 1), (1, 0)}
    assert {tuple(call.attrs["dims"]) for call in proposed("torch.rot90") if len(call.operands[0].shape) == 3} == {(0, 1), (0, 2), (1, 2)}
    assert {call.attrs["reduce"] for call in proposed("torch.scatter_reduce")} >= {"sum", "prod"}
    assert {call.attrs["dim"] for call in proposed("torch.stack") if len(call.operands[0].shape) == 2} == {0, 1, 2}
    assert [operand.dtype for operand in proposed("torch.nn.functional.embedding")[0].operands] == ["i64", "f64"]
    assert len(proposed("torch.nn.functional.linear")[1].operands[1].shape) == 2
    assert [operand.dtype for operand in proposed("torch.nn.functional.cosine_embedding_loss")[0].operands] == ["f64", "f64", "i64"]
    # What is put into a part of the first operand goes with the dimension.
    assert {call.attrs["dim"] for call in proposed("torch.select_scatter") if call.operands[0].shape == (3, 4, 5)} == {0, 1, 2}
    assert len(proposed("numpy.where")[0].operands) == 3


def test_values_of_several_kinds():
    """A number and a list, for one argument."""
    report = cleave.discover(torch.nn.functional.adaptive_avg_pool2d, shapes=[(3, 4, 5)], sweep={"output_size": [2, [2, 3]]}, shrink=False)
    assert any(rule.text.startswith("S(0) -> S(0)") for rule in report.rules)


@pytest.mark.parametrize("name, sweep", [
    ("torch.amax", {"dim": [[0], [1], [0, 2], [-1], [1, 2]], "keepdim": [True, False]}),
    ("torch.sum", {"dim": [[0], [0, 2], [-1]]}),
    ("torch.linalg.vector_norm", {"dim": [[0], [1], [0, 1], [2]], "keepdim": [True, False]}),
])
def test_several_dimensions_at_once(name, sweep):
    """How far a dimension moves is how many before it go: conditions say so, and not the calls that were tried."""
    report = cleave.discover(name, shapes=[(3, 4, 5)], sweep=sweep, shrink=False, threads=1)
    check = Check(report).run()
    assert not check.faults and not check.missed
    texts = [rule.text for rule in report.rules if not rule.implied]
    assert not any("listed" in text or "called as" in text for text in texts)
    assert any(text.startswith("S(d) -> S(d-1) WHEN d not in dim and below(d, dim) == 1") for text in texts)
    assert report.emit("dtensor") and not report.emitted_failures


def test_channels_that_may_be_uneven():
    """Four channels on three devices leave one without: a fifth tells that it is this, and no unequal shard, that is refused."""
    report = cleave.discover(torch.nn.functional.max_pool2d, shapes=[(2, 4, 5, 5)], sweep={"kernel_size": [3], "stride": [1]}, shrink=False)
    assert "S(1) -> S(1) WHEN no shard of 1 is empty" in {rule.text for rule in report.rules}


@pytest.mark.parametrize("function, sweep, rule", [
    (torch.Tensor.unfold, {"dimension": [0, -1], "size": [2], "step": [1]}, "S(d) -> S(d) WHEN d != dimension"),
    (torch.unsqueeze, {"dim": [0, 1, 2, -1]}, "S(d) -> S(d) WHEN d < dim"),
])
def test_dimensions_from_the_end(function, sweep, rule):
    """Of the operand in unfold, of the result in unsqueeze, which has one more dimension as well."""
    assert rule in {r.text for r in cleave.discover(function, shapes=[(5, 4)], sweep=sweep, shrink=False).rules}


FEW = ["torch.diff", "torch.cov", "torch.renorm", "torch.vander", "torch.nn.functional.embedding_bag", "torch.nn.functional.conv1d",
       "torch.nn.functional.pdist", "torch.linalg.det", "torch.rot90", "torch.heaviside", "numpy.ptp", "numpy.interp", "torch.fmod", "torch.lcm", "torch.index_put", "torch.split"]
EVERY = FEW + """
jax.numpy.moveaxis jax.numpy.ptp torch.Tensor.unfold torch.addmv torch.baddbmm torch.bitwise_xor torch.block_diag
torch.broadcast_to torch.cartesian_prod torch.cat torch.cdist torch.combinations torch.corrcoef torch.diag_embed torch.diagonal
torch.dist torch.einsum torch.flip torch.frexp torch.gather torch.histc torch.index_add torch.index_copy
torch.index_select torch.kthvalue torch.ldexp torch.linalg.cholesky torch.linalg.eigvalsh
torch.linalg.inv torch.linalg.matrix_power torch.linalg.qr torch.linalg.slogdet torch.linalg.solve torch.linalg.svdvals
torch.masked_fill torch.masked_scatter torch.mode torch.movedim torch.nanmedian torch.nextafter
torch.nn.functional.adaptive_avg_pool2d torch.nn.functional.batch_norm torch.nn.functional.conv2d torch.nn.functional.conv3d
torch.nn.functional.conv_transpose1d torch.nn.functional.cosine_similarity torch.nn.functional.cross_entropy
torch.nn.functional.embedding torch.nn.functional.glu torch.nn.functional.grid_sample torch.nn.functional.group_norm
torch.nn.functional.instance_norm torch.nn.functional.interpolate torch.nn.functional.kl_div torch.nn.functional.layer_norm
torch.nn.functional.linear torch.nn.functional.local_response_norm torch.nn.functional.nll_loss torch.nn.functional.normalize
torch.nn.functional.one_hot torch.nn.functional.pairwise_distance torch.nn.functional.rms_norm
torch.nn.functional.scaled_dot_product_attention torch.nn.functional.triplet_margin_loss torch.permute torch.quantile torch.roll
torch.scatter torch.scatter_reduce torch.searchsorted torch.select torch.special.logit torch.special.multigammaln torch.squeeze torch.stack torch.std_mean torch.take_along_dim torch.tensordot torch.tile torch.topk torch.trapezoid torch.unbind
numpy.nanstd numpy.percentile numpy.unwrap numpy.gradient numpy.average numpy.fmod jax.lax.cumlogsumexp jax.numpy.percentile
""".split()
# Placements that no run on chunks contradicts, and why they are no rules all the same.
NO_RULES = {
}


@pytest.mark.parametrize("name", EVERY if os.environ.get("CLEAVE_ALL_OPERATORS") else FEW)
def test_every_rule_again(name):
    if name.startswith("jax"):
        pytest.importorskip("jax")
    report = cleave.discover(name, shrink=False, threads=1)
    check = Check(report).run()
    assert check.rules_tried > 0 and check.fresh_calls > 0
    assert not check.faults
    assert not check.missed or name in NO_RULES, check.missed
