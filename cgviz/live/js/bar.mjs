// What a view can do, in one table: the buttons of the bar, the keys, and the help that lists them.
import { h, makeSlider, s, say, set, toggle, use } from "./dom.mjs";
import { take } from "./take.mjs";
import { SEED, moments, next, previous } from "./time.mjs";

const atStart = ({ clock, state }) => previous(clock, state.step) === state.step;
const atEnd = ({ clock, state }) => next(clock, state.step) === state.step;

/**
 * Each action: its name; its group of the bar, with the `icon` or the `sign` of its button and a `title` where the
 * name is too short; its keys; what it does to a view, and the item that has the focus; whether its button is `off`
 * now; and which views have it.
 */
const ACTIONS = [
  { name: "To the start", group: "time", icon: "M2 2V12M8 2L3 7L8 12ZM14 2L9 7L14 12Z", keys: ["Home", "r"], off: atStart, run: (view) => view.go(-Infinity) },
  { name: "One step back", group: "time", icon: "M4 2V12M12 2L5 7L12 12Z", keys: ["ArrowLeft", "ArrowUp"], off: atStart,
    run: (view) => view.go(previous(view.clock, view.state.step)) },
  { name: "Play", group: "time", icon: "M4 1.5L13 7L4 12.5Z", keys: [" "],
    run: (view) => (view.state.presenting ? view.advance() : view.playOrPause()) },
  { name: "One step forward", group: "time", icon: "M12 2V12M4 2L11 7L4 12Z", keys: ["ArrowRight", "ArrowDown"], off: atEnd, run: (view) => view.advance() },
  { name: "To the end", group: "time", icon: "M14 2V12M2 2L7 7L2 12ZM8 2L13 7L8 12Z", keys: ["End"], off: atEnd, run: (view) => view.go(Infinity) },
  { name: "Later of repeats or of a training", keys: ["]"], run: (view) => (view.history ?? view.repeats).by(1) },
  { name: "Earlier of repeats or of a training", keys: ["["], run: (view) => (view.history ?? view.repeats).by(-1) },
  { name: "Find", group: "picture", title: "An op, a variable or a scope, by |gradient|", keys: ["/"], has: ({ doc }) => !doc.quiz && !doc.sliders,
    run: (view) => view.search.show(true) },
  { name: "Undo", group: "picture", title: "Take back the last fold, zoom or drag", keys: ["Ctrl+z"], off: (view) => !view.past.length, run: (view) => view.undo() },
  { name: "Zoom out", group: "picture", sign: "\u2212", keys: ["-"], run: (view) => view.zoom(0.8) },
  { name: "Zoom in", group: "picture", sign: "+", keys: ["+", "="], run: (view) => view.zoom(1.25) },
  { name: "Fit", group: "picture", title: "All of it in sight", keys: ["0"], run: (view) => view.showAll() },
  { name: "Present", group: "picture", title: "The picture over the whole screen", keys: ["f"], run: (view) => view.present(!view.state.presenting) },
  { name: "Numbers off and on", keys: ["b"], run: (view) => view.set({ blank: !view.state.blank }) },
  { name: "Its details", keys: ["Enter"], run: (view, item) => item && view.press(item) },
  { name: "Open or close it", keys: ["o"], run: (view, item) => item && view.turnOver(item.name) },
  { name: "Leave", keys: ["Escape"], run: (view) => view.leave() },
  { name: "These keys", keys: ["?"], run: (view) => view.set({ help: !view.state.help }) },
];

const SIGNS = { " ": "Space", ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193" };
const PAUSED = "M4 2H6V12H4ZM9 2H11V12H9Z";

/** What a view can do. */
export const actionsOf = (view) => ACTIONS.filter(({ has }) => !has || has(view));

/** Do what a key means, unless what has the focus has its own use for it. */
export function press(view, event) {
  const { key, target } = event;
  if (target.closest("input, select") || ([" ", "Enter"].includes(key) && target.closest("button, summary"))) return;
  const name = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (key.length === 1 ? key.toLowerCase() : key);
  const action = view.actions.find(({ keys }) => keys.includes(name));
  use(event, action && (() => action.run(view, view.focused?.cgvizItem)));
}

/** The keys and what they do. */
export function makeHelp({ actions, state }) {
  const shown = (key) => SIGNS[key] ?? (key.length === 1 ? key.toUpperCase() : key);
  const element = h("dl.keys", {}, ...actions.flatMap(({ name, keys }) => [h("dt", {}, keys.map(shown).join(", ")), h("dd", {}, name)]));
  return { element, paint: () => (element.hidden = !state.help) };
}

const icon = (d) => s("svg.icon", { viewBox: "0 0 16 14", "aria-hidden": "true" }, s("path", { d }));

/** The bar of a view. */
export function makeBar(view) {
  const { doc, actions, state } = view;
  const buttons = new Map(actions.filter(({ group }) => group).map((action) => {
    const { name, title = name, sign = name, run } = action;
    return [action, h("button", { type: "button", title, "aria-label": name, onclick: () => run(view) }, action.icon ? icon(action.icon) : sign)];
  }));
  const group = (name) => [...buttons].filter(([action]) => action.group === name).map(([, button]) => button);
  const [, , play, forward] = group("time");
  const select = (label, run, options) => h("select", { "aria-label": label, onchange: ({ target }) => run(target) },
    ...options.map(([value, words]) => h("option", { value }, words)));
  const seek = makeSlider("Moment", {}, (n) => view.go(moments(view.clock)[n]));
  toggle(seek.words, "where", true);
  const speed = select("Speed", ({ value }) => (state.speed = Number(value)), [0.5, 1, 2, 4].map((x) => [x, `${x}\u00d7`]));
  speed.value = 1;
  const passes = doc.passes.length > 1 && select("Backward pass", ({ value }) => view.turnPass(Number(value)), doc.passes.entries());
  const kinds = ["SVG", "PNG", ...(doc.latex?.length && !doc.quiz && !doc.sliders && !doc.history ? ["LaTeX"] : []), ...(doc.linked ? ["Link"] : [])];
  const copy = select("Copy", async (chosen) => {
    say(view.status, await take(view, chosen.value));
    chosen.value = "";
  }, [["", "Copy\u2026"], ...kinds.map((kind) => [kind, kind])]);
  const element = h("div.bar", { role: "group", "aria-label": "Time and picture" },
    h("div.group", {}, ...group("time")), seek.input, seek.words, h("div.group", {}, speed, passes), h("div.group", {}, ...group("picture"), copy));
  return {
    element,
    forward,
    paint() {
      const { clock } = view;
      for (const [{ off }, button] of buttons) if (off) set(button, { "aria-disabled": off(view) });
      const word = state.playing ? "Pause" : "Play";
      if (play.title !== word) play.replaceChildren(icon(state.playing ? PAUSED : ACTIONS[2].icon));
      set(play, { title: word, "aria-label": word });
      const every = moments(clock);
      set(seek.input, { max: every.length - 1 });
      seek.paint(every.indexOf(state.step), state.step <= 0
        ? `forward ${clock.forward.length + state.step} of ${clock.forward.length}`
        : state.step === SEED ? "the backward pass starts" : `backward step ${state.step} of ${clock.steps}`);
      if (passes) passes.value = view.cache.which;
    },
  };
}

const WAYS = { forward: ["M0 5H28", "M34 5L26 8.3V1.7Z"], backward: ["M34 5H6", "M0 5L8 8.3V1.7Z"] };

/** What the lines and colours mean. */
export function makeLegend({ clock, pages }) {
  const sample = (role) => s("svg.swatch", { viewBox: "0 0 34 10", "aria-hidden": "true" }, s(`path.${role}`, { d: WAYS[role][0] }), s(`path.${role}-head`, { d: WAYS[role][1] }));
  return h("ul.legend.under", {}, ...clock.legend.map(([role, words]) => h("li", {}, sample(role), words)),
    pages.length > 1 && h("li", {}, "\u2260 differs from the other picture"));
}
