// How the timeline is drawn: three streams, a scale, and the whole step below as an overview.

const SCALE_HEIGHT = 26, OVERVIEW_HEIGHT = 34, LANE_LABEL = 17;

function timelineLanes(height, lanes) {
  const room = height - SCALE_HEIGHT - OVERVIEW_HEIGHT - 14, each = Math.min(lanes < 3 ? 170 : 120, room / lanes);
  return Array.from(
      {length: lanes}, (_, i) => ({top: SCALE_HEIGHT + i * each + LANE_LABEL, height: each - LANE_LABEL - 12}));
}

// Black or white, whichever is read better on a colour like "#2f6fde".
function inkOn(color) {
  const number = parseInt(color.slice(1), 16);
  const light = .299 * ((number >> 16) & 255) + .587 * ((number >> 8) & 255) + .114 * (number & 255);
  return light > 150 ? "#14181d" : "#ffffff";
}

function drawScale(context, zoom, width, bottom) {
  const paint = colors();
  context.font = `11px ${FONT}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const span = zoom.to - zoom.from;
  for (const at of niceSteps(zoom.from, zoom.to, Math.max(2, Math.floor(width / 110)))) {
    const x = Math.round(((at - zoom.from) / span) * width) + .5;
    context.strokeStyle = paint.line;
    context.beginPath();
    context.moveTo(x, SCALE_HEIGHT - 6);
    context.lineTo(x, bottom);
    context.stroke();
    context.fillStyle = paint.ink3;
    const text = secondsText(at);
    if (x + 4 + context.measureText(text).width <= width) context.fillText(text, x + 4, SCALE_HEIGHT / 2);
  }
}

// The main colour of an event, and what to fill it with.
function eventPaint(timeline, context, event) {
  const {plan} = timeline, {events} = plan.data.schedule;
  const change = events.change[event];
  if (change >= 0) {
    const axes = plan.changeAxes(change);
    return {fill: axesPaint(context, axes), color: axisColor(axes.length ? axes[0] : -1), change};
  }
  const color = events.op[event] >= 0 ? kernelColor(plan.opClassPlace(events.op[event])) : colors().kernels[4];
  return {fill: color, color, change};
}

// Exposed parts are solid, hidden ones pale with a frame; what is critical has a line under it.
function drawEvent(timeline, context, event, x, width, lane) {
  const {plan} = timeline, {events} = plan.data.schedule, paint = eventPaint(timeline, context, event);
  const stream = events.stream[event], critical = events.critical[event] === 1;
  const dim = timeline.criticalOnly && !critical ? .16 : 1;
  const shown = Math.max(1, width - (width > 4 ? .8 : 0));
  let ink = inkOn(paint.color);
  context.fillStyle = paint.fill;
  if (paint.change >= 0 && stream > 0) {
    const share = events.length[event] > 0 ? Math.min(1, events.exposed[event] / events.length[event]) : 0;
    const solid = shown * share;
    context.globalAlpha = .26 * dim;
    context.fillRect(x, lane.top, shown - solid, lane.height);
    context.globalAlpha = dim;
    context.fillRect(x + shown - solid, lane.top, solid, lane.height);
    if (shown > 5) {
      context.strokeStyle = paint.color;
      context.strokeRect(x + .5, lane.top + .5, shown - 1, lane.height - 1);
    }
    if (share < .5) ink = colors().ink;
  } else {
    context.globalAlpha = dim;
    context.fillRect(x, lane.top, shown, lane.height);
  }
  if (critical) {
    context.fillStyle = colors().critical;
    context.fillRect(x, lane.top + lane.height + 2, Math.max(1, width), 3);
  }
  if (width > 44) {
    context.fillStyle = ink;
    context.font = `11.5px ${FONT}`;
    context.textBaseline = "top";
    context.fillText(fitText(context, timeline.eventName(event), width - 10), x + 5, lane.top + 5);
    if (lane.height > 38) {
      context.globalAlpha = .8 * dim;
      context.fillText(fitText(context, secondsText(events.length[event]), width - 10), x + 5, lane.top + 21);
    }
  }
  context.globalAlpha = 1;
}

// Events that are less than a pixel wide are drawn once a pixel: the work is bounded by the width of the screen.
function drawLane(timeline, context, stream, lane, width) {
  const {zoom, order, ends} = timeline.lanes[stream].with(timeline.zoom), {events} = timeline.plan.data.schedule;
  const scale = width / (zoom.to - zoom.from);
  let last = -2, drawn = 0;
  for (let i = firstAtLeast(ends, zoom.from); i < order.length; ++i) {
    const event = order[i], start = events.start[event];
    if (start > zoom.to) break;
    const x = (start - zoom.from) * scale, size = events.length[event] * scale;
    if (x + size < 0) continue;
    if (size < 1) {
      if (Math.floor(x) === last) continue;
      last = Math.floor(x);
    }
    drawEvent(timeline, context, event, x, size, lane);
    ++drawn;
  }
  return drawn;
}

// The first place whose value is at least this; values grow.
function firstAtLeast(values, least) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < least)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

function drawOverview(timeline, context, width, height) {
  const {plan, zoom} = timeline, {events} = plan.data.schedule, top = height - OVERVIEW_HEIGHT, paint = colors();
  const key = `${width} ${document.documentElement.dataset.theme}`;
  if (timeline.overviewKey !== key) {
    timeline.overviewKey = key;
    timeline.overview = document.createElement("canvas");
    timeline.overview.width = Math.max(1, Math.round(width));
    timeline.overview.height = OVERVIEW_HEIGHT;
    const small = timeline.overview.getContext("2d"), scale = width / (zoom.length || 1),
          tall = Math.floor((OVERVIEW_HEIGHT - 8) / timeline.streams.length);
    timeline.streams.forEach((stream, place) => {
      let last = -1;
      for (const event of timeline.lanes[stream].order) {
        const x = events.start[event] * scale, size = Math.max(1, events.length[event] * scale);
        if (size <= 1 && Math.floor(x) === last) continue;
        last = Math.floor(x);
        small.fillStyle = eventPaint(timeline, small, event).color;
        small.fillRect(x, 4 + place * tall, size, tall - 1);
      }
    });
  }
  context.fillStyle = paint.panel2;
  context.fillRect(0, top, width, OVERVIEW_HEIGHT);
  context.drawImage(timeline.overview, 0, top);
  const from = (zoom.from / zoom.length) * width, to = (zoom.to / zoom.length) * width;
  context.fillStyle = paint.panel;
  context.globalAlpha = .7;
  context.fillRect(0, top, from, OVERVIEW_HEIGHT);
  context.fillRect(to, top, width - to, OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = paint.focus;
  context.strokeRect(from + .5, top + .5, Math.max(2, to - from) - 1, OVERVIEW_HEIGHT - 1);
}

function drawLoops(timeline, context, width, lanes) {
  const {zoom} = timeline, scale = width / (zoom.to - zoom.from),
        bottom = lanes[lanes.length - 1].top + lanes[lanes.length - 1].height + 8;
  let free = 0;  // labels that would lie on the one before them are left out
  context.strokeStyle = context.fillStyle = colors().ink2;
  context.font = `11px ${FONT}`;
  context.textBaseline = "top";
  for (const {start, end, trips} of timeline.plan.data.schedule.more) {
    const from = (start - zoom.from) * scale, to = (end - zoom.from) * scale;
    if (end <= start || to < 0 || from > width) continue;
    context.strokeRect(from, bottom, Math.max(2, to - from), 3);
    const text = plural(trips, "more trip"), size = context.measureText(text).width,
          at = Math.min(Math.max(4, from), width - size - 4);
    if (at < free) continue;
    context.fillText(text, at, bottom + 6);
    free = at + size + 8;
  }
}

function drawTimeline(timeline, context, width, height) {
  const lanes = timelineLanes(height, timeline.streams.length), {streams} = timeline.plan.data.schedule,
        paint = colors();
  drawScale(context, timeline.zoom, width, height - OVERVIEW_HEIGHT);
  let drawn = 0;
  lanes.forEach((lane, place) => {
    const stream = timeline.streams[place];
    context.fillStyle = paint.panel2;
    context.globalAlpha = .5;
    context.fillRect(0, lane.top, width, lane.height);
    context.globalAlpha = 1;
    drawn += drawLane(timeline, context, stream, lane, width);
    context.fillStyle = paint.ink2;
    context.font = `550 11.5px ${FONT}`;
    context.textBaseline = "bottom";
    const text = `${streams[stream]}   ${secondsText(timeline.plan.data.schedule.busy[stream])} busy`;
    context.fillStyle = paint.panel;
    context.fillRect(0, lane.top - LANE_LABEL + 2, context.measureText(text).width + 14, LANE_LABEL - 3);
    context.fillStyle = paint.ink2;
    context.fillText(text, 8, lane.top - 1);
  });
  if (timeline.plan.data.schedule.more.length) drawLoops(timeline, context, width, lanes);
  drawOverview(timeline, context, width, height);
  return drawn;
}
