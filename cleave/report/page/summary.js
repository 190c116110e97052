// The summary: what a step takes, how good that is, what limits it, and where to look next.

function figure(what, value, more, properties = {}) {
  return el(
      "div.figure", properties, el("div.what", null, what), el("div.value", null, value), el("div.more", null, more));
}

// A stacked bar with its legend: parts are {what, seconds or bytes, background, text}.
function stackedBar(parts, total, label) {
  const shown = parts.filter((part) => part.size > 0);
  const bar =
      el("div.stack", {role: "img", "aria-label": label},
         shown.map((part) => el("button", {
                     tabindex: -1,
                     style: {flex: `${(part.size / (total || 1)) * 1000} 1 0px`, background: part.background},
                     title: `${part.what}: ${part.text}`,
                     onclick: part.open ?? null,
                     "data-part": part.what
                   })));
  const legend =
      el("div.legend", {style: {"margin-top": "8px"}},
         shown.map(
             (part) =>
                 el("span", null, el("i.swatch", {style: {background: part.background}}), part.node ?? part.what,
                    el("b", {style: {"font-weight": 560}}, part.text),
                    el("span.softer", null, percentText(part.size / total)))));
  return el("div", null, bar, legend);
}

function verdictOf(plan) {
  const {totals, bound, figures, memory} = plan.data;
  const parts = [];
  const lines = bound.text.split("\n").filter((line) => line.trim());
  parts.push(
      el("p", {style: {margin: "0 0 4px", "font-size": "16px"}, "data-field": "step-text"}, "A step takes ",
         el("b", null, lines[0] ?? secondsText(totals.step)), "."));
  const words = [];
  if (figures?.limits.length) {
    const most = figures.limits.reduce((a, b) => (b.seconds > a.seconds ? b : a));
    const sum = figures.limits.reduce((s, l) => s + l.seconds, 0);
    const part = most.seconds > sum / 2 ? "Most of it" : "The largest part of it";
    if (sum > 0) words.push(`${part} goes to ${most.what} (${percentText(most.seconds / sum)}).`);
  }
  if (totals.communication > 0)
    words.push(
        totals.exposed > 0 ? `Of ${secondsText(totals.communication)} of communication ${
                                 secondsText(totals.exposed)} are exposed; the rest runs beside compute.` :
                             `All ${secondsText(totals.communication)} of communication run beside compute.`);
  if (memory.limit)
    words.push(
        memory.peak <= memory.limit ? `Its memory fits with ${bytesText(memory.limit - memory.peak)} to spare.` :
                                      `Its memory does not fit: ${bytesText(memory.peak - memory.limit)} are missing.`);
  parts.push(el("p.lead", null, words.join(" ")));
  if (lines.length > 1)
    parts.push(
        el("p.softer", {style: {margin: "-8px 0 0", "font-size": "13px"}},
           lines.slice(1).map((line) => el("div", null, line.trim()))));
  return parts;
}

function memoryByClass(plan, step) {
  const {buffers, classes, inside} = plan.data.memory;
  const sums = new Array(classes.length + 1).fill(0);
  for (let i = 0; i < buffers.bytes.length; ++i)
    if (buffers.first[i] <= step && step <= buffers.last[i]) sums[buffers.cls[i]] += buffers.bytes[i];
  sums[classes.length] = inside[step] ?? 0;
  return sums;
}

// At the program's peak, by class. The whole bar is the limit if there is one, unless parts would be too thin to see.
function memoryBar(plan) {
  const {memory} = plan.data;
  if (!memory.steps) return null;
  const sums = memoryByClass(plan, memory.program_peak_step), names = [...memory.classes, "inside an op"];
  const nearLimit = memory.limit > memory.program_peak && memory.limit < 10 * memory.program_peak;
  const total = nearLimit ? memory.limit : memory.program_peak;
  const parts = sums.map((bytes, i) => ({
                           what: names[i],
                           size: bytes,
                           text: bytesText(bytes),
                           background: memoryVariable(i),
                           open: () => go({view: "memory"})
                         }));
  if (nearLimit)
    parts.push({
      what: "free below the limit",
      size: memory.limit - memory.program_peak,
      text: bytesText(memory.limit - memory.program_peak),
      background: "var(--panel-2)"
    });
  return stackedBar(parts, total, "Memory at the peak, by class");
}

function limitsBar(plan) {
  const {figures, mesh} = plan.data, sum = figures.limits.reduce((s, l) => s + l.seconds, 0);
  return stackedBar(
      figures.limits.map(
          (limit, i) => ({
            what: limit.what,
            size: limit.seconds,
            text: secondsText(limit.seconds),
            background: limit.what === "communication" ? axesBackground(mesh.axes.map((_, axis) => axis)) :
                                                         kernelVariable(i)
          })),
      sum, "What limits the step");
}

function dearest(plan, most) {
  const {groups, totals} = plan.data;
  const rows = groups.slice(0, most).map(
      (group) =>
          [secondsText(group.seconds), percentText(group.seconds / totals.seconds), "×" + countText(group.times),
           group.op >= 0 ? el("button.link", {onclick: () => go({op: plan.opName(group.op), change: null, arg: null})},
                              axesText(plan, group.what)) :
                           axesText(plan, group.what),
           el("span.mono", null, plan.text(group.type))]);
  return plainTable(
      [{text: "Time", number: true}, {text: "Share", number: true}, {text: "Runs", number: true}, "What", "Type"],
      rows);
}

function patternRows(plan) {
  return plan.data.patterns.map(
      (pattern) => [
          [
            opLink(plan, pattern.example),
            pattern.ops > 1 ? el("span.softer", null, ` and ${countText(pattern.ops - 1)} more`) : null
          ],
          pattern.names.map((name) => el("div", null, axesText(plan, name))), el("span.mono", null, pattern.types),
          pattern.weight ? [el("span.mono", null, pattern.weight), " ", axesText(plan, pattern.weight_layout)] : ""]);
}

function summaryFigures(plan) {
  const {totals, bound, figures, memory} = plan.data;
  const cards = [figure(
      "Step", secondsText(totals.step),
      totals.step === totals.seconds ? "nothing overlaps" : `${secondsText(totals.seconds)} without overlap`,
      {"data-figure": "step"})];
  if (bound.exists)
    cards.push(figure(
        "At least", secondsText(bound.step_bound),
        `gap ${fixed(100 * bound.step_gap, 3)}%` + (bound.proven && bound.step_gap === 0 ? ", proven best" : ""),
        {"data-figure": "bound"}));
  cards.push(figure(
      "Exposed", secondsText(totals.exposed), `of ${secondsText(totals.communication)} communication`,
      {"data-figure": "exposed"}));
  if (figures) {
    if (figures.mfu !== null && figures.mfu !== undefined)
      cards.push(figure(
          "MFU", Number((100 * figures.mfu).toPrecision(3)) + "%",
          `of ${Number((figures.peak_flops / 1e12).toPrecision(4))} TFLOP/s of ${figures.dtype}`,
          {"data-figure": "mfu"}));
    if (figures.items_per_second)
      cards.push(figure(
          `${figures.items[0].toUpperCase()}${figures.items.slice(1)} a second`, rateText(figures.items_per_second),
          "of the whole mesh", {"data-figure": "items"}));
  }
  cards.push(figure(
      "Memory peak", bytesText(memory.peak),
      memory.limit ? `of ${bytesText(memory.limit)}, ${percentText(memory.peak / memory.limit)}` :
                     `at ${memory.peak_at}`,
      {"data-figure": "memory"}));
  return el("div.figures", null, cards);
}

function makeSummary(plan) {
  const {data} = plan, {figures, memory, notes} = data;
  const inner = el("div.inner", null, verdictOf(plan), summaryFigures(plan));
  const section = (title, ...content) => inner.append(el("h3", null, title), ...content.filter(Boolean));
  if (figures?.limits.length) section("What limits the step", limitsBar(plan));
  section("Where the time goes", timeBar(plan));
  if (memory.steps)
    section(
        "Memory of a device at the peak", memoryBar(plan),
        el("p.softer", {style: {margin: "6px 0 0", "font-size": "13px"}},
           `${bytesText(memory.program_peak)} in the program; ${bytesText(memory.peak)} planned, at `,
           plan.opPlaces.has(memory.peak_at) ? opLink(plan, plan.opPlaces.get(memory.peak_at)) : memory.peak_at,
           `, ${bytesText(memory.arguments)} of it arguments`,
           memory.limit ?
               (memory.share < 1 ?
                    `; devices have ${limitText(memory.device)}, of which programs can use ${limitText(memory.limit)}` :
                    `; limit ${limitText(memory.limit)}`) :
                    "; no limit"));
  if (data.groups.length)
    section("What takes longest", el("div.card", {style: {padding: "4px 6px"}}, dearest(plan, 8)));
  if (data.patterns.length)
    section(
        "How matmuls run",
        el("div.card", {style: {padding: "4px 6px"}},
           plainTable(["Op", "Pattern", "Types", "The weight lies as"], patternRows(plan))));
  if (notes.length)
    section("Notes", el("ul", {style: {margin: 0, "padding-left": "18px"}}, notes.map((note) => el("li", null, note))));
  section("The plan", el("p.softer", {style: {margin: 0}}, [
            data.source && data.source !== data.title ? `source ${data.source}` : null, `entry ${data.entry}`,
            `machine ${data.machine}`, `executor ${data.executor}`, `objective ${data.objective}`,
            data.bound.solver ? `solver ${data.bound.solver}` : null, `fingerprint ${data.fingerprint}`
          ].filter(Boolean).join(" · ")));
  return {element: el("section", {"aria-label": "Summary"}, inner)};
}
