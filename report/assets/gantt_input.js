'use strict';
// gantt_input.js: pointer, wheel and keys of the chart of GPUs by time.

Norn.GanttInput = class {
  constructor(gantt, draw, canvas, parts) {
    this.g = gantt;
    this.d = draw;
    this.canvas = canvas;
    this.parts = parts; // tip, hint, picked
    this.pointers = new Map();
    const on = (name, f, options) => canvas.addEventListener(name, f.bind(this), options);
    on('pointerdown', this.down);
    on('pointermove', this.moved);
    on('pointerup', this.up);
    on('pointercancel', this.gone);
    on('pointerleave', this.left);
    on('wheel', this.wheel, { passive: false });
    on('keydown', this.key);
    on('dblclick', this.closer);
  }

  place(e) {
    const box = this.canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  }

  down(e) {
    this.canvas.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, this.place(e));
    this.dragged = this.pointers.size > 1;
    this.from = this.place(e);
  }

  moved(e) {
    const p = this.place(e), before = this.pointers.get(e.pointerId);
    if (!before) { this.point(p); return; }
    if (Math.abs(p.x - this.from.x) + Math.abs(p.y - this.from.y) > 4) this.dragged = true;
    if (this.pointers.size === 1 && this.dragged) {
      this.g.move((before.x - p.x) / this.d.perSecond, (before.y - p.y) / this.d.perGPU);
    } else if (this.pointers.size === 2) {
      this.pinch(e.pointerId, before, p);
    }
    this.pointers.set(e.pointerId, p);
    this.tip(-1);
    this.d.ask();
  }

  // pinch keeps what is under both fingers there.
  pinch(id, before, now) {
    const other = [...this.pointers].find(([k]) => k !== id)[1];
    const factor = (a, b) => (Math.abs(a) < 24 || Math.abs(b) < 24 ? 1 : Norn.clamp(Math.abs(a / b), 0.2, 5));
    this.g.zoom(this.d.time(other.x), this.d.gpu(other.y), factor(before.x - other.x, now.x - other.x), factor(before.y - other.y, now.y - other.y));
  }

  up(e) {
    const p = this.place(e);
    if (this.pointers.has(e.pointerId) && !this.dragged) this.pick(this.find(p));
    this.gone(e);
  }

  gone(e) {
    this.pointers.delete(e.pointerId);
  }

  left(e) {
    this.pointers.delete(e.pointerId);
    this.tip(-1);
  }

  find(p) {
    if (p.x < this.d.left || p.x > this.d.right || p.y < this.d.top || p.y > this.d.bottom) return -1;
    return this.g.at(this.d.time(p.x), this.d.gpu(p.y), 3 / this.d.perSecond);
  }

  point(p) {
    const i = this.find(p);
    this.tip(i, p);
  }

  // tip shows the facts of a bar beside the pointer.
  tip(i, p) {
    const tip = this.parts.tip;
    if (i !== this.g.hover) {
      this.g.hover = i;
      this.d.ask();
      if (i >= 0) this.write(tip, i);
    }
    tip.hidden = i < 0;
    if (i < 0) return;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Norn.clamp(p.x + 14, 0, Math.max(0, this.d.width - w)) + 'px';
    tip.style.top = (p.y + 18 + h > this.d.height ? Math.max(0, p.y - h - 12) : p.y + 18) + 'px';
  }

  write(into, i) {
    const [head, ...rest] = this.g.facts(i);
    into.replaceChildren(Norn.element('b', head), ...rest.map((line) => Norn.element('div', line)));
  }

  // pick keeps the facts of a bar below the chart; -1 drops them.
  pick(i) {
    this.g.picked = i;
    if (i < 0) this.parts.picked.replaceChildren();
    else this.write(this.parts.picked, i);
    this.d.ask();
  }

  // wheel zooms once the chart has been clicked, so that a page can be scrolled
  // past it.
  wheel(e) {
    const active = document.activeElement === this.canvas || e.ctrlKey || e.metaKey;
    if (!active) { this.hint(); return; }
    e.preventDefault();
    const p = this.place(e), lines = e.deltaMode === 1 ? 30 : 1, by = Math.exp(Norn.clamp((e.deltaY || e.deltaX) * lines, -240, 240) * 0.0022);
    const rows = p.x < this.d.left || e.shiftKey;
    this.g.zoom(this.d.time(p.x), this.d.gpu(p.y), rows ? 1 : by, rows ? by : 1);
    this.tip(-1);
    this.d.ask();
  }

  hint() {
    this.parts.hint.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { this.parts.hint.hidden = true; }, 1200);
  }

  closer(e) {
    const p = this.place(e);
    this.g.zoom(this.d.time(p.x), this.d.gpu(p.y), 0.4, 1);
    this.d.ask();
  }

  // act does what a button or a key says.
  act(what) {
    const v = this.g.view, t = (v.t0 + v.t1) / 2, y = (v.y0 + v.y1) / 2, dt = (v.t1 - v.t0) / 8, dy = Math.max(1, (v.y1 - v.y0) / 8);
    switch (what) {
      case 'in': this.g.zoom(t, y, 0.6, 1); break;
      case 'out': this.g.zoom(t, y, 1 / 0.6, 1); break;
      case 'taller': this.g.zoom(t, y, 1, 0.6); break;
      case 'flatter': this.g.zoom(t, y, 1, 1 / 0.6); break;
      case 'reset': this.g.reset(); break;
      case 'earlier': this.g.move(-dt, 0); break;
      case 'later': this.g.move(dt, 0); break;
      case 'higher': this.g.move(0, -dy); break;
      case 'lower': this.g.move(0, dy); break;
      case 'next': case 'previous': this.pick(this.g.step(what === 'next')); break;
      case 'drop': this.pick(-1); break;
    }
    this.d.ask();
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const keys = {
      '+': 'in', '=': 'in', '-': 'out', '_': 'out', ']': 'taller', '[': 'flatter', 0: 'reset', Home: 'reset',
      ArrowLeft: 'earlier', ArrowRight: 'later', ArrowUp: 'higher', ArrowDown: 'lower', PageUp: 'higher', PageDown: 'lower',
      n: 'next', p: 'previous', Escape: 'drop',
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    this.act(keys[e.key]);
  }
};
