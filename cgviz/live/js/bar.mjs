// The bar: time, speed, pass, colour, zoom; and the legend.
import { h, s, say, toggle } from "./dom.mjs";
import { number } from "./numbers.mjs";
import { SEED, moments } from "./time.mjs";

const ICONS = {
  first: "M2 2V12M8 2L3 7L8 12ZM14 2L9 7L14 12Z",
  back: "M4 2V12M12 2L5 7L12 12Z",
  play: "M4 1.5L13 7L4 12.5Z",
  pause: "M4 2H6V12H4ZM9 2H11V12H9Z",
  forward: "M12 2V12M4 2L11 7L4 12Z",
  last: "M14 2V12M2 2L7 7L2 12ZM8 2L13 7L8 12Z",
};

const icon = (d) => s("svg.icon", { viewBox: "0 0 16 14", "aria-hidden": "true" }, s("path", { d }));

/** The bar: time, speed, pass, colour, zoom. */
export function makeBar(doc) {
  const button = (words, sign) => h("button", { type: "button", title: words, "aria-label": words }, sign);
  const first = button("To the start", icon(ICONS.first));
  const back = button("One step back", icon(ICONS.back));
  const play = button("Play", icon(ICONS.play));
  const forward = button("One step forward", icon(ICONS.forward));
  const last = button("To the end", icon(ICONS.last));
  const seek = h("input", { type: "range", min: 0, step: 1, "aria-label": "Moment" });
  const where = h("span.where", { "aria-hidden": "true" });
  const speed = h("select", { "aria-label": "Speed" },
    ...[0.5, 1, 2, 4].map((v) => h("option", { value: v, selected: v === 1 }, `${number(v)}\u00d7`)));
  const passes = doc.passes.length > 1
    ? h("select", { "aria-label": "Backward pass" }, ...doc.passes.map((words, i) => h("option", { value: i, selected: i === doc.which }, words)))
    : null;
  const colour = h("button", { type: "button", "aria-pressed": "false", title: "Width and colour of the arrows by the size of the gradient" }, "Magnitude");
  const zoomOut = button("Zoom out", "\u2212");
  const zoomIn = button("Zoom in", "+");
  const fit = h("button", { type: "button", title: "All of it in sight" }, "Fit");
  const wide = h("button", { type: "button", "aria-pressed": "false", title: "The picture over the full width" }, "Full width");
  const present = h("button", { type: "button", title: "The picture over the whole screen: F" }, "Present");
  const fold = h("button", { type: "button", title: "Scopes and custom ops as they were at first" }, "Reset");
  fold.hidden = true;
  const undo = h("button.later", { type: "button", title: "Take back the last fold or zoom (Ctrl+Z)" }, "Undo");
  const kinds = ["SVG", "PNG", ...(doc.latex?.length && !doc.quiz && !doc.sliders && !doc.history ? ["LaTeX"] : []), ...(doc.linked ? ["Link"] : [])];
  const copy = h("select", { "aria-label": "Copy" }, h("option", { value: "" }, "Copy\u2026"), ...kinds.map((kind) => h("option", {}, kind)));
  const element = h("div.bar", { role: "group", "aria-label": "Time and picture" },
    h("div.group", {}, first, back, play, forward, last), seek, where,
    h("div.group", {}, speed, passes), h("div.group", {}, undo, fold, doc.quiz ? null : colour, zoomOut, zoomIn, fit, wide, present, copy));
  return {
    element,
    forward,
    wire(on, run) {
      for (const [target, name] of [[first, "first"], [back, "back"], [play, "play"], [forward, "forward"], [last, "last"],
        [colour, "colour"], [zoomIn, "zoomIn"], [zoomOut, "zoomOut"], [fit, "fit"], [wide, "wide"], [present, "present"], [fold, "fold"], [undo, "undo"]]) {
        on(target, "click", run[name]);
      }
      on(seek, "input", () => run.seek(Number(seek.value)));
      on(copy, "change", () => {
        run.copy(copy.value);
        copy.value = "";
      });
      on(speed, "change", () => run.speed(Number(speed.value)));
      if (passes) on(passes, "change", () => run.which(Number(passes.value)));
    },
    /** Whether there is something to take back. */
    past: (some) => toggle(undo, "later", !some),
    paint(state, display, cache) {
      const every = moments(display);
      const place = every.indexOf(state.step);
      if (Number(seek.max) !== every.length - 1) seek.max = every.length - 1;
      if (Number(seek.value) !== place) seek.value = place;
      const words = state.step <= 0
        ? `forward ${display.forward.length + state.step} of ${display.forward.length}`
        : state.step === SEED ? "the backward pass starts" : `backward step ${state.step} of ${display.steps}`;
      seek.setAttribute("aria-valuetext", words);
      say(where, words);
      for (const [target, off] of [[first, place <= 0], [back, place <= 0], [forward, place >= every.length - 1], [last, place >= every.length - 1]]) {
        target.setAttribute("aria-disabled", String(off));
      }
      const words_ = state.playing ? "Pause" : "Play";
      if (play.title !== words_) {
        play.title = words_;
        play.setAttribute("aria-label", words_);
        play.replaceChildren(icon(ICONS[words_.toLowerCase()]));
      }
      colour.setAttribute("aria-pressed", String(state.colour));
      wide.setAttribute("aria-pressed", String(state.wide));
      fold.hidden = !cache.toggled.size;
      if (passes && Number(passes.value) !== cache.which) passes.value = cache.which;
    },
  };
}

/** What the lines and colours mean. */
export function makeLegend(display) {
  const ways = { forward: ["M0 5H28", "M34 5L26 8.3V1.7Z"], backward: ["M34 5H6", "M0 5L8 8.3V1.7Z"] };
  const sample = (words, role) => h("li", {}, s("svg.swatch", { viewBox: "0 0 34 10", "aria-hidden": "true" },
    s(`path.${role}`, { d: ways[role][0] }), s(`path.${role}-head`, { d: ways[role][1] })), words);
  const usual = display.legend.map(([role, words]) => sample(words, role));
  const sizes = [["vanishing", "below 10\u207b\u2076"], ["tiny", "10\u207b\u2076"], ["small", "10\u207b\u2074"], ["usual", "around 1"],
    ["large", "10\u00b2"], ["huge", "10\u2074"], ["exploding", "above 10\u2076"]].map(([name, words]) => {
    const item = sample(`${name} ${words}`, "backward");
    item.dataset.size = name;
    item.classList.add("cgviz-sizeitem");
    return item;
  });
  const differs = h("li", {}, "\u2260 differs from the other picture");
  const element = h("ul.legend.under", {}, ...usual, differs, ...sizes);
  return {
    element,
    paint(state, pages) {
      differs.hidden = pages.length < 2;
      for (const item of sizes) item.hidden = !state.colour;
    },
  };
}
