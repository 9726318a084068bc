// Large pictures: find an op, a variable or a scope; and which of repeats, such as the steps of a recurrent network, is shown.
import { h, say, set } from "./dom.mjs";

const MOST_FOUND = 60; // rows of a list: more are not read, another letter is typed

/** The rows of a search that have all the words, the largest gradient first: their places in `rows`. */
export function matching(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/);
  return [...rows.keys()].filter((k) => wanted.every((word) => rows[k].slice(0, 2).join(" ").toLowerCase().includes(word)));
}

/** A field that finds what is in the picture of a view, also in closed scopes. */
export function makeSearch(view) {
  let [rows, at, before] = [[], 0, null]; // the places of those that are listed; which is chosen; what had the focus
  const list = h("ul", { role: "listbox", id: `${view.id}-found`, "aria-label": "Found, the largest gradient first" });
  const field = h("input", { type: "text", role: "combobox", "aria-label": "Find an op, a variable or a scope", "aria-expanded": "true", "aria-controls": list.id,
    "aria-autocomplete": "list", autocomplete: "off", placeholder: "op, variable, scope", oninput: () => fill() });
  const count = h("p.count", { role: "status" });
  const element = h("div.search", { hidden: true, onkeydown, onfocusout: ({ relatedTarget }) => element.contains(relatedTarget) || show(false) }, field, count, list);

  function show(on) {
    element.hidden = !on;
    if (!on) return;
    before = view.focused;
    field.value = "";
    fill();
    field.focus();
  }

  function fill() {
    const all = view.page.search.rows;
    const every = matching(all, field.value);
    rows = every.slice(0, MOST_FOUND);
    say(count, `${every.length} found, the largest |gradient| first${every.length > MOST_FOUND ? `: ${MOST_FOUND} are listed` : ""}`);
    list.replaceChildren(...rows.map((k, n) => h("li", { role: "option", id: `${list.id}-${n}`, onpointerdown: (event) => pick(n, event) },
      h("b", {}, all[k][0]), h("i", {}, all[k][1]), h("span", {}, all[k][2] ? `${all[k][1] === "scope" ? "up to" : "|gradient|"} ${all[k][2]}` : "no gradient"))));
    choose(0);
  }

  function choose(n) {
    at = Math.min(Math.max(n, 0), rows.length - 1);
    [...list.children].forEach((row, k) => set(row, { "aria-selected": k === at }));
    set(field, { "aria-activedescendant": rows.length ? `${list.id}-${at}` : "" });
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function pick(n, event) {
    event.preventDefault();
    if (!rows.length) return;
    const [name, what] = view.page.search.rows[rows[n]];
    show(false);
    view.find(name, what);
  }

  function onkeydown(event) {
    const run = { ArrowDown: () => choose(at + 1), ArrowUp: () => choose(at - 1), Enter: () => pick(at, event), Escape: () => {
      show(false);
      before?.focus({ preventScroll: true });
    } }[event.key];
    if (!run) return;
    run();
    event.preventDefault();
    event.stopPropagation();
  }
  return { element, show };
}

/** A slider for each row of repeats, which shows another of them. */
export function makeRepeats(view) {
  const element = h("div.repeats");
  const rows = new Map(); // by the name of the repeats
  const own = (name) => view.cache.names.filter((each) => each.startsWith(`${name}@`));
  /** Those that can be shown: without a kernel, those that are in the file. */
  const places = ({ name, labels, at }) => [...labels.keys()].filter((k) => k === at || k === labels.length - 1 || view.cache.canTurn(`${name}@${k}`));
  const shown = () => (view.page.repeats ?? []).filter((each) => places(each).length > 1);

  function turn(each, k) {
    const next = k === each.labels.length - 1 ? [] : [`${each.name}@${k}`];
    if (k !== each.at) view.turnRepeat([...own(each.name), ...next]);
  }

  function row(name) {
    const find = () => view.page.repeats.find((each) => each.name === name);
    const slider = h("input", { type: "range", min: 0, step: 1, oninput: () => turn(find(), places(find())[slider.value]) });
    const words = h("output");
    return { slider, words, element: h("label", {}, h("span", {}, "Shown:"), slider, words) };
  }
  return {
    element,
    /** So many repeats further. */
    by(count) {
      const [each] = shown();
      const every = each ? places(each) : [];
      if (each) turn(each, every[Math.min(Math.max(every.indexOf(each.at) + count, 0), every.length - 1)]);
    },
    paint() {
      const every = shown();
      for (const each of every) {
        const { name, labels, at } = each;
        if (!rows.has(name)) rows.set(name, row(name));
        const { slider, words } = rows.get(name);
        const can = places(each);
        set(slider, { max: can.length - 1, "aria-label": `Which of ${labels[0]} to ${labels.at(-1)} is shown`, "aria-valuetext": labels[at] });
        slider.value = can.indexOf(at);
        say(words, `${labels[at]}, ${at + 1} of ${labels.length}${can.length < labels.length ? `; ${can.length} of them are in this file` : ""}`);
      }
      const now = every.map(({ name }) => rows.get(name).element);
      if (now.length !== element.children.length || now.some((each, n) => each !== element.children[n])) element.replaceChildren(...now);
      element.hidden = !now.length;
    },
  };
}
