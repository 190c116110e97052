// A witness against a rule: the operands and their shards as numbers, what came out, and where it is wrong.

const numberShort = (value) =>
    (typeof value === "number" ? (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)))) :
                                 String(value));

// Of [2, 3, 4] the matrices of the last two dimensions; dimensions of one are left out. Values are in row-major order.
// `look(at)` gives the style of an element.
function arrayTables(array, look) {
  const {values} = array, shape = array.shape.filter((n) => n !== 1);
  const columns = shape.length ? shape[shape.length - 1] : 1, rows = shape.length > 1 ? shape[shape.length - 2] : 1,
        each = rows * columns;
  const count = each ? Math.max(1, Math.floor(values.length / each)) : 0, shown = Math.min(count, 8);
  const cell = (at) =>
      el("td", {
        class: look(at).bad ? "bad" : null,
        style: {
          border: "1px solid var(--line-2)",
          padding: "2px 7px",
          "text-align": "right",
          background: "var(--panel)",
          ...look(at).style
        }
      },
         numberShort(values[at]));
  const line = (m, r) =>
      el("tr", null, Array.from({length: Math.min(columns, 16)}, (_, c) => cell(m * each + r * columns + c)));
  const matrix = (m) =>
      el("table.mono", {style: {"border-collapse": "collapse"}},
         el("tbody", null, Array.from({length: Math.min(rows, 16)}, (_, r) => line(m, r))));
  return el(
      "div", {style: {display: "flex", gap: "10px", "flex-wrap": "wrap"}},
      count === 0 ? el("span.softer", null, "empty") : null, Array.from({length: shown}, (_, m) => matrix(m)),
      count > shown || rows > 16 || columns > 16 ? el("span.softer", null, "…") : null);
}

const shapeText = (array) => (array.shape.length ? array.shape.join(" × ") : "a number");
const deviceTint = (device) =>
    ({background: `color-mix(in srgb, ${axisVariable(device % AXIS_COLORS)} 16%, var(--panel))`});

// If an array is cut along one dimension: the device of each element, else -1.
function deviceOfElement(whole, shards) {
  const cut = whole.shape.findIndex((n, dim) => shards.some((shard) => shard.shape[dim] !== n));
  if (cut < 0 || shards.reduce((sum, shard) => sum + (shard.shape[cut] ?? 0), 0) !== whole.shape[cut]) return () => -1;
  const inner = whole.shape.slice(cut + 1).reduce((product, n) => product * n, 1);
  const ends = [];
  for (const shard of shards) ends.push((ends[ends.length - 1] ?? 0) + shard.shape[cut]);
  return (at) => ends.findIndex((end) => Math.floor(at / inner) % whole.shape[cut] < end);
}

function witnessCard(witness, place) {
  const {text, call, world, operands, result, note} = witness, {expected} = result, lines = text.split("\n");
  const position = Array.isArray(witness.position) ? witness.position :
      Array.isArray(witness.element)               ? witness.element :
                                                     null;
  const named = !expected               ? -1 :
      Number.isInteger(witness.element) ? witness.element :
      position && position.length === expected.shape.length ?
                                          position.reduce((offset, at, dim) => offset * expected.shape[dim] + at, 0) :
                                          -1;
  const wrong = {bad: true, style: {background: "var(--bad-back)", color: "var(--bad)", "font-weight": 700}}, none = {};
  const box = (title, array, look) =>
      el("div", {style: {"min-width": 0}},
         el("div.soft", {style: {"font-size": "12px", margin: "0 0 3px"}}, title,
            el("span.softer", null, `, ${shapeText(array)}`)),
         arrayTables(array, look));
  const line = (title, placement, ...boxes) =>
      el("div", {style: {margin: "12px 0"}},
         el("div", {style: {"font-weight": 560, "margin-bottom": "4px"}}, title,
            placement ? [" as ", placementNode(placement)] : null),
         el("div", {style: {display: "flex", gap: "22px", "flex-wrap": "wrap"}}, boxes));
  const operand = ({whole, shards, placement}, i) => {
    const owner = deviceOfElement(whole, shards), isCut = owner(0) >= 0;
    return line(
        `Operand ${i}`, placement,
        box("whole", whole, (at) => (owner(at) >= 0 ? {style: deviceTint(owner(at))} : none)),
        shards.map((shard, d) => box(`on device ${d}`, shard, () => (isCut ? {style: deviceTint(d)} : none))));
  };
  const same = (array) => expected && array.shape.join() === expected.shape.join();
  return el(
      "div.card", {id: `witness-${place}`, "data-witness": place, style: {margin: "0 0 16px"}},
      el("div.row", null, el("b.grow", null, lines[0]), el("span.badge", null, plural(world, "device"))),
      lines[0].includes(call) ? null : el("div.mono.soft", {style: {"margin-top": "2px"}}, call), operands.map(operand),
      line(
          "Result", result.placement,
          expected ? box("expected", expected, (at) => (at === named ? wrong : none)) : null,
          (result.devices ??
           []).map((array, d) => box(`from device ${d}`, array, (at) => (same(array) && at === named ? wrong : none)))),
      note || position ? el("p", {style: {margin: "6px 0 0"}},
                            position ? el("span.bad", null, `It differs at [${position.join(", ")}]. `) : null,
                            note ? note[0].toUpperCase() + note.slice(1) : "") :
                         null);
}

function makeWitnesses(plan, report) {
  const {witnesses} = report.discovery, list = el("div"), SHOWN = 40;
  const view = {
    element: el(
        "section", {"aria-label": "Witnesses"},
        el("div.inner", null, el("h2", null, "Witnesses"),
           el("p.lead", null,
              "Each rule that was refuted, with numbers that show it: the operands as each device has them, and what comes out instead of the expected result."),
           list))
  };
  const show = (first) => replaceChildren(
      list, witnesses.slice(first, first + SHOWN).map((witness, i) => witnessCard(witness, first + i)),
      witnesses.length > SHOWN ?
          el("div.row", null,
             el("button", {disabled: first === 0, onclick: () => show(Math.max(0, first - SHOWN))}, "before"),
             `${first + 1} to ${Math.min(witnesses.length, first + SHOWN)} of ${witnesses.length}`,
             el("button", {disabled: first + SHOWN >= witnesses.length, onclick: () => show(first + SHOWN)}, "after")) :
          null);
  show(0);
  view.shown = (route) => {
    const wanted = Number(route.q);
    if (route.q === null || !Number.isInteger(wanted) || !witnesses[wanted]) return;
    if (!list.querySelector(`[data-witness="${wanted}"]`)) show(wanted);
    list.querySelector(`[data-witness="${wanted}"]`).scrollIntoView({block: "start"});
  };
  return view;
}
