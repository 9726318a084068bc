// The view: bar, pictures, card and table of a trace. State in, paint out.
import { barInk, legendInk } from "./bar.mjs";
import { arrangement, fit, reveal, showWhole, zoom } from "./camera.mjs";
import { Card } from "./card.mjs";
import { darkAround, h, say, toggle } from "./dom.mjs";
import { focusItem, handle } from "./hands.mjs";
import { drawing, paintDrawing } from "./picture.mjs";
import { Questions } from "./questions.mjs";
import { Shelf } from "./shelf.mjs";
import { exploreInk } from "./sliders.mjs";
import { Sync, isLive } from "./sync.mjs";
import { tableInk } from "./table.mjs";
import { moments, next, nodeAt } from "./time.mjs";
import { speak } from "./voice.mjs";
import { wire } from "./wiring.mjs";
import { sentence } from "./words.mjs";

let views = 0;

/** A view, built into `el` and shown until `close`. */
export class View {
  state = {
    step: 0,
    selected: "", // "node 3", "link 5" or nothing
    hover: null,
    side: 0, // which picture of two the card speaks of
    playing: false,
    speed: 1,
    colour: false,
    wide: false,
  };
  columns = 1;
  inks = [];
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
    this.shelf = new Shelf(doc, isLive(model));
    this.pages = doc.pages;
    this.sync = new Sync(model, signal, () => ({ step: this.state.step, which: this.shelf.which, selected: this.selectedKey }));
    this.furnish(el);
    wire(this);
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
    this.watch.disconnect();
    this.root.remove();
  }

  furnish(el) {
    const { doc, on } = this;
    this.root = h("div.view", { role: "group", "aria-label": `Gradient flow of ${doc.title}` });
    this.stages = h("div.stages");
    this.status = h("p.status", { role: "status" });
    this.bar = barInk(doc);
    this.legend = legendInk();
    this.table = tableInk(on);
    this.card = new Card(this);
    this.explore = doc.sliders ? exploreInk(this.id, doc) : null;
    this.root.append(this.bar.element, ...(this.explore ? [this.explore.element] : []),
      h("div.main", {}, h("div.left", {}, this.stages, this.legend.element), this.card.element), this.status, this.table.element);
    this.root.cgvizGo = (step) => this.go(step); // for measuring in the page
    el.append(this.root);
    if (darkAround(el)) this.root.classList.add("cgviz-dark");
  }

  // --- what is shown ---

  /** The page that the card speaks of. */
  get page() {
    return this.pages[this.state.side] ?? this.pages[0];
  }

  /** Time runs by the first trace. */
  get clock() {
    return this.pages[0].lines;
  }

  /** What has the focus: of the document, or of a shadow root. */
  get focused() {
    return this.root.getRootNode().activeElement;
  }

  /** What is chosen, by a name that another picture of the same trace has, too. */
  get selectedKey() {
    const [kind, place] = this.state.selected.split(" ");
    if (kind === "node") return this.page.lines.nodes[place]?.key ?? "";
    return this.state.selected;
  }

  /** The same moment on another page: so many moments from the end of the forward pass. */
  stepOn(page) {
    const { step } = this.state;
    if (page === this.pages[0]) return step;
    const [mine, theirs] = [moments(this.clock), moments(page.lines)];
    const past = mine.indexOf(step) - mine.indexOf(0);
    return theirs[Math.min(Math.max(theirs.indexOf(0) + past, 0), theirs.length - 1)];
  }

  paint() {
    const { state, questions, shelf } = this;
    this.inks.forEach((ink, side) => paintDrawing(ink, {
      step: this.stepOn(ink.page), selected: state.side === side ? state.selected : "", hidden: questions.hidden, colour: state.colour,
    }));
    toggle(this.root, "playing", state.playing);
    toggle(this.root, "coloured", state.colour);
    this.bar.paint(state, this.clock, shelf);
    this.legend.paint(state, this.pages);
    this.card.paint();
    const asks = questions.at(state.step).some((q) => questions.isOpen(q));
    const words = asks
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

  /** Show another moment, and tell nobody. */
  moveTo(step) {
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
    if (on) this.timer = setTimeout(() => this.tick(), 450 / state.speed);
  }

  tick() {
    const { state } = this;
    if (!state.playing || this.stop.signal.aborted) return;
    const then = next(this.clock, state.step);
    if (this.moment(then) === state.step) {
      state.playing = false;
      return this.paint();
    }
    this.go(then);
    this.timer = setTimeout(() => this.tick(), 900 / state.speed);
  }

  // --- questions ---

  answer(q) {
    this.questions.answer(q);
    this.paint();
    const following = this.card.element.querySelector("input") ?? this.bar.forward;
    following.focus({ preventScroll: true });
    if (!this.questions.open.length) say(this.status, "All predicted. Now step back through it.");
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
    this.card.paint();
  }

  // --- size ---

  fit(ink) {
    fit(ink, Math.max(this.stages.clientWidth / this.columns - 12, 200), this.state.wide);
  }

  zoom(factor) {
    zoom(this.inks[this.state.side] ?? this.inks[0], factor);
  }

  showAll() {
    for (const ink of this.inks) {
      this.fit(ink);
      showWhole(ink);
    }
  }

  arrange() {
    const { below, columns } = arrangement(this.pages.map((page) => page.lines.width), this.root.clientWidth);
    toggle(this.root, "below", below || this.state.wide);
    this.columns = columns;
  }

  resize() {
    const { clientWidth } = this.root;
    if (!clientWidth || Math.abs(clientWidth - (this.width ?? 0)) < 2) return;
    this.width = clientWidth;
    this.arrange();
    this.inks.filter((ink) => ink.fitted !== false).forEach((ink) => this.fit(ink));
    this.follow();
  }

  /** Keep the op of this moment in sight. */
  follow() {
    for (const ink of this.inks) {
      const { lines } = ink.page;
      reveal(ink, lines.nodes[nodeAt(lines, this.stepOn(ink.page))]);
    }
  }

  // --- pages, scopes, custom ops ---

  /** Build the drawings of the pages at hand. */
  build() {
    const { doc, pages } = this;
    this.inks = pages.map((page, side) =>
      drawing(page, pages.length > 1 ? `Picture ${side + 1} of 2: ${doc.names[side]}` : `Picture of ${doc.title}`));
    this.stages.replaceChildren(...this.inks.map((ink, side) =>
      h("figure.stage", {}, pages.length > 1 ? h("figcaption", {}, doc.captions?.[side] ?? doc.names[side]) : null, ink.svg)));
    this.arrange();
    this.inks.forEach((ink, side) => {
      handle(this, ink, side);
      this.fit(ink);
    });
    this.refresh();
    this.follow();
  }

  /** The numbers of the card and the table are others now. */
  refresh() {
    this.card.forget();
    this.table.show(this.pages[0], this.questions.allowed(Infinity));
    this.paint();
  }

  /** Open or close a scope or a custom op. */
  turnOver(name) {
    if (this.shelf.canTurn(name)) this.turn(this.shelf.which, name);
  }

  /** Show another pass, or other scopes: from what is at hand, or asked of Python. */
  turn(which, name = "") {
    this.turned = name;
    this.shelf.turn(which, name);
    this.want();
  }

  want() {
    const { pages, which, toggled } = this.shelf;
    if (pages) this.show(pages);
    else this.model.send({ ask: "pages", which, toggled: [...toggled] });
  }

  show(pages) {
    const { state, turned } = this;
    const atEnd = state.step >= (this.clock.backward.at(-1) ?? 0);
    const inPicture = this.stages.contains(this.focused);
    const inCard = this.card.element.contains(this.focused);
    this.pages = pages;
    state.step = atEnd ? moments(this.clock).at(-1) : this.moment(state.step);
    const own = this.clock.nodes.findIndex((node) => node.group && node.group === turned);
    Object.assign(state, { selected: own >= 0 && inCard ? `node ${own}` : "", hover: null });
    this.build();
    const place = this.inks[0].items.findIndex((item) => item.name && item.name === turned);
    if (place >= 0 && inPicture) focusItem(this.inks[0], place);
    if (inCard) this.card.element.querySelector("button[aria-expanded]")?.focus({ preventScroll: true });
    this.turned = "";
    this.sync.share();
  }

  // --- messages and buttons ---

  receive(message) {
    const { shelf, explore } = this;
    if (message.pages && !message.moved) {
      shelf.kept.set(message.key, message.pages);
      if (message.key === shelf.key) this.show(message.pages);
    }
    if (message.notes && !message.moved && message.key === `${shelf.key} ${message.side}`) {
      this.pages[message.side].notes = message.notes;
      this.refresh();
    }
    if (explore && message.moved) explore.receive(message);
    if (explore && message.curves) explore.curves(message.curves);
  }

  /** The numbers where the sliders stand now; whole pages where the flow has changed, too. */
  numbers(message) {
    if (message.pages) {
      this.shelf.replace(message.pages);
      return this.show(message.pages);
    }
    const [page] = this.pages;
    page.texts = message.texts;
    for (const [i, note] of Object.entries(message.notes ?? {})) page.notes[i] = note;
    if (message.settled) return this.refresh();
    this.card.forget();
    this.paint();
  }

}
