// The flight: numbers come to the op of a moment, are multiplied there, and fly on along the lines of the picture.
//
// The picture is painted as it is in the end. All that moves lies on top, or fades in: to land is to cancel.
import { flat } from "./aria.mjs";
import { fill, s, toggle } from "./dom.mjs";
import { equation, sumOf } from "./panel.mjs";
import { makeText, mark, write } from "./picture.mjs";
import { nodeAt, previous, textAt } from "./time.mjs";

export const DURATION = 1800; // milliseconds at speed 1: time to read two numbers and their product
const FADE = 300; // milliseconds, for those who want no motion
const [COME, LEAVE, LANDED] = [0.34, 0.56, 0.94]; // shares of it: all have come; the first leaves; the last lands
const APART = 0.12; // from one landing to the next, so that the terms of a sum come one by one
const APIECE = 12; // points from one place of a line that is looked at to the next
const LINE = 0.1; // of a node or a label: how bad it is that a note covers a place of a line
const FAR = 0.005; // and how bad a point is between a note and its op
const MOST = 24; // chips: more cannot be followed
const [DIGIT, ROW] = [8.4, 19]; // points: the width of a digit of 13 points and a little more; from one equation to the next

/** The op of a moment, and the lines along which numbers come to it and leave it. */
export function legs(display, step) {
  const [role, receiver] = step > 0 ? ["backward", "source"] : ["forward", "target"];
  const node = nodeAt(display, step);
  const last = Math.max(-Infinity, ...(display.nodes[node]?.now ?? []).filter((m) => m < step));
  const lines = display.paths.filter((path) => path.of === "link" && path.role === role);
  return {
    node,
    come: lines.filter((path) => display.links[path.i][receiver] === node && path.step < step && path.step > last),
    leave: lines.filter((path) => path.step === step && (step > 0 || display.links[path.i].source === node)),
  };
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** End a flight at once. */
export function land(picture) {
  picture.flight?.forEach((animation) => animation.cancel());
  fill(picture.layer);
  fill(picture.under);
  toggle(picture.svg, "tracing", false);
  Object.assign(picture, { flight: null, lit: null });
}

/** Let the numbers of a moment fly; `hidden` are the nodes that must not tell theirs. Returns the milliseconds it takes. */
export function fly(picture, step, duration, hidden, done) {
  land(picture);
  const { page: { display, texts }, parts, layer, under } = picture;
  const { node, come, leave } = legs(display, step);
  const [role, says] = step > 0 ? ["backward", "gradient"] : ["forward", "value"];
  const still = calm();
  const total = still ? FADE : come.length ? duration : duration / 2;
  const first = come.length ? LEAVE : 0;
  const apart = Math.min(APART, (LANDED - first) / 2 / leave.length);
  const landing = (n) => LANDED - (leave.length - 1 - n) * apart;
  const of = (i, ...roles) => parts.filter((part) => part.of === "link" && part.i === i && roles.includes(part.role));
  picture.flight = [];
  const animate = (element, frames, start, end, easing = "linear") =>
    picture.flight.push(element.animate(frames, { delay: start * total, duration: (end - start) * total, easing }));
  /** Hide what is there already until a moment of the flight. */
  const hold = (element, end) => animate(element, [{ opacity: 0 }, { opacity: 0, offset: still ? 0 : 0.92 }, { opacity: 1 }], 0, end);

  /** A chip along a line: from beside its label, which is at the middle of most lines, or from the op. */
  function send({ i }, leg, start, end) {
    const [[line], [label]] = [of(i, role), of(i, says)];
    const token = chip(label?.element.cgvizWords || texts.links[i][says], texts.links[i].strips[says]);
    Object.assign(token.dataset, { link: i, leg });
    layer.append(token);
    token.style.offsetPath = `path("${line.element.getAttribute("d")}")`;
    const from = leg === "come" && label ? "45%" : "0%";
    animate(token, [{ opacity: 1, offsetDistance: from }, { opacity: 1, offsetDistance: "100%" }], start, end, "ease-in-out");
  }

  /** The sums at the nodes that receive, as far as their terms have landed. */
  function sums() {
    for (const part of parts.filter(({ of: owner, role: what }) => owner === "node" && what === "gradient")) {
      const [before, after] = [previous(display, step), step].map((m) => textAt(texts.written[part.k], m));
      const ways = [...leave.keys()].filter((n) => display.links[leave[n].i].source === part.i);
      if (before === after || hidden.has(part.i) || !ways.length) continue;
      hold(part.element, landing(ways.at(-1)));
      let [words, since] = [before, 0];
      for (const n of ways) {
        const text = layer.appendChild(makeText(part));
        write(text, words);
        if (!still) animate(text, [{ opacity: 1 }, { opacity: 1 }], since, landing(n));
        words = landedOn(words, texts.links[leave[n].i].gradient);
        since = landing(n);
      }
    }
  }

  if (!still && come.length + leave.length <= MOST) {
    come.forEach((path) => send(path, "come", 0, COME));
    leave.forEach((path, n) => send(path, "leave", first + n * apart, landing(n)));
  }
  leave.forEach(({ i }, n) => {
    of(i, role, `${role}-head`).forEach(({ element }) => hold(element, first + 0.1));
    of(i, says).forEach(({ element }) => hold(element, landing(n)));
  });
  if (step > 0) sums();
  if (!still && node >= 0 && come.length && !hidden.has(node)) {
    layer.prepend(equations(picture, node, step));
    for (const each of [layer.firstChild, ...under.children]) {
      animate(each, [{ opacity: 0 }, { opacity: 1, offset: 0.1 }, { opacity: 1, offset: 0.9 }, { opacity: 0 }], COME - 0.06, 1);
    }
  }
  animate(layer, [], 0, 1);
  picture.flight.at(-1).onfinish = () => {
    land(picture);
    done();
  };
  return total;
}

/** Light up a path of the chain rule, and write its products factor by factor; null lights up nothing. */
export function light(picture, path) {
  const { page: { display: { links } }, svg, layer } = picture;
  if (picture.lit === path) return;
  land(picture);
  picture.lit = path;
  toggle(svg, "tracing", path);
  if (!path) return;
  mark(picture, "lit", path.links.flatMap((i) => [`link ${i}`, `node ${links[i].source}`, `node ${links[i].target}`]));
  const placed = [];
  path.factors.forEach((factor, n) => {
    const row = [["upstream", path.products[n]], ["times", "\u00b7"], ["local", factor], ["times", "="], ["downstream", path.products[n + 1]]];
    const shown = note(picture, links[path.links[n + 1]].target, [row.map(([kind, words]) => [kind, flat(words)])], [], placed);
    layer.append(shown);
    if (!calm()) shown.animate([{ opacity: 0 }, { opacity: 0 }, { opacity: 1 }], FADE * (n + 1));
  });
}

/** A sum with one more term, such as "3 + ..." with 6: "3 + 6 + ...". */
export const landedOn = (sum, term) => `${sum.replace(/…$/, "")}${term} + …`;

/** What flies: a number, or the shape of an array and a bar for each of its entries. */
function chip(number, strip) {
  const words = strip ? strip.shape : number;
  const [width, height] = [Math.max(words.length * DIGIT, strip ? strip.bars.length * 5 : 0) + 12, strip ? 36 : 22];
  const bars = strip?.bars.map((bar, n) => `M${(n - (strip.bars.length - 1) / 2) * 5} 9v${-7 * bar || 0.5}`).join("");
  return s("g.chip", {}, s("rect", { x: -width / 2, y: -height / 2, width, height, rx: 9 }),
    s("text", { "text-anchor": "middle", y: strip ? -8 : 0 }, words), strip ? s("path", { d: bars }) : null);
}

/** The equations of an op at a moment, with what its local derivatives depend on. */
function equations(picture, node, step) {
  const panel = picture.page.panels[node];
  const inputs = panel.inputs.filter((input) => step > 0 && input.flows);
  return note(picture, node, written(panel, step), inputs.flatMap((input) => input.depends));
}

/** Leave the equations of a moment at its op, unless it is one of the `hidden`. */
export function stay(picture, step, hidden) {
  const node = nodeAt(picture.page.display, step);
  if (node < 0 || hidden.has(node)) return;
  const shown = equations(picture, node, step);
  for (const each of [shown, ...picture.under.children]) toggle(each, "still", true);
  picture.layer.replaceChildren(shown);
}

/** Equations at an op, off others that are `placed`, with a leader to the value of each input at one of these positions. */
function note(picture, node, rows, positions, placed = []) {
  const { under, parts, page: { display } } = picture;
  const { x, y, width, height } = display.nodes[node];
  const wide = Math.max(...rows.map((row) => row.reduce((sum, [, words]) => sum + words.length + 1, 0))) * DIGIT + 8;
  const tall = rows.length * ROW + 8;
  const [across, down] = [(width + wide) / 2 + 8, (height + tall) / 2 + 6];
  const places = display.direction === "right"
    ? [[x, y + down], [x, y - down], [x, y + down + tall + 3], [x, display.height + tall / 2]]
    : [[x + across, y], [x - across, y]];
  const middles = places.map(([cx, cy]) => [Math.max(Math.min(cx, display.width - wide / 2 - 2), wide / 2 + 2), cy]);
  picture.bare ??= parts.filter(({ of, role }) => of === "link" && ["forward", "backward"].includes(role)).flatMap(({ element }) =>
    Array.from({ length: element.getTotalLength() / APIECE }, (_, n) => element.getPointAtLength(n * APIECE)));
  /** How bad a note is at a place: the nodes, labels and lines that it hides, how far it is; above all another note. */
  const bad = ([cx, cy]) => {
    const hides = (each, own = 0) => Math.abs(each.x - cx) < (wide + (each.width ?? own)) / 2 && Math.abs(each.y - cy) < (tall + (each.height ?? own)) / 2;
    const found = [...display.nodes, ...display.texts].filter((each) => hides(each, 14)).length + LINE * picture.bare.filter((at) => hides(at)).length;
    return (cy < tall / 2 || placed.some((each) => hides(each)) ? 1e3 : found) + FAR * Math.hypot(cx - x, cy - y);
  };
  const [cx, cy] = middles.reduce((best, place) => (bad(place) < bad(best) ? place : best));
  placed.push({ x: cx, y: cy, width: wide, height: tall });
  const values = parts.filter(({ of, i, role }) => of === "link" && role === "value" && display.links[i].target === node && positions.includes(display.links[i].position));
  const { a: k, e, f } = picture.inner.getScreenCTM();
  const rings = values.map(({ element }) => {
    const box = element.getBoundingClientRect();
    const [left, top, long, high] = [(box.x - e) / k, (box.y - f) / k, box.width / k, box.height / k];
    under.append(s("path.leader", { d: `M${cx} ${cy}L${left + long / 2} ${cy > top ? top + high + 2 : top - 2}` }));
    return s("rect.leader", { x: left - 7, y: top - 2, width: long + 14, height: high + 4, rx: 10 });
  });
  const lines = rows.map((row, n) => s("text", { x: cx, y: cy + (n - (rows.length - 1) / 2) * ROW, "text-anchor": "middle" },
    ...row.map(([kind, words], k) => s(`tspan.${kind}`, {}, k ? ` ${words}` : words))));
  return s("g.note", {}, ...rings, s("rect", { x: cx - wide / 2, y: cy - tall / 2, width: wide, height: tall, rx: 4 }), ...lines);
}

/** What is written at an op: what it made; or what reached it, and upstream x local for each input. */
function written(panel, step) {
  if (step <= 0) return [[["value", `= ${panel.outputs.map((o) => flat(o.value)).join(", ")}`]]];
  const [{ parts = [], upstream }] = panel.outputs;
  const sum = panel.outputs.length === 1 && parts.length > 1 ? [[["upstream", `${sumOf(parts)} = ${upstream}`]]] : [];
  const products = panel.inputs.filter((input) => input.flows).map((input) =>
    equation(panel, input).flat().map((part) => (typeof part === "string" ? ["times", part] : [part[0].split(" ")[0], flat(part[1])])));
  const short = (row) => row.reduce((letters, [, words]) => letters + words.length, 0) <= 44;
  const plain = [["upstream", "upstream"], ["times", "\u00d7"], ["local", "local"]];
  const found = [...sum, ...products].map((row) => (short(row) ? row : plain));
  return [...new Map(found.map((row) => [row.join(), row])).values()].slice(0, 4);
}
