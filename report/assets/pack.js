'use strict';
// pack.js: reads what pack.go packs.

// Reader reads varints from base64.
Norn.Reader = class {
  constructor(text) {
    const raw = atob(text);
    this.bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
    this.at = 0;
  }

  // uint reads a number that is not negative, exact below 2^53.
  uint() {
    let value = 0, scale = 1;
    for (;;) {
      const b = this.bytes[this.at++];
      value += (b & 127) * scale;
      if (b < 128) return value;
      scale *= 128;
    }
  }

  // int reads a number in zigzag: 0, -1, 1, -2, ...
  int() {
    const v = this.uint();
    return v % 2 === 0 ? v / 2 : -(v + 1) / 2;
  }
};

// readJobs unpacks the table of jobs.
Norn.readJobs = function (packed, tick) {
  const r = new Norn.Reader(packed.packed);
  const jobs = new Array(packed.n), keys = packed.keys.split('\n');
  let key = '', submit = 0;
  for (let i = 0; i < packed.n; i++) {
    key = key.slice(0, r.uint()) + keys[i];
    const name = packed.names[r.uint()], tenant = r.uint(), milli = r.uint();
    submit += r.int();
    jobs[i] = { key, name, tenant, milli, submit: submit * tick };
  }
  return jobs;
};

// readChart unpacks the intervals of a run into columns.
Norn.readChart = function (chart, tick) {
  const r = new Norn.Reader(chart.packed), n = chart.n;
  const c = {
    n, start: new Float64Array(n), end: new Float64Array(n), job: new Uint32Array(n), why: new Uint16Array(n),
    other: new Int32Array(n), box: new Uint32Array(n + 1), top: [], height: [],
  };
  let start = 0, job = 0;
  for (let i = 0; i < n; i++) {
    start += r.int();
    c.start[i] = start * tick;
    c.end[i] = (start + r.uint()) * tick;
    job += r.int();
    c.job[i] = job;
    const why = r.uint(), several = why % 2 === 1, named = Math.floor(why / 2) % 2 === 1;
    c.why[i] = Math.floor(why / 4);
    c.other[i] = named ? r.uint() : -1;
    let top = 0;
    for (let boxes = several ? r.uint() : 1; boxes > 0; boxes--) {
      top += r.int() * chart.unit;
      c.top.push(top / 1000); // in GPUs
      c.height.push(r.uint() * chart.unit / 1000);
    }
    c.box[i + 1] = c.top.length;
  }
  c.outages = readOutages(chart, tick);
  return c;
};

// readOutages unpacks the times in which nodes were not there.
function readOutages(chart, tick) {
  const r = new Norn.Reader(chart.outages);
  let start = 0;
  return Array.from({ length: chart.nOutages }, () => {
    start += r.int();
    return { start: start * tick, end: (start + r.uint()) * tick, node: r.uint() };
  });
}
