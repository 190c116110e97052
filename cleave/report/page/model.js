// A plan of the report with what the views ask of it. Indexes are made on first use, in one pass each.

// Of pairs (from[i] -> i): for each key the places that have it, as two flat arrays.
class Lists {
  constructor(keys, count) {
    this.starts = new Uint32Array(count + 2);
    for (const key of keys)
      if (key >= 0) ++this.starts[key + 2];
    for (let i = 1; i < this.starts.length; ++i) this.starts[i] += this.starts[i - 1];
    this.places = new Uint32Array(this.starts[count + 1]);
    for (let i = 0; i < keys.length; ++i)
      if (keys[i] >= 0) this.places[this.starts[keys[i] + 1]++] = i;
  }
  of(key) { return this.places.subarray(this.starts[key], this.starts[key + 1]); }
}

const sourceOp = (source) => (Array.isArray(source) ? source[0] : source ?? NaN);
const sourceResult = (source) => (Array.isArray(source) ? source[1] : 0);

// A plan without its module has no schedule.
const NO_SCHEDULE = {
  seconds: 0,
  streams: [],
  busy: [],
  slowed: 0,
  exposed: 0,
  more: [],
  events: {stream: [], start: [], length: [], op: [], change: [], executions: [], exposed: [], critical: []}
};

class PlanModel {
  constructor(plan, index) {
    const data = {...plan, schedule: plan.schedule ?? NO_SCHEDULE};
    this.data = data;
    // The header has the machine and the mesh beside the title, which often ends with them.
    this.title = data.title.replace(/ on <\[.*\]> of .*$/, "");
    this.index = index;
    this.ops = data.ops;
    this.args = data.args;
    this.changes = data.changes;
    this.mesh = data.mesh;
    this.numOps = data.ops.name.length;
    this.numArgs = data.args.name.length;
    this.numChanges = data.changes.kind.length;
    this.axisNames = new Map(data.mesh.axes.map((axis, i) => [axis.name, i]));
    this.made = new Map();
  }

  once(what, make) {
    if (!this.made.has(what)) this.made.set(what, make());
    return this.made.get(what);
  }

  text(place) { return this.data.strings[place] ?? ""; }
  spec(place) { return this.data.specs[place]; }
  type(place) { return this.data.types[place]; }
  typeText(place) { return place >= 0 && this.data.types[place] ? this.data.types[place].text : ""; }

  opName(op) { return this.text(this.ops.name[op]); }
  opKind(op) { return this.text(this.ops.kind[op]).replace(/^stablehlo\./, ""); }
  opSeconds(op) { return this.ops.seconds[op] * this.ops.times[op]; }
  argName(arg) { return this.text(this.args.name[arg]); }
  get opClasses() { return this.once("opClasses", () => new Map(this.data.classes.map((c, i) => [c.what, i]))); }
  opClassPlace(op) { return this.opClasses.get(this.text(this.ops.class[op])) ?? 5; }

  // What an operand is: the result of an op, or an argument.
  sourceName(source) {
    const op = sourceOp(source), result = sourceResult(source);
    if (op < 0) return this.argName(-1 - op);
    return this.opName(op) + (result > 0 ? "#" + result : "");
  }
  sourceType(source) {
    const op = sourceOp(source);
    if (op < 0) return this.args.type[-1 - op];
    return sourceResult(source) === 0 ? this.ops.type[op] : -1;
  }
  sourceSpec(source) {
    const op = sourceOp(source);
    return op < 0 ? this.args.spec[-1 - op] : this.ops.out[op]?.[sourceResult(source)] ?? -1;
  }

  changeSeconds(change) { return this.changes.seconds[change] * this.changes.times[change]; }
  changeTitle(change) { return this.text(this.changes.kind[change]) + " " + this.text(this.changes.axes[change]); }
  changeFor(change) {
    const op = this.changes.op[change];
    return op < 0 ? "a result" : this.opName(op);
  }
  // The axes of `"data", "model":(1)2`, as places in the mesh.
  axesOf(text) {
    return this.once("axes " + text, () => {
      const found = [];
      this.mesh.axes.forEach((axis, i) => {
        const at = text.indexOf(`"${axis.name}"`);
        if (at >= 0) found.push([at, i]);
      });
      return found.sort((a, b) => a[0] - b[0]).map(([, axis]) => axis);
    });
  }
  changeAxes(change) { return this.axesOf(this.text(this.changes.axes[change])); }

  get opPlaces() {
    return this.once("opPlaces", () => {
      const places = new Map();
      for (let op = this.numOps; op-- > 0;) places.set(this.opName(op), op);
      return places;
    });
  }
  get argPlaces() {
    return this.once("argPlaces", () => {
      const places = new Map();
      for (let arg = this.numArgs; arg-- > 0;) places.set(this.argName(arg), arg);
      return places;
    });
  }
  changesOf(op) { return this.once("changesOf", () => new Lists(this.changes.op, this.numOps)).of(op); }
  argsOf(group) { return this.once("argsOf", () => new Lists(this.args.group, this.data.arg_groups.length)).of(group); }
  opsIn(block) { return this.once("opsIn", () => new Lists(this.ops.block, this.data.blocks.length)).of(block); }

  // The ops that read a source; argument a has the key numOps + a.
  usersOf(source) {
    const users = this.once("users", () => {
      const keys = [], readers = [];
      this.ops.operands.forEach((operands, op) => {
        for (const operand of operands) {
          const from = sourceOp(operand);
          keys.push(from >= 0 ? from : this.numOps - 1 - from);
          readers.push(op);
        }
      });
      return {lists: new Lists(keys, this.numOps + this.numArgs), readers};
    });
    const from = sourceOp(source);
    const found = users.lists.of(from >= 0 ? from : this.numOps - 1 - from);
    return [...new Set(Array.from(found, (place) => users.readers[place]))];
  }

  get eventsByOp() { return this.once("eventsByOp", () => new Lists(this.data.schedule.events.op, this.numOps)); }
  get eventsByChange() {
    return this.once("eventsByChange", () => new Lists(this.data.schedule.events.change, this.numChanges));
  }
  get stepOfOp() { return this.once("stepOfOp", () => new Lists(this.data.memory.step_op, this.numOps)); }

  blockPath(block) {
    const path = [];
    for (let at = block; at >= 0; at = this.data.blocks[at].parent) path.unshift(this.text(this.data.blocks[at].name));
    return path;
  }
}
