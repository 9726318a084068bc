// The view: bar, pictures, side panel and table of a trace. One state in, one paint out.
import { sentence } from "./aria.mjs";
import { actionsOf, makeBar, makeHelp, makeLegend, press } from "./bar.mjs";
import { camera, fit, fitScreen, moving, readable, restore, reveal, showWhole, spaceIn, zoom } from "./camera.mjs";
import { makeCode, together } from "./code.mjs";
import { darkAround, h, say, toggle } from "./dom.mjs";
import { makeExplore } from "./explore.mjs";
import { DURATION, fly, land, light, stay } from "./flight.mjs";
import { makeHistory } from "./history.mjs";
import { PageCache } from "./pages.mjs";
import { Panel, makeTable } from "./panel.mjs";
import { makePicture, paintPicture } from "./picture.mjs";
import { Questions, ask } from "./predict.mjs";
import { makeRepeats, makeSearch } from "./search.mjs";
import { moments, next, nodeAt } from "./time.mjs";

const PAUSE = 300; // milliseconds from one moment to the next at speed 1
const SHARED = 250; // milliseconds after which Python is told: many changes are told once
const CLASSES = ["playing", "presenting", "blank"]; // of the state, as classes of the view
let views = 0;

/** A view, built into `el` and shown until `close`. */
export class View {
  // A path of the chain rule stays lit while it is `pinned`. What is not named here is off at first.
  state = { step: 0, side: 0, selected: null, pinned: null, speed: 1 }; // side: the picture of two that the panel is about
  pictures = [];
  past = []; // what `undo` comes back to

  constructor(model, el) {
    const doc = model.get("document");
    Object.assign(this, { model, doc, id: `cgviz-${(views += 1)}`, pages: doc.pages });
    this.stop = new AbortController();
    this.questions = new Questions(doc.quiz);
    this.cache = new PageCache(doc, !model.cgvizStatic);
    this.state.step = this.moment(model.get("step") ?? 0);
    this.furnish(el);
    this.connect();
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.root);
    this.build();
    this.turn(model.get("which") ?? doc.which);
  }

  /** Take everything away again. */
  close() {
    this.stop.abort();
    [this.timer, this.sharing].forEach(clearTimeout);
    this.explore?.stop();
    this.history?.stop();
    this.watch.disconnect();
    this.root.remove();
  }

  furnish(el) {
    const { doc } = this;
    this.explore = doc.sliders ? makeExplore(this) : null;
    this.history = doc.history ? makeHistory(this.id, doc.history, doc.names, (...place) => this.openMoment(...place)) : null;
    this.actions = actionsOf(this);
    this.bar = makeBar(this);
    this.help = makeHelp(this);
    this.panel = new Panel(this);
    this.table = makeTable(this);
    this.code = makeCode(this);
    this.search = makeSearch(this);
    this.repeats = makeRepeats(this);
    this.stages = h("div.stages");
    this.left = h("div.left", {}, this.stages, makeLegend(this));
    this.status = h("p.status", { role: "status" });
    this.root = h("div.view", { role: "group", "aria-label": `Gradient flow of ${doc.title}`, onkeydown: (event) => press(this, event),
      // JupyterLab's keys (Enter, b, dd) are for the notebook. It looks at the element with the focus
      // before it looks for this attribute further up, so each such element needs its own.
      onfocusin: (event) => {
        event.target.setAttribute("data-lm-suppress-shortcuts", "true");
        together(this, event);
      },
      onpointerover: (event) => together(this, event) },
    ...[this.history, this.bar, this.search, this.repeats, this.explore].flatMap((each) => each?.element ?? []),
    h("div.main", {}, this.left, this.panel.element), this.status, this.help, this.table.element, this.code.element);
    this.root.cgvizView = this; // for tests and measurements in the page
    el.append(this.root);
    toggle(this.root, "dark", darkAround(el));
  }

  /** Listen to what Python says, and to other widgets that are linked with this one. */
  connect() {
    const { model, stop: { signal } } = this;
    const heard = {
      "msg:custom": (message) => this.receive(message),
      "change:step": () => this.sharing || Math.floor(this.state.step) === model.get("step") || this.moveTo(model.get("step")),
      "change:which": () => this.turn(model.get("which")),
    };
    for (const [event, run] of Object.entries(heard)) {
      model.on(event, run);
      signal.addEventListener("abort", () => model.off(event, run));
    }
    document.addEventListener("fullscreenchange", () => document.fullscreenElement || !this.state.presenting || this.present(false), { signal });
  }

  // --- what is shown ---

  /** The page that the side panel is about. */
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

  /** Whether a question of this moment is open. */
  get asking() {
    return this.questions.at(this.state.step).some((q) => !q.done);
  }

  /** The same moment on another page: so many moments from the end of the forward pass. */
  stepOn(page) {
    const { step } = this.state;
    if (page === this.pages[0]) return step;
    const [mine, theirs] = [moments(this.clock), moments(page.display)];
    return theirs[Math.min(Math.max(theirs.indexOf(0) + mine.indexOf(step) - mine.indexOf(0), 0), theirs.length - 1)];
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.paint();
  }

  paint() {
    const { state, questions, clock } = this;
    this.pictures.forEach((picture, side) => {
      land(picture);
      const selected = state.side === side ? state.selected : null;
      paintPicture(picture, { step: this.stepOn(picture.page), selected, hidden: questions.hidden });
    });
    for (const name of CLASSES) toggle(this.root, name, state[name]);
    toggle(this.root, "ready", state.step === 0 && !state.moved && !state.playing && clock.steps);
    this.help.hidden = !state.help;
    for (const part of [this.bar, this.panel, this.table, this.code, this.repeats]) part.paint();
    this.history?.paint(this.cache.moment);
    this.overlay();
    const fields = questions.at(state.step).filter((q) => !q.done).map((q) => this.form(q).field);
    const { answers } = this.pictures[0];
    if (fields.some((field, n) => field !== answers.children[n]) || fields.length < answers.children.length) answers.replaceChildren(...fields);
    const words = fields.length ? `Backward step ${state.step} of ${clock.steps}: predict before you go on.` : sentence(this.pages[0], state.step);
    say(this.status, state.playing ? "" : words);
  }

  /** What lies on the pictures: a path of the chain rule; without one, while presenting, the equations of the op. */
  overlay(path = this.state.pinned) {
    light(this.pictures[this.state.side], path);
    if (path || !this.state.presenting || this.asking) return;
    for (const picture of this.pictures) stay(picture, this.stepOn(picture.page), this.questions.hidden.nodes);
  }

  // --- time ---

  go(step) {
    this.moveTo(step);
    this.share();
  }

  /** The next moment, with what flies then. Returns the milliseconds that it takes. */
  advance() {
    const { step } = this.state;
    this.go(next(this.clock, step));
    return this.state.step === step ? 0 : this.fly();
  }

  fly() {
    if (this.asking) return 0;
    const duration = DURATION / this.state.speed;
    const fly_ = (picture) => fly(picture, this.stepOn(picture.page), duration, this.questions.hidden.nodes, () => this.overlay());
    return Math.max(...this.pictures.map(fly_));
  }

  /** Show another moment, and tell nobody. */
  moveTo(step) {
    Object.assign(this.state, { step: this.moment(step), moved: true });
    this.follow();
    this.paint();
  }

  /** The last moment that is not after a step, and not after an open question. */
  moment(step) {
    const every = moments(this.clock);
    return every.findLast((m) => m <= this.questions.allowed(step)) ?? every[0];
  }

  play(playing) {
    clearTimeout(this.timer);
    if (playing && next(this.clock, this.state.step) === this.state.step) this.go(-Infinity);
    this.set({ playing });
    if (playing) this.timer = setTimeout(() => this.tick(), PAUSE / this.state.speed);
  }

  tick() {
    const { state } = this;
    if (this.moment(next(this.clock, state.step)) === state.step) return this.play(false);
    this.timer = setTimeout(() => this.tick(), this.advance() + PAUSE / state.speed);
  }

  /** Tell Python soon which moment and which pass are shown. */
  share() {
    if (this.sharing || this.stop.signal.aborted) return;
    this.sharing = setTimeout(() => {
      this.sharing = 0;
      this.model.set("step", Math.floor(this.state.step));
      this.model.set("which", this.cache.which);
      this.model.save_changes();
    }, SHARED);
  }

  // --- questions ---

  /** The field of an open question, and its section of the side panel. */
  form(q) {
    return (q.form ??= ask(q, this.clock, (revealed) => this.answer(q, revealed)));
  }

  answer(q, revealed) {
    Object.assign(q, { done: true, revealed });
    this.paint();
    this.fly();
    const following = this.pictures[0].answers.querySelector("input") ?? this.bar.forward;
    following.focus({ preventScroll: true });
    const { all, open } = this.questions;
    if (open.length) return;
    const shown = all.filter((each) => each.revealed).length;
    const earned = shown ? `${all.length - shown} of ${all.length} predicted, ${shown} revealed` : "All predicted";
    say(this.status, `${earned}. Now step back through it.`);
  }

  // --- pointer and keyboard ---

  /** What answers to the pointer on a picture. */
  listeners(picture) {
    const found = ({ target }) => target.closest(".cgviz-node, .cgviz-link, g.cgviz-frame")?.cgvizItem;
    return {
      ...moving(picture, () => this.remember()),
      onclick: (event) => {
        const item = found(event);
        if (!item || picture.dragged) return;
        if (event.target.closest(".cgviz-handle")) this.turnOver(item.name);
        else this.press(item);
      },
      onfocusin: (event) => reveal(picture, found(event)?.box),
    };
  }

  /** Choose an item, or no longer; open or close a scope. */
  press({ kind, i, name, side }) {
    if (kind === "frame") this.turnOver(name);
    else this.select(side, i);
  }

  select(side, i) {
    const again = this.state.side === side && this.state.selected === i;
    this.set({ side, selected: again ? null : i });
  }

  /** Leave what was entered last. */
  leave() {
    const { state } = this;
    if (state.help) this.set({ help: false });
    else if (state.pinned) this.set({ pinned: null });
    else if (state.presenting) this.present(false);
    else this.set({ selected: null });
  }

  /** Show the picture alone, over the whole screen; or as before. */
  present(presenting) {
    this.set({ presenting, blank: false, help: false });
    if (presenting) this.root.requestFullscreen?.().catch(() => {}); // where a page may not, it covers the page
    else if (document.fullscreenElement) document.exitFullscreen();
    for (const picture of this.pictures) this.fit(picture);
    this.follow();
    this.pictures[0].items[0].g.focus({ preventScroll: true });
  }

  // --- size ---

  fit(picture) {
    const { root, pages, state } = this;
    if (state.presenting) fitScreen(picture, root.clientWidth / pages.length, root.clientHeight);
    else fit(picture, spaceIn(picture.svg.parentElement));
  }

  resize() {
    const { clientWidth } = this.root;
    if (!clientWidth || Math.abs(clientWidth - (this.width ?? 0)) < 2) return;
    this.width = clientWidth;
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

  /** What `undo` comes back to: the page and the cameras before they change. */
  remember() {
    this.past.push({ key: this.cache.key, cameras: this.pictures.map(camera) });
    this.bar.paint();
  }

  undo() {
    const { key, cameras } = this.past.pop() ?? {};
    if (!key) return;
    this.cache.key = key;
    this.want();
    this.pictures.forEach((picture, side) => restore(picture, cameras[side]));
    this.bar.paint();
  }

  // --- pages ---

  /** Build the pictures of the pages that are shown. */
  build() {
    const { doc, pages } = this;
    const two = pages.length > 1;
    this.pictures = pages.map((page, side) => makePicture(page, side, two ? `Picture ${side + 1} of 2: ${doc.names[side]}` : `Picture of ${doc.title}`,
      (picture) => this.listeners(picture)));
    this.stages.replaceChildren(...this.pictures.map(({ page, svg }, side) =>
      h("figure.stage", { "--cgviz-readable": `${readable(page.display)}px` }, two ? h("figcaption", {}, doc.names[side]) : null, svg)));
    this.left.style.setProperty("--cgviz-readable", `${pages.reduce((sum, page) => sum + readable(page.display) + 8, 0)}px`);
    for (const picture of this.pictures) {
      this.explore?.scrub(picture);
      this.fit(picture);
    }
    this.refresh();
    this.follow();
  }

  /** The numbers of the side panel are others now. */
  refresh() {
    this.panel.forget();
    this.paint();
  }

  /** Open or close a scope or a custom op. */
  turnOver(name) {
    if (name && this.cache.canTurn(name)) this.turn(this.cache.which, name);
  }

  /** Another pass, or other scopes, from which `undo` comes back. */
  turn(which, ...names) {
    if (which === this.cache.which && !names.length) return;
    this.remember();
    this.cache.turn(which, ...names);
    this.want({ turned: names[0] });
  }

  /** Show another of repeats; the picture stays where it is. */
  turnRepeat(names) {
    this.cache.turn(this.cache.which, ...names);
    this.want({ cameras: this.pictures.map(camera) });
  }

  /** Go to what has a name: through closed scopes, and to the one of repeats that has it. */
  find(name, what) {
    const { rows, at, open } = this.page.search;
    const k = rows.findIndex((row) => row[0] === name && row[1] === what);
    if (open[k] && this.cache.canTurn(open[k])) {
      const repeats = open[k].includes("@") ? open[k].split("@")[0] : null;
      const now = this.cache.names.filter((each) => each.startsWith(`${repeats}@`)); // only one of them is shown
      this.remember();
      this.cache.turn(this.cache.which, ...new Set([...now, open[k]]));
      return this.want({ sought: [name, what] });
    }
    this.pictures[this.state.side].items.find((item) => item.kind === "node" && item.i === at[k]).g.focus({ preventScroll: true });
  }

  /** Show another step of a training, and there the node of an op. */
  openMoment(step, name, side = this.state.side) {
    const { cache, doc } = this;
    cache.turn(cache.which, cache.moment, step === doc.history.kept[0] ? "" : `step:${step}`);
    this.want({ name, side });
  }

  /** Show the pages that are wanted: from what is at hand, or asked of Python; `then` is the op to go to. */
  want(then = {}) {
    const { pages, which, names } = this.cache;
    this.then = then;
    if (!pages) this.model.send({ ask: "pages", which, toggled: names });
    else if (pages !== this.pages) this.show(pages);
  }

  /** Show pages: where only numbers differ, in the pictures that are there. */
  show(pages) {
    const { name, side, turned, cameras, sought } = this.then;
    if (pages.every(({ display }, i) => JSON.stringify(display) === JSON.stringify(this.pages[i].display))) {
      this.pages = pages;
      this.pictures.forEach((picture, i) => Object.assign(picture, { page: pages[i] }));
      this.refresh();
    } else this.replace(pages, turned);
    const i = name && pages[side].rows[name];
    if (i !== undefined && name) {
      reveal(this.pictures[side], pages[side].display.nodes[i]);
      this.set({ side, selected: i });
    }
    this.then = {};
    cameras?.forEach((each, n) => restore(this.pictures[n], each));
    this.share();
    if (sought) this.find(...sought);
  }

  /** Other pictures; what was opened or closed by keyboard keeps the focus. */
  replace(pages, turned) {
    const { state } = this;
    const atEnd = state.step >= (this.clock.backward.at(-1) ?? 0);
    const [inPicture, inPanel] = [this.stages, this.panel.element].map((part) => part.contains(this.focused));
    this.pages = pages;
    state.step = this.moment(atEnd ? Infinity : state.step);
    const own = turned ? this.clock.nodes.findIndex((node) => node.group === turned) : -1;
    state.selected = own >= 0 && inPanel ? own : null;
    this.build();
    const focus = inPicture && turned ? this.pictures[0].items.find((item) => item.name === turned)?.g
      : inPanel ? this.panel.element.querySelector("button[aria-expanded]") : null;
    focus?.focus({ preventScroll: true });
  }

  // --- messages ---

  receive(message) {
    const { moved, key, side, pages, panels } = message;
    const { cache, explore } = this;
    if (moved) return explore?.receive(message);
    if (pages) cache.kept.set(key, pages);
    if (pages && key === cache.key) this.show(pages);
    if (panels && cache.kept.has(key)) cache.kept.get(key)[side].panels = panels;
    if (panels && key === cache.key) this.refresh();
  }

  /** The numbers at the values of the sliders; whole pages where the flow has changed, too. */
  numbers({ pages, texts, panels }) {
    if (pages) {
      this.cache.kept = new Map([[this.cache.key, pages]]);
      return this.replace(pages);
    }
    this.pages[0].texts = texts;
    Object.assign(this.pages[0].panels, panels);
    this.refresh();
  }
}
