"""Pictures: which device holds what, as text and as HTML for notebooks, in light and in dark."""

from html import escape

from cleave import _core
from cleave.mesh import mesh_repr

# Colours come from a hue that each shape has; the rest follows the theme of the page.
CSS = """
.cleave { --ink: #1c2430; --paper: #ffffff; --faint: #66707f; --line: #b8c0cc; --fill-s: 62%; --fill-l: 84%; --edge-l: 45%;
  color: var(--ink); font: 13px/1.45 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .cleave { --ink: #e6eaf0; --paper: #14181f; --faint: #9aa4b2; --line: #465060;
  --fill-s: 38%; --fill-l: 28%; --edge-l: 62%; } }
[data-jp-theme-light="true"] .cleave { --ink: #1c2430; --paper: #ffffff; --faint: #66707f; --line: #b8c0cc; --fill-s: 62%;
  --fill-l: 84%; --edge-l: 45%; }
[data-jp-theme-light="false"] .cleave { --ink: #e6eaf0; --paper: #14181f; --faint: #9aa4b2; --line: #465060; --fill-s: 38%;
  --fill-l: 28%; --edge-l: 62%; }
.cleave pre { background: none; color: inherit; font: 12px/1.4 ui-monospace, monospace; margin: 4px 0; overflow-x: auto; }
.cleave table { border-collapse: collapse; margin: 4px 0; }
.cleave td, .cleave th { border: 0; border-bottom: 1px solid var(--line); padding: 2px 10px 2px 0; text-align: left;
  background: none; color: inherit; }
.cleave th, .cleave .faint { color: var(--faint); font-weight: normal; }
.cleave code { background: none; color: inherit; }
.cleave svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.cleave svg text.faint { fill: var(--faint); font-size: 11px; }
.cleave .box { fill: hsl(var(--hue) var(--fill-s) var(--fill-l)); stroke: hsl(var(--hue) 45% var(--edge-l)); }
.cleave .empty { fill: none; stroke: var(--line); stroke-dasharray: 3 3; }
.cleave .pending { stroke: hsl(var(--hue) 45% var(--edge-l)); stroke-width: 1; stroke-dasharray: 5 3; fill: none; }
.cleave .replica { fill: hsl(var(--hue) var(--fill-s) var(--fill-l)); stroke: hsl(var(--hue) 45% var(--edge-l)); opacity: .55; }
"""
STYLE = f"<style>{CSS}</style>"
SIGNS = {"sum": "+", "prod": "*", "and": "&", "or": "|"}
MOST_BOXES = 1024  # more are only a list in text


def framed(body):
    return f'<div class="cleave">{STYLE}{body}</div>'


def table_html(heads, rows, foot=""):
    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = row(heads, "th") + "".join(row(cells, "td") for cells in rows)
    return framed(f"<table>{body}</table>" + (f"<div>{escape(foot)}</div>" if foot else ""))


def spans(numbers):
    """0-3,8 of [0, 1, 2, 3, 8]."""
    texts, begin = [], 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            first = numbers[begin]
            texts.append(str(first) if i == begin else f"{first},{number}" if i == begin + 1 else f"{first}-{number}")
            begin = i + 1
    return ",".join(texts)


class Box:
    """The elements that some devices hold: a range in every dimension, and the devices by the part that they hold."""

    def __init__(self, ranges):
        self.ranges, self.parts = ranges, {}

    @property
    def is_empty(self):
        return any(begin == end for begin, end in self.ranges)

    @property
    def copies(self):
        return max(len(devices) for devices in self.parts.values())

    def label(self, sign):
        several = len(self.parts) > 1
        texts = [spans(sorted(devices)) for _, devices in sorted(self.parts.items())]
        texts = [f"({text})" if several and len(devices) > 1 else text
                 for text, (_, devices) in zip(texts, sorted(self.parts.items()))]
        return f" {sign} ".join(texts)


def boxes_of(sharding, shape):
    boxes = {}
    for device, slices in sharding.devices_indices_map(shape).items():
        ranges = tuple((part.start, part.stop) for part in slices)
        boxes.setdefault(ranges, Box(ranges)).parts.setdefault(sharding.part_of(device), []).append(device)
    return boxes


def size_text(sizes):
    return "x".join(map(str, sizes)) if sizes else "scalar"


class Picture:
    """Which device holds what of a tensor: text in a terminal, a drawing in a notebook."""

    def __init__(self, sharding, shape):
        self.sharding, self.shape = sharding, tuple(int(size) for size in shape)
        self._text = sharding.picture(self.shape)

    def __str__(self):
        return self._text.rstrip("\n")

    __repr__ = __str__

    def svg(self):
        """The drawing alone; None if there are too many dimensions or shards for one."""
        return Drawing(self.sharding, self.shape).svg()

    def _repr_html_(self):
        sharding, shape = self.sharding, self.shape
        shard = size_text(sharding.shard_shape(shape))
        even = "" if sharding.is_even(shape) else " at most; uneven"
        head = (f"<div><code>{escape(sharding.text)}</code> <span class='faint'>of {size_text(shape)} on "
                f"{escape(mesh_repr(sharding.mesh))}; a shard is {shard}{even}</span></div>")
        return framed(head + (self.svg() or f"<pre>{escape(str(self))}</pre>"))

    def save(self, path):
        """Writes a page of HTML."""
        with open(path, "w", encoding="utf-8") as file:
            file.write("<!doctype html><meta charset='utf-8'><title>Cleave</title>"
                       f"<style>body {{ background: Canvas; color-scheme: light dark; }}</style>{self._repr_html_()}")


class Drawing:
    """Up to four dimensions: the last two are a grid, those before them rows and columns of grids."""

    LEAST, HEIGHT, GAP = 30, 30, 22

    def __init__(self, sharding, shape, tick=None):
        self.sharding, self.shape = sharding, shape
        self.tick = tick or (lambda dimension, span: self.range_text(span))
        self.sign = SIGNS.get(sharding.reduction, sharding.reduction or "")
        self.boxes = boxes_of(sharding, shape)
        self.ranges = [sorted({ranges[d] for ranges in self.boxes}) for d in range(len(shape))]
        self.hues = {ranges: round(i * 137.508) % 360 for i, ranges in enumerate(sorted(self.boxes))}

    def svg(self):
        count = 1
        for ranges in self.ranges:
            count *= len(ranges)
        if len(self.shape) > 4 or count > MOST_BOXES:
            return None
        ranges = [[(0, 1)]] * (4 - len(self.shape)) + self.ranges
        widths, heights = self.extents(ranges[3], self.wide()), self.extents(ranges[2], self.HEIGHT)
        left, top = 64 if len(self.shape) > 1 else 8, 36 if len(self.shape) > 2 else 20
        longest = max(len(self.title((outer, inner))) for outer in ranges[0] for inner in ranges[1])
        step_x, step_y = left + max(sum(widths), 6 * longest) + self.GAP, top + sum(heights) + self.GAP
        parts = []
        for row, outer in enumerate(ranges[0]):
            for column, inner in enumerate(ranges[1]):
                x, y = column * step_x + left, row * step_y + top
                parts.append(self.panel(x, y, widths, heights, (outer, inner), ranges))
        width, height = len(ranges[1]) * step_x, len(ranges[0]) * step_y
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                f'role="img">{"".join(parts)}</svg>')

    def wide(self):
        """Room for the longest label, and for the copies behind a box."""
        longest = max((len(self.short(box.label(self.sign))) for box in self.boxes.values()), default=1)
        return max(self.LEAST, 14 + 7 * longest)

    @staticmethod
    def extents(ranges, least):
        """Lengths that show which shards are short, with room for the label in each."""
        largest = max((end - begin for begin, end in ranges), default=1) or 1
        return [max(least, round(least * 1.6 * (end - begin) / largest)) if len(ranges) > 1 else round(least * 1.6)
                for begin, end in ranges]

    @staticmethod
    def short(label, most=18):
        return label if len(label) <= most else label[: most - 1] + "\u2026"

    def title(self, outer):
        """Of a grid: where it is in the dimensions before the last two."""
        rank = len(self.shape)
        return ", ".join(self.tick(d, span) if self.named(d) else f"dim {d} {self.tick(d, span)}"
                         for d, span in zip(range(rank - 2), outer[4 - rank:]))

    def named(self, dimension):
        return not self.tick(dimension, (0, 1)).startswith("[")

    def panel(self, x, y, widths, heights, outer, ranges):
        rank, parts = len(self.shape), []
        if rank > 2:
            parts.append(f'<text class="faint" x="{x}" y="{y - 22}">{escape(self.title(outer))}</text>')
        at_x = x
        for span, width in zip(ranges[3], widths):
            if rank > 0:
                parts.append(f'<text class="faint" x="{at_x + width / 2}" y="{y - 6}" text-anchor="middle">'
                             f"{escape(self.tick(rank - 1, span))}</text>")
            at_x += width
        at_y = y
        for row, height in zip(ranges[2], heights):
            if rank > 1:
                parts.append(f'<text class="faint" x="{x - 8}" y="{at_y + height / 2 + 4}" text-anchor="end">'
                             f"{escape(self.tick(rank - 2, row))}</text>")
            at_x = x
            for column, width in zip(ranges[3], widths):
                key = ((*outer, row, column))[4 - rank:]
                parts.append(self.box(at_x, at_y, width, height, self.boxes.get(key)))
                at_x += width
            at_y += height
        return "".join(parts)

    @staticmethod
    def range_text(span):
        return "empty" if span[0] == span[1] else f"[{span[0]},{span[1]})"

    def box(self, x, y, width, height, box):
        if box is None:
            return ""
        label = box.label(self.sign)
        held = "nothing" if box.is_empty else " x ".join(self.range_text(span) for span in box.ranges) or "the scalar"
        alone = sum(len(devices) for devices in box.parts.values()) == 1
        told = f"device {label} holds {held}" if alone else f"devices {label} hold {held}"
        parts = [f"<title>{escape(told)}</title>"]
        shift = 3 if box.copies > 1 and not box.is_empty else 0
        hue = f'style="--hue: {self.hues[box.ranges]}"'
        inner = (x + 2, y + 2, width - 4 - shift, height - 4 - shift)
        if shift:  # a copy behind it
            parts.append(self.rect("replica", hue, inner[0] + shift, inner[1] + shift, *inner[2:]))
        parts.append(self.rect("empty" if box.is_empty else "box", hue, *inner))
        if len(box.parts) > 1 and not box.is_empty:  # parts of a sum
            parts.append(self.rect("pending", hue, inner[0] + 3, inner[1] + 3, inner[2] - 6, inner[3] - 6))
        parts.append(f'<text x="{inner[0] + inner[2] / 2}" y="{inner[1] + inner[3] / 2 + 4}" text-anchor="middle">'
                     f"{escape(self.short(label))}</text>")
        return f"<g>{''.join(parts)}</g>"

    @staticmethod
    def rect(kind, hue, x, y, width, height):
        return f'<rect class="{kind}" {hue} x="{x}" y="{y}" width="{width}" height="{height}" rx="3"/>'


def show(sharding, shape=None, *, mesh=None):
    """A picture of which device holds what: replicas are joined by commas, the parts of a pending sum by its sign.

    `sharding` is a Sharding, JAX's NamedSharding, or anything that Sharding(mesh, ...) takes; `shape` is that of the tensor, or anything with one.
    A Tensor of Cleave and an array of JAX on a mesh have both.
    """
    if shape is None and hasattr(sharding, "sharding"):
        layout, shape = sharding.sharding, sharding.shape
        mesh = getattr(layout, "mesh", None) or getattr(sharding, "mesh", None)
        if mesh is None:
            raise _core.UserError("show: it lies on one device, without a mesh")
        sharding = layout
    if not isinstance(sharding, _core.Sharding):
        mesh = mesh or getattr(sharding, "mesh", None)  # of a NamedSharding of JAX
        if mesh is None:
            raise _core.UserError("show: give a Sharding, or a layout with mesh=")
        rank = len(getattr(shape, "shape", shape)) if shape is not None else None
        sharding = _core.Sharding(mesh, sharding, rank)
    if shape is None:
        shape = least_shape(sharding)
    return Picture(sharding, getattr(shape, "shape", shape))


def least_shape(sharding):
    """The smallest shape of which every shard has an element."""
    return tuple(shards_of(sharding, dim) for dim in range(sharding.rank))


def shards_of(sharding, dim):
    sizes, count = sharding.mesh.shape, 1
    for axis in sharding.dims[dim]:
        count *= int(axis.rpartition(")")[2]) if axis not in sizes else sizes[axis]
    return count


def sharding_html(sharding):
    return Picture(sharding, least_shape(sharding))._repr_html_()


def mesh_html(mesh):
    head = f"<div><code>{escape(mesh_repr(mesh))}</code> <span class='faint'>{mesh.size} devices</span></div>"
    if not mesh.axis_names or len(mesh.axis_names) > 4 or mesh.size > MOST_BOXES:
        return framed(head)
    names = list(mesh.axis_names)
    each = _core.Sharding(mesh, [(name,) for name in names])
    return framed(head + Drawing(each, mesh.axis_sizes, lambda axis, span: f"{names[axis]} {span[0]}").svg())


def types_text(types):
    return ", ".join(f"{size_text(shape)} {dtype}" for shape, dtype in types)


def module_repr(module):
    try:
        border = f"({types_text(module.arguments())}) -> ({types_text(module.results())})"
    except _core.UserError:
        border = "without @main"
    border = border if len(border) <= 160 else border[:157] + "..."
    return f"<Module {module.name or 'without a name'}: {module.num_ops} ops, {border}>"


def module_html(module, most_lines=400):
    lines = module.text().splitlines()
    text = "\n".join(lines[:most_lines]) + (f"\n... {len(lines) - most_lines} more lines" if len(lines) > most_lines else "")
    opened = " open" if len(lines) <= 30 else ""
    return framed(f"<div><code>{escape(module_repr(module))}</code></div>"
                  f"<details{opened}><summary>StableHLO</summary><pre>{escape(text)}</pre></details>")


def plan_html(plan):
    data = plan.data
    bound, memory = data["bound"], data["memory"]
    module = data["module"]
    name = module.get("name") or module.get("source") or "a module"
    said = [f"step {_core.seconds_text(plan.step_seconds)}", f"gap {100 * bound['gap']:.2f}%" if bound.get("gap") is not None else "",
            f"memory {_core.bytes_text(memory['peak'])} of {_core.bytes_text(memory['limit'])}",
            f"{_core.bytes_text(plan.received_bytes)} received by a device"]
    body = [f"<div><b>Plan of {escape(str(name))}</b> <span class='faint'>on {escape(str(data['mesh']))} of "
            f"{escape(str(data['machine']))}</span></div>", f"<div>{escape('; '.join(part for part in said if part))}</div>"]
    body.append(memory_bar(memory["peak"], memory["limit"]))
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in (
            row["kind"], row["axes"], f"{row['count']:g}", _core.bytes_text(row["bytes"]), _core.seconds_text(row["seconds"]))) + "</tr>"
        for row in plan.collectives)
    if rows:
        heads = "".join(f"<th>{head}</th>" for head in ("collective", "axes", "count", "received", "seconds"))
        body.append(f"<table><tr>{heads}</tr>{rows}</table>")
    body.append(f"<details><summary>summary</summary><pre>{escape(str(plan))}</pre></details>")
    return framed("".join(body))


def memory_bar(used, limit, width=320):
    share = min(1.0, used / limit) if limit else 0.0
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="10" role="img"><title>{100 * share:.1f}% of the '
            f'memory</title><rect class="empty" x="0.5" y="0.5" width="{width - 1}" height="9" rx="3"/>'
            f'<rect class="box" style="--hue: 210" x="0.5" y="0.5" width="{max(2, round((width - 1) * share))}" height="9" rx="3"/></svg>')


def compiled_repr(program):
    return (f"<CompiledProgram {program.name}: {program.devices} device{'' if program.devices == 1 else 's'}, "
            f"{_core.bytes_text(program.received_bytes)} received by a device>")


def compiled_html(program):
    return framed(f"<div><code>{escape(compiled_repr(program))}</code></div><pre>{escape(str(program))}</pre>")


def comm_repr(log):
    count = log.count()
    return f"<CommLog: {count} collective{'' if count == 1 else 's'}, {_core.bytes_text(log.bytes)} received by a device>"


def comm_html(log):
    return framed(f"<div><code>{escape(comm_repr(log))}</code></div><pre>{escape(str(log))}</pre>")


def discovery_html(found):
    analysis = found.data["analysis"]
    if analysis.get("deterministic") is False:
        return framed(f"<div><b>{escape(found.op)}</b> <span class='faint'>{escape(analysis['category'])}</span></div>"
                      f"<div>{escape(analysis['reason'])}</div>")
    counts = found.counts
    rules = "".join(f"<tr><td><code>{escape(rule.text)}</code></td><td>{escape(rule.verdict)}"
                    f"{f'({rule.tests})' if rule.verdict == 'tested' else ''}</td><td>{escape(rule.justification)}</td></tr>"
                    for rule in found.rules if not rule.implied)
    refuted = "".join(f"<tr><td><code>{escape(one.text)}</code></td><td>{escape(one.short or one.reason)}</td></tr>"
                      for one in found.refuted)
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return framed(f"<div><b>{escape(found.op)}</b> <span class='faint'>combinations: {escape(said)}</span></div>"
                  f"<table><tr><th>holds</th><th>verdict</th><th>why</th></tr>{rules}</table>"
                  f"<details><summary>{len(found.refuted)} refuted, with the smallest witness</summary>"
                  f"<table>{refuted}</table></details>")
