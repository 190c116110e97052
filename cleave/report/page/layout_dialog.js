// A layout drawn large: rulers in the colours of the axes, devices in their cells, and the list of what each one holds.

// A strip along one side, one row for each axis: as many segments as there are coordinates.
function ruler(plan, refs, edges, at, vertical) {
  const made = svg("g");
  let inner = edges.length - 1, outer = 1;
  refs.forEach((ref, level) => {
    inner /= ref[2];
    outer *= ref[2];
    for (let i = 0; i < outer && outer <= 512; ++i) {
      const from = edges[i * inner], to = edges[(i + 1) * inner], place = at - 7 * (refs.length - level);
      if (to - from < .5) continue;
      made.append(svg("rect", {
        x: vertical ? place : from + .5,
        y: vertical ? from + .5 : place,
        rx: 1.5,
        width: vertical ? 5 : Math.max(.5, to - from - 1),
        height: vertical ? Math.max(.5, to - from - 1) : 5,
        fill: axisVariable(ref[0]),
        opacity: i % ref[2] % 2 ? .45 : 1
      }));
    }
  });
  return made;
}

function dimensionLines(plan, shape, spec) {
  const {mesh} = plan;
  return shape.map((n, dim) => {
    const refs = spec.dims[dim], shards = totalSize(refs);
    if (!refs.length) return el("div", null, el("span.soft", null, `dimension ${dim}  `), `${n}, not split`);
    const chunk = chunkOf(n, shards, 0).size, last = chunkOf(n, shards, shards - 1).size;
    const names = refs.flatMap(
        (ref, i) => [i ? ", then " : "", el("span.axis." + axisClass(ref[0]), null, axisRefText(mesh, ref))]);
    return el(
        "div", null, el("span.soft", null, `dimension ${dim}  `), `${n} = ${shards} × ${chunk}`,
        last !== chunk ? el("span.warn", null, ` (uneven: the last has ${last})`) : null, " over ", names);
  });
}

function legendOfLayout(plan, spec) {
  const lines = [];
  const copies = copiesOf(plan.mesh, spec);
  if (copies.length)
    lines.push(el(
        "div", null, el("span.soft", null, "copies  "), `${copies.reduce((p, c) => p * c[1], 1)} of each shard, along `,
        copies.map(
            ([axis, size], i) =>
                [i ? ", " : "", el("span.axis." + axisClass(axis), null, `"${plan.mesh.axes[axis].name}"`),
                 ` (${size})`])));
  if (spec.unreduced.length)
    lines.push(
        el("div", null, el("span.soft", null, "pending  "),
           `the value is the ${spec.reduction} of ${totalSize(spec.unreduced)} parts, along `,
           spec.unreduced.map(
               (ref, i) => [i ? ", " : "", el("span.axis." + axisClass(ref[0]), null, axisRefText(plan.mesh, ref))])));
  return lines;
}

// The drawing itself; `width` is the room. Returns {element, light(device)}.
function largePicture(plan, typePlace, specPlace, width) {
  const type = plan.type(typePlace), spec = plan.spec(specPlace), {shape} = type;
  const holders = holdersOf(plan.mesh, spec), dims = chooseDimensions(shape, spec);
  const panels = panelIndices(shape, spec, dims), shown = panels.slice(0, 32);
  const refs = (dim) => (dim >= 0 ? spec.dims[dim] : []);
  const left = 6 + 7 * refs(dims.row).length, top = 20 + 7 * refs(dims.column).length, caption = 18;
  const across = shown.length === 1 ? 1 : shown.length <= 4 ? 2 : 4;
  const room = (width - 12) / across - left - 14;
  const [sheet, h] = sheetSize(shape, dims, room, shown.length === 1 ? 250 : 150).map((v) => Math.max(24, v));
  const w = shown.length === 1 ? Math.max(sheet, Math.min(room, 260)) : sheet;  // room for the texts
  const cellWidth = w + left + 14, cellHeight = h + top + (shown.length > 1 ? caption : 4);
  const made = svg("svg", {
    class: "holds",
    width: across * cellWidth,
    height: Math.ceil(shown.length / across) * cellHeight,
    role: "img",
    "aria-label": `${type.text} ${spec.text}`
  });
  shown.forEach((fixed, i) => {
    const x = (i % across) * cellWidth + left, y = Math.floor(i / across) * cellHeight + top;
    const group = svg("g", {transform: `translate(${x},${y})`});
    group.append(panelOf(plan, spec, shape, dims, {x: 0, y: 0, width: w, height: h}, fixed, true, holders));
    if (dims.column >= 0) {
      group.append(ruler(plan, refs(dims.column), edgesOf(shape[dims.column], refs(dims.column), w), 0, false));
      group.append(svg(
          "text", {x: 0, y: -7 * refs(dims.column).length - 5}, `dimension ${dims.column}: ${shape[dims.column]} →`));
    }
    if (dims.row >= 0) {
      group.append(ruler(plan, refs(dims.row), edgesOf(shape[dims.row], refs(dims.row), h), 0, true));
      if (w > 230)
        group.append(
            svg("text", {x: w, y: -7 * refs(dims.column).length - 5, "text-anchor": "end"},
                `dimension ${dims.row}: ${shape[dims.row]} ↓`));
    }
    if (shown.length > 1)
      group.append(svg(
          "text", {x: 0, y: h + 14},
          dims.others
              .map(
                  (dim) => `dimension ${dim}: ${rangeText(chunkOf(shape[dim], totalSize(spec.dims[dim]), fixed[dim]))}`)
              .join(", ")));
    made.append(group);
  });
  return {element: made, holders, more: panels.length - shown.length};
}

function deviceTable(plan, typePlace, specPlace, lit) {
  const type = plan.type(typePlace), spec = plan.spec(specPlace), {mesh} = plan;
  const element = type.shape.reduce((p, n) => p * n, 1) ? type.bytes / type.shape.reduce((p, n) => p * n, 1) : 0;
  const chunks = (position) =>
      spec.dims.map((refs, dim) => chunkOf(type.shape[dim], totalSize(refs), coordinateAlong(mesh, refs, position)));
  const columns = [
    {
      title: "Device",
      width: "70px",
      number: true,
      value: (p) => deviceAt(mesh, p),
      text: (p) => String(deviceAt(mesh, p))
    },
    {
      title: mesh.axes.map((a) => a.name).join(", "),
      width: "minmax(90px,1fr)",
      value: (p) => p,
      text: (p) => coordinates(mesh, p).join(", ")
    },
    {
      title: "Holds",
      width: "minmax(160px,2fr)",
      value: (p) => p,
      text: (p) => chunks(p).map(rangeText).join(" × ") || "the number"
    },
    {
      title: "Bytes",
      width: "90px",
      number: true,
      value: (p) => chunks(p).reduce((n, c) => n * c.size, element),
      text: (p) => bytesText(chunks(p).reduce((n, c) => n * c.size, element))
    }
  ];
  if (spec.unreduced.length)
    columns.push({
      title: "Part of the " + spec.reduction,
      width: "110px",
      number: true,
      value: (p) => coordinateAlong(mesh, spec.unreduced, p),
      text: (p) => `${coordinateAlong(mesh, spec.unreduced, p)} of ${totalSize(spec.unreduced)}`
    });
  return makeTable(
      {label: "What each device holds", columns, rows: mesh.devices, height: 190, noun: "device", hover: lit});
}

function openLayout(plan, title, typePlace, specPlace) {
  const type = plan.type(typePlace), spec = plan.spec(specPlace);
  if (!type || !spec || type.shape.length !== spec.dims.length) return;
  const width = Math.min(1040, innerWidth * .9 - 60);
  const picture = largePicture(plan, typePlace, specPlace, width);
  const caption =
      el("div.soft", {style: {"min-height": "20px"}},
         "A cell shows the devices that hold it. Point at one, or at a device below.");
  const light = (keys) => {
    for (const cell of picture.element.querySelectorAll(".cell"))
      cell.classList.toggle("lit", keys.has(cell.getAttribute("data-shard")));
  };
  picture.element.addEventListener("mouseover", (event) => {
    const key = event.target.getAttribute?.("data-shard");
    if (key === null || key === undefined) return;
    light(new Set([key]));
    const ranges = key === "" ?
        "the number" :
        key.split(",")
            .map((i, dim) => rangeText(chunkOf(type.shape[dim], totalSize(spec.dims[dim]), Number(i))))
            .join(" × ");
    replaceChildren(caption, `${ranges} on device ${holdersText(picture.holders.get(key) ?? [], spec)}`);
  });
  const table = deviceTable(
      plan, typePlace, specPlace,
      (position) => light(new Set([spec.dims.map((refs) => coordinateAlong(plan.mesh, refs, position)).join()])));
  const dialog =
      el("dialog.layout-dialog", {"aria-label": title},
         el("div", {style: {padding: "18px 22px", width: width + 44 + "px"}},
            el("div.row", null, el("h2.mono.grow", {style: {"font-size": "15px", margin: 0}}, title),
               el("button", {onclick: () => dialog.close(), autofocus: true}, "Close")),
            el("div.row", {style: {margin: "6px 0 12px"}}, el("span.mono", null, type.text),
               layoutText(plan, specPlace), el("span.soft", null, `${bytesText(type.bytes)} in all`)),
            el("div", {style: {overflow: "auto", "max-height": "42vh"}}, picture.element),
            picture.more > 0 ? el("div.soft", null, `and ${plural(picture.more, "more panel")}`) : null, caption,
            el("div", {style: {margin: "8px 0 12px", "font-size": "13px"}}, dimensionLines(plan, type.shape, spec),
               legendOfLayout(plan, spec)),
            table.element));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  table.redraw();
}

// The small drawing as a button that opens the large one.
function drawnLayout(plan, title, typePlace, specPlace, width = 96, height = 42) {
  return el(
      "button.drawing", {
        title: "Draw it large, with its devices",
        "aria-label": `Layout of ${title}`,
        onclick: (event) => {
          event.stopPropagation();
          openLayout(plan, title, typePlace, specPlace);
        }
      },
      layoutPicture(plan, typePlace, specPlace, width, height));
}
