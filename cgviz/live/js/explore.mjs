// Sliders, and the curves of f and of its derivatives over a slider.
import { h, s, say } from "./dom.mjs";
import { number } from "./numbers.mjs";

const DRAG = 240; // pixels over which a node is dragged through the whole range of its slider
const PATIENCE = 8000; // milliseconds without an answer: a kernel that is slow answers within it

/** Sliders and curves. Sends the newest values only, one message at a time. */
export function makeExplore(id, doc) {
  const values = doc.sliders.map((slider) => slider.value);
  let busy = false;
  let waiting = false;
  let active = 0;
  let idle = 0;
  let late = 0;
  let sent = 0;
  let plots = [];
  let points = doc.points ?? {};
  let use = null;
  let model = null;
  const inputs = doc.sliders.map(({ low, high, value, positions }, k) => h("input", {
    id: `${id}-slider-${k}`, type: "range", "aria-valuetext": number(value),
    ...(positions ? { min: 0, max: positions.length - 1, value: positions.indexOf(value) } : { min: low, max: high, step: "any", value }),
  }));
  const nodes = []; // of the sliders that have one in the picture
  const readouts = doc.sliders.map((slider) => h("output", {}, number(slider.value)));
  const rowsOf = doc.sliders.map((slider, k) =>
    h(`div.slider${slider.upstream ? ".upstream" : ""}`, {}, h("label", { for: `${id}-slider-${k}` }, slider.name), inputs[k], readouts[k]));
  const plotBox = h("div.plots");
  const note = h("p.none", { role: "status" });
  const kept = doc.kept && h("p.small", {}, "Saved without a kernel, with the numbers at some positions of the sliders: ",
    doc.sliders.map(({ name, positions }) => `${positions.length} of ${name}`).join(", "), ".");
  const element = h("div.explore", {}, h("div.sliders", { role: "group", "aria-label": "Sliders" }, ...rowsOf, note, kept), plotBox);

  /** A value of a slider: to three digits of the range, so that the readout is what TensorFlow gets. */
  const nice = (k, x) => {
    const { low, high, positions } = doc.sliders[k];
    if (positions) return positions[x];
    const unit = 10 ** Math.floor(Math.log10((high - low) / 100));
    return Number((Math.round(x / unit) * unit).toPrecision(12));
  };

  /** Say what is wrong, if anything is; the numbers that are shown are then old. */
  function tell(words) {
    say(note, words && `${words} The numbers are those of the last values that worked.`);
    use.old(words !== "");
  }

  function send(settle) {
    busy = true;
    clearTimeout(late);
    late = setTimeout(() => tell("The kernel does not answer: is it busy, or was it restarted?"), PATIENCE);
    sent += 1;
    model.send({ move: [...values], active, open: use.open(), id: sent, settle });
  }

  function request() {
    clearTimeout(idle);
    if (busy) waiting = true;
    else send(false);
  }

  function later() {
    clearTimeout(idle);
    idle = setTimeout(() => (busy ? later() : send(true)), 180);
  }

  function movePoints() {
    for (const plot of plots) plot.move(values[active], points);
  }

  function curves(found) {
    plots = found.plots.map((plot) => makePlot(plot, found.xs, doc.sliders[found.active].name));
    plotBox.replaceChildren(...plots.map((plot) => plot.element));
    active = found.active;
    movePoints();
  }

  if (doc.curves) curves(doc.curves);
  return {
    element,
    curves,
    busy: () => busy,
    wire(on, model_, use_) {
      model = model_;
      use = use_;
      inputs.forEach((input, k) => {
        on(input, "input", () => {
          const other = active !== k;
          active = k;
          values[k] = nice(k, Number(input.value));
          say(readouts[k], number(values[k]));
          for (const each of [input, nodes[k]]) each?.setAttribute("aria-valuetext", number(values[k]));
          nodes[k]?.setAttribute("aria-valuenow", values[k]);
          if (other) plotBox.classList.add("cgviz-stale");
          request();
        });
      });
    },
    /** Make sliders of the nodes of numbers, too: dragged, or moved by the arrow keys. */
    scrub({ page: { display, panels }, items }, on) {
      doc.sliders.forEach(({ name, low, high }, k) => {
        const item = items.find(({ kind, i }) => kind === "node" && display.nodes[i].kind === "input" && panels[i].title === name);
        nodes[k] = item?.g;
        if (!item) return;
        const { x, y, width } = display.nodes[item.i];
        for (const [sign, side] of [["\u25c2", -1], ["\u25b8", 1]]) {
          item.g.append(s("text.scrub.seen", { x: x + side * (width / 2 - 9), y, "text-anchor": "middle", "aria-hidden": "true" }, sign));
        }
        const now = { role: "slider", "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": values[k], "aria-valuetext": number(values[k]) };
        for (const [key, value] of Object.entries(now)) item.g.setAttribute(key, value);
        item.move = (share, from = values[k]) => {
          inputs[k].value = from + share * (high - low);
          inputs[k].dispatchEvent(new Event("input"));
        };
        let from = null;
        on(item.g, "pointerdown", (event) => {
          item.g.setPointerCapture(event.pointerId);
          from = { x: event.clientX, value: values[k] };
        });
        on(item.g, "pointermove", (event) => from && item.move((event.clientX - from.x) / DRAG, from.value));
        for (const type of ["pointerup", "pointercancel"]) on(item.g, type, () => (from = null));
      });
    },
    receive(message) {
      busy = false;
      clearTimeout(late);
      tell(message.error ? `${message.error}.` : "");
      plotBox.classList.remove("cgviz-stale");
      if (!message.error) {
        points = message.points ?? {};
        use.numbers(message);
        if (message.curves) curves(message.curves);
        movePoints();
      }
      element.dataset.moved = String(message.moved);
      if (waiting) {
        waiting = false;
        send(false);
      } else if (!message.settled) later();
    },
    stop: () => [idle, late].forEach(clearTimeout),
  };
}

// --- curves ---

/** Round steps for an axis. */
export function ticks(low, high, about = 4) {
  const rough = (high - low) / about;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((m) => m >= 0.7 * rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

/** The range of a plot: all finite values, but not the last few of a pole. */
export function rangeOf(series) {
  const values = series.flat().filter((y) => y !== null && Number.isFinite(y)).sort((a, b) => a - b);
  if (!values.length) return [-1, 1];
  const cut = Math.floor(values.length * 0.02);
  let [low, high] = [values[cut], values[values.length - 1 - cut]];
  if (high - low < 1e-9 * Math.max(1, Math.abs(high))) [low, high] = [low - 1, high + 1];
  const margin = 0.08 * (high - low);
  return [low - margin, high + margin];
}

/** Whether a curve jumps to its point i, as at a pole: against its course on both sides, and further. */
export function jumps(ys, i) {
  const rise = (k) => (ys[k] ?? NaN) - (ys[k - 1] ?? NaN);
  const [before, jump, after] = [rise(i - 1), rise(i), rise(i + 1)];
  return before * jump < 0 && after * jump < 0 && Math.abs(jump) > Math.abs(before) + Math.abs(after);
}

/** The `d` of a curve; it breaks where there is no number, and where it jumps. */
export function curvePath(xs, ys, toX, toY) {
  let d = "";
  let pen = false;
  ys.forEach((y, i) => {
    if (y === null || !Number.isFinite(y)) pen = false;
    else {
      if (jumps(ys, i)) pen = false;
      d += `${pen ? "L" : "M"}${toX(xs[i]).toFixed(1)} ${toY(y).toFixed(1)}`;
      pen = true;
    }
  });
  return d;
}

/** The value of a curve at x, between its points. */
export function between(xs, ys, x) {
  const i = Math.min(Math.max(xs.findIndex((v) => v >= x), 1), xs.length - 1);
  const [a, b] = [ys[i - 1], ys[i]];
  if (a === null || b === null || a === undefined || b === undefined) return null;
  return a + ((b - a) * (x - xs[i - 1])) / (xs[i] - xs[i - 1]);
}

const PLOT = { width: 360, height: 190, right: 10, top: 10, bottom: 34 };
const LETTER = 7; // pixels: the width of a digit of a tick, and a little more

/** One plot: curves over a slider and a point on each. */
export function makePlot(plot, xs, axis) {
  const { width, height, right, top, bottom } = PLOT;
  const [x0, x1] = [xs[0], xs[xs.length - 1]];
  const [y0, y1] = rangeOf(plot.lines.map((l) => l.ys));
  const rowTicks = ticks(y0, y1);
  const left = Math.max(44, 12 + LETTER * Math.max(...rowTicks.map((y) => number(y, 3).length)));
  const toX = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const toY = (y) => top + ((y1 - Math.min(Math.max(y, y0 - (y1 - y0)), y1 + (y1 - y0))) / (y1 - y0)) * (height - top - bottom);
  const grid = [];
  for (const x of ticks(x0, x1)) {
    grid.push(s("path.grid", { d: `M${toX(x)} ${top}V${height - bottom}` }),
      s("text.tick", { x: toX(x), y: height - bottom + 14, "text-anchor": "middle" }, number(x, 3)));
  }
  for (const y of rowTicks) {
    grid.push(s("path.grid", { d: `M${left} ${toY(y)}H${width - right}` }),
      s("text.tick", { x: left - 5, y: toY(y) + 4, "text-anchor": "end" }, number(y, 3)));
  }
  const clip = { x: left, y: top, width: width - left - right, height: height - top - bottom };
  const frame = s("svg", { ...clip, viewBox: `${clip.x} ${clip.y} ${clip.width} ${clip.height}` });
  const dots = plot.lines.map((line) => {
    frame.append(s(`path.curve.${line.role}`, { d: curvePath(xs, line.ys, toX, toY) }));
    return s(`circle.dot.${line.role}`, { r: line.role === "rule" || line.role === "f" ? 5 : 3.5 });
  });
  const rule = s("path.now", {});
  const svg = s("svg.plot", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.title} over ${axis}` },
    ...grid, rule, frame, ...dots, s("text.tick", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, axis));
  const legend = h("ul.legend", {}, ...plot.lines.map((line) =>
    h("li", {}, swatch(line.role), line.name)));
  const move = (x, ys) => {
    rule.setAttribute("d", `M${toX(x)} ${top}V${height - bottom}`);
    plot.lines.forEach((line, k) => {
      const y = ys?.[line.role] ?? between(xs, line.ys, x);
      const shown = y !== null && Number.isFinite(y) && y >= y0 && y <= y1;
      dots[k].setAttribute("cx", toX(x));
      dots[k].setAttribute("cy", shown ? toY(y) : -50);
    });
  };
  return { element: h("figure.plotbox", {}, h("figcaption", {}, plot.title), svg, legend), move };
}

function swatch(role) {
  return s("svg.swatch", { viewBox: "0 0 26 10", "aria-hidden": "true" }, s(`path.curve.${role}`, { d: "M0 5H26" }));
}
