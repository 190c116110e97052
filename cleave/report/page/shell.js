// The frame around the views: header, navigation, theme, keys, printing.

function viewsOf(report) {
  const plan = report.plans.length > 0;
  const count = (n) => (n ? countText(n) : "");
  const changes = () => count(currentPlan().numChanges);
  return [
    {id: "infeasible", title: "Why not", when: report.infeasible, make: makeInfeasible},
    {id: "discovery", title: "Verdicts", when: report.discovery, make: makeDiscovery},
    {
      id: "witnesses",
      title: "Witnesses",
      when: report.discovery?.witnesses?.length,
      make: makeWitnesses,
      count: () => count(report.discovery.witnesses.length)
    },
    {id: "summary", title: "Summary", when: plan, make: makeSummary},
    {
      id: "compare",
      title: "Compare",
      when: report.compare,
      make: makeCompare,
      count: () => count(report.compare.rows.length)
    },
    {
      id: "front",
      title: "Memory sweep",
      when: report.front.length,
      make: makeFront,
      count: () => count(report.front.length)
    },
    {id: "mesh", title: "Mesh", when: plan, make: makeMesh, count: () => count(currentPlan().mesh.devices)},
    {id: "layers", title: "Layers", when: plan, make: makeLayers, count: () => count(currentPlan().numArgs)},
    {id: "time", title: "Time", when: plan, make: makeTime},
    {
      id: "timeline",
      title: "Timeline",
      when: report.plans.some((one) => one.schedule),
      make: makeTimeline,
      count: () => count(currentPlan().data.schedule.events.start.length)
    },
    {id: "memory", title: "Memory", when: plan, make: makeMemory},
    {
      id: "collectives",
      title: "Collectives",
      when: report.plans.some((one) => one.changes.kind.length),
      make: makeCollectives,
      count: changes
    },
    {id: "graph", title: "Graph", when: plan, make: makeGraph, count: () => count(currentPlan().numOps)},
    {id: "measured", title: "Measured", when: report.plans.some((p) => p.measured), make: makeMeasured},
  ].filter((view) => view.when);
}

// Themes: what the system has, until the switch is used.
const theme = {
  system: matchMedia("(prefers-color-scheme: dark)"),
  chosen: null,
  get name() { return this.chosen ?? (this.system.matches ? "dark" : "light"); },
  apply(name = this.name) {
    document.documentElement.dataset.theme = name;
    forgetColors();
    repaintAll(false);
  },
  toggle() {
    this.chosen = this.name === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("cleave-theme", this.chosen);
    } catch {
      // A page from a mail may have no place to store it.
    }
    this.apply();
  },
  start() {
    try {
      const kept = localStorage.getItem("cleave-theme");
      if (kept === "dark" || kept === "light") this.chosen = kept;
    } catch {
      // As above.
    }
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  },
};

function repaintAll(now) {
  for (const made of app.views.values())
    for (const surface of made.surfaces ?? []) now ? surface.paint() : surface.redraw();
}

function brandMark() {
  const piece = (x, y, axis) => svg("rect", {x, y, width: 8.5, height: 8.5, rx: 1.5, fill: axisVariable(axis)});
  return svg(
      "svg", {viewBox: "0 0 20 20", "aria-hidden": "true"}, piece(1, 1, 0), piece(10.5, 1, 1), piece(1, 10.5, 2),
      piece(10.5, 10.5, 0));
}

class Frame {
  constructor(report, place) {
    this.report = report;
    this.views = viewsOf(report);
    this.head = el("div.facts");
    this.title = el("h1.cut");
    this.choice = this.planChoice();
    const tools = el(
        "div.tools", null, this.choice,
        el("button",
           {onclick: () => openSearch(), title: "Find an op, an argument or a line (/)", hidden: !app.plans.length},
           "Search ", el("kbd", null, "/")),
        el("button",
           {class: "theme", onclick: () => theme.toggle(), title: "Light or dark (d)", "aria-label": "Light or dark"},
           "◐"));
    this.nav = el("nav.side", {"aria-label": "Views"});
    this.main = el("main", {id: "main"});
    this.side = el("aside.panel", {hidden: true, "aria-label": "Details"});
    this.main.append(this.side);
    replaceChildren(
        place, el("header.top", null, el("div.brand", null, brandMark(), "cleave"), this.title, this.head, tools),
        this.nav, this.main);
    this.links = this.views.map(
        (view) =>
            el("a", {
              href: "#" + view.id,
              onclick: (event) => {
                event.preventDefault();
                go({view: view.id, q: null});
              }
            },
               view.title, el("span.count")));
    replaceChildren(this.nav, this.links, el("div.made", null, report.made_by));
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    theme.start();
  }

  planChoice() {
    if (app.plans.length < 2) return null;
    const {compare, front} = this.report;
    const name = (i) => {
      if (compare) return i === compare.before ? "before" : i === compare.after ? "after" : `plan ${i + 1}`;
      const row = front.find((r) => r.plan === i);
      return row && row.limit ? `within ${bytesText(row.limit)}` : `plan ${i + 1}`;
    };
    return el(
        "select", {
          "aria-label": "The plan that is shown",
          onchange: (event) => go({plan: event.target.value, op: null, arg: null, change: null})
        },
        app.plans.map((plan, i) => el("option", {value: i}, `${name(i)}: ${secondsText(plan.data.totals.step)}`)));
  }

  show(route) {
    const plan = currentPlan();
    this.describe(plan);
    if (this.choice) this.choice.value = String(plan.index);
    this.views.forEach((view, i) => {
      this.links[i].toggleAttribute("aria-current", view.id === route.view);
      this.links[i].lastChild.textContent = view.count ? view.count() : "";
    });
    const key = `${route.view} ${plan ? plan.index : ""}`;
    if (!app.views.has(key)) this.make(route.view, plan);
    for (const [other, made] of app.views) made.element.hidden = other !== key;
    app.views.get(key).shown?.(route);
    showPanel(this.side, plan, route);
  }

  make(id, plan) {
    const key = `${id} ${plan ? plan.index : ""}`;
    const made = this.views.find((view) => view.id === id).make(plan, this.report);
    made.element.classList.add("view");
    made.element.dataset.view = id;
    app.views.set(key, made);
    this.main.insertBefore(made.element, this.side);
    return made;
  }

  describe(plan) {
    const {infeasible, discovery} = this.report;
    // As of a plan, without what stands beside it.
    const none = infeasible?.title.replace(/ on [^ ]+ of [^ ]+$/, "");
    const title = plan?.title ?? none ?? discovery?.operator ?? "";
    this.title.textContent = title;
    this.title.title = title;
    const machine = plan?.data.machine ?? infeasible?.machine;
    replaceChildren(
        this.head, machine ? el("span", null, "on " + machine) : null,
        plan                 ? plan.mesh.axes.map((_, i) => axisChip(plan, i)) :
            infeasible?.mesh ? meshChips(infeasible.mesh) :
                               null,
        plan && plan.mesh.devices > 1 ? el("span.softer", null, plural(plan.mesh.devices, "device")) : null);
  }

  key(event) {
    const typing = event.target.matches?.("input, select, textarea") || document.querySelector("dialog[open]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && app.plans.length) {
      event.preventDefault();
      openSearch();
    } else if (event.key === "d")
      theme.toggle();
    else if (event.key === "?")
      openKeys();
    else if (event.key === "Escape")
      go({op: null, arg: null, change: null});
    else if (event.key === "[" || event.key === "]") {
      const at = this.views.findIndex((view) => view.id === app.route.view) + (event.key === "]" ? 1 : -1);
      if (this.views[at]) go({view: this.views[at].id, q: null});
    }
  }

  // On paper every view of the plan is shown, in light colours.
  print(on) {
    const plan = currentPlan();
    if (on)
      for (const view of this.views)
        if (!app.views.has(`${view.id} ${plan ? plan.index : ""}`)) this.make(view.id, plan).element.hidden = true;
    for (const [key, made] of app.views)
      if (plan && !key.endsWith(" " + plan.index)) made.element.classList.toggle("screen-only", on);
    document.documentElement.dataset.theme = on ? "light" : theme.name;
    forgetColors();
    printTables(on);
    repaintAll(true);
  }
}

const makeFrame = (report, place) => new Frame(report, place);

function openKeys() {
  const keys = [
    ["/", "find an op, an argument or a line"], ["[  ]", "the view before, the view after"], ["Esc", "close the panel"],
    ["d", "light or dark"], ["+  -  0", "zoom in, zoom out, all (timeline, memory, graph)"],
    ["← → ↑ ↓", "move (timeline, memory, graph), or choose a row"], ["Enter", "open what is chosen"],
    ["p", "the peak (memory)"], ["?", "this list"]
  ];
  const dialog = el(
      "dialog", {"aria-label": "Keys"},
      el("div", {style: {padding: "20px 26px"}}, el("h2", {style: {margin: "0 0 10px", "font-size": "16px"}}, "Keys"),
         plainTable(["", ""], keys.map(([key, does]) => [el("kbd", null, key), does])),
         el("div", {style: {"text-align": "right", "margin-top": "12px"}},
            el("button", {onclick: () => dialog.close()}, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
