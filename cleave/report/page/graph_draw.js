// Draws the part of the graph that is in sight. Coordinates are those of the graph; `view` has scale and origin.

const FAR_SCALE = .3, TEXT_SCALE = .42, CHIP_SCALE = .62;

class GraphPainter {
  constructor(graph, context, width, height) {
    this.graph = graph;
    this.plan = graph.plan;
    this.context = context;
    this.paint = colors();
    this.scale = graph.view.scale;
    this.sight = {
      left: graph.view.x,
      top: graph.view.y,
      right: graph.view.x + width / this.scale,
      bottom: graph.view.y + height / this.scale
    };
    this.boxes = 0;
    this.lines = 0;
    this.labels = [];
  }

  draw() {
    const {context, graph, scale} = this;
    context.save();
    context.scale(scale, scale);
    context.translate(-graph.view.x, -graph.view.y);
    this.block(graph.root, 0, 0, 0);
    context.restore();
  }

  inSight(x, y, width, height) {
    const {left, top, right, bottom} = this.sight;
    return x <= right && x + width >= left && y <= bottom && y + height >= top;
  }

  block(place, x, y, depth) {
    const {structure} = place, [first, last] = place.rows(this.sight.top - y, this.sight.bottom - y);
    // If rows are less than two pixels, not each is drawn.
    const step = Math.max(1, Math.ceil(2 / ((OP_HEIGHT + ROW_GAP) * this.scale)));
    if (this.scale >= .12) {
      for (let r = Math.max(0, first - FAR); r <= last; r += step)
        for (const e of structure.near.of(r)) this.edge(place, structure.edges[e], x, y);
      if (this.scale > FAR_SCALE)
        for (let r = first; r <= last; ++r)
          for (const i of structure.inRow.of(r)) this.farEnds(place, i, x, y);
    }
    for (let r = first; r <= last; r += step)
      for (const i of structure.inRow.of(r)) {
        const left = x + place.xs[i], top = y + place.ys[i];
        if (!this.inSight(left, top, place.widths[i], place.heights[i])) continue;
        ++this.boxes;
        if (place.inner[i])
          this.openBlock(place, i, left, top, depth);
        else
          this.box(place, i, left, top);
      }
  }

  frame(x, y, width, height, radius, fill, stroke, line = 1) {
    const {context} = this;
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
    context.fillStyle = fill;
    context.fill();
    context.strokeStyle = stroke;
    context.lineWidth = line / Math.min(1, this.scale * 1.4);
    context.stroke();
    context.lineWidth = 1;
  }

  text(text, x, y, room, font, color) {
    this.context.font = font;
    this.context.fillStyle = color;
    this.context.textBaseline = "alphabetic";
    this.context.fillText(fitText(this.context, text, room), x, y);
  }

  openBlock(place, i, x, y, depth) {
    const item = place.structure.items[i], {tree} = this.graph;
    this.frame(
        x, y, place.widths[i], place.heights[i], 12, depth % 2 ? this.paint.panel2 : this.paint.back, this.paint.line2);
    if (this.scale > .2) {
      const size = Math.min(26, 14 / Math.max(this.scale, .55));
      this.text(
          `▾  ${tree.name(item)}${item.members.length > 1 ? `  ×${item.members.length}` : ""}`, x + 14, y + 25,
          place.widths[i] - 28, `600 ${size}px ${FONT}`, this.paint.ink);
    }
    this.block(place.inner[i], x, y, depth + 1);
  }

  box(place, i, x, y) {
    const item = place.structure.items[i], {graph, paint} = this, width = place.widths[i], height = place.heights[i];
    const chosen = item.op >= 0 ? item.op === graph.chosen : false,
          pointed = graph.pointed && graph.pointed.place === place && graph.pointed.item === i;
    this.frame(
        x, y, width, height, item.op >= 0 ? 7 : 10, pointed ? paint.hover : paint.panel,
        chosen      ? paint.focus :
            pointed ? paint.ink3 :
                      paint.line2,
        chosen ? 2.5 : 1);
    if (item.op >= 0)
      this.op(item.op, x, y, width, height);
    else
      this.closedBlock(item, x, y, width, height);
  }

  op(op, x, y, width, height) {
    const {plan, context, paint} = this;
    context.fillStyle = kernelColor(plan.opClassPlace(op));
    context.fillRect(x, y + 6, 4, height - 12);
    if (this.scale < TEXT_SCALE) return;
    this.text(plan.opName(op), x + 12, y + 17, width - 20, `12px ${MONO}`, paint.ink);
    const spec = plan.ops.out[op][0];
    const wide = spec >= 0 ? this.glyph(spec, x + 12, y + 25) : 0, seconds = plan.opSeconds(op);
    context.textAlign = "right";
    this.text(
        seconds > 0 ? secondsText(seconds) : "", x + width - 9, y + 34, width - wide - 30, `11px ${FONT}`, paint.ink2);
    context.textAlign = "left";
  }

  closedBlock(item, x, y, width, height) {
    const {graph, context, paint, plan} = this, {tree} = graph;
    if (item.members.length > 1)
      for (const shift of [6, 3]) {
        context.strokeStyle = paint.line2;
        context.beginPath();
        context.moveTo(x + width + shift, y + shift + 4);
        context.lineTo(x + width + shift, y + height + shift);
        context.lineTo(x + shift + 4, y + height + shift);
        context.stroke();
      }
    if (this.scale < TEXT_SCALE * .7) return;
    const seconds = tree.total(item, tree.seconds), talk = tree.total(item, tree.communication),
          all = plan.data.totals.seconds || 1;
    this.text(
        `▸  ${tree.name(item)}${item.members.length > 1 ? `  ×${item.members.length}` : ""}`, x + 12, y + 22,
        width - 24, `600 13.5px ${FONT}`, paint.ink);
    if (this.scale < TEXT_SCALE) return;
    const changes = tree.total(item, tree.changes);
    this.text(
        plural(tree.total(item, tree.ops), "op") + (changes ? `, ${plural(changes, "collective")}` : ""), x + 12,
        y + 39, width - 24, `11.5px ${FONT}`, paint.ink2);
    this.text(
        `${secondsText(seconds)} compute` + (talk > 0 ? `, ${secondsText(talk)} reshards` : ""), x + 12, y + 53,
        width - 24, `11px ${FONT}`, paint.ink3);
    context.fillStyle = kernelColor(0);
    context.fillRect(x + 10, y + height - 7, (width - 20) * Math.min(1, seconds / all), 3);
    context.fillStyle = paint.critical;
    context.fillRect(
        x + 10 + (width - 20) * Math.min(1, seconds / all), y + height - 7, (width - 20) * Math.min(1, talk / all), 3);
  }

  // A layout as squares, one a dimension, in the colours of its axes.
  glyph(place, x, y) {
    const {context, paint, plan} = this, spec = plan.spec(place);
    if (!spec) return 0;
    const size = 9;
    spec.dims.forEach((refs, dim) => {
      const left = x + dim * (size + 2);
      context.strokeStyle = paint.line2;
      context.strokeRect(left + .5, y + .5, size - 1, size - 1);
      refs.forEach((ref, i) => {
        context.fillStyle = axisColor(ref[0]);
        context.fillRect(left + (i * size) / refs.length, y, size / refs.length, size);
      });
    });
    let wide = spec.dims.length * (size + 2);
    if (spec.unreduced.length) {
      const left = x + wide + 3;
      context.strokeStyle = axisColor(spec.unreduced[0][0]);
      context.strokeRect(left + .5, y + .5, size - 1, size - 1);
      context.beginPath();
      for (const at of [.35, .75]) {
        context.moveTo(left, y + size * at);
        context.lineTo(left + size * at, y);
        context.moveTo(left + size * (1 - at), y + size);
        context.lineTo(left + size, y + size * (1 - at));
      }
      context.stroke();
      wide += size + 5;
    }
    return wide;
  }

  // From the bottom of a box to the top of another; around the boxes between them, if there are any.
  edge(place, edge, x, y) {
    const {from, to} = edge, {structure} = place, {context, paint, graph} = this;
    const x1 = x + place.xs[from] + place.widths[from] / 2, y1 = y + place.ys[from] + place.heights[from];
    const x2 = x + place.xs[to] + place.widths[to] / 2, y2 = y + place.ys[to];
    if (Math.max(y1, y2) < this.sight.top || Math.min(y1, y2) > this.sight.bottom) return;
    ++this.lines;
    const strong = graph.isNear(structure, edge);
    context.strokeStyle = strong ? paint.focus : edge.changes.length ? paint.ink2 : paint.ink3;
    context.globalAlpha = strong || edge.changes.length ? 1 : .6;
    context.lineWidth = (strong ? 2 : 1.1) / Math.min(1, this.scale * 1.6);
    const away = structure.row[to] - structure.row[from];
    let middle = [(x1 + x2) / 2, (y1 + y2) / 2];
    context.beginPath();
    context.moveTo(x1, y1);
    if (away === 1) {
      const bend = Math.min(40, (y2 - y1) / 2);
      context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
    } else {
      const right = structure.lane[to] >= structure.lane[from], lane = structure.lane[from];
      const gutter = x + (right ? place.laneX[lane + 1] - LANE_GAP / 2 : place.laneX[lane] - LANE_GAP / 2) +
          ((edge.op % 5) - 2) * 3;
      context.bezierCurveTo(x1, y1 + 26, gutter, y1 + 8, gutter, y1 + 40);
      context.lineTo(gutter, y2 - 40);
      context.bezierCurveTo(gutter, y2 - 8, x2, y2 - 26, x2, y2);
      middle = [gutter, Math.max(y1 + 40, Math.min(y2 - 22, y2 - 40))];
    }
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 1;
    this.onEdge(edge, ...middle);
  }

  // The layout that is read, and a diamond if it was changed on the way.
  onEdge(edge, x, y) {
    const {plan, context, paint} = this;
    if (edge.changes.length) {
      const size = 7 / Math.min(1, Math.max(.35, this.scale));
      context.beginPath();
      context.moveTo(x, y - size);
      context.lineTo(x + size, y);
      context.lineTo(x, y + size);
      context.lineTo(x - size, y);
      context.closePath();
      context.fillStyle = axesPaint(context, plan.changeAxes(edge.changes[0]));
      context.fill();
      context.strokeStyle = paint.panel;
      context.stroke();
      this.graph.diamonds.push({x, y, size, changes: edge.changes});
      if (edge.changes.length > 1 && this.scale >= TEXT_SCALE)
        this.text(String(edge.changes.length), x + size + 3, y + 4, 40, `600 11px ${FONT}`, paint.ink2);
    }
    if (this.scale < CHIP_SCALE) return;
    const spec = plan.ops.in[edge.op]?.[edge.operand] ?? -1;
    if (edge.values === 1 && spec >= 0) {
      const dims = plan.spec(spec).dims.length, wide = dims * 11 + (plan.spec(spec).unreduced.length ? 16 : 0);
      const left = edge.changes.length ? x + 14 : x - wide / 2;
      if (!wide) return;
      context.fillStyle = paint.back;
      context.globalAlpha = .9;
      context.fillRect(left - 3, y - 8, wide + 5, 15);
      context.globalAlpha = 1;
      this.glyph(spec, left, y - 4.5);
    } else if (edge.values > 1 && !edge.changes.length && this.hasRoom(x, y))
      this.text(`${edge.values} values`, x + 5, y + 4, 80, `10.5px ${FONT}`, paint.ink3);
  }

  // Whether no other number of values is here: lines that end at one box run close to each other.
  hasRoom(x, y) {
    const taken = this.labels.some((label) => Math.abs(label[0] - x) < 62 && Math.abs(label[1] - y) < 11);
    if (!taken && this.labels.length < 400) this.labels.push([x, y]);
    return !taken;
  }

  // What a box reads of arguments, of other blocks, or from far away in this one: short ends above and below it.
  farEnds(place, i, x, y) {
    const {structure} = place, {context, paint, graph, plan} = this, item = structure.items[i];
    if (item.op < 0 || this.scale < CHIP_SCALE) return;
    const outside = graph.outside(structure, item.op);
    if (!outside.length) return;
    const left = x + place.xs[i] + 8, top = y + place.ys[i];
    context.strokeStyle = paint.ink3;
    context.beginPath();
    context.moveTo(left, top - 9);
    context.lineTo(left, top);
    context.stroke();
    const change = outside.flatMap(({changes}) => changes);
    let at = left + 5;
    if (change.length) {
      context.fillStyle = axesPaint(context, plan.changeAxes(change[0]));
      context.beginPath();
      context.moveTo(left, top - 18);
      context.lineTo(left + 6, top - 12);
      context.lineTo(left, top - 6);
      context.lineTo(left - 6, top - 12);
      context.closePath();
      context.fill();
      graph.diamonds.push({x: left, y: top - 12, size: 6, changes: change});
      at += 5;
    }
    const wide = outside[0].spec >= 0 ? this.glyph(outside[0].spec, at, top - 14) : 0;
    const more = outside.length > 1 ? ` +${outside.length - 1}` : "";
    context.font = `10.5px ${FONT}`;
    context.fillStyle = paint.ink3;
    context.fillText(
        fitEnd(context, outside[0].name, Math.max(30, place.widths[i] - 44 - wide)) + more, at + wide + 3, top - 6);
  }
}
