// Predicted beside measured, op by op: a scatter on two logarithmic scales, and the table.

// Rows {name, op, change, predicted, measured, times}: both for all executions.
function measuredRows(plan) {
  const {ops, changes} = plan.data.measured, rows = [];
  ops.op.forEach((op, i) => rows.push({
    name: plan.opName(op),
    op,
    change: -1,
    predicted: plan.opSeconds(op),
    measured: ops.seconds[i],
    times: ops.times[i]
  }));
  changes.change.forEach((change, i) => rows.push({
    name: `${plan.changeTitle(change)} for ${plan.changeFor(change)}`,
    op: -1,
    change,
    predicted: plan.changeSeconds(change),
    measured: changes.seconds[i],
    times: changes.times[i]
  }));
  return rows;
}

// What takes less than the smallest figure that is written is at the edge of the scales.
const LEAST_SECONDS = 1e-8;

function drawScatter(view, context, width, height) {
  const {rows} = view, paint = colors(), left = 74, bottom = height - 30,
        points = rows.filter((row) => row.predicted > 0 && row.measured > 0);
  if (!points.length) return;
  const log = (seconds) => Math.log10(Math.max(seconds, LEAST_SECONDS));
  const logs = points.flatMap((row) => [log(row.predicted), log(row.measured)]);
  const low = Math.floor(logs.reduce((a, b) => Math.min(a, b))),
        high = Math.max(low + 1, Math.ceil(logs.reduce((a, b) => Math.max(a, b))));
  const x = (seconds) => left + ((log(seconds) - low) / (high - low)) * (width - left - 16),
        y = (seconds) => bottom - ((log(seconds) - low) / (high - low)) * (bottom - 14);
  context.font = `11px ${FONT}`;
  for (let power = low; power <= high; ++power) {
    context.fillStyle = paint.line;
    context.fillRect(x(10 ** power), 14, 1, bottom - 14);
    context.fillRect(left, y(10 ** power), width - left - 16, 1);
    context.fillStyle = paint.ink3;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(secondsText(10 ** power), left - 8, y(10 ** power));
    context.textAlign = power === high ? "right" : "center";
    context.fillText(secondsText(10 ** power), x(10 ** power), bottom + 12);
  }
  context.textAlign = "left";
  context.fillText("measured", left + 6, 20);
  context.textAlign = "right";
  context.fillText("predicted", width - 20, bottom - 10);
  context.textAlign = "left";
  context.strokeStyle = paint.ink3;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(x(10 ** low), y(10 ** low));
  context.lineTo(x(10 ** high), y(10 ** high));
  context.stroke();
  context.setLineDash([]);
  view.points = points.map((row) => ({row, x: x(row.predicted), y: y(row.measured)}));
  context.globalAlpha = .75;
  for (const point of view.points) {
    const axes = point.row.change >= 0 ? view.plan.changeAxes(point.row.change) : null;
    context.fillStyle = axes ? axisColor(axes[0] ?? -1) : kernelColor(1);
    context.beginPath();
    if (axes)
      context.rect(point.x - 3.5, point.y - 3.5, 7, 7);
    else
      context.arc(point.x, point.y, 3.5, 0, 7);
    context.fill();
  }
  context.globalAlpha = 1;
}

class Measured {
  constructor(plan) {
    this.plan = plan;
    this.points = [];
    this.rows = measuredRows(plan);
    this.surface = makeSurface(
        "Predicted against measured", (context, width, height) => drawScatter(this, context, width, height), 330);
    this.surfaces = [this.surface];
    this.element = this.build(plan.data.measured);
    this.listen();
  }

  build({text, total, checks}) {
    const cards = [figure("Predicted step", secondsText(this.plan.data.totals.step), "by the machine's profile")];
    if (total !== null && total !== undefined)
      cards.push(
          figure("Measured", secondsText(total), "from the first event to the last", {"data-figure": "measured"}));
    const check = (one) => {
      const [look, mark] = one.ok === null ? ["softer", "–"] : one.ok ? ["good", "✓"] : ["bad", "✗"];
      return el(
          "li", {style: {"list-style": "none", display: "flex", gap: "8px"}},
          el("span." + look, {style: {"font-weight": 600}}, mark),
          el("span", {style: {"white-space": "pre-line"}}, one.text));
    };
    const inner =
        el("div.inner", null, el("h2", null, "Measured"), el("p.lead", null, text), el("div.figures", null, cards));
    if (checks.length) append(inner, [el("h3", null, "Checks"), el("ul.plain", null, checks.map(check))]);
    if (this.rows.length)
      append(inner, [
        el("h3", null, "Op by op"),
        el("p.softer", null, "Above the line an op took longer than predicted. Round: ops; square: collectives."),
        this.surface.element, el("div", {style: {height: "14px"}}), this.table().element
      ]);
    return el("section", {"aria-label": "Measured"}, inner);
  }

  table() {
    const {plan, rows} = this;
    const ratio = (r) => (rows[r].predicted >= LEAST_SECONDS ? rows[r].measured / rows[r].predicted : null);
    const seconds = (title, of) => ({title, width: "110px", number: true, value: of, text: (r) => secondsText(of(r))});
    const times = (r) => rows[r].times, name = (r) => rows[r].name,
          difference = (r) => rows[r].measured - rows[r].predicted;
    return makeTable({
      label: "Predicted and measured",
      rows: rows.length,
      noun: "op or collective",
      nouns: "ops and collectives",
      height: 430,
      sort: {column: 3, down: true},
      open: (r) => this.open(rows[r]),
      columns: [
        {
          title: "What",
          width: "minmax(240px,2fr)",
          value: name,
          cell: (r) => el("span.mono", {title: name(r)}, axesText(plan, name(r)))
        },
        seconds("Predicted", (r) => rows[r].predicted), seconds("Measured", (r) => rows[r].measured), {
          title: "Difference",
          width: "120px",
          number: true,
          value: (r) => Math.abs(difference(r)),
          cell: (r) => deltaNode(difference(r))
        },
        {
          title: "Ratio",
          width: "80px",
          number: true,
          value: ratio,
          text: (r) => (ratio(r) === null ? "" : ratio(r) < 100 ? fixed(ratio(r), 2) : countText(Math.round(ratio(r))))
        },
        {title: "Runs", width: "70px", number: true, value: times, text: (r) => "×" + countText(times(r))}
      ]
    });
  }

  open({op, change}) {
    go(op >= 0 ? {op: this.plan.opName(op), change: null, arg: null} : {change: String(change), op: null, arg: null});
  }

  nearest(event) {
    let found = null, least = 9;
    for (const {row, x, y} of this.points) {
      const away = Math.hypot(x - event.offsetX, y - event.offsetY);
      if (away < least) [found, least] = [row, away];
    }
    return found;
  }

  listen() {
    const {canvas} = this.surface;
    canvas.addEventListener("pointermove", (event) => {
      const row = this.nearest(event);
      if (!row) return tip.hide();
      const figures = `predicted ${secondsText(row.predicted)}, measured ${secondsText(row.measured)}`;
      return tip.show(event, el("div.name", null, row.name), el("div", null, figures));
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("click", (event) => {
      const row = this.nearest(event);
      if (row) this.open(row);
    });
  }
}

function makeMeasured(plan) {
  if (plan.data.measured) return new Measured(plan);
  return {element: el("section", null, el("h2", null, "Measured"), el("p.lead", null, "This plan was not run."))};
}
