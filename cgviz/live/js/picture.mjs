// The picture: the SVG of one page, built once, then painted.
import { h, s, toggle } from "./dom.mjs";
import { at, textAt } from "./time.mjs";

/** A text of one or more lines around its middle; `anchor` as in SVG. */
function label(classes, x, y, anchor) {
  return s(`text.${classes}`, { x, y, "text-anchor": anchor, "aria-hidden": "true" });
}

function write(text, words) {
  if (text.cgvizWords === words) return;
  text.cgvizWords = words;
  const lines = words ? words.split("\n") : [];
  const x = text.getAttribute("x");
  if (lines.length === 1) {
    text.textContent = words;
    return;
  }
  const first = -((lines.length - 1) * 1.25) / 2;
  text.replaceChildren(
    ...lines.map((line, i) => s("tspan", { x, dy: `${i ? 1.25 : first}em` }, line)),
  );
}

/** The SVG of one page. `items` are its nodes, frames and links in reading order, for the keyboard. */
export function drawing(page, name) {
  const { lines } = page;
  const down = lines.direction === "down";
  const frames = lines.frames.map(frameInk);
  const nodes = lines.nodes.map((node, i) => nodeInk(node, lines.frames.findIndex((f) => f.node === i), frames));
  const links = lines.links.map((link) => linkInk(link, down));
  const floors = lines.floors.map((floor) =>
    s(floor.floor ? "g.floor.upper" : "g.floor", {},
      s("rect", { x: floor.x, y: floor.y, width: floor.width, height: floor.height, rx: 8 }),
      s("text", { x: floor.x + 9, y: floor.y + 13, "aria-hidden": "true" }, floor.title)),
  );
  const inFront = nodes.filter((n) => !n.frame);
  const inner = s("g", {}, ...floors, ...frames.map((f) => f.g), ...links.map((l) => l.g), ...inFront.map((n) => n.g));
  const svg = s("svg.svg", { role: "group", "aria-label": name, tabindex: -1 }, inner);
  const items = [];
  for (const { kind, i } of reading(lines)) {
    items.push({ kind, i, ...(kind === "node" ? nodes : frames)[i], name: kind === "node" ? lines.nodes[i].group : lines.frames[i].name });
    if (kind === "frame") continue;
    lines.links.forEach((link, k) => {
      if (link.from === i) items.push({ kind: "link", i: k, ...links[k] });
    });
  }
  for (const item of items) {
    item.g.setAttribute("role", "button");
    item.g.setAttribute("tabindex", -1);
    if (item.name) item.g.setAttribute("aria-expanded", String(isOpen(lines, item.name)));
    item.g.cgvizItem = item;
  }
  if (items.length) items[0].g.setAttribute("tabindex", 0);
  return { svg, inner, nodes, links, items, page };
}

export const isOpen = (lines, name) => lines.frames.some((frame) => frame.name === name);

/** A plus or a minus in a ring: opens and closes what it is on. */
function handleInk(x, y, open) {
  return s("g.handle", { "aria-hidden": "true" }, s("circle", { cx: x, cy: y, r: 6.5 }),
    s("path", { d: `M${x - 3.5} ${y}h7${open ? "" : `M${x} ${y - 3.5}v7`}` }));
}

/** What is around open ops. */
function frameInk(frame) {
  const written = {};
  for (const [role, x, y] of frame.lines) written[role] = label(role, x, y, "middle");
  const box = s("rect.around", { x: frame.x, y: frame.y, width: frame.width, height: frame.height, rx: 8 });
  const handle = handleInk(frame.x + 12, frame.middle, true);
  if (frame.node >= 0) return { g: s("g.node.custom.open", {}, box, ...Object.values(written), handle), written };
  written.head.textContent = frame.label;
  const tab = s("rect.tab", { x: frame.x, y: frame.y, width: frame.wide, height: 2 * (frame.middle - frame.y), rx: 8 });
  return { g: s("g.frame", {}, box, tab, written.head, handle), written };
}

function nodeInk(node, frame, frames) {
  const [left, top] = [node.x - node.width / 2 + 6, node.y - node.height / 2 + 3];
  const mark = s("g.mark", { "aria-hidden": "true" }, s("circle", { cx: left, cy: top, r: 8 }),
    s("text", { x: left, y: top, "text-anchor": "middle" }, "\u2260"));
  if (frame >= 0) {
    frames[frame].g.append(mark);
    return { ...frames[frame], frame: true };
  }
  const paths = node.paths.map((d, n) => s(n ? "path.outline.inner" : "path.outline", { d }));
  const written = {};
  for (const [role, x, y] of node.lines) written[role] = label(role, x, y, "middle");
  const corner = node.x + node.width / 2 - (node.kind === "custom" ? 11 : 3);
  const handle = node.group ? handleInk(corner, node.y - node.height / 2 + 2, false) : null;
  const kind = node.floor ? `${node.kind}.upper` : node.kind;
  const g = s(`g.node.${kind}`, {}, ...paths, ...Object.values(written), mark, handle ?? "");
  return { g, written };
}

function linkInk(link, down) {
  const line = s("path.line", { d: link.line });
  const head = s("path.head", { d: link.head });
  const hit = s("path.hit", { d: link.line });
  const value = label("value", ...link.valueAt, down ? "end" : "middle");
  const gradient = label("gradient", ...link.gradientAt, down ? "start" : "middle");
  if (!down) {
    value.setAttribute("class", "cgviz-value cgviz-above");
    gradient.setAttribute("class", "cgviz-gradient cgviz-below");
  }
  const back = link.back ? s("path.back", { d: link.back }) : null;
  const backHead = link.back ? s("path.backhead", { d: link.backHead }) : null;
  const g = s("g.link", {}, hit, line, head, back, backHead, value, gradient);
  return { g, back, value, gradient };
}

/** Multi-line labels above a line end at it, those below begin there. */
function settle(text, words, way) {
  const count = words.split("\n").length;
  text.style.transform = words ? `translateY(${(way * (count * 1.25) * 0.5).toFixed(3)}em)` : "";
}

/** Bring a drawing to a state; touches only what changed. */
export function paintDrawing(ink, state) {
  const { page } = ink;
  const { lines, texts } = page;
  const { step, selected, hidden, colour } = state;
  const now = at(lines, step);
  const across = lines.direction === "right";
  ink.nodes.forEach((node, i) => {
    toggle(node.g, "seen", now.nodes[i].seen);
    toggle(node.g, "now", now.nodes[i].now);
    if (i >= texts.nodes.length) return; // a target
    toggle(node.g, "selected", selected === `node ${i}`);
    const text = texts.nodes[i];
    for (const role of ["head", "name", "word"]) {
      if (node.written[role]) write(node.written[role], shownLine(text, role, now.nodes[i].seen));
    }
    if (node.written.gradient) {
      const words = textAt(text.gradient, step);
      write(node.written.gradient, hidden.nodes.has(i) && words ? "?" : words);
    }
  });
  ink.links.forEach((link, i) => {
    const here = now.links[i];
    const text = texts.links[i];
    const back = here.back && !!text.gradient;
    toggle(link.g, "seen", here.value);
    toggle(link.g, "now", here.forwardNow);
    toggle(link.g, "flowing", back && !text.blocked);
    toggle(link.g, "backnow", here.backNow);
    toggle(link.g, "blocked", back && text.blocked);
    toggle(link.g, "selected", selected === `link ${i}`);
    toggle(link.g, "asked", hidden.links.has(i));
    const value = here.value ? text.value : "";
    const gradient = back ? (hidden.links.has(i) ? "?" : text.gradient) : "";
    if (link.value.cgvizWords !== value) {
      write(link.value, value);
      if (across) settle(link.value, value, -1);
    }
    if (link.gradient.cgvizWords !== gradient) {
      write(link.gradient, gradient);
      if (across) settle(link.gradient, gradient, 1);
    }
    if (link.back) {
      const size = colour ? sizeClass(text.size) : "";
      if (link.g.dataset.size !== size) link.g.dataset.size = size;
    }
  });
  const differs = page.differs ?? { nodes: [], links: [] };
  if (ink.differs !== differs) {
    ink.differs = differs;
    const [nodes, links] = [new Set(differs.nodes), new Set(differs.links)];
    ink.nodes.forEach((node, i) => {
      toggle(node.g, "differs", nodes.has(i));
    });
    ink.links.forEach((link, i) => toggle(link.g, "differs", links.has(i)));
  }
}

/** A line of a node; a value that has not come yet is not shown. */
function shownLine(text, role, seen) {
  return seen ? text[role] : text[role].replace(/ = .*/s, "");
}

/** The nodes and the frames of scopes as they are read: a body after its op, a frame before its ops. */
export function reading(lines) {
  const found = [];
  const told = new Set();
  const enter = (k) => {
    if (k < 0 || told.has(k)) return;
    enter(lines.frames[k].parent);
    told.add(k);
    if (lines.frames[k].node < 0) found.push({ kind: "frame", i: k });
  };
  const visit = (owner) => lines.nodes.forEach((node, i) => {
    if (node.owner !== owner || node.kind === "target" || node.kind === "port") return;
    enter(node.frame);
    found.push({ kind: "node", i });
    if (lines.frames.some((frame) => frame.node === i)) visit(i);
  });
  visit(-1);
  return found;
}

/** How large a gradient is, as one of seven sizes; `power` is its power of ten. */
export function sizeClass(power) {
  if (power === null) return "none";
  const limits = [-6, -4, -2, 2, 4, 6];
  const names = ["vanishing", "tiny", "small", "usual", "large", "huge", "exploding"];
  return names[limits.filter((limit) => power >= limit).length];
}

/** The title of a frame, as a box like a node's. */
export const titleOf = (frame) => ({
  x: frame.x + frame.wide / 2, y: frame.middle, width: frame.wide, height: 2 * (frame.middle - frame.y),
});
