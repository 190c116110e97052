// The search over names of ops and arguments, kinds, blocks and lines: "/" opens it.

const MOST_FOUND = 60;

// Each thing once: {text, lower, kind, open}. Lines lead to their first op.
function searchIndex(plan) {
  return plan.once("searchIndex", () => {
    const entries = [], add = (text, kind, about, route) => {
      if (text) entries.push({text, lower: text.toLowerCase(), kind, about, route});
    };
    for (let arg = 0; arg < plan.numArgs; ++arg)
      add(plan.argName(arg), "argument", () => plan.typeText(plan.args.type[arg]),
          {arg: plan.argName(arg), op: null, change: null});
    for (let op = 0; op < plan.numOps; ++op)
      add(plan.opName(op), "op", () => `${plan.typeText(plan.ops.type[op])}  ${plan.text(plan.ops.line[op])}`,
          {op: plan.opName(op), arg: null, change: null});
    const lines = new Map();
    plan.ops.line.forEach((line, op) => {
      if (!lines.has(line)) lines.set(line, []);
      lines.get(line).push(op);
    });
    for (const [line, ops] of lines)
      add(plan.text(line), "line", () => plural(ops.length, "op"), {op: plan.opName(ops[0]), arg: null, change: null});
    const kinds = new Set();
    for (let c = 0; c < plan.numChanges; ++c) {
      const title = plan.changeTitle(c);
      if (kinds.has(title)) continue;
      kinds.add(title);
      add(title, "collective", () => "in the table", {view: "collectives", q: title});
    }
    return entries;
  });
}

// What contains all words; a name that is or begins with the text comes first, then shorter ones.
function findEntries(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const entry of entries) {
    if (!words.every((word) => entry.lower.includes(word))) continue;
    const rank = entry.lower === words[0] ? 0 : entry.lower.startsWith(words[0]) ? 1 : 2;
    found.push([rank, entry.text.length, found.length, entry]);
  }
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
  return found.map((f) => f[3]);
}

function openSearch() {
  const plan = currentPlan();
  if (!plan || document.querySelector("dialog.search")) return;
  const entries = searchIndex(plan),
        list = el("div", {role: "listbox", id: "found", style: {overflow: "auto", "max-height": "56vh"}});
  let found = [], at = 0;
  const input = el("input", {
    type: "search",
    placeholder: "An op, an argument, a line, a collective",
    "aria-label": "Search",
    role: "combobox",
    "aria-controls": "found",
    "aria-expanded": "true",
    style: {width: "100%", padding: "10px 12px", "font-size": "15px"}
  });
  const choose = (entry) => {
    dialog.close();
    go(entry.route);
  };
  const mark = () => {
    [...list.querySelectorAll("[role=option]")].forEach((option, i) => {
      option.setAttribute("aria-selected", String(i === at));
      option.style.background = i === at ? "var(--mark)" : "";
      if (i === at) option.scrollIntoView({block: "nearest"});
    });
  };
  const show = () => {
    found = findEntries(entries, input.value);
    at = 0;
    replaceChildren(
        list,
        found.slice(0, MOST_FOUND)
            .map(
                (entry) =>
                    el("div", {
                      role: "option",
                      style: {
                        display: "flex",
                        gap: "10px",
                        padding: "6px 12px",
                        cursor: "pointer",
                        "align-items": "baseline"
                      },
                      onclick: () => choose(entry)
                    },
                       el("span.badge", {style: {flex: "none", width: "84px", "text-align": "center"}}, entry.kind),
                       el("span.mono.cut", {style: {flex: "1"}}, entry.text),
                       el("span.softer.cut", {style: {"font-size": "12px", "max-width": "45%"}}, entry.about()))),
        found.length > MOST_FOUND ?
            el("div.softer", {style: {padding: "8px 12px"}}, `and ${countText(found.length - MOST_FOUND)} more`) :
            null,
        input.value.trim() && !found.length ?
            el("div.softer", {style: {padding: "16px 12px"}}, "Nothing has such a name.") :
            null);
    mark();
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (by) {
      event.preventDefault();
      at = Math.max(0, Math.min(Math.min(found.length, MOST_FOUND) - 1, at + by));
      mark();
    } else if (event.key === "Escape") {
      event.preventDefault();  // else the field is only emptied
      event.stopPropagation();
      dialog.close();
    } else if (event.key === "Enter" && found[at]) {
      event.preventDefault();
      choose(found[at]);
    }
  });
  const dialog =
      el("dialog.search", {"aria-label": "Search", style: {width: "660px", "margin-top": "9vh"}},
         el("div", {style: {padding: "12px"}}, input), list);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}
