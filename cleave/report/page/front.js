// A sweep of memory limits: the step against the limit, and the plans to click through.

const FRONT_HEIGHT = 330, FRONT_LEFT = 84, FRONT_BOTTOM = 40;

function frontChart(front, width, open) {
  const made = svg("svg", {
    width,
    height: FRONT_HEIGHT,
    viewBox: `0 0 ${width} ${FRONT_HEIGHT}`,
    role: "img",
    "aria-label": "Step against memory limit",
    style: {display: "block", "font-size": "11px"}
  });
  const limits = front.map((row) => row.limit ?? 0),
        steps = front.flatMap((row) => (row.plan >= 0 ? [row.step, row.bound || row.step] : []));
  // Limits that are far from each other are on a logarithmic scale.
  const far = Math.min(...limits) > 0 && Math.max(...limits) > 6 * Math.min(...limits);
  const scaled = (limit) => (far ? Math.log(limit) : limit);
  const lowX = scaled(Math.min(...limits) * .9), highX = scaled(Math.max(...limits) * 1.05 || 1),
        highY = Math.max(...steps, 1e-9) * 1.1, lowY = Math.min(...steps, highY) * .9;
  const x = (limit) => FRONT_LEFT + ((scaled(limit) - lowX) / (highX - lowX || 1)) * (width - FRONT_LEFT - 24);
  const y = (seconds) =>
      FRONT_HEIGHT - FRONT_BOTTOM - ((seconds - lowY) / (highY - lowY || 1)) * (FRONT_HEIGHT - FRONT_BOTTOM - 20);
  const text = (words, at, height, anchor) =>
      svg("text", {
        x: at,
        y: height,
        "text-anchor": anchor,
        fill: "var(--ink-3)",
        stroke: "var(--panel)",
        "stroke-width": 4,
        "stroke-linejoin": "round",
        "paint-order": "stroke"
      },
          words);
  for (const seconds of niceSteps(lowY, highY, 6))
    made.append(
        svg("line", {x1: FRONT_LEFT, x2: width - 16, y1: y(seconds), y2: y(seconds), stroke: "var(--line)"}),
        text(secondsText(seconds), FRONT_LEFT - 8, y(seconds) + 4, "end"));
  for (const limit of [...new Set(limits)])
    made.append(text(bytesText(limit), x(limit), FRONT_HEIGHT - FRONT_BOTTOM + 18, "middle"), svg("line", {
                  x1: x(limit),
                  x2: x(limit),
                  y1: FRONT_HEIGHT - FRONT_BOTTOM,
                  y2: FRONT_HEIGHT - FRONT_BOTTOM + 4,
                  stroke: "var(--line-2)"
                }));
  made.append(
      text(far ? "memory of a device, logarithmic" : "memory of a device", width - 16, FRONT_HEIGHT - 4, "end"),
      text("step", 8, 14, "start"));
  const fits = front.filter((row) => row.plan >= 0).sort((a, b) => a.limit - b.limit);
  const path = (field) => {
    const places = fits.filter((row) => row[field] > 0).map((row) => [x(row.limit), y(row[field])]);
    if (places.length === 1) return `M${places[0][0] - 16},${places[0][1]} h32`;
    return places.map((place, i) => `${i ? "L" : "M"}${place}`).join(" ");
  };
  made.append(
      svg("path", {d: path("bound"), fill: "none", stroke: "var(--ink-3)", "stroke-dasharray": "4 4"}),
      svg("path", {d: path("step"), fill: "none", stroke: "var(--focus)", "stroke-width": 2}));
  front.forEach((row, i) => {
    if (row.plan < 0) {
      made.append(
          svg("g", {
            transform: `translate(${x(row.limit)},${FRONT_HEIGHT - FRONT_BOTTOM - 14})`,
            stroke: "var(--bad)",
            "stroke-width": 2.5
          },
              svg("title", null, row.reason), svg("path", {d: "M-5,-5 L5,5 M5,-5 L-5,5"})));
      return;
    }
    const point =
        svg("circle", {
          cx: x(row.limit),
          cy: y(row.step),
          r: 7,
          fill: "var(--focus)",
          stroke: "var(--panel)",
          "stroke-width": 2,
          tabindex: 0,
          role: "button",
          "data-front": i,
          style: {cursor: "pointer"},
          "aria-label": `within ${bytesText(row.limit)}: ${secondsText(row.step)}`,
          onclick: () => open(row),
          onkeydown: (event) => {
            if (event.key === "Enter") open(row);
          }
        },
            svg("title", null, `within ${bytesText(row.limit)}: ${secondsText(row.step)}`));
    made.append(point, text(secondsText(row.step), x(row.limit), y(row.step) - 13, "middle"));
  });
  return made;
}

function makeFront(plan, report) {
  const {front} = report, known = (r, field) => (front[r].plan >= 0 && front[r][field] > 0 ? front[r][field] : null),
        open = (row) =>
            row.plan >= 0 && go({plan: String(row.plan), view: "summary", op: null, arg: null, change: null});
  const meshText = (at) => app.plans[at].mesh.axes.map(({name, size}) => `${name} ${size}`).join(" × "),
        meshes = new Set(front.filter((row) => row.plan >= 0).map((row) => meshText(row.plan)));
  const onMesh = (r) => (meshes.size > 1 ? `, on ${meshText(front[r].plan)}` : "");
  const table = makeTable({
    label: "Limits and plans",
    rows: front.length,
    noun: "limit",
    height: 70 + 34 * Math.min(10, front.length),
    lineHeight: 34,
    open: (r) => open(front[r]),
    columns: [
      {
        title: "Limit",
        width: "110px",
        number: true,
        value: (r) => front[r].limit,
        text: (r) => bytesText(front[r].limit)
      },
      {
        title: "Step",
        width: "120px",
        number: true,
        value: (r) => known(r, "step"),
        text: (r) => (front[r].plan < 0 ? "no plan" : secondsText(front[r].step))
      },
      {
        title: "At least",
        width: "120px",
        number: true,
        value: (r) => known(r, "bound"),
        text: (r) => (known(r, "bound") === null ? "" : secondsText(front[r].bound))
      },
      {
        title: "Memory",
        width: "120px",
        number: true,
        value: (r) => known(r, "memory"),
        text: (r) => (known(r, "memory") === null ? "" : bytesText(front[r].memory))
      },
      {
        title: "",
        width: "minmax(200px,1fr)",
        cell: (r) =>
            (front[r].plan < 0 ? el("span.bad", {title: front[r].reason}, front[r].reason) :
                                 el("span.softer", null, "open this plan", onMesh(r)))
      }
    ]
  });
  const fits = front.filter((row) => row.plan >= 0);
  const slow = fits.reduce((most, r) => Math.max(most, r.step), 0),
        fast = fits.reduce((least, r) => Math.min(least, r.step), Infinity);
  const lead = !fits.length ?
      "No plan fits into any of these limits." :
      (slow > fast ?
           `From the tightest limit to the widest a step takes ${secondsText(slow)} to ${secondsText(fast)}. ` :
           `${fits.length < front.length ? "Every limit with a plan" : "Every limit"} allows a step of ${
               secondsText(fast)}. `) +
          "Click a point to see its plan; the dashed line is what no plan can beat.";
  return {
    element:
        el("section", {"aria-label": "Memory sweep"},
           el("div.inner", null, el("h2", null, "Memory sweep"), el("p.lead", null, lead),
              el("div.card", {style: {"margin-bottom": "16px"}},
                 frontChart(front, Math.min(1080, innerWidth - 280), open)),
              table.element))
  };
}
