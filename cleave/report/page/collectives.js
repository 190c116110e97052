// The collectives: every change of layout, with the op and the line that asked for it, what it costs, and why.

// Rows that contain all words, and are of a kind and along an axis.
function changeTexts(plan) {
  return plan.once("changeTexts", () => Array.from({length: plan.numChanges}, (_, c) => {
    const {changes} = plan;
    return [
      plan.changeTitle(c), plan.changeFor(c), plan.text(changes.line[c]), plan.text(changes.reason[c]),
      plan.sourceName(changes.source[c]), plan.spec(changes.from[c])?.text ?? "", plan.spec(changes.to[c])?.text ?? "",
      plan.typeText(changes.type[c])
    ].join("\n")
        .toLowerCase();
  }));
}

function collectiveColumns(plan) {
  const {changes} = plan;
  const spec = (place) => plan.spec(place)?.text ?? "";
  return [
    {
      title: "Collective",
      width: "minmax(172px,1.2fr)",
      value: (c) => plan.changeTitle(c),
      cell: (c) =>
          el("span.row", {style: {gap: "9px", "flex-wrap": "nowrap"}},
             el("i.swatch",
                {style: {background: axesBackground(plan.changeAxes(c)), opacity: changes.stream[c] ? 1 : .35}}),
             el("span.grow", {title: plan.changeTitle(c)}, el("span.two", null, plan.text(changes.kind[c])),
                el("span.two", null, axesText(plan, plan.text(changes.axes[c])))))
    },
    {
      title: "For",
      width: "minmax(148px,1.1fr)",
      value: (c) => plan.changeFor(c),
      also: {title: "Line", value: (c) => plan.text(changes.line[c])},
      cell: (c) =>
          [el("span.two", null, changes.op[c] >= 0 ? opLink(plan, changes.op[c]) : "a result"),
           el("span.two.mono.softer", {title: plan.text(changes.line[c])}, plan.text(changes.line[c]) || "\u00a0")]
    },
    {
      title: "Received",
      width: "90px",
      number: true,
      about: "What one device receives",
      value: (c) => changes.bytes[c],
      text: (c) => bytesText(changes.bytes[c])
    },
    {
      title: "Time",
      width: "92px",
      number: true,
      about: "Of all executions",
      value: (c) => plan.changeSeconds(c),
      text: (c) => secondsText(plan.changeSeconds(c))
    },
    {
      title: "Exposed",
      width: "122px",
      number: true,
      about: "What does not run beside compute",
      value: (c) => changes.exposed[c],
      cell: (c) => {
        const all = changes.exposed[c] + changes.hidden[c];
        return el(
            "span.row", {style: {gap: "7px", "flex-wrap": "nowrap", "justify-content": "flex-end"}},
            shareBar([{share: all ? changes.exposed[c] / all : 0, background: "var(--critical)"}], "30px"),
            secondsText(changes.exposed[c]));
      }
    },
    {
      title: "From",
      width: "minmax(196px,1.8fr)",
      value: (c) => spec(changes.from[c]),
      also: {title: "To", value: (c) => spec(changes.to[c])},
      cell: (c) => changes.from[c] < 0 && changes.to[c] < 0 ?
          "" :
          [el("span.two", null, layoutText(plan, changes.from[c])),
           el("span.two", null, el("span.softer", null, "→ "), layoutText(plan, changes.to[c]))]
    },
    {
      title: "Why",
      width: "minmax(150px,2fr)",
      value: (c) => plan.text(changes.reason[c]),
      cell: (c) => el("span.wrap.soft", {title: plan.text(changes.reason[c])}, plan.text(changes.reason[c]))
    }
  ];
}

class Collectives {
  constructor(plan) {
    const {changes} = plan;
    this.plan = plan;
    const kinds = [...new Set(changes.kind)].map((kind) => plan.text(kind)).sort();
    const select = (label, all, options) =>
        el("select", {"aria-label": label, onchange: () => this.filter()}, el("option", {value: ""}, all),
           options.map(([value, text]) => el("option", {value}, text)));
    this.find = el("input", {
      type: "search",
      placeholder: "Filter by op, line, layout, reason",
      "aria-label": "Filter collectives",
      oninput: () => this.filter()
    });
    this.kind = select("Kind", "every kind", kinds.map((kind) => [kind, kind]));
    this.axis = select("Axis", "every axis", plan.mesh.axes.map((axis, i) => [i, axis.name]));
    this.exposed =
        el("button", {
          "aria-pressed": "false",
          onclick: () => {
            this.exposed.setAttribute("aria-pressed", String(this.exposed.getAttribute("aria-pressed") !== "true"));
            this.filter();
          }
        },
           "Exposed only");
    this.table = makeTable({
      label: "Collectives",
      rows: plan.numChanges,
      noun: "change of layout",
      nouns: "changes of layout",
      columns: collectiveColumns(plan),
      sort: {column: 3, down: true},
      lineHeight: 48,
      none: "No collective is like that.",
      open: (c) => go({change: String(c), op: null, arg: null})
    });
    this.element = el(
        "section.fill", {"aria-label": "Collectives"}, el("h2", null, "Collectives"),
        el("p.lead", {style: {"margin-bottom": "10px"}},
           "Every change of layout of a step, the op that asked for it, and why. Slices are local and receive nothing."),
        el("div.filters", null, this.find, this.kind, this.axis, this.exposed), this.table.element);
    this.filter();
  }

  shown(route) {
    if (route.q === null || route.q === this.asked) return;
    this.asked = route.q;
    this.find.value = route.q;
    this.filter();
  }

  filter() {
    const {plan} = this, {changes} = plan, texts = changeTexts(plan);
    const words = this.find.value.toLowerCase().match(/"[^"]*"|\S+/g) ?? [];
    const axis = this.axis.value === "" ? -1 : Number(this.axis.value),
          exposedOnly = this.exposed.getAttribute("aria-pressed") === "true";
    const rows = [];
    let seconds = 0, bytes = 0, exposed = 0;
    for (let c = 0; c < plan.numChanges; ++c) {
      if (this.kind.value && plan.text(changes.kind[c]) !== this.kind.value) continue;
      if (axis >= 0 && !plan.changeAxes(c).includes(axis)) continue;
      if (exposedOnly && !(changes.exposed[c] > 0)) continue;
      if (!words.every((word) => texts[c].includes(word))) continue;
      rows.push(c);
      seconds += plan.changeSeconds(c);
      bytes += changes.bytes[c] * changes.times[c];
      exposed += changes.exposed[c];
    }
    this.table.setRows(rows);
    this.table.setNote(
        `${secondsText(seconds)}, ${secondsText(exposed)} of it exposed, ${bytesText(bytes)} received by a device`);
  }
}

const makeCollectives = (plan) => new Collectives(plan);
