// The graph of the module: blocks that open and close, ops, and on the lines between them layouts and reshards.

class GraphView {
  constructor(plan) {
    this.plan = plan;
    this.tree = treeOf(plan);
    this.constants = false;
    this.structures = new Map();
    this.open = new Set([0]);
    this.view = {x: 0, y: 0, scale: 1};
    this.chosen = -1;
    this.pointed = null;
    this.diamonds = [];
    this.drawn = {boxes: 0, lines: 0};
    this.openSome();
    this.relayout();
    this.surface = makeSurface(
        "Graph of the module", (context, width, height, surface) => this.draw(context, width, height, surface));
    this.surfaces = [this.surface];
    this.element = this.build();
    this.listen();
  }

  // So many blocks are open at first that there is something to see, and not too much.
  openSome() {
    const {tree} = this;
    let shown = tree.shown(0).length + this.plan.opsIn(0).length, level = tree.shown(0);
    while (level.length && shown < 14) {
      const next = [];
      for (const item of level) {
        const inside = tree.shown(item.block).length + this.plan.opsIn(item.block).length;
        if (inside > 8 || shown + inside > 30 || !inside) continue;
        this.open.add(item.block);
        shown += inside;
        next.push(...tree.shown(item.block));
      }
      level = next;
    }
  }

  structure(block) {
    if (!this.structures.has(block)) this.structures.set(block, new BlockStructure(this, block));
    return this.structures.get(block);
  }
  place(block) { return new BlockPlace(this, block); }
  relayout() { this.root = this.place(0); }

  build() {
    const tool = (text, title, does) => el("button", {title, onclick: does}, text);
    this.constantsButton =
        el("button", {
          "aria-pressed": "false",
          onclick: () => {
            this.constants = !this.constants;
            this.constantsButton.setAttribute("aria-pressed", String(this.constants));
            this.structures.clear();
            this.changed();
          }
        },
           "Constants");
    const legend =
        el("div.legend", {style: {margin: "0 0 10px"}},
           this.plan.mesh.axes.map(
               (axis, i) => el("span", null, el("i.swatch", {style: {background: axisVariable(i)}}), axis.name)),
           el("span", null, el("b", {style: {color: "var(--ink-2)"}}, "◆"), "change of layout"),
           el("span", null, el("i.swatch", {style: {border: "1px solid var(--ink-3)"}}),
              "a square for each dimension, in the colours of its axes"));
    return el(
        "section.fill", {"aria-label": "Graph"},
        el("div.row", null, el("h2.grow", null, "Graph"),
           el("span.row.screen-only", {style: {gap: "6px"}}, this.constantsButton,
              tool("Open a level", "Open the blocks that are shown", () => this.openLevel()),
              tool(
                  "Close all", "Close all blocks",
                  () => {
                    this.open = new Set([0]);
                    this.changed();
                    this.fit();
                  }),
              tool("+", "Zoom in (+)", () => this.zoomBy(1.4)), tool("−", "Zoom out (-)", () => this.zoomBy(1 / 1.4)),
              tool("Fit", "All of it (0)", () => this.fit()))),
        el("p.lead", {style: {"margin-bottom": "8px"}},
           `${
               plural(
                   this.plan.numOps,
                   "op")} in the order of the program; blocks that look alike are one. Click a block to open it, an op for its costs, a diamond for its reason.`),
        legend, this.surface.element);
  }

  draw(context, width, height, surface) {
    if (!this.fitted) {
      this.fitted = true;
      if (this.wanted !== undefined)
        this.center(this.wanted);
      else
        this.fit(false);
    }
    this.diamonds = [];
    const painter = new GraphPainter(this, context, surface.width, surface.height);
    painter.draw();
    this.drawn = {boxes: painter.boxes, lines: painter.lines};
  }

  fit(redraw = true) {
    const {surface, root} = this, width = surface.element.clientWidth || 1000,
                    height = surface.element.clientHeight || 600;
    const whole = Math.min(width / root.width, height / root.height);
    const scale = Math.min(1, Math.max(whole, Math.min(.85, width / root.width), .5));
    this.view = {
      scale,
      x: Math.min(0, (root.width - width / scale) / 2),
      y: Math.min(0, (root.height - height / scale) / 2)
    };
    if (root.width > width / scale) this.view.x = (root.width - width / scale) / 2;
    if (redraw) surface.redraw();
  }

  changed() {
    this.relayout();
    this.surface.redraw();
  }

  openLevel() {
    const {tree} = this, more = [];
    const look = (block) => {
      for (const item of tree.shown(block)) this.open.has(item.block) ? look(item.block) : more.push(item.block);
    };
    look(0);
    for (const block of more) this.open.add(block);
    this.changed();
  }

  // Opening keeps the corner of the block where it is on the screen.
  toggle(found) {
    const {block} = found.place.structure.items[found.item], before = [found.x, found.y];
    this.open.has(block) ? this.open.delete(block) : this.open.add(block);
    this.relayout();
    const now = this.find((item) => item.block === block);
    if (now) {
      this.view.x += now.x - before[0];
      this.view.y += now.y - before[1];
    }
    this.surface.redraw();
  }

  zoomBy(factor, x = this.surface.width / 2, y = this.surface.height / 2) {
    const {view} = this, scale = Math.max(.01, Math.min(2.5, view.scale * factor));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    this.surface.redraw();
  }
  moveBy(dx, dy) {
    this.view.x += dx / this.view.scale;
    this.view.y += dy / this.view.scale;
    this.surface.redraw();
  }

  listen() {
    const {canvas} = this.surface;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || !event.shiftKey && event.deltaMode === 0 && Math.abs(event.deltaX) < 1)
        this.zoomBy(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 300), event.offsetX, event.offsetY);
      else
        this.moveBy(event.deltaX || event.deltaY, event.shiftKey ? 0 : event.deltaY);
    }, {passive: false});
    onDrag(canvas, (dx, dy) => this.moveBy(-dx, -dy), (event) => this.click(event.offsetX, event.offsetY));
    canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons) this.point(event);
    });
    canvas.addEventListener("pointerleave", () => {
      tip.hide();
      this.pointed = null;
      this.surface.redraw();
    });
    canvas.addEventListener("keydown", (event) => {
      const does = {
        "+": () => this.zoomBy(1.4),
        "=": () => this.zoomBy(1.4),
        "-": () => this.zoomBy(1 / 1.4),
        "0": () => this.fit(),
        ArrowLeft: () => this.moveBy(-80, 0),
        ArrowRight: () => this.moveBy(80, 0),
        ArrowUp: () => this.moveBy(0, -80),
        ArrowDown: () => this.moveBy(0, 80)
      }[event.key];
      if (!does || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      does();
    });
  }

  // The innermost box under a place of the graph; {place, item, x, y} with its corner.
  boxAt(x, y, place = this.root, left = 0, top = 0) {
    const [first, last] = place.rows(y - top, y - top);
    for (let r = first; r <= last; ++r)
      for (const i of place.structure.inRow.of(r)) {
        const bx = left + place.xs[i], by = top + place.ys[i];
        if (x < bx || x > bx + place.widths[i] || y < by || y > by + place.heights[i]) continue;
        return (place.inner[i] && this.boxAt(x, y, place.inner[i], bx, by)) || {place, item: i, x: bx, y: by};
      }
    return null;
  }

  // A box by what it is, among all that are shown.
  find(is, place = this.root, left = 0, top = 0) {
    const {items} = place.structure;
    for (let i = 0; i < items.length; ++i) {
      const x = left + place.xs[i], y = top + place.ys[i];
      if (is(items[i])) return {place, item: i, x, y};
      const inner = place.inner[i] && this.find(is, place.inner[i], x, y);
      if (inner) return inner;
    }
    return null;
  }

  under(sx, sy) {
    const x = this.view.x + sx / this.view.scale, y = this.view.y + sy / this.view.scale;
    const diamond = this.diamonds.find((d) => Math.abs(d.x - x) + Math.abs(d.y - y) <= d.size + 3 / this.view.scale);
    return {diamond, box: diamond ? null : this.boxAt(x, y)};
  }

  click(sx, sy) {
    const {diamond, box} = this.under(sx, sy);
    if (diamond) return go({change: String(diamond.changes[0]), op: null, arg: null});
    if (!box) return undefined;
    const item = box.place.structure.items[box.item];
    if (item.op < 0) return this.toggle(box);
    this.chosen = item.op;
    this.surface.redraw();
    return go({op: this.plan.opName(item.op), arg: null, change: null});
  }

  point(event) {
    const {diamond, box} = this.under(event.offsetX, event.offsetY), {plan} = this;
    this.surface.canvas.style.cursor = diamond || box ? "pointer" : "grab";
    if (this.pointed?.item !== box?.item || this.pointed?.place !== box?.place) {
      this.pointed = box;
      this.surface.redraw();
    }
    if (diamond)
      return tip.show(
          event,
          diamond.changes.slice(0, 4).map(
              (c) => el(
                  "div", {style: {"margin-bottom": "4px"}}, el("div.name", null, plan.changeTitle(c)),
                  el("div", null,
                     `${secondsText(plan.changeSeconds(c))}, ${
                         plan.changes.exposed[c] > 0 ? secondsText(plan.changes.exposed[c]) + " exposed" :
                                                       "hidden"}, ${bytesText(plan.changes.bytes[c])} received`),
                  el("div", null, layoutText(plan, plan.changes.from[c]), " → ", layoutText(plan, plan.changes.to[c])),
                  el("div.soft", null, plan.text(plan.changes.reason[c])))),
          diamond.changes.length > 4 ? el("div.softer", null, `and ${diamond.changes.length - 4} more`) : null);
    const item = box && box.place.structure.items[box.item];
    if (!item || item.op < 0) return tip.hide();
    const {op} = item;
    return tip.show(
        event, el("div.name", null, plan.opName(op)),
        el("div", null, `${plan.typeText(plan.ops.type[op])}  `,
           plan.ops.out[op].length ? layoutText(plan, plan.ops.out[op][0]) : ""),
        el("div", null, `${secondsText(plan.opSeconds(op))}  ${plan.text(plan.ops.line[op])}`));
  }

  isNear(structure, edge) {
    const is = (i) => (structure.items[i].op >= 0 && structure.items[i].op === this.chosen) ||
        (this.pointed && this.pointed.place.structure === structure && this.pointed.item === i);
    return is(edge.from) || is(edge.to);
  }

  // What an op reads that is not drawn as a line: arguments first.
  outside(structure, op) {
    const {plan} = this, to = structure.itemOf(op);
    const found = [];
    plan.ops.operands[op].forEach((source, operand) => {
      const from = sourceOp(source) >= 0 ? structure.itemOf(sourceOp(source)) : -1;
      const away = from >= 0 ? structure.row[to] - structure.row[from] : 0;
      if (from >= 0 && away > 0 && away <= FAR) return;
      if (sourceOp(source) >= 0 && !this.constants && plan.opKind(sourceOp(source)) === "constant") return;
      found.push({
        name: plan.sourceName(source),
        spec: plan.ops.in[op][operand],
        isArg: sourceOp(source) < 0,
        changes: Array.from(plan.changesOf(op))
                     .filter((c) => JSON.stringify(plan.changes.source[c]) === JSON.stringify(source))
      });
    });
    return found.sort((a, b) => b.isArg - a.isArg);
  }

  // Opens the blocks around an op and brings it to the middle.
  center(op) {
    const {tree, plan} = this, path = [];
    for (let block = plan.ops.block[op]; block >= 0; block = tree.blocks[block].parent) path.unshift(block);
    let target = {op};
    for (const block of path) {
      const {like, parent} = tree.blocks[block];
      if (like >= 0 && tree.blocks[like].parent === parent) {
        target = {block: like};  // a block that looks like another is shown with that one
        break;
      }
      this.open.add(block);
    }
    this.chosen = op;
    this.relayout();
    const found = this.find((item) => (target.block !== undefined ? item.block === target.block : item.op === op));
    if (!found) return;
    const {surface} = this;
    this.view.scale = Math.max(.8, this.view.scale);
    this.view.x =
        found.x + found.place.widths[found.item] / 2 - (surface.element.clientWidth || 800) / 2 / this.view.scale;
    this.view.y = found.y + 20 - (surface.element.clientHeight || 500) / 2 / this.view.scale;
    surface.redraw();
  }

  shown(route) {
    const op = route.op === null ? -1 : this.plan.opPlaces.get(route.op) ?? -1;
    if (op !== this.chosen) {
      this.chosen = op;
      this.surface?.redraw();
    }
  }
}

const makeGraph = (plan) => new GraphView(plan);

function showInGraph(plan, op) {
  go({view: "graph"});
  const graph = app.views.get(`graph ${plan.index}`);
  if (graph.fitted)
    graph.center(op);
  else
    graph.wanted = op;
}
