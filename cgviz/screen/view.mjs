// The live picture: one module, no imports, no build step.
//
//   1  numbers    the number format of style.py
//   2  time       what has come at which step
//   3  judging    is a learner's answer right, and if not, what was forgotten
//   4  words      sentences and rows made of the texts that Python sent
//   5  the DOM    two helpers
//   6  picture    SVG of one page: built once, then painted
//   7  card       upstream x local = downstream
//   8  curves     f and its derivatives over a slider
//   9  the view   bar, stages, card, table; state in, paint out
//   10 mounting   as a widget, and in a saved page
//
// Names and values from the learner's code are text: they reach the page as text nodes only.

// --- 1 numbers -----------------------------------------------------------------------------------

const MINUS = "\u2212";

/** One number as `style.number` writes it. */
export function number(x, digits = 4) {
  if (x === null || x === undefined) return "None";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return (x < 0 ? MINUS : "") + "\u221e";
  let whole = Math.abs(x) < 1e7 && Number.isInteger(x);
  if (!whole) {
    x = Number(rounded(x, Math.abs(x) >= 1e4 && Math.abs(x) < 1e5 ? 5 : digits));
    whole = Math.abs(x) < 1e5 && Number.isInteger(x);
  }
  const text = whole ? String(x === 0 ? 0 : x) : general(x, digits);
  return text.replaceAll("-", MINUS);
}

/** x to so many significant digits, in scientific notation, halves to even as Python does. */
function rounded(x, digits) {
  const exact = Math.abs(x).toExponential(60);
  const kept = exact[0] + exact.slice(2, 2 + digits - 1);
  const rest = exact.slice(2 + digits - 1, exact.indexOf("e"));
  let text = x.toExponential(digits - 1);
  if (/^50*$/.test(rest) && Number(kept.at(-1)) % 2 === 0) {
    text = `${x < 0 ? "-" : ""}${kept[0]}.${kept.slice(1)}${exact.slice(exact.indexOf("e"))}`;
  }
  return text;
}

/** C's %g. */
function general(x, digits) {
  const [mantissa, exponent] = rounded(x, digits).split("e");
  const power = Number(exponent);
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power < -4 || power >= digits) return `${trimmed(mantissa)}e${power}`;
  return trimmed(Number(`${mantissa}e${power}`).toFixed(digits - 1 - power));
}

/** A number that a learner typed: a comma or a point, any minus, a fraction; NaN if it is none. */
export function typed(text) {
  const plain = text.trim().replaceAll(MINUS, "-").replace(",", ".");
  const fraction = plain.match(/^([-+]?[\d.]+)\s*\/\s*([\d.]+)$/);
  if (fraction) return Number(fraction[1]) / Number(fraction[2]);
  if (/^[-+]?(inf|infinity|\u221e)$/i.test(plain)) return plain[0] === "-" ? -Infinity : Infinity;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

/** The numbers of a vector as typed: `[1, 2, 3]`, `1 2 3` or `1; 2; 3`. */
export function typedAll(text) {
  const inner = text.replace(/[[\]()]/g, " ").trim();
  const parts = inner.includes(";") || /,\s/.test(inner) ? inner.split(/[;,]\s*/) : inner.split(/\s+/);
  return parts.filter((part) => part).map(typed);
}

// --- 2 time --------------------------------------------------------------------------------------

/** Every moment of a page: from -F, nothing run, over 0, all run, to the last backward step. */
export function moments(lines) {
  const found = [];
  for (let i = -lines.forward.length; i <= 0; i++) found.push(i);
  return found.concat(lines.backward);
}

/** The moment after `step`, or before it; the same where there is none. */
export function next(lines, step) {
  return moments(lines).find((m) => m > step) ?? step;
}

export function previous(lines, step) {
  return moments(lines).findLast((m) => m < step) ?? step;
}

/** What has come at `step`: per node and per link, whether it is seen and whether it is new. */
export function at(lines, step) {
  const done = step < 0 ? lines.forward.length + step : lines.forward.length;
  const rank = new Map(lines.forward.map((node, place) => [node, place]));
  const run = step <= 0 ? lines.forward[done - 1] : undefined;
  const before = previous(lines, step);
  const seen = (node) => {
    while (lines.nodes[node].owner >= 0) node = lines.nodes[node].owner; // a body comes with its op
    return !rank.has(node) || rank.get(node) < done;
  };
  const nodes = lines.nodes.map((node, i) => ({
    seen: node.kind === "target" ? done === lines.forward.length : seen(i),
    now: step > 0 ? node.orders.some((o) => o > before && o <= step) : i === run,
  }));
  const links = lines.links.map((link) => ({
    value: seen(link.from),
    forwardNow: step <= 0 && link.to === run,
    back: step > 0 && link.come <= step,
    backNow: step > 0 && link.order > before && link.order <= step,
  }));
  return { nodes, links };
}

/** A text that changes with time, [[from step, text], ...], as it is at `step`. */
export function textAt(changes, step) {
  let text = "";
  if (step > 0) for (const [from, then] of changes) if (from <= step) text = then;
  return text;
}

/** The node whose op runs, or whose rule runs, at `step`; -1 where none does. */
export function nodeAt(lines, step) {
  if (step <= 0) return lines.forward[lines.forward.length + step - 1] ?? -1;
  const before = previous(lines, step);
  return lines.nodes.findLastIndex((n) => n.orders.some((o) => o > before && o <= step));
}

// --- 3 judging -----------------------------------------------------------------------------------

/** Whether a learner's number is the one meant: to half a percent, or as far as it was rounded. */
export function near(given, meant) {
  if (Number.isNaN(meant)) return Number.isNaN(given);
  if (!Number.isFinite(meant)) return given === meant;
  return Math.abs(given - meant) <= Math.max(0.005 * Math.abs(meant), 1e-9);
}

const all = (given, meant) =>
  given.length === meant.length && given.every((x, i) => near(x, meant[i]));

/**
 * What an answer shows.
 *
 * A question has `answer`, a list of numbers, and `mistakes`, a list of [what was forgotten,
 * the numbers that come of forgetting it]. The verdict is "right", "unreadable", "count", the name
 * of a mistake, or "wrong".
 */
export function judge(text, question) {
  const word = text.trim().toLowerCase();
  if (question.answer === null) return word === "none" ? "right" : "none";
  const given = word === "nan" ? [NaN] : typedAll(text);
  const wantsNaN = question.answer.some((x) => numeric(x) !== numeric(x));
  if (!given.length || (!wantsNaN && given.some(Number.isNaN))) return "unreadable";
  const meant = question.answer.map(numeric);
  if (given.length !== meant.length) return "count";
  if (all(given, meant)) return "right";
  for (const [kind, numbers] of question.mistakes) if (all(given, numbers.map(numeric))) return kind;
  return "wrong";
}

const numeric = (x) =>
  typeof x === "string" ? { NaN, Infinity, "-Infinity": -Infinity }[x] : x;

export const VERDICTS = {
  right: "Right.",
  unreadable: "Type a number, such as 6 or \u22120.25.",
  count: "Not that many numbers: one for each entry.",
  none: "Not a number: nothing flows here. What does TensorFlow say for nothing?",
  sign: "Wrong sign: the size is right.",
  upstream: "You forgot upstream: this is the local derivative alone.",
  local: "You forgot the local derivative: this is upstream alone.",
  path: "You forgot to add the other path: a value used twice gets a gradient from each use.",
  times: "That is upstream \u00d7 local already: the local derivative alone is asked for.",
  multiplied: "You multiplied where paths add.",
  sum: "You added where the chain rule multiplies.",
  wrong: "Not yet. Multiply what arrives from above by the op\u2019s own derivative.",
};

// --- 4 words -------------------------------------------------------------------------------------

const flat = (text) => text.replace(/\s*\n\s*/g, " ");

/** What happens at a step, in one sentence. */
export function sentence(page, step) {
  const { lines, notes } = page;
  const i = nodeAt(lines, step);
  if (i < 0) return "Nothing has run yet: inputs and variables have their values.";
  const note = notes[i];
  if (step <= 0) {
    const place = lines.forward.length + step;
    const made = note.outputs.map((o) => `${o.name} = ${o.value}`).join(", ");
    const { floor } = lines.nodes[i];
    const by = floor ? `, run by backward pass ${floor - 1}` : "";
    return `Forward ${place} of ${lines.forward.length}${by}: ${note.title} makes ${made}.`;
  }
  const head = `Backward step ${step} of ${lines.steps}: `;
  if (!note.inputs.length) return `${head}${note.title}.`;
  const came = note.outputs.map((o) => o.upstream).join(", ");
  const given = note.inputs.filter((x) => x.flows).map((x) => `${x.downstream} to ${x.name}`);
  return `${head}${note.title} gets upstream ${came} and hands back ${given.join(", ") || "nothing"}.`;
}

/** The rows of the table: one per step and input, in the order the steps ran. */
export function rows(page) {
  const found = [];
  page.lines.nodes.forEach((node, i) => {
    if (node.kind === "target") return;
    const note = page.notes[i];
    for (const order of node.orders.slice(0, 1)) {
      for (const input of note.inputs.length ? note.inputs : [null]) {
        found.push({
          step: order,
          op: note.title,
          input: input ? `${input.name} = ${input.value}` : "",
          upstream: note.outputs.map((o) => o.upstream).join(", "),
          local: input ? input.products.map((p) => localText(p)).join(", ") : "",
          downstream: input ? input.downstream : "",
        });
      }
    }
  });
  return found.sort((a, b) => a.step - b.step);
}

function localText(product) {
  if (!product.cells) return product.local;
  return `[${product.cells.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
}

/** What a screen reader says of a node at `step`. */
export function spokenNode(page, i, step) {
  const { lines, notes, texts } = page;
  const now = at(lines, step).nodes[i];
  const note = notes[i];
  const parts = [texts.nodes[i].called];
  if (now.seen) parts.push(`value ${note.outputs.map((o) => o.value).join(", ")}`);
  else parts.push("not run yet");
  const gradient = textAt(texts.nodes[i].gradient, step);
  if (gradient) parts.push(gradient.includes("=") ? gradient : `gradient ${gradient}`);
  return flat(parts.join(", "));
}

/** What a screen reader says of a link at `step`. */
export function spokenLink(page, i, step) {
  const { lines, texts } = page;
  const link = lines.links[i];
  const text = texts.links[i];
  const now = at(lines, step).links[i];
  const from = texts.nodes[link.from].called;
  const to = link.target ? "the target of the pass" : texts.nodes[link.to].called;
  const value = now.value ? `value ${text.spoken}` : "no value yet";
  const back = !now.back || !text.gradient ? "" : text.blocked ? flat(text.gradient) : `gradient ${text.back} flows back`;
  return `${from} to ${to}: ${value}${back && `, ${back}`}`;
}

/** How large a gradient is, as one of seven sizes; `power` is its power of ten. */
export function sizeClass(power) {
  if (power === null) return "none";
  const limits = [-6, -4, -2, 2, 4, 6];
  const names = ["vanishing", "tiny", "small", "usual", "large", "huge", "exploding"];
  return names[limits.filter((limit) => power >= limit).length];
}

/**
 * How pictures of these widths are arranged: beside each other or not, the card beside them or below.
 *
 * The first of these in which all of them are seen in letters that can be read.
 */
export function arrangement(widths, total) {
  const ways = [[total - CARD, widths.length], [total, widths.length], [total - CARD, 1], [total, 1]];
  const fits = ([room, columns]) =>
    (room === total || total >= 760) && widths.every((w) => w * FONT_SCALE.least <= room / columns - 12);
  const [room, columns] = ways.find(fits) ?? ways[3];
  return { below: room === total, columns };
}

/** The name of a page among those at hand. */
export const pageKey = (which, toggled) => `${which}|${[...toggled].sort().join(",")}`;

/** The names in both or in neither are left out: what `name` turns over. */
export function turnedOver(toggled, ...names) {
  const found = new Set(toggled);
  for (const name of names) if (!found.delete(name)) found.add(name);
  return found;
}

/** Of the pages at hand, the one most like the wanted one in which `name` is as it is there. */
export function nearestKey(keys, which, toggled, name) {
  let [best, least] = ["", Infinity];
  for (const key of keys) {
    const [pass, names] = [Number(key.split("|", 1)[0]), new Set(toggledOf(key))];
    if (pass !== which || (name && names.has(name) !== toggled.has(name))) continue;
    const others = [...turnedOver(names, ...toggled)].length;
    if (others < least) [best, least] = [key, others];
  }
  return best;
}

/** What is turned over in a page, by its name. */
export const toggledOf = (key) => key.slice(key.indexOf("|") + 1).split(",").filter((name) => name);

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

// --- 5 the DOM -----------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; strings become text nodes. */
function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElement(name || "div"), classes, props, children);
}

function s(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElementNS(SVG, name), classes, props, children);
}

function filled(element, classes, props, children) {
  if (classes.length) element.setAttribute("class", classes.map((c) => `cgviz-${c}`).join(" "));
  for (const [key, value] of Object.entries(props)) {
    if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Set the text of an element only where it changed. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const toggle = (element, name, on) => element.classList.toggle(`cgviz-${name}`, on);

// --- 6 picture -----------------------------------------------------------------------------------

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
function drawing(page, name) {
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

const isOpen = (lines, name) => lines.frames.some((frame) => frame.name === name);

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
function paintDrawing(ink, state) {
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

// --- 7 card --------------------------------------------------------------------------------------

const term = (word, value, extra = "") =>
  h(`div.term${extra}`, {}, h("span.small", {}, word), h("span.big", {}, value));

/** The card of a node: what it is, and its rule with the numbers. */
function nodeCard(note, parts) {
  const head = h("p.title", {}, h("span", {}, note.title), " ", h("span.kind", {}, note.kind));
  const found = [head];
  for (const [name, value] of note.facts) found.push(fact(name, value));
  for (const output of note.outputs.slice(0, 4)) found.push(...outputRows(output, note.rule ?? note.inputs.length > 0));
  if (note.ops) found.push(opsTable(note.ops));
  note.inputs.forEach((input, j) => found.push(product(note, input, parts, j)));
  if (note.variables) found.push(variablesTable(note.variables));
  return found;
}

const fact = (name, value) =>
  h("p.fact", {}, h("span.small", {}, `${name} `), name === "your code" || name === "backward rule" ? h("code", {}, value) : value);

function outputRows(output, rule) {
  const found = [
    h("p.fact", {}, h("span.small", {}, "value "), h("span.forwardtext", {}, `${output.name} = ${output.value}`),
      h("span.small", {}, ` ${output.is}`)),
  ];
  if (output.upstream === null) return found;
  const word = rule ? "upstream " : "gradient ";
  const parts = output.parts ?? [];
  const sum = parts.length > 1 ? `${parts.map(([, g]) => g).join(" + ").replaceAll("+ \u2212", "\u2212 ")} = ` : "";
  found.push(h("p.fact", {}, h("span.small", {}, word), h("span.backtext", {}, sum + output.upstream)));
  if (parts.length > 1) {
    found.push(h("ul.parts", {}, ...parts.map(([from, g]) => h("li", {}, h("span.backtext", {}, g), ` ${from}`))));
  }
  return found;
}

/** upstream x local = downstream, for one input. */
function product(note, input, { question, hide }) {
  const title = h("p.subtitle", {}, `to ${input.name}`, h("span.small", {}, ` = ${input.value}, ${input.is}`));
  if (!input.flows) {
    return h("section.input", {}, title, h("p.none", {}, `\u2205 None: nothing flows back to ${input.name}.`));
  }
  const down = question ?? (hide ? h("span.big", {}, "?") : null);
  const result = down
    ? h("div.term", {}, h("span.small", {}, "downstream"), down)
    : term("downstream", input.downstream, ".backtext");
  const rowsOf = input.products.length ? input.products : [null];
  const body = rowsOf.map((p, n) => {
    if (p?.cells && !question && !hide) return heatmap(p);
    const up = p ? p.upstream : note.outputs.map((o) => o.upstream ?? "None").join(", ");
    const terms = [term("upstream", up, ".backtext"), h("span.sign", {}, "\u00d7")];
    terms.push(p?.cells ? smallMatrix(p) : term("local", p ? p.local : "\u2026"), h("span.sign", {}, "="));
    return h("div.product", {}, ...terms, n === rowsOf.length - 1 || p?.cells ? result : "+");
  });
  const odd = input.other && !question && !hide
    ? h("p.none", {}, `\u2260 upstream \u00d7 local would be ${input.other}: this rule is not linear in its upstream.`)
    : null;
  return h("section.input", {}, title, ...body, odd);
}

function smallMatrix(p) {
  const rowsOf = p.cells.map((row, i) => h("tr", {}, ...row.map((cell, j) => tint(h("td", {}, cell), p.heat[i][j]))));
  return h("div.term", {}, h("span.small", {}, "local"), h("table.heat", {}, h("tbody", {}, ...rowsOf)));
}

function tint(cell, heat) {
  cell.style.setProperty("--cgviz-heat", `${Math.round(Math.abs(heat) * 42)}%`);
  if (heat < 0) cell.classList.add("cgviz-negative");
  return cell;
}

/** A small Jacobian as a heat map; upstream stands before its rows as their weights. */
function heatmap(p) {
  const head = h("tr", {}, h("th", { scope: "col" }, "upstream"), h("td.sign", {}), h("td", {}),
    ...p.columns.map((c) => h("th", { scope: "col" }, c)));
  const body = p.cells.map((row, i) =>
    h("tr", {}, h("td.backtext", {}, p.weights[i]), h("td.sign", {}, "\u00d7"), h("th", { scope: "row" }, p.rows[i]),
      ...row.map((cell, j) => tint(h("td", {}, cell), p.heat[i][j]))));
  const foot = h("tr.sum", {}, h("th", { scope: "row", colspan: 3 }, "downstream"),
    ...p.sum.map((x) => h("td.backtext", {}, x)));
  const caption = "local Jacobian: each row is weighted by its upstream, and the rows are added";
  return h("div.scroll", { tabindex: 0, role: "group", "aria-label": caption }, h("p.small", { "aria-hidden": "true" }, caption),
    h("table.heat", {}, h("thead", {}, head), h("tbody", {}, ...body), h("tfoot", {}, foot)));
}

function variablesTable(variables) {
  const body = variables.map(([name, gradient], i) =>
    h("tr", {}, h("td", {}, String(i)), h("th", { scope: "row" }, name), h("td.backtext", {}, gradient)));
  return h("table.plain", {}, h("caption", {}, "`variables`, in the order TensorFlow handed them to the rule"),
    h("thead", {}, h("tr", {}, ...["place", "variable", "gradient"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...body));
}

function opsTable(ops) {
  return h("table.plain", {}, h("caption", {}, "the ops folded here"),
    h("tbody", {}, ...ops.map(([name, type, is]) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, type), h("td.small", {}, is)))));
}

/** The card of a link: the value one way, the gradient the other. */
function linkCard(page, i, step, hidden) {
  const link = page.lines.links[i];
  const text = page.texts.links[i];
  const from = page.notes[link.from];
  const to = link.target ? null : page.notes[link.to];
  const now = at(page.lines, step).links[i];
  const title = to ? `${from.title} \u2192 ${to.title}` : `${from.title} \u2192 target`;
  const found = [h("p.title", {}, h("span", {}, title), " ", h("span.kind", {}, to ? "one use of a value" : "where the pass starts"))];
  found.push(fact("value", h("span.forwardtext", {}, text.spoken)));
  if (text.blocked) found.push(h("p.none", {}, `${flat(text.gradient)}: no gradient flows back here.`));
  else if (text.gradient) {
    const back = hidden ? "?" : !now.back ? "not yet" : text.back;
    found.push(fact("gradient back", h("span.backtext", {}, back)));
  }
  if (to && !hidden && to.inputs[link.position]) {
    const input = to.inputs[link.position];
    if (input.flows) found.push(product(to, input, {}));
  }
  const parts = from.outputs.length === 1 ? from.outputs[0].parts ?? [] : [];
  if (parts.length > 1 && hidden === false) {
    found.push(h("p.none", {}, `One of ${parts.length} parts: together ${parts.map(([, g]) => g).join(" + ").replaceAll("+ \u2212", "\u2212 ")} = ${from.outputs[0].upstream}.`));
  }
  return found;
}

// --- 8 curves ------------------------------------------------------------------------------------

/** Round steps for an axis. */
export function ticks(low, high, about = 4) {
  const rough = (high - low) / about;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((m) => m >= 0.7 * rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

/** The range of a plot: all finite values, but not the last few of a pole. */
export function rangeOf(series) {
  const values = series.flat().filter((y) => y !== null && Number.isFinite(y)).sort((a, b) => a - b);
  if (!values.length) return [-1, 1];
  const cut = Math.floor(values.length * 0.02);
  let [low, high] = [values[cut], values[values.length - 1 - cut]];
  if (high - low < 1e-9 * Math.max(1, Math.abs(high))) [low, high] = [low - 1, high + 1];
  const room = 0.08 * (high - low);
  return [Math.min(low - room, 0), Math.max(high + room, 0)];
}

/** The `d` of a curve; it breaks where there is no number. */
export function curvePath(xs, ys, toX, toY) {
  let d = "";
  let pen = false;
  ys.forEach((y, i) => {
    if (y === null || !Number.isFinite(y)) pen = false;
    else {
      d += `${pen ? "L" : "M"}${toX(xs[i]).toFixed(1)} ${toY(y).toFixed(1)}`;
      pen = true;
    }
  });
  return d;
}

/** The value of a curve at x, between its points. */
export function between(xs, ys, x) {
  const i = Math.min(Math.max(xs.findIndex((v) => v >= x), 1), xs.length - 1);
  const [a, b] = [ys[i - 1], ys[i]];
  if (a === null || b === null || a === undefined || b === undefined) return null;
  return a + ((b - a) * (x - xs[i - 1])) / (xs[i] - xs[i - 1]);
}

const PLOT = { width: 360, height: 190, left: 44, right: 10, top: 10, bottom: 34 };

/** One plot: curves over a slider and a point on each. */
function plotInk(plot, xs, axis) {
  const { width, height, left, right, top, bottom } = PLOT;
  const [x0, x1] = [xs[0], xs[xs.length - 1]];
  const [y0, y1] = rangeOf(plot.lines.map((l) => l.ys));
  const toX = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const toY = (y) => top + ((y1 - Math.min(Math.max(y, y0 - (y1 - y0)), y1 + (y1 - y0))) / (y1 - y0)) * (height - top - bottom);
  const grid = [];
  for (const x of ticks(x0, x1)) {
    grid.push(s("path.grid", { d: `M${toX(x)} ${top}V${height - bottom}` }),
      s("text.tick", { x: toX(x), y: height - bottom + 14, "text-anchor": "middle" }, number(x, 3)));
  }
  for (const y of ticks(y0, y1)) {
    grid.push(s("path.grid", { d: `M${left} ${toY(y)}H${width - right}` }),
      s("text.tick", { x: left - 5, y: toY(y) + 4, "text-anchor": "end" }, number(y, 3)));
  }
  const clip = { x: left, y: top, width: width - left - right, height: height - top - bottom };
  const frame = s("svg", { ...clip, viewBox: `${clip.x} ${clip.y} ${clip.width} ${clip.height}` });
  const dots = plot.lines.map((line) => {
    frame.append(s(`path.curve.${line.role}`, { d: curvePath(xs, line.ys, toX, toY) }));
    return s(`circle.dot.${line.role}`, { r: line.role === "rule" || line.role === "f" ? 5 : 3.5 });
  });
  const rule = s("path.now", {});
  const svg = s("svg.plot", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.title} over ${axis}` },
    ...grid, rule, frame, ...dots, s("text.tick", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, axis));
  const legend = h("ul.legend", {}, ...plot.lines.map((line) =>
    h("li", {}, swatch(line.role), line.name)));
  const move = (x, ys) => {
    rule.setAttribute("d", `M${toX(x)} ${top}V${height - bottom}`);
    plot.lines.forEach((line, k) => {
      const y = ys?.[line.role] ?? between(xs, line.ys, x);
      const shown = y !== null && Number.isFinite(y) && y >= y0 && y <= y1;
      dots[k].setAttribute("cx", toX(x));
      dots[k].setAttribute("cy", shown ? toY(y) : -50);
    });
  };
  return { element: h("figure.plotbox", {}, h("figcaption", {}, plot.title), svg, legend), move };
}

function swatch(role) {
  return s("svg.swatch", { viewBox: "0 0 26 10", "aria-hidden": "true" }, s(`path.curve.${role}`, { d: "M0 5H26" }));
}

// --- 9 the view ----------------------------------------------------------------------------------

const FONT_SCALE = { smallest: 0.5, least: 0.8, most: 1.5 };
const CARD = 362; // with the gap before it
const TALLEST = 620;
const ENTER = new Set(["Enter", " "]);
let views = 0;

/** Build a view into `el`. Returns what takes everything away again. */
export function create(model, el) {
  const stop = new AbortController();
  const { signal } = stop;
  const id = `cgviz-${(views += 1)}`;
  const on = (target, type, run, options) => target.addEventListener(type, run, { signal, ...options });
  let doc = model.get("document");
  const quiz = doc.quiz ?? null;
  const cache = new Map();
  const state = {
    which: model.get("which") ?? doc.which,
    toggled: new Set(), // the names of scopes and custom ops that are not as they were at first
    step: model.get("step") ?? 0,
    selected: "",
    side: 0,
    hover: null,
    playing: false,
    speed: 1,
    colour: false,
    wide: false,
    columns: 1,
    answered: new Set(),
    hidden: { nodes: new Set(), links: new Set() },
  };
  cache.set(pageKey(doc.which, []), doc.pages);
  for (const [key, found] of doc.more ?? []) cache.set(key, found);
  let pages = doc.pages;
  let inks = [];

  // the frame
  const root = h("div.view", { role: "group", "aria-label": `Gradient flow of ${doc.title}` });
  const stages = h("div.stages");
  const card = h("div.card", { role: "group", "aria-label": "Card of what is chosen", tabindex: 0 });
  const status = h("p.status", { role: "status" });
  const tableBody = h("tbody");
  const tableBox = h("details.table", {}, h("summary", {}, "The same numbers as a table"),
    h("div.scroll", { tabindex: 0, role: "group", "aria-label": "Backward table" }, h("table.plain", {},
      h("caption", {}, "Backward pass, step by step"),
      h("thead", {}, h("tr", {}, ...["step", "op", "input", "upstream", "local", "downstream"].map((t) => h("th", { scope: "col" }, t)))),
      tableBody)));
  const bar = barInk(id, doc, quiz);
  const legend = legendInk();
  const explore = doc.sliders ? exploreInk(id, doc) : null;
  root.append(bar.element, ...(explore ? [explore.element] : []),
    h("div.main", {}, h("div.left", {}, stages, legend.element), card), status, tableBox);

  // --- state in, paint out ---

  const page = () => pages[state.side] ?? pages[0];
  const clock = () => pages[0].lines; // time runs by the first trace
  const focused = () => root.getRootNode().activeElement; // the document's, or a shadow root's

  /** The same moment on another page: so many moments from the end of the forward pass. */
  const stepOn = (other) => {
    if (other === pages[0] || !pages[0]) return state.step;
    const mine = moments(pages[0].lines);
    const theirs = moments(other.lines);
    const past = mine.indexOf(state.step) - mine.indexOf(0);
    return theirs[Math.min(Math.max(theirs.indexOf(0) + past, 0), theirs.length - 1)];
  };

  function paint() {
    inks.forEach((ink, k) => {
      const mine = state.side === k ? state.selected : "";
      paintDrawing(ink, { ...state, step: stepOn(ink.page), selected: mine });
    });
    toggle(root, "playing", state.playing);
    toggle(root, "coloured", state.colour);
    bar.paint(state, clock());
    legend.paint(state, pages);
    paintCard();
    const open = quiz && questionsAt(state.step).some((q) => !state.answered.has(q.key));
    const words = open ? `Backward step ${state.step} of ${clock().steps}: predict before you go on.` : sentence(pages[0], state.step);
    say(status, state.playing ? "" : words);
    speak();
  }

  /** What the keyboard is on says its numbers; the rest is told when it gets there. */
  function speak() {
    for (const ink of inks) {
      if (!ink.spoken) ink.items.forEach((item) => describe(ink, item));
      ink.spoken = true;
    }
    const item = focused()?.cgvizItem;
    if (item && inks[item.side]) describe(inks[item.side], item);
  }

  function describe(ink, item) {
    if (item.kind === "frame") return item.g.setAttribute("aria-label", `${ink.page.lines.frames[item.i].label}: scope`);
    const words = item.kind === "node" ? spokenNode : spokenLink;
    const text = quiz ? doc.title && quietly(ink, item) : words(ink.page, item.i, stepOn(ink.page));
    if (item.g.getAttribute("aria-label") !== text) item.g.setAttribute("aria-label", text);
  }

  /** While there are questions, nothing is told that was not seen. */
  function quietly(ink, item) {
    const words = item.kind === "node" ? spokenNode : spokenLink;
    const set = item.kind === "node" ? state.hidden.nodes : state.hidden.links;
    const text = words(ink.page, item.i, set.has(item.i) ? Math.min(state.step, 0) : state.step);
    return set.has(item.i) ? `${text}, gradient hidden: predict it` : text;
  }

  let cardKey = "";
  function paintCard() {
    const current = nodeAt(page().lines, stepOn(page()));
    const questions = quiz ? questionsAt(state.step) : [];
    const open = questions.find((q) => !state.answered.has(q.key)) ?? questions.at(-1);
    const usual = open ? `node ${open.node}` : current >= 0 ? `node ${current}` : "";
    const chosen = state.hover ?? (state.selected || usual);
    const come = state.step > 0 ? `${state.step}` : "0";
    const key = [chosen, state.side, state.which, page().version ?? 0, chosen.startsWith("link") || quiz ? come : "",
      questions.map((q) => state.answered.has(q.key)).join()].join("/");
    if (key === cardKey) return;
    const typing = card.contains(focused()) && focused().tagName === "INPUT";
    if (typing && state.hover) return;
    cardKey = key;
    const [kind, place] = chosen.split(" ");
    const i = Number(place);
    if (!kind) card.replaceChildren(h("p.none", {}, "Step through with the arrows, or choose an op or an arrow for its card."));
    else if (kind === "link") card.replaceChildren(...linkCard(page(), i, stepOn(page()), isHidden(kind, i) || (quiz ? null : false)));
    else card.replaceChildren(...nodeContent(i, questions));
    askForNotes(kind, i);
  }

  function isHidden(kind, i) {
    if (!quiz || quiz.questions.every((q) => state.answered.has(q.key))) return false;
    if (kind === "link") return state.hidden.links.has(i) || page().lines.links[i].come > state.step;
    const orders = page().lines.nodes[i].orders;
    return !orders.length || orders.some((o) => o > state.step) || questionsAt(orders[0]).some((q) => !state.answered.has(q.key));
  }

  function nodeContent(i, questions) {
    const shown = page();
    const hide = isHidden("node", i);
    let note = shown.notes[i];
    if (hide) note = veiled(note, shown.lines.nodes[i].orders.some((o) => o <= state.step));
    const content = [];
    const own = questions.filter((q) => q.node === i);
    if (own.length) content.push(...nodeCard({ ...note, rule: note.rule ?? note.inputs.length > 0, inputs: [], variables: undefined }, {}), ...own.map(questionInk));
    else content.push(...nodeCard(note, { hide }));
    const { group } = shown.lines.nodes[i];
    if (group && canTurn(group)) {
      const open = isOpen(shown.lines, group);
      const button = h("button", { type: "button", "aria-expanded": String(open) }, open ? "Close" : "Open");
      on(button, "click", () => turnOver(group));
      content.push(h("p", {}, button));
    }
    return content;
  }

  /** A card before its step: what arrived is known, what it makes of it is not. */
  function veiled(note, arrived) {
    const outputs = note.outputs.map((o) => ({ ...o, upstream: arrived ? o.upstream : null, parts: arrived ? o.parts : [] }));
    return { ...note, outputs, rule: note.inputs.length > 0, inputs: [], variables: undefined };
  }

  let asked = new Set();
  function askForNotes(kind, i) {
    if (kind !== "node" || page().notes[i]?.asked !== false) return;
    const key = `${pageKey(state.which, state.toggled)} ${state.side}`;
    if (asked.has(key) || explore?.busy()) return;
    asked.add(key);
    model.send({ ask: "notes", which: state.which, toggled: [...state.toggled], side: state.side, key });
  }

  // --- time ---

  function go(step) {
    step = moment(step);
    if (step === state.step) return paint();
    state.step = step;
    hideAnswers();
    follow();
    paint();
    share();
  }

  /** The last moment that is not after a step, and not after an open question. */
  function moment(step) {
    const last = quiz ? allowed(step) : step;
    const every = moments(clock());
    return every.findLast((m) => m <= last) ?? every[0];
  }

  let sharing = 0;
  function share() {
    if (sharing || signal.aborted) return;
    sharing = setTimeout(() => {
      sharing = 0;
      if (signal.aborted || !isLive(model)) return;
      const shown = { step: state.step, which: state.which, selected: selectedKey() };
      for (const [name, value] of Object.entries(shown)) if (model.get(name) !== value) model.set(name, value);
      model.save_changes();
    }, 250);
  }

  const selectedKey = () => {
    const [kind, place] = state.selected.split(" ");
    if (kind === "node") return page().lines.nodes[place]?.key ?? "";
    return kind ? state.selected : "";
  };

  let timer = 0;
  function tick() {
    timer = 0;
    if (!state.playing || signal.aborted) return;
    const then = next(clock(), state.step);
    if (then === state.step || (quiz && allowed(then) === state.step)) {
      state.playing = false;
      return paint();
    }
    go(then);
    timer = setTimeout(tick, 900 / state.speed);
  }

  function play(on_) {
    state.playing = on_;
    clearTimeout(timer);
    if (on_ && next(clock(), state.step) === state.step) go(moments(clock())[0]);
    paint();
    if (on_) timer = setTimeout(tick, 450 / state.speed);
  }

  // --- questions ---

  function questionsAt(step) {
    return (quiz?.questions ?? []).filter((q) => q.step === step);
  }

  /** No step beyond the first that has an open question. */
  function allowed(step) {
    const open = quiz.questions.filter((q) => !state.answered.has(q.key)).map((q) => q.step);
    return Math.min(step, ...open);
  }

  function hideAnswers() {
    state.hidden = { nodes: new Set(), links: new Set() };
    for (const q of quiz?.questions ?? []) {
      if (state.answered.has(q.key)) continue;
      if (q.link !== null) state.hidden.links.add(q.link);
      for (const node of q.nodes) state.hidden.nodes.add(node);
    }
  }

  function questionInk(q) {
    const name = `${id}-${q.key}`;
    if (state.answered.has(q.key)) {
      return h("section.input", {}, h("p.subtitle", {}, q.text), h("p.right", {}, `\u2713 ${q.shown}`), q.why ? h("p.none", {}, q.why) : null);
    }
    const input = h("input", { id: name, type: "text", autocomplete: "off", inputmode: "text", spellcheck: "false" });
    const verdict = h("p.verdict", { role: "status" });
    const check = h("button", { type: "submit" }, "Check");
    const reveal = h("button", { type: "button" }, "Reveal");
    const form = h("form", {}, input, check, reveal);
    const decide = (event) => {
      event.preventDefault();
      const found = judge(input.value, q);
      toggle(verdict, "right", found === "right");
      say(verdict, (found === "right" ? "\u2713 " : "\u2717 ") + VERDICTS[found]);
      if (found === "right") answer(q);
    };
    on(form, "submit", decide);
    // A notebook keeps Enter from submitting a form in an output.
    on(input, "keydown", (event) => event.key === "Enter" && decide(event));
    on(reveal, "click", () => answer(q));
    return h("section.input", {}, h("p.subtitle", {}, h("label", { for: name }, q.text)), form, verdict);
  }

  function answer(q) {
    state.answered.add(q.key);
    hideAnswers();
    paint();
    const following = card.querySelector("input") ?? bar.forward;
    following.focus({ preventScroll: true });
    if (quiz.questions.every((each) => state.answered.has(each.key))) say(status, "All predicted. Now step back through it.");
  }

  // --- choosing ---

  function select(side, key) {
    state.side = side;
    state.selected = state.selected === key ? "" : key;
    state.hover = null;
    paint();
    share();
  }

  function itemOf(event) {
    return event.target.closest?.("[role=button]")?.cgvizItem;
  }

  function wire(ink, side) {
    ink.items.forEach((item) => (item.side = side));
    const { svg } = ink;
    on(svg, "click", (event) => {
      const item = itemOf(event);
      if (!item || ink.dragged) return;
      if (item.kind === "frame" || event.target.closest(".cgviz-handle")) turnOver(item.name);
      else select(side, `${item.kind} ${item.i}`);
    });
    on(svg, "dblclick", (event) => {
      const item = itemOf(event);
      if (item?.kind === "node" && item.name) turnOver(item.name);
    });
    on(svg, "pointerover", (event) => hover(side, itemOf(event)));
    on(svg, "pointerleave", () => hover(side, null));
    on(svg, "keydown", (event) => roam(ink, event));
    on(svg, "focusin", (event) => {
      const item = itemOf(event);
      if (item) describe(ink, item);
    });
    pan(ink);
  }

  function hover(side, item) {
    const key = item && item.kind !== "frame" ? `${item.kind} ${item.i}` : null;
    if (state.hover === key || state.playing || (state.selected && !quiz)) return;
    if (key && pages.length > 1) state.side = side;
    state.hover = key;
    paintCard();
  }

  /** The keys on the picture: arrows from item to item, Enter for its card, o opens, + - 0 zoom. */
  function roam(ink, event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = itemOf(event);
    const place = item ? ink.items.indexOf(ink.items.find((x) => x.g === item.g)) : 0;
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -place, End: ink.items.length - 1 - place };
    if (event.key in moves) focusItem(ink, place + moves[event.key]);
    else if (item?.name && (event.key === "o" || (item.kind === "frame" && ENTER.has(event.key)))) turnOver(item.name);
    else if (ENTER.has(event.key)) item && select(item.side, `${item.kind} ${item.i}`);
    else if (event.key === "Escape") select(state.side, state.selected);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fitAll();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function focusItem(ink, place) {
    const item = ink.items[Math.min(Math.max(place, 0), ink.items.length - 1)];
    if (!item) return;
    for (const each of ink.items) each.g.setAttribute("tabindex", each === item ? 0 : -1);
    item.g.focus({ preventScroll: true });
    const { nodes, links, frames } = ink.page.lines;
    if (item.kind === "frame") reveal(ink, titleOf(frames[item.i]));
    else reveal(ink, nodes[item.kind === "node" ? item.i : links[item.i].from]);
  }

  // --- zoom and pan ---

  function place(ink) {
    const { k, x, y } = ink.zoom;
    ink.inner.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
  }

  function fit(ink) {
    const room = Math.max(stages.clientWidth / state.columns - 12, 200);
    const { width, height } = ink.page.lines;
    const tallest = state.wide ? Infinity : TALLEST;
    let k = Math.min(room / width, FONT_SCALE.most);
    if (k < FONT_SCALE.smallest) k = FONT_SCALE.least; // what cannot be read when it is small is panned
    const whole = Math.min(k, tallest / height);
    k = whole >= 0.75 ? whole : Math.min(k, 1); // what is too tall is panned, and followed
    if (state.wide) k = Math.max(Math.min(room / width, 2.2), 0.4);
    const tall = Math.min(height * k, tallest);
    ink.size = { width: room, height: tall };
    ink.svg.setAttribute("width", Math.round(room));
    ink.svg.setAttribute("height", Math.round(tall));
    ink.zoom = { k, x: Math.max((room - width * k) / 2, 0), y: 0 };
    ink.fitted = true;
    place(ink);
  }

  function arrange() {
    const { below, columns } = arrangement(inks.map((ink) => ink.page.lines.width), root.clientWidth);
    toggle(root, "below", below || state.wide);
    state.columns = columns;
  }

  /** All of it in sight, however small. */
  function fitAll() {
    for (const ink of inks) {
      const { width, height } = ink.page.lines;
      fit(ink);
      const k = Math.min(ink.size.width / width, ink.size.height / height, 2.2);
      ink.zoom = { k, x: (ink.size.width - width * k) / 2, y: (ink.size.height - height * k) / 2 };
      place(ink);
    }
  }

  function zoom(factor, ink = inks[state.side] ?? inks[0], at_ = null) {
    const { k, x, y } = ink.zoom;
    const to = Math.min(Math.max(k * factor, 0.1), 6);
    const [cx, cy] = at_ ?? [ink.size.width / 2, ink.size.height / 2];
    ink.zoom = { k: to, x: cx - ((cx - x) * to) / k, y: cy - ((cy - y) * to) / k };
    ink.fitted = false;
    place(ink);
  }

  function pan(ink) {
    let from = null;
    let frame = 0;
    on(ink.svg, "pointerdown", (event) => {
      if (event.button !== 0) return;
      from = { x: event.clientX - ink.zoom.x, y: event.clientY - ink.zoom.y, px: event.clientX, py: event.clientY };
      ink.dragged = false;
    });
    on(ink.svg, "pointermove", (event) => {
      if (!from) return;
      if (!ink.dragged && Math.hypot(event.clientX - from.px, event.clientY - from.py) < 4) return;
      if (!ink.dragged) ink.svg.setPointerCapture(event.pointerId);
      ink.dragged = true;
      ink.fitted = false;
      ink.zoom = { ...ink.zoom, x: event.clientX - from.x, y: event.clientY - from.y };
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        place(ink);
      });
    });
    const end = () => (from = null);
    on(ink.svg, "pointerup", end);
    on(ink.svg, "pointercancel", end);
    on(ink.svg, "wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // plain scrolling is the page's
      event.preventDefault();
      const box = ink.svg.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * 0.002), ink, [event.clientX - box.x, event.clientY - box.y]);
    }, { passive: false });
  }

  /** Bring a node into sight, if it is not. */
  function reveal(ink, node) {
    if (!node || !ink.size) return;
    const { k, x, y } = ink.zoom;
    const left = (node.x - node.width / 2) * k + x;
    const top = (node.y - node.height / 2) * k + y;
    const edge = 24;
    const inside = left >= edge && top >= edge && left + node.width * k <= ink.size.width - edge
      && top + node.height * k <= ink.size.height - edge;
    const { width, height } = ink.page.lines;
    if (inside || (width * k <= ink.size.width && height * k <= ink.size.height && ink.fitted)) return;
    const clamp = (v, size, all_) => (all_ * k <= size ? (size - all_ * k) / 2 : Math.min(Math.max(v, size - all_ * k), 0));
    ink.zoom = {
      k,
      x: clamp(ink.size.width / 2 - node.x * k, ink.size.width, width),
      y: clamp(ink.size.height / 2 - node.y * k, ink.size.height, height),
    };
    place(ink);
  }

  function follow() {
    for (const ink of inks) reveal(ink, ink.page.lines.nodes[nodeAt(ink.page.lines, stepOn(ink.page))]);
  }

  // --- pages, scopes, custom ops ---

  /** Build the drawings of the pages at hand. */
  function build() {
    const boxes = [];
    inks = pages.map((each, side) => {
      const name = pages.length > 1 ? `Picture ${side + 1} of 2: ${doc.names[side]}` : `Picture of ${doc.title}`;
      const ink = drawing(each, name);
      const caption = pages.length > 1 ? h("figcaption", {}, doc.captions?.[side] ?? doc.names[side]) : null;
      boxes.push(h("figure.stage", {}, caption, ink.svg));
      return ink;
    });
    stages.replaceChildren(...boxes);
    arrange();
    inks.forEach((ink, side) => {
      wire(ink, side);
      fit(ink);
    });
    tableBody.replaceChildren();
    fillTable();
    cardKey = "";
    follow();
    paint();
  }

  // Indices of questions, and numbers that travel alone, belong to the picture as it was at first.
  const fixed = Boolean(quiz || doc.sliders);
  const stored = new Set([...cache.keys()].flatMap(toggledOf));
  const canTurn = (name) => !fixed && (isLive(model) || stored.has(name));

  /** Open or close a scope or a custom op. */
  function turnOver(name) {
    if (!canTurn(name)) return;
    state.toggled = turnedOver(state.toggled, name);
    turn(state.which, name);
  }

  /** Show another pass, or other scopes: from what is at hand, or asked of Python. */
  function turn(which, name = "") {
    state.which = which;
    state.turned = name;
    let key = pageKey(which, state.toggled);
    if (!isLive(model) && !cache.has(key)) {
      key = nearestKey(cache.keys(), which, state.toggled, name);
      state.toggled = new Set(toggledOf(key));
    }
    if (cache.has(key)) return show(cache.get(key));
    model.send({ ask: "pages", which, toggled: [...state.toggled] });
  }

  function show(found) {
    const end = state.step >= (pages[0].lines.backward.at(-1) ?? 0);
    const there = stages.contains(focused()) ? "picture" : card.contains(focused()) ? "card" : "";
    pages = found;
    state.selected = "";
    state.hover = null;
    state.step = end ? moments(clock()).at(-1) : moment(state.step);
    const own = pages[0].lines.nodes.findIndex((node) => node.group && node.group === state.turned);
    if (own >= 0 && there === "card") state.selected = `node ${own}`;
    build();
    const place_ = inks[0].items.findIndex((item) => item.name && item.name === state.turned);
    if (place_ >= 0 && there === "picture") focusItem(inks[0], place_);
    if (there === "card") card.querySelector("button[aria-expanded]")?.focus({ preventScroll: true });
    state.turned = "";
    share();
  }

  function fillTable() {
    if (!tableBox.open || tableBody.children.length) return;
    const shown = quiz ? rows(pages[0]).filter((r) => r.step < allowed(Infinity)) : rows(pages[0]);
    tableBody.replaceChildren(...shown.map((row) =>
      h("tr", {}, h("td", {}, String(row.step)), h("th", { scope: "row" }, row.op),
        ...["input", "upstream", "local", "downstream"].map((name) => h("td", {}, row[name])))));
  }

  function refreshTable() {
    tableBody.replaceChildren();
    fillTable();
  }

  // --- messages ---

  function receive(message) {
    if (message.pages && message.key !== undefined) cache.set(message.key, message.pages);
    if (message.pages && !message.moved) {
      cache.set(message.key, message.pages);
      if (message.key === pageKey(state.which, state.toggled)) show(message.pages);
    }
    if (message.notes && message.key === `${pageKey(state.which, state.toggled)} ${message.side}`) {
      pages[message.side].notes = message.notes;
      bump();
    }
    if (explore && message.moved) explore.receive(message);
    if (explore && message.curves) explore.curves(message.curves);
  }

  function bump() {
    pages[0].version = (pages[0].version ?? 0) + 1;
    cardKey = "";
    refreshTable();
    paint();
  }

  // --- wiring ---

  const received = (message) => receive(message);
  const changed = (name, run) => {
    const handler = () => run(model.get(name));
    model.on(`change:${name}`, handler);
    signal.addEventListener("abort", () => model.off(`change:${name}`, handler), { once: true });
  };
  model.on("msg:custom", received);
  signal.addEventListener("abort", () => model.off("msg:custom", received), { once: true });
  changed("step", (step) => {
    if (step === state.step || sharing) return;
    state.step = moment(step);
    hideAnswers();
    follow();
    paint();
  });
  changed("which", (which) => which !== state.which && turn(which));
  changed("selected", (key) => {
    const i = pages[0].lines.nodes.findIndex((node) => node.key && node.key === key);
    const chosen = i >= 0 ? `node ${i}` : "";
    if (chosen === state.selected || key === selectedKey()) return;
    Object.assign(state, { selected: chosen, side: 0 });
    paint();
  });

  bar.wire(on, {
    first: () => go(moments(clock())[0]),
    back: () => go(previous(clock(), state.step)),
    play: () => play(!state.playing),
    forward: () => go(next(clock(), state.step)),
    last: () => go(moments(clock()).at(-1)),
    seek: (place_) => go(moments(clock())[place_]),
    speed: (value) => (state.speed = value),
    which: (value) => turn(value),
    colour: () => {
      state.colour = !state.colour;
      paint();
    },
    zoomIn: () => zoom(1.25),
    zoomOut: () => zoom(0.8),
    fit: fitAll,
    wide: () => {
      state.wide = !state.wide;
      arrange();
      inks.forEach(fit);
      paint();
    },
    fold: () => {
      state.toggled = new Set();
      turn(state.which);
    },
  });
  // JupyterLab's keys (Enter, b, dd) are for the notebook. It looks at the element with the focus
  // before it looks for this attribute further up, so each such element needs its own.
  on(root, "focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  on(tableBox, "toggle", fillTable);
  let wide = 0;
  const watch = new ResizeObserver(() => {
    if (!root.clientWidth || Math.abs(root.clientWidth - wide) < 2) return;
    wide = root.clientWidth;
    arrange();
    inks.filter((ink) => ink.fitted !== false).forEach(fit);
    follow();
  });
  watch.observe(root);

  if (explore) {
    explore.wire(on, model, {
      page: () => pages[0],
      open: () => (state.selected.startsWith("node") ? Number(state.selected.slice(5)) : nodeAt(clock(), state.step)),
      numbers(message) {
        const target = pages[0];
        if (message.pages) {
          cache.clear();
          cache.set(pageKey(state.which, []), message.pages);
          state.toggled = new Set();
          show(message.pages);
        } else {
          target.texts = message.texts;
          for (const [i, note] of Object.entries(message.notes ?? {})) target.notes[i] = note;
          target.version = (target.version ?? 0) + 1;
          paint();
          if (message.settled) refreshTable();
        }
      },
    });
  }

  el.append(root);
  if (darkAround(el)) root.classList.add("cgviz-dark");
  hideAnswers();
  state.step = moment(state.step);
  build();
  root.cgvizGo = go; // for measuring in the page

  return () => {
    stop.abort();
    clearTimeout(timer);
    clearTimeout(sharing);
    explore?.stop();
    watch.disconnect();
    root.remove();
  };
}

/** The title of a frame, as a box like a node's. */
const titleOf = (frame) => ({
  x: frame.x + frame.wide / 2, y: frame.middle, width: frame.wide, height: 2 * (frame.middle - frame.y),
});

/** Whether the kernel can still be told. */
const isLive = (model) => model.cgvizStatic !== true;

/** A page that says dark only by its colours, such as one with a shadow root of its own. */
function darkAround(el) {
  if (el.closest("[data-jp-theme-light]") || document.querySelector("[data-jp-theme-light]")) return false;
  for (let at_ = el; at_; at_ = at_.parentElement ?? at_.getRootNode().host) {
    const [red, green, blue, opaque] = pixel(getComputedStyle(at_).backgroundColor);
    if (opaque) return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 80;
  }
  return false;
}

/** Red, green, blue and opacity from 0 to 255 of any CSS colour, in whatever notation. */
function pixel(colour) {
  const ink = new OffscreenCanvas(1, 1).getContext("2d");
  ink.fillStyle = colour;
  ink.fillRect(0, 0, 1, 1);
  return ink.getImageData(0, 0, 1, 1).data;
}

const ICONS = {
  first: "M2 2V12M8 2L3 7L8 12ZM14 2L9 7L14 12Z",
  back: "M4 2V12M12 2L5 7L12 12Z",
  play: "M4 1.5L13 7L4 12.5Z",
  pause: "M4 2H6V12H4ZM9 2H11V12H9Z",
  forward: "M12 2V12M4 2L11 7L4 12Z",
  last: "M14 2V12M2 2L7 7L2 12ZM8 2L13 7L8 12Z",
};
const icon = (d) => s("svg.icon", { viewBox: "0 0 16 14", "aria-hidden": "true" }, s("path", { d }));

/** The bar: time, speed, pass, colour, zoom. */
function barInk(id, doc, quiz) {
  const button = (words, sign) => h("button", { type: "button", title: words, "aria-label": words }, sign);
  const first = button("To the start", icon(ICONS.first));
  const back = button("One step back", icon(ICONS.back));
  const play = button("Play", icon(ICONS.play));
  const forward = button("One step forward", icon(ICONS.forward));
  const last = button("To the end", icon(ICONS.last));
  const seek = h("input", { type: "range", min: 0, step: 1, "aria-label": "Moment" });
  const where = h("span.where", { "aria-hidden": "true" });
  const speed = h("select", { "aria-label": "Speed" },
    ...[0.5, 1, 2, 4].map((v) => h("option", { value: v, selected: v === 1 }, `${number(v)}\u00d7`)));
  const passes = doc.passes.length > 1
    ? h("select", { "aria-label": "Backward pass" }, ...doc.passes.map((words, i) => h("option", { value: i, selected: i === doc.which }, words)))
    : null;
  const colour = h("button", { type: "button", "aria-pressed": "false", title: "Width and colour of the arrows by the size of the gradient" }, "Magnitude");
  const zoomOut = button("Zoom out", "\u2212");
  const zoomIn = button("Zoom in", "+");
  const fit = h("button", { type: "button", title: "All of it in sight" }, "Fit");
  const wide = h("button", { type: "button", "aria-pressed": "false", title: "The picture over the full width" }, "Full width");
  const fold = h("button", { type: "button", title: "Scopes and custom ops as they were at first" }, "Reset");
  fold.hidden = true;
  const element = h("div.bar", { role: "group", "aria-label": "Time and picture" },
    h("div.group", {}, first, back, play, forward, last), seek, where,
    h("div.group", {}, speed, passes), h("div.group", {}, fold, quiz ? null : colour, zoomOut, zoomIn, fit, wide));
  return {
    element,
    forward,
    wire(on, run) {
      for (const [target, name] of [[first, "first"], [back, "back"], [play, "play"], [forward, "forward"], [last, "last"],
        [colour, "colour"], [zoomIn, "zoomIn"], [zoomOut, "zoomOut"], [fit, "fit"], [wide, "wide"], [fold, "fold"]]) {
        on(target, "click", run[name]);
      }
      on(seek, "input", () => run.seek(Number(seek.value)));
      on(speed, "change", () => run.speed(Number(speed.value)));
      if (passes) on(passes, "change", () => run.which(Number(passes.value)));
    },
    paint(state, lines) {
      const every = moments(lines);
      const place = every.indexOf(state.step);
      if (Number(seek.max) !== every.length - 1) seek.max = every.length - 1;
      if (Number(seek.value) !== place) seek.value = place;
      const words = state.step <= 0
        ? `forward ${lines.forward.length + state.step} of ${lines.forward.length}`
        : `backward step ${state.step} of ${lines.steps}`;
      seek.setAttribute("aria-valuetext", words);
      say(where, words);
      for (const [target, off] of [[first, place <= 0], [back, place <= 0], [forward, place >= every.length - 1], [last, place >= every.length - 1]]) {
        target.setAttribute("aria-disabled", String(off));
      }
      const words_ = state.playing ? "Pause" : "Play";
      if (play.title !== words_) {
        play.title = words_;
        play.setAttribute("aria-label", words_);
        play.replaceChildren(icon(ICONS[words_.toLowerCase()]));
      }
      colour.setAttribute("aria-pressed", String(state.colour));
      wide.setAttribute("aria-pressed", String(state.wide));
      fold.hidden = !state.toggled.size;
      if (passes && Number(passes.value) !== state.which) passes.value = state.which;
    },
  };
}

/** What the lines and colours mean. */
function legendInk() {
  const sample = (name, classes, d) =>
    h("li", {}, s("svg.swatch", { viewBox: "0 0 34 10", "aria-hidden": "true" }, s(classes, { d })), name);
  const usual = [
    sample("forward value", "path.line", "M0 5H32"),
    sample("backward gradient", "path.back", "M32 5H0"),
  ];
  const sizes = [["vanishing", "below 10\u207b\u2076"], ["tiny", "10\u207b\u2076"], ["small", "10\u207b\u2074"], ["usual", "around 1"],
    ["large", "10\u00b2"], ["huge", "10\u2074"], ["exploding", "above 10\u2076"]].map(([name, words]) => {
    const item = sample(`${name} ${words}`, "path.back", "M34 5H0");
    item.dataset.size = name;
    item.classList.add("cgviz-sizeitem");
    return item;
  });
  const differs = h("li", {}, "\u2260 differs from the other picture");
  const element = h("ul.legend.under", {}, ...usual, differs, ...sizes);
  return {
    element,
    paint(state, pages) {
      differs.hidden = pages.length < 2;
      for (const item of sizes) item.hidden = !state.colour;
    },
  };
}

/** Sliders and curves. Sends the newest values only, one message at a time. */
function exploreInk(id, doc) {
  const values = doc.sliders.map((slider) => slider.value);
  let busy = false;
  let waiting = false;
  let active = 0;
  let idle = 0;
  let sent = 0;
  let plots = [];
  let points = doc.points ?? {};
  let use = null;
  let model = null;
  const inputs = doc.sliders.map((slider, k) => h("input", {
    id: `${id}-slider-${k}`, type: "range", min: slider.low, max: slider.high, step: "any",
    value: slider.value, "aria-valuetext": number(slider.value),
  }));
  const readouts = doc.sliders.map((slider) => h("output", {}, number(slider.value)));
  const rowsOf = doc.sliders.map((slider, k) =>
    h(`div.slider${slider.upstream ? ".upstream" : ""}`, {}, h("label", { for: `${id}-slider-${k}` }, slider.name), inputs[k], readouts[k]));
  const plotBox = h("div.plots");
  const note = h("p.none", { role: "status" });
  const element = h("div.explore", {}, h("div.sliders", { role: "group", "aria-label": "Sliders" }, ...rowsOf, note), plotBox);

  /** To three digits of the range, so that the readout is what TensorFlow gets. */
  const nice = (k, x) => {
    const { low, high } = doc.sliders[k];
    const unit = 10 ** Math.floor(Math.log10((high - low) / 100));
    return Number((Math.round(x / unit) * unit).toPrecision(12));
  };

  function send(settle) {
    busy = true;
    sent += 1;
    model.send({ move: [...values], active, open: use.open(), id: sent, settle });
  }

  function request() {
    clearTimeout(idle);
    if (busy) waiting = true;
    else send(false);
  }

  function later() {
    clearTimeout(idle);
    idle = setTimeout(() => (busy ? later() : send(true)), 180);
  }

  function movePoints() {
    for (const plot of plots) plot.move(values[active], points);
  }

  function curves(found) {
    plots = found.plots.map((plot) => plotInk(plot, found.xs, doc.sliders[found.active].name));
    plotBox.replaceChildren(...plots.map((plot) => plot.element));
    active = found.active;
    movePoints();
  }

  if (doc.curves) curves(doc.curves);
  return {
    element,
    curves,
    busy: () => busy,
    wire(on, model_, use_) {
      model = model_;
      use = use_;
      inputs.forEach((input, k) => {
        on(input, "input", () => {
          const other = active !== k;
          active = k;
          values[k] = nice(k, Number(input.value));
          say(readouts[k], number(values[k]));
          input.setAttribute("aria-valuetext", number(values[k]));
          if (other) plotBox.classList.add("cgviz-stale");
          request();
        });
      });
    },
    receive(message) {
      busy = false;
      say(note, message.error ?? "");
      plotBox.classList.remove("cgviz-stale");
      if (!message.error) {
        points = message.points ?? {};
        use.numbers(message);
        if (message.curves) curves(message.curves);
        movePoints();
      }
      element.dataset.moved = String(message.moved);
      if (waiting) {
        waiting = false;
        send(false);
      } else if (!message.settled) later();
    },
    stop: () => clearTimeout(idle),
  };
}

// --- 10 mounting ---------------------------------------------------------------------------------

/** A model with the widget's interface for a page without a kernel. */
export function staticModel(values) {
  const found = { ...values };
  return {
    cgvizStatic: true,
    get: (name) => found[name],
    set: (name, value) => (found[name] = value),
    on() {},
    off() {},
    send() {},
    save_changes() {},
  };
}

/** JSON that was compressed, from its base64. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** The pages of a saved file by their names; what stands in many of them was kept once. */
export function repeated({ parts, pages }) {
  const whole = (each) => ({
    ...each,
    notes: each.notes.map((i) => parts[i]),
    texts: { nodes: each.texts.nodes.map((i) => parts[i]), links: each.texts.links.map((i) => parts[i]) },
  });
  return pages.map(([key, found]) => [key, found.map(whole)]);
}

/** In a saved page: the state is in the page, compressed. */
export async function boot() {
  // Before anything else, so that no dark page begins white.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
  theme();
  dark.addEventListener("change", theme);
  const box = document.getElementById("cgviz");
  if (!globalThis.DecompressionStream) {
    box.append(h("pre", {}, document.querySelector("noscript").textContent));
    return;
  }
  const { state, ...rest } = await unpacked(document.getElementById("cgviz-state").textContent);
  const [[, pages], ...more] = repeated(rest);
  Object.assign(state.document, { pages, more });
  create(staticModel(state), box);
}

export default {
  render({ model, el }) {
    return create(model, el);
  },
};
