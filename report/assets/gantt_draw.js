'use strict';
// gantt_draw.js: draws the chart of GPUs by time on a canvas.

// The bars are drawn on a canvas of their own, and copied from there: what
// follows the pointer then costs little, however many bars there are. While a
// full chart is moved or zoomed, its copy is stretched, and drawn anew as soon
// as the hand rests.
Norn.GanttDraw = class {
  constructor(gantt, canvas) {
    this.g = gantt;
    this.canvas = canvas;
    this.page = canvas.getContext('2d');
    this.base = document.createElement('canvas');
    this.ctx = this.page;
    this.asked = false;
    this.drawn = 0; // boxes
  }

  // ask draws the chart before the page is shown next.
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.repainted() || this.moved() && this.drawn <= 8000) this.render();
      else if (this.moved()) this.later();
      this.show();
    });
  }

  // draw draws all of the chart at once.
  draw() {
    this.view = null;
    this.render();
    this.show();
  }

  later() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.draw(), 90);
  }

  repainted() { return !this.view || this.looks !== this.g.colouring + this.g.run; }

  moved() {
    const v = this.g.view, w = this.view;
    return v.t0 !== w.t0 || v.t1 !== w.t1 || v.y0 !== w.y0 || v.y1 !== w.y1;
  }

  // fit sets the size of the canvas and the place of the plot in it, in pixels
  // of the page.
  fit() {
    const box = this.canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.left = this.width < 520 ? 58 : 92;
    this.right = this.width - 8;
    this.top = 4;
    this.bottom = this.height - 34;
    const w = Math.round(this.width * ratio), h = Math.round(this.height * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.ratio = ratio;
    this.page.setTransform(ratio, 0, 0, ratio, 0, 0);
    const v = this.g.view;
    this.perSecond = (this.right - this.left) / (v.t1 - v.t0);
    this.perGPU = (this.bottom - this.top) / (v.y1 - v.y0);
  }

  x(t) { return this.left + (t - this.g.view.t0) * this.perSecond; }
  y(gpu) { return this.top + (gpu - this.g.view.y0) * this.perGPU; }
  time(x) { return this.g.view.t0 + (x - this.left) / this.perSecond; }
  gpu(y) { return this.g.view.y0 + (y - this.top) / this.perGPU; }

  // render draws the bars and what lies behind them.
  render() {
    if (!this.g.chart) return;
    this.fit();
    this.base.width = this.canvas.width; // clears it
    this.base.height = this.canvas.height;
    const ctx = this.ctx = this.base.getContext('2d');
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.ground();
    this.outages();
    this.bars();
    this.lines();
    this.view = { ...this.g.view };
    this.looks = this.g.colouring + this.g.run;
  }

  // show copies the bars into the page and draws what belongs in front and
  // around of them.
  show() {
    if (!this.g.chart) return;
    this.fit();
    const ctx = this.ctx = this.page;
    ctx.clearRect(0, 0, this.width, this.height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left, this.top, this.right - this.left, this.bottom - this.top);
    ctx.clip();
    this.copy();
    this.marks();
    ctx.restore();
    this.names();
    this.times();
    this.window();
  }

  // copy puts the bars where the view has them now.
  copy() {
    const w = this.view, r = this.ratio, width = this.right - this.left, height = this.bottom - this.top;
    const x0 = this.x(w.t0), x1 = this.x(w.t1), y0 = this.y(w.y0), y1 = this.y(w.y1);
    this.ctx.drawImage(this.base, this.left * r, this.top * r, width * r, height * r, x0, y0, x1 - x0, y1 - y0);
  }

  ground() {
    const ctx = this.ctx, v = this.g.view, width = this.right - this.left;
    ctx.fillStyle = Norn.colour('wash');
    ctx.fillRect(this.left, this.top, width, this.bottom - this.top);
    ctx.fillStyle = Norn.colour('stripe');
    this.g.racks.forEach((r, i) => {
      const seen = r.gpus * this.perGPU >= 4 && r.top < v.y1 && r.top + r.gpus > v.y0;
      if (i % 2 === 0 && seen) ctx.fillRect(this.left, this.y(r.top), width, r.gpus * this.perGPU);
    });
  }

  // outages hatches the times in which a node was not there.
  outages() {
    const ctx = this.ctx, list = this.g.bars.outages;
    if (list.length === 0) return;
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const t = tile.getContext('2d');
    t.strokeStyle = Norn.colour('out');
    t.lineWidth = 1.5;
    t.beginPath();
    for (const d of [-6, 0, 6]) { t.moveTo(d, 6); t.lineTo(d + 6, 0); }
    t.stroke();
    ctx.fillStyle = ctx.createPattern(tile, 'repeat');
    for (const { node, start, end } of list) {
      const r = this.g.racks[node];
      if (r && r.gpus > 0) this.fill(start, end, r.top, r.gpus);
    }
  }

  fill(start, end, top, height) {
    const x0 = Math.max(this.x(start), this.left - 2), x1 = Math.min(this.x(end), this.right + 2);
    const y0 = Math.max(this.y(top), this.top - 2), y1 = Math.min(this.y(top + height), this.bottom + 2);
    if (x1 > x0 && y1 > y0) this.ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  bars() {
    const g = this.g, b = g.bars, v = g.view;
    this.drawn = 0;
    for (const [name, list] of g.byColour) {
      this.ctx.fillStyle = Norn.colour(name);
      for (const i of list) {
        if (b.start[i] <= v.t1 && b.end[i] >= v.t0) this.bar(i);
      }
    }
    if (this.perGPU >= 13) this.labels();
  }

  bar(i) {
    const b = this.g.bars, gap = this.perGPU >= 5 ? 0.3 : 0;
    const x0 = Math.max(this.x(b.start[i]), this.left - 2), x1 = Math.min(this.x(b.end[i]), this.right + 2);
    const width = Math.max(x1 - x0 - (x1 - x0 > 4 ? 0.8 : 0), 0.4);
    for (let k = b.box[i]; k < b.box[i + 1]; k++) {
      const y0 = Math.max(this.y(b.top[k]) + gap, this.top - 2), y1 = Math.min(this.y(b.top[k] + (b.height[k] || 0.15)) - gap, this.bottom + 2);
      if (y1 <= y0) continue;
      this.ctx.fillRect(x0, y0, width, Math.max(y1 - y0, 0.3));
      this.drawn++;
    }
  }

  // labels writes the keys of jobs into bars that have the room.
  labels() {
    const g = this.g, b = g.bars, ctx = this.ctx, v = g.view;
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    for (let i = 0; i < b.n; i++) {
      if (b.start[i] > v.t1 || b.end[i] < v.t0) continue;
      const x0 = Math.max(this.x(b.start[i]), this.left), room = Math.min(this.x(b.end[i]), this.right) - x0 - 8;
      const k = b.box[i], y0 = this.y(b.top[k]), y1 = this.y(b.top[k] + b.height[k]);
      if (room < 24 || y1 - y0 < 12 || y1 < this.top || y0 > this.bottom) continue;
      const key = g.jobs[b.job[i]].key, letters = Math.floor(room / 6.4);
      const text = key.length <= letters ? key : letters > 3 ? '…' + key.slice(1 - letters) : '';
      const y = (Math.max(y0, this.top) + Math.min(y1, this.bottom)) / 2;
      ctx.fillStyle = 'rgba(0, 0, 0, 0.45)';
      ctx.fillText(text, x0 + 4.7, y + 0.7);
      ctx.fillStyle = '#ffffff';
      ctx.fillText(text, x0 + 4, y);
    }
  }

  // lines separates nodes where there is room for lines.
  lines() {
    const ctx = this.ctx, v = this.g.view;
    ctx.strokeStyle = Norn.colour('card');
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (const r of this.g.racks) {
      if (r.gpus * this.perGPU < 7 || r.top <= v.y0 || r.top >= v.y1) continue;
      const y = Math.round(this.y(r.top)) + 0.5;
      ctx.moveTo(this.left, y);
      ctx.lineTo(this.right, y);
    }
    ctx.stroke();
  }

  // marks shows the bar under the pointer, or else the picked one, with the
  // other bars of its job, and pales the rest.
  marks() {
    const g = this.g, b = g.bars, ctx = this.ctx, main = g.hover >= 0 ? g.hover : g.picked;
    if (main < 0) return;
    ctx.globalAlpha = 0.6;
    ctx.fillStyle = Norn.colour('card');
    ctx.fillRect(this.left, this.top, this.right - this.left, this.bottom - this.top);
    ctx.globalAlpha = 1;
    ctx.fillStyle = Norn.colour(g.colourOf[main]);
    for (let i = 0; i < b.n; i++) if (b.job[i] === b.job[main]) this.bar(i);
    ctx.strokeStyle = Norn.colour('mark');
    for (const [i, width] of [[g.picked, 2.5], [g.hover, 1.5]]) {
      if (i < 0) continue;
      ctx.lineWidth = width;
      const long = Math.max(2, (b.end[i] - b.start[i]) * this.perSecond);
      for (let k = b.box[i]; k < b.box[i + 1]; k++) {
        ctx.strokeRect(this.x(b.start[i]), this.y(b.top[k]), long, Math.max(2, (b.height[k] || 0.15) * this.perGPU));
      }
    }
  }

  // names writes the nodes, or their GPUs where there is room, beside the plot.
  names() {
    const ctx = this.ctx, v = this.g.view, wide = this.left - 8;
    ctx.font = '11.5px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'right';
    let last = -Infinity;
    for (const r of this.g.racks) {
      if (r.gpus === 0 || r.top + r.gpus <= v.y0 || r.top >= v.y1) continue;
      const each = this.perGPU >= 13 && r.gpus > 1;
      const y0 = Math.max(this.y(r.top), this.top), y1 = Math.min(this.y(r.top + r.gpus), this.bottom);
      const y = Norn.clamp((y0 + y1) / 2, this.top + 6, this.bottom - 6);
      ctx.fillStyle = Norn.colour('ink');
      if (y - last >= 14 && (y1 - y0 >= 6 || r.gpus * this.perGPU < 12)) {
        ctx.fillText(this.cut(r.name, each ? wide - 22 : wide), each ? this.left - 28 : this.left - 7, y);
        last = y;
      }
      if (!each) continue;
      ctx.fillStyle = Norn.colour('muted');
      for (let k = 0; k < r.gpus; k++) {
        const at = this.y(r.top + k + 0.5);
        if (at > this.top + 4 && at < this.bottom - 4) ctx.fillText(String(k), this.left - 6, at);
      }
    }
  }

  // cut shortens a name to a width.
  cut(text, width) {
    if (this.ctx.measureText(text).width <= width) return text;
    let n = text.length;
    while (n > 1 && this.ctx.measureText('…' + text.slice(-n)).width > width) n--;
    return '…' + text.slice(-n);
  }

  times() {
    const ctx = this.ctx, v = this.g.view, room = this.width < 520 ? 70 : 90;
    const least = (v.t1 - v.t0) / Math.max(1, (this.right - this.left) / room);
    const step = Norn.steps.find((s) => s >= least) || Norn.steps[Norn.steps.length - 1];
    ctx.font = '12px system-ui, sans-serif';
    ctx.textBaseline = 'top';
    ctx.textAlign = 'center';
    ctx.fillStyle = Norn.colour('muted');
    ctx.strokeStyle = Norn.colour('line');
    ctx.lineWidth = 1;
    for (const t of Norn.marks(v.t0, v.t1, step)) {
      const x = this.x(t);
      ctx.beginPath();
      ctx.moveTo(x, this.bottom);
      ctx.lineTo(x, this.bottom + 4);
      ctx.stroke();
      const text = Norn.clock(t, step), half = ctx.measureText(text).width / 2;
      if (x + half <= this.width) ctx.fillText(text, x, this.bottom + 7);
    }
  }

  // window shows below the chart which part of the time is in view.
  window() {
    const ctx = this.ctx, v = this.g.view, w = this.g.whole, y = this.height - 6, width = this.right - this.left;
    ctx.fillStyle = Norn.colour('line');
    ctx.fillRect(this.left, y, width, 3);
    ctx.fillStyle = Norn.colour('accent');
    const share = (t) => (t - w.t0) / (w.t1 - w.t0);
    ctx.fillRect(this.left + share(v.t0) * width, y, Math.max(3, share(v.t1) * width - share(v.t0) * width), 3);
  }
};
