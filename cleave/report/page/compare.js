// Two plans side by side: the totals, why they differ, and every op and value that does.

function deltaNode(seconds) {
  if (seconds === null || seconds === undefined || seconds === 0) return "";
  return el("span." + (seconds > 0 ? "bad" : "good"), null, deltaText(seconds));
}

// Bars of both plans on one scale, with what their time goes to.
function compareBars(before, after) {
  const most = Math.max(before.data.totals.seconds, after.data.totals.seconds) || 1;
  const bar = (plan, name) =>
      el("div", {
        style: {
          display: "grid",
          "grid-template-columns": "64px 1fr 90px",
          gap: "10px",
          "align-items": "center",
          margin: "6px 0"
        }
      },
         el("span.soft", null, name),
         el("div", {style: {width: `${(plan.data.totals.seconds / most) * 100}%`}},
            el("div.stack", {style: {height: "22px"}},
               timeParts(plan)
                   .filter((p) => p.size > 0)
                   .map((part) => el("button", {
                          tabindex: -1,
                          style: {flex: `${(part.size / most) * 1000} 1 0px`, background: part.background},
                          title: `${part.what}: ${part.text}`
                        })))),
         el("span.number", null, secondsText(plan.data.totals.seconds)));
  return el(
      "div.card", null,
      el("div.soft", {style: {"font-size": "12.5px"}},
         "Time without overlap, by class of kernel (grey) and by collective (the colours of its axes)"),
      bar(before, "before"), bar(after, "after"));
}

// How a value lies in both, each in its own place: before on the left, after on the right.
function bothDrawn(plans, name) {
  const drawn = (plan) => {
    const arg = plan.argPlaces.get(name), op = plan.opPlaces.get(name);
    if (arg !== undefined) return layoutPicture(plan, plan.args.type[arg], plan.args.spec[arg], 84, 34);
    if (op !== undefined && plan.ops.out[op].length)
      return layoutPicture(plan, plan.ops.type[op], plan.ops.out[op][0], 84, 34);
    return null;
  };
  return el(
      "span", {style: {display: "grid", "grid-template-columns": "1fr 1fr", gap: "4px", "align-items": "center"}},
      plans.map((plan) => el("span", null, drawn(plan))));
}

// A text with axes of both plans; a name that both have has the colour that it has after.
function bothAxesText([before, after], text) {
  const names = new Map([...before.axisNames, ...after.axisNames]);
  return axesText({axisNames: names}, text);
}

class Compare {
  constructor(report) {
    const {rows, totals, why, before, after} = this.compare = report.compare;
    this.plans = [app.plans[before], app.plans[after]];
    const kinds = [...new Set(rows.map((row) => row.what))];
    this.find = el("input", {
      type: "search",
      placeholder: "Filter by name or layout",
      "aria-label": "Filter changes",
      oninput: () => this.filter()
    });
    this.kind =
        el("select", {"aria-label": "What", onchange: () => this.filter()}, el("option", {value: ""}, "every change"),
           kinds.map((kind) => el("option", {value: kind}, kind)));
    this.table = makeTable({
      label: "What changed",
      rows: rows.length,
      noun: "change",
      lineHeight: 46,
      height: 520,
      none: "The plans do not differ in this.",
      open: (r) => this.open(rows[r]),
      columns: [
        {title: "What", width: "90px", value: (r) => rows[r].what, text: (r) => rows[r].what}, {
          title: "Name",
          width: "minmax(160px,1.2fr)",
          value: (r) => rows[r].name,
          cell: (r) => el("span.mono", {title: rows[r].name}, bothAxesText(this.plans, rows[r].name))
        },
        {
          title: "Before",
          width: "minmax(150px,1.4fr)",
          value: (r) => rows[r].before,
          cell: (r) => el("span.layout", {title: rows[r].before}, axesText(this.plans[0], rows[r].before))
        },
        {
          title: "After",
          width: "minmax(150px,1.4fr)",
          value: (r) => rows[r].after,
          cell: (r) => el("span.layout", {title: rows[r].after}, axesText(this.plans[1], rows[r].after))
        },
        {
          title: "Time",
          width: "100px",
          number: true,
          value: (r) => rows[r].seconds,
          cell: (r) => deltaNode(rows[r].seconds)
        },
        {title: "Drawn before, after", width: "196px", cell: (r) => bothDrawn(this.plans, rows[r].name)}
      ]
    });
    // Figures are cards; long texts that differ are lines below, and those that do not differ are left out.
    const isFigure = (total) =>
        `${total.before}${total.after}`.length < 28 && /^[\d.]/.test(total.before + total.after);
    const texts = totals.filter((total) => !isFigure(total) && total.before !== total.after);
    const card = (total) =>
        el("div.figure", {"data-total": total.name}, el("div.what", null, total.name),
           el("div", {style: {"font-size": "17px", "font-weight": 600, margin: "2px 0"}}, total.before,
              el("span.softer", null, " → "), total.after),
           el("div.more", null, deltaNode(total.seconds)));
    this.element =
        el("section", {"aria-label": "Compare"},
           el("div.inner", null, el("h2", null, "Compare"),
              el("p.lead", null, el("b", null, this.plans[0].title), " on ", this.meshText(0), " before, ",
                 el("b", null, this.plans[1].title), " on ", this.meshText(1),
                 " after. The choice above shows one of them in the other views."),
              el("div.figures", null, totals.filter(isFigure).map(card)),
              texts.length ?
                  el("div.card", {style: {padding: "4px 6px", margin: "10px 0 0"}},
                     plainTable(["", "Before", "After"], texts.map((row) => [row.name, row.before, row.after]))) :
                  null,
              why.length ?
                  [
                    el("h3", null, "Why"),
                    el("ul", {style: {margin: 0, "padding-left": "18px"}},
                       why.map((text) => el("li", null, bothAxesText(this.plans, text))))
                  ] :
                  null,
              el("h3", null, "Where the time goes"), compareBars(...this.plans), el("h3", null, "What changed"),
              el("div.filters", null, this.find, this.kind), this.table.element));
  }

  meshText(which) {
    return el(
        "span.mono", null,
        this.plans[which].mesh.axes.map((axis) => `${axis.name} ${axis.size}`).join(" × ") || "one device");
  }

  open(row) {
    const plan = String(this.compare.after);
    if (this.plans[1].opPlaces.has(row.name))
      go({op: row.name, arg: null, change: null, plan});
    else if (this.plans[1].argPlaces.has(row.name))
      go({arg: row.name, op: null, change: null, plan});
  }

  filter() {
    const text = this.find.value.toLowerCase(), {rows} = this.compare;
    this.table.setRows(rows.flatMap(
        (row, i) =>
            ((!this.kind.value || row.what === this.kind.value) &&
                     `${row.name}\n${row.before}\n${row.after}`.toLowerCase().includes(text) ?
                 [i] :
                 [])));
  }
}

const makeCompare = (plan, report) => new Compare(report);
