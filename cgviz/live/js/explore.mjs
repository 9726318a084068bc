// Sliders, and the curves of f and of its derivatives over a slider.
import { built, fill, h, makeSlider, s, say, toggle } from "./dom.mjs";
import { nodeAt } from "./time.mjs";

const DRAG = 240; // pixels over which a node is dragged through the whole range of its slider
const PATIENCE = 8000; // milliseconds without an answer before that is said: a slow kernel answers sooner
const SETTLED = 180; // milliseconds without a move, after which all numbers and the curves are asked for

/** A number in so many significant digits, as Python writes it; whole numbers in full. */
export const number = (x, digits = 4) =>
  String(Number.isInteger(x) ? x : Number(x.toPrecision(digits))).replaceAll("-", "\u2212");

/** The one of these numbers that is nearest to x. */
export const nearest = (all, x) => all.reduce((best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best));

/** x as TensorFlow gets it, and as the slider says it: the nearest position, or multiple of its unit. */
function rounded({ low, high, positions, unit }, x) {
  if (positions) return nearest(positions, x);
  return Math.min(Math.max(Number((Math.round(x / unit) * unit).toPrecision(12)), low), high);
}

/** The sliders and curves of a view. Sends the newest values only, one message at a time. */
export function makeExplore(view) {
  const { doc: { sliders, kept, curves }, model } = view;
  let { points } = view.doc;
  const values = sliders.map((slider) => slider.value);
  let [busy, waiting, idle, late, sent] = [false, false, 0, 0, 0];
  let active = curves.active; // the slider that moves
  let [drawn, plots] = [active, []]; // the slider over which the curves are drawn, and their plots
  const rows = sliders.map(({ name, low, high, positions, unit, upstream }, k) => {
    const most = low + Math.ceil((high - low) / unit - 1e-9) * unit;
    const range = positions?.length > 1
      ? { max: positions.length - 1 }
      : { min: low, max: most, step: unit, disabled: Boolean(positions) };
    const row = makeSlider(name, range, (at) => move(k, positions?.[at] ?? at));
    toggle(row.element, "upstream", upstream);
    return row;
  });
  const [plotBox, note] = [h("div.plots"), h("p.none", { role: "status" })];
  const parts = [...rows.map((row) => row.element), note, kept && h("p.small", {}, kept.about)];
  const element = h("div.explore", {}, h("div.sliders", { role: "group", "aria-label": "Sliders" }, ...parts), plotBox);

  function show(k) {
    const { positions: at = [] } = sliders[k];
    const said = `${number(values[k])}${at.length === 1 ? ", fixed" : ""}`;
    rows[k].paint(at.length > 1 ? at.indexOf(values[k]) : values[k], said);
  }

  function move(k, value) {
    active = k;
    toggle(plotBox, "stale", active !== drawn);
    values[k] = rounded(sliders[k], value);
    show(k);
    clearTimeout(idle);
    if (busy) waiting = true;
    else send(false);
  }

  function send(settle) {
    busy = true;
    clearTimeout(late);
    late = setTimeout(() => tell("The kernel does not answer: is it busy, or was it restarted?"), PATIENCE);
    const open = view.state.selected ?? nodeAt(view.clock, view.state.step);
    model.send({ move: [...values], active, open, id: (sent += 1), settle });
  }

  /** Say what is wrong, if anything is; the numbers that are shown are then old. */
  function tell(words) {
    say(note, words && `${words} The numbers are those of the last values that worked.`);
    toggle(view.root, "old", words);
  }

  /** Show these curves, or keep those that are there, and put the points on them. */
  function draw(found) {
    if (found) {
      plots = found.plots.map(makePlot);
      fill(plotBox, ...plots.map((plot) => plot.element));
      drawn = found.active;
    }
    toggle(plotBox, "stale", active !== drawn);
    if (active === drawn) for (const plot of plots) plot.move(values[drawn], points);
  }

  /** Let the pointer drag the nodes of the sliders in a new picture; the keyboard has the sliders themselves. */
  function attach({ page: { display, panels }, items }) {
    sliders.forEach(({ name, low, high, positions }, k) => {
      const own = ({ kind, i }) => kind === "node" && display.nodes[i].kind === "input" && panels[i].title === name;
      const item = positions?.length !== 1 && items.find(own);
      if (!item) return;
      const { g, box: { x, y, width } } = item;
      for (const [sign, side] of [["\u25c2", -1], ["\u25b8", 1]]) {
        const at = { x: x + side * (width / 2 - 9), y, "text-anchor": "middle" };
        g.append(s("text.scrub.seen", { ...at, "aria-hidden": "true" }, sign));
      }
      toggle(g, "scrubbed", true);
      item.grab = (from = values[k]) => (pixels) => move(k, from + (pixels / DRAG) * (high - low));
    });
  }

  function receive(message) {
    busy = false;
    clearTimeout(late);
    tell(message.error ? `${message.error}.` : "");
    if (!message.error) {
      points = message.points;
      view.numbers(message);
      draw(message.curves);
    }
    element.dataset.moved = String(message.moved);
    if (waiting) send(false);
    else if (!message.settled) idle = setTimeout(() => send(true), SETTLED);
    waiting = false;
  }

  sliders.forEach((_, k) => show(k));
  draw(curves);
  return { element, attach, receive, busy: () => busy, stop: () => [idle, late].forEach(clearTimeout) };
}

/** One plot, as Python made it: curves over a slider, and points where their values are known. */
export function makePlot({ element: written, range: [x0, x1, y0, y1], roles }) {
  const element = built(written);
  const points = element.querySelector("g"); // for the line at x, and the points on it
  /** Mark x, and on the curves the `values` that are known there, by the curve's role. */
  const move = (x, values) => {
    const at = `${(100 * (x - x0)) / (x1 - x0)}%`;
    const known = roles.filter((role) => values[role] >= y0 && values[role] <= y1 && values[role] !== null);
    const height = (role) => `${(100 * (y1 - values[role])) / (y1 - y0)}%`;
    fill(points, s("line.now", { x1: at, x2: at, y1: "0%", y2: "100%" }),
      ...known.map((role) => s(`circle.dot.${role}`, { cx: at, cy: height(role), r: 5 })));
  };
  return { element, move };
}
