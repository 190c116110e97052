"""The page in a browser: every figure is one of the report, and every control does what it says."""

import random
import re

import make_report
import pytest
from selenium.webdriver.common.keys import Keys
from units import bytes_text, percent_text, seconds_text

VIEWS = ["summary", "mesh", "layers", "time", "timeline", "memory", "collectives", "graph"]
SHOWN = ".view:not([hidden])"


@pytest.fixture(scope="module")
def gpt():
    return make_report.report(make_report.gpt())


def strings(plan, places):
    return [plan["strings"][place] for place in places]


def figure(page, name):
    return page.text(f'{SHOWN} [data-figure="{name}"] .value')


def column(page, nth):
    """The cells of a column, of the rows that are drawn."""
    return page.texts(f"{SHOWN} .grid .line > :nth-child({nth})")


def shown_rows(page):
    """Rows of the table that is shown, from the top: places in the report."""
    return page.run(f"""return [...document.querySelectorAll("{SHOWN} .grid .line")]
        .sort((a, b) => a.dataset.place - b.dataset.place).map((line) => Number(line.dataset.row))""")


# Figures


def test_figures_are_written_as_the_command_writes_them(page, gpt):
    page = page(gpt)
    draw = random.Random(3)
    seconds = [0, 1, 0.999999, 1e-3, 9.99e-4, 1.005e-3, 2.5e-6, 0.125, 1.125, 1e-9, 123.456, 0.0624995]
    seconds += [10 ** draw.uniform(-9, 3) for _ in range(500)] + [draw.randrange(10**6) / 2**k for k in range(3, 40)]
    sizes = [0, 1, 999, 1023, 1024, 1280, 1536, 1792, 2**20, 2**20 - 1, 2**30, 5 * 2**28, 2**40, 1152]
    sizes += [draw.randrange(2**draw.randrange(1, 45)) for _ in range(500)] + [64 * k for k in range(200)]
    assert page.run("return arguments[0].map((s) => secondsText(s))", seconds) == list(map(seconds_text, seconds))
    assert page.run("return arguments[0].map(bytesText)", sizes) == list(map(bytes_text, sizes))


def test_summary_has_the_figures_of_the_report(page, gpt):
    plan, page = gpt["plans"][0], page(gpt)
    totals, memory = plan["totals"], plan["memory"]
    assert plan["bound"]["text"] in page.text('[data-field="step-text"]')
    assert figure(page, "step") == seconds_text(totals["step"])
    assert figure(page, "bound") == seconds_text(plan["bound"]["step_bound"])
    assert figure(page, "exposed") == seconds_text(totals["exposed"])
    assert figure(page, "memory") == bytes_text(memory["peak"])
    assert figure(page, "mfu") == "0.021%"
    text = page.text(SHOWN)
    for limit in plan["figures"]["limits"]:
        assert limit["what"] + seconds_text(limit["seconds"]) in text
    for note in plan["notes"]:
        assert note in text
    for one in totals["collectives"]:
        assert f'{one["kind"]} {one["axes"]}{seconds_text(one["seconds"])}{percent_text(one["seconds"] / totals["seconds"])}' in text


def test_a_plan_is_proven_best_only_if_its_step_is(page):
    plan = make_report.gpt()
    plan["bound"].update(proven=True, step_gap=0.31)  # best of what the solver adds up, without overlap
    assert "proven best" not in page(make_report.report(plan)).text(f'{SHOWN} [data-figure="bound"]')
    plan["bound"].update(step_gap=0.0)
    assert "proven best" in page(make_report.report(plan)).text(f'{SHOWN} [data-figure="bound"]')


def test_the_bars_fill_their_width_in_proportion(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#time")
    widths = page.run(f"""return [...document.querySelector("{SHOWN} .stack").children].map((part) =>
        [part.dataset.part, part.getBoundingClientRect().width])""")
    whole = page.run(f'return document.querySelector("{SHOWN} .stack").clientWidth')
    times = {c["what"]: c["seconds"] for c in plan["classes"]}
    times |= {f'{c["kind"]} {c["axes"]}': c["seconds"] for c in plan["totals"]["collectives"]}
    assert {name for name, _ in widths} == {name for name, seconds in times.items() if seconds > 0}
    for name, width in widths:
        assert width == pytest.approx(whole * times[name] / sum(times.values()), abs=6), name


def test_time_lists_groups_dearest_first(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#time")
    assert column(page, 1)[:5] == [seconds_text(g["seconds"]) for g in plan["groups"][:5]]
    assert column(page, 4)[:5] == [g["what"] for g in plan["groups"][:5]]
    assert column(page, 6)[:5] == strings(plan, [g["type"] for g in plan["groups"][:5]])


def test_memory_adds_up_to_the_report(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#memory")
    memory, peak = plan["memory"], plan["memory"]["program_peak_step"]
    sums = page.run("return heldByClass(app.plans[0]).map((series) => Array.from(series).slice(0, app.plans[0].data.memory.steps))")
    assert [sum(series[s] for series in sums) for s in range(memory["steps"])] == memory["held"]
    buffers = memory["buffers"]
    alive = sorted((b for f, l, b in zip(buffers["first"], buffers["last"], buffers["bytes"]) if f <= peak <= l), reverse=True)
    assert column(page, 1)[:8] == [bytes_text(b) for b in alive[:8]]
    assert f"{len(alive)} buffers" in page.text(f"{SHOWN} .foot")
    assert bytes_text(memory["held"][peak]) + " alive" in page.text(SHOWN)


def test_collectives_add_up_to_the_report(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#collectives")
    changes = plan["changes"]
    total = sum(s * t for s, t in zip(changes["seconds"], changes["times"]))
    assert f'{len(changes["kind"])} changes of layout' in page.text(f"{SHOWN} .foot")
    assert page.text(f"{SHOWN} .foot").endswith(
        f'{seconds_text(total)}, {seconds_text(sum(changes["exposed"]))} of it exposed, {bytes_text(sum(changes["bytes"]))} received by a device')
    first = shown_rows(page)[0]
    assert first == max(range(len(changes["seconds"])), key=lambda c: changes["seconds"][c])
    cells = page.texts(f'{SHOWN} .line[data-place="0"] > span')
    op = changes["op"][first]
    assert cells[0] == plan["strings"][changes["kind"][first]] + plan["strings"][changes["axes"][first]]
    assert cells[1] == plan["strings"][plan["ops"]["name"][op]] + plan["strings"][changes["line"][first]]
    assert cells[2:5] == [bytes_text(changes["bytes"][first]), seconds_text(changes["seconds"][first]), seconds_text(changes["exposed"][first])]
    assert cells[5] == f'{plan["specs"][changes["from"][first]]["text"]}→ {plan["specs"][changes["to"][first]]["text"]}'
    assert cells[6] == plan["strings"][changes["reason"][first]]


# Controls


def test_tables_sort_by_every_column(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#collectives")
    changes = plan["changes"]
    text = lambda key: strings(plan, changes[key])
    spec = lambda key: [plan["specs"][s]["text"] for s in changes[key]]
    ops = [plan["strings"][plan["ops"]["name"][op]] if op >= 0 else "a result" for op in changes["op"]]
    keys = {"Collective": [f"{k} {a}" for k, a in zip(text("kind"), text("axes"))], "For": ops, "Line": text("line"),
            "Received": changes["bytes"], "Time": changes["seconds"], "Exposed": changes["exposed"], "From": spec("from"),
            "To": spec("to"), "Why": text("reason")}
    for nth, button in enumerate(page.elements(f"{SHOWN} .head button")):
        values = keys.pop(button.text.rstrip(" \u2191\u2193\u00b7").lstrip("\u00b7\u00a0 "))
        for _ in range(2):
            page.click(f"{SHOWN} .head button", nth)
            down = page.run(f"""return document.querySelectorAll("{SHOWN} .head button")[{nth}].parentNode.getAttribute("aria-sort")""") == "descending"
            rows = [values[row] for row in shown_rows(page)]
            assert rows == sorted(values, reverse=down)[:len(rows)]
    assert not keys


def test_collectives_filter_by_text_kind_and_axis(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#collectives")
    kinds, axes = strings(plan, plan["changes"]["kind"]), strings(plan, plan["changes"]["axes"])
    page.run("""const s = document.querySelector('select[aria-label="Kind"]'); s.value = "all_reduce"; s.dispatchEvent(new Event("change"))""")
    page.settle()
    assert sorted(shown_rows(page)) == [c for c, kind in enumerate(kinds) if kind == "all_reduce"]
    page.run("""const s = document.querySelector('select[aria-label="Axis"]'); s.value = "0"; s.dispatchEvent(new Event("change"))""")
    page.settle()
    assert sorted(shown_rows(page)) == [c for c, kind in enumerate(kinds) if kind == "all_reduce" and '"data"' in axes[c]]
    page.run("""for (const s of document.querySelectorAll("select")) { s.value = ""; s.dispatchEvent(new Event("change")); }""")
    page.type(f'{SHOWN} input[type="search"]', "model.py:70")
    lines = strings(plan, plan["changes"]["line"])
    assert sorted(shown_rows(page)) == [c for c, line in enumerate(lines) if line == "model.py:70"]
    page.type(f'{SHOWN} input[type="search"]', "no such thing")
    assert shown_rows(page) == [] and "No collective is like that." in page.text(SHOWN)


def test_a_collective_opens_its_reason(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#collectives")
    row = shown_rows(page)[3]
    page.click(f'{SHOWN} .line[data-place="3"] > :nth-child(4)')
    assert page.text("aside.panel .reason") == plan["strings"][plan["changes"]["reason"][row]]
    assert page.run("return location.hash") == f"#collectives&change={row}"
    page.key(Keys.ESCAPE)
    assert page.run("return document.querySelector('aside.panel').hidden")


def test_a_collective_of_the_module_has_no_layouts(page):
    plan = make_report.gpt()
    for end in ("from", "to"):
        plan["changes"][end] = [-1] * len(plan["changes"][end])
    page = page(make_report.report(plan), "#collectives&change=2")
    assert column(page, 1) and "→" not in page.text(f"{SHOWN} .grid")
    headings = page.texts("aside.panel h3")
    assert "In" in headings and "From" not in headings and "To" not in headings


def test_an_op_shows_its_layouts_its_ways_and_why_they_lost(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#op=dot_general.3")
    op = strings(plan, plan["ops"]["name"]).index("dot_general.3")
    text = page.text("aside.panel")
    assert plan["strings"][plan["ops"]["line"][op]] in text
    assert seconds_text(plan["ops"]["seconds"][op]) in text
    for spec in plan["ops"]["in"][op] + plan["ops"]["out"][op]:
        assert plan["specs"][spec]["text"] in text
    ways = plan["ways"][plan["ops"]["alternatives"][op]]
    assert f'{ways["count"]} ways to run it' in text
    cards = page.texts("[data-way]")
    assert len(cards) == len(ways["list"])
    for card, way in zip(cards, ways["list"]):
        assert card.startswith(seconds_text(way["compute"] + way["operands"] + way["results"]))
        assert plan["strings"][way["layouts"]] in card and plan["strings"][way["why"]] in card
        assert ("chosen" in card) == bool(way["chosen"])


def test_names_are_found(page, gpt):
    page = page(gpt)
    page.key("/")
    page.key("feed_forward.up")
    assert page.texts("dialog [role=option] .mono")[0] == "[0].layers[0].feed_forward.up"
    page.key(Keys.ENTER)
    assert page.text("aside.panel h2") == "[0].layers[0].feed_forward.up"
    page.key("/")
    page.key("dot_general.1")  # the name itself comes before those that begin with it
    assert page.texts("dialog [role=option] .mono")[:2] == ["dot_general.1", "dot_general.10"]
    page.key(Keys.ESCAPE)
    page.key("/")
    page.key("model.py:47")
    page.key(Keys.ENTER)
    assert page.text("aside.panel h2") == "dot_general.2"


def test_addresses_lead_to_views_and_panels(page, gpt):
    page = page(gpt, "#memory&op=dot_general.1")
    assert page.run(f'return document.querySelector("{SHOWN}").dataset.view') == "memory"
    assert page.text("aside.panel h2") == "dot_general.1"
    for view in VIEWS:
        page.go("#" + view)
        assert page.run(f'return document.querySelector("{SHOWN}").dataset.view') == view
        assert page.run("return document.querySelectorAll('.view:not([hidden])').length") == 1
    page.go("#op=no_such_op")
    assert "There is no op of this name" in page.text("aside.panel")
    page.go("#%E0%A4%A&op=%")
    assert page.run("return app.route.view") in VIEWS


def test_keys_lead_through_views_and_rows(page, gpt):
    page = page(gpt)
    for view in VIEWS[1:]:
        page.key("]")
        assert page.run("return app.route.view") == view
    for view in VIEWS[-2::-1]:
        page.key("[")
        assert page.run("return app.route.view") == view
    page.go("#collectives")
    page.run(f'document.querySelector("{SHOWN} .scroll").focus()')
    rows = shown_rows(page)
    page.key(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert page.run("return app.route.change") == str(rows[1])
    page.key(Keys.END)
    assert page.run(f"""return document.querySelector('{SHOWN} [aria-selected="true"]').dataset.place""") == str(
        len(gpt["plans"][0]["changes"]["kind"]) - 1)


def test_the_timeline_zooms_and_opens_what_is_clicked(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#timeline")
    canvas = f"{SHOWN} canvas"
    window = lambda: page.run("const z = app.views.get('timeline 0').zoom; return [z.from, z.to]")
    length = plan["schedule"]["seconds"]
    assert window() == [0, length]
    page.run(f"document.querySelector('{canvas}').focus()")
    page.key("+")
    assert window()[1] - window()[0] == pytest.approx(length / 2)
    page.key(Keys.ARROW_RIGHT)
    assert window()[0] > length / 4
    page.key("-", "-", "-")
    assert window() == [0, length]
    page.wheel_at(canvas, 300, 60, -300)
    assert window()[1] - window()[0] < length / 2
    page.key("0")
    assert window() == [0, length]
    events = plan["schedule"]["events"]
    event = max((i for i, s in enumerate(events["stream"]) if s == 0), key=lambda i: events["length"][i])
    place = page.run("""const t = app.views.get("timeline 0"), lane = timelineLanes(t.surface.height, 3)[0];
        return [t.surface.width, lane.top + lane.height / 2]""")
    middle = events["start"][event] + events["length"][event] / 2
    page.click_at(canvas, middle / length * place[0], place[1])
    assert page.text("aside.panel h2") == plan["strings"][plan["ops"]["name"][events["op"][event]]]


def test_exposed_and_critical_events_look_different(page):
    """Two collectives of the same axis: of the exposed one the middle has the colour of the axis, of the hidden one a paler one."""
    plan = make_report.gpt()
    events = plan["schedule"]["events"]
    rows = [i for i, c in enumerate(events["change"]) if c >= 0 and events["stream"][i] == 2][4:6]
    for i, exposed in zip(rows, (events["length"][rows[0]], 0.0)):
        events["exposed"][i], events["critical"][i] = exposed, int(exposed > 0)
    page = page(make_report.report(plan), "#timeline")
    pixels = page.run("""
        const t = app.views.get("timeline 0"), {events} = t.plan.data.schedule, lane = timelineLanes(t.surface.height, 3)[2];
        const {width, height} = t.surface.canvas, {data} = t.surface.canvas.getContext("2d").getImageData(0, 0, width, height);
        const at = (i, y) => {
          const x = (events.start[i] + events.length[i] / 2) / t.zoom.length * t.surface.width;
          return [...data.slice(4 * (Math.round(y) * width + Math.round(x))).slice(0, 3)].join();
        };
        return arguments[0].map((i) => [at(i, lane.top + lane.height / 2), at(i, lane.top + lane.height + 3)])""", rows)
    (exposed, under_exposed), (hidden, under_hidden) = pixels
    assert exposed != hidden and under_exposed != under_hidden
    assert exposed == "47,111,222"  # --axis-0
    assert under_exposed == "192,48,43"  # --critical


def test_trips_of_loops_are_labelled_where_there_is_room(page):
    plan = make_report.gpt()
    whole = plan["schedule"]["seconds"]
    plan["schedule"]["more"] = [{"start": 0, "end": 0, "trips": 17}, {"start": 0, "end": whole / 2, "trips": 15},
                                {"start": whole * .51, "end": whole * .52, "trips": 1},
                                {"start": whole * .525, "end": whole * .53, "trips": 3}]
    page = page(make_report.report(plan), "#timeline")
    texts = page.run("""
        const {surface} = app.views.get("timeline 0"), context = surface.canvas.getContext("2d"), texts = [];
        context.fillText = (text, x) => texts.push([text, x, x + context.measureText(text).width]);
        drawTimeline(app.views.get("timeline 0"), context, surface.width, surface.height);
        return [texts, surface.width]""")
    texts, width = texts
    assert [text for text, _, _ in texts if "trip" in text] == ["15 more trips", "1 more trip"]
    assert all(end <= width for _, _, end in texts)


def test_memory_follows_the_cursor_and_goes_to_the_peak(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#memory")
    memory = plan["memory"]
    step = lambda: page.run("return app.views.get('memory 0').step")
    assert step() == memory["program_peak_step"]
    page.run(f"document.querySelector('{SHOWN} canvas').focus()")
    page.key(Keys.ARROW_LEFT)
    assert step() == memory["program_peak_step"] - 1
    page.click_at(f"{SHOWN} canvas", 200, 200)
    assert step() != memory["program_peak_step"] - 1
    assert bytes_text(memory["held"][step()]) + " alive" in page.text(SHOWN)
    page.run(f"document.querySelector('{SHOWN} canvas').focus()")
    page.key("p")
    assert step() == memory["program_peak_step"]


def test_every_step_of_memory_is_drawn(page, gpt):
    """Of 23 steps none is left out or drawn twice, also if the first one in sight is seen in part."""
    page = page(gpt, "#memory")
    for begin, end in [(0, 23), (2.5, 11.5)]:
        drawn = page.run("""
            const m = app.views.get("memory 0"), [begin, end] = arguments;
            const {width, height} = m.surface, canvas = Object.assign(document.createElement("canvas"), {width, height});
            const context = canvas.getContext("2d"), places = [];
            m.zoom.set(begin, end);
            m.draw(context, width, height);
            const row = context.getImageData(0, Math.round(height - MEMORY_BOTTOM - 3), width, 1);
            for (let s = Math.floor(begin); s < end; ++s) {
              const middle = Math.max(s, begin) / 2 + Math.min(s + 1, end) / 2;
              const x = MEMORY_LEFT + (middle - begin) / (end - begin) * (width - MEMORY_LEFT);
              const at = 4 * Math.round(x);
              places.push(row.data.slice(at, at + 3).join());
            }
            return places""", begin, end)
        assert len(set(drawn)) == 1, drawn  # the parameters, which are there all the time
        page.run("app.views.get('memory 0').zoom.all()")


def test_layouts_are_drawn_as_the_devices_hold_them(page):
    """The drawing's shards and devices against NumPy's way to split: coordinates of row-major meshes, chunks of ceil(n / w)."""
    plan = make_report.gpt(uneven=True)
    page = page(make_report.report(plan), "#layers")
    for arg in range(len(plan["args"]["name"])):
        shape, spec = plan["types"][plan["args"]["type"][arg]]["shape"], plan["specs"][plan["args"]["spec"][arg]]
        found = page.run("""const p = app.plans[0], spec = p.spec(p.args.spec[arguments[0]]), type = p.type(p.args.type[arguments[0]]);
            return Array.from({length: 16}, (_, d) => spec.dims.map((refs, i) => {
              const c = chunkOf(type.shape[i], totalSize(refs), coordinateAlong(p.mesh, refs, d)); return [c.offset, c.size]; }))""", arg)
        for device in range(16):
            at = {0: device // 4, 1: device % 4}
            for dim, refs in enumerate(spec["dims"]):
                shards, index = 1, 0
                for axis, _, size in refs:
                    shards, index = shards * size, index * size + at[axis]
                chunk = -(-shape[dim] // shards)
                begin = min(index * chunk, shape[dim])
                assert found[device][dim] == [begin, min(begin + chunk, shape[dim]) - begin]
    page.click(f"{SHOWN} .drawing")
    cells = page.texts("dialog svg.holds text.strong")
    assert cells == [str(device) for device in range(16)]
    assert "uneven" not in page.text("dialog")
    page.click("dialog button")
    page.type(f'{SHOWN} input[type="search"]', "feed_forward.down")
    page.run(f"document.querySelector('{SHOWN} .scroll').scrollTop = 0")


def test_sub_axes_copies_and_pending_sums_are_drawn(page):
    p = make_report.PlanBuilder([("x", 8, "inside")])
    mesh = {"axes": [{"name": "x", "size": 8}], "devices": 8, "order": None}
    half = p.spec_table.items[p.spec([("x", 2, 2)], [])]
    pending = p.spec_table.items[p.spec([("x", 1, 2)], [], pending=[("x", 4, 2)])]
    page = page(make_report.report(make_report.gpt()))
    ask = "return [...holdersOf(arguments[0], arguments[1])].map(([key, held]) => [key, holdersText(held, arguments[1])])"
    assert page.run(ask, mesh, half) == [["0,0", "0, 1, 4, 5"], ["1,0", "2, 3, 6, 7"]]
    assert page.run(ask, mesh, pending) == [["0,0", "(0, 2) + (1, 3)"], ["1,0", "(4, 6) + (5, 7)"]]
    assert page.run("return copiesOf(arguments[0], arguments[1])", mesh, half) == [[0, 4]]


def test_the_graph_opens_blocks_and_shows_ops(page, gpt):
    plan, page = gpt["plans"][0], page(gpt, "#graph")
    names = lambda: page.run("""const found = [], walk = (place) => place.structure.items.forEach((item, i) => {
        found.push(item.op >= 0 ? app.plans[0].opName(item.op) : `${treeOf(app.plans[0]).name(item)} x${item.members.length}`);
        if (place.inner[i]) walk(place.inner[i]); }); walk(app.views.get("graph 0").root); return found""")
    before = names()
    assert "layers[0] x4" in before and "layers[1] x1" not in before
    assert "dot_general.0" not in before
    for _ in range(4):
        page.run("""[...document.querySelectorAll(".view:not([hidden]) button")].find((b) => b.textContent === "Open a level").click()""")
    page.settle()
    assert "dot_general.0" in names()
    overlaps = page.run("""
        const boxes = [], walk = (place, x, y) => place.structure.items.forEach((item, i) => {
          const box = [x + place.xs[i], y + place.ys[i], place.widths[i], place.heights[i]];
          if (place.inner[i]) walk(place.inner[i], box[0], box[1]); else boxes.push(box); });
        walk(app.views.get("graph 0").root, 0, 0);
        return boxes.filter((a, i) => boxes.some((b, j) => j > i && a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3])).length""")
    assert overlaps == 0
    place = page.run("""const g = app.views.get("graph 0"); g.center(app.plans[0].opPlaces.get("dot_general.1"));
        const f = g.find((item) => item.op === g.chosen); return [(f.x + 60 - g.view.x) * g.view.scale, (f.y + 10 - g.view.y) * g.view.scale]""")
    page.settle()
    page.go("#graph")
    page.click_at(f"{SHOWN} canvas", *place)
    assert page.text("aside.panel h2") == "dot_general.1"
    page.key(Keys.ESCAPE)
    diamonds = page.run("const g = app.views.get('graph 0'); g.fit(); g.surface.paint(); return g.diamonds.map((d) => d.changes)")
    assert diamonds and all(0 <= c < len(plan["changes"]["kind"]) for changes in diamonds for c in changes)


def test_every_change_of_layout_is_marked_in_the_graph(page):
    """With one layer no block is like another, so each change is at an edge or at an argument."""
    plan = make_report.gpt(layers=1)
    page = page(make_report.report(plan), "#graph")
    marked = page.run("""const g = app.views.get("graph 0"), found = new Set();
        for (let i = 0; i < 6; ++i) g.openLevel();
        const walk = (place) => place.structure.items.forEach((item, i) => {
          for (const e of place.structure.edges) e.changes.forEach((c) => found.add(c));
          if (item.op >= 0) g.outside(place.structure, item.op).forEach((o) => o.changes.forEach((c) => found.add(c)));
          if (place.inner[i]) walk(place.inner[i]); });
        walk(g.root); return [...found].sort((a, b) => a - b)""")
    assert marked == list(range(len(plan["changes"]["kind"])))


# Looks


def luminance(color):
    parts = [int(n) / 255 for n in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(page, chromium, gpt, scheme):
    """Contrast of at least 4.5 (WCAG AA) of all texts to what is behind them."""
    page = page(gpt)
    chromium.prefer(scheme)
    page.settle()
    assert page.run("return document.documentElement.dataset.theme") == scheme
    for view in VIEWS:
        page.go("#" + view)
        texts = page.run("""
            const solid = (color) => !/rgba\\(.*, 0\\)|transparent/.test(color);
            const found = new Map();
            for (const e of document.querySelectorAll(".view:not([hidden]) *, nav *, header *")) {
              if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length || e.closest("svg, option")) continue;
              let behind = e;
              while (behind && !solid(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
              found.set(getComputedStyle(e).color + " on " + getComputedStyle(behind ?? document.body).backgroundColor, e.textContent.slice(0, 40));
            }
            return [...found]""")
        for pair, text in texts:
            front, back = map(luminance, pair.split(" on "))
            ratio = (max(front, back) + 0.05) / (min(front, back) + 0.05)
            assert ratio >= 4.5, (view, text, pair, ratio)


def test_the_switch_turns_light_into_dark(page, gpt):
    page = page(gpt)
    back = lambda: page.run("return getComputedStyle(document.body).backgroundColor")
    light = back()
    page.click("button.theme")
    assert page.run("return document.documentElement.dataset.theme") == "dark" and luminance(back()) < 0.1 < luminance(light)
    page.key("d")
    assert back() == light
    page.run("localStorage.clear()")


@pytest.mark.parametrize("width", [1280, 1600])
def test_nothing_is_wider_than_the_screen(page, chromium, gpt, width):
    chromium.resize(width, 800)
    page = page(gpt)
    for view in VIEWS:
        page.go("#" + view)
        assert page.run(f"return [document.documentElement.scrollWidth, document.querySelector('{SHOWN}').scrollWidth - document.querySelector('{SHOWN}').clientWidth]") == [width, 0], view


def test_it_prints_every_view(page, chromium, gpt):
    page = page(gpt)
    page.prefer("light", media="print")
    page.run("dispatchEvent(new Event('beforeprint'))")
    shown = page.run("return [...document.querySelectorAll('.view')].filter((v) => v.getClientRects().length).map((v) => v.dataset.view)")
    assert shown == VIEWS
    assert page.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    rows = page.run("return document.querySelectorAll('[data-view=collectives] .line').length")
    assert rows == min(60, len(gpt["plans"][0]["changes"]["kind"]))
    chromium.resize(720, 1000)  # about a sheet of A4
    page.settle()
    wide = page.run("""return [...document.querySelectorAll(".grid .line > span, .grid .head > span, table.plain td, h2, p")]
        .filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > 721).map((e) => e.textContent.slice(0, 50))""")
    assert wide == []
    page.run("dispatchEvent(new Event('afterprint'))")
    page.prefer("light")
    paper = page.printed()
    assert paper.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", paper)) >= 4
    assert page.run("return document.querySelectorAll('.view:not([hidden])').length") == 1


# Other reports


def test_two_plans_side_by_side(page):
    document = make_report.compared()
    page, compare = page(document, "#compare"), document["compare"]
    for total in compare["totals"]:
        assert f'{total["before"]} → {total["after"]}' in page.text(f'[data-total="{total["name"]}"]')
    for why in compare["why"]:
        assert why in page.text(SHOWN)
    assert column(page, 2)[:4] == [row["name"] for row in compare["rows"][:4]]
    page.run("""const s = document.querySelector('[data-view=compare] select[aria-label="What"]'); s.value = "value"; s.dispatchEvent(new Event("change"))""")
    page.settle()
    assert {compare["rows"][row]["what"] for row in shown_rows(page)} == {"value"}
    assert page.text("h1") == document["plans"][0]["title"] and "data 4" in page.text("header")
    page.click(f'{SHOWN} .line[data-place="0"]')
    assert page.run("return app.route.plan") == "1" and "data 2" in page.text("header")
    page.go("#summary&plan=1")
    assert figure(page, "step") == seconds_text(document["plans"][1]["totals"]["step"])


def test_a_point_of_the_front_opens_its_plan(page):
    document = make_report.front()
    page = page(document, "#front")
    assert document["front"][0]["reason"] in page.text(SHOWN)
    assert page.texts(f'{SHOWN} .line[data-row="0"] > span')[:4] == ["2.0 MiB", "no plan", "", ""]
    for place, row in enumerate(document["front"]):
        if row["plan"] < 0:
            assert not page.elements(f'[data-front="{place}"]')
            continue
        page.go("#front")
        page.run(f"""document.querySelector('[data-front="{place}"]').dispatchEvent(new MouseEvent("click"))""")
        page.settle()
        assert page.run("return app.route.plan") == str(row["plan"])
        assert figure(page, "step") == seconds_text(row["step"])


def test_a_front_does_not_promise_plans_that_there_are_not(page):
    document = make_report.front()
    document["front"] = document["front"][:2]  # the first one has no plan
    page = page(document, "#front")
    assert f"Every limit with a plan allows a step of {seconds_text(document['front'][1]['step'])}." in page.text(SHOWN)


def test_plans_of_a_front_on_several_meshes_name_them(page):
    document = make_report.front()
    document["plans"][0]["mesh"]["axes"][0]["size"] = 3
    assert "open this plan, on data 3 × model 4" in page(document, "#front").text(SHOWN)


def test_an_infeasible_plan_says_what_is_missing(page):
    document = make_report.infeasible()
    page, told = page(document), document["infeasible"]
    text = page.text(SHOWN)
    for part in [told["text"], *told["conflict"], *told["bytes"], "1.80 MiB", "943718 bytes", "2.00 MiB"]:
        assert part in text
    assert page.run("return document.querySelectorAll('nav a').length") == 1


def test_discovery_is_a_matrix_with_witnesses(page):
    document = make_report.discovery()
    page, matrix = page(document), document["discovery"]["matrix"]
    assert len(page.elements(f"{SHOWN} [data-rule]")) == len(matrix["rows"])
    for verdict in {row["verdict"] for row in matrix["rows"]}:
        page.click(f'[data-verdict="{verdict}"]')
        assert shown_rows(page) == [i for i, row in enumerate(matrix["rows"]) if row["verdict"] == verdict]
        page.click(f'[data-verdict="{verdict}"]')
    page.click('[data-rule="4"]')
    assert page.run("return app.route.view") == "witnesses"
    card = page.text('[data-witness="0"]')
    assert "It differs at [2, 0]. Device 0 has no row 2." in card
    assert page.texts('[data-witness="0"] td.bad') == ["14"]


def test_a_random_operator_has_a_reason_and_no_rules(page):
    document = make_report.discovery()
    found = document["discovery"]
    found["matrix"] |= {"columns": [], "rows": []}
    found["witnesses"] = []
    found["analysis"] |= {"category": "random", "deterministic": False, "reason": "It draws random numbers.", "mathematical_properties": []}
    page = page(document)
    assert page.text('[data-field="reason"]') == "It draws random numbers." and "random" in page.text(SHOWN)
    assert not page.elements(f"{SHOWN} [data-rule]") and "undefined" not in page.text(SHOWN)


def test_a_discovery_in_json_is_a_matrix_as_well(page):
    """`cleave discover --format json` writes rules by verdict, witnesses as texts, and no matrix."""
    document = make_report.discovery()
    found = document["discovery"]
    del found["matrix"], found["witnesses"]
    found["unconditional_rules"] = [{"inputs": ["R", "S(d)"], "output": "S(d)", "justification": "It is linear.", "verdict": "tested", "tests": 7}]
    found["conditional_rules"] = [{"inputs": ["S(d)", "S(d)"], "output": "S(d)", "condition": "d != dim", "justification": "A batch.", "verdict": "proved", "tests": 0}]
    found["refuted"] = [{"inputs": ["P(max)", "R"], "output": "P(max)", "result": 1, "verdict": "refuted", "witness": "as a text"}]
    page = page(document)
    marks = page.run("return [...document.querySelectorAll('[data-rule]')].map((one) => one.title)")
    assert marks == ["tested: R, S(d) → S(d)", "conditional: S(d), S(d) → S(d)", "refuted: P(max), R → P(max)"]
    text = page.text(SHOWN)
    assert "d != dim" in text and "as a text" in text and "Result 1" in text


def test_a_witness_of_a_call_that_did_not_run_is_its_operands(page):
    document = make_report.discovery()
    witness = document["discovery"]["witnesses"][0]
    witness["result"] = {"index": 0, "placement": "Replicate"}
    witness |= {"element": 0, "note": "the shapes do not fit"}
    page = page(document, "#witnesses")
    card = page.text('[data-witness="0"]')
    assert "on device 1, 2 × 3" in card and "The shapes do not fit" in card


def test_a_plan_without_its_module_shows_what_its_file_says(page):
    plan = make_report.gpt()
    empty = lambda columns: {name: [] for name in columns}
    plan |= {"schedule": None, "changes": empty(plan["changes"]), "arg_groups": [], "patterns": [], "ways": [], "types": []}
    plan["title"] = 'plan.json on <["data"=4, "model"=4]> of h100'
    plan["blocks"] = plan["blocks"][:1]
    count = len(plan["ops"]["name"])
    plan["ops"] |= {"block": [0] * count, "type": [-1] * count, "alternatives": [-1] * count, "operands": [[None] * len(o) for o in plan["ops"]["operands"]]}
    plan["args"] |= {"type": [-1] * len(plan["args"]["name"]), "group": [-1] * len(plan["args"]["name"])}
    plan["memory"] |= {"steps": 0, "program_peak_step": -1, "held": [], "inside": [], "step_op": [], "step_change": [], "buffers": empty(plan["memory"]["buffers"])}
    plan["classes"] = [{"what": "compute", "seconds": plan["totals"]["compute"]}]
    page = page(make_report.report(plan))
    assert page.text("h1") == "plan.json"
    views = page.run("return app.frame.views.map((view) => view.id)")
    assert views == [view for view in VIEWS if view not in ("timeline", "collectives")]
    for view in views:
        page.go("#" + view)
    page.go("#layers")
    assert column(page, 2)[0].startswith("[0].embed")
    page.go("#op=dot_general.3")
    assert seconds_text(20e-6) in page.text("aside.panel")
    page.go("#arg=[0].embed")
    assert '[{"data", "model"}, {}]' in page.text("aside.panel")


def test_measured_is_beside_predicted(page):
    document = make_report.measured(make_report.report(make_report.gpt()))
    plan = document["plans"][0]
    for part in ("ops", "changes"):  # in a loop: what was measured is of all executions already
        plan["measured"][part]["times"] = [16] * len(plan["measured"][part]["times"])
    page = page(document, "#measured")
    assert page.text(f'{SHOWN} [data-figure="measured"] .value') == seconds_text(plan["measured"]["total"])
    for check in plan["measured"]["checks"]:
        assert check["text"] in page.text(SHOWN)
    pairs = {(seconds_text(plan["ops"]["seconds"][op]), seconds_text(s)) for op, s in zip(plan["measured"]["ops"]["op"], plan["measured"]["ops"]["seconds"])}
    pairs |= {(seconds_text(plan["changes"]["seconds"][c]), seconds_text(s)) for c, s in zip(plan["measured"]["changes"]["change"], plan["measured"]["changes"]["seconds"])}
    assert set(zip(column(page, 2), column(page, 3))) <= pairs and column(page, 2)


# What could go wrong


@pytest.mark.parametrize("kind", ["plan", "compare", "front", "infeasible", "discovery"])
def test_markup_in_every_string_is_text(page, kind):
    document = {"plan": lambda: make_report.measured(make_report.report(make_report.gpt(layers=2))), "compare": make_report.compared,
                "front": make_report.front, "infeasible": make_report.infeasible, "discovery": make_report.discovery}[kind]()
    page = page(make_report.hostile(document))
    page.run("window.alert = () => { window.ran = true; }")
    views = page.run("return app.frame.views.map((view) => view.id)")
    for view in views:
        page.go("#" + view)
        assert make_report.HOSTILE[:20] in page.text("#page")
    if document["plans"]:
        page.go("#op=" + page.run("return encodeURIComponent(app.plans[0].opName(20))"))
        page.go("#change=0")
        page.go("#arg=" + page.run("return encodeURIComponent(app.plans[0].argName(0))"))
        page.key("/")
        page.key("dot")
        page.key(Keys.ESCAPE)
    assert page.run("return document.images.length + document.scripts.length") == 2  # the report and the page's own
    assert page.run("return window.ran") is None


def test_nothing_is_asked_of_the_network_and_no_data_becomes_markup():
    text = (make_report.PAGE / "page.html").read_text()
    assert "default-src 'none'" in text
    for file in make_report.PAGE.glob("*.js"):
        code = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(", "XMLHttpRequest", "http:"):
            assert word not in code.replace('"http://www.w3.org/2000/svg"', ""), (file.name, word)
        assert "</script" not in code and "<!--" not in code


def test_every_file_of_the_page_is_in_the_order():
    order = (make_report.PAGE / "order.txt").read_text().split()
    assert sorted(order) == sorted(f.name for f in make_report.PAGE.iterdir() if f.suffix in (".js", ".css"))
    assert len(order) == len(set(order))


def test_data_that_is_no_report_is_said_in_one_line(chromium, tmp_path):
    path = tmp_path / "page.html"
    good = make_report.page(make_report.infeasible())
    for document, message in (({"format": "other"}, "is not a report"), ({"format": "cleave-page", "version": 2}, "version 2")):
        path.write_text(good.replace(make_report.embedded(make_report.infeasible()), make_report.embedded(document)))
        chromium.open(path)
        assert message in chromium.text(".fatal")
    path.write_text(good.replace('"use strict";', '"use strict"; delete globalThis.DecompressionStream;'))
    chromium.open(path)
    assert "DecompressionStream" in chromium.text(".fatal")
    chromium.console()


# Size


@pytest.fixture(scope="module")
def large():
    return make_report.report(make_report.of_size(50_000))


def test_50_000_ops_are_less_than_5_mb(large):
    assert 49_000 < len(large["plans"][0]["ops"]["name"])
    assert len(make_report.page(large).encode()) < 5e6


def test_50_000_ops_draw_only_what_is_in_sight(page, large):
    page = page(large)
    nodes = lambda: page.run("return document.querySelectorAll('*').length")
    for view in VIEWS:
        page.go("#" + view)
        assert page.run(f"return document.querySelectorAll('{SHOWN} .line').length") <= 60
    assert nodes() < 6000
    page.go("#timeline")
    drawn = lambda: page.run("return app.views.get('timeline 0').drawn")
    width = page.run("return app.views.get('timeline 0').surface.width")
    assert 0 < drawn() <= 3 * 2 * width
    page.run("const t = app.views.get('timeline 0'); t.zoom.set(t.zoom.length / 2, t.zoom.length / 2 * 1.001); t.surface.paint()")
    assert 0 < drawn() <= 3 * 2 * width
    page.go("#memory")
    assert page.run("return app.views.get('memory 0').columns") <= width
    page.go("#graph")
    boxes = lambda: page.run("const g = app.views.get('graph 0'); g.surface.paint(); return g.drawn.boxes")
    page.run("const g = app.views.get('graph 0'); for (let i = 0; i < 6; ++i) g.openLevel()")
    for scale in (2, 0.8, 0.2, 0.05, 0.01):
        page.run("const g = app.views.get('graph 0'); g.view = {x: 0, y: g.root.height / 2, scale: arguments[0]}", scale)
        assert boxes() <= 5000, scale


def test_50_000_ops_scroll_and_search(page, large):
    plan, page = large["plans"][0], page(large, "#layers")
    page.run("""[...document.querySelectorAll("button")].find((b) => b.textContent === "Activations").click()""")
    page.settle()
    page.run(f"const s = document.querySelector('{SHOWN} .scroll'); s.scrollTop = s.scrollHeight")
    page.settle()
    rows = page.run(f"return document.querySelector('{SHOWN} .scroll').getAttribute('aria-rowcount')")
    assert shown_rows(page)[-1] == int(rows) - 1
    last = strings(plan, plan["ops"]["name"])[-1]
    page.key("/")
    page.key(last)
    page.key(Keys.ENTER)
    assert page.text("aside.panel h2") == last
