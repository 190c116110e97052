"""Pages of the command: a train step of three models, a limit, two plans, a sweep, no plan, a discovery, a run."""

import pytest
from units import bytes_text, seconds_text

SHOWN = ".view:not([hidden])"
PLANS = ["gpt", "moe", "resnet", "limited"]
ALL = [*PLANS, "whole", "compare", "front", "infeasible", "discovery", "measured", "without_module"]


@pytest.fixture
def page(chromium, pages):
    chromium.prefer("light")
    chromium.resize(1280, 800)

    def show(name, address=""):
        path, report = pages.page(name)
        chromium.open(path, address)
        return chromium, report

    yield show
    assert chromium.console() == []


@pytest.mark.parametrize("name", ALL)
def test_every_view_opens(page, name):
    page, report = page(name)
    for view in page.run("return app.frame.views.map((view) => view.id)"):
        page.go("#" + view)
        text = page.text(SHOWN)
        assert text and "undefined" not in text and "NaN" not in text and "[object" not in text, view
        assert page.run(f"return document.querySelector('{SHOWN}').scrollWidth - document.querySelector('{SHOWN}').clientWidth") == 0, view


@pytest.mark.parametrize("name", PLANS)
def test_figures_are_those_of_the_report(page, name):
    page, report = page(name)
    plan = report["plans"][0]
    figure = lambda what: page.text(f'{SHOWN} [data-figure="{what}"] .value')
    assert plan["bound"]["text"].split("\n")[0] in page.text('[data-field="step-text"]')
    assert figure("step") == seconds_text(plan["totals"]["step"])
    assert figure("exposed") == seconds_text(plan["totals"]["exposed"])
    assert figure("memory") == bytes_text(plan["memory"]["peak"])
    page.go("#memory")
    held = page.run("return heldByClass(app.plans[0]).map((series) => Array.from(series).slice(0, app.plans[0].data.memory.steps))")
    assert [sum(at) for at in zip(*held)] == plan["memory"]["held"]
    page.go("#collectives")
    changes = plan["changes"]
    total = sum(s * t for s, t in zip(changes["seconds"], changes["times"]))
    assert page.text(f"{SHOWN} .foot").endswith(
        f'{seconds_text(total)}, {seconds_text(sum(changes["exposed"]))} of it exposed, '
        f'{bytes_text(sum(b * t for b, t in zip(changes["bytes"], changes["times"])))} received by a device')


@pytest.mark.parametrize("name", PLANS)
def test_every_op_collective_and_argument_has_a_panel(page, name):
    page, report = page(name)
    plan = report["plans"][0]
    faults = page.run("""
        const plan = app.plans[0], faults = [];
        const look = (what, nodes) => {
          const text = append(document.createElement("div"), nodes).textContent;
          if (/undefined|NaN|There is no|No such/.test(text)) faults.push(what + ": " + text.slice(0, 200));
        };
        for (let op = 0; op < plan.numOps; ++op) look(plan.opName(op), opPanel(plan, plan.opName(op)));
        for (let arg = 0; arg < plan.numArgs; ++arg) look(plan.argName(arg), argPanel(plan, plan.argName(arg)));
        for (let change = 0; change < plan.numChanges; ++change) look(String(change), changePanel(plan, change));
        return faults.slice(0, 5)""")
    assert faults == []
    page.go("#collectives")
    row = int(page.elements(f"{SHOWN} .line")[0].get_attribute("data-row"))
    page.click(f'{SHOWN} .line[data-place="0"] > :nth-child(4)')
    assert page.text("aside.panel .reason") == plan["strings"][plan["changes"]["reason"][row]] != ""


@pytest.mark.parametrize("name", PLANS)
def test_every_change_of_layout_is_in_the_graph(page, name):
    """Each that is made for an op is on a line or at a box, with all blocks open; in blocks that are alike only the first is."""
    page, report = page(name, "#graph")
    missing, overlaps = page.run("""
        const g = app.views.get("graph 0"), plan = app.plans[0], found = new Set(), boxes = [], ops = new Set();
        g.constants = true; g.structures.clear();
        for (let i = 0; i < 12; ++i) g.openLevel();
        const walk = (place, x, y) => place.structure.items.forEach((item, i) => {
          const box = [x + place.xs[i], y + place.ys[i], place.widths[i], place.heights[i]];
          place.structure.edges.forEach((e) => e.changes.forEach((c) => found.add(c)));
          if (item.op >= 0) { ops.add(item.op); g.outside(place.structure, item.op).forEach((o) => o.changes.forEach((c) => found.add(c))); }
          if (place.inner[i]) walk(place.inner[i], box[0], box[1]); else boxes.push(box); });
        walk(g.root, 0, 0);
        boxes.sort((a, b) => a[1] - b[1]);
        let overlaps = 0;
        boxes.forEach((a, i) => { for (let j = i + 1; j < boxes.length && boxes[j][1] < a[1] + a[3]; ++j) {
          const b = boxes[j]; if (a[0] < b[0] + b[2] && b[0] < a[0] + a[2]) ++overlaps; } });
        const wanted = Array.from({length: plan.numChanges}, (_, c) => c).filter((c) => ops.has(plan.changes.op[c]) && plan.changes.source[c] !== plan.changes.op[c]);
        return [wanted.filter((c) => !found.has(c)), overlaps]""")
    assert missing == [] and overlaps == 0


def test_discovery_counts_every_rule(page):
    page, report = page("discovery")
    matrix = report["discovery"]["matrix"]
    assert len(page.elements(f"{SHOWN} [data-rule]")) == len(matrix["rows"])
    refuted = next(i for i, row in enumerate(matrix["rows"]) if row["witness"] >= 0)
    page.run(f"""document.querySelector('[data-rule="{refuted}"]').click()""")
    page.settle()
    assert report["discovery"]["witnesses"][matrix["rows"][refuted]["witness"]]["text"].split("\n")[0] in page.text(SHOWN)


def test_what_was_measured_is_beside_what_was_predicted(page):
    page, report = page("measured", "#measured")
    measured = report["plans"][0]["measured"]
    assert measured["ops"]["op"] and measured["checks"]
    for check in measured["checks"]:
        assert check["text"] in page.text(SHOWN)
    if measured["total"] is not None:
        assert page.text(f'{SHOWN} [data-figure="measured"] .value') == seconds_text(measured["total"])
