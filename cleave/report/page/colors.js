// Colours for canvases: read from the style sheet, anew when the theme changes.

const AXIS_COLORS = 6;
let paints = null;

function colors() {
  if (paints) return paints;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue("--" + name).trim();
  const series = (name, count) => Array.from({length: count}, (_, i) => color(name + "-" + i));
  paints = {
    back: color("back"),
    panel: color("panel"),
    panel2: color("panel-2"),
    ink: color("ink"),
    ink2: color("ink-2"),
    ink3: color("ink-3"),
    line: color("line"),
    line2: color("line-2"),
    hover: color("hover"),
    mark: color("mark"),
    focus: color("focus"),
    critical: color("critical"),
    bad: color("bad"),
    good: color("good"),
    axis: series("axis", AXIS_COLORS),
    noAxis: color("axis-none"),
    kernels: series("class", 6),
    memory: series("memory", 7),
    hatches: new Map(),
  };
  return paints;
}

function forgetColors() { paints = null; }

const axisClass = (axis) => (axis >= 0 && axis < AXIS_COLORS ? "axis-" + axis : "axis-none");
const axisColor = (axis) => (axis >= 0 && axis < AXIS_COLORS ? colors().axis[axis] : colors().noAxis);
const kernelColor = (place) => colors().kernels[Math.min(Math.max(place, 0), 5)];
const memoryColor = (place) => colors().memory[Math.min(Math.max(place, 0), 6)];

// The same, for styles of elements.
const axisVariable = (axis) => `var(--axis-${axis >= 0 && axis < AXIS_COLORS ? axis : "none"})`;
const kernelVariable = (place) => `var(--class-${Math.min(Math.max(place, 0), 5)})`;
const memoryVariable = (place) => `var(--memory-${Math.min(Math.max(place, 0), 6)})`;

// A background of one colour, or of stripes of several.
function axesBackground(axes) {
  if (axes.length < 2) return axisVariable(axes.length ? axes[0] : -1);
  const stops = axes.map((axis, i) => `${axisVariable(axis)} ${i * 5}px ${(i + 1) * 5}px`);
  return `repeating-linear-gradient(135deg, ${stops.join(", ")})`;
}

// The same for a canvas.
function axesPaint(context, axes) {
  if (axes.length < 2) return axisColor(axes.length ? axes[0] : -1);
  const key = axes.join();
  const {hatches} = colors();
  if (!hatches.has(key)) {
    const size = 5 * axes.length, tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const paint = tile.getContext("2d");
    for (let y = 0; y < size; ++y)
      for (let x = 0; x < size; ++x) {
        paint.fillStyle = axisColor(axes[Math.floor(((x + y) % size) / 5)]);
        paint.fillRect(x, y, 1, 1);
      }
    hatches.set(key, tile);
  }
  return context.createPattern(hatches.get(key), "repeat");
}
