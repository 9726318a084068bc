// The view: bar, pictures, side panel and table of a trace. State in, paint out.
import { sentence, speak } from "./aria.mjs";
import { makeBar, makeLegend } from "./bar.mjs";
import { arrangement, fit, fitScreen, restore, reveal, showWhole, zoom } from "./camera.mjs";
import { darkAround, h, say, toggle } from "./dom.mjs";
import { makeExplore } from "./explore.mjs";
import { DURATION, fly, land, light, stay } from "./flight.mjs";
import { makeHistory } from "./history.mjs";
import { KEYS, focusItem, listenTo, stepByKeys } from "./input.mjs";
import { PageCache, Sync, isLive } from "./pages.mjs";
import { Panel, makeTable } from "./panel.mjs";
import { makePicture, paintPicture } from "./picture.mjs";
import { Questions, ask } from "./predict.mjs";
import { take } from "./take.mjs";
import { moments, next, nodeAt, previous } from "./time.mjs";

const PAUSE = 300; // milliseconds from one moment to the next at speed 1
let views = 0;

/** A view, built into `el` and shown until `close`. */
export class View {
  state = {
    step: 0,
    selected: "", // "node 3", "link 5" or nothing
    hover: null,
    side: 0, // which picture of two the side panel speaks of
    playing: false,
    speed: 1,
    colour: false,
    wide: false,
  };
  columns = 1;
  pictures = [];
  past = []; // what `undo` comes back to
  pinned = null; // the path that stays lit
  timer = 0;

  constructor(model, el) {
    const doc = model.get("document");
    this.doc = doc;
    this.model = model;
    this.id = `cgviz-${(views += 1)}`;
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.on = (target, type, run, options) => target.addEventListener(type, run, { signal, ...options });
    this.questions = new Questions(doc.quiz);
    this.forms = new Map(); // of the questions that were asked, by their keys
    this.cache = new PageCache(doc, isLive(model));
    this.pages = doc.pages;
    this.sync = new Sync(model, signal, () => ({ step: Math.floor(this.state.step), which: this.cache.which, selected: this.selectedKey }));
    this.furnish(el);
    connect(this);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.root);
    this.state.step = this.moment(model.get("step") ?? 0);
    this.build();
    if ((model.get("which") ?? doc.which) !== doc.which) this.turn(model.get("which"));
  }

  /** Take everything away again. */
  close() {
    this.stop.abort();
    clearTimeout(this.timer);
    this.explore?.stop();
    this.history?.stop();
    this.watch.disconnect();
    this.root.remove();
  }

  furnish(el) {
    const { doc, on } = this;
    this.root = h("div.view", { role: "group", "aria-label": `Gradient flow of ${doc.title}` });
    this.stages = h("div.stages");
    this.status = h("p.status", { role: "status" });
    this.keys = h("dl.keys", {}, ...KEYS.flatMap(([key, does]) => [h("dt", {}, key), h("dd", {}, does)]));
    this.keys.hidden = true;
    this.bar = makeBar(doc);
    this.legend = makeLegend(this.pages[0].display);
    this.table = makeTable(on);
    this.panel = new Panel(this);
    this.explore = doc.sliders ? makeExplore(this.id, doc) : null;
    this.history = doc.history ? makeHistory(this.id, doc.history, doc.names, on, (...place) => this.openMoment(...place)) : null;
    this.root.append(...[this.history, this.bar, this.explore].flatMap((each) => each?.element ?? []),
      h("div.main", {}, h("div.left", {}, this.stages, this.legend.element), this.panel.element), this.status, this.keys, this.table.element);
    this.root.cgvizView = this; // for tests and measurements in the page
    el.append(this.root);
    if (darkAround(el)) this.root.classList.add("cgviz-dark");
  }

  // --- what is shown ---

  /** The page that the side panel speaks of. */
  get page() {
    return this.pages[this.state.side] ?? this.pages[0];
  }

  /** Time runs by the first trace. */
  get clock() {
    return this.pages[0].display;
  }

  /** What has the focus: of the document, or of a shadow root. */
  get focused() {
    return this.root.getRootNode().activeElement;
  }

  /** What is chosen, by a name that another picture of the same trace has, too. */
  get selectedKey() {
    const [kind, place] = this.state.selected.split(" ");
    if (kind === "node") return this.page.display.nodes[place]?.key ?? "";
    return this.state.selected;
  }

  /** The same moment on another page: so many moments from the end of the forward pass. */
  stepOn(page) {
    const { step } = this.state;
    if (page === this.pages[0]) return step;
    const [mine, theirs] = [moments(this.clock), moments(page.display)];
    const past = mine.indexOf(step) - mine.indexOf(0);
    return theirs[Math.min(Math.max(theirs.indexOf(0) + past, 0), theirs.length - 1)];
  }

  paint() {
    const { state, questions, cache } = this;
    this.pictures.forEach(land);
    this.pictures.forEach((picture, side) => paintPicture(picture, {
      step: this.stepOn(picture.page), selected: state.side === side ? state.selected : "", hidden: questions.hidden, colour: state.colour,
    }));
    toggle(this.root, "playing", state.playing);
    toggle(this.root, "ready", state.step === 0 && !this.moved && !state.playing && this.clock.steps > 0);
    toggle(this.root, "coloured", state.colour);
    this.bar.paint(state, this.clock, cache);
    this.legend.paint(state, this.pages);
    this.history?.paint(cache.moment);
    this.panel.paint();
    this.light();
    this.stay();
    const open = questions.open.map((q) => q.step);
    this.table.show(this.pages[0], Math.min(state.step, ...open.map((step) => step - 1)));
    const fields = questions.at(state.step).filter((q) => questions.isOpen(q)).map((q) => this.form(q).field);
    const { answers } = this.pictures[0];
    if (fields.some((field, n) => field !== answers.children[n]) || fields.length < answers.children.length) answers.replaceChildren(...fields);
    const words = fields.length
      ? `Backward step ${state.step} of ${this.clock.steps}: predict before you go on.`
      : sentence(this.pages[0], state.step);
    say(this.status, state.playing ? "" : words);
    speak(this);
  }

  // --- time ---

  go(step) {
    step = this.moment(step);
    if (step === this.state.step) return this.paint();
    this.moveTo(step);
    this.sync.share();
  }

  /** The next moment, with what flies then. Returns the milliseconds that it takes. */
  advance() {
    const { step } = this.state;
    this.go(next(this.clock, step));
    return this.state.step === step ? 0 : this.fly();
  }

  fly() {
    const { state, questions } = this;
    if (questions.at(state.step).some((q) => questions.isOpen(q))) return 0;
    const { nodes } = questions.hidden;
    return Math.max(...this.pictures.map((picture) => fly(picture, this.stepOn(picture.page), DURATION / state.speed, nodes, () => this.stay())));
  }

  /** Show another moment, and tell nobody. */
  moveTo(step) {
    this.moved = true;
    this.state.step = this.moment(step);
    this.follow();
    this.paint();
  }

  /** The last moment that is not after a step, and not after an open question. */
  moment(step) {
    const every = moments(this.clock);
    return every.findLast((m) => m <= this.questions.allowed(step)) ?? every[0];
  }

  play(on) {
    const { state } = this;
    state.playing = on;
    clearTimeout(this.timer);
    if (on && next(this.clock, state.step) === state.step) this.go(moments(this.clock)[0]);
    this.paint();
    if (on) this.timer = setTimeout(() => this.tick(), PAUSE / state.speed);
  }

  tick() {
    const { state } = this;
    if (!state.playing || this.stop.signal.aborted) return;
    const then = next(this.clock, state.step);
    if (this.moment(then) === state.step) {
      state.playing = false;
      return this.paint();
    }
    this.timer = setTimeout(() => this.tick(), this.advance() + PAUSE / state.speed);
  }

  // --- questions ---

  /** The field of an open question, and its section of the side panel. */
  form(q) {
    if (!this.forms.has(q.key)) this.forms.set(q.key, ask(q, this.clock, this.on, (revealed) => this.answer(q, revealed)));
    return this.forms.get(q.key);
  }

  answer(q, revealed) {
    this.questions.answer(q, revealed);
    this.paint();
    if (!this.questions.at(q.step).some((each) => this.questions.isOpen(each))) this.fly();
    const following = this.pictures[0].answers.querySelector("input") ?? this.bar.forward;
    following.focus({ preventScroll: true });
    const { all, open, revealed: shown } = this.questions;
    if (open.length) return;
    const earned = shown.size ? `${all.length - shown.size} of ${all.length} predicted, ${shown.size} revealed` : "All predicted";
    say(this.status, `${earned}. Now step back through it.`);
  }

  // --- choosing ---

  select(side, key) {
    const { state } = this;
    Object.assign(state, { side, selected: state.selected === key ? "" : key, hover: null });
    this.paint();
    this.sync.share();
  }

  hover(side, item) {
    const { state } = this;
    const key = item && item.kind !== "frame" ? `${item.kind} ${item.i}` : null;
    if (state.hover === key || state.playing || (state.selected && !this.questions.all.length)) return;
    if (key && this.pages.length > 1) state.side = side;
    state.hover = key;
    this.panel.paint();
  }

  /** Light up a path of the chain rule in the picture; without one, that which is pinned. */
  light(path = this.pinned) {
    light(this.pictures[this.state.side], path);
  }

  pin(path) {
    this.pinned = path;
    this.panel.press(path);
    this.light();
  }

  // --- presenting ---

  /** Show the picture alone, over the whole screen; or as before. */
  present(on) {
    this.presenting = on;
    toggle(this.root, "presenting", on);
    toggle(this.root, "blank", false);
    this.keys.hidden = true;
    if (on) this.root.requestFullscreen?.().catch(() => {}); // where a page may not, it covers the page
    else if (document.fullscreenElement) document.exitFullscreen();
    this.pictures.forEach((picture) => this.fit(picture));
    this.follow();
    this.paint();
    this.pictures[0].items[0].g.focus({ preventScroll: true });
  }

  /** While presenting, the equations of the op stay below it. */
  stay() {
    const { state, questions } = this;
    if (!this.presenting || this.pinned || questions.at(state.step).some((q) => questions.isOpen(q))) return;
    this.pictures.forEach((picture) => stay(picture, this.stepOn(picture.page), questions.hidden.nodes));
  }

  // --- size ---

  fit(picture) {
    if (this.presenting) return fitScreen(picture, this.root.clientWidth / this.columns, this.root.clientHeight);
    fit(picture, Math.max(this.stages.clientWidth / this.columns - 12, 200), this.state.wide);
  }

  /** What `undo` comes back to: the folds, the pass and the zoom before they change. */
  remember() {
    const { which, toggled, moment } = this.cache;
    this.past.push({ cache: { which, toggled, moment }, zooms: this.pictures.map(({ zoom, fitted }) => ({ zoom, fitted })) });
    this.bar.past(true);
  }

  undo() {
    const { cache, zooms } = this.past.pop() ?? {};
    if (!cache) return;
    Object.assign(this.cache, cache);
    if (this.cache.pages !== this.pages) this.want();
    this.pictures.forEach((picture, i) => restore(picture, zooms[i]));
    this.bar.past(this.past.length > 0);
  }

  zoom(factor) {
    this.remember();
    zoom(this.pictures[this.state.side] ?? this.pictures[0], factor);
  }

  showAll() {
    this.remember();
    for (const picture of this.pictures) {
      this.fit(picture);
      showWhole(picture);
    }
  }

  arrange() {
    const { below, columns } = arrangement(this.pages.map((page) => page.display.width), this.root.clientWidth);
    toggle(this.root, "below", below || this.state.wide);
    this.columns = columns;
  }

  resize() {
    const { clientWidth } = this.root;
    if (!clientWidth || Math.abs(clientWidth - (this.width ?? 0)) < 2) return;
    this.width = clientWidth;
    this.arrange();
    this.pictures.filter((picture) => picture.fitted !== false).forEach((picture) => this.fit(picture));
    this.follow();
  }

  /** Keep the op of this moment in sight. */
  follow() {
    for (const picture of this.pictures) {
      const { display } = picture.page;
      reveal(picture, display.nodes[nodeAt(display, this.stepOn(picture.page))]);
    }
  }

  // --- pages, scopes, custom ops ---

  /** Build the pictures of the pages that are shown. */
  build() {
    const { doc, pages } = this;
    this.pictures = pages.map((page, side) =>
      makePicture(page, pages.length > 1 ? `Picture ${side + 1} of 2: ${doc.names[side]}` : `Picture of ${doc.title}`));
    this.stages.replaceChildren(...this.pictures.map((picture, side) =>
      h("figure.stage", {}, pages.length > 1 ? h("figcaption", {}, doc.captions?.[side] ?? doc.names[side]) : null, picture.svg)));
    this.arrange();
    this.pictures.forEach((picture, side) => {
      listenTo(this, picture, side);
      this.explore?.scrub(picture, this.on);
      this.fit(picture);
    });
    this.refresh();
    this.follow();
  }

  /** The numbers of the side panel and the table are others now. */
  refresh() {
    this.panel.forget();
    this.table.forget();
    this.paint();
  }

  /** Open or close a scope or a custom op. */
  turnOver(name) {
    if (!this.cache.canTurn(name)) return;
    this.remember();
    this.turn(this.cache.which, name);
  }

  /** Show another pass, or other scopes: from what is at hand, or asked of Python. */
  turn(which, name = "") {
    this.turned = name;
    this.cache.turn(which, name);
    this.want();
  }

  want() {
    const { pages, which, names } = this.cache;
    if (pages) this.show(pages);
    else this.model.send({ ask: "pages", which, toggled: names });
  }

  /** Show another step of a training, and there the node of an op. */
  openMoment(step, name, side = this.state.side) {
    this.wanted = name ? [side, name] : null;
    this.cache.turn(this.cache.which, "", step === this.doc.history.kept[0] ? "" : `step:${step}`);
    this.want();
  }

  /** Show pages: where only numbers differ, in the pictures that are there. */
  show(pages) {
    const same = ({ display }, i) => JSON.stringify(display) === JSON.stringify(this.pages[i].display);
    if (this.history && pages.every(same)) {
      this.pages = pages;
      this.pictures.forEach((picture, side) => Object.assign(picture, { page: pages[side], spoken: false }));
      this.refresh();
    } else this.replace(pages);
    const [side, name] = this.wanted ?? [];
    this.wanted = null;
    const i = pages[side]?.rows[name];
    if (i === undefined) return;
    Object.assign(this.state, { side, selected: `node ${i}` });
    reveal(this.pictures[side], pages[side].display.nodes[i]);
    this.paint();
    this.sync.share();
  }

  replace(pages) {
    const { state, turned } = this;
    const atEnd = state.step >= (this.clock.backward.at(-1) ?? 0);
    const inPicture = this.stages.contains(this.focused);
    const inPanel = this.panel.element.contains(this.focused);
    this.pages = pages;
    state.step = atEnd ? moments(this.clock).at(-1) : this.moment(state.step);
    const own = this.clock.nodes.findIndex((node) => node.group && node.group === turned);
    Object.assign(state, { selected: own >= 0 && inPanel ? `node ${own}` : "", hover: null });
    this.build();
    const place = this.pictures[0].items.findIndex((item) => item.name && item.name === turned);
    if (place >= 0 && inPicture) focusItem(this.pictures[0], place);
    if (inPanel) this.panel.element.querySelector("button[aria-expanded]")?.focus({ preventScroll: true });
    this.turned = "";
    this.sync.share();
  }

  // --- messages and buttons ---

  receive(message) {
    const { cache, explore } = this;
    if (message.pages && !message.moved) {
      cache.kept.set(message.key, message.pages);
      if (message.key === cache.key) this.show(message.pages);
    }
    if (message.panels && !message.moved && message.key === `${cache.key} ${message.side}`) {
      this.pages[message.side].panels = message.panels;
      this.refresh();
    }
    if (explore && message.moved) explore.receive(message);
    if (explore && message.curves) explore.curves(message.curves);
  }

  /** The numbers at the values of the sliders; whole pages where the flow has changed, too. */
  numbers(message) {
    if (message.pages) {
      this.cache.replace(message.pages);
      return this.show(message.pages);
    }
    const [page] = this.pages;
    page.texts = message.texts;
    for (const [i, panel] of Object.entries(message.panels ?? {})) page.panels[i] = panel;
    if (message.settled) return this.refresh();
    this.panel.forget();
    this.paint();
  }
}

// --- the model, the bar and the sliders move the view ---

/** Connect a view with all that moves it. */
function connect(view) {
  const { on, state } = view;
  listen(view);
  const run = buttons(view);
  view.bar.wire(on, run);
  on(document, "fullscreenchange", () => {
    if (!document.fullscreenElement && view.presenting) view.present(false);
  });
  stepByKeys(view, run);
  view.explore?.wire(on, view.model, {
    open: () => (state.selected.startsWith("node") ? Number(state.selected.slice(5)) : nodeAt(view.clock, state.step)),
    numbers: (message) => view.numbers(message),
    old: (on_) => toggle(view.root, "old", on_),
  });
  // JupyterLab's keys (Enter, b, dd) are for the notebook. It looks at the element with the focus
  // before it looks for this attribute further up, so each such element needs its own.
  on(view.root, "focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
}

/** What Python says, and what other widgets that are linked with this one set. */
function listen(view) {
  const { model, sync, state } = view;
  sync.on("msg:custom", (message) => view.receive(message));
  sync.on("change:step", () => {
    const step = model.get("step");
    if (step !== Math.floor(state.step) && !sync.pending) view.moveTo(step);
  });
  sync.on("change:which", () => {
    const which = model.get("which");
    if (which !== view.cache.which) view.turn(which);
  });
  sync.on("change:selected", () => {
    const key = model.get("selected");
    if (key === view.selectedKey) return;
    const i = view.clock.nodes.findIndex((node) => node.key && node.key === key);
    Object.assign(state, { selected: i >= 0 ? `node ${i}` : "", side: 0 });
    view.paint();
  });
}

/** What the bar's buttons do, by their names. */
function buttons(view) {
  const { state } = view;
  return {
    first: () => view.go(moments(view.clock)[0]),
    back: () => view.go(previous(view.clock, state.step)),
    play: () => view.play(!state.playing),
    forward: () => view.advance(),
    last: () => view.go(moments(view.clock).at(-1)),
    seek: (place) => view.go(moments(view.clock)[place]),
    speed: (value) => (state.speed = value),
    which: (value) => {
      view.remember();
      view.turn(value);
    },
    colour: () => {
      state.colour = !state.colour;
      view.paint();
    },
    zoomIn: () => view.zoom(1.25),
    zoomOut: () => view.zoom(0.8),
    fit: () => view.showAll(),
    wide: () => {
      state.wide = !state.wide;
      view.arrange();
      view.pictures.forEach((picture) => view.fit(picture));
      view.paint();
    },
    earlier: () => view.history?.by(-1),
    later: () => view.history?.by(1),
    undo: () => view.undo(),
    copy: async (kind) => say(view.status, await take(view, kind)),
    present: () => view.present(!view.presenting),
    blank: () => view.root.classList.toggle("cgviz-blank"),
    help: () => (view.keys.hidden = !view.keys.hidden),
    fold: () => {
      view.remember();
      view.cache.reset();
      view.want();
    },
  };
}
