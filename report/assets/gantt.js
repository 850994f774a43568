'use strict';
// gantt.js: what the chart of GPUs by time shows: the intervals of one run, its
// nodes, the part in view, and what lies where.

// Gantt is the chart without its drawing. Time is in seconds, the vertical axis
// in GPUs.
Norn.Gantt = class {
  constructor(data, jobs) {
    this.data = data;
    this.jobs = jobs;
    this.unpacked = new Map();
    this.colouring = 'job';
    this.hover = -1;
    this.picked = -1;
    this.show(0);
  }

  // show turns to another run. The part in view stays when its nodes are the same.
  show(run) {
    const before = this.chart;
    this.run = run;
    this.chart = this.data.runs[run].chart;
    this.hover = this.picked = -1;
    if (!this.chart) return;
    if (!this.unpacked.has(run)) this.unpacked.set(run, Norn.readChart(this.chart, this.data.tick));
    this.bars = this.unpacked.get(run);
    const same = before && before.racks === this.chart.racks;
    if (!same) this.layRacks(this.data.racks[this.chart.racks]);
    const end = Math.max(...this.data.runs.filter((r) => r.chart).map((r) => r.chart.end));
    const start = Math.min(...this.data.runs.filter((r) => r.chart).map((r) => r.chart.start));
    this.whole = { t0: start, t1: Math.max(end, start + 1), y0: 0, y1: Math.max(1, this.gpus) };
    if (!same) this.view = { ...this.whole };
    this.paint();
  }

  layRacks(list) {
    let top = 0;
    this.racks = list.map(([name, gpus, counted]) => {
      const rack = { name, gpus, counted: counted === 1, top };
      top += gpus;
      return rack;
    });
    this.gpus = top;
  }

  // paint chooses a colour for every bar: the name of a property of the page.
  paint() {
    const b = this.bars, n = b.n, colours = new Array(n), big = this.bigTenants();
    for (let i = 0; i < n; i++) {
      const job = this.jobs[b.job[i]];
      if (this.colouring === 'size') colours[i] = 'z' + sizeOf(job.milli);
      else if (this.colouring === 'ending') colours[i] = 'e' + this.chart.why[b.why[i]].ending;
      else if (this.colouring === 'tenant') colours[i] = big.has(job.tenant) ? 'c' + big.get(job.tenant) : 'k2';
      else colours[i] = 'c' + (Math.imul(b.job[i] + 1, 0x9e3779b1) >>> 0) % 10;
    }
    this.colourOf = colours;
    this.byColour = new Map();
    for (let i = 0; i < n; i++) {
      const name = colours[i];
      if (!this.byColour.has(name)) this.byColour.set(name, []);
      this.byColour.get(name).push(i);
    }
  }

  // bigTenants are the tenants of the most GPU time, over all runs unpacked so
  // far, with the number of their colour.
  bigTenants() {
    const time = new Map(), b = this.bars;
    for (let i = 0; i < b.n; i++) {
      const job = this.jobs[b.job[i]];
      time.set(job.tenant, (time.get(job.tenant) || 0) + job.milli * (b.end[i] - b.start[i]));
    }
    const order = [...time.keys()].sort((x, y) => time.get(y) - time.get(x) || x - y);
    return new Map(order.slice(0, 9).map((t, i) => [t, i]));
  }

  // legend is what the colours mean.
  legend() {
    if (this.colouring === 'size') return ['0', '1', '2-4', '5-8', '9-16', '>16'].map((s, i) => ['z' + i, s + (s === '1' ? ' GPU' : ' GPUs')]).slice(1);
    if (this.colouring === 'ending') return this.data.endings.map((s, i) => ['e' + i, s]);
    if (this.colouring === 'tenant') {
      const big = this.bigTenants(), names = this.data.jobs.tenants;
      const list = [...big].map(([t, i]) => ['c' + i, names[t] || '(no tenant)']);
      return names.length > big.size ? [...list, ['k2', 'others']] : list;
    }
    return [];
  }

  // move, zoom and reset change the part in view, within the whole.
  move(dt, dy) {
    const v = this.view, w = this.whole;
    dt = Norn.clamp(dt, w.t0 - v.t0, w.t1 - v.t1);
    dy = Norn.clamp(dy, w.y0 - v.y0, w.y1 - v.y1);
    this.view = { t0: v.t0 + dt, t1: v.t1 + dt, y0: v.y0 + dy, y1: v.y1 + dy };
  }

  // zoom makes what is in view smaller (a factor below 1) or larger, and keeps
  // the point (t, y) where it is.
  zoom(t, y, byTime, byGPU) {
    const v = this.view, w = this.whole;
    const span = (low, high, at, factor, least, wholeLow, wholeHigh) => {
      const size = Norn.clamp((high - low) * factor, Math.min(least, wholeHigh - wholeLow), wholeHigh - wholeLow);
      const from = Norn.clamp(at - (at - low) * size / (high - low), wholeLow, wholeHigh - size);
      return [from, from + size];
    };
    const [t0, t1] = span(v.t0, v.t1, t, byTime, Math.min(1, (w.t1 - w.t0) / 100), w.t0, w.t1);
    const [y0, y1] = span(v.y0, v.y1, y, byGPU, 1, w.y0, w.y1);
    this.view = { t0, t1, y0, y1 };
  }

  reset() { this.view = { ...this.whole }; }

  // at is the bar at a point, -1 if there is none. Of several the last one drawn.
  at(t, y, slackTime) {
    const b = this.bars;
    let near = -1;
    for (let i = b.n - 1; i >= 0; i--) {
      if (b.start[i] > t + slackTime || b.end[i] < t - slackTime) continue;
      for (let k = b.box[i]; k < b.box[i + 1]; k++) {
        if (y < b.top[k] || y >= b.top[k] + (b.height[k] || 0.15)) continue;
        if (t >= b.start[i] && t <= b.end[i]) return i;
        if (near < 0) near = i;
      }
    }
    return near;
  }

  // step is the bar after (or before) the picked one, among those in view.
  step(forward) {
    const b = this.bars, v = this.view, inView = [];
    for (let i = 0; i < b.n; i++) {
      if (b.end[i] < v.t0 || b.start[i] > v.t1) continue;
      for (let k = b.box[i]; k < b.box[i + 1]; k++) {
        if (b.top[k] < v.y1 && b.top[k] + b.height[k] > v.y0) { inView.push(i); break; }
      }
    }
    if (inView.length === 0) return -1;
    const here = inView.indexOf(this.picked);
    if (here < 0) return forward ? inView[0] : inView[inView.length - 1];
    return inView[(here + (forward ? 1 : inView.length - 1)) % inView.length];
  }

  // facts are what there is to say about a bar, line by line.
  facts(i) {
    const b = this.bars, job = this.jobs[b.job[i]], why = this.chart.why[b.why[i]];
    const other = b.other[i] >= 0 ? this.jobs[b.other[i]].key : 'another one';
    const tenant = this.data.jobs.tenants[job.tenant];
    let held = 0;
    for (let k = b.box[i]; k < b.box[i + 1]; k++) held += b.height[k];
    const who = [job.name, tenant && 'tenant ' + tenant, 'asked for ' + Norn.gpus(job.milli)].filter(Boolean).join(', ');
    return [
      'Job ' + job.key,
      who,
      'Held ' + Norn.gpus(Math.round(held * 1000)) + ' on ' + this.where(i) + ' for ' + Norn.human(b.end[i] - b.start[i]),
      'From ' + Norn.when(b.start[i]) + ' to ' + Norn.when(b.end[i]) + ', submitted at ' + Norn.when(job.submit),
      'How it ended: ' + why.text.replace('{job}', () => other),
    ];
  }

  // where names the nodes of a bar.
  where(i) {
    const b = this.bars, names = [];
    for (let k = b.box[i]; k < b.box[i + 1]; k++) {
      for (let r = this.rackAt(b.top[k]); r < this.racks.length && this.racks[r].top < b.top[k] + Math.max(b.height[k], 1e-6); r++) {
        if (this.racks[r].gpus > 0 && names[names.length - 1] !== this.racks[r].name) names.push(this.racks[r].name);
      }
    }
    return names.length > 4 ? names.slice(0, 3).join(', ') + ' and ' + (names.length - 3) + ' more nodes' : names.join(', ');
  }

  // rackAt is the node to which a place on the vertical axis belongs.
  rackAt(y) {
    let low = 0, high = this.racks.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (this.racks[mid].top <= y) low = mid; else high = mid - 1;
    }
    return low;
  }
};

function sizeOf(milli) {
  const gpus = Math.ceil(milli / 1000);
  return gpus <= 1 ? gpus : gpus <= 4 ? 2 : gpus <= 8 ? 3 : gpus <= 16 ? 4 : 5;
}
