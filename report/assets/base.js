'use strict';
// base.js: the name space, numbers for readers, and the colours of the page.

const Norn = {};

// human writes seconds as the rest of Norn does: 45s, 12m, 3h20m, 5d4h.
Norn.human = function (s) {
  if (s < 0) return '-' + Norn.human(-s);
  if (s < 1) return Math.round(s * 1000) + 'ms';
  if (s < 60) return Math.round(s * 10) / 10 + 's';
  const pair = (big, bigName, small, smallName) => {
    s = Math.round(s / small) * small;
    const rest = Math.round((s % big) / small);
    return Math.floor(s / big) + bigName + (rest > 0 ? rest + smallName : '');
  };
  if (s < 3600) return pair(60, 'm', 1, 's');
  if (s < 86400) return pair(3600, 'h', 60, 'm');
  return pair(86400, 'd', 3600, 'h');
};

// moment writes a time since the start of the run, to the minute or better.
Norn.moment = function (s) {
  if (s < 60) return Norn.human(s);
  const unit = s < 86400 ? 1 : 60, t = Math.round(s / unit) * unit;
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
  return parts.map(([size, name], i) => {
    const n = Math.floor((i === 0 ? t : t % parts[i - 1][0]) / size);
    return n > 0 ? n + name : '';
  }).filter(Boolean).join(' ');
};

// origin is the time of day at zero, in seconds since 1970 in UTC; null: it is not known.
Norn.origin = null;

// date writes a moment as a date and a time of day in UTC.
Norn.date = (s) => new Date((Norn.origin + s) * 1000).toISOString().slice(0, 16).replace('T', ' ');

// when writes a moment for a reader: as a date where the trace tells it.
Norn.when = (s) => (Norn.origin === null ? Norn.moment(s) || '0' : Norn.date(s));

// marks are the multiples of step between two moments, those of the day where dates are known.
Norn.marks = function (min, max, step) {
  const shift = Norn.origin === null ? 0 : Norn.origin % 86400;
  const out = [], first = Math.ceil((min + shift) / step);
  for (let i = first; i * step - shift <= max && out.length < 1000; i++) out.push(i * step - shift);
  return out;
};

// clock writes a moment with all that tells it from its neighbours step apart.
Norn.clock = function (s, step) {
  if (Norn.origin !== null && step >= 1) {
    const at = new Date((Norn.origin + s) * 1000), [day, time] = at.toISOString().split('T');
    if (step >= 86400 || time.startsWith('00:00:00')) return step >= 15552000 ? day : day.slice(5);
    return time.slice(0, step < 60 ? 8 : 5);
  }
  if (step < 1) return s.toFixed(step < 0.1 ? 2 : 1) + 's';
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60, sec = Math.round(s % 60);
  const out = [];
  if (d > 0) out.push(d + 'd');
  if (h > 0 && step < 86400) out.push(h + 'h');
  if (m > 0 && step < 3600) out.push(m + 'm');
  if (sec > 0 && step < 60) out.push(sec + 's');
  return out.slice(-2).join('') || '0';
};

// steps are the distances between marks on a time axis, in seconds.
Norn.steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 604800, 1209600, 2592000, 5184000, 15552000, 31104000, 62208000, 155520000, 311040000];

Norn.count = (n) => Math.round(n).toLocaleString('en-US');
Norn.percent = (v, digits) => (100 * v).toFixed(digits === undefined ? 1 : digits) + '%';
Norn.gpus = (milli) => (milli === 1000 ? '1 GPU' : milli / 1000 + ' GPUs');

// colour is the value of a custom property of the page as it looks now.
Norn.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// tones and dashes tell runs apart, as in page.css; borders are what comes next
// to the dashes where only a border can be drawn.
Norn.tone = (run) => Norn.colour('s' + run % 8);
Norn.borders = ['solid', 'dashed', 'dotted', 'dashed', 'dashed', 'dotted', 'dashed', 'dashed'];
Norn.dashes = [[], [7, 3], [2.5, 2.5], [9, 3, 2, 3], [5, 2], [1.5, 1.5], [4, 2, 1, 2], [12, 3]];
Norn.dash = (run) => (run + Math.floor(run / 8)) % 8; // 64 runs differ in colour or dashes

// element makes an element with a text.
Norn.element = function (tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
};

Norn.clamp = (x, low, high) => Math.min(Math.max(x, low), high);
