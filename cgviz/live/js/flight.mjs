// The flight: numbers come to the op of a moment, are multiplied there, and fly on along the lines of the picture.
//
// The picture is painted as it is in the end. All that moves lies on top, or fades in: to land is to cancel.
import { flat } from "./aria.mjs";
import { s, toggle } from "./dom.mjs";
import { equation, sumOf } from "./panel.mjs";
import { makeText, write } from "./picture.mjs";
import { nodeAt, previous, textAt } from "./time.mjs";

export const DURATION = 1800; // milliseconds at speed 1: time to read two numbers and their product
const FADE = 300; // milliseconds, for those who want no motion
const [COME, LEAVE, LANDED] = [0.34, 0.56, 0.94]; // shares of it: all have come; the first leaves; the last lands
const APART = 0.12; // from one landing to the next, so that the terms of a sum come one by one
const PIECE = 6; // points of a line that a chip flies straight: corners are rounder
const MOST = 24; // chips: more cannot be followed
const DIGIT = 8.4; // the width of a digit of 13 points, and a little more

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

/** End a flight at once. */
export function land(picture) {
  picture.flight?.forEach((animation) => animation.cancel());
  picture.layer.replaceChildren();
  toggle(picture.svg, "tracing", false);
  Object.assign(picture, { flight: null, lit: null });
}

/** Let the numbers of a moment fly; `hidden` are the nodes that must not tell theirs. Returns the milliseconds it takes. */
export function fly(picture, step, duration, hidden, done) {
  land(picture);
  const { page, parts, layer } = picture;
  const { node, come, leave } = legs(page.display, step);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const total = calm ? FADE : come.length ? duration : duration / 2;
  const animate = (element, frames, start, end, easing = "linear") =>
    picture.flight.push(element.animate(frames, { delay: start * total, duration: (end - start) * total, easing }));
  /** Hide what is there already until a moment of the flight. */
  const await_ = (element, end) => animate(element, [{ opacity: 0 }, { opacity: 0, offset: calm ? 0 : 0.92 }, { opacity: 1 }], 0, end);
  const of = (i, ...roles) => parts.filter((part) => part.of === "link" && part.i === i && roles.includes(part.role));
  picture.flight = [];

  const role = step > 0 ? "backward" : "forward";
  const says = role === "backward" ? "gradient" : "value";
  const send = (path, start, end, fromLabel) => {
    const [line, [label]] = [of(path.i, role)[0].element, of(path.i, says)];
    const token = chip(label?.element.cgvizWords || page.texts.links[path.i][says], page.texts.links[path.i].strips[says]);
    Object.assign(token.dataset, { link: path.i, leg: fromLabel ? "come" : "leave" });
    layer.append(token);
    animate(token, along(line, fromLabel && label ? label : null), start, end, "ease-in-out");
  };

  const first = come.length ? LEAVE : 0;
  const apart = Math.min(APART, (LANDED - first) / 2 / leave.length);
  const landing = (n) => LANDED - (leave.length - 1 - n) * apart;
  if (!calm && come.length + leave.length <= MOST) {
    come.forEach((path) => send(path, 0, COME, true));
    leave.forEach((path, n) => send(path, first + n * apart, landing(n), false));
  }
  leave.forEach(({ i }, n) => {
    of(i, role, `${role}-head`).forEach(({ element }) => await_(element, first + 0.1));
    of(i, says).forEach(({ element }) => await_(element, landing(n)));
  });
  if (step > 0) sums();
  if (!calm && node >= 0 && come.length && !hidden.has(node)) {
    const shown = equations(page, node, step);
    layer.prepend(shown);
    animate(shown, [{ opacity: 0 }, { opacity: 1, offset: 0.1 }, { opacity: 1, offset: 0.9 }, { opacity: 0 }], COME - 0.06, 1);
  }
  animate(layer, [], 0, 1);
  picture.flight.at(-1).onfinish = () => {
    land(picture);
    done();
  };
  return total;

  /** The sums at the nodes that receive, as far as their terms have landed. */
  function sums() {
    for (const part of parts.filter(({ of: owner, role: what }) => owner === "node" && what === "gradient")) {
      const [before, after] = [previous(page.display, step), step].map((m) => textAt(page.texts.written[part.k], m));
      const ways = [...leave.keys()].filter((n) => page.display.links[leave[n].i].source === part.i);
      if (before === after || hidden.has(part.i) || !ways.length) continue;
      await_(part.element, landing(ways.at(-1)));
      let words = before;
      [-1, ...ways.slice(0, -1)].forEach((n, place) => {
        if (n >= 0) words = landedOn(words, page.texts.links[leave[n].i].gradient);
        const text = layer.appendChild(makeText(part));
        write(text, words);
        if (!calm) animate(text, [{ opacity: 1 }, { opacity: 1 }], n < 0 ? 0 : landing(n), landing(ways[place]));
      });
    }
  }
}

/** Light up a path of the chain rule, and write its products factor by factor; null lights up nothing. */
export function light(picture, path) {
  const { page, svg, groups, layer } = picture;
  if (picture.lit === path) return;
  if (picture.lit || path) land(picture);
  picture.lit = path;
  toggle(svg, "tracing", path !== null);
  if (!path) return;
  const { links } = page.display;
  const own = new Set(path.links.flatMap((i) => [`link ${i}`, `node ${links[i].source}`, `node ${links[i].target}`]));
  for (const [key, group] of groups) toggle(group, "lit", own.has(key));
  const placed = [];
  layer.replaceChildren(...path.factors.map((factor, n) => {
    const row = [["upstream", path.products[n]], ["times", "\u00b7"], ["local", factor], ["times", "="], ["downstream", path.products[n + 1]]];
    return note(page.display, links[path.links[n + 1]].target, [row.map(([kind, words]) => [kind, flat(words)])], [], placed);
  }));
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  [...layer.children].forEach((each, n) => calm || each.animate([{ opacity: 0 }, { opacity: 0 }, { opacity: 1 }], FADE * (n + 1)));
}

/** A sum with one more term, such as "3 + ..." with 6: "3 + 6 + ...". */
export const landedOn = (sum, term) => `${sum.replace(/…$/, "")}${term} + …`;

/** Where a chip is along a line: from its beginning, or from beside a label, to its end. */
function along(line, label) {
  const length = line.getTotalLength();
  const at = (share) => line.getPointAtLength(share * length);
  const pieces = Math.ceil(length / PIECE);
  const shares = Array.from({ length: pieces + 1 }, (_, n) => n / pieces);
  const far = (share) => Math.hypot(at(share).x - label.x, at(share).y - label.y);
  const start = label ? shares.reduce((best, share) => (far(share) < far(best) ? share : best)) : 0;
  return shares.map((share) => at(start + share * (1 - start))).map(({ x, y }) => ({ opacity: 1, transform: `translate(${x}px, ${y}px)` }));
}

/** What flies: a number, or the shape of an array and a bar for each of its entries. */
function chip(number, strip) {
  const words = strip ? strip.shape : number;
  const [width, height] = [Math.max(words.length * DIGIT, strip ? strip.bars.length * 5 : 0) + 12, strip ? 36 : 22];
  const bars = strip?.bars.map((bar, n) => `M${(n - (strip.bars.length - 1) / 2) * 5} 9v${-7 * bar || 0.5}`).join("");
  return s("g.chip", {}, s("rect", { x: -width / 2, y: -height / 2, width, height, rx: 9 }),
    s("text", { "text-anchor": "middle", y: strip ? -8 : 0 }, words), strip ? s("path", { d: bars }) : null);
}

/** The equations of an op at a moment. */
function equations({ display, panels }, node, step) {
  const inputs = panels[node].inputs.filter((input) => step > 0 && input.flows);
  return note(display, node, written(panels[node], step), inputs.flatMap((input) => input.depends));
}

/** Leave the equations of a moment at its op, unless it is one of the `hidden`. */
export function stay({ page, layer }, step, hidden) {
  const node = nodeAt(page.display, step);
  if (node < 0 || hidden.has(node)) return;
  const shown = equations(page, node, step);
  toggle(shown, "still", true);
  layer.replaceChildren(shown);
}

/** Equations at an op, off others that are `placed`, with a leader to the value of each input at one of these positions. */
function note(display, node, rows, positions, placed = []) {
  const { x, y, width, height } = display.nodes[node];
  const wide = Math.max(...rows.map((row) => row.reduce((sum, [, words]) => sum + words.length + 1, 0))) * DIGIT + 8;
  const tall = rows.length * 19 + 8;
  const [across, along_] = [(width + wide) / 2 + 8, (height + tall) / 2 + 6];
  const places = display.direction === "right"
    ? [[x, y + along_], [x, y - along_], [x, y + along_ + tall + 3], [x, display.height + tall / 2]] : [[x + across, y], [x - across, y]];
  const clamp = (at) => Math.min(Math.max(at, wide / 2 + 2), Math.max(display.width - wide / 2 - 2, wide / 2 + 2));
  /** How many nodes and labels a note at a place would hide, or whether it would hide another note. */
  const hidden = ([at, cy]) => {
    const hides = (each) =>
      Math.abs(each.x - clamp(at)) < (wide + (each.width ?? 16)) / 2 && Math.abs(each.y - cy) < (tall + (each.height ?? 12)) / 2;
    return cy < tall / 2 || placed.some(hides) ? 1e3 : [...display.nodes, ...display.texts].filter(hides).length;
  };
  const [[cx, cy]] = places.sort((one, other) => hidden(one) - hidden(other)).map(([at, ...rest]) => [clamp(at), ...rest]);
  /** Whether a line from a note to a value would strike through no other label, and no node. */
  const clear = (from, to, value) => [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8].every((share) => {
    const [px, py] = [0, 1].map((n) => from[n] + share * (to[n] - from[n]));
    return ![...display.nodes, ...display.texts.filter((text) => text.of === "link" && text !== value)].some((each) =>
      Math.abs(each.x - px) < (each.width ?? 24) / 2 && Math.abs(each.y - py) < (each.height ?? 14) / 2);
  });
  placed.push({ x: cx, y: cy, width: wide, height: tall });
  const leaders = positions.flatMap((position) => {
    const i = display.links.findIndex((link) => link.target === node && link.position === position);
    const value = display.texts.find((text) => text.of === "link" && text.i === i && text.role === "value");
    if (!value) return [];
    const end = [value.x, value.y + { above: -6, around: 0, below: 6 }[value.side]];
    const left = end[0] - { start: 4, middle: 20, end: 36 }[value.anchor];
    const ring = s("rect.leader", { x: left, y: end[1] - 10, width: 40, height: 20, rx: 10 });
    return clear([cx, cy], end, value) ? [s("path.leader", { d: `M${cx} ${cy}L${end[0]} ${end[1] + 10 * Math.sign(cy - end[1])}` }), ring] : [ring];
  });
  const lines = rows.map((row, n) => s("text", { x: cx, y: cy + (n - (rows.length - 1) / 2) * 19, "text-anchor": "middle" },
    ...row.map(([kind, words], k) => s(`tspan.${kind}`, {}, k ? ` ${words}` : words))));
  return s("g.note", {}, ...leaders, s("rect", { x: cx - wide / 2, y: cy - tall / 2, width: wide, height: tall, rx: 4 }), ...lines);
}

/** What is written at an op: what it made; or what reached it, and upstream x local for each input. */
function written(panel, step) {
  if (step <= 0) return [[["value", `= ${panel.outputs.map((o) => flat(o.value)).join(", ")}`]]];
  const [{ parts = [], upstream }] = panel.outputs;
  const sum = panel.outputs.length === 1 && parts.length > 1 ? [[["upstream", `${sumOf(parts)} = ${upstream}`]]] : [];
  const products = panel.inputs.filter((input) => input.flows).map((input) =>
    equation(panel, input).map((part) => (typeof part === "string" ? ["times", part] : [part[0].split(" ")[0], flat(part[1])])));
  const short = (row) => row.reduce((letters, [, words]) => letters + words.length, 0) <= 44;
  const plain = [["upstream", "upstream"], ["times", "\u00d7"], ["local", "local"]];
  const found = [...sum, ...products].map((row) => (short(row) ? row : plain));
  return [...new Map(found.map((row) => [row.join(), row])).values()].slice(0, 4);
}
