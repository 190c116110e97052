"""Plans of JAX functions."""

from functools import cached_property
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from cleave import plans
from cleave.jax import layouts


class JaxPlan(plans.Plan):
    """A plan with the layouts of arguments and results as JAX has them."""

    def __init__(self, core, traced, mesh):
        super().__init__(core)
        self._traced = traced
        axes, self._arguments, self._results = core.borders()
        self.mesh = layouts.mesh_of_plan(mesh, axes)

    def _flat(self, borders, leaves):
        return [layouts.spec_of_dims(dims[: leaf.rank]) for (_, dims, _), leaf in zip(borders, leaves)]

    @cached_property
    def in_specs(self) -> Any:
        """The PartitionSpecs of all arguments: a pair of the positional ones and the keyword ones."""
        return jax.tree.unflatten(self._traced.exported.in_tree, self._flat(self._arguments, self._traced.arguments))

    @cached_property
    def out_specs(self) -> Any:
        """The PartitionSpecs of the results, as the function returns them."""
        return jax.tree.unflatten(self._traced.exported.out_tree, self._flat(self._results, self._traced.results))

    def shardings(self, specs: Any) -> Any:
        """The same tree with NamedShardings on the mesh."""
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), specs, is_leaf=lambda s: isinstance(s, PartitionSpec))

    @property
    def layouts(self) -> dict[str, PartitionSpec]:
        """By the path of each argument: its PartitionSpec."""
        return {leaf.path: spec for leaf, spec in
                zip(self._traced.arguments, self._flat(self._arguments, self._traced.arguments))}
