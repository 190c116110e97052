// Where the time goes: compute by class of kernel, collectives by kind and axes, and what costs the same, together.

function timeParts(plan) {
  const {classes, totals} = plan.data;
  const parts = classes.map(
      (c, i) =>
          ({what: c.what, size: c.seconds, text: secondsText(c.seconds), background: kernelVariable(i), count: null}));
  for (const c of totals.collectives)
    parts.push({
      what: `${c.kind} ${c.axes}`,
      size: c.seconds,
      text: secondsText(c.seconds),
      background: axesBackground(plan.axesOf(c.axes)),
      node: axesText(plan, `${c.kind} ${c.axes}`),
      count: c.count,
      bytes: c.bytes,
      open: () => go({view: "collectives", q: `${c.kind} ${c.axes}`})
    });
  return parts;
}

function timeBar(plan) {
  return stackedBar(timeParts(plan), plan.data.totals.seconds || 1, "Time by class of kernel and by collective");
}

function timeTable(plan) {
  const {totals} = plan.data, parts = timeParts(plan);
  const most = parts.reduce((a, part) => Math.max(a, part.size), 0) || 1;
  const rows = parts.map(
      (part) =>
          [el("span.row", {style: {gap: "8px", "flex-wrap": "nowrap"}},
              el("i.swatch", {style: {background: part.background}}), part.node ?? part.what),
           shareBar([{share: part.size / most, background: part.background}], "100%"), part.text,
           percentText(part.size / totals.seconds), part.count === null ? "" : "×" + countText(part.count),
           part.bytes === undefined ? "" : bytesText(part.bytes)]);
  const table = plainTable(
      [
        "What", "", {text: "Time", number: true}, {text: "Share", number: true}, {text: "Times", number: true},
        {text: "Received", number: true}
      ],
      rows);
  table.querySelector("th:nth-child(2)").style.width = "34%";
  return table;
}

function groupsTable(plan) {
  const {groups, totals} = plan.data;
  const layouts = (g) => plan.text(groups[g].layouts);
  const example = (g) => (groups[g].op >= 0 ? plan.opName(groups[g].op) : "");
  return makeTable({
    label: "What costs the same, together",
    rows: groups.length,
    noun: "group",
    height: 430,
    sort: {column: 0, down: true},
    columns: [
      {
        title: "Time",
        width: "96px",
        number: true,
        value: (g) => groups[g].seconds,
        text: (g) => secondsText(groups[g].seconds)
      },
      {
        title: "Share",
        width: "70px",
        number: true,
        value: (g) => groups[g].seconds,
        text: (g) => percentText(groups[g].seconds / totals.seconds)
      },
      {
        title: "Runs",
        width: "66px",
        number: true,
        value: (g) => groups[g].times,
        text: (g) => "×" + countText(groups[g].times)
      },
      {
        title: "What",
        width: "minmax(190px,1.6fr)",
        value: (g) => groups[g].what,
        cell: (g) => axesText(plan, groups[g].what)
      },
      {title: "Such as", width: "minmax(130px,1fr)", value: example, classes: ".mono", text: example}, {
        title: "Type",
        width: "minmax(150px,1.2fr)",
        value: (g) => plan.text(groups[g].type),
        classes: ".mono",
        text: (g) => plan.text(groups[g].type)
      },
      {
        title: "Layouts",
        width: "minmax(200px,2fr)",
        value: layouts,
        cell: (g) => el("span.layout", {title: layouts(g)}, axesText(plan, layouts(g)))
      }
    ],
    open: (g) => groups[g].op >= 0 && go({op: plan.opName(groups[g].op), change: null, arg: null})
  });
}

function makeTime(plan) {
  const {totals} = plan.data;
  const table = groupsTable(plan);
  const inner =
      el("div.inner", null, el("h2", null, "Time"),
         el("p.lead", null,
            `Without overlap a step would take ${secondsText(totals.seconds)}: ${
                secondsText(totals.compute)} of compute and `,
            `${secondsText(totals.seconds - totals.compute)} of collectives. With overlap it takes ${
                secondsText(totals.step)}. `,
            "Compute is grey; a collective has the colours of its axes."),
         timeBar(plan), el("div.card", {style: {margin: "18px 0", padding: "4px 6px"}}, timeTable(plan)),
         el("h3", null, "What costs the same, together"), table.element);
  return {element: el("section", {"aria-label": "Time"}, inner), table};
}
