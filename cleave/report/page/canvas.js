// A canvas that keeps the size of its place and the sharpness of the screen; it is drawn at most once a frame.

function makeSurface(label, draw, height = null) {
  const canvas = el("canvas", {tabindex: 0, role: "img", "aria-label": label});
  const element = el("div.surface", {style: height ? {height: height + "px"} : {flex: "1"}}, canvas);
  const surface = {element, canvas, width: 0, height: 0, drawn: 0};
  const context = canvas.getContext("2d");

  surface.paint = () => {
    const width = element.clientWidth, tall = element.clientHeight;
    if (!width || !tall) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = tall + "px";
    }
    surface.width = width;
    surface.height = tall;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, tall);
    ++surface.drawn;
    draw(context, width, tall, surface);
  };
  surface.redraw = oncePerFrame(surface.paint);
  surface.observer = new ResizeObserver(surface.redraw);
  surface.observer.observe(element);
  return surface;
}

const FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
const MONO = "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace";

// A text that ends with "…" if it is wider than its room.
function fitText(context, text, room) {
  if (room < 8) return "";
  if (text.length > 400) text = text.slice(0, 400);
  if (context.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= room)
      low = middle;
    else
      high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

// The end of a name, which says more than its beginning: "…attention.q".
function fitEnd(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let from = Math.max(1, text.length - 60);
  while (from < text.length && context.measureText("…" + text.slice(from)).width > room) ++from;
  return from < text.length ? "…" + text.slice(from) : "";
}

// Dragging with the pointer: `move(dx, dy)` for each movement, `end(event)` if it was a click.
function onDrag(canvas, move, click) {
  let at = null, far = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    at = [event.clientX, event.clientY];
    far = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!at) return;
    const dx = event.clientX - at[0], dy = event.clientY - at[1];
    far += Math.abs(dx) + Math.abs(dy);
    at = [event.clientX, event.clientY];
    if (far > 3) move(dx, dy, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (at && far <= 3) click(event);
    at = null;
  });
  canvas.addEventListener("pointercancel", () => {
    at = null;
  });
}

// The window [from, to] of a scale that is zoomed and moved: the timeline and the memory have one each.
class Zoom {
  constructor(length, least) {
    this.length = length;
    this.least = least;
    this.all();
  }
  all() {
    this.from = 0;
    this.to = this.length;
  }
  set(from, to) {
    const size = Math.min(this.length, Math.max(this.least, to - from));
    this.from = Math.max(0, Math.min(this.length - size, from));
    this.to = this.from + size;
  }
  // By a factor, around a place of the scale that stays where it is.
  by(factor, around) {
    const size = Math.min(this.length, Math.max(this.least, (this.to - this.from) * factor));
    const share = (around - this.from) / (this.to - this.from);
    this.set(around - share * size, around - share * size + size);
  }
  move(share) {
    const by = share * (this.to - this.from);
    this.set(this.from + by, this.to + by);
  }
  // The keys that move and zoom; whether it was one.
  key(event, around = (this.from + this.to) / 2) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const does = {
      "+": () => this.by(.5, around),
      "=": () => this.by(.5, around),
      "-": () => this.by(2, around),
      "0": () => this.all(),
      ArrowLeft: () => this.move(-.15),
      ArrowRight: () => this.move(.15)
    }[event.key];
    if (!does) return false;
    does();
    event.preventDefault();
    return true;
  }
  wheel(event, around) {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey)
      return this.move((event.deltaX || event.deltaY) / 1000);
    this.by(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), around);
  }
}
