// Small things that stand for an axis, a layout, an op, an argument.

// Texts of a spec, coloured by axis; the text is the one of the report.
function layoutText(plan, place) {
  const spec = plan.spec(place);
  if (!spec) return el("span.layout", null, "");
  const {mesh} = plan;
  const axis = (ref) => el("span.axis." + axisClass(ref[0]), null, axisRefText(mesh, ref));
  const list = (refs) => refs.flatMap((ref, i) => (i ? [", ", axis(ref)] : [axis(ref)]));
  const parts = ["["];
  spec.dims.forEach((refs, i) => parts.push(i ? ", {" : "{", ...list(refs), "}"));
  parts.push("]");
  if (spec.replicated.length) parts.push(", replicated={", ...list(spec.replicated), "}");
  if (spec.unreduced.length)
    parts.push(`, unreduced=${spec.reduction === "sum" ? "" : spec.reduction}{`, ...list(spec.unreduced), "}");
  const made = el("span.layout", {title: layoutWords(mesh, spec)}, parts);
  return made.textContent === spec.text ? made : el("span.layout", {title: spec.text}, spec.text);
}

// A text in which names of axes in quotes get their colours: `all_gather "data", "model"`.
function axesText(plan, text) {
  return el("span", null, text.split(/("[^"]*")/).map((part, i) => {
    const axis = i % 2 ? plan.axisNames.get(part.slice(1, -1)) : undefined;
    return axis === undefined ? part : el("span.axis." + axisClass(axis), null, part);
  }));
}

function axisChip(plan, axis) { return meshChips(plan.mesh)[axis]; }

// The axes of a mesh; without its links it is a text.
function meshChips(mesh) {
  if (typeof mesh === "string") return [el("span.mono", null, mesh)];
  return mesh.axes.map(
      ({name, size, text}, axis) => el("span.axis-chip." + axisClass(axis), {title: text}, `${name} ${size}`));
}

function opLink(plan, op, text = plan.opName(op)) {
  return el(
      "button.link.mono.cut", {
        title: text,
        onclick: (event) => {
          event.stopPropagation();
          go({op: plan.opName(op), change: null, arg: null});
        }
      },
      text);
}

function argLink(plan, arg, text = plan.argName(arg)) {
  return el(
      "button.link.mono.cut", {
        title: text,
        onclick: (event) => {
          event.stopPropagation();
          go({arg: plan.argName(arg), op: null, change: null});
        }
      },
      text);
}

function sourceLink(plan, source) {
  const op = sourceOp(source);
  return op < 0 ? argLink(plan, -1 - op) : opLink(plan, op, plan.sourceName(source));
}

function changeLink(plan, change) {
  return el(
      "button.link", {
        onclick: (event) => {
          event.stopPropagation();
          go({change: String(change), op: null, arg: null});
        }
      },
      axesText(plan, plan.changeTitle(change)));
}

// A layout as a row of squares, one a dimension: in the colours of its axes, and hatched if sums are pending.
function layoutGlyph(plan, place) {
  const spec = plan.spec(place);
  const size = 9;
  const made = svg("svg", {
    width: Math.max(1, spec.dims.length) * (size + 2) + (spec.unreduced.length ? size + 5 : 0),
    height: size,
    "aria-hidden": "true"
  });
  spec.dims.forEach((refs, dim) => {
    const x = dim * (size + 2);
    made.append(svg(
        "rect", {x: x + .5, y: .5, width: size - 1, height: size - 1, rx: 1.5, fill: "none", stroke: "var(--line-2)"}));
    refs.forEach((ref, i) => made.append(svg("rect", {
      x: x + (i * size) / refs.length,
      y: 0,
      width: size / refs.length,
      height: size,
      fill: axisVariable(ref[0])
    })));
  });
  if (spec.unreduced.length)
    made.append(svg("rect", {
      x: spec.dims.length * (size + 2) + 3,
      y: 0,
      width: size,
      height: size,
      fill: `url(#hatch-${spec.unreduced[0][0] % AXIS_COLORS})`,
      stroke: axisVariable(spec.unreduced[0][0])
    }));
  return made;
}

// The patterns that hatched parts refer to; once in the page.
function hatchPatterns() {
  const patterns = Array.from(
      {length: AXIS_COLORS},
      (_, axis) => svg(
          "pattern",
          {id: "hatch-" + axis, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
          svg("rect", {width: 1.8, height: 5, fill: axisVariable(axis)})));
  return svg(
      "svg", {width: 0, height: 0, style: {position: "absolute"}, "aria-hidden": "true"}, svg("defs", null, patterns));
}

// A bar of shares: [{share, background, title}].
function shareBar(parts, width = null) {
  return el(
      "span.bar", {style: width ? {width} : {}},
      parts.map((part) => el("i", {
                  style: {width: `${Math.max(0, Math.min(1, part.share)) * 100}%`, background: part.background},
                  title: part.title
                })));
}
