// Blocks of the module as a tree, with their sums; blocks that look alike are one item of their parent.

class BlockTree {
  constructor(plan) {
    const {blocks} = plan.data;
    this.plan = plan;
    this.blocks = blocks;
    this.children = blocks.map(() => []);
    blocks.forEach((block, i) => {
      if (block.parent >= 0) this.children[block.parent].push(i);
    });
    this.order = [];  // parents before children
    const waiting = blocks.length ? [0] : [];
    while (waiting.length) {
      const block = waiting.pop();
      this.order.push(block);
      for (let i = this.children[block].length; i-- > 0;) waiting.push(this.children[block][i]);
    }
    this.depth = new Int32Array(blocks.length);
    for (const block of this.order)
      if (blocks[block].parent >= 0) this.depth[block] = this.depth[blocks[block].parent] + 1;
    this.sum();
  }

  sum() {
    const {plan, blocks} = this, zero = () => new Float64Array(blocks.length);
    Object.assign(this, {
      ops: zero(),
      seconds: zero(),
      changes: zero(),
      communication: zero(),
      exposed: zero(),
      first: zero().fill(Infinity)
    });
    plan.ops.block.forEach((block, op) => {
      ++this.ops[block];
      this.seconds[block] += plan.opSeconds(op);
      if (op < this.first[block]) this.first[block] = op;
    });
    plan.changes.op.forEach((op, change) => {
      const block = op >= 0 ? plan.ops.block[op] : 0;
      if (plan.changes.stream[change] > 0) ++this.changes[block];
      this.communication[block] += plan.changeSeconds(change);
      this.exposed[block] += plan.changes.exposed[change];
    });
    for (let i = this.order.length; i-- > 1;) {
      const block = this.order[i], {parent} = blocks[block];
      for (const sums of [this.ops, this.seconds, this.changes, this.communication, this.exposed])
        sums[parent] += sums[block];
      this.first[parent] = Math.min(this.first[parent], this.first[block]);
    }
  }

  // Blocks to show inside a block: each with all its brothers that look like it.
  shown(block) {
    const items = [], byFirst = new Map();
    for (const child of this.children[block]) {
      if (!this.ops[child]) continue;
      const {like} = this.blocks[child];
      const brother = like >= 0 && this.blocks[like].parent === block ? like : child;
      if (!byFirst.has(brother)) {
        byFirst.set(brother, items.length);
        items.push({block: brother, members: []});
      }
      items[byFirst.get(brother)].members.push(child);
    }
    return items;
  }

  name(item) { return this.plan.text(this.blocks[item.block].name); }
  total(item, sums) { return item.members.reduce((sum, member) => sum + sums[member], 0); }
  isInside(block, ancestor) {
    for (let at = block; at >= 0; at = this.blocks[at].parent)
      if (at === ancestor) return true;
    return false;
  }
}

const treeOf = (plan) => plan.once("tree", () => new BlockTree(plan));
