"""DTensor's rules for one overload beside what discovery finds for the same calls."""

import itertools
import math
import time

import torch

from cleave._core import UserError
from cleave.torch import dtensor, findings, own_placements, samples, trial

VALID = ("proved", "tested")
PAIRS = 6  # of rules that are tried together on a mesh of two axes, for each call
CALLS_ON_TWO_AXES = 1  # of each overload
MOST_ROWS = 2000  # of placements of operands that DTensor alone is asked about
MIB = 1 << 20


def empty_record(name, calls):
    return {"op": name, "entries": sorted({call.source for call in calls}), "calls": [call.text() for call in calls],
            "dtypes": sorted({samples.DTYPES[t.dtype] for call in calls for t in call.tensors}), "combinations": 0, "rules": 0,
            "agreed": 0, "agreed_by_running": 0, "pairs": 0, "incorrect": [], "missing": [], "untestable": [],
            "strategy": dtensor.has_strategy(calls[0].op), "seconds": 0.0}


def audit_overload(name, calls, worlds=(2, 3), two_axes=True, seed=0, careful=False):
    """What was found, as plain data. A careful one runs the rules of DTensor alone: other parts crash some operators."""
    begin = time.process_time()
    record, missing = empty_record(name, calls), {}
    for number, call in enumerate(calls):
        try:
            one = CallAudit(call, record, missing, worlds, seed)
            (one.run_rules if careful else one.run)(two_axes and number < CALLS_ON_TWO_AXES)
        except UserError as error:
            record["untestable"].append({"call": call.text(), "reason": str(error)})
        except Exception as error:  # noqa: BLE001: no operator ends the audit of the others
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
            record["untestable"].append({"call": call.text(), "reason": reason})
    if careful:
        record["untestable"].append({"call": calls[0].text(), "reason": "PyTorch crashes on some parts: rules of DTensor were run, and "
                                                                        "missing ones not looked for"})
    record["missing"] = sorted((row for row in missing.values() if row["valid_in"]), key=lambda row: -row["bytes_per_mib"])
    record["seconds"] = round(time.process_time() - begin, 3)
    return record


def divisor(sizes):
    """The number of ranks on which such dimensions are in equal parts; 2 if there is none."""
    common = math.gcd(*sizes) if sizes else 2
    return next((k for k in range(2, 8) if common % k == 0), 2)


class CallAudit:
    def __init__(self, call, record, missing, worlds, seed):
        self.call, self.record, self.missing, self.worlds, self.seed = call, record, missing, worlds, seed
        self.rules = []  # operand placements that DTensor takes as they are, and that are right

    def run(self, two_axes):
        sizes = {divisor([size]) for t in self.call.tensors for size in t.shape if size > 1}
        self.found = samples.discover(self.call, sorted({*self.worlds, *sizes}), self.seed)
        _, self.result_shapes, rows = self.found.decisions()[0]
        self.record["combinations"] += len(rows)
        by_operands = {}
        for index, row in enumerate(rows):
            by_operands.setdefault(row[0], {})[row[1], row[2]] = (index, *row[3:])
        for operands, verdicts in by_operands.items():
            if self._is_worth_asking(operands):
                self._compare(operands, verdicts)
        self._beside(two_axes)

    def _beside(self, two_axes):
        for placements in own_placements.pending_norms(self.call.tensors):
            self._try_on((2,), placements)
        if two_axes:
            self._two_axes()

    def run_rules(self, two_axes):
        """What DTensor has rules for, without what discovery knows of it."""
        self.found, self.result_shapes = None, [tuple(one.shape) for one in self.call.run(self.call.tensors)]
        each = [["R", *(f"S({d})" for d in range(t.ndim)), "P(sum)", "P(avg)", "P(max)", "P(min)"] for t in self.call.tensors]
        for operands in itertools.islice(itertools.product(*each), MOST_ROWS):
            if self._is_worth_asking(operands):
                self._compare(operands, {})
        self._beside(two_axes)

    def _is_worth_asking(self, operands):
        """Not what is replicated anyway, not products, not averages of integers, not two different reductions, not dimensions of
        one element."""
        def is_real(text, tensor):
            if text.startswith("S"):
                return tensor.shape[int(text[2:-1])] > 1
            return text != "P(prod)" and (text != "P(avg)" or tensor.dtype.is_floating_point)
        kinds = {text for text in operands if text.startswith("P")}
        return len(kinds) < 2 and any(text != "R" for text in operands) and all(map(is_real, operands, self.call.tensors))

    def _ranks(self, operands):
        return divisor([t.shape[int(text[2:-1])] for text, t in zip(operands, self.call.tensors) if text.startswith("S")])

    def _compare(self, operands, verdicts):
        placements = [dtensor.placement_of(text) for text in operands]
        ranks = self._ranks(operands)
        answer = dtensor.ask(self.call, dtensor.mesh_of((ranks,)), [[p] for p in placements])
        if isinstance(answer, dtensor.Answer) and answer.has_rule:
            self.record["rules"] += 1
            self._check_rule(operands, placements, ranks, answer, verdicts)
            return
        if self.found:
            self._look_for_missing(operands, ranks, answer, verdicts)

    # ---- rules that DTensor has

    def _check_rule(self, operands, placements, ranks, answer, verdicts):
        texts = [dtensor.text_of(of[0]) if of is not None else None for of in answer.outputs]
        worst = None
        for result, text in enumerate(texts):
            verdict = verdicts.get((result, text))
            if verdict is None or verdict[1] not in VALID and ranks not in verdict[3]:
                worst = verdict if worst is None or verdict and verdict[1] == "refuted" else worst
                if worst is None:
                    worst = (None, "another placement", 0, [], "")
        if worst is None and len(texts) >= len(self.result_shapes):
            self.record["agreed"] += 1
            self.rules.append(placements)
            self._try_uneven(placements, answer, [verdicts[pair] for pair in enumerate(texts) if pair in verdicts])
            return
        title = f"{self.call.op}: {', '.join(operands)} -> {', '.join(str(text or 'of its own') for text in texts)}"
        known = next((row for row in self.record["incorrect"] if row["rule"] == title), None)
        if known:  # in another call
            known["calls"] += 1
            if not known["special"]:
                return
        # What DTensor does beyond the operator on local parts (other sizes, masks) shows when it runs.
        for repeat in range(3):
            made = trial.trial_of(self.call, (ranks,), [[p] for p in placements], self.seed + repeat)
            if made is None:
                self.record["untestable"].append({"call": self.call.text(), "rule": title, "reason": "operands cannot be split so"})
                return
            if self._is_wrong(title, made, ""):
                break
        else:
            made = None
        if known and made is None:
            return
        if known and self.record["incorrect"][-1] is not known and self.record["incorrect"][-1]["rule"] == title:  # now with everyday numbers
            self.record["incorrect"].remove(known)
            self.record["incorrect"][-1]["calls"] = known["calls"]
        if worst is not None and worst[1] == "refuted":
            witness = self.found.witness(0, worst[0])
            smallest = trial.trial_of_witness(witness, placements)
            if made is not None:
                self._show_by(title, smallest, witness["text"])
            elif self._is_wrong(title, smallest, witness["text"], trial.what_is_special(self.call, smallest)):
                return
        if made is None:
            self.record["agreed_by_running"] += 1
            self.rules.append(placements)

    def _try_uneven(self, placements, answer, verdicts):
        """A rule for shards of one size, on numbers of devices for which it is wrong: DTensor should not have it there."""
        right = [set(verdict[3]) for verdict in verdicts if verdict[1] not in VALID]
        wrong = [w for w in self.worlds if any(w not in of for of in right)]
        for w in wrong:
            other = dtensor.ask(self.call, dtensor.mesh_of((w,)), [[p] for p in placements])
            if isinstance(other, dtensor.Answer) and other.has_rule and other.outputs == answer.outputs:
                self._try_on((w,), [[p] for p in placements])

    def _is_wrong(self, title, made, witness, special=""):
        """Whether DTensor's own run gives another result; or does not run, which ends the matter too."""
        try:
            words, count, _ = trial.run(self.call, made)
        except Exception as error:  # noqa: BLE001: of any operator
            reason = f"DTensor has the rule, and raises {type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
            self.record["untestable"].append({"call": self.call.text(), "rule": title, "reason": reason})
            return True
        if not words:
            return False
        unfit = trial.why_unfit(self.call, made)
        if unfit:
            self.record["untestable"].append({"call": self.call.text(), "rule": title, "reason": unfit})
            return False
        known = next((row for row in self.record["incorrect"] if row["rule"] == title and not row["special"]), None)
        if known:  # on another number of devices, or in another call
            known["calls"] += 1
            return True
        self.record["incorrect"].append({"rule": title, "call": self.call.text(), "calls": 1, "special": special,
                                         "communicates": count > 0, **self._shown(title, made, witness, words)})
        return True

    def _shown(self, title, made, witness, words):
        devices = " x ".join(map(str, made.mesh))
        return {"devices": devices, "difference": words, "witness": witness, "finding": findings.finding(self.call, made)}

    def _show_by(self, title, made, witness):
        """The smallest numbers that were found take the place of the sample's, if DTensor is wrong about them too."""
        row = self.record["incorrect"][-1] if self.record["incorrect"] else None
        if row is None or row["rule"] != title:
            return
        try:
            words, _, _ = trial.run(self.call, made)
        except Exception:  # noqa: BLE001: the other numbers have shown it
            return
        if words and not trial.why_unfit(self.call, made):
            row.update(self._shown(title, made, witness, words))

    # ---- rules that it does not have

    def _look_for_missing(self, operands, ranks, answer, verdicts):
        outputs = []
        for result, shape in enumerate(self.result_shapes):
            good = [text for (of, text), verdict in verdicts.items() if of == result and verdict[1] in VALID]
            if not good:
                break
            # A replicated result is also pending; of the others sharded comes first.
            outputs.append(min(good, key=lambda text: "RSP".index(text[0])))
        key = (operands, tuple(outputs) if len(outputs) == len(self.result_shapes) else None)
        row = self.missing.setdefault(operands, {"inputs": list(operands), "outputs": None, "valid_in": [], "refuted_in": 0,
                                                 "bytes_per_mib": 0.0, "instead": ""})
        if key[1] is None or row["outputs"] not in (None, list(outputs)):
            row["refuted_in"] += 1
            return
        row["outputs"] = list(outputs)
        row["valid_in"].append(self.call.text())
        if isinstance(answer, dtensor.Answer):
            whole = sum(t.numel() * t.element_size() for t in self.call.tensors)
            forced = dtensor.moved_bytes(answer, self.call, ranks) / whole * MIB
            if forced > row["bytes_per_mib"] or not row["instead"]:
                row["bytes_per_mib"] = round(forced)
                row["instead"] = "; ".join(f"operand {i}: {dtensor.text_of(a[0])} to {dtensor.text_of(b[0])}"
                                           for i, a, b in answer.redistributed)
        else:
            row["instead"] = answer

    # ---- meshes of two axes

    def _two_axes(self):
        """Two rules at once: both axes on one dimension first, where the order matters."""
        def is_same(pair):
            return any(a.is_shard() and a == b for a, b in zip(*pair))

        def can_be(pair):  # DTensor has no tensor that waits for two different reductions
            return all(not (a.is_partial() and b.is_partial()) or a == b for a, b in zip(*pair))
        pairs = sorted(filter(can_be, itertools.product(self.rules, repeat=2)), key=lambda pair: not is_same(pair))
        for a, b in pairs[:PAIRS]:
            placements = [list(of) for of in zip(a, b)]
            self._try_on((2, 2), placements)
            for turned in own_placements.opposite_orders(placements):
                self._try_on((2, 2), turned)

    def _try_on(self, mesh, placements):
        """Runs DTensor if it takes these placements as they are, and if operands come back whole from them."""
        answer = dtensor.ask(self.call, dtensor.mesh_of(tuple(mesh)), placements)
        if not isinstance(answer, dtensor.Answer) or not answer.has_rule:
            return
        made = trial.trial_of(self.call, mesh, placements, self.seed)
        if made is None or not trial.comes_back(made):
            return
        self.record["rules" if len(mesh) == 1 else "pairs"] += 1
        outputs = [written(of) if of is not None else "of its own" for of in answer.outputs]
        is_right = not self._is_wrong(f"{self.call.op}: {', '.join(map(written, placements))} -> {', '.join(outputs)}", made, "")
        self.record["agreed_by_running"] += is_right and len(mesh) == 1


def written(placements):
    """On one mesh axis S(0), on two [S(0), R]."""
    texts = [str(dtensor.text_of(placement) or placement) for placement in placements]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
