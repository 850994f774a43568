'use strict';
// charts.js: the charts with lines, drawn by uPlot.

(function () {
  const decades = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400, 1000 * 86400, 1e4 * 86400, 1e5 * 86400];
  const powers = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6];

  // Plot is one chart: a line for each run over a common horizontal axis. It is drawn once for
  // all runs, or once for each run, in which the others are pale.
  class Plot {
    constructor(id, spec, runs) {
      this.place = document.getElementById('plot-' + id);
      this.box = this.place.querySelector('.canvas');
      this.id = id;
      this.spec = spec;
      this.runs = runs;
      this.shown = runs.map(() => true);
      this.apart = false; // a chart for each run
      this.tail = false; // the share above a value, not up to it
      this.charts = [];
      this.make();
    }

    // make draws the chart anew, in the colours of the page as it looks now.
    make() {
      const old = this.charts[0], zoom = old && this.spec.time ? { min: old.scales.x.min, max: old.scales.x.max } : null;
      this.charts.forEach((u) => u.destroy());
      this.box.replaceChildren();
      this.box.classList.toggle('apart', this.apart);
      const data = [this.spec.x, ...this.lines().map((l) => l || this.spec.x.map(() => null))];
      const alone = this.apart ? this.runs.map((r, i) => i).filter((i) => this.shown[i]) : [null];
      this.charts = alone.map((run) => {
        let box = this.box;
        if (run !== null) {
          box = Norn.element('div');
          box.append(Norn.element('small', this.runs[run].name));
          this.box.append(box);
        }
        const u = new uPlot(this.options(run), data, box);
        u.run = run;
        if (zoom && zoom.min !== null) u.setScale('x', zoom);
        return u;
      });
    }

    // lines are the values of the runs, as they are looked at.
    lines() {
      if (!this.tail) return this.spec.lines;
      return this.spec.lines.map((l) => l && l.map((v) => (v === null || v >= 1 ? null : 1 - v)));
    }

    // least is where the axis of a tail begins: a power of ten.
    least() {
      const above = this.lines().flatMap((l) => l || []).filter((v) => v > 0);
      return 10 ** Math.floor(Math.log10(Math.min(0.1, ...above)) + 1e-9);
    }

    // options are those of the chart of one run, or of all: null.
    options(run) {
      const s = this.spec, tail = this.tail ? { distr: 3, log: 10, range: () => [this.least(), 1] } : { range: s.range };
      return {
        width: this.width(), height: this.height(), padding: [10, 14, 0, 0],
        legend: run === null ? { live: true, markers: markers() } : { show: false },
        focus: { alpha: 0.15 },
        cursor: { drag: { x: Boolean(s.time), y: false }, points: { size: 6 }, sync: s.time ? { key: 'time' } : undefined },
        scales: {
          x: s.time || s.even ? { time: false } : { time: false, distr: 3, log: 10, range: (u, low, high) => [low, high] },
          y: tail,
        },
        axes: this.axes(),
        series: [
          { label: this.tail ? s.what.replace('up to', 'above') : s.what, value: (u, v) => (v === null ? '' : s.read(v)) },
          ...this.runs.map((r, i) => ({
            label: r.name, show: this.shown[i], ...this.look(i, run),
            points: { show: Boolean(s.even) }, spanGaps: Boolean(s.even),
            value: (u, v) => (v === null || v === undefined ? '' : this.read(v, 1)),
          })),
        ],
        hooks: { drawAxes: [(u) => { this.bands(u); this.rule(u); }] },
      };
    }

    // look is how the line of a run is drawn in the chart of one run, or of all: null.
    look(i, run) {
      if (run !== null && run !== i) return { stroke: Norn.colour('grid'), width: 1 };
      return { stroke: Norn.tone(i), width: 2, dash: run === null ? Norn.dashes[Norn.dash(i)] : [] };
    }

    // read writes a value of the vertical axis.
    read(v, digits) {
      if (this.tail && v < 0.1) return Number((100 * v).toPrecision(digits ? 2 : 1)) + '%';
      return this.spec.percent ? Norn.percent(v, digits) : (this.spec.tell || Norn.count)(v);
    }

    // titles are those of the axes, with their units.
    titles() {
      const s = this.spec, time = Norn.origin === null ? 'time since the first submission' : 'date and time (UTC)';
      return [s.time ? time : s.over, s.of + (this.tail ? ' above it' : '')];
    }

    axes() {
      const s = this.spec, font = '12px system-ui, sans-serif', [over, of] = this.titles();
      const axis = { stroke: Norn.colour('muted'), grid: { stroke: Norn.colour('grid'), width: 1 }, ticks: { show: false }, font, labelFont: font, labelSize: 18, labelGap: 0 };
      const x = s.time ? timeAxis() : s.even ? { space: 60, values: (u, vs) => vs.map((v) => Norn.count(v)) } : logAxis(s.marks, s.mark);
      const y = { size: s.percent ? 48 : 56, values: (u, vs) => vs.map((v) => (v === null ? '' : this.read(v, 0))) };
      if (this.tail) y.splits = () => Array.from({ length: Math.round(-Math.log10(this.least())) + 1 }, (_, i) => 10 ** -i).reverse();
      else if (s.percent || s.tell) y.incrs = s.percent ? [0.05, 0.1, 0.2, 0.25, 0.5] : Norn.steps;
      return [{ ...axis, ...x, label: over, size: 28 }, { ...axis, ...y, label: of }];
    }

    // bands shades what lies between the least and the most.
    bands(u) {
      const ctx = u.ctx;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      ctx.globalAlpha = 0.13;
      (this.spec.bands || []).forEach((band, i) => {
        if (!band || !this.shown[i] || (u.run !== null && u.run !== undefined && u.run !== i)) return;
        const line = (k, v) => { if (v !== null) ctx.lineTo(u.valToPos(this.spec.x[k], 'x', true), u.valToPos(v, 'y', true)); };
        ctx.fillStyle = Norn.tone(i);
        ctx.beginPath();
        for (let k = 0; k < band.max.length; k++) line(k, band.max[k]);
        for (let k = band.min.length - 1; k >= 0; k--) line(k, band.min[k]);
        ctx.fill();
      });
      ctx.restore();
    }

    // rule draws a line at a value that divides the axis.
    rule(u) {
      const x = this.spec.rule;
      if (x === undefined || x < u.scales.x.min || x > u.scales.x.max) return;
      const at = Math.round(u.valToPos(x, 'x', true)), ctx = u.ctx;
      ctx.save();
      ctx.strokeStyle = Norn.colour('muted');
      ctx.lineWidth = uPlot.pxRatio;
      ctx.setLineDash([4 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
      ctx.beginPath();
      ctx.moveTo(at, u.bbox.top);
      ctx.lineTo(at, u.bbox.top + u.bbox.height);
      ctx.stroke();
      ctx.restore();
    }

    height() { return (document.documentElement.classList.contains('printing') ? 193 : 248) - (this.apart ? 80 : 0); }

    // width is that of one chart; two stand beside each other where each run has its own.
    width() {
      const room = Math.floor(this.box.clientWidth);
      return Math.max(200, this.apart && room >= 440 ? Math.floor((room - 12) / 2) : room);
    }

    resize() {
      for (const u of this.charts) if (this.width() !== u.width) u.setSize({ width: this.width(), height: this.height() });
    }

    // stress makes all runs but one pale; null: none.
    stress(run) {
      if (!this.apart) this.charts[0].setSeries(run === null ? null : run + 1, { focus: true });
    }

    show(run, yes) {
      this.shown[run] = yes;
      if (this.apart) this.make();
      else this.charts[0].setSeries(run + 1, { show: yes });
    }
  }

  // markers are the lines in a legend.
  function markers() {
    return {
      width: 2,
      fill: () => 'transparent',
      stroke: (u, i) => (i > 0 ? Norn.tone(i - 1) : 'transparent'),
      dash: (u, i) => (i > 0 ? Norn.borders[Norn.dash(i - 1)] : 'solid'),
    };
  }

  function timeAxis() {
    return {
      incrs: Norn.steps, space: Norn.origin === null ? 60 : 74,
      splits: (u, i, min, max, step) => Norn.marks(min, max, step),
      values: (u, vs, i, space, step) => vs.map((v) => Norn.clock(v, step)),
    };
  }

  // logAxis has its marks where a reader expects them, as many as there is room.
  function logAxis(marks, mark) {
    return {
      splits: (u) => {
        const { min, max } = u.scales.x, inside = marks.filter((v) => v >= min * 0.999 && v <= max * 1.001);
        const room = Math.max(2, Math.floor(u.width / 58)), every = Math.ceil(inside.length / room);
        return inside.filter((v, i) => (inside.length - 1 - i) % every === 0);
      },
      filter: (u, vs) => vs,
      values: (u, vs) => vs.map(mark),
    };
  }

  // overTime is what lines of runs have in common: one axis for all their
  // buckets, whose widths differ by powers of two.
  function overTime(runs, what) {
    const series = runs.map((r) => r.series);
    const any = series.filter(Boolean);
    const width = Math.min(...any.map((s) => s.width)), start = Math.min(...any.map((s) => s.start));
    const end = Math.max(...any.map((s) => s.start + s.width * s[what].mean.length));
    const step = Math.max(width, (end - start) / 2000);
    const n = Math.max(2, Math.ceil((end - start) / step));
    const x = Array.from({ length: n }, (_, i) => start + (i + 0.5) * step);
    const pick = (s, list) => x.map((t) => {
      const v = list[Math.floor((t - s.start) / s.width)];
      return v === undefined ? null : v;
    });
    return {
      x,
      lines: series.map((s) => s && pick(s, s[what].mean)),
      bands: series.map((s) => s && { min: pick(s, s[what].min), max: pick(s, s[what].max) }),
    };
  }

  const whole = () => [0, 1];

  // specs are the charts of the page, by the name of their place in it.
  Norn.plots = function (data) {
    const runs = data.runs, plots = {};
    const add = (id, spec) => { if (document.getElementById('plot-' + id)) plots[id] = new Plot(id, spec, runs); };
    const curve = (what, x, extra) => add(what, { x, lines: runs.map((r) => r[what] || null), percent: true, range: whole, ...extra });
    if (data.seconds.length > 1) {
      curve('jct', data.seconds, { what: 'JCT up to', over: 'job completion time', column: 'seconds', of: 'share of jobs', read: Norn.human, marks: decades, mark: Norn.human });
      curve('wait', data.seconds, { what: 'wait up to', over: 'wait', column: 'seconds', of: 'share of jobs', read: Norn.human, marks: decades, mark: Norn.human });
    }
    if (data.rhos.length > 1) {
      const plain = (v) => String(Number(v.toPrecision(3)));
      curve('rho', data.rhos, { what: 'rho up to', over: 'rho', column: 'rho', of: 'share of jobs', read: plain, marks: powers, mark: plain, rule: 1 });
    }
    if (data.gpus) {
      const most = Math.max(0, ...runs.flatMap((r) => r.grown || []).filter((v) => v !== null));
      add('grown', { even: true, x: data.gpus, lines: runs.map((r) => r.grown || null), what: 'GPUs', over: 'GPUs of the cluster', column: 'GPUs_of_the_cluster', of: 'mean wait', read: Norn.count, tell: (v) => (v === 0 ? '0' : Norn.human(v)), range: () => [0, Math.max(1, 1.05 * most)] });
    }
    if (runs.some((r) => r.series)) {
      const most = Math.max(...runs.filter((r) => r.series).flatMap((r) => r.series.queue.max));
      add('used', { time: true, ...overTime(runs, 'used'), what: 'time', column: 'seconds', of: 'share of GPUs', read: Norn.when, percent: true, range: whole });
      add('queue', { time: true, ...overTime(runs, 'queue'), what: 'time', column: 'seconds', of: 'jobs waiting', read: Norn.when, range: () => [0, Math.max(1, 1.05 * most)] });
    }
    return plots;
  };
})();
