// The ways to run an op: what each costs, with the neighbours as they are, and why it lost.

function waysSection(plan, op) {
  const place = plan.ops.alternatives[op];
  if (!(place >= 0)) return null;
  const {count, list} = plan.data.ways[place];
  const sum = (way) => way.compute + way.operands + way.results;
  const most = list.reduce((a, way) => Math.max(a, sum(way)), 0) || 1;
  const chosen = list.find((way) => way.chosen);
  const parts = (way) =>
      [{share: way.compute / most, background: kernelVariable(0), title: `compute ${secondsText(way.compute)}`},
       {share: way.operands / most, background: "var(--memory-4)", title: `for operands ${secondsText(way.operands)}`},
       {share: way.results / most, background: "var(--memory-3)", title: `for results ${secondsText(way.results)}`}];
  const card = (way) =>
      el("div", {
        "data-way": way.chosen ? "chosen" : "lost",
        style: {
          padding: "8px 10px",
          margin: "6px 0",
          border: `1px solid var(${way.chosen ? "--focus" : "--line"})`,
          "border-radius": "8px"
        }
      },
         el("div.row", {style: {gap: "8px", "flex-wrap": "nowrap"}},
            el("b", {style: {"font-weight": 600, "white-space": "nowrap"}}, secondsText(sum(way))),
            shareBar(parts(way), "100%"), way.chosen ? el("span.badge.good", null, "chosen") : null),
         el("div.softer", {style: {"font-size": "12px", margin: "3px 0"}},
            `${secondsText(way.compute)} compute, ${secondsText(way.operands)} for operands, ${
                secondsText(way.results)} for results, ${bytesText(way.bytes)}`),
         el("div.layout", null, axesText(plan, plan.text(way.layouts))),
         !way.chosen && plan.text(way.why) ? el("div", {style: {"font-size": "13px", "margin-top": "3px"}},
                                                el("span.soft", null, "lost: "), plan.text(way.why)) :
                                             null);
  const first = list[0];
  const note = !chosen || list.length < 2 ?
      null :
      first.chosen ?
      `Every other way costs at least ${secondsText(sum(list[1]) - sum(first))} more here.` :
      `Alone the first would be ${
          secondsText(
              sum(chosen) -
              sum(first))} cheaper, but ops that look alike are decided together, and the memory of a device counts.`;
  const legend = el("div.legend", {style: {"font-size": "12px"}}, [
    ["compute", kernelVariable(0)], ["for operands", "var(--memory-4)"], ["for results", "var(--memory-3)"]
  ].map(([name, background]) => el("span", null, el("i.swatch", {style: {background}}), name)));
  return section(
      `${plural(count, "way")} to run it, with the neighbours as they are`,
      note ? el("p.soft", {style: {margin: "0 0 6px", "font-size": "13px"}}, note) : null, legend, list.map(card),
      count > list.length ? el("div.softer", null, `and ${countText(count - list.length)} more`) : null);
}
