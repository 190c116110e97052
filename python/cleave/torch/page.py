"""An audit as a page of Markdown."""


def code(text):
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`"


def page_of(audit, groups=None):
    """`groups` are the incorrect rules by their causes, as `grouped` makes them."""
    groups = grouped(audit.incorrect, []) if groups is None else groups
    parts = [head(audit), incorrect(audit, groups), missing(audit), unsupported(audit), untestable(audit), again(audit)]
    return "\n".join(part for part in parts if part)


def head(audit):
    options = audit.about["options"]
    minutes = audit.total("seconds") / 60
    return wrapped_text(f"""# DTensor's sharding rules, audited

`cleave.torch.audit()` takes the calls that PyTorch's own samples (OpInfo) make of ATen operators, finds out by execution which
placements each call supports, asks DTensor what it does with the same placements, and compares. A rule counts as incorrect only
if DTensor itself, run on all ranks, gives a wrong number.

| | |
|---|---|
| versions | torch {audit.about['torch']}, cleave {audit.about['cleave']} |
| audited | {len(audit.records)} overloads of {len(audit.entries)} OpInfo entries, in {sum(len(r['calls']) for r in audit.records)} calls |
| dtypes of the samples | {', '.join(options['dtypes'])} |
| calls of each overload | at most {options['calls']}, that differ in ranks, dtypes or arguments |
| devices | {', '.join(map(str, options['worlds']))} and divisors of the sizes, so that shards are even and uneven; {'2 x 2 for pairs of rules' if options['two_axes'] else 'one mesh axis'} |
| combinations decided | {audit.total('combinations')} |
| rules of DTensor | {audit.total('rules')} on one mesh axis, {audit.total('pairs')} pairs of rules on 2 x 2 devices |
| of these right | {audit.total('agreed')} by execution on parts, {audit.total('agreed_by_running')} by a run of DTensor |
| incorrect | {len(audit.incorrect)} |
| missing | {len(audit.missing)} placements are right that DTensor redistributes |
| time | {minutes:.0f} minutes of processor time |
""")


def grouped(incorrect, causes):
    """[(cause, rows)]: `causes` are [pattern of overloads, pattern of rules, pattern of what is special, cause], the first that
    fits; what fits none goes by what is special about its numbers."""
    import fnmatch

    groups = {cause: [] for *_, cause in causes}
    for row in incorrect:
        op, rule = row["rule"].split(": ", 1)
        cause = next((cause for ops, rules, special, cause in causes if fnmatch.fnmatchcase(op, ops)
                      and fnmatch.fnmatchcase(rule.replace("[", "(").replace("]", ")"), rules)
                      and fnmatch.fnmatchcase(row["special"], special)), None)
        groups.setdefault(cause or (f"Wrong for some numbers only: {row['special']}" if row["special"] else "Not grouped"), []).append(row)
    return [(cause, rows) for cause, rows in groups.items() if rows]


def incorrect(audit, groups):
    if not groups:
        return "## Incorrect\n\nNone.\n"
    lines = ["## Incorrect", "",
             wrapped("Each was seen in a run of DTensor itself. The number in front is that of its program: `scripts/dtensor-audit --show N` "
                     "prints it and `--run N` runs it, with status 1 if DTensor is wrong. `tests/python/test_dtensor_findings.py` runs "
                     "all of them against the installed PyTorch. A witness says the placements of an operand behind its numbers."), ""]
    number = 0
    for cause, rows in groups:
        title, _, words = cause.partition(". ")
        lines += [f"### {title} ({len(rows)})", ""]
        if words:
            lines += [wrapped(words), ""]
        lines += ["| N | rule | devices | smallest witness | what DTensor gives |", "|---|---|---|---|---|"]
        for row in rows:
            number += 1
            lines.append(f"| {number} | {code(row['rule'])} | {row['devices']} | {witness(row)} | {row['difference']} |")
        lines.append("")
    first = groups[0][1][0]
    lines += ["The first program in full:", "", "```python", audit.script(first).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def witness(row):
    """The numbers if they are few, otherwise the call."""
    if row["witness"] and len(row["witness"]) <= 160:
        return code(row["witness"])
    return code(row["call"])


def missing(audit, most=150):
    """By the bytes that a device receives because DTensor redistributes, for each MiB of operands."""
    lines = ["## Missing", "",
             "Placements that are right in every call that was tried, and that DTensor redistributes. *KiB* is what a device receives",
             "in that redistribution for each MiB of operands; *calls* are those in which the rule holds (and in which it does not).",
             "", "| overload | placements | KiB | instead | calls |", "|---|---|---|---|---|"]
    whole = [row for row in audit.missing if row["bytes_per_mib"] > 0 and not row["refuted_in"]]
    for row in whole[:most]:
        rule = f"{', '.join(row['inputs'])} -> {', '.join(row['outputs'])}"
        lines.append(f"| {code(row['op'])} | {code(rule)} | {row['bytes_per_mib'] / 1024:.0f} | {row['instead'].replace('|', '/')} | "
                     f"{len(row['valid_in'])} |")
    some = [row for row in audit.missing if row["refuted_in"]]
    lines += ["", f"{max(len(whole) - most, 0)} more hold in every call, and {len(some)} in some calls only; `audit.json` has them all."]
    return "\n".join(lines) + "\n"


def unsupported(audit):
    if not audit.unsupported:
        return ""
    return ("## Without a strategy\n\nDTensor refuses these overloads, or has only their decomposition into others:\n\n"
            + wrapped(", ".join(code(op) for op in audit.unsupported)) + "\n")


def untestable(audit):
    rows = audit.untestable
    lines = ["## Untestable", "", f"{len(rows)} rules or calls; the reasons, most frequent first:", "",
             "| reason | times | such as |", "|---|---|---|"]
    by_reason = {}
    for row in rows:
        by_reason.setdefault(general(row["reason"]), []).append(row)
    for reason, of in sorted(by_reason.items(), key=lambda item: -len(item[1]))[:40]:
        lines.append(f"| {reason.replace('|', '/')} | {len(of)} | {code(of[0].get('rule') or of[0]['call'])} |")
    if audit.skipped:
        lines += ["", f"Not tried at all: {len(audit.skipped)} overloads and entries:", ""]
        reasons = {}
        for name, reason in audit.skipped.items():
            reasons.setdefault(reason.split(":")[0], []).append(name)
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            lines.append(wrapped(f"- {reason} ({len(names)}): {', '.join(code(n) for n in sorted(names)[:12])}"
                                 + (", ..." if len(names) > 12 else "")))
    return "\n".join(lines) + "\n"


def again(audit):
    options = audit.about["options"]
    said = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"""## Run it again

    PYTHONPATH=build/release/python .venv/bin/python scripts/dtensor-audit FOLDER    # this page, and the findings that the tests run

It keeps what is done in `FOLDER/audit.jsonl`, so that an audit that was stopped goes on, and works in two processes
(`-j`). From Python, on some operators or with other options:

```python
import cleave.torch

audit = cleave.torch.audit("all", {said}, folder="audit")
print(audit)
audit.save("audit")
```
"""


def wrapped_text(text):
    """Paragraphs within the width of pages; tables and titles as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith(("|", "#")) else wrapped(part.replace("\n", " ")) for part in parts)


def general(reason):
    """Without what differs from call to call."""
    words = reason.split(": ")
    return ": ".join(words[:2])[:140]


def wrapped(text, width=118):
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ("  " if text.startswith("- ") else "") + word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])
