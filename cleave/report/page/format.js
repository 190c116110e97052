// How figures are written: as cleave/core/units.cc writes them, so that the page and the terminal agree.

// A number with so many decimals. Like C's printf, an exact half goes to the even digit; toFixed rounds it up.
function fixed(value, decimals) {
  if (value < 0) return "-" + fixed(-value, decimals);
  const halves = value * 2 ** (decimals + 1);
  if (Number.isInteger(halves) && Math.abs(halves % 2) === 1 && value < 2 ** 40) {
    const up = value.toFixed(decimals);
    if (Number(up[up.length - 1]) % 2 === 1) return (value * (1 - 2 ** -50)).toFixed(decimals);
    return up;
  }
  return value.toFixed(decimals);
}

// "12.30 us", "4.57 ms", "8.90 s"
function secondsText(seconds, decimals = 2) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds >= 1) return fixed(seconds, decimals) + " s";
  if (seconds >= 1e-3) return fixed(seconds * 1e3, decimals) + " ms";
  return fixed(seconds * 1e6, 2) + " us";
}

// A difference, with its sign.
function deltaText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return (seconds > 0 ? "+" : seconds < 0 ? "-" : "") + secondsText(Math.abs(seconds));
}

const KIB = 1024, MIB = 1024 * KIB, GIB = 1024 * MIB;

function unitText(bytes, units) {
  let unit = units[0];
  for (const other of units)
    if (bytes >= other[0]) unit = other;
  return fixed(bytes / unit[0], unit[2]) + " " + unit[1];
}

// "999 B", "1.5 KiB", "3.0 MiB", "1.00 GiB": BytesStyle::Log
const LOG_UNITS = [[1, "B", 0], [KIB, "KiB", 1], [MIB, "MiB", 1], [GIB, "GiB", 2]];
function bytesText(bytes) { return bytes === null || bytes === undefined ? "" : unitText(bytes, LOG_UNITS); }

// "1536 bytes", "3.00 MiB", "1.00 GiB": BytesStyle::Limit, of memory that must fit
const LIMIT_UNITS = [[1, "bytes", 0], [MIB, "MiB", 2], [GIB, "GiB", 2]];
function limitText(bytes) { return bytes === null || bytes === undefined ? "none" : unitText(bytes, LIMIT_UNITS); }

function percentText(share, decimals = 1) { return Number.isFinite(share) ? fixed(100 * share, decimals) + "%" : ""; }

// 12345 -> "12,345"
function countText(count) {
  if (!Number.isInteger(count)) return String(count);
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

// "1 op", "2 ops"
function plural(count, one, many = one + "s") { return countText(count) + " " + (count === 1 ? one : many); }

// Three significant digits, for rates: 4.56e+05 -> "456,000"
function rateText(value) {
  if (!Number.isFinite(value) || value === 0) return "0";
  if (value < 1000) return String(Number(value.toPrecision(3)));
  return countText(Math.round(Number(value.toPrecision(4))));
}

// Steps of a scale that people like: 1, 2, 5 times a power of ten; at most `most` of them from `low` to `high`.
function niceSteps(low, high, most) {
  const raw = (high - low) / Math.max(1, most);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.9999);
  const steps = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n) steps.push(n * step);
  return steps;
}

// Steps of a scale of bytes: powers of two, and halves of them.
function niceByteSteps(high, most) {
  let step = 1;
  while (high / step > most) step *= 2;
  const steps = [];
  for (let at = 0; at <= high; at += step) steps.push(at);
  return steps;
}
