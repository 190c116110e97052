// Memory of a device through the step, by class; under the cursor what is alive, largest first.

const MEMORY_LEFT = 74, MEMORY_TOP = 16, MEMORY_BOTTOM = 26;

// For each class the bytes that are alive at each step; the last one is what ops hold inside.
function heldByClass(plan) {
  return plan.once("heldByClass", () => {
    const {buffers, classes, steps, inside} = plan.data.memory;
    const held = classes.map(() => new Float64Array(steps + 1));
    for (let i = 0; i < buffers.bytes.length; ++i) {
      held[buffers.cls[i]][buffers.first[i]] += buffers.bytes[i];
      if (buffers.last[i] + 1 < steps) held[buffers.cls[i]][buffers.last[i] + 1] -= buffers.bytes[i];
    }
    for (const series of held)
      for (let s = 1; s < steps; ++s) series[s] += series[s - 1];
    held.push(Float64Array.from(inside));
    return held;
  });
}

class MemoryView {
  constructor(plan) {
    const {memory} = plan.data;
    this.plan = plan;
    this.memory = memory;
    this.zoom = new Zoom(Math.max(1, memory.steps), Math.min(8, Math.max(1, memory.steps)));
    this.held = heldByClass(plan);
    this.step = memory.program_peak_step;
    this.pinned = true;
    this.surface =
        makeSurface("Memory of a device, by step", (context, width, height) => this.draw(context, width, height));
    this.surfaces = [this.surface];
    this.title = el("div", {style: {"font-weight": 600}});
    this.about = el("div.soft", {style: {"font-size": "12.5px", margin: "2px 0 8px"}});
    this.alive = this.aliveTable();
    const names = [...memory.classes, "inside an op"];
    this.element = el(
        "section.fill", {"aria-label": "Memory"},
        el("div.row", null, el("h2.grow", null, "Memory"),
           el("button.screen-only", {onclick: () => this.choose(memory.program_peak_step, true), title: "The peak (p)"},
              "Go to the peak")),
        el("p.lead", {style: {"margin-bottom": "8px"}},
           `Of one device: at most ${bytesText(memory.program_peak)} in the program; the planner counted ${
               bytesText(memory.peak)} at `,
           plan.opPlaces.has(memory.peak_at) ? opLink(plan, plan.opPlaces.get(memory.peak_at)) : memory.peak_at,
           `, ${bytesText(memory.arguments)} of it arguments`,
           memory.limit ? `, within ${bytesText(memory.limit)}.` : ". There is no limit.",
           " Click to hold a step; arrow keys move it."),
        el("div.legend", {style: {margin: "0 0 10px"}},
           names.map((name, i) => el("span", null, el("i.swatch", {style: {background: memoryVariable(i)}}), name))),
        el("div", {style: {display: "flex", gap: "14px", flex: "1", "min-height": 0}}, this.surface.element,
           el("div",
              {style: {width: "400px", flex: "none", display: "flex", "flex-direction": "column", "min-height": 0}},
              this.title, this.about, this.alive.element)));
    this.listen();
    this.choose(this.step, true);
  }

  aliveTable() {
    const {buffers, classes} = this.memory, {plan} = this, name = (b) => plan.text(buffers.label[b]);
    const what = (b) =>
        [el("span.two", {title: name(b)}, axesText(plan, name(b))),
         el("span.two.softer", {style: {"font-size": "12px"}},
            el("i.swatch",
               {style: {background: memoryVariable(buffers.cls[b]), "margin-right": "6px", "vertical-align": "-1px"}}),
            classes[buffers.cls[b]], "  ", el("span.mono", null, plan.text(buffers.type[b])))];
    return makeTable({
      label: "What is alive",
      rows: [],
      noun: "buffer",
      sort: {column: 0, down: true},
      none: "Nothing is alive.",
      lineHeight: 46,
      open: (b) => this.openBuffer(b),
      columns: [
        {
          title: "Bytes",
          width: "92px",
          number: true,
          value: (b) => buffers.bytes[b],
          text: (b) => bytesText(buffers.bytes[b])
        },
        {
          title: "What",
          width: "minmax(150px,1fr)",
          value: name,
          also: {title: "Class", value: (b) => classes[buffers.cls[b]]},
          cell: what
        }
      ]
    });
  }

  // The op that made a buffer, or the argument that it is.
  openBuffer(buffer) {
    const {plan, memory} = this, name = plan.text(memory.buffers.label[buffer]).replace(/^%/, "");
    if (plan.argPlaces.has(name)) return go({arg: name, op: null, change: null});
    const step = memory.buffers.first[buffer], op = memory.step_op[step], change = memory.step_change[step];
    if (change >= 0)
      go({change: String(change), op: null, arg: null});
    else if (op >= 0)
      go({op: plan.opName(op), arg: null, change: null});
  }

  stepAt(x) {
    const share = (x - MEMORY_LEFT) / Math.max(1, this.surface.width - MEMORY_LEFT);
    return Math.max(
        0, Math.min(this.memory.steps - 1, Math.floor(this.zoom.from + share * (this.zoom.to - this.zoom.from))));
  }

  listen() {
    const {canvas} = this.surface, change = () => this.surface.redraw();
    canvas.addEventListener("wheel", (event) => {
      this.zoom.wheel(event, this.stepAt(event.offsetX));
      change();
    }, {passive: false});
    onDrag(
        canvas,
        (dx) => {
          this.zoom.move(-dx / (this.surface.width - MEMORY_LEFT));
          change();
        },
        (event) => {
          const step = this.stepAt(event.offsetX);
          this.choose(step, !(this.pinned && step === this.step));
        });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.pinned && !event.buttons) this.choose(this.stepAt(event.offsetX), false);
    });
    canvas.addEventListener("keydown", (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (by) {
        event.preventDefault();
        this.choose(this.step + by * (event.shiftKey ? 10 : 1), true);
      } else if (event.key === "p")
        this.choose(this.memory.program_peak_step, true);
      else if (this.zoom.key(event, this.step))
        change();
    });
  }

  // Shows a step; a pinned one stays when the pointer moves.
  choose(step, pinned) {
    const {memory, plan} = this;
    if (!memory.steps) return;
    this.pinned = pinned;
    this.step = Math.max(0, Math.min(memory.steps - 1, step));
    if (pinned && (this.step < this.zoom.from || this.step >= this.zoom.to)) {
      const half = (this.zoom.to - this.zoom.from) / 2;
      this.zoom.set(this.step - half, this.step + half);
    }
    const {buffers} = memory, alive = [];
    for (let b = 0; b < buffers.bytes.length; ++b)
      if (buffers.first[b] <= this.step && this.step <= buffers.last[b]) alive.push(b);
    this.alive.setRows(alive);
    const op = memory.step_op[this.step], change = memory.step_change[this.step];
    replaceChildren(
        this.title, `${bytesText(memory.held[this.step])} alive`,
        this.step === memory.program_peak_step ? el("span.badge.warn", {style: {"margin-left": "8px"}}, "the peak") :
                                                 null);
    replaceChildren(
        this.about, `Step ${countText(this.step)} of ${countText(memory.steps)}`,
        change >= 0 ? [", ", changeLink(plan, change)] :
            op >= 0 ? [", ", opLink(plan, op)] :
                      "",
        memory.inside[this.step] > 0 ? `, ${bytesText(memory.inside[this.step])} inside it` : "");
    this.surface.redraw();
  }

  draw(context, width, height) {
    const {memory, zoom, held} = this, paint = colors(), wide = width - MEMORY_LEFT, bottom = height - MEMORY_BOTTOM;
    const most =
        Math.max(memory.program_peak, memory.limit && memory.limit < 3 * memory.program_peak ? memory.limit : 0, 1) *
        1.06;
    const y = (bytes) => bottom - (bytes / most) * (bottom - MEMORY_TOP);
    const x = (step) => MEMORY_LEFT + ((step - zoom.from) / (zoom.to - zoom.from)) * wide;
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    for (const bytes of niceByteSteps(most, 7)) {
      context.fillStyle = paint.ink3;
      context.textAlign = "right";
      context.fillText(bytesText(bytes), MEMORY_LEFT - 8, y(bytes));
      context.fillStyle = paint.line;
      context.fillRect(MEMORY_LEFT, Math.round(y(bytes)), wide, 1);
    }
    context.save();
    context.beginPath();
    context.rect(MEMORY_LEFT, 0, wide, height);
    context.clip();
    // One column a step, or one a pixel if that is less: of many steps in one pixel the fullest is drawn.
    const pixels = Math.max(1, Math.round(wide)), begin = Math.floor(zoom.from),
          steps = Math.min(Math.ceil(zoom.to), memory.steps) - begin, whole = steps > pixels;
    this.columns = whole ? pixels : steps;
    for (let column = 0; column < this.columns; ++column) {
      let step = begin + column;
      if (whole) {
        const at = (pixel) => Math.floor(zoom.from + (pixel / pixels) * (zoom.to - zoom.from)), last = at(column + 1);
        step = Math.min(at(column), memory.steps - 1);
        for (let s = step + 1; s < last && s < memory.steps; ++s)
          if (memory.held[s] > memory.held[step]) step = s;
      }
      const left = whole ? MEMORY_LEFT + column : Math.round(x(step));
      const right = whole ? left + 1 : Math.round(x(step + 1));
      let below = 0;
      held.forEach((series, i) => {
        if (!(series[step] > 0)) return;
        context.fillStyle = memoryColor(i);
        context.fillRect(left, y(below + series[step]), right - left, y(below) - y(below + series[step]) + .35);
        below += series[step];
      });
    }
    this.drawMarks(context, width, x, y, bottom);
    context.restore();
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = paint.ink3;
    for (const step of niceSteps(zoom.from, zoom.to, 8))
      if (Number.isInteger(step) && x(step) < width - 16) context.fillText(countText(step), x(step), bottom + 14);
    context.textAlign = "left";
  }

  drawMarks(context, width, x, y, bottom) {
    const {memory} = this, paint = colors();
    context.font = `550 11.5px ${FONT}`;
    const tag = (text, at, height, color, align) => {
      context.textAlign = align;
      context.textBaseline = "bottom";
      const wide = context.measureText(text).width + 8;
      context.fillStyle = paint.panel;
      context.globalAlpha = .85;
      context.fillRect(align === "right" ? at - wide + 4 : at - 4, height - 16, wide, 15);
      context.globalAlpha = 1;
      context.fillStyle = color;
      context.fillText(text, at, height - 2);
    };
    const peak = x(memory.program_peak_step + .5);
    context.setLineDash([3, 3]);
    context.strokeStyle = paint.ink2;
    context.beginPath();
    context.moveTo(peak, y(memory.program_peak));
    context.lineTo(peak, bottom);
    context.stroke();
    if (memory.limit) {
      context.strokeStyle = paint.bad;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(MEMORY_LEFT, y(memory.limit));
      context.lineTo(width, y(memory.limit));
      context.stroke();
    }
    context.setLineDash([]);
    if (memory.limit && y(memory.limit) > 0)
      tag(`limit ${bytesText(memory.limit)}`, width - 8, Math.max(18, y(memory.limit)), paint.bad, "right");
    tag(`peak ${bytesText(memory.program_peak)}`, Math.max(MEMORY_LEFT + 6, Math.min(peak + 4, width - 96)),
        Math.max(18, y(memory.program_peak)), paint.ink, "left");
    // The line ends where the memory begins, which may be a single pixel wide there.
    const chosen = x(this.step + .5), top = y(memory.held[this.step]);
    context.fillStyle = paint.ink;
    context.fillRect(chosen - .75, MEMORY_TOP, 1.5, Math.max(0, top - MEMORY_TOP));
    context.beginPath();
    context.arc(chosen, top, 3.5, 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = .3;
    context.fillRect(chosen - .5, top, 1, bottom - top);
    context.globalAlpha = 1;
  }
}

const makeMemory = (plan) => (plan.data.memory.steps ? new MemoryView(plan) : {
  element: el(
      "section", {"aria-label": "Memory"}, el("h2", null, "Memory"),
      el("p.lead", null, `A device holds at most ${bytesText(plan.data.memory.peak)}, at ${plan.data.memory.peak_at}.`))
});
