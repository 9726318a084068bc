// A training: its target over time, a map of its gradients, and a slider over the steps that were kept.
import { h, makeSlider, set, toggle, use } from "./dom.mjs";
import { makePlot, nearest } from "./explore.mjs";
import { makePlayer } from "./time.mjs";

const MOMENT = "step:"; // before the number of a step that was kept, as what is turned over
const BETWEEN = 800; // milliseconds from one step to the next: long enough to read a number

// By how many rows and columns the keys move in a map.
const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9] };

/** Where the keyboard is in a map of so many rows and columns after a key: [row, column]. */
export function roamed(place, key, ...sizes) {
  return MOVES[key]?.map((by, n) => Math.min(Math.max(place[n] + by, 0), sizes[n] - 1));
}

/** A map: a row for each op or variable, a column for each step. `open(step, name)` is asked for a cell. */
function makeMap({ columns, kept }, rows, name, open) {
  const cells = rows.map((row, i) => row.cells.map(([tone, sign, words], k) => {
    const text = `${row.name}, step ${columns[k]}: ${words}`;
    const share = tone === null ? {} : { "--cgviz-share": `${Math.round(6 + 94 * tone)}%` };
    const choose = () => open(nearest(kept, columns[k]), row.name);
    const onkeydown = (event) => {
      const to = roamed([i, k], event.key, cells.length, columns.length);
      const apart = event.ctrlKey || event.metaKey; // a key of the notebook or of the browser
      use(event, !apart && (to ? () => roam(to) : event.key === "Enter" && choose));
    };
    const tabindex = i || k ? -1 : 0;
    return h("td", { role: "gridcell", tabindex, "aria-label": text, title: text, onclick: choose, onkeydown, ...share }, sign);
  }));
  const roam = ([i, k]) => {
    cells.flat().forEach((each) => set(each, { tabindex: each === cells[i][k] ? 0 : -1 }));
    cells[i][k].focus();
  };
  const marks = columns.map((step) => h("td", { "aria-hidden": "true" }, kept.includes(step) && "\u25be"));
  const body = cells.map((row, i) => h("tr", {}, h("th", { scope: "row" }, rows[i].name), ...row));
  const table = h("table.map", { role: "grid", "aria-label": `${name}: Enter opens a step` },
    h("thead", {}, h("tr", {}, h("td"), ...marks)), h("tbody", {}, ...body));
  const paint = (step) => [marks, ...cells].forEach((row) => row.forEach((cell, k) => toggle(cell, "now", columns[k] === step)));
  return { element: h("figure.mapbox", {}, h("figcaption", {}, name), h("div.scroll", {}, table)), paint };
}

/** The part of the view that moves through the training. */
export function makeHistory(view) {
  const { cache, doc: { history: doc, names } } = view;
  const { kept, parted, signs, scale } = doc;
  const shown = () => Math.max(kept.findIndex((step) => cache.names.includes(MOMENT + step)), 0);
  const open = (step, then) => view.choose(MOMENT, step === kept[0] ? "" : MOMENT + step, then);
  const last = kept.length - 1;
  const go = (k) => open(kept[Math.min(Math.max(k, 0), last)]);
  const play = makePlayer(() => {
    if (shown() === last) return 0;
    go(shown() + 1);
    return BETWEEN;
  }, (playing) => set(button, { "aria-pressed": playing }));
  const start = () => {
    if (shown() === last) go(0);
    play(BETWEEN / 2);
  };
  const onclick = () => (button.ariaPressed === "true" ? play(0) : start());
  const button = h("button", { type: "button", "aria-pressed": "false", onclick }, "Play training");
  const slider = makeSlider("step of training", { max: last }, (k) => {
    play(0);
    go(k);
  });
  slider.element.prepend(button);
  const plot = doc.plot && makePlot(doc.plot, "step");
  const maps = doc.maps.map((rows, side) => {
    const title = names.length > 1 ? `gradients of ${names[side]}` : "gradients";
    return makeMap(doc, rows, title, (step, name) => open(step, () => view.goTo(side, name)));
  });
  const tones = [`log10 of the gradient per entry, from ${scale[0]} (pale) to ${scale[1]} (deep)`, ...signs];
  const element = h("div.history", { role: "group", "aria-label": "Training" }, slider.element, parted && h("p.parted", {}, parted),
    h("div.plots", {}, plot?.element, ...maps.map((map) => map.element)),
    h("p.none", {}, `Steps whose whole trace was kept, at which the slider stops: ${kept.join(", ")} (\u25be). Map: ${tones.join("; ")}.`));
  return {
    element,
    stop: () => play(0),
    paint() {
      const step = kept[shown()];
      slider.paint(shown(), doc.said[shown()]);
      if (plot) plot.move(step, doc.points[shown()]);
      maps.forEach((map) => map.paint(step));
    },
  };
}
