// A table of any number of rows: only those in sight are elements. It sorts by any column, and by keyboard.
//
//   makeTable({label, noun, rows: 50000, columns: [{title, width, number, value(row), text(row), cell(row), title}],
//              open(row), sort: {column, down}, lineHeight})
//
// `rows` is a count or a list of numbers; the functions of a column get such a number. `value` sorts; a column that
// shows two things has `also: {title, value}`, and both sort.

const OVERSCAN = 6, PRINTED = 60;

class Table {
  constructor(options) {
    this.options = {lineHeight: 32, noun: "row", ...options};
    this.columns = options.columns;
    this.order = [];
    this.selected = -1;
    this.lines = new Map();  // places on the screen -> elements
    const least = this.columns.map((column) => Number(column.width.match(/\d+/)[0]));
    this.widths = {
      "--columns": this.columns.map((column) => column.width).join(" "),
      "--columns-on-paper": least.map((width) => `minmax(0, ${width}fr)`).join(" ")
    };
    this.least = least.reduce((sum, width) => sum + width, 0);
    this.keys = new Map();
    this.build();
    this.sortBy(options.sort ? 2 * options.sort.column : -2, options.sort?.down ?? false, false);
    this.setRows(options.rows);
  }

  build() {
    const {label, height} = this.options;
    this.sorts = this.columns.flatMap((column) => [column, column.also ?? null])
                     .map((column) => (column?.value ? column : null));
    const sorter = (column, i) => el(
        "button", {disabled: !column.value, title: column.about ?? null, "data-sort": i, onclick: () => this.click(i)},
        column.title);
    this.heads = this.columns.map(
        (column, i) =>
            el(column.number ? "span.number" : "span", {role: "columnheader", "aria-sort": "none"},
               sorter(column, 2 * i), column.also ? sorter(column.also, 2 * i + 1) : null));
    this.head = el("div.head", {role: "row", style: {...this.widths, "min-width": this.least + "px"}}, this.heads);
    this.body = el("div.rows", {role: "rowgroup", style: {"min-width": this.least + "px"}});
    this.empty = el("div.empty", {hidden: true});
    this.scroller =
        el("div.scroll", {tabindex: 0, role: "table", "aria-label": label}, el("div", {role: "rowgroup"}, this.head),
           this.body, this.empty);
    this.foot = el("div.foot", null, el("span"), el("span.screen-only"));
    this.element = el("div.grid", {style: height ? {height: height + "px"} : {flex: "1"}}, this.scroller, this.foot);
    this.redraw = oncePerFrame(() => this.draw());
    this.scroller.addEventListener("scroll", this.redraw, {passive: true});
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.clickLine(event));
    this.body.addEventListener("mouseover", (event) => {
      const line = event.target.closest?.(".line");
      if (line && this.options.hover) this.options.hover(this.order[Number(line.dataset.place)]);
    });
    new ResizeObserver(this.redraw).observe(this.scroller);
  }

  click(column) {
    const again = this.sorted.column === column;
    this.sortBy(column, again ? !this.sorted.down : Boolean(this.sorts[column].number));
  }

  // Numbers sort by size; texts by their place among all texts, which is found once.
  keysOf(column) {
    const {value} = this.sorts[column], count = this.most;
    if (this.keys.get(column)?.length >= count) return this.keys.get(column);
    const values = Array.from({length: count}, (_, row) => value(row));
    let keys = values;
    if (values.some((v) => typeof v === "string")) {
      const places = new Map([...new Set(values)].sort((a, b) => (a < b ? -1 : 1)).map((text, i) => [text, i]));
      keys = values.map((text) => places.get(text));
    }
    keys = Float64Array.from(keys, (key) => key ?? -Infinity);
    this.keys.set(column, keys);
    return keys;
  }

  sortBy(column, down, draw = true) {
    this.sorted = {column, down};
    this.heads.forEach((head, i) => {
      const isSorted = Math.floor(column / 2) === i;
      head.setAttribute("aria-sort", !isSorted ? "none" : down ? "descending" : "ascending");
      for (const button of head.children)
        button.classList.toggle("sorts", isSorted && Number(button.dataset.sort) === column);
    });
    if (draw) {
      this.sort();
      this.scroller.scrollTop = 0;
      this.draw(true);
    }
  }

  sort() {
    const {column, down} = this.sorted;
    if (column < 0) return;
    const keys = this.keysOf(column), sign = down ? -1 : 1;
    this.order.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
  }

  setRows(rows) {
    this.order = typeof rows === "number" ? Array.from({length: rows}, (_, i) => i) : Array.from(rows);
    this.most = Math.max(this.most ?? 0, this.order.reduce((most, row) => Math.max(most, row + 1), 0));
    this.selected = -1;
    this.sort();
    this.draw(true);
  }

  // What is in the foot, on the right.
  setNote(...content) { replaceChildren(this.foot.lastChild, ...content); }

  draw(anew = false, all = 0) {
    const {lineHeight} = this.options, count = this.order.length;
    if (anew) {
      this.body.textContent = "";
      this.lines.clear();
    }
    this.body.style.height = count * lineHeight + "px";
    this.scroller.setAttribute("aria-rowcount", count);
    this.empty.hidden = count > 0;
    this.empty.textContent = count ? "" : this.options.none ?? `No ${this.options.noun} is like that.`;
    this.foot.firstChild.textContent = plural(count, this.options.noun, this.options.nouns);
    const top = this.scroller.scrollTop, tall = this.scroller.clientHeight || 400;
    const first = all ? 0 : Math.max(0, Math.floor((top - 34) / lineHeight) - OVERSCAN);
    const last = all ? Math.min(count, all) : Math.min(count, Math.ceil((top + tall) / lineHeight) + OVERSCAN);
    for (const [place, line] of this.lines)
      if (place < first || place >= last) {
        line.remove();
        this.lines.delete(place);
      }
    for (let place = first; place < last; ++place)
      if (!this.lines.has(place)) {
        const line = this.line(place);
        this.lines.set(place, line);
        this.body.append(line);
      }
  }

  line(place) {
    const row = this.order[place], {lineHeight, open} = this.options;
    return el(
        open ? "div.line.opens" : "div.line", {
          role: "row",
          "aria-rowindex": place + 1,
          "aria-selected": String(place === this.selected),
          "data-place": place,
          "data-row": row,
          style: {...this.widths, height: lineHeight + "px", transform: `translateY(${place * lineHeight}px)`},
        },
        this.columns.map((column) => {
          const text = column.text ? column.text(row) : null;
          return el(
              "span" + (column.number ? ".number" : "") + (column.classes ?? ""),
              {role: "cell", title: column.cell ? null : text}, column.cell ? column.cell(row) : text);
        }));
  }

  clickLine(event) {
    const line = event.target.closest(".line");
    if (!line || !this.options.open) return;
    this.select(Number(line.dataset.place));
    this.options.open(this.order[this.selected]);
  }

  select(place) {
    this.selected = Math.max(0, Math.min(this.order.length - 1, place));
    const {lineHeight} = this.options, top = this.selected * lineHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    const room = this.scroller.clientHeight - 34;
    if (top + lineHeight > this.scroller.scrollTop + room) this.scroller.scrollTop = top + lineHeight - room;
    this.draw();
    for (const [at, line] of this.lines) line.setAttribute("aria-selected", String(at === this.selected));
  }

  key(event) {
    if (event.target !== this.scroller) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.options.lineHeight) - 2);
    const to = {
      ArrowDown: this.selected + 1,
      ArrowUp: this.selected - 1,
      PageDown: this.selected + page,
      PageUp: this.selected - page,
      Home: 0,
      End: this.order.length - 1
    }[event.key];
    if (to !== undefined && this.order.length) {
      event.preventDefault();
      this.select(to);
    } else if (event.key === "Enter" && this.selected >= 0 && this.options.open) {
      this.options.open(this.order[this.selected]);
    }
  }

  // On paper: the first rows, and how many there are.
  print(on) {
    this.draw(true, on ? PRINTED : 0);
    if (on && this.order.length > PRINTED)
      this.foot.firstChild.textContent =
          `the first ${PRINTED} of ${plural(this.order.length, this.options.noun, this.options.nouns)}`;
  }
}

function makeTable(options) {
  const table = new Table(options);
  tables.add(new WeakRef(table));
  return table;
}

const tables = new Set();

function printTables(on) {
  for (const reference of tables) {
    const table = reference.deref();
    if (table?.element.isConnected)
      table.print(on);
    else if (!table)
      tables.delete(reference);
  }
}
