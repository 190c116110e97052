// How a tensor lies on a mesh: cleave/core/axis.h and shard_layout.h, for drawings.

// The position of a device id in the mesh, and back.
const deviceAt = (mesh, position) => (mesh.order ? mesh.order[position] : position);

// The coordinates of a position, one for each axis.
function coordinates(mesh, position) {
  const result = new Array(mesh.axes.length);
  for (let i = mesh.axes.length; i-- > 0;) {
    result[i] = position % mesh.axes[i].size;
    position = Math.floor(position / mesh.axes[i].size);
  }
  return result;
}

// Along a list of [axis, pre, size], major to minor: the mixed-radix coordinate.
function coordinateAlong(mesh, refs, position) {
  const at = coordinates(mesh, position);
  let result = 0;
  for (const [axis, pre, size] of refs) {
    const behind = mesh.axes[axis].size / (pre * size);
    result = result * size + (Math.floor(at[axis] / behind) % size);
  }
  return result;
}

const totalSize = (refs) => refs.reduce((product, ref) => product * ref[2], 1);

// One dimension of n over w shards: chunks of ceil(n / w); the last ones are short or empty.
function chunkOf(n, shards, index) {
  const chunk = Math.ceil(n / shards);
  const offset = Math.min(index * chunk, n);
  return {offset, size: Math.min(offset + chunk, n) - offset};
}

const rangeText = (chunk) => (chunk.size === 0 ? "empty" : `[${chunk.offset},${chunk.offset + chunk.size})`);

// The axes along which a value is whole on every device, as [axis, size]: what is left of each axis.
function copiesOf(mesh, spec) {
  const used = mesh.axes.map(() => 1);
  for (const refs of [...spec.dims, spec.unreduced])
    for (const [axis, , size] of refs) used[axis] *= size;
  const copies = [];
  mesh.axes.forEach((axis, i) => {
    if (axis.size / used[i] > 1) copies.push([i, axis.size / used[i]]);
  });
  return copies;
}

function axisRefText(mesh, [axis, pre, size]) {
  const {name, size: whole} = mesh.axes[axis];
  return `"${name}"` + (pre === 1 && size === whole ? "" : `:(${pre})${size}`);
}

// For each shard (its index in every dimension, joined) the positions that hold it, by part of the sum.
function holdersOf(mesh, spec) {
  const holders = new Map();
  for (let position = 0; position < mesh.devices; ++position) {
    const key = spec.dims.map((refs) => coordinateAlong(mesh, refs, position)).join();
    if (!holders.has(key)) holders.set(key, []);
    holders.get(key).push(
        {device: deviceAt(mesh, position), position, part: coordinateAlong(mesh, spec.unreduced, position)});
  }
  return holders;
}

// Which devices hold a shard, as text: "0, 1", or "(0, 1) + (2, 3)" for parts of a sum.
function holdersText(holders, spec) {
  const parts = new Map();
  for (const {device, part} of holders) parts.set(part, [...(parts.get(part) ?? []), device]);
  const groups = [...parts.values()].map((ids) => ids.sort((a, b) => a - b));
  if (groups.length < 2) return groups.map((ids) => ids.join(", ")).join("");
  const sign = {sum: " + ", prod: " * ", max: " max ", min: " min ", and: " & ", or: " | "}[spec.reduction] ?? " + ";
  return groups.map((ids) => (ids.length > 1 ? `(${ids.join(", ")})` : String(ids[0]))).join(sign);
}

// In words, for people who do not read specs: "dimension 0 in 4 over data; whole along model".
function layoutWords(mesh, spec) {
  const names = (refs) => refs.map((ref) => axisRefText(mesh, ref)).join(", ");
  const words = [];
  spec.dims.forEach((refs, dim) => {
    if (refs.length) words.push(`dimension ${dim} in ${totalSize(refs)} over ${names(refs)}`);
  });
  if (!words.length) words.push("not split");
  if (spec.unreduced.length)
    words.push(`each device holds a part of the ${spec.reduction} over ${names(spec.unreduced)}`);
  const copies = copiesOf(mesh, spec);
  if (copies.length)
    words.push("the same on devices along " + copies.map(([axis]) => `"${mesh.axes[axis].name}"`).join(", "));
  return words.join("; ");
}
