// The step as it runs, by stream: zoomed by wheel, dragging and keys; an event opens its op or collective.

class Lane {
  constructor(events, stream) {
    const places = [];
    events.stream.forEach((s, i) => {
      if (s === stream) places.push(i);
    });
    places.sort((a, b) => events.start[a] - events.start[b]);
    this.order = Uint32Array.from(places);
    this.ends = new Float64Array(places.length);  // the latest end so far, which grows
    let latest = 0;
    places.forEach((event, i) => {
      this.ends[i] = latest = Math.max(latest, events.start[event] + events.length[event]);
    });
  }
  with(zoom) { return {zoom, order: this.order, ends: this.ends}; }
}

class Timeline {
  constructor(plan) {
    const {schedule} = plan.data;
    this.plan = plan;
    this.zoom = new Zoom(schedule.seconds || 1e-9, (schedule.seconds || 1e-9) / 1e5);
    this.lanes = schedule.streams.map((_, stream) => new Lane(schedule.events, stream));
    // Streams with nothing on them have no lane.
    this.streams = this.lanes.flatMap((lane, stream) => (stream === 0 || lane.order.length ? [stream] : []));
    this.criticalOnly = false;
    this.drawn = 0;
    this.surface = makeSurface("Timeline of the step", (context, width, height) => {
      this.drawn = drawTimeline(this, context, width, height);
    });
    this.surfaces = [this.surface];
    this.critical =
        el("button", {
          "aria-pressed": "false",
          onclick: () => {
            this.criticalOnly = !this.criticalOnly;
            this.critical.setAttribute("aria-pressed", String(this.criticalOnly));
            this.surface.redraw();
          }
        },
           "Critical chain");
    this.inSight = el("div", {style: {"margin-top": "12px", flex: "none"}});
    this.element = this.build();
    this.listen();
    this.describe();
  }

  build() {
    const {schedule, classes, totals} = this.plan.data,
                              zoomBy = (factor) => () =>
                                  this.zoomTo(() => this.zoom.by(factor, (this.zoom.from + this.zoom.to) / 2));
    const swatch = (style, text) => el("span", null, el("i.swatch", {style}), text);
    const communicates = this.streams.length > 1;
    const legend = el(
        "div.legend", {style: {margin: "0 0 10px"}},
        classes.filter((c) => c.seconds > 0).slice(0, 6).map((c, i) => swatch({background: kernelVariable(i)}, c.what)),
        communicates ?
            [
              this.plan.mesh.axes.map((axis, i) => swatch({background: axisVariable(i)}, axis.name)),
              swatch({background: "var(--ink-2)"}, "exposed"),
              swatch({border: "1.5px solid var(--ink-2)", background: "var(--panel-2)"}, "hidden")
            ] :
            null,
        swatch({background: "var(--critical)", height: "3px"}, "critical"));
    return el(
        "section.fill", {"aria-label": "Timeline"},
        el("div.row", null, el("h2.grow", null, "Timeline"),
           el("span.row.screen-only", {style: {gap: "6px"}}, this.critical,
              el("button", {onclick: zoomBy(.5), title: "Zoom in (+)", "aria-label": "Zoom in"}, "+"),
              el("button", {onclick: zoomBy(2), title: "Zoom out (-)", "aria-label": "Zoom out"}, "−"),
              el("button", {onclick: () => this.zoomTo(() => this.zoom.all()), title: "All of it (0)"}, "All"))),
        el("p.lead", {style: {"margin-bottom": "8px"}},
           `The predicted schedule: ${secondsText(schedule.seconds)}, ${
               secondsText(totals.exposed)} of it waits for communication`,
           totals.slowed > 0 ? `, ${secondsText(totals.slowed)} more for kernels beside collectives` : "",
           ". Wheel to zoom, drag to move, click for the op."),
        legend, this.surface.element, this.inSight);
  }

  zoomTo(change) {
    change();
    this.surface.redraw();
    clearTimeout(this.later);
    this.later = setTimeout(() => this.describe(), 120);
  }

  listen() {
    const {canvas} = this.surface, share = (event) => event.offsetX / this.surface.width;
    const at = (event) => this.zoom.from + share(event) * (this.zoom.to - this.zoom.from);
    const overview = (event) => event.offsetY > this.surface.height - OVERVIEW_HEIGHT;
    canvas.addEventListener("wheel", (event) => this.zoomTo(() => this.zoom.wheel(event, at(event))), {passive: false});
    canvas.addEventListener("keydown", (event) => {
      if (this.zoom.key(event)) this.zoomTo(() => {});
    });
    onDrag(canvas, (dx) => this.zoomTo(() => this.zoom.move(-dx / this.surface.width)), (event) => {
      if (overview(event)) {
        const middle = share(event) * this.zoom.length, half = (this.zoom.to - this.zoom.from) / 2;
        return this.zoomTo(() => this.zoom.set(middle - half, middle + half));
      }
      const found = this.eventAt(event.offsetX, event.offsetY);
      if (found >= 0) this.openEvent(found);
    });
    canvas.addEventListener("pointermove", (event) => {
      const found = event.buttons ? -1 : this.eventAt(event.offsetX, event.offsetY);
      canvas.style.cursor = found >= 0 ? "pointer" : "default";
      found >= 0 ? tip.show(event, this.eventTip(found)) : tip.hide();
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
  }

  // The event under a pixel, or the nearest one within two.
  eventAt(x, y) {
    const place = timelineLanes(this.surface.height, this.streams.length)
                      .findIndex((lane) => y >= lane.top - 2 && y <= lane.top + lane.height + 6);
    if (place < 0) return -1;
    const stream = this.streams[place];
    const {events} = this.plan.data.schedule, {order, ends} = this.lanes[stream],
          pixel = (this.zoom.to - this.zoom.from) / this.surface.width;
    const time = this.zoom.from + x * pixel;
    let best = -1, nearest = 2 * pixel;
    for (let i = firstAtLeast(ends, time - nearest); i < order.length && events.start[order[i]] <= time + 2 * pixel;
         ++i) {
      const start = events.start[order[i]], end = start + events.length[order[i]];
      const away = time < start ? start - time : time > end ? time - end : -1;
      if (away < nearest) [best, nearest] = [order[i], away];
    }
    return best;
  }

  eventName(event) {
    const {events} = this.plan.data.schedule;
    if (events.change[event] >= 0) return this.plan.changeTitle(events.change[event]);
    return events.op[event] >= 0 ? this.plan.opName(events.op[event]) : "";
  }

  openEvent(event) {
    const {events} = this.plan.data.schedule;
    if (events.change[event] >= 0)
      go({change: String(events.change[event]), op: null, arg: null});
    else if (events.op[event] >= 0)
      go({op: this.plan.opName(events.op[event]), change: null, arg: null});
  }

  eventTip(event) {
    const {plan} = this, {events} = plan.data.schedule, change = events.change[event], op = events.op[event];
    const lines = [
      el("div.name", null, this.eventName(event)),
      el("div", null, `${secondsText(events.length[event])}, from ${secondsText(events.start[event])}`,
         events.executions[event] > 1 ? `, ${countText(events.executions[event])} executions` : "")
    ];
    if (change >= 0) {
      if (events.stream[event] > 0)
        lines.push(
            el("div", null,
               events.exposed[event] > 0 ? `${secondsText(events.exposed[event])} exposed` : "hidden behind compute"));
      lines.push(
          el("div", null, `for ${plan.changeFor(change)}  ${plan.text(plan.changes.line[change])}`),
          el("div.soft", null, plan.text(plan.changes.reason[change])));
    } else if (op >= 0)
      lines.push(el("div.soft", null, `${plan.text(plan.ops.class[op])}  ${plan.text(plan.ops.line[op])}`));
    if (events.critical[event]) lines.push(el("div.bad", null, "on the critical chain"));
    return lines;
  }

  // The longest events in sight.
  describe() {
    const {events} = this.plan.data.schedule, {from, to} = this.zoom, found = [];
    for (let event = 0; event < events.start.length; ++event)
      if (events.start[event] < to && events.start[event] + events.length[event] > from) found.push(event);
    found.sort((a, b) => events.length[b] - events.length[a]);
    const rows = found.slice(0, 5).map(
        (event) =>
            [secondsText(events.length[event]),
             el("button.link", {onclick: () => this.openEvent(event)}, axesText(this.plan, this.eventName(event))),
             this.plan.data.schedule.streams[events.stream[event]],
             events.change[event] >= 0 ?
                 (events.exposed[event] > 0 ? el("span.bad", null, `${secondsText(events.exposed[event])} exposed`) :
                                              "hidden") :
                 "",
             el("span.mono", null,
                this.plan.text(
                    events.change[event] >= 0 ? this.plan.changes.line[events.change[event]] :
                                                this.plan.ops.line[events.op[event]] ?? -1))]);
    replaceChildren(
        this.inSight,
        el("div.softer", {style: {"font-size": "12.5px", "margin-bottom": "4px"}},
           `${plural(found.length, "event")} from ${secondsText(from)} to ${secondsText(to)}; the longest:`),
        el("div.card", {style: {padding: "2px 6px"}},
           plainTable([{text: "Length", number: true}, "What", "Stream", "Communication", "Line"], rows)));
  }
}

const makeTimeline = (plan) => new Timeline(plan);
