// Sliders: they send the newest values only, one message at a time.
import { plotInk } from "./curves.mjs";
import { h, say } from "./dom.mjs";
import { number } from "./numbers.mjs";

/** Sliders and curves. Sends the newest values only, one message at a time. */
export function exploreInk(id, doc) {
  const values = doc.sliders.map((slider) => slider.value);
  let busy = false;
  let waiting = false;
  let active = 0;
  let idle = 0;
  let sent = 0;
  let plots = [];
  let points = doc.points ?? {};
  let use = null;
  let model = null;
  const inputs = doc.sliders.map((slider, k) => h("input", {
    id: `${id}-slider-${k}`, type: "range", min: slider.low, max: slider.high, step: "any",
    value: slider.value, "aria-valuetext": number(slider.value),
  }));
  const readouts = doc.sliders.map((slider) => h("output", {}, number(slider.value)));
  const rowsOf = doc.sliders.map((slider, k) =>
    h(`div.slider${slider.upstream ? ".upstream" : ""}`, {}, h("label", { for: `${id}-slider-${k}` }, slider.name), inputs[k], readouts[k]));
  const plotBox = h("div.plots");
  const note = h("p.none", { role: "status" });
  const element = h("div.explore", {}, h("div.sliders", { role: "group", "aria-label": "Sliders" }, ...rowsOf, note), plotBox);

  /** To three digits of the range, so that the readout is what TensorFlow gets. */
  const nice = (k, x) => {
    const { low, high } = doc.sliders[k];
    const unit = 10 ** Math.floor(Math.log10((high - low) / 100));
    return Number((Math.round(x / unit) * unit).toPrecision(12));
  };

  function send(settle) {
    busy = true;
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
    plots = found.plots.map((plot) => plotInk(plot, found.xs, doc.sliders[found.active].name));
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
          input.setAttribute("aria-valuetext", number(values[k]));
          if (other) plotBox.classList.add("cgviz-stale");
          request();
        });
      });
    },
    receive(message) {
      busy = false;
      say(note, message.error ?? "");
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
    stop: () => clearTimeout(idle),
  };
}
