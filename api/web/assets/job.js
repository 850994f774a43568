// job.js: one job: how it stands and why, its progress, its devices, what has happened to it,
// and what it writes.

import * as api from './api.js';
import { curve, timeline } from './chart.js';
import { h, meter, once, text, when } from './dom.js';
import { facts, orders, places, setState, state } from './parts.js';
import { store, watch } from './store.js';
import * as words from './words.js';
import { follow } from './output.js';

const soon = 5000, later = 20000; // ms between looks: at a job that runs, at one that waits

// job shows a job until the signal ends.
export function job(main, signal, id) {
  const heading = h('h1', {}, id), stand = h('span'), buttons = h('div', { class: 'orders' });
  const reason = h('p', { class: 'reason', id: 'reason-of' }), about = h('div', { id: 'about' });
  const progress = part('progress', 'Progress'), devices = part('use', 'Devices'), life = part('life', 'What has happened'), why = part('why', 'Why');
  const output = part('output', 'Output');
  main.replaceChildren(h('div', { class: 'top' }, heading, stand, buttons), reason, about,
    h('div', { class: 'pair' }, progress, devices), h('div', { class: 'pair' }, why, life), output);
  [progress, devices, life, why, output].forEach((p) => when(p, false));
  let known = null;

  function show() {
    if (!known) return;
    const j = known.job, now = store.status ? new Date(store.status.now) : new Date();
    once(heading, [j.id, words.title(j)], () => [`${j.id} `, h('span', { class: 'quiet' }, words.title(j))]);
    setState(stand, j);
    once(buttons, [j.id, j.state], () => orders(j));
    text(reason, sentence(j, known, now));
    const pairs = aboutJob(j, now);
    once(about, pairs, () => [facts(pairs.map(([name, value]) => [name, value && name === 'Command' ? h('code', {}, value) : value]))]);
    fill(progress, [j.progress, known.losses].some(Boolean) ? [j.progress || {}, known.losses || ''] : '', () => [...progressOf(j), curve(known.losses)]);
    fill(devices, devicesOf(j), () => devicesOf(j).map(device));
    fill(why, because(known), () => because(known).map(([name, list]) => [h('h3', {}, name), h('ul', { class: 'plain' }, list.map((l) => h('li', {}, l)))]));
    fill(life, [Math.round(j.wait), Math.round(j.ran), known.life || '', known.course || ''], () => [...timesOf(j, known.course, now), h('ol', { class: 'events' }, (known.life || []).map(happened))]);
  }

  async function look() {
    try {
      known = await api.get(`${api.ofJob(id)}/why`, signal);
      show();
      if (output.hidden && known.job.run) {
        when(output, true);
        follow(output.body, id, () => known.job, signal);
      }
    } catch (e) {
      if (!signal.aborted && e.status) text(reason, e.message);
      return e.status !== 404;
    }
    return !words.over(known.job);
  }
  watchJob(id, look, () => (known && words.holds(known.job) ? soon : later), signal);
  watch(show, signal);
}

// watchJob looks again and again while there is something to see: at once when an event tells
// of the job, and every so often.
async function watchJob(id, look, every, signal) {
  let seen = 0, wake = () => {};
  watch(() => {
    const last = store.events.findLast((e) => e.job === id);
    if (last && last.seq > seen) {
      seen = last.seq;
      wake();
    }
  }, signal);
  while (!signal.aborted && await look()) {
    if (document.hidden) await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
    await new Promise((done) => {
      const timer = setTimeout(done, every());
      wake = () => { clearTimeout(timer); done(); };
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}

function part(id, heading) {
  const body = h('div', { class: 'card' });
  const e = h('section', { id, 'aria-labelledby': `h-${id}` }, h('h2', { id: `h-${id}` }, heading), body);
  e.body = body;
  return e;
}

// fill shows a part if there is something in it.
function fill(e, input, make) {
  const some = Array.isArray(input) ? input.length > 0 : Boolean(input);
  when(e, some);
  if (some) once(e.body, input, () => make().flat(2));
}

function sentence(j, w, now) {
  const expected = w.expected_start ? ` It is expected to start ${new Date(w.expected_start) - now < 1000 ? 'now' : `at ${words.clock(w.expected_start, now)}`}.` : '';
  const unknown = !expected && w.expected_unknown && j.state === 'waiting' ? ` When it starts cannot be told: ${w.expected_unknown}.` : '';
  const end = j.expected_end ? ` It is expected to end at ${words.clock(j.expected_end, now)}.` : '';
  const said = w.reason ? `${w.reason[0].toUpperCase()}${w.reason.slice(1).replace(/\.$/, '')}.` : '';
  return said + expected + unknown + end;
}

function aboutJob(j, now) {
  const t = (x) => (x ? words.clock(x, now) : '');
  return [
    ['User', j.user], ['Tenant', j.tenant], ['Asks for', [words.gpus(j.gpus), j.cpus ? `, ${words.number(j.cpus)} cores` : '', j.mem ? `, ${words.memory(j.mem)}` : ''].join('')],
    ['On', places(j)], ['Submitted', t(j.submitted)], ['First start', t(j.started)], ['Ended', t(j.ended)],
    ['GPU-hours', j.gpu_seconds ? words.number(j.gpu_seconds / 3600) : ''], ['Run', j.run > 1 ? `${j.run}` : ''], ['Preempted', j.preemptions ? `${j.preemptions} times` : ''],
    ['Failed runs', j.failures], ['Exit', exit(j.exit)], ['Estimate', j.est ? words.span(j.est) : ''], ['Limit', j.limit ? words.span(j.limit) : ''], ['Deadline', t(j.deadline)],
    ['Promise', j.promise], ['Stopped by', j.stop_mode], ['Priority', j.priority], ['Folder', j.dir], ['Command', (j.command || []).join(' ')],
  ];
}

function exit(e) {
  if (!e) return '';
  return [e.signal || `${e.code}`, e.note].filter(Boolean).join(', ');
}

function progressOf(j) {
  const r = j.progress || {}, p = words.progress(j), bar = meter();
  if (p && p.share !== undefined) bar.set(p.share, words.percent(p.share));
  return [
    p ? h('p', { class: 'bars' }, p.share === undefined ? '' : bar, `${p.share === undefined ? '' : `${words.percent(p.share)}, `}${p.words}`) : '',
    facts([
      ['Loss', r.loss !== undefined ? String(Number(r.loss.toPrecision(5))) : ''], ['Epoch', r.epoch ? words.number(r.epoch) : ''], ['Samples', r.samples ? r.samples.toLocaleString('en') : ''],
      ['Step', r.step_time ? `${words.number(r.step_time * 1000)} ms` : ''], ['Batch', r.batch], ['Learning rate', r.lr],
      ...Object.entries(r.quality || {}).map(([name, v]) => [name, words.number(v)]), ['Speed', j.speed ? words.number(j.speed) : ''],
    ]),
  ];
}

// devicesOf are the devices of a job that are measured or shared.
function devicesOf(j) {
  const here = new Set(j.devices || []);
  return store.node ? (store.node.devices || []).filter((d) => here.has(d.name)) : [];
}

function device(d) {
  const bar = meter(), used = meter(), others = (d.jobs || []).length - 1;
  bar.set(d.util || 0, `${words.percent(d.util || 0)} of ${d.name} in use`);
  used.set(d.mem ? (d.mem_used || 0) / d.mem : 0, `memory of ${d.name} in use`, 'two');
  return h('div', { class: 'bars' }, h('b', { class: 'named' }, d.name), h('span', { class: 'quiet' }, `${d.type === 'slot' ? '' : d.type}${others > 0 ? `, shared with ${words.count(others, 'job')}` : ''}`),
    d.measured ? h('div', { class: 'load' }, bar, h('small', {}, `${words.percent(d.util || 0)} in use`), used, h('small', {}, `${words.memory(d.mem_used || 0)} of ${words.memory(d.mem || 0)}`)) : h('small', { class: 'quiet' }, 'not measured'));
}

// because is what a Why tells beside its sentence: pairs of a heading and lines.
function because(w) {
  return [
    ['What would let it start', w.frees], ['Ahead of it', w.ahead && w.ahead.length ? [w.ahead.join(', ')] : []], ['Who holds what it could use', w.holders], ['Beside it', w.beside],
    ['If it is preempted', w.stop && !words.over(w.job) ? [w.stop] : []], ['Memory', w.memory ? [w.memory] : []], ['What the policy believes', w.beliefs], ['How it is confined', w.isolation],
  ].filter(([, list]) => list && list.length);
}

// timesOf is where a job was from when to when, and for how long it waited and ran.
function timesOf(j, course, now) {
  const wait = j.wait || 0, ran = j.ran || 0;
  if (!wait && !ran) return [];
  return [timeline(course, now),
    h('p', {}, h('small', { class: 'quiet' }, h('i', { class: 'sw waited' }), `waited ${words.span(wait)}`, h('i', { class: 'sw ran' }), `ran ${words.span(ran)}`))];
}

// happened is a line of a life: its moment and what happened.
function happened(line) {
  const [, moment, what] = /^(\S+ \S+) (.*)$/.exec(line) || [null, '', line];
  return h('li', {}, h('time', { class: 'quiet' }, moment), ` ${what}`);
}
