// Sync: what the learner does here is told to Python, and what Python sets is shown here.

/** Whether the kernel can still be told. */
export const isLive = (model) => model.cgvizStatic !== true;

/** Keep a view and its model alike. `shown()` is what the model is told: { step, which, selected }. */
export class Sync {
  constructor(model, signal, shown) {
    Object.assign(this, { model, signal, shown, timer: 0 });
    signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
  }

  /** Call `run` on each event of the model, until the view is taken away. */
  on(event, run) {
    this.model.on(event, run);
    this.signal.addEventListener("abort", () => this.model.off(event, run), { once: true });
  }

  /** Whether something is still to be told: until then what comes back is old. */
  get pending() {
    return this.timer !== 0;
  }

  /** Tell the model soon; many changes are told once. */
  share() {
    if (this.pending || this.signal.aborted) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (!isLive(this.model)) return;
      for (const [name, value] of Object.entries(this.shown())) {
        if (this.model.get(name) !== value) this.model.set(name, value);
      }
      this.model.save_changes();
    }, 250);
  }
}
