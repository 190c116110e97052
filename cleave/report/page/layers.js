// Layers: the blocks of the model, and how its arguments and activations lie in each, as drawings.

// Rows {name, count, type, spec, role, note, arg or op} of the whole plan: arguments that are alike are one.
function argumentRows(plan) {
  if (!plan.data.arg_groups.length) return Array.from({length: plan.numArgs}, (_, arg) => argumentRow(plan, arg));
  return plan.data.arg_groups.map((group, i) => {
    const args = plan.argsOf(i);
    return {
      name: group.name,
      count: group.count,
      type: group.type,
      spec: group.spec,
      role: group.role,
      note: group.pattern,
      arg: args.length ? args[0] : -1
    };
  });
}

function argumentRow(plan, arg) {
  const {args} = plan, group = plan.data.arg_groups[args.group[arg]];
  return {
    name: plan.argName(arg),
    count: 1,
    type: args.type[arg],
    spec: args.spec[arg],
    role: plan.text(args.role[arg]),
    note: group ? group.pattern : "",
    arg
  };
}

// An argument belongs to a block, and to those that read it.
function argumentRowsIn(plan, tree, block) {
  const isIn = (arg) => (plan.args.block && tree.isInside(plan.args.block[arg], block)) ||
      plan.usersOf(-1 - arg).some((op) => tree.isInside(plan.ops.block[op], block));
  return Array.from({length: plan.numArgs}, (_, arg) => arg).filter(isIn).map((arg) => argumentRow(plan, arg));
}

// Results of ops of a block; those of like blocks are not repeated.
function activationRows(plan, tree, block) {
  const rows = [], inside = (at) => {
    for (const op of plan.opsIn(at)) {
      if (plan.opKind(op) === "constant" || plan.ops.out[op].length === 0) continue;
      rows.push({
        name: plan.opName(op),
        count: tree.blocks[at].count,
        type: plan.ops.type[op],
        spec: plan.ops.out[op][0],
        role: plan.opKind(op),
        note: plan.text(plan.ops.line[op]),
        op
      });
    }
    for (const item of tree.shown(at)) inside(item.block);
  };
  inside(block);
  return rows;
}

// What a device holds of it: the largest shard.
function localBytes(plan, typePlace, specPlace) {
  const type = plan.type(typePlace), spec = plan.spec(specPlace);
  if (!type || !spec || type.shape.length !== spec.dims.length) return type ? type.bytes : 0;
  let elements = 1, local = 1;
  type.shape.forEach((n, dim) => {
    elements *= n;
    local *= Math.ceil(n / totalSize(spec.dims[dim]));
  });
  return elements ? (type.bytes / elements) * local : 0;
}

function layersTable(plan, rows, what, grouped) {
  const open = (row) =>
      (rows[row].op === undefined ?
           rows[row].arg >= 0 && go({arg: plan.argName(rows[row].arg), op: null, change: null}) :
           go({op: plan.opName(rows[row].op), arg: null, change: null}));
  return makeTable({
    label: what,
    rows: rows.length,
    noun: what === "Activations" ? "activation" :
        grouped                  ? "group of arguments that lie alike" :
                                   "argument",
    nouns: what !== "Activations" && grouped ? "groups of arguments that lie alike" : undefined,
    lineHeight: 58,
    open,
    columns: [
      {
        title: "Drawn",
        width: "124px",
        cell: (r) => drawnLayout(plan, rows[r].name, rows[r].type, rows[r].spec, 104, 44)
      },
      {
        title: "Name",
        width: what === "Activations" ? "minmax(140px,1fr)" : "minmax(200px,1.9fr)",
        value: (r) => rows[r].name,
        cell: (r) =>
            el("span", null, el("span.mono.cut", {title: rows[r].name, style: {display: "block"}}, rows[r].name),
               el("span.softer", {style: {"font-size": "12px"}}, rows[r].role,
                  rows[r].count > 1 ? ` ×${countText(rows[r].count)}` : ""))
      },
      {
        title: "Type",
        width: what === "Activations" ? "minmax(250px,1.8fr)" : "minmax(180px,1.35fr)",
        value: (r) => plan.typeText(rows[r].type),
        also: {title: "Layout", value: (r) => plan.spec(rows[r].spec)?.text ?? ""},
        cell: (r) =>
            [el("span.two.mono", {title: plan.typeText(rows[r].type)}, plan.typeText(rows[r].type)),
             el("span.two", null, layoutText(plan, rows[r].spec))]
      },
      {
        title: "On a device",
        width: "104px",
        number: true,
        value: (r) => localBytes(plan, rows[r].type, rows[r].spec),
        text: (r) => bytesText(localBytes(plan, rows[r].type, rows[r].spec))
      },
      {
        title: what === "Activations" ? "Line" : "In words",
        width: "minmax(140px,1.1fr)",
        value: (r) => rows[r].note,
        cell: (r) => el("span.wrap.soft", {title: rows[r].note}, axesText(plan, rows[r].note))
      }
    ]
  });
}

class Layers {
  constructor(plan) {
    this.plan = plan;
    this.tree = treeOf(plan);
    this.block = 0;
    this.what = "Parameters and inputs";
    this.open = new Set([0]);
    this.list = el("div", {
      role: "tree",
      "aria-label": "Blocks",
      style: {width: "188px", flex: "none", overflow: "auto", "padding-right": "8px"}
    });
    this.place = el("div.grow", {style: {display: "flex", "flex-direction": "column", "min-height": 0}});
    this.find = el("input", {
      type: "search",
      placeholder: "Filter by name, type, layout",
      "aria-label": "Filter",
      oninput: () => this.filter()
    });
    this.choice = ["Parameters and inputs", "Activations"].map(
        (what) =>
            el("button", {
              onclick: () => {
                this.what = what;
                this.fill();
              }
            },
               what));
    this.element = el(
        "section.fill", {"aria-label": "Layers"}, el("h2", null, "Layers"),
        el("p.lead", {style: {"margin-bottom": "10px"}},
           "How each tensor lies on the mesh: a line in the colour of the axis that cuts it, sheets behind for copies, hatched if a sum is pending. Click a drawing to see the devices."),
        el("div.filters", null, this.choice, this.find),
        el("div", {style: {display: "flex", gap: "12px", flex: "1", "min-height": 0}}, this.list, this.place));
    this.drawTree();
    this.fill();
  }

  drawTree() {
    const lines = [];
    const add = (item, depth) => {
      const inner = this.tree.shown(item.block), {block, members} = item;
      lines.push(
          el("div", {
            role: "treeitem",
            "aria-selected": String(block === this.block),
            style: {
              display: "flex",
              "align-items": "center",
              "padding-left": depth * 14 + "px",
              "border-radius": "6px",
              background: block === this.block ? "var(--mark)" : "none"
            }
          },
             inner.length ? el("button.plain", {
               "aria-label": "Open or close",
               style: {width: "22px", padding: 0},
               onclick: () => {
                 this.open.has(block) ? this.open.delete(block) : this.open.add(block);
                 this.drawTree();
               }
             },
                               this.open.has(block) ? "▾" : "▸") :
                            el("span", {style: {width: "22px", flex: "none"}}),
             el("button.plain.cut.grow", {
               style: {"text-align": "left"},
               title: this.tree.name(item),
               onclick: () => {
                 this.block = block;
                 this.drawTree();
                 this.fill();
               }
             },
                this.tree.name(item), members.length > 1 ? el("span.softer", null, ` ×${members.length}`) : null)));
      if (this.open.has(block))
        for (const child of inner) add(child, depth + 1);
    };
    if (this.tree.blocks.length) add({block: 0, members: [0]}, 0);
    replaceChildren(this.list, lines);
  }

  fill() {
    this.choice.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === this.what)));
    const {plan, tree, block} = this;
    this.rows = this.what === "Activations" ? activationRows(plan, tree, block) :
        block === 0                         ? argumentRows(plan) :
                                              argumentRowsIn(plan, tree, block);
    this.table = layersTable(plan, this.rows, this.what, block === 0);
    replaceChildren(this.place, this.table.element);
    this.filter();
  }

  filter() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean), {plan} = this;
    if (!words.length) return this.table.setRows(this.rows.length);
    const fits = (row) => {
      const text = `${row.name} ${row.role} ${plan.typeText(row.type)} ${plan.spec(row.spec)?.text ?? ""} ${row.note}`
                       .toLowerCase();
      return words.every((word) => text.includes(word));
    };
    this.table.setRows(this.rows.flatMap((row, i) => (fits(row) ? [i] : [])));
  }
}

const makeLayers = (plan) => new Layers(plan);
