// The view: bar, pictures, side panel and table of a trace. One state in, one paint out.
import { actionsOf, makeBar, makeHelp, press } from "./bar.mjs";
import { LAST_ROW, boxOf, directed, fit, moving, readable, reveal, scale, zoom } from "./camera.mjs";
import { built, darkAround, fill, focus, h, say, tell, toggle } from "./dom.mjs";
import { makeExplore } from "./explore.mjs";
import { DURATION, fly, land, legs, light, stay } from "./flight.mjs";
import { makeHistory } from "./history.mjs";
import { makeMinimap } from "./minimap.mjs";
import { PageCache } from "./pages.mjs";
import { makeCode, makePanel, makeTable, together } from "./panel.mjs";
import { makePicture, paintPicture } from "./picture.mjs";
import { Questions, ask, counted } from "./predict.mjs";
import { makeRepeats, makeSearch } from "./search.mjs";
import { makePlayer, moments, next, sentence } from "./time.mjs";

const PAUSE = 300; // milliseconds from one moment to the next at speed 1
const SHARED = 250; // milliseconds after which Python is told, so that many changes are told at once
const [ASIDE, BORDERS] = [362, 42]; // pixels: the side panel with its gap; what is beside a picture; as in view.css
const NARROW = 760; // pixels of a view below which the side panel is under the picture
const SCROLLBAR = 20; // pixels, at most
const USUAL = 820; // pixels for a picture on a usual screen, assumed until the width is known
// In a sentence: before what comes at its step.
const COMING = / gives | = | and returns |: (?!.*( gives | = | and returns ))/s;

/** A view, built into `el` and shown until `close`. */
export class View {
  // The panel is about picture `side`; a `pinned` path stays lit. State that is not named here is off at first.
  state = { step: 0, side: 0, selected: null, pinned: null, speed: 1 };
  pictures = [];
  past = []; // what `undo` goes back to

  constructor(model, doc, el) {
    Object.assign(this, { model, doc });
    this.pages = this.directed(doc.pages);
    this.questions = new Questions(doc.quiz);
    this.cache = new PageCache(doc, !model.cgvizStatic);
    this.state.step = this.moment(model.get("step") ?? 0);
    this.play = makePlayer(() => this.tick(), (playing) => this.set({ playing }));
    this.furnish(el);
    // Messages from Python, and changes by other widgets that are linked with this one.
    this.heard = {
      "msg:custom": (message) => this.receive(message),
      "change:step": () => this.sharing || Math.floor(this.state.step) === model.get("step")
        || this.moveTo(model.get("step")),
      "change:which": () => this.turnPass(model.get("which")),
    };
    for (const [event, run] of Object.entries(this.heard)) model.on(event, run);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.root);
    this.build();
    this.turnPass(model.get("which") ?? doc.which);
  }

  close() {
    for (const [event, run] of Object.entries(this.heard)) this.model.off(event, run);
    for (const part of this.parts) part.stop?.();
    this.play(0);
    clearTimeout(this.sharing);
    this.watch.disconnect();
    this.root.remove();
  }

  furnish(el) {
    const { doc } = this;
    this.actions = actionsOf(this);
    const above = { history: doc.history && makeHistory(this), bar: makeBar(this), search: makeSearch(this),
      repeats: makeRepeats(this), explore: doc.sliders && makeExplore(this) };
    const below = { help: makeHelp(this), table: makeTable(this), code: makeCode(this) };
    Object.assign(this, above, below, { panel: makePanel(this) });
    this.parts = [...Object.values(above), ...Object.values(below), this.panel].filter((part) => part);
    const [over, under] = [above, below].map((parts) => Object.values(parts).map((part) => part?.element));
    Object.assign(this, { stages: h("div.stages"), left: h("div.left") });
    this.status = h("p.status", { role: "status" });
    this.root = h("div.view", {
      role: "group", "aria-label": `Gradient flow of ${doc.title}`,
      onkeydown: (event) => press(this, event),
      // Keeps JupyterLab's keys (Enter, b, dd) for the notebook: it looks at the element with the focus alone.
      onfocusin: (event) => {
        event.target.setAttribute("data-lm-suppress-shortcuts", "true");
        together(this, event);
      },
      onpointerover: (event) => together(this, event),
      onfullscreenchange: () => document.fullscreenElement || !this.state.presenting || this.present(false),
    }, ...over, h("div.main", {}, this.left, this.panel.element), this.status, ...under);
    this.root.cgvizView = this; // for tests and measurements in the page
    el.append(this.root);
    toggle(this.root, "dark", darkAround(el));
  }
  /** The page that the side panel is about, and its picture. */
  get page() { return this.pages[this.state.side] ?? this.pages[0]; }
  get picture() { return this.pictures[this.state.side] ?? this.pictures[0]; }
  /** The display list whose steps are the time: that of the first trace. */
  get clock() { return this.pages[0].display; }
  /** The field of the first open question, and what has the focus, in the document or in a shadow root. */
  get field() { return this.pictures[0].answers.querySelector("input"); }
  get focused() { return this.root.getRootNode().activeElement; }

  /** The same moment on another page: as many moments from the end of the forward pass. */
  stepOn(page) {
    const { step } = this.state;
    const [mine, theirs] = [moments(this.clock), moments(page.display)];
    return theirs[Math.min(Math.max(theirs.indexOf(0) + mine.indexOf(step) - mine.indexOf(0), 0), theirs.length - 1)];
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.paint();
  }
  /** Show the state, and with `follow` scroll to where something happens. */
  paint(follow) {
    const { state, questions, clock, history, parts, pictures: [{ answers }] } = this;
    this.pictures.forEach((picture, side) => {
      land(picture);
      picture.over = undefined; // what lit up is dark, and lights up anew, also after a flight
      const selected = state.side === side ? state.selected : null;
      paintPicture(picture, { step: this.stepOn(picture.page), selected, hidden: questions.hidden });
      picture.map?.paint(this.stepOn(picture.page));
    });
    for (const name of ["presenting", "blank"]) toggle(this.root, name, state[name]);
    toggle(this.root, "ready", state.step === 0 && !state.moved && !state.playing && clock.steps);
    for (const part of parts) part.paint?.();
    const asked = questions.openAt(state.step);
    fill(answers, ...asked.map((q) => this.form(q).field));
    const training = state.presenting && history ? `Training ${history.where()}. ` : "";
    const [n, idle] = [questions.open.length, !state.playing && !state.presenting];
    const more = n && idle && state.step < questions.allowed(Infinity) ? ` Press play: ${counted(n, "question")}.` : "";
    const said = training + sentence(this.pages[0], state.step, asked[0]) + more;
    tell(this.status, said, said.search(COMING));
    if (follow) this.follow(); // below the sentence, which may have several lines, nothing is in sight
    this.overlay();
  }
  /** Draw what lies on the pictures: a path of the chain rule, or else, while presenting, the equations of the op. */
  overlay(path, picture = this.picture) {
    const { state, questions } = this;
    light(picture, path ?? (picture.page === this.page ? state.pinned : null));
    if (picture.lit || !state.presenting || this.explore || questions.openAt(state.step).length) return;
    for (const picture of this.pictures) stay(picture, this.stepOn(picture.page), questions.hidden.nodes);
  }
  /** Pages, each in the direction that suits the space of this view, which is the screen while presenting. */
  directed(pages) {
    const { width, stages, state: { presenting } } = this;
    const wide = presenting || pages.length > 1 ? width / pages.length : width < NARROW ? width : width - ASIDE;
    const space = [width ? wide - BORDERS : USUAL, ...(presenting ? [stages.clientHeight, LAST_ROW * innerWidth] : [])];
    return pages.map((page) => ({ ...page, display: directed(page.displays, ...space) }));
  }
  /** Show another moment; while a slider is `held`, it keeps the focus. */
  go(step, held) {
    this.moveTo(step);
    if (!held) this.toField();
    this.share();
  }
  /** To type at once, unless what is elsewhere has the focus. */
  toField() {
    if (document.activeElement === document.body || this.root.contains(this.focused)) focus(this.field);
  }
  /** Go to the next moment, and let its numbers fly. Returns the milliseconds that they take. */
  advance() {
    const { step } = this.state;
    this.go(next(this.clock, step));
    return this.state.step === step ? 0 : this.fly();
  }

  fly() {
    const { state, questions } = this;
    if (questions.openAt(state.step).length) return 0;
    const times = this.pictures.map((picture) =>
      fly(picture, this.stepOn(picture.page), DURATION / state.speed, questions.hidden.nodes, () => this.overlay()));
    // What comes at this step fades in during the flight, in the panel and the sentence; all else is told at once.
    const told = this.root.querySelectorAll(".cgviz-come:not(section), section.cgviz-come > :not(.cgviz-subtitle)");
    this.pictures[0].flight.push(...[...told].map((x) => x.animate({ opacity: [0, 0, 1] }, times[0])));
    return Math.max(...times);
  }
  /** Show another moment without telling Python. */
  moveTo(step) {
    Object.assign(this.state, { step: this.moment(step), moved: true });
    this.paint(true);
  }
  /** The last moment that is neither after a step nor after an open question. */
  moment(step) {
    const every = moments(this.clock);
    return every.findLast((m) => m <= this.questions.allowed(step)) ?? every[0];
  }

  playOrPause() {
    const { state } = this;
    if (state.presenting) return this.advance();
    if (!state.playing && next(this.clock, state.step) === state.step) this.go(-Infinity);
    return this.play(state.playing ? 0 : PAUSE / state.speed);
  }
  /** Go on while it plays. Returns the milliseconds until the next time; 0 at the end and at a question. */
  tick() {
    const { step, speed } = this.state;
    return this.moment(next(this.clock, step)) === step ? 0 : this.advance() + PAUSE / speed;
  }
  /** Tell Python soon which moment and which pass are shown. */
  share() {
    this.sharing ||= setTimeout(() => {
      this.sharing = 0;
      this.model.set("step", Math.floor(this.state.step));
      this.model.set("which", this.cache.which);
      this.model.save_changes();
    }, SHARED);
  }
  /** The field of an open question, and its section of the side panel. */
  form(q) {
    const told = () => say(this.status, sentence(this.pages[0], this.state.step, q));
    return (q.form ??= ask(q, this.clock, (revealed) => this.answer(q, revealed), told));
  }

  answer(q, revealed) {
    Object.assign(q, { done: true, revealed });
    this.paint();
    this.fly();
    const next = this.bar.forward.checkVisibility() ? this.bar.forward : this.pictures[0].svg; // not in Present
    focus(this.field ?? next);
    if (!this.questions.open.length) say(this.status, `${this.questions.earned}.`);
  }
  listeners(picture) {
    const found = ({ target }) => target.closest(".cgviz-node, .cgviz-link, g.cgviz-frame")?.cgvizItem;
    const over = (target) => this.trace(picture, target.closest(".cgviz-link")?.cgvizLink);
    return {
      ...moving(picture, () => this.remember(), over),
      onclick: (event) => {
        const item = found(event);
        if (!item || picture.dragged) return;
        if (event.target.closest(".cgviz-handle")) this.turnOver(item.name);
        else if (event.target.closest(".cgviz-link")) this.set({ side: item.side, selected: item.i });
        else this.press(item);
      },
      onfocusin: (event) => reveal(picture, found(event)?.box),
      onpointerleave: () => this.trace(picture),
    };
  }
  /** Light up the paths of the chain rule that end with a link, whose gradient is a term of a sum, once told. */
  trace(picture, link) {
    const { flight, lit, over, page } = picture;
    if (flight || link === over) return;
    picture.over = link;
    const { paths = [], come } = page.panels[page.display.links[link]?.source] ?? {};
    const told = come <= this.questions.told(this.stepOn(page));
    const found = paths.filter(({ links }) => told && links.at(-1) === link);
    const path = found.length > 1 ? { links: found.flatMap(({ links }) => links), rows: [] } : found[0];
    if (path || lit) this.overlay(path, picture);
  }
  /** Open or close a scope; choose a node, or undo its choice. */
  press({ kind, i, name, side }) {
    const again = this.state.side === side && this.state.selected === i;
    return kind === "frame" ? this.turnOver(name) : this.set({ side, selected: again ? null : i });
  }
  /** Unpin the path, or else stop presenting, or else undo the choice of a node. */
  leave() {
    const { pinned, presenting } = this.state;
    if (presenting && !pinned) this.present(false);
    else this.set(pinned ? { pinned: null } : { selected: null });
  }
  /** Show the picture alone, over the whole screen; or as before, as large as it was. */
  present(presenting) {
    const { back } = this;
    this.back = presenting ? this.cameras() : null;
    this.play(0); // there its key is for one step
    this.history?.stop(); // there its button is not in sight
    this.set({ presenting, blank: false });
    this.help.element.hidePopover();
    if (presenting) this.root.requestFullscreen?.().catch(() => {}); // or else the view covers the page
    const left = !presenting && document.fullscreenElement && document.exitFullscreen();
    for (const picture of this.pictures) picture.fitted = true;
    this.resize();
    if (back) Promise.resolve(left).then(back); // by then the page is as large as it was
    focus(this.field ?? this.pictures[0].svg);
  }
  fit(pictures, all) {
    this.panel.fit();
    fit(pictures, this.state.presenting, all);
  }

  resize() {
    const { clientWidth, clientHeight } = this.root;
    const height = this.state.presenting ? clientHeight : 0; // else it is as high as its picture
    const wider = clientWidth - (this.width ?? 0);
    if (!clientWidth || Math.hypot(wider, height - (this.height ?? 0)) < 2) return;
    Object.assign(this, { width: clientWidth, height });
    const pages = this.directed(this.pages);
    if (pages.some(({ display }, i) => display !== this.pages[i].display)) this.replace(pages, true);
    this.fit(this.pictures.filter(({ fitted }) => fitted));
    if (height) this.paint(true); // to keep equations in sight
    else if (Math.abs(wider) >= SCROLLBAR) this.follow(); // else who has scrolled the picture reads on
  }
  /** Keep a question in sight, then the op of this moment, the numbers around it, and what they add up to. */
  follow() {
    for (const picture of this.pictures) {
      const { answers, page: { display }, parts } = picture;
      const step = this.stepOn(picture.page), { node, come, leave } = legs(display, step);
      const says = step > 0 ? "gradient" : "value";
      const told = parts.filter(({ role, element }) => role === says && element.cgvizWords);
      const of = (kind, i) => told.filter((part) => part.of === kind && part.i === i).map(({ element }) => element);
      const ends = leave.flatMap((path) => of("node", display.links[path.i].source));
      const shown = [[...answers.children], [...[...leave, ...come].flatMap((path) => of("link", path.i)), ...ends]];
      const [asked, moved] = shown.map((elements) => elements.map((element) => boxOf(picture, element)));
      reveal(picture, ...asked, display.nodes[node], ...moved);
    }
  }
  /** Zoom by a factor, or else show all of every picture. */
  zoom(factor) {
    this.remember();
    if (factor) zoom(this.picture, factor);
    else this.fit(this.pictures, true);
  }
  /** What moves the cameras back to where they are now. */
  cameras() {
    const found = this.pictures.map(({ k, fitted, box }) => [k, fitted, box.scrollLeft, box.scrollTop]);
    return () => this.pictures.forEach((picture, side) => {
      const [k, fitted, ...place] = found[side];
      if (fitted) this.fit([picture]); // the scale that fits may be another by now
      else scale(picture, k);
      picture.box.scrollTo(...place);
    });
  }
  /** Keep the page and the cameras for `undo`, before they change. */
  remember() {
    const { which, names } = this.cache;
    const back = this.cameras();
    this.past.push(() => {
      Object.assign(this.cache, { which, names });
      this.want(back);
    });
    this.bar.paint();
  }

  undo() { this.past.pop()?.(); }
  build() {
    const { doc, pages } = this, two = pages.length > 1;
    this.pictures = pages.map((page, side) => {
      const name = two ? `Picture ${side + 1} of 2: ${doc.names[side]}` : `Picture of ${doc.title}`;
      const picture = makePicture(page, side, name, (fold) => this.cache.canTurn(fold), (made) => this.listeners(made));
      return Object.assign(picture, { map: page.norms ? makeMinimap(picture) : null });
    });
    fill(this.left, this.stages, built(pages[0].legend)); // of this pass
    const widths = pages.map(({ display }) => readable(display));
    const caption = (side) => two && h("figcaption", {}, doc.names[side]);
    fill(this.stages, ...this.pictures.map(({ box, map }, side) =>
      h("figure.stage", { "--cgviz-readable": `${widths[side]}px` }, caption(side), box, map?.element)));
    this.left.style.setProperty("--cgviz-readable", `${widths.reduce((sum, width) => sum + width + 8, -8)}px`);
    for (const picture of this.pictures) this.explore?.attach(picture);
    this.fit(this.pictures);
    this.paint(true);
  }
  /** Show the pages that are wanted, those at hand or else asked of Python, and `then` go on. */
  want(then) {
    const { pages, which, names } = this.cache;
    this.then = then;
    if (pages) this.show(pages);
    else this.model.send({ ask: "pages", which, toggled: names });
  }
  /** Show pages; where only numbers differ, in the pictures that are there. */
  show(pages) {
    const { then } = this;
    this.then = null;
    const found = this.directed(pages);
    const drawn = (page) => JSON.stringify(page.display);
    if (found.every((page, i) => page.display === this.pages[i].display || drawn(page) === drawn(this.pages[i]))) {
      this.pages = found;
      this.pictures.forEach((picture, i) => (picture.page = found[i]));
      this.paint();
    } else this.replace(found);
    then?.();
    this.share();
  }
  /** Show other pictures, or these `turned` to another direction; what has the focus keeps it, or a picture gets it. */
  replace(pages, turned) {
    const { focused, pictures, stages, state } = this;
    const held = pictures.flatMap(({ items }) => items).find(({ g }) => g === focused);
    const [inside, answering] = [stages, pictures[0].answers].map((around) => around.contains(focused));
    const atEnd = state.step >= (this.clock.backward.at(-1) ?? 0);
    this.pages = pages;
    const selected = turned ? state.selected : null; // if turned, the nodes are the same
    Object.assign(state, { step: this.moment(atEnd ? Infinity : state.step), selected });
    for (const q of this.questions.all) q.form = null; // its field was in the old picture
    this.build();
    const same = ({ name, i }) => (held.name ? name === held.name : !name && i === held.i);
    const found = held ? this.pictures[held.side]?.items.find(same)?.g : answering && this.field;
    if (inside) focus(found || this.pictures[0].svg);
  }

  turnPass(which) {
    if (which === this.cache.which) return;
    this.remember();
    this.cache.turn(which);
    this.want();
  }
  /** Open or close a scope or a custom op; by keyboard the focus stays on it. */
  turnOver(name) {
    const { cache, panel } = this;
    if (!cache.canTurn(name)) return;
    const inPanel = panel.element.contains(this.focused);
    this.remember();
    cache.turn(cache.which, name);
    this.want(() => {
      const own = this.clock.nodes.findIndex((node) => node.group === name);
      if (inPanel && own >= 0) this.set({ selected: own });
      if (inPanel) focus(panel.element.querySelector("button[aria-expanded]"));
    });
  }
  /** Want `name` alone of those that begin with these words, or none for "": one of repeats, a step of a training. */
  choose(words, name, then) {
    const { cache } = this;
    const back = this.cameras();
    cache.turn(cache.which, ...cache.names.filter((each) => each.startsWith(words)), name);
    this.want(() => {
      back();
      then?.();
    });
  }
  /** Choose the node of an op or a variable. */
  goTo(side, name) {
    const { display, search: { rows, at } } = this.pages[side];
    const i = at[rows.findIndex(([own, what]) => own === name && what !== "scope")];
    if (i === undefined) return;
    reveal(this.pictures[side], display.nodes[i]);
    this.set({ side, selected: i });
  }
  /** Go to what has this name: open the closed scopes around it, or show the one of repeats that it is in. */
  find(name, what) {
    const { cache, page: { search: { rows, at, open } }, state } = this;
    const k = rows.findIndex((row) => row[0] === name && row[1] === what);
    const { g } = this.pictures[state.side].items.find((item) => item.kind === "node" && item.i === at[k]);
    this.set({ selected: at[k] });
    if (!cache.canTurn(open[k])) return focus(g);
    this.remember();
    // The last of repeats is the one that is shown when no other is wanted.
    const last = open[k].includes("@") && cache.names.includes(open[k]);
    this.choose(`${open[k].split("@")[0]}@`, last ? "" : open[k], () => this.find(name, what));
  }
  receive(message) {
    const { moved, key, side, pages, panels } = message;
    const { cache, explore } = this;
    if (moved) return explore?.receive(message);
    if (pages) cache.kept.set(key, pages);
    if (panels && cache.kept.has(key)) cache.kept.get(key)[side].panels = panels;
    if (key === cache.key) this.show(cache.pages);
  }
  /** Show the numbers at the values of the sliders, or whole pages where the picture has changed, too. */
  numbers({ pages, texts, panels }) {
    const [page] = this.pages;
    const found = pages ?? [{ ...page, texts, panels: Object.assign([...page.panels], panels) }];
    this.cache.kept = new Map([[this.cache.key, found]]);
    this.show(found);
  }
}
