// Elements. Texts of a report reach the document only as text nodes and attributes, so markup in them stays text.

function append(parent, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else
      element.setAttribute(name, value === true ? "" : value);
  }
}

// el("button.link", {type: "button", onclick: f}, "text", other)
function el(what, properties, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  if (properties instanceof Node || typeof properties !== "object" || Array.isArray(properties))
    children.unshift(properties);
  else if (properties)
    setProperties(element, properties);
  if (tag === "button" && !element.hasAttribute("type")) element.setAttribute("type", "button");
  return append(element, children);
}

function svg(tag, properties, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (properties) setProperties(element, properties);
  return append(element, children);
}

function replaceChildren(parent, ...children) {
  parent.textContent = "";
  return append(parent, children);
}

// A text that may be cut at the end of its place shows whole under the pointer.
function cut(text, classes = "") { return el("span.cut" + classes, {title: text}, text); }

// A table of few rows: heads are texts, or {text, number}; cells are texts or nodes.
function plainTable(heads, rows) {
  const isNumber = heads.map((head) => Boolean(head.number));
  const cell = (content, i) => el(isNumber[i] ? "td.number" : "td", null, content);
  return el(
      "table.plain", null,
      el("thead", null,
         el("tr", null, heads.map((h) => el(h.number ? "th.number" : "th", {scope: "col"}, h.text ?? h)))),
      el("tbody", null, rows.map((row) => el("tr", null, row.map(cell)))));
}

// The line beside the pointer: one for the page.
const tip = {
  element: null,
  show(event, ...content) {
    if (!this.element) document.body.appendChild(this.element = el("div.tip", {role: "tooltip"}));
    replaceChildren(this.element, ...content);
    this.element.hidden = false;
    const box = this.element.getBoundingClientRect();
    const right = event.clientX + 16 + box.width > innerWidth;
    const below = event.clientY + 18 + box.height > innerHeight;
    this.element.style.left = Math.max(4, right ? event.clientX - box.width - 12 : event.clientX + 16) + "px";
    this.element.style.top = Math.max(4, below ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  },
  hide() {
    if (this.element) this.element.hidden = true;
  },
};

// Calls `change` at most once a frame, however often it is asked.
function oncePerFrame(change) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      change();
    });
  };
}
