// A training: its target over time, a map of its gradients, and a slider over the steps that were kept.
import { h, say, set, toggle } from "./dom.mjs";
import { makePlot, nearest } from "./explore.mjs";
import { number } from "./numbers.mjs";

const BETWEEN = 800; // milliseconds from one step to the next: long enough to read a number

/** A step in words, as a screen reader says it. */
export function stepWords({ steps, lines, last }, step) {
  const k = steps.indexOf(step);
  const targets = lines.map(({ name, ys }) => `${name} ${ys[k] === null ? "not finite" : number(ys[k])}`);
  return `step ${step} of ${last}, ${lines.length > 1 ? "target of " : ""}${targets.join(", ")}`;
}

const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9] }; // rows and columns

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
      if ((!to && event.key !== "Enter") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (to) roam(cells[to[0]][to[1]]);
      else choose();
      event.preventDefault();
      event.stopPropagation();
    };
    return h("td", { role: "gridcell", tabindex: i || k ? -1 : 0, "aria-label": text, title: text, onclick: choose, onkeydown, ...share }, sign);
  }));
  const roam = (cell) => {
    cells.flat().forEach((each) => set(each, { tabindex: each === cell ? 0 : -1 }));
    cell.focus();
  };
  const marks = columns.map((step) => h("td", { "aria-hidden": "true" }, kept.includes(step) ? "\u25be" : ""));
  const table = h("table.map", { role: "grid", "aria-label": `${name}: Enter opens a step` }, h("thead", {}, h("tr", {}, h("td"), ...marks)),
    h("tbody", {}, ...cells.map((row, i) => h("tr", {}, h("th", { scope: "row" }, rows[i].name), ...row))));
  const paint = (step) => [marks, ...cells].forEach((row) => row.forEach((cell, k) => toggle(cell, "now", columns[k] === step)));
  return { element: h("figure.mapbox", {}, h("figcaption", {}, name), h("div.scroll", {}, table)), paint };
}

/** The part of the view that moves through the training; `open(step, name, side)` shows a step that was kept. */
export function makeHistory(id, doc, names, open) {
  const { kept, lines, parted, signs, scale } = doc;
  let [at, timer] = [kept[0], 0];
  const go = (place) => open(kept[Math.min(Math.max(place, 0), kept.length - 1)]);
  const stop = () => {
    timer = clearTimeout(timer);
    set(play, { "aria-pressed": "false" });
  };
  const tick = () => {
    if (at === kept.at(-1)) return stop();
    go(kept.indexOf(at) + 1);
    timer = setTimeout(tick, BETWEEN);
  };
  const start = () => {
    set(play, { "aria-pressed": "true" });
    if (at === kept.at(-1)) go(0);
    timer = setTimeout(tick, BETWEEN / 2);
  };
  const slider = h("input", { id: `${id}-training`, type: "range", min: 0, max: kept.length - 1, step: 1, value: 0, oninput: () => [stop(), go(Number(slider.value))] });
  const play = h("button", { type: "button", "aria-pressed": "false", onclick: () => (timer ? stop() : start()) }, "Play training");
  const where = h("output", { "aria-hidden": "true" });
  const plot = doc.steps.length > 1 ? makePlot({ title: "target", lines, poles: false }, doc.steps, "step") : null;
  const maps = doc.maps.map((rows, side) => makeMap(doc, rows, lines.length > 1 ? `gradients of ${names[side]}` : "gradients", (step, name) => open(step, name, side)));
  const tones = [`log10 of the gradient per entry, from ${scale[0]} (pale) to ${scale[1]} (deep)`, ...signs];
  const note = `Steps whose whole trace was kept, at which the slider stops: ${kept.join(", ")} (\u25be). Map: ${tones.join("; ")}.`;
  const element = h("div.history", { role: "group", "aria-label": "Training" },
    h("div.slider", {}, play, h("label", { for: slider.id }, "step of training"), slider, where),
    parted ? h("p.parted", {}, parted) : null,
    h("div.plots", {}, plot?.element, ...maps.map((map) => map.element)), h("p.none", {}, note));
  return {
    element,
    stop,
    /** So many of the steps that were kept further, or back. */
    by: (count) => go(kept.indexOf(at) + count),
    paint(moment) {
      at = moment ? Number(moment.slice(5)) : kept[0];
      const words = stepWords(doc, at);
      slider.value = kept.indexOf(at);
      set(slider, { "aria-valuetext": words });
      say(where, words);
      plot?.move(at, Object.fromEntries(lines.map(({ role, ys }) => [role, ys[doc.steps.indexOf(at)]])));
      maps.forEach((map) => map.paint(at));
    },
  };
}
