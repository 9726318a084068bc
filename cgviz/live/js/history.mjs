// A training: its target over time, a map of its gradients, and a slider over the steps that were kept.
import { built, h, makeSlider, set, toggle } from "./dom.mjs";
import { makePlot, nearest } from "./explore.mjs";
import { makePlayer } from "./time.mjs";

const MOMENT = "step:"; // before the number of a kept step: the name by which it is turned over
const BETWEEN = 800; // milliseconds from one step to the next: long enough to read a number

export function makeHistory(view) {
  const { cache, doc: { history: doc, history: { kept, parted } } } = view;
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
  // In a map, a click chooses the op or variable of its row, and opens the step of its column.
  const maps = doc.maps.map((map, side) => Object.assign(built(map), {
    onclick({ target }) {
      const [{ name } = {}, { step } = {}] = ["tr", "td"].map((tag) => target.closest(tag)?.dataset);
      if (step) open(nearest(kept, step), () => view.goTo(side, name));
      else if (target.closest("button")) view.goTo(side, name);
    },
  }));
  const element = h("div.history", { role: "group", "aria-label": "Training" }, slider.element,
    parted && h("p.parted", {}, parted), h("div.plots", {}, plot?.element, ...maps), h("p.none", {}, doc.about));
  const where = () => doc.said[shown()];
  function paint() {
    const step = kept[shown()];
    slider.paint(shown(), where());
    if (plot) plot.move(step, doc.points[shown()]);
    for (const cell of element.querySelectorAll("td")) toggle(cell, "now", Number(cell.dataset.step) === step);
  }
  return { element, where, paint, stop: () => play(0) };
}
