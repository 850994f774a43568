// chart.js: drawings of a job: its losses by step, and where it was from when to when.

import { h } from './dom.js';
import * as words from './words.js';

const most = 8; // lanes of a timeline

// precise writes a loss with five digits at most.
const precise = (v) => String(Number(v.toPrecision(4)));

// curve draws losses by step. One that falls by more than 30 times is drawn by its logarithm.
export function curve(points) {
  if (!points || points.length < 2) return '';
  const first = points[0], last = points.at(-1);
  const low = Math.min(...points.map((p) => p.loss)), high = Math.max(...points.map((p) => p.loss));
  const logs = low > 0 && high / low > 30, scale = logs ? Math.log : (v) => v;
  const across = (step) => 100 * (step - first.step) / (last.step - first.step);
  const down = (loss) => (high > low ? 100 * (scale(high) - scale(loss)) / (scale(high) - scale(low)) : 50);
  const d = points.map((p, i) => `${i ? 'L' : 'M'}${across(p.step).toFixed(2)} ${down(p.loss).toFixed(2)}`).join('');
  const label = `Loss from ${precise(first.loss)} at step ${first.step.toLocaleString('en')} to ${precise(last.loss)} at step ${last.step.toLocaleString('en')}, lowest ${precise(low)}`;
  const line = (y) => h('line', { class: 'rule', x1: 0, x2: 100, y1: y, y2: y });
  return h('figure', { class: 'curve' },
    h('figcaption', {}, `Loss${logs ? ', on a logarithmic scale' : ''}`),
    h('div', { class: 'plot' },
      h('div', { class: 'scale' }, h('small', {}, precise(high)), h('small', {}, precise(low))),
      h('svg', { viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, h('title', {}, label), line(0), line(50), line(100), h('path', { d, class: 'line' })),
      h('span'), h('div', { class: 'steps' }, h('small', {}, `step ${first.step.toLocaleString('en')}`), h('small', {}, last.step.toLocaleString('en')))));
}

// timeline draws how a job stood: a lane for waiting, and one for each place where it was.
export function timeline(course, now) {
  if (!course || !course.length) return '';
  const from = new Date(course[0].from), end = (s) => (s.to ? new Date(s.to) : now);
  const until = Math.max(...course.map(end)), all = Math.max(until - from, 1);
  const names = [];
  const lane = (s) => s.on || (['held', 'waiting'].includes(s.state) ? 'no device' : 'elsewhere');
  for (const s of course) if (!names.includes(lane(s))) names.push(lane(s));
  const shown = names.length > most ? [...names.slice(0, most - 1), 'elsewhere'] : names;
  const of = (s) => (shown.includes(lane(s)) ? lane(s) : 'elsewhere');
  const tell = (s) => `${s.state}${s.on ? ` on ${s.on}` : ''} from ${words.day(s.from)}${s.to ? ` to ${words.day(s.to)}` : ''}, ${words.span((end(s) - new Date(s.from)) / 1000)}`;
  const bar = (s) => {
    const e = h('span', { class: `bar-of is-${s.state}`, title: tell(s) });
    e.style.left = `${100 * (new Date(s.from) - from) / all}%`;
    e.style.width = `${100 * Math.max(end(s) - new Date(s.from), 0) / all}%`;
    return e;
  };
  return h('figure', { class: 'course' },
    ...shown.map((name) => {
      const here = course.filter((s) => of(s) === name);
      return h('div', { class: 'lane' }, h('small', { title: name }, name), h('div', { class: 'track', role: 'img', 'aria-label': `${name}: ${here.slice(0, 5).map(tell).join('; ')}${here.length > 5 ? `; and ${here.length - 5} more` : ''}` }, here.map(bar)));
    }),
    h('div', { class: 'lane' }, h('span'), h('div', { class: 'steps' }, h('small', {}, words.clock(from, now)), h('small', {}, until >= now - 1000 ? 'now' : words.clock(until, now)))));
}
