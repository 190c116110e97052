// No plan fits: how much is missing, and what holds it.

function makeInfeasible(plan, report) {
  const {limit, share, least, least_at: leastAt, enough, conflict, bytes, text} = report.infeasible;
  const most = Math.max(limit ?? 0, least ?? 0, enough ?? 0) || 1;
  const bar = (what, size, color, more) =>
      (size === null || size === undefined ?
           null :
           el("div", {
             "data-bytes": what,
             style: {
               display: "grid",
               "grid-template-columns": "180px 1fr 130px",
               gap: "12px",
               "align-items": "center",
               margin: "8px 0"
             }
           },
              el("span", null, what, more ? el("div.softer", {style: {"font-size": "12.5px"}}, more) : null),
              el("div.bar", {style: {height: "20px"}},
                 el("i", {style: {width: `${(size / most) * 100}%`, background: color}})),
              el("b.number", null, limitText(size))));
  return {
    element: el(
        "section", {"aria-label": "Why not"},
        el("div.inner", null, el("h2", {class: "bad"}, "No plan fits"),
           el("p.lead", {style: {"font-size": "15.5px", "white-space": "pre-line"}}, text),
           el("div.card", null,
              bar("Programs can use", limit, "var(--ink-3)",
                  share < 1 ? `${percentText(share)} of ${limitText(limit / share)}` : null),
              bar("Needed at least", least, "var(--bad)", leastAt ? `at ${leastAt}` : null),
              bar("Enough", enough, "var(--good)", "a plan was found with it")),
           conflict.length ?
               [
                 el("h3", null, "What excludes each other"),
                 el("ul", {style: {margin: 0, "padding-left": "18px"}}, conflict.map((line) => el("li", null, line)))
               ] :
               null,
           bytes.length ?
               [
                 el("h3", null, "What holds the memory"),
                 el("div.card", null, bytes.map((line) => el("div.mono", {style: {"white-space": "pre-wrap"}}, line)))
               ] :
               null))
  };
}
