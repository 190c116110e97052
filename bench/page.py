#!/usr/bin/env python3
"""How long the page of a large plan takes in a browser: from opening the file until it can be used, to the first look at
each view, and to answer a key, a click or a turn of the wheel.

    bench/page.py [OPS [TIMES]]     a synthetic plan of so many ops (50000), the median of so many runs (5)

A step of the page (sorting, filtering, scrolling, zooming) is measured in JavaScript, until its elements are in the document or
its canvas is drawn; the time that the browser takes to put them on the screen comes on top. Beside them is the time that the
same browser takes to inflate and parse the data alone, which no page could do without.
"""

import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "page"))

VIEWS = ["summary", "mesh", "layers", "time", "timeline", "memory", "collectives", "graph"]

# What is done in an open page; each returns when its result is drawn.
STEPS = {
    "sort collectives by reason": "const t = app.views.get('collectives 0').table; t.click(12); t.click(12)",
    "filter collectives by text": "const v = app.views.get('collectives 0'); v.find.value = 'all_reduce'; v.filter()",
    "scroll collectives to the end": "const t = app.views.get('collectives 0').table; t.scroller.scrollTop = 1e9; t.draw()",
    "draw the whole timeline": "const t = app.views.get('timeline 0'); t.zoom.all(); t.surface.paint()",
    "zoom the timeline": "const t = app.views.get('timeline 0'); t.zoom.by(.5, t.zoom.length / 3); t.surface.paint()",
    "draw the whole memory": "const m = app.views.get('memory 0'); m.zoom.all(); m.surface.paint()",
    "memory: what is alive at a step": "const m = app.views.get('memory 0'); m.choose(m.step - 7, true); m.surface.paint()",
    "draw the graph": "app.views.get('graph 0').surface.paint()",
    "open all blocks of the graph": "const g = app.views.get('graph 0'); for (let i = 0; i < 4; ++i) g.openLevel(); g.surface.paint()",
    "draw the graph, all blocks open": "const g = app.views.get('graph 0'); g.view.y += 300; g.surface.paint()",
    "the whole graph at a glance": "const g = app.views.get('graph 0'); g.view = {x: 0, y: 0, scale: .02}; g.surface.paint()",
    "first search": "openSearch(); document.querySelector('dialog.search').close()",
    "search": "findEntries(searchIndex(app.plans[0]), 'dot 17')",
    "open the panel of an op": "go({op: app.plans[0].opName(app.plans[0].numOps >> 1)})",
}

PARSE = """const done = arguments[0], from = performance.now(); readReport().then(() => done(performance.now() - from))"""


def timed(page, step):
    return page.run(f"const from = performance.now(); {{ {step} }} return performance.now() - from")


def run(page, path):
    """One time of all: what was done -> milliseconds."""
    page.open(path)
    times = {"inflate and parse the data alone": page.driver.execute_async_script(PARSE)}
    times["open the page until it can be used"] = page.run("return app.ready")
    for view in VIEWS[1:]:
        times[f"first look at {view}"] = timed(page, f"go({{view: '{view}'}})")
        page.settle()
    for name, step in STEPS.items():
        times[name] = timed(page, step)
        page.settle()
    return times


def main():
    try:
        import browser
        import make_report
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return 0
    if browser.missing():
        print(f"SKIPPED: {', '.join(browser.missing())} is not installed")
        return 0
    ops, count = (int(sys.argv[1]) if len(sys.argv) > 1 else 50_000), (int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    document = make_report.report(make_report.of_size(ops))
    plan, text = document["plans"][0], make_report.page(document)
    print(f'{len(plan["ops"]["name"])} ops, {len(plan["changes"]["kind"])} changes of layout, {len(plan["memory"]["buffers"]["bytes"])} buffers: '
          f"a page of {len(text.encode()) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, browser.browser() as page:
        path = pathlib.Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        runs = [run(page, path) for _ in range(count)]
    base = statistics.median(r["inflate and parse the data alone"] for r in runs)
    print(f'{"":<38} {"milliseconds":>12} {"of parsing alone":>17}')
    for name in runs[0]:
        median = statistics.median(r[name] for r in runs)
        print(f"{name:<38} {median:>12.1f} {median / base:>17.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
