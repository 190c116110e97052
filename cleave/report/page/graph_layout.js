// Where the boxes of the graph are. Inside a block its ops and blocks are in rows, each below what it reads; a chain
// stays in its lane. What is read from far away is not a line across everything, but a short end at both boxes.

const OP_WIDTH = 176, OP_HEIGHT = 42, BLOCK_WIDTH = 248, BLOCK_HEIGHT = 66, ROW_GAP = 44, LANE_GAP = 34;
const BORDER = 18, TITLE_HEIGHT = 36, MOST_LANES = 6, FAR = 24;

// Of the parts of a block: which rows and lanes they are in, and what they read of each other.
class BlockStructure {
  constructor(graph, block) {
    this.graph = graph;
    this.block = block;
    this.findItems();
    this.findEdges();
    this.placeInRows();
    this.index();
  }

  findItems() {
    const {plan, tree, constants} = this.graph;
    const items = tree.shown(this.block).map((item) => ({...item, op: -1, first: tree.first[item.block]}));
    for (const op of plan.opsIn(this.block))
      if (constants || plan.opKind(op) !== "constant") items.push({op, block: -1, members: [], first: op});
    items.sort((a, b) => a.first - b.first);
    this.items = items;
    this.under = new Map();  // blocks below this one -> items
    const add = (block, item) => {
      this.under.set(block, item);
      for (const child of tree.children[block]) add(child, item);
    };
    items.forEach((item, i) => item.members.forEach((member) => add(member, i)));
    this.ofOp = new Map();
    items.forEach((item, i) => {
      if (item.op >= 0) this.ofOp.set(item.op, i);
    });
  }

  itemOf(op) {
    const {ops} = this.graph.plan;
    return ops.block[op] === this.block ? this.ofOp.get(op) ?? -1 : this.under.get(ops.block[op]) ?? -1;
  }

  findEdges() {
    const {plan} = this.graph, byPair = new Map(), count = this.items.length;
    const edge = (from, to) => {
      const key = from * count + to;
      if (!byPair.has(key)) byPair.set(key, {from, to, op: -1, operand: -1, values: 0, changes: []});
      return byPair.get(key);
    };
    for (let op = 0; op < plan.numOps; ++op) {
      const to = this.itemOf(op);
      if (to < 0) continue;
      plan.ops.operands[op].forEach((source, operand) => {
        const from = sourceOp(source) >= 0 ? this.itemOf(sourceOp(source)) : -1;
        if (from < 0 || from === to) return;
        const found = edge(from, to);
        if (found.values++ === 0) Object.assign(found, {op, operand});
      });
    }
    plan.changes.op.forEach((op, change) => {
      const source = sourceOp(plan.changes.source[change]);
      if (op < 0 || source < 0) return;
      const from = this.itemOf(source), to = this.itemOf(op);
      if (from >= 0 && to >= 0 && from !== to) edge(from, to).changes.push(change);
    });
    this.edges = [...byPair.values()];
  }

  placeInRows() {
    const count = this.items.length, row = this.row = new Int32Array(count), lane = this.lane = new Int32Array(count);
    const before = new Lists(this.edges.map((edge) => (edge.from < edge.to ? edge.to : -1)), count);
    const after = new Lists(this.edges.map((edge) => (edge.from < edge.to ? edge.from : -1)), count);
    const taken = [];  // for each row the lanes in use
    const free = (r, wanted) => {
      const used = taken[r] ??= new Set();
      for (let away = 0; away < MOST_LANES; ++away)
        for (const l of [wanted + away, wanted - away])
          if (l >= 0 && l < MOST_LANES && !used.has(l)) return l;
      return -1;
    };
    const put = (item, r, wanted) => {
      let l = free(r, wanted);
      while (l < 0) l = free(++r, wanted);
      taken[r].add(l);
      row[item] = r;
      lane[item] = l;
    };
    row.fill(-1);
    for (let item = 0; item < count; ++item) {
      const sources = Array.from(before.of(item), (e) => this.edges[e].from);
      if (!sources.length && after.of(item).length) continue;  // it starts something: it goes above its first reader
      let r = -1, wanted = 0;
      for (const from of sources)
        if (row[from] > r) [r, wanted] = [row[from], lane[from]];
      for (const from of sources)
        if (row[from] < 0) {
          put(from, Math.max(0, r), wanted);
          if (r < row[from]) [r, wanted] = [row[from], lane[from]];
        }
      put(item, r + 1, wanted);
    }
  }

  index() {
    this.numRows = this.items.length ? this.row.reduce((a, r) => Math.max(a, r), 0) + 1 : 0;
    this.numLanes = this.items.length ? this.lane.reduce((a, l) => Math.max(a, l), 0) + 1 : 0;
    this.inRow = new Lists(this.row, this.numRows);
    const near = this.edges.map((edge) => {
      const away = this.row[edge.to] - this.row[edge.from];
      return away > 0 && away <= FAR ? this.row[edge.from] : -1;
    });
    this.near = new Lists(near, this.numRows);
    this.far = this.edges.filter((_, i) => near[i] < 0);
    this.edgesOf = new Lists(this.edges.flatMap((edge) => [edge.from, edge.to]), this.items.length);
  }
}

// Where the parts of a block are, with those that are open; left and top of the block are 0.
class BlockPlace {
  constructor(graph, block) {
    const structure = this.structure = graph.structure(block), {items, row, lane} = structure;
    this.inner = items.map((item) => (item.op < 0 && graph.open.has(item.block) ? graph.place(item.block) : null));
    this.widths = Float64Array.from(items, (item, i) => this.inner[i]?.width ?? (item.op < 0 ? BLOCK_WIDTH : OP_WIDTH));
    this.heights =
        Float64Array.from(items, (item, i) => this.inner[i]?.height ?? (item.op < 0 ? BLOCK_HEIGHT : OP_HEIGHT));
    this.laneX = new Float64Array(structure.numLanes + 1);
    this.rowY = new Float64Array(structure.numRows + 1);
    const wide = new Float64Array(structure.numLanes), tall = new Float64Array(structure.numRows);
    items.forEach((_, i) => {
      wide[lane[i]] = Math.max(wide[lane[i]], this.widths[i]);
      tall[row[i]] = Math.max(tall[row[i]], this.heights[i]);
    });
    this.laneX[0] = BORDER;
    this.rowY[0] = TITLE_HEIGHT + BORDER;
    wide.forEach((w, i) => {
      this.laneX[i + 1] = this.laneX[i] + (w ? w + LANE_GAP : 0);
    });
    tall.forEach((h, i) => {
      this.rowY[i + 1] = this.rowY[i] + (h ? h + ROW_GAP : 0);
    });
    this.xs = Float64Array.from(items, (_, i) => this.laneX[lane[i]] + (wide[lane[i]] - this.widths[i]) / 2);
    this.ys = Float64Array.from(items, (_, i) => this.rowY[row[i]]);
    this.width = Math.max(BLOCK_WIDTH, this.laneX[structure.numLanes] - LANE_GAP + BORDER);
    this.height = Math.max(BLOCK_HEIGHT, this.rowY[structure.numRows] - ROW_GAP + BORDER);
  }

  // The rows between two heights.
  rows(top, bottom) {
    const last = this.structure.numRows - 1;
    const first = Math.max(0, firstAtLeast(this.rowY, top) - 1);
    return [first, Math.min(last, firstAtLeast(this.rowY, bottom))];
  }
}
