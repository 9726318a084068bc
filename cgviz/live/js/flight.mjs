// The flight: numbers come to the op of a moment, are multiplied there, and fly on along the lines of the picture.
//
// The picture is painted in its final state at once. All that moves lies on top or fades in, so to land is to cancel.
import { boxOf } from "./camera.mjs";
import { fill, s, toggle } from "./dom.mjs";
import { makeText, mark, write } from "./picture.mjs";
import { nodeAt, previous, textAt } from "./time.mjs";

export const DURATION = 1800; // milliseconds at speed 1: time to read two numbers and their product
const FADE = 300; // milliseconds, for those who want no motion
const [COME, LEAVE, LANDED] = [0.34, 0.56, 0.94]; // shares of the duration: when all have come, the first leaves, the last lands
const APART = 0.12; // share between two landings, so that the terms of a sum come one by one
const [DRAWN, READ] = [0.1, 0.06]; // shares: lines appear this long after the first leaves; equations, before all have come
const [APPEAR, BRIEF] = [0.92, 0.1]; // shares: of its time, when a held element fades in; of theirs, how long equations fade in and out
const BESIDE_LABEL = "45%"; // of a line: where a number starts whose label is at the middle
const MOST = 24; // chips: more cannot be followed
const [NAME, NUMBER, LINE, FAR] = [1000, 50, 5, 4]; // costs of a note: over a name or note, a number, a line, per point from its op
// Points: a little more than a digit of 13 points is wide; from one equation to the next; from one dot of a line to the next.
const [DIGIT, ROW, DOT] = [8.4, 19, 12];
const [PAD, BAR, RING] = [12, 5, 7]; // points: around the words of a chip; from one bar of a strip to the next; beside a ringed value

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
  for (const each of [picture.layer, picture.under]) fill(each);
  toggle(picture.svg, "tracing", false);
  Object.assign(picture, { flight: null, lit: null });
}

/** Let the numbers of a moment fly; `hidden` are the nodes whose numbers must not be told. Returns the duration in milliseconds. */
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
  /** Hide an element of the final picture until a moment of the flight. */
  const hold = (element, end) => animate(element, [{ opacity: 0 }, { opacity: 0, offset: still ? 0 : APPEAR }, { opacity: 1 }], 0, end);

  /** Send a chip along a line, with only the result of a product: from beside its label, at the middle of most lines, or from the op. */
  function send({ i }, leg, start, end) {
    const [[line], [label]] = [of(i, role), of(i, says)];
    const token = chip((label?.element.cgvizWords || texts.links[i][says]).replace(/^.* [=\u2248\u2260] /, ""), texts.links[i].strips[says]);
    Object.assign(token.dataset, { link: i, leg });
    layer.append(token);
    token.style.offsetPath = `path("${line.element.getAttribute("d")}")`;
    const from = leg === "come" && label ? BESIDE_LABEL : "0%";
    animate(token, [{ opacity: 1, offsetDistance: from }, { opacity: 1, offsetDistance: "100%" }], start, end, "ease-in-out");
  }

  if (!still && come.length + leave.length <= MOST) {
    come.forEach((path) => send(path, "come", 0, COME));
    leave.forEach((path, n) => send(path, "leave", first + n * apart, landing(n)));
  }
  leave.forEach(({ i }, n) => {
    of(i, role, `${role}-head`).forEach(({ element }) => hold(element, first + DRAWN));
    of(i, says).forEach(({ element }) => hold(element, landing(n)));
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
      write(text, words);
      if (!still) animate(text, [{ opacity: 1 }, { opacity: 1 }], since, landing(n));
      words = landedOn(words, texts.links[leave[n].i].gradient);
      since = landing(n);
    }
  }
  if (!still && node >= 0 && come.length && !hidden.has(node)) {
    layer.prepend(equations(picture, node, step));
    const frames = [{ opacity: 0 }, { opacity: 1, offset: BRIEF }, { opacity: 1, offset: 1 - BRIEF }, { opacity: 0 }];
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
    if (picture.parts.some((part) => part.of === "link" && part.i === i && part.element.cgvizWords === words)) return; // its arrow says it
    const shown = layer.appendChild(note(picture, links[i].target, [row], [], placed));
    if (!calm()) shown.animate([{ opacity: 0 }, { opacity: 0 }, { opacity: 1 }], FADE * (n + 1));
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

/** A note with what an op made at a moment, or with the equations of its rule, and leaders to what its local derivatives depend on. */
function equations(picture, node, step) {
  const { value, note: rows, depends } = picture.page.panels[node];
  if (step <= 0) return note(picture, node, [[["value", `= ${value}`]]], []);
  const most = boxOf(picture, picture.box).width / DIGIT - 2; // letters
  const short = rows.filter((row) => row.reduce((letters, [, words]) => letters + words.length + 1, 0) <= most);
  return note(picture, node, short.length ? short : [[["upstream", "upstream \u00b7 local"]]], depends ?? []);
}

/** Leave the equations of a step at its op, unless it is one of the `hidden`, its arrows say them, or there is no space. */
export function stay(picture, step, hidden) {
  const { node, leave } = legs(picture.page.display, step);
  const said = ({ i }) => picture.parts.some((part) => part.of === "link" && part.i === i && part.element.cgvizWords?.includes("\u00b7"));
  if (step <= 0 || node < 0 || hidden.has(node) || (leave.length && leave.every(said))) return;
  const shown = equations(picture, node, step);
  if (shown.cgvizHides && !shown.textContent.includes("\u2260")) return fill(picture.under); // the numbers that it hides tell more
  for (const each of [shown, ...picture.under.children]) toggle(each, "still", true);
  picture.layer.replaceChildren(shown);
}

/** The dots along the line of a part. */
const dots = (part) => (part.dots ??= [...Array(Math.ceil(part.element.getTotalLength() / DOT)).keys()].map((n) => {
  const { x, y } = part.element.getPointAtLength(n * DOT);
  return { x, y, width: DOT, height: DOT, bad: LINE, part };
}));

/** The place for a note of this size at an op, in sight if the op is: one that hides no words and no arrow of the moment, if there is, covers least and is not far off. */
function placeFor(picture, { x, y, width, height }, [wide, tall], placed) {
  const { box, parts, page: { display } } = picture;
  const [across, down] = [(width + wide) / 2 + 8, (height + tall) / 2 + 6];
  const words = parts.filter(({ element }) => element.cgvizWords).map(({ of, element }) => ({ ...boxOf(picture, element), bad: of === "node" ? NAME : NUMBER }));
  const lines = parts.filter(({ of, role }) => of === "link" && ["forward", "backward"].includes(role)).flatMap(dots);
  const taken = [...display.nodes, ...words, ...lines, ...placed];
  const spared = [...words, ...placed, ...lines.filter(({ part }) => part.current)];
  const seen = boxOf(picture, box);
  const sight = (at, middle, length, all) => (Math.abs(at - middle) < length / 2 ? [middle - length / 2, middle + length / 2] : [0, all]);
  const [left, right] = sight(x, seen.x, seen.width, display.width);
  const [top, bottom] = sight(y, seen.y, seen.height, display.height);
  const within = (at, length, low, high) => Math.max(Math.min(at, high - length / 2 - 2), low + length / 2 + 2);
  const common = (at, length, other, its) => Math.max(Math.min((length + its) / 2 - Math.abs(at - other), length, its), 0);
  const found = [x, x + across, x - across].flatMap((column) => [y + down, y - down, y, y + down + tall + 3, y + down + 2 * (tall + 3)].map((row) => {
    const place = { x: within(column, wide, left, right), y: within(row, tall, top, bottom), width: wide, height: tall, bad: NAME };
    const share = (each, spare) => common(place.x, wide + spare, each.x, each.width) * common(place.y, tall, each.y, each.height);
    place.hides = spared.some((each) => share(each, 0));
    return { ...place, covered: taken.reduce((sum, each) => sum + share(each, 2 * RING) * (each.bad ?? 1), FAR * Math.hypot(place.x - x, place.y - y)) };
  }));
  return found.reduce((best, each) => ((each.hides - best.hides || each.covered - best.covered) < 0 ? each : best));
}

/** Equations at an op, clear of notes already `placed`, with a leader to the value of each input whose position is listed. */
function note(picture, node, rows, positions, placed = []) {
  const { under, parts, page: { display } } = picture;
  const letters = Math.max(...rows.map((row) => row.reduce((sum, [, words]) => sum + words.length + 0.5, 0))); // a space is half as wide
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
  const lines = rows.map((row, n) => s("text", { x: place.x, y: place.y + (n - (rows.length - 1) / 2) * ROW, "text-anchor": "middle" },
    ...row.map(([kind, words], nth) => s(`tspan.${kind}`, {}, nth ? ` ${words}` : words))));
  const { x, y, width, height } = place;
  const shown = s("g.note", {}, ...rings, s("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 4 }), ...lines);
  return Object.assign(shown, { cgvizHides: place.hides });
}
