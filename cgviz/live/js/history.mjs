// A training: its target over time, a map of its gradients, and a slider over the steps that were kept.
import { h, say, toggle } from "./dom.mjs";
import { makePlot } from "./explore.mjs";
import { number } from "./numbers.mjs";

const BETWEEN = 800; // milliseconds from one step to the next: long enough to read a number

/** Of the steps that were kept, the one nearest to `step`. */
export const nearestStep = (kept, step) =>
  kept.reduce((best, each) => (Math.abs(each - step) < Math.abs(best - step) ? each : best));

/** A step in words, as a screen reader says it. */
export function stepWords({ steps, lines, last }, step) {
  const k = steps.indexOf(step);
  const targets = lines.map(({ name, ys }) => `${name} ${ys[k] === null ? "not finite" : number(ys[k])}`);
  return `step ${step} of ${last}, ${lines.length > 1 ? "target of " : ""}${targets.join(", ")}`;
}

/** Where the keyboard is in a map after a key: [row, column]. */
export function roamed([row, column], key, rows, columns) {
  const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -columns], End: [0, columns] };
  if (!(key in moves)) return null;
  const within = (x, size) => Math.min(Math.max(x, 0), size - 1);
  return [within(row + moves[key][0], rows), within(column + moves[key][1], columns)];
}

/** A map: a row for each op or variable, a column for each step. `open(step, name)` is asked for a cell. */
function makeMap(doc, rows, name, open, on) {
  const cells = rows.map((row) => row.cells.map(([tone, sign, words], k) => {
    const text = `${row.name}, step ${doc.columns[k]}: ${words}`;
    const cell = h("td", { role: "gridcell", tabindex: -1, "aria-label": text, title: text }, sign);
    if (tone !== null) cell.style.setProperty("--cgviz-share", `${Math.round(6 + 94 * tone)}%`);
    return cell;
  }));
  cells[0]?.[0].setAttribute("tabindex", 0);
  const marks = doc.columns.map((step) => h("td", { "aria-hidden": "true" }, doc.kept.includes(step) ? "\u25be" : ""));
  const body = h("tbody", {}, ...cells.map((row, i) => h("tr", {}, h("th", { scope: "row" }, rows[i].name), ...row)));
  const table = h("table.map", { role: "grid", "aria-label": `${name}: Enter opens a step` },
    h("thead", {}, h("tr", {}, h("td"), ...marks)), body);
  const placeOf = ({ target }) => {
    const row = cells.findIndex((each) => each.includes(target));
    return [row, cells[row]?.indexOf(target)];
  };
  const choose = ([row, column]) => row >= 0 && open(nearestStep(doc.kept, doc.columns[column]), rows[row].name);
  on(table, "click", (event) => choose(placeOf(event)));
  on(table, "keydown", (event) => {
    const place = placeOf(event);
    if (place[0] < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = roamed(place, event.key, cells.length, doc.columns.length);
    if (!to && event.key !== "Enter") return;
    if (to) {
      const [from, cell] = [place, to].map(([row, column]) => cells[row][column]);
      from.setAttribute("tabindex", -1);
      cell.setAttribute("tabindex", 0);
      cell.focus();
    } else choose(place);
    event.preventDefault();
    event.stopPropagation();
  });
  const paint = (step) => [marks, ...cells].forEach((row) => row.forEach((cell, k) => toggle(cell, "now", doc.columns[k] === step)));
  return { element: h("figure.mapbox", {}, h("figcaption", {}, name), h("div.scroll", {}, table)), paint };
}

/** The part of the view that moves through the training; `open(step, name, side)` shows a step that was kept. */
export function makeHistory(id, doc, names, on, open) {
  const { kept, lines, parted, signs, scale } = doc;
  let [at, timer] = [kept[0], undefined];
  const slider = h("input", { id: `${id}-training`, type: "range", min: 0, max: kept.length - 1, step: 1, value: 0 });
  const play = h("button", { type: "button", "aria-pressed": "false" }, "Play training");
  const where = h("output", { "aria-hidden": "true" });
  const plot = doc.steps.length > 1 ? makePlot({ title: "target", lines }, doc.steps, "step") : null;
  const maps = doc.maps.map((rows, side) => makeMap(doc, rows, lines.length > 1 ? `gradients of ${names[side]}` : "gradients", (step, name) => open(step, name, side), on));
  const tones = [`log10 of the gradient per entry, from ${scale[0]} (pale) to ${scale[1]} (deep)`, ...signs];
  const note = `Steps whose whole trace was kept, at which the slider stops: ${kept.join(", ")} (\u25be). Map: ${tones.join("; ")}.`;
  const element = h("div.history", { role: "group", "aria-label": "Training" },
    h("div.slider", {}, play, h("label", { for: slider.id }, "step of training"), slider, where),
    parted ? h("p.parted", {}, parted) : null,
    h("div.plots", {}, plot?.element, ...maps.map((map) => map.element)), h("p.none", {}, note));
  const stop = () => {
    timer = clearTimeout(timer);
    play.setAttribute("aria-pressed", "false");
  };
  const go = (place) => open(kept[Math.min(Math.max(place, 0), kept.length - 1)]);
  const tick = () => {
    if (at === kept.at(-1)) return stop();
    go(kept.indexOf(at) + 1);
    timer = setTimeout(tick, BETWEEN);
  };
  on(slider, "input", () => [stop(), go(Number(slider.value))]);
  on(play, "click", () => {
    if (timer) return stop();
    play.setAttribute("aria-pressed", "true");
    if (at === kept.at(-1)) go(0);
    timer = setTimeout(tick, BETWEEN / 2);
  });
  return {
    element,
    stop,
    /** So many of the steps that were kept further, or back. */
    by: (count) => go(kept.indexOf(at) + count),
    paint(moment) {
      at = moment ? Number(moment.slice(5)) : kept[0];
      slider.value = kept.indexOf(at);
      slider.setAttribute("aria-valuetext", stepWords(doc, at));
      say(where, stepWords(doc, at));
      plot?.move(at);
      maps.forEach((map) => map.paint(at));
    },
  };
}
