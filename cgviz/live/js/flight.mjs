// The flight: numbers come to the op of a moment, are multiplied there, and fly on along the lines of the picture.
// That is painted in its final state at once. All that moves lies on top or fades in, so to land is to cancel.
import { boxOf } from "./camera.mjs";
import { fill, s, toggle } from "./dom.mjs";
import { makeText, mark, waiting, write } from "./picture.mjs";
import { nodeAt, previous, textAt } from "./time.mjs";

export const DURATION = 1800; // milliseconds at speed 1: time to read two numbers and their product
const FADE = 300; // milliseconds, for those who want no motion
const [COME, LEAVE, LANDED] = [0.34, 0.56, 0.94]; // shares of it: when all have come, the first leaves, the last lands
const APART = 0.12; // share of it between two landings, so that the terms of a sum come one by one
const [DRAWN, READ] = [0.1, 0.06]; // shares of it: lines come after the first leaves; equations before all have come
const APPEAR = 0.92; // share of the time for which an element is held, after which it fades in
const BRIEF = 0.1; // share of the time of equations in which they fade in, and out
const BESIDE_LABEL = "45%"; // of a line: where a number starts whose label is at the middle
const MOST = 24; // chips: more cannot be followed
const [NAME, NUMBER, LINE, FAR] = [1000, 50, 5, 4]; // costs of a note on a name or note, a number, a line; far away
const DIGIT = 8.4; // points: a little more than a digit of 13 points is wide
const [ROW, BAR, DOT] = [19, 5, 12]; // points from an equation, a bar of a strip, a dot of a line to the next
const [PAD, RING] = [12, 7]; // points around the words of a chip; beside a ringed value

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

/** The paths and texts of a link. */
const partsOf = ({ parts }, i) => parts.filter((part) => part.of === "link" && part.i === i);
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function land(picture) {
  picture.flight?.forEach((animation) => animation.cancel());
  for (const each of [picture.layer, picture.under]) fill(each);
  toggle(picture.svg, "tracing", false);
  Object.assign(picture, { flight: null, lit: null });
}

/** Let the numbers of a moment fly, but not those of `hidden` nodes. Returns the duration in milliseconds. */
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
  const of = (i, ...roles) => partsOf(picture, i).filter((part) => roles.includes(part.role));
  picture.flight = [];
  const animate = (element, frames, start, end, easing = "linear") =>
    picture.flight.push(element.animate(frames, { delay: start * total, duration: (end - start) * total, easing }));
  /** Hide an element of the final picture until a moment of the flight. */
  const hold = (element, end) => animate(element, { opacity: [0, 0, 1], offset: [0, still ? 0 : APPEAR, 1] }, 0, end);

  /** Send a chip along a line: from beside its label, at the middle of most lines, or from the op. */
  function send({ i }, leg, start, end) {
    const [[line], [label]] = [of(i, role), of(i, says)];
    const words = label?.element.cgvizWords || texts.links[i][says];
    const token = chip(words.replace(/^.* [=\u2248\u2260] /, ""), texts.links[i].strips[says]);
    Object.assign(token.dataset, { link: i, leg });
    layer.append(token);
    token.style.offsetPath = `path("${line.element.getAttribute("d")}")`;
    const from = leg === "come" && label ? BESIDE_LABEL : "0%";
    animate(token, { opacity: [1, 1], offsetDistance: [from, "100%"] }, start, end, "ease-in-out");
  }

  if (!still && come.length + leave.length <= MOST) {
    come.forEach((path) => send(path, "come", 0, COME));
    leave.forEach((path, n) => send(path, "leave", first + n * apart, landing(n)));
  }
  leave.forEach(({ i }, n) => {
    for (const { element } of of(i, role, `${role}-head`)) hold(element, first + DRAWN);
    for (const { element } of of(i, says)) hold(element, landing(n));
  });
  // The sums at the receiving nodes, as far as their terms have landed.
  for (const part of parts.filter(({ of: owner, role: what }) => owner === "node" && what === "gradient")) {
    const [before, after] = [previous(display, step), step].map((m) => textAt(texts.written[part.k], m));
    const ways = [...leave.keys()].filter((n) => display.links[leave[n].i].source === part.i);
    if (before === after || hidden.has(part.i) || !ways.length) continue;
    hold(part.element, landing(ways.at(-1)));
    let [words, since] = [before, 0];
    for (const n of ways) {
      const text = layer.appendChild(makeText(part));
      write(text, words || waiting(texts.written[part.k]));
      if (!still) animate(text, { opacity: [1, 1] }, since, landing(n));
      words = landedOn(words, texts.links[leave[n].i].gradient);
      since = landing(n);
    }
  }
  if (!still && node >= 0 && come.length && !hidden.has(node)) {
    layer.prepend(equations(picture, node, step));
    const frames = { opacity: [0, 1, 1, 0], offset: [0, BRIEF, 1 - BRIEF, 1] };
    for (const each of [layer.firstChild, ...under.children]) animate(each, frames, COME - READ, 1);
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
  path.rows.forEach((row, n) => {
    const [i, words] = [path.links[n + 1], row.map(([, each]) => each).join(" ")];
    if (partsOf(picture, i).some(({ element }) => element.cgvizWords === words)) return; // its arrow says it
    const shown = layer.appendChild(note(picture, links[i].target, [row], [], placed));
    if (!calm()) shown.animate({ opacity: [0, 0, 1] }, FADE * (n + 1));
  });
}

/** A sum with one more term, such as "3 + ..." with 6: "3 + 6 + ...". */
export const landedOn = (sum, term) => `${sum.replace(/…$/, "")}${term} + …`;

/** What flies: a number, or a bar for each entry of an array. */
function chip(number, bars) {
  const [width, height] = [(bars.length * BAR || number.length * DIGIT) + PAD, 22];
  const d = bars.map((bar, n) => `M${(n - (bars.length - 1) / 2) * BAR} 0v${-7 * bar || 0.5}`).join("");
  return s("g.chip", {}, s("rect", { x: -width / 2, y: -height / 2, width, height, rx: 9 }),
    d ? s("path", { d }) : s("text", { "text-anchor": "middle" }, number));
}

/** The letters of a row of [what it is, words], and of the spaces between them, if one is `space` letters wide. */
const lettersOf = (row, space) => row.reduce((letters, [, words]) => letters + words.length + space, 0);

/** A note with what an op made, or with the equations of its rule and leaders to what its locals depend on. */
function equations(picture, node, step) {
  const { value, note: rows, depends } = picture.page.panels[node];
  if (step <= 0) return note(picture, node, [[["value", `= ${value}`]]], []);
  const most = boxOf(picture, picture.box).width / DIGIT - 2; // letters
  const short = rows.filter((row) => lettersOf(row, 1) <= most);
  return note(picture, node, short.length ? short : [[["upstream", "upstream \u00b7 local"]]], depends ?? []);
}

/** Leave the equations of a step at its op, unless it is `hidden`, its arrows say them, or there is no space. */
export function stay(picture, step, hidden) {
  const { node, leave } = legs(picture.page.display, step);
  const said = ({ i }) => partsOf(picture, i).some(({ element }) => element.cgvizWords?.includes("\u00b7"));
  if (step <= 0 || node < 0 || hidden.has(node) || (leave.length && leave.every(said))) return;
  const shown = equations(picture, node, step);
  // The numbers that it hides tell more, unless it says that a rule is wrong.
  if (shown.cgvizHides && !shown.textContent.includes("\u2260")) return fill(picture.under);
  for (const each of [shown, ...picture.under.children]) toggle(each, "still", true);
  picture.layer.replaceChildren(shown);
}

/** The dots along the line of a part. */
const dots = (part) => (part.dots ??= Array.from({ length: Math.ceil(part.element.getTotalLength() / DOT) }, (_, n) => {
  const { x, y } = part.element.getPointAtLength(n * DOT);
  return { x, y, width: DOT, height: DOT, bad: LINE, part };
}));

/** What two boxes share, if the first is so much wider. */
function shared(a, b, wider = 0) {
  const [width, height] = [a.width + wider, a.height];
  const across = Math.min((width + b.width) / 2 - Math.abs(a.x - b.x), width, b.width);
  const down = Math.min((height + b.height) / 2 - Math.abs(a.y - b.y), height, b.height);
  return Math.max(across, 0) * Math.max(down, 0);
}

/** The place for a note at an op, in sight if that is: if possible it hides no words and no arrow of the moment. */
function placeFor(picture, { x, y, width, height }, [wide, tall], placed) {
  const { box, parts, page: { display } } = picture;
  const written = parts.filter(({ element }) => element.cgvizWords);
  const words = written.map(({ of, element }) => ({ ...boxOf(picture, element), bad: of === "node" ? NAME : NUMBER }));
  const lines = parts.filter(({ of, role }) => of === "link" && ["forward", "backward"].includes(role)).flatMap(dots);
  const taken = [...display.nodes, ...words, ...lines, ...placed];
  const spared = [...words, ...placed, ...lines.filter(({ part }) => part.current)];
  const seen = boxOf(picture, box);
  /** The middle of the note, along one axis, moved to where all of it is in sight, or else in the picture. */
  function within(wanted, length, at, middle, sight, all) {
    const [low, high] = Math.abs(at - middle) < sight / 2 ? [middle - sight / 2, middle + sight / 2] : [0, all];
    return Math.max(Math.min(wanted, high - length / 2 - 2), low + length / 2 + 2);
  }
  const [across, down] = [(width + wide) / 2 + 8, (height + tall) / 2 + 6];
  const rows = [y + down, y - down, y, y + down + tall + 3, y + down + 2 * (tall + 3)];
  const found = [x, x + across, x - across].flatMap((column) => rows.map((row) => {
    const middle = {
      x: within(column, wide, x, seen.x, seen.width, display.width),
      y: within(row, tall, y, seen.y, seen.height, display.height),
    };
    const place = { ...middle, width: wide, height: tall, bad: NAME };
    const costs = taken.map((each) => shared(place, each, 2 * RING) * (each.bad ?? 1));
    const far = FAR * Math.hypot(place.x - x, place.y - y);
    const hides = spared.some((each) => shared(place, each));
    return { ...place, hides, covered: costs.reduce((sum, cost) => sum + cost, far) };
  }));
  return found.reduce((best, each) => ((each.hides - best.hides || each.covered - best.covered) < 0 ? each : best));
}

/** Equations at an op, clear of notes already `placed`, with a leader to the value of each input in `positions`. */
function note(picture, node, rows, positions, placed = []) {
  const { under, parts, page: { display } } = picture;
  const letters = Math.max(...rows.map((row) => lettersOf(row, 0.5)));
  const place = placeFor(picture, display.nodes[node], [letters * DIGIT + 8, rows.length * ROW + 8], placed);
  placed.push(place);
  const { x: across, y: down } = display.nodes[node];
  under.append(s("path.tie", { d: `M${place.x} ${place.y}L${across} ${down}` }));
  const depends = ({ target, position }) => target === node && positions.includes(position);
  const values = parts.filter(({ of, i, role }) => of === "link" && role === "value" && depends(display.links[i]));
  const rings = values.map(({ element }) => {
    const { x, y, width, height } = boxOf(picture, element);
    const [left, top, bottom] = [x - width / 2, y - height / 2, y + height / 2];
    under.append(s("path.leader", { d: `M${place.x} ${place.y}L${x} ${place.y > top ? bottom + 2 : top - 2}` }));
    return s("rect.leader", { x: left - RING, y: top - 2, width: width + 2 * RING, height: height + 4, rx: 10 });
  });
  const { x, y, width, height, hides } = place;
  const top = y - ((rows.length - 1) / 2) * ROW;
  const lines = rows.map((row, n) => s("text", { x, y: top + n * ROW, "text-anchor": "middle" },
    ...row.map(([kind, words], nth) => s(`tspan.${kind}`, {}, nth ? ` ${words}` : words))));
  const rect = s("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 4 });
  return Object.assign(s("g.note", {}, ...rings, rect, ...lines), { cgvizHides: hides });
}
