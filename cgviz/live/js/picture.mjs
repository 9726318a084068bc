// The picture: the SVG of one display list, built once, then painted at a step.
import { extentOf } from "./camera.mjs";
import { h, s, set, toggle } from "./dom.mjs";
import { spoken } from "./time.mjs";

const STEP = 1.12; // from one line of a text to the next, in font sizes, as on paper
const HEIGHT = 0.97; // of the letters of a line, in font sizes, as on paper

/** The share of a text that is left of its point, or above it. */
export const ALIGNED = { start: 0, middle: 0.5, end: 1, below: 0, around: 0.5, above: 1 };

// The SVG of one page, picture number `side`; `listeners` makes its event listeners, `canTurn` tells what opens or
// closes. `groups` has the group of each node, link, frame and band by its name, such as "node 3"; `parts` has every
// path and text; `items`, for the keyboard, scopes and nodes. An arrow acts as the op that uses its value.
export function makePicture(page, side, name, canTurn, listeners) {
  const { display } = page;
  const groups = new Map();
  const groupOf = ({ of, i }) => {
    const key = `${of} ${i}`;
    if (!groups.has(key)) groups.set(key, s(`g.${classesOf(display, of, i)}`));
    return groups.get(key);
  };
  const paths = display.paths.map((path) => ({ ...path, element: s(`path.${path.role}`, { d: path.d }) }));
  const parts = [...paths, ...display.texts.map((text, k) => ({ ...text, k, element: makeText(text) }))];
  for (const part of parts) {
    if (part.role === "forward") groupOf(part).append(s("path.hit", { d: part.d }));
    groupOf(part).append(part.element);
  }
  display.nodes.forEach((node, i) => groups.get(`node ${i}`).append(differenceMark(node)));
  const itemsOf = (kind, can) => display[`${kind}s`].flatMap((each, i) =>
    can(each) ? [itemOf(display, kind, i, side, groups.get(`${kind} ${i}`), canTurn)] : []);
  const frames = itemsOf("frame", ({ node }) => node < 0);
  const items = [...frames, ...itemsOf("node", ({ kind }) => !["target", "port"].includes(kind))];
  const itemOfNode = (i) => groups.get(`node ${i}`).cgvizItem;
  display.links.forEach(({ source, target }, i) =>
    Object.assign(groups.get(`link ${i}`), { cgvizItem: itemOfNode(target) ?? itemOfNode(source), cgvizLink: i }));
  // For what lies behind the picture, and on top of it, for a while; and for the fields of questions.
  const [under, layer] = [0, 1].map(() => s("g.layer", { "aria-hidden": "true" }));
  const answers = s("g");
  const inner = s("g", {}, under, ...groups.values(), layer, answers);
  const picture = { inner, under, layer, answers, groups, parts, items, page };
  const { width, height, top } = extentOf(display);
  const viewBox = `0 ${top} ${width} ${height}`;
  picture.svg = s("svg.svg", { role: "group", "aria-label": name, tabindex: -1, viewBox }, inner);
  picture.box = h("div.box", listeners(picture), picture.svg);
  return picture;
}

/** A node or a scope for the pointer and the keyboard; `name` is the name by which it opens and closes. */
function itemOf(display, kind, i, side, g, canTurn) {
  const own = display[`${kind}s`][i];
  const name = own.group ?? own.name;
  const [left, top, width, height] = own.title ?? [];
  const box = own.title ? { x: left + width / 2, y: top + height / 2, width, height } : own;
  set(g, { role: "button", tabindex: 0, ...(canTurn(name) ? { "aria-expanded": isOpen(display, name) } : {}) });
  if (!canTurn(name)) g.querySelector(".cgviz-handle")?.remove();
  return (g.cgvizItem = { kind, i, side, g, box, name });
}

export const isOpen = (display, name) => display.frames.some((frame) => frame.name === name);

/** The classes of a group: what it is, whether a band is the upper one, a node's kind and whether that is open. */
function classesOf(display, of, i) {
  if (of !== "node") return of === "band" && i ? "band.upper" : of;
  const { kind, group } = display.nodes[i];
  return `node.${kind}${isOpen(display, group) ? ".open" : ""}`;
}

export const makeText = ({ role, x, y, anchor, side, size }) =>
  s(`text.${role}`, { x, y, "text-anchor": anchor, "data-side": side, "font-size": size, "aria-hidden": "true" });

/** What the gradient in a node says before a number has come: what it will be called, if that is known. */
export const waiting = (versions) => `${/^(gradient|d\w+\/d\w+) = /.exec(versions.at(-1)[1])?.[0] ?? ""}…`;

/** Change what a text says, or lay it out `again`; above or below its point it stays clear of it with all its lines. */
export function write(element, words, again) {
  if (element.cgvizWords === words && !again) return;
  element.cgvizWords = words;
  element.classList.toggle("cgviz-notequal", words.includes("\u2260")); // where a rule does not return the product
  const lines = words.split("\n");
  const x = element.getAttribute("x");
  const more = (lines.length - 1) * STEP;
  const stacked = (line, i) => s("tspan", { x, dy: `${i ? STEP : -more / 2}em` }, line);
  element.replaceChildren(...(more ? lines.map(stacked) : [words]));
  // Rows of a matrix are aligned at the left, so that its columns line up.
  const rows = words.includes("[[") ? [...element.children] : [];
  const width = Math.max(0, ...rows.map((row) => row.getComputedTextLength())); // 0 while it is not shown
  element.style.textAnchor = width ? "start" : "";
  for (const row of rows) row.setAttribute("x", x - ALIGNED[element.getAttribute("text-anchor")] * width);
  const away = (0.5 - ALIGNED[element.dataset.side]) * (more + HEIGHT);
  element.style.transform = away ? `translateY(${away.toFixed(3)}em)` : "";
}

/** A mark for a node that differs from the other picture. */
function differenceMark(node) {
  const [x, y] = [node.x - node.width / 2 - 2, node.y - node.height / 2 - 2]; // clear of a short name
  const sign = s("text", { x, y, "text-anchor": "middle" }, "\u2260");
  return s("g.mark", { "aria-hidden": "true" }, s("circle", { cx: x, cy: y, r: 8 }), sign);
}

/** Bring a picture to a state; touches only what changed. */
export function paintPicture(picture, { step, selected, hidden }) {
  const { page, page: { display, texts } } = picture;
  toggle(picture.svg, "goingback", step > 0);
  for (const part of picture.parts) {
    const [seen, now] = [part.step <= step, part.now.includes(step)];
    if (part.seen !== seen) toggle(part.element, "seen", (part.seen = seen));
    const turned = part.current !== now; // bold letters are wider
    if (turned) toggle(part.element, "now", (part.current = now));
    if (part.k === undefined) continue;
    const [, words, differs] = texts.written[part.k].findLast(([from]) => from <= step) ?? [0, ""];
    const back = part.role === "gradient";
    const said = words || (back && part.of === "node" ? waiting(texts.written[part.k]) : "");
    toggle(part.element, "differs", (part.differs = differs));
    const asked = said && back && hidden[`${part.of}s`].has(part.i); // a link's waits for its arrow
    write(part.element, asked ? "?" : said, turned);
  }
  for (const { g, kind, i } of picture.items) {
    const words = kind === "frame" ? `${display.frames[i].label}: scope` : spoken(page, i, step, hidden.nodes.has(i));
    set(g, { "aria-label": words });
    toggle(g, "selected", kind === "node" && selected === i);
  }
  mark(picture, "asked", [...hidden.links].map((i) => `link ${i}`));
  mark(picture, "differs", picture.parts.filter(({ differs }) => differs).map(({ of, i }) => `${of} ${i}`));
}

/** Give a class to the groups of these names, such as "node 3", and to no others. */
export function mark({ groups }, name, keys) {
  const wanted = new Set(keys);
  for (const [key, group] of groups) toggle(group, name, wanted.has(key));
}
