"""Plans whose program fits as XLA compiles it: XLA's own count of memory beside the planner's."""

import dataclasses
import math
import re

from cleave import progress
from cleave._core import UserError
from cleave.jax.check import size

ROUNDS = 8  # of planning and compiling, at most
NEAR = 0.01  # plans whose costs are closer than this are not told apart
CLOSE = 1.03  # nor limits that are this many times another
BINDS = 0.8  # a plan that holds less of its limit would not hold more of a larger one
MARGIN = 0.998  # of the limit that a ratio suggests, so that rounding does not cost a round
RAISE = 1.15  # the limit, if there is no plan within it: XLA may hold less than is planned


@dataclasses.dataclass(frozen=True)
class Fit:
    """How a plan was found whose program fits as it is compiled. Bytes are those of one device."""

    limit: int  # what the compiled program may hold
    compiled: int  # what it holds: arguments + results - aliased + temporaries
    planned: int  # what the planner predicts
    planned_limit: int  # within which it was planned
    rounds: int  # of planning and compiling

    def __str__(self) -> str:
        within = f", planned within {size(self.planned_limit)}" if self.planned_limit != self.limit else ""
        return f"as compiled, {size(self.compiled)} fit {size(self.limit)}{within} ({rounds_text(self.rounds)})"


def rounds_text(count):
    return f"{count} round{'s' if count != 1 else ''} of planning and compiling"


@dataclasses.dataclass
class Candidate:
    """A plan and what XLA made of it."""

    cost: float  # what plans are compared by
    planned: int  # bytes, by the planner
    compiled: int  # bytes, by XLA
    kept: object  # what the caller wants back
    planned_limit: int = 0


class Search:
    """Limits of planning, one after the other, and the best candidate whose compiled bytes are within `limit`.

    XLA's count is the planner's times a ratio that changes little from plan to plan. The next limit is the one at which the
    last ratio gives `limit`, between what is known to be too little and too much; if it is not between them, their middle.
    Plans of another kind have another ratio: if memory binds, the last limit is one further up, for what XLA may hold less of.
    """

    def __init__(self, limit):
        self.limit, self.next = limit, limit
        self.low, self.high = 0.0, math.inf  # limits of planning: within low all is known, from high on all is too large
        self.binds = self.has_reached = False  # a plan that fits holds most of what it may; the limit further up was tried
        self.best = self.least = self.cheaper = None  # that fits; of all, the smallest; that does not fit, the smallest such

    def add_none(self):
        """There is no plan within `next`."""
        self.low = max(self.low, self.next)
        self._choose(RAISE * self.next)

    def add(self, found):
        """A candidate that was planned within `next`."""
        found.planned_limit = self.next
        planned = min(self.next, found.planned)
        is_last = self.has_reached
        suggested = MARGIN * planned * self.limit / found.compiled
        if self.least is None or found.compiled < self.least.compiled:
            self.least = found
        if found.compiled > self.limit:
            if planned < self.high:
                self.high, self.cheaper = planned, found
            return self._choose(suggested) if not is_last else self._end()
        if self.best is None or (found.cost, found.compiled) < (self.best.cost, self.best.compiled):
            self.best = found
        self.low = max(self.low, self.next)
        self.binds = found.planned > BINDS * self.next
        self._choose(suggested if self.binds else 0) if not is_last else self._end()

    def _choose(self, wanted):
        known = self.best is not None and (self.cheaper is None or self.best.cost <= (1 + NEAR) * self.cheaper.cost)
        if self.high <= CLOSE * self.low or (known and wanted <= CLOSE * self.low):
            self._end()
        elif CLOSE * self.low < wanted < self.high:
            self.next = int(wanted)
        elif self.high < math.inf:
            self.next = int((self.low + self.high) / 2) if self.low else int(min(wanted, (1 - NEAR) * self.high))
        else:
            self._end()

    def _end(self):
        furthest = int(RAISE * self.limit)
        reaches = self.best is not None and self.binds and not self.has_reached
        if reaches and CLOSE * self.low < furthest < self.high:
            self.next, self.has_reached = furthest, True
        else:
            self.next = None


def fit_compiled(limit, make, variants, tell=None):
    """The best candidate whose compiled bytes are within the limit, and its Fit. `make(limit, variant)` plans within a limit of
    the planner's count and compiles: a Candidate, or a UserError if no plan fits. Variants are objectives and seeds. Only if
    nothing fits that is planned by the first, others follow: their plans hold memory elsewhere."""
    rounds, least, why = 0, None, None
    for variant in variants:
        search = Search(limit)
        last = rounds + ROUNDS
        while search.next is not None and rounds < last:
            rounds += 1
            what = f"fit, round {rounds}{'' if variant == variants[0] else ', for {}, seed {}'.format(*variant)}"
            try:
                found = make(search.next, variant)
            except UserError as error:
                if not re.search("no plan (fits|was found that fits)", str(error)):
                    raise
                why = why or error
                say(tell, f"{what}: no plan fits {size(search.next)} by the planner's count")
                search.add_none()
                continue
            is_good = found.compiled <= limit
            say(tell, f"{what}: planned within {size(search.next)}, compiled {size(found.compiled)}, "
                      f"{'which fits' if is_good else 'above'} {size(limit)}")
            search.add(found)
        if search.least is not None and (least is None or search.least.compiled < least.compiled):
            least = search.least
        if search.best is not None or least is None:
            break
    best = search.best
    if least is None:
        raise why
    if best is None:
        raise UserError(f"autoshard: no plan was found that fits {size(limit)} as compiled: XLA holds at least "
                        f"{size(least.compiled)}, planned within {size(least.planned_limit)} ({rounds_text(rounds)}); give it "
                        'more memory, or fit="planned" to go by the planner\'s count')
    return best, Fit(limit, best.compiled, best.planned, best.planned_limit, rounds)


def say(tell, line):
    progress.logger.info(line)
    if tell:
        tell(line)
