// The drawing of a layout: a sheet for the tensor, cut as its shards are, a line in the colour of the axis that cuts.
// Copies on other devices are sheets behind; a pending sum is hatched. What is not in rows and columns is in panels.

// Which dimensions are rows and columns, and which are repeated as panels.
function chooseDimensions(shape, spec) {
  const all = shape.map((_, dim) => dim);
  const split = all.filter((dim) => spec.dims[dim]?.length);
  let drawn = all;
  if (all.length > 2) {
    drawn = split.slice(0, 2);
    for (const dim of all)
      if (drawn.length < 2 && !drawn.includes(dim)) drawn.push(dim);
    drawn.sort((a, b) => a - b);
  }
  const [row, column] = drawn.length > 1 ? drawn : [-1, drawn.length ? drawn[0] : -1];
  return {row, column, others: split.filter((dim) => dim !== row && dim !== column)};
}

// Where the shards of a dimension begin on a length of pixels; true chunks, so uneven ones look uneven.
function edgesOf(n, refs, length) {
  const shards = totalSize(refs);
  const edges = [];
  for (let i = 0; i <= shards; ++i) {
    const at = i === shards ? n : chunkOf(n, shards, i).offset;
    edges.push(n > 0 ? (at / n) * length : (i / shards) * length);
  }
  return edges;
}

// The axis of the line before shard i: the most major one whose coordinate changes there.
function cuttingAxis(refs, i) {
  let inner = totalSize(refs);
  for (const ref of refs) {
    inner /= ref[2];
    if (i % inner === 0) return ref[0];
  }
  return refs[refs.length - 1][0];
}

function cutLines(refs, edges, width, height, vertical, strength) {
  const lines = [];
  const shards = edges.length - 1;
  const step = Math.ceil(shards / ((vertical ? width : height) / 3));
  for (let i = step; i < shards; i += step) {
    const axis = cuttingAxis(refs, i), at = edges[i];
    if (at >= (vertical ? width : height)) continue;
    const major = refs.length > 1 && axis === refs[0][0];
    lines.push(svg("line", {
      class: "cut-line " + axisClass(axis),
      "stroke-width": (major ? 1.6 : 1.1) * strength,
      x1: vertical ? at : 0,
      x2: vertical ? at : width,
      y1: vertical ? 0 : at,
      y2: vertical ? height : at
    }));
  }
  return lines;
}

// One panel; `large` has the devices in its cells.
function panelOf(plan, spec, shape, dims, box, fixed, large, holders) {
  const refs = (dim) => (dim >= 0 ? spec.dims[dim] : []);
  const extent = (dim) => (dim >= 0 ? shape[dim] : 1);
  const xs = edgesOf(extent(dims.column), refs(dims.column), box.width);
  const ys = edgesOf(extent(dims.row), refs(dims.row), box.height);
  const group = svg("g", {transform: `translate(${box.x},${box.y})`});
  group.append(svg("rect", {class: "paper", width: box.width, height: box.height, rx: 2}));
  if (large && (xs.length - 1) * (ys.length - 1) <= 4096) group.append(...cellsOf(spec, dims, xs, ys, fixed, holders));
  if (spec.unreduced.length)
    group.append(svg("rect", {
      width: box.width,
      height: box.height,
      rx: 2,
      opacity: large ? .45 : .9,
      "pointer-events": "none",
      fill: `url(#hatch-${spec.unreduced[0][0] % AXIS_COLORS})`
    }));
  group.append(
      ...cutLines(refs(dims.column), xs, box.width, box.height, true, large ? 1.5 : 1),
      ...cutLines(refs(dims.row), ys, box.width, box.height, false, large ? 1.5 : 1));
  return group;
}

function cellsOf(spec, dims, xs, ys, fixed, holders) {
  const cells = [];
  for (let r = 0; r + 1 < ys.length; ++r)
    for (let c = 0; c + 1 < xs.length; ++c) {
      const index = [...fixed];
      if (dims.row >= 0) index[dims.row] = r;
      if (dims.column >= 0) index[dims.column] = c;
      const width = xs[c + 1] - xs[c], height = ys[r + 1] - ys[r], key = index.join();
      if (width <= 0 || height <= 0) continue;
      cells.push(svg("rect", {class: "cell", "data-shard": key, x: xs[c], y: ys[r], width, height}));
      const text = holdersText(holders.get(key) ?? [], spec);
      if (height > 13 && width > text.length * 6.2 + 4)
        cells.push(
            svg("text", {
              class: "strong",
              x: xs[c] + width / 2,
              y: ys[r] + height / 2 + 4,
              "text-anchor": "middle",
              "pointer-events": "none",
              "paint-order": "stroke",
              stroke: "var(--panel-2)",
              "stroke-width": 3
            },
                text));
    }
  return cells;
}

// The size of a sheet in a box: as the tensor is, but never too thin.
function sheetSize(shape, dims, width, height) {
  if (dims.row < 0) return [dims.column < 0 ? Math.min(width, height) * .5 : width, Math.max(8, height * .3)];
  const ratio = Math.min(2.6, Math.max(.45, shape[dims.column] / Math.max(1, shape[dims.row])));
  return ratio > width / height ? [width, width / ratio] : [height * ratio, height];
}

// Indices of the panels: every shard of the dimensions that are not rows and columns.
function panelIndices(shape, spec, dims) {
  let indices = [shape.map(() => 0)];
  for (const dim of dims.others) {
    const shards = totalSize(spec.dims[dim]);
    indices =
        indices.flatMap((index) => Array.from({length: shards}, (_, i) => index.map((v, d) => (d === dim ? i : v))));
    if (indices.length > 512) break;
  }
  return indices;
}

// A small drawing. `width` and `height` are the room for it, with sheets behind and a label.
function layoutPicture(plan, typePlace, specPlace, width = 96, height = 42) {
  const type = plan.type(typePlace), spec = plan.spec(specPlace);
  const made = svg("svg", {class: "holds", width, height, role: "img"});
  if (!type || !spec || type.shape.length !== spec.dims.length) return made;
  made.setAttribute("aria-label", `${type.text} ${spec.text}`);
  const copies = copiesOf(plan.mesh, spec), times = copies.reduce((product, copy) => product * copy[1], 1);
  const sheets = times > 1 ? (times > 2 ? 2 : 1) : 0;
  const dims = chooseDimensions(type.shape, spec);
  const panels = panelIndices(type.shape, spec, dims), shown = Math.min(panels.length, 4);
  const label = times > 1 ? 30 : 0;
  const room = (width - label - sheets * 3 - 2 - (shown - 1) * 4 - (panels.length > shown ? 12 : 0)) / shown;
  const [w, h] = sheetSize(type.shape, dims, room, height - sheets * 3 - 2);
  const top = (height - h + sheets * 3) / 2;
  for (let i = 0; i < shown; ++i) {
    const x = 1 + i * (w + 4 + sheets * 3);
    for (let s = sheets; s > 0; --s)
      made.append(svg("rect", {class: "sheet", x: x + s * 3, y: top - s * 3, width: w, height: h, rx: 2}));
    made.append(panelOf(plan, spec, type.shape, dims, {x, y: top, width: w, height: h}, panels[i], false, null));
  }
  const end = 1 + shown * (w + 4 + sheets * 3);
  if (panels.length > shown) made.append(svg("text", {x: end, y: height / 2 + 4}, "…"));
  if (times > 1)
    made.append(
        svg("text", {x: Math.min(end + (panels.length > shown ? 11 : 2), width - 28), y: height / 2 + 4}, "×" + times));
  return made;
}
