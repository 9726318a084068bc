// A training: its target over time, a map of its gradients, and a slider over the steps that were kept.
import { h, makeSlider, set, toggle } from "./dom.mjs";
import { makePlot, nearest } from "./explore.mjs";
import { makePlayer } from "./time.mjs";

const MOMENT = "step:"; // before the number of a step that was kept, as what is turned over
const BETWEEN = 800; // milliseconds from one step to the next: long enough to read a number

/** A map: a row for each op or variable, which `choose` shows, a column for each step. `open(step, name)` is asked for a cell. */
function makeMap({ columns, kept }, rows, caption, choose, open) {
  const cells = rows.map(({ name, cells: own }) => own.map(([tone, sign, words], k) => {
    const text = `${name}, step ${columns[k]}: ${words}`;
    const share = tone === null ? {} : { "--cgviz-share": `${Math.round(6 + 94 * tone)}%` };
    return h("td", { "aria-label": text, title: text, onclick: () => open(nearest(kept, columns[k]), name), ...share }, sign);
  }));
  const marks = columns.map((step) => h("td", { "aria-hidden": "true" }, kept.includes(step) && "\u25be"));
  const body = rows.map(({ name }, i) =>
    h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", onclick: () => choose(name) }, name)), ...cells[i]));
  const table = h("table.map", { "aria-label": caption }, h("thead", {}, h("tr", {}, h("td"), ...marks)), h("tbody", {}, ...body));
  const paint = (step) => [marks, ...cells].forEach((row) => row.forEach((cell, k) => toggle(cell, "now", columns[k] === step)));
  return { element: h("figure.mapbox", {}, h("figcaption", {}, caption), h("div.scroll", {}, table)), paint };
}

/** The part of the view that moves through the training. */
export function makeHistory(view) {
  const { cache, doc: { history: doc } } = view;
  const { kept, parted } = doc;
  const shown = () => Math.max(kept.findIndex((step) => cache.names.includes(MOMENT + step)), 0);
  const open = (step, then) => view.choose(MOMENT, step === kept[0] ? "" : MOMENT + step, then);
  const last = kept.length - 1;
  const play = makePlayer(() => {
    open(kept[shown() === last ? 0 : shown() + 1]);
    return shown() === last ? 0 : BETWEEN;
  }, (playing) => set(button, { "aria-pressed": playing }));
  const onclick = () => play(button.ariaPressed === "true" ? 0 : BETWEEN / 2);
  const button = h("button", { type: "button", "aria-pressed": "false", onclick }, "Play training");
  const slider = makeSlider("step of training", { max: last }, (k) => {
    play(0);
    open(kept[k]);
  });
  slider.element.prepend(button);
  const plot = doc.plot && makePlot(doc.plot);
  const maps = doc.maps.map(({ title, rows }, side) => {
    const choose = (name) => view.goTo(side, name);
    return makeMap(doc, rows, title, choose, (step, name) => open(step, () => choose(name)));
  });
  const element = h("div.history", { role: "group", "aria-label": "Training" }, slider.element, parted && h("p.parted", {}, parted),
    h("div.plots", {}, plot?.element, ...maps.map((map) => map.element)),
    h("p.none", {}, doc.about));
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
