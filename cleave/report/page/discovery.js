// What was found out about an operator: every combination of placements with its verdict.

const VERDICTS = ["proved", "tested", "implied", "conditional", "refuted", "rejected", "untestable"];
const VERDICT_LOOK = {
  proved: "good",
  tested: "good",
  implied: "good",
  conditional: "warn",
  refuted: "bad",
  rejected: "bad",
  untestable: "soft"
};
const VERDICT_MARK = {
  proved: "✓✓",
  tested: "✓",
  implied: "⊂",
  conditional: "if",
  refuted: "✗",
  rejected: "⊘",
  untestable: "?"
};

// A report in JSON has the rules by verdict and no matrix; its witnesses are texts.
function matrixOf(discovery) {
  if (discovery.matrix) return discovery.matrix;
  const rows = [];
  const add = (list, verdict, why) => {
    for (const rule of discovery[list] ?? [])
      rows.push({
        inputs: rule.inputs,
        output: rule.output,
        result: rule.result ?? 0,
        verdict: verdict ?? rule.verdict,
        condition: rule.condition ?? rule.with ?? "",
        justification: why(rule) ?? "",
        witness: -1,
        tests: rule.tests ?? 0
      });
  };
  add("unconditional_rules", null, (rule) => rule.justification);
  add("conditional_rules", "conditional", (rule) => rule.justification);
  add("implied_rules", "implied", (rule) => rule.justification);
  add("refuted", null, (rule) => rule.witness);
  add("untestable", "untestable", (rule) => rule.reason);
  const operands = rows.reduce((most, row) => Math.max(most, row.inputs.length), 0);
  return {
    results: rows.reduce((most, row) => Math.max(most, row.result + 1), 1),
    operands: Array.from({length: operands}, (_, i) => `operand ${i}`),
    rows
  };
}

const verdictBadge = (verdict) => el("span.badge." + (VERDICT_LOOK[verdict] ?? "soft"), null, verdict);

function placementNode(text) {
  const kind = text.startsWith("Shard") || text.startsWith("S(") ? 0 :
      text.startsWith("Partial") || text.startsWith("P(")        ? 1 :
                                                                   4;
  return el("span.mono", {style: kind < 4 ? {color: `var(--ink-axis-${kind})`, "font-weight": 600} : {}}, text);
}

// Inputs as rows, outputs as columns; a cell has the verdicts of all rules between them.
function verdictMatrix(matrix, result, open) {
  const rows = matrix.rows.flatMap((row, i) => (row.result === result ? [i] : []));
  const inputs = [...new Set(rows.map((r) => matrix.rows[r].inputs.join(", ")))],
        present = new Set(rows.map((r) => matrix.rows[r].output)),
        outputs = (matrix.columns ?? [...present]).filter((output) => present.has(output));
  const cells = new Map();
  for (const r of rows) {
    const key = JSON.stringify([matrix.rows[r].inputs.join(", "), matrix.rows[r].output]);
    cells.set(key, [...(cells.get(key) ?? []), r]);
  }
  const cell = (input, output) => {
    const found = cells.get(JSON.stringify([input, output])) ?? [];
    return el(
        "td", {style: {"text-align": "center", padding: "3px 6px"}},
        found.map(
            (r) =>
                el("button.badge." + (VERDICT_LOOK[matrix.rows[r].verdict] ?? "soft"), {
                  "data-rule": r,
                  title: `${matrix.rows[r].verdict}: ${input} → ${output}`,
                  style: {border: 0, "min-width": "34px"},
                  onclick: () => open(r)
                },
                   VERDICT_MARK[matrix.rows[r].verdict] ?? "?")));
  };
  const names = matrix.operands.join(", ");
  return el(
      "div.card", {style: {overflow: "auto", "max-height": "560px", padding: "4px 6px"}},
      el("table.plain", null,
         el("thead", null,
            el("tr", null, el("th", null, names ? `${names} → result` : "inputs → result"),
               outputs.map((output) => el("th", {style: {"text-align": "center"}}, placementNode(output))))),
         el("tbody", null,
            inputs.map(
                (input) =>
                    el("tr", null,
                       el("td", {style: {"white-space": "nowrap"}},
                          matrix.rows[rows.find((r) => matrix.rows[r].inputs.join(", ") === input)].inputs.map(
                              (p, i) => [i ? ", " : "", placementNode(p)])),
                       outputs.map((output) => cell(input, output)))))));
}

function rulesTable(matrix, open) {
  const {rows} = matrix, rule = (r) => `${rows[r].inputs.join(", ")} → ${rows[r].output}`;
  return makeTable({
    label: "Rules",
    rows: rows.length,
    noun: "combination",
    height: 420,
    none: "No rule is like that.",
    open,
    columns: [
      {
        title: "Verdict",
        width: "126px",
        value: (r) => VERDICTS.indexOf(rows[r].verdict),
        cell: (r) => verdictBadge(rows[r].verdict)
      },
      {
        title: "Rule",
        width: "minmax(240px,1.6fr)",
        value: rule,
        cell: (r) =>
            el("span", {title: rule(r)}, rows[r].inputs.map((p, i) => [i ? ", " : "", placementNode(p)]), " → ",
               placementNode(rows[r].output),
               rows[r].result > 0 ? el("span.softer", null, ` (result ${rows[r].result})`) : null)
      },
      {
        title: "Tests",
        width: "70px",
        number: true,
        value: (r) => rows[r].tests ?? null,
        text: (r) => (rows[r].tests ? countText(rows[r].tests) : "")
      },
      {
        title: "Condition",
        width: "minmax(90px,.8fr)",
        value: (r) => rows[r].condition,
        classes: ".mono",
        text: (r) => rows[r].condition
      },
      {
        title: "Why",
        width: "minmax(200px,2fr)",
        value: (r) => rows[r].justification,
        text: (r) => rows[r].justification
      },
      {
        title: "Witness",
        width: "90px",
        value: (r) => rows[r].witness,
        cell: (r) =>
            (rows[r].witness >= 0 ? el("button.link", {
              onclick: (event) => {
                event.stopPropagation();
                go({view: "witnesses", q: String(rows[r].witness)});
              }
            },
                                       "see it") :
                                    "")
      }
    ]
  });
}

class Discovery {
  constructor(report) {
    const {discovery} = report, matrix = matrixOf(discovery);
    this.matrix = matrix;
    const counts = VERDICTS.map((verdict) => [verdict, matrix.rows.filter((row) => row.verdict === verdict).length])
                       .filter(([, n]) => n);
    this.kind = "";
    this.buttons = counts.map(
        ([verdict, n]) =>
            el("button", {
              "aria-pressed": "false",
              "data-verdict": verdict,
              onclick: () => this.filter(this.kind === verdict ? "" : verdict)
            },
               verdictBadge(verdict), ` ${countText(n)}`));
    this.find = el("input", {
      type: "search",
      placeholder: "Filter by placement, condition, reason",
      "aria-label": "Filter rules",
      oninput: () => this.filter(this.kind)
    });
    this.table = rulesTable(matrix, (r) => this.open(r));
    const {analysis} = discovery, properties = analysis?.mathematical_properties ?? [];
    const facts = [
      analysis?.category, discovery.seconds !== undefined ? `${secondsText(discovery.seconds)} of tests` : null,
      discovery.seed !== undefined ? `seed ${discovery.seed}` : null,
      discovery.tolerance !== undefined ? `tolerance ${discovery.tolerance}` : null
    ].filter(Boolean);
    this.element = el(
        "section", {"aria-label": "Verdicts"},
        el("div.inner", null, el("h2", null, discovery.operator),
           el("p.lead", null, discovery.signature ? el("span.mono", null, discovery.signature, " — ") : null,
              facts.join(", ")),
           analysis?.reason ? el("p", {"data-field": "reason"}, analysis.reason) : null,
           el("div.filters", null, this.buttons),
           Array.from(
               {length: Math.max(1, matrix.results)},
               (_, result) =>
                   [matrix.results > 1 ? el("h3", null, `Result ${result}`) : null,
                    verdictMatrix(matrix, result, (r) => this.open(r))]),
           el("p.legend", {style: {margin: "8px 0 20px"}},
              VERDICTS.map(
                  (verdict) => el(
                      "span", null, el("span.badge." + VERDICT_LOOK[verdict], null, VERDICT_MARK[verdict]), verdict))),
           el("h3", null, "Rules"), el("div.filters", null, this.find), this.table.element,
           properties.length ?
               [
                 el("h3", null, "Properties"),
                 el("div.card", {style: {padding: "4px 6px"}},
                    plainTable(
                        ["Property", "Of", "How", {text: "Tests", number: true}],
                        properties.map((p) => [p.name, p.about, verdictBadge(p.how), p.tests ?? ""])))
               ] :
               null));
    this.filter("");
  }

  open(r) {
    const row = this.matrix.rows[r];
    if (row.witness >= 0) return go({view: "witnesses", q: String(row.witness)});
    this.find.value = `${row.inputs.join(", ")} → ${row.output}`;
    return this.filter("");
  }

  filter(kind) {
    this.kind = kind;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.verdict === kind));
    const text = this.find.value.toLowerCase();
    this.table.setRows(this.matrix.rows.flatMap(
        (row, i) =>
            ((!kind || row.verdict === kind) &&
                     `${row.inputs.join(", ")} → ${row.output}\n${row.condition}\n${row.justification}`
                         .toLowerCase()
                         .includes(text) ?
                 [i] :
                 [])));
  }
}

const makeDiscovery = (plan, report) => new Discovery(report);
