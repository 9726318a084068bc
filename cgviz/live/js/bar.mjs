// What a view can do, in one table: the buttons of the bar, the keys, and the help that lists them.
import { focus, h, makeSlider, s, say, set, toggle, use } from "./dom.mjs";
import { take } from "./take.mjs";
import { moments, next, previous, textAt } from "./time.mjs";

const atStart = ({ clock, state }) => previous(clock, state.step) === state.step;
export const atEnd = ({ clock, state }) => next(clock, state.step) === state.step;
const PLAY = "M4 1.5L13 7L4 12.5Z";
const PAUSED = "M4 2H6V12H4ZM9 2H11V12H9Z";

/** Move the slider of a training, or of repeats, by `places` positions. */
function shift(view, places) {
  const slider = (view.history ?? view.repeats).element.querySelector("input");
  slider?.stepUp(places);
  slider?.dispatchEvent(new Event("input"));
}

// The actions: `name`, `keys`, and `run`, which gets the view and the item that has the focus; `has` tells which views
// have it. A button also has `off`, whether it is disabled, an `icon` or `sign`, and a `title` if its name is short.
const TIME = [
  { name: "To the start", keys: ["Home", "r"], off: atStart, run: (view) => view.go(-Infinity),
    icon: "M2 2V12M8 2L3 7L8 12ZM14 2L9 7L14 12Z" },
  { name: "One step back", keys: ["ArrowLeft", "ArrowUp"], off: atStart,
    run: (view) => view.go(previous(view.clock, view.state.step)), icon: "M4 2V12M12 2L5 7L12 12Z" },
  { name: "Play", help: "Play or pause; in Present one step forward", keys: [" "], icon: PLAY,
    run: (view) => view.playOrPause() },
  { name: "One step forward", keys: ["ArrowRight", "ArrowDown"], off: atEnd, run: (view) => view.advance(),
    icon: "M12 2V12M4 2L11 7L4 12Z" },
  { name: "To the end", keys: ["End"], off: atEnd, run: (view) => view.go(Infinity),
    icon: "M14 2V12M2 2L7 7L2 12ZM8 2L13 7L8 12Z" },
];
const PICTURE = [
  { name: "Find", keys: ["/"], title: "An op, a variable or a scope, by |gradient|",
    run: (view) => view.search.show(), has: ({ doc }) => !doc.quiz && !doc.sliders },
  { name: "Undo", keys: ["Ctrl+z"], title: "Take back the last fold or zoom", off: ({ past }) => !past.length,
    run: (view) => view.undo() },
  { name: "Zoom out", keys: ["-"], sign: "\u2212", run: (view) => view.zoom(0.8) },
  { name: "Zoom in", keys: ["+", "="], sign: "+", run: (view) => view.zoom(1.25) },
  { name: "Fit", keys: ["0"], title: "All of it in sight", run: (view) => view.zoom() },
  { name: "Present", keys: ["f"], title: "The picture over the whole screen",
    run: (view) => view.present(!view.state.presenting) },
];
const KEYS = [
  { name: "Later of repeats or of a training", keys: ["]"], run: (view) => shift(view, 1) },
  { name: "Earlier of repeats or of a training", keys: ["["], run: (view) => shift(view, -1) },
  { name: "Numbers off and on", keys: ["b"], run: (view) => view.set({ blank: !view.state.blank }) },
  { name: "Its details", keys: ["Enter"], run: (view, item) => item && view.press(item) },
  { name: "Open or close it", keys: ["o"], run: (view, item) => item && view.turnOver(item.name) },
  { name: "Leave", keys: ["Escape"], run: (view) => view.leave() },
  { name: "These keys", keys: ["?"], run: (view) => view.help.element.togglePopover() },
];

const SIGNS = { " ": "Space", ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193" };

export const actionsOf = (view) => [...TIME, ...PICTURE, ...KEYS].filter(({ has }) => !has || has(view));

/** Run the action of a key, unless the element with the focus has its own use for the key. */
export function press(view, event) {
  const { key, target } = event;
  if (key === "Escape" && view.root.querySelector(":popover-open")) return; // Escape closes it
  const moves = /^Arrow|Home|End/.test(key); // what a slider has a use for; a list has none for some of them
  const own = [`input${moves ? "" : ":not([type=range])"}`, /Left|Right|Home|End/.test(key) ? "" : ", select",
    [" ", "Enter"].includes(key) ? ", button, summary" : ""].join("");
  if (key !== "Escape" && target.closest(own)) return;
  const { scrollLeft, scrollWidth, clientWidth } = target;
  const way = { ArrowLeft: scrollLeft, ArrowRight: scrollWidth - clientWidth - scrollLeft }[key];
  if (way > 1 && target.matches(".cgviz-panel .cgviz-scroll")) return; // it scrolls
  const name = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (key.length === 1 ? key.toLowerCase() : key);
  const action = view.actions.find(({ keys }) => keys.includes(name));
  use(event, action && (() => action.run(view, view.focused?.cgvizItem)));
}

export function makeHelp({ actions }) {
  const shown = (key) => SIGNS[key] ?? (key.length === 1 ? key.toUpperCase() : key);
  const row = ({ name, help = name, keys }) => [h("dt", {}, keys.map(shown).join(", ")), h("dd", {}, help)];
  return { element: h("dl.keys", { popover: true }, ...actions.flatMap(row)) };
}

const icon = (d) => s("svg.icon", { viewBox: "0 0 16 14", "aria-hidden": "true" }, s("path", { d }));

export function makeBar(view) {
  const { doc, actions, state } = view;
  const button = ({ name, title = name, sign = name, icon: d, run }) =>
    h("button", { type: "button", title, "aria-label": name, onclick: () => run(view) }, d ? icon(d) : sign);
  const buttons = new Map(actions.map((action) => [action, button(action)]));
  const [time, picture] = [TIME, PICTURE].map((group) => h("div.group", {}, ...group.map((each) => buttons.get(each))));
  const [, , play, forward] = time.children;
  const select = (label, onchange, options) =>
    h("select", { "aria-label": label, onchange }, ...options.map(([value, words]) => h("option", { value }, words)));
  const seek = makeSlider("Moment", { onchange: () => view.toField() }, (n) => view.go(moments(view.clock)[n], true));
  toggle(seek.words, "where", true);
  const speeds = [0.5, 1, 2, 4].map((x) => [x, `${x}\u00d7`]);
  const speed = select("Speed", () => (state.speed = Number(speed.value)), speeds);
  speed.value = 1;
  const turn = () => view.turnPass(Number(passes.value));
  const passes = doc.passes.length > 1 && select("Backward pass", turn, doc.passes.entries());
  const formula = doc.latex?.length && !(doc.quiz || doc.sliders || doc.history) && "LaTeX"; // of the first trace
  const kinds = ["SVG", "PNG", formula, doc.linked && "Link"].filter((kind) => kind).map((kind) => [kind, kind]);
  const copy = select("Copy", async () => {
    say(view.status, await take(view, copy.value));
    copy.value = "";
    focus(view.picture.svg);
  }, [["", "Copy\u2026"], ...kinds]);
  picture.append(copy);
  const element = h("div.bar", { role: "group", "aria-label": "Time and picture" }, time, seek.input, seek.words,
    h("div.group", {}, speed, passes), picture);
  function paint() {
    for (const [{ off }, button] of buttons) if (off) set(button, { "aria-disabled": off(view) });
    const [word, sign] = state.playing ? ["Pause", PAUSED] : ["Play", PLAY];
    set(play.querySelector("path"), { d: sign });
    set(play, { title: word, "aria-label": word });
    const every = moments(view.clock);
    seek.paint(every.indexOf(state.step), textAt(view.clock.moments, state.step), every.length - 1);
    if (passes) passes.value = view.cache.which;
  }
  return { element, forward, paint };
}
