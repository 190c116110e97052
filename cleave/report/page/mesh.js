// The mesh as a picture: nodes with their devices, and a link for each pair of neighbours along an axis.

const DEVICE = 42, GAP = 20, NODE_PAD = 18, NODE_GAP = 74, MOST_LINKED = 128;

// How many columns the devices of a node have: the most minor axis inside of it, if that is not too wide.
function columnsOf(mesh, perNode) {
  let columns = 1;
  for (let i = mesh.axes.length; i-- > 0;) {
    const wider = columns * mesh.axes[i].size;
    if (wider > 8 || perNode % wider) break;
    columns = wider;
    if (columns >= Math.sqrt(perNode)) break;
  }
  return columns === 1 && perNode > 1 ? Math.min(perNode, Math.max(2, Math.ceil(Math.sqrt(perNode)))) : columns;
}

// Where every device is; positions are places in the mesh.
function placeDevices(mesh, width) {
  const perNode = Math.max(1, Math.min(mesh.devices_per_node || mesh.devices, mesh.devices));
  const nodes = Math.ceil(mesh.devices / perNode), columns = columnsOf(mesh, perNode),
        rows = Math.ceil(perNode / columns);
  const nodeWidth = columns * (DEVICE + GAP) - GAP + 2 * NODE_PAD,
        nodeHeight = rows * (DEVICE + GAP) - GAP + 2 * NODE_PAD + 16;
  const across = Math.max(1, Math.min(nodes, Math.floor((width + NODE_GAP) / (nodeWidth + NODE_GAP))));
  const even = nodes <= across ? nodes : Math.ceil(nodes / Math.ceil(nodes / across));
  const boxes = Array.from({length: nodes}, (_, node) => ({
                                              node,
                                              x: (node % even) * (nodeWidth + NODE_GAP) + 1,
                                              y: Math.floor(node / even) * (nodeHeight + NODE_GAP) + 1,
                                              width: nodeWidth,
                                              height: nodeHeight
                                            }));
  const places = Array.from({length: mesh.devices}, (_, position) => {
    const device = deviceAt(mesh, position), box = boxes[Math.floor(device / perNode)], at = device % perNode;
    return {
      position,
      device,
      node: box.node,
      x: box.x + NODE_PAD + (at % columns) * (DEVICE + GAP) + DEVICE / 2,
      y: box.y + NODE_PAD + 16 + Math.floor(at / columns) * (DEVICE + GAP) + DEVICE / 2
    };
  });
  const last = boxes[boxes.length - 1];
  return {boxes, places, width: even * (nodeWidth + NODE_GAP) - NODE_GAP + 2, height: last.y + nodeHeight + 2};
}

// A link bends if there are other devices between its ends.
function linkPath(a, b, axis) {
  const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy);
  const next = length <= DEVICE + GAP + 1;
  const bend = next ? 0 : Math.min(26, 9 + axis * 5 + length * .04);
  const shift = next ? 0 : (axis % 2 ? 1 : -1) * bend;
  const nx = -dy / length, ny = dx / length;
  return `M${a.x},${a.y} Q${(a.x + b.x) / 2 + nx * shift},${(a.y + b.y) / 2 + ny * shift} ${b.x},${b.y}`;
}

function neighbours(mesh, position) {
  const at = coordinates(mesh, position), found = [];
  let stride = 1;
  for (let axis = mesh.axes.length; axis-- > 0;) {
    if (at[axis] + 1 < mesh.axes[axis].size) found.push([axis, position + stride]);
    stride *= mesh.axes[axis].size;
  }
  return found;
}

// All positions that differ from one along this axis alone.
function alongAxis(mesh, position, axis) {
  const stride = mesh.axes.slice(axis + 1).reduce((product, a) => product * a.size, 1);
  const first = position - coordinates(mesh, position)[axis] * stride;
  return Array.from({length: mesh.axes[axis].size}, (_, i) => first + i * stride);
}

// Between nodes the links of an axis are one line, which says how many they are.
function nodeLinks(mesh, placed) {
  const counts = new Map(), made = svg("g");
  for (const place of placed.places)
    for (const [axis, other] of neighbours(mesh, place.position)) {
      const to = placed.places[other].node;
      if (to === place.node) continue;
      const key = [axis, Math.min(place.node, to), Math.max(place.node, to)].join();
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  const lines = new Map();  // pairs of nodes -> how many lines there are already
  for (const [key, count] of [...counts].slice(0, 400)) {
    const [axis, from, to] = key.split(",").map(Number), a = placed.boxes[from], b = placed.boxes[to],
                       pair = `${from},${to}`;
    const place = lines.get(pair) ?? 0, beside = a.y === b.y, shift = 22 + place * 24;
    lines.set(pair, place + 1);
    const near = beside ? Math.abs(a.x - b.x) < a.width + NODE_GAP + 2 :
                          Math.abs(a.y - b.y) < a.height + NODE_GAP + 2 && a.x === b.x;
    const x1 = beside ? a.x + a.width : a.x + 60 + shift, y1 = beside ? a.y + 24 + shift : a.y + a.height,
          x2 = beside ? b.x : b.x + 60 + shift, y2 = beside ? b.y + 24 + shift : b.y;
    const d = near ? `M${x1},${y1} L${x2},${y2}` :
        beside ? `M${x1 - a.width / 2},${a.y} Q${(x1 + x2) / 2},${a.y - NODE_GAP * .6} ${x2 + b.width / 2},${b.y}` :
                 `M${x1},${y1} C${x1},${y1 + 40} ${x2},${y2 - 40} ${x2},${y2}`;
    made.append(svg("path", {
      class: axisClass(axis),
      d,
      fill: "none",
      stroke: "var(--axis, var(--axis-none))",
      "stroke-width": 2.5,
      "stroke-dasharray": "6 4"
    }));
    if (near)
      made.append(
          svg("text", {
            x: (x1 + x2) / 2 + (beside ? 0 : 8),
            y: (y1 + y2) / 2 + (beside ? -5 : 4),
            "text-anchor": beside ? "middle" : "start",
            fill: "var(--ink-2)",
            "font-size": 11
          },
              svg("title", null, `${count} links of ${mesh.axes[axis].name}`), `${mesh.axes[axis].name} ×${count}`));
  }
  return made;
}

// Links between devices of one node.
function deviceLinks(mesh, placed) {
  const links = svg("g");
  if (mesh.devices > MOST_LINKED) return links;
  for (const place of placed.places)
    for (const [axis, other] of neighbours(mesh, place.position)) {
      if (placed.places[other].node !== place.node) continue;
      const d = linkPath(place, placed.places[other], axis);
      links.append(svg("path", {d, fill: "none", stroke: axisVariable(axis), "stroke-width": 3, opacity: .8}));
    }
  return links;
}

// A square around the place of a device.
function square(place, margin, look) {
  const x = place.x - DEVICE / 2 - margin, y = place.y - DEVICE / 2 - margin, size = DEVICE + 2 * margin;
  return svg("rect", {x, y, width: size, height: size, rx: 8 + margin, ...look});
}

// Shows where a device is, with a ring around each that it talks to, in the colour of the axis.
function pointAt(mesh, placed, place, rings, caption) {
  rings.textContent = "";
  for (let axis = mesh.axes.length; axis-- > 0;)
    for (const other of alongAxis(mesh, place.position, axis))
      if (other !== place.position)
        rings.append(square(placed.places[other], 3, {fill: "none", stroke: axisVariable(axis), "stroke-width": 3}));
  const at = coordinates(mesh, place.position);
  const name = (axis, i) => el("span.axis." + axisClass(i), null, axis.name);
  replaceChildren(
      caption, el("b", null, `Device ${place.device}`), placed.boxes.length > 1 ? ` in node ${place.node}` : "", ":  ",
      mesh.axes.map((axis, i) => [i ? ", " : "", name(axis, i), ` ${at[i]} of ${axis.size}`]),
      ". The rings show the devices that it talks to along each axis.");
}

function meshPicture(plan, width, caption) {
  const {mesh} = plan, placed = placeDevices(mesh, width), several = placed.boxes.length > 1;
  const rings = svg("g", {"pointer-events": "none"});
  const devices = placed.places.map((place) => {
    const look =
        {x: place.x, y: place.y + 5, "text-anchor": "middle", fill: "var(--ink)", "font-size": 13, "font-weight": 550};
    const point = () => pointAt(mesh, placed, place, rings, caption);
    return svg(
        "g", {class: "device", "data-device": place.device, onmouseenter: point},
        square(place, 0, {fill: "var(--panel)", stroke: "var(--line-2)", "stroke-width": 1.5}),
        svg("text", look, String(place.device)));
  });
  const boxes = placed.boxes.map(
      ({node, x, y, width: w, height: h}) =>
          [svg("rect", {x, y, width: w, height: h, rx: 12, fill: "var(--panel-2)", stroke: "var(--line)"}),
           svg("text", {x: x + NODE_PAD, y: y + 20, fill: "var(--ink-3)", "font-size": 12},
               several ? `node ${node}` : "one node")]);
  const zoom = Math.max(1, Math.min(1.5, width / placed.width, 420 / placed.height)), above = several ? 10 : 0;
  const size = {width: placed.width * zoom, height: placed.height * zoom};
  return svg(
      "svg", {
        ...size,
        viewBox: `0 ${- above} ${placed.width} ${placed.height + above}`,
        role: "img",
        style: {display: "block"},
        "aria-label": `${mesh.devices} devices in ${plural(placed.boxes.length, "node")}`
      },
      boxes.flat(), deviceLinks(mesh, placed), mesh.devices <= 4096 ? nodeLinks(mesh, placed) : null, devices, rings);
}

// How much of the step each axis carries.
function axisRows(plan) {
  const {mesh, totals} = plan.data;
  return mesh.axes.map((axis, i) => {
    const own = totals.collectives.filter((c) => plan.axesOf(c.axes).includes(i));
    const sum = (field) => own.reduce((s, c) => s + c[field], 0);
    return [
      axisChip(plan, i),
      el("span.whole", null,
         axis.kind === "inside"     ? "inside a node" :
             axis.kind === "across" ? "across nodes" :
                                      "both"),
      axis.gbps ? `${Number(axis.gbps.toPrecision(4))} GB/s` : "",
      axis.latency_us ? `${Number(axis.latency_us.toPrecision(4))} us` : "", countText(sum("count")),
      bytesText(sum("bytes")), secondsText(sum("seconds")), axis.text
    ];
  });
}

function makeMesh(plan) {
  const {mesh} = plan;
  const caption =
      el("div.soft.screen-only", {style: {"min-height": "22px", margin: "10px 0"}},
         "Point at a device to see its coordinates.");
  const note = mesh.devices > MOST_LINKED ?
      el("p.softer", null,
         `Of more than ${
             MOST_LINKED} devices no links inside nodes are drawn; point at one to see with which it talks.`) :
      null;
  const table = plainTable(
      [
        "Axis", "Links", {text: "Bandwidth", number: true}, {text: "Latency", number: true},
        {text: "Collectives", number: true}, {text: "Received", number: true}, {text: "Time", number: true}, ""
      ],
      axisRows(plan));
  const inner = el(
      "div.inner", null, el("h2", null, "Mesh"),
      el("p.lead", null, `${plural(mesh.devices, "device")} of ${plan.data.machine}. `,
         mesh.axes.length ?
             "Each axis has a colour, which it keeps on every page. Solid links are inside a node, dashed ones leave it." :
             "The mesh has no axes."),
      el("div.legend", {style: {"margin-bottom": "14px"}}, mesh.axes.map((_, i) => axisChip(plan, i))),
      el("div", {style: {overflow: "auto"}}, meshPicture(plan, Math.min(1100, innerWidth - 260), caption)), caption,
      note, el("h3", null, "What each axis carries in a step"), el("div.card", {style: {padding: "4px 6px"}}, table),
      plan.data.totals.collectives.some((c) => plan.axesOf(c.axes).length > 1) ?
          el("p.softer", {style: {"font-size": "13px"}},
             "A collective over several axes is counted for each of them.") :
          null);
  return {element: el("section", {"aria-label": "Mesh"}, inner)};
}
