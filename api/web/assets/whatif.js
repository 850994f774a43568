// whatif.js: what other policies would have made of the past of this Norn, as norn plan says
// it: before and after, who gains and loses, and how far to believe it.

import * as api from './api.js';
import { h, meter, rows, say, text, when } from './dom.js';
import { column, table } from './parts.js';
import { store, watch } from './store.js';
import * as words from './words.js';

const usual = ['fifo', 'srtf', 'tiresias']; // that norn plan tries, too
const periods = [[1, 'the last day'], [7, 'the last 7 days'], [30, 'the last 30 days'], [0, 'all that is kept']];

let known = []; // policies of this Norn
let chosen = { policy: '', settings: '', days: 7, grow: '' };
let answer = null; // the last one, which stays while other views are looked at
let given = 0; // when a question was given up last

// sizes are those of the machine that are offered, as the API has them and in words.
function sizes() {
  if (store.status && store.status.nodes > 1) return [['', 'the machines that there are'], ['1,2,4', '1, 2, 4 nodes more'], ['-1', '1 node less']];
  return [['', 'this machine'], ['1gpu,2gpus,4gpus', '1, 2, 4 GPUs more'], ['-1gpu', '1 GPU less'], ['1', 'a second one like it']];
}

// whatif shows the view until the signal ends, and asks at once if nothing was asked before.
export function whatif(main, signal) {
  const glance = h('p', { class: 'glance', id: 'glance', role: 'status' }), note = h('p', { class: 'quiet', id: 'note' });
  const pick = h('select', { id: 'policy', onchange: () => { chosen.policy = pick.value; settings.disabled = !pick.value; } });
  const settings = h('input', { id: 'settings', placeholder: 'limits=3600', autocomplete: 'off', spellcheck: 'false', value: chosen.settings, oninput: () => { chosen.settings = settings.value.trim(); } });
  const period = h('select', { id: 'period', onchange: () => { chosen.days = Number(period.value); } }, periods.map(([n, name]) => h('option', { value: n, selected: n === chosen.days }, name)));
  const size = h('select', { id: 'size', onchange: () => { chosen.grow = size.value; } });
  const go = h('button', { class: 'strong', id: 'try' }, 'What if?');
  const form = h('form', { class: 'bar', onsubmit: (e) => { e.preventDefault(); if (running) running.abort(); else ask(); } },
    h('label', { for: 'policy' }, 'Under'), pick, h('label', { for: 'settings' }, 'with'), settings, h('label', { for: 'period' }, 'in'), period, h('label', { for: 'size' }, 'on'), size, go);
  const parts = [runsPart(), sizesPart(), usersPart(), jobsPart(), restsPart()];
  let running = null, offered = false;
  main.replaceChildren(glance, note, form, ...parts);

  async function offer() {
    size.replaceChildren(...sizes().map(([grow, name]) => h('option', { value: grow, selected: grow === chosen.grow }, name)));
    if (!known.length) {
      try {
        known = (await api.get('/v1/policies', signal)).policies;
      } catch {
        return; // the link tells that Norn is gone
      }
    }
    pick.replaceChildren(h('option', { value: '' }, `${usual.join(', ')} (the usual ones)`), ...known.map((p) => h('option', { value: p.name, title: p.title }, `${p.name}: ${p.title.slice(0, 60)}`)));
    pick.value = chosen.policy;
    settings.disabled = !chosen.policy;
  }

  // question is what is asked, as the API has it.
  function question() {
    const q = { policies: chosen.policy ? [chosen.settings ? `${chosen.policy}(${chosen.settings})` : chosen.policy] : usual };
    if (chosen.grow) q.grow = chosen.grow;
    if (chosen.days) q.since = new Date(Date.now() - chosen.days * 86400e3).toISOString();
    return q;
  }

  async function ask() {
    const mine = running = new AbortController(), ended = AbortSignal.any([signal, mine.signal]);
    const began = Date.now();
    text(go, 'Stop');
    const tell = () => text(note, `Norn simulates the past on the side, ${words.span((Date.now() - began) / 1000)} so far. It ends when you leave.`);
    tell();
    const ticking = setInterval(tell, 1000);
    try {
      answer = await asked(question(), ended);
    } catch (e) {
      if (mine.signal.aborted || signal.aborted) given = Date.now();
      else {
        say(e.message, true);
        if (!answer) text(glance, `${e.message[0].toUpperCase()}${e.message.slice(1)}.`);
      }
    }
    clearInterval(ticking);
    running = null;
    text(go, 'What if?');
    show();
  }

  function show() {
    const may = !store.me || store.me.operator;
    when(form, may);
    if (!may) text(glance, 'What-ifs tell of everybody\'s jobs, so they are for operators.');
    parts.forEach((p) => when(p, may && Boolean(answer)));
    if (running) return;
    text(note, answer && may ? subject(answer) : '');
    if (!answer || !may) return;
    text(glance, answer.verdict);
    parts.forEach((p) => p.update(answer));
  }

  function begin() {
    if (offered || !store.me) return;
    offered = true;
    show();
    if (!store.me.operator) return;
    offer();
    if (!answer) ask();
  }
  watch(begin, signal);
  text(glance, 'What would other policies have made of the past?');
  begin();
}

// asked asks, again where what was given up a moment ago is still being ended.
async function asked(question, signal) {
  for (let tries = 0; ; tries++) {
    try {
      return await api.plan(question, signal);
    } catch (e) {
      if (e.status !== 409 || tries > 4 || Date.now() - given > 10000 || !/one at a time/.test(e.message)) throw e;
      await new Promise((done) => setTimeout(done, 400));
    }
  }
}

function subject(p) {
  const day = (t) => words.day(t).slice(0, 16);
  return `${words.count(p.submitted, 'job')} from ${day(p.from)} to ${day(p.to)}, of which ${words.count(p.compared, 'is', 'are')} compared: ${p.compared === 1 ? 'it has' : 'they have'} ended after they ran. In force: ${words.list(p.in_force)}.`;
}

function section(id, heading, ...children) {
  return h('section', { id, 'aria-labelledby': `h-${id}` }, h('h2', { id: `h-${id}` }, heading), h('div', { class: 'card' }, children));
}

// change writes a share with its sign, +12 %, -3 %, and one that is large as 25 times.
function change(share) {
  if (share >= 9) return `${words.number(1 + share)} times`;
  const p = Math.round(share * 1000) / 10;
  return `${p > 0 ? '+' : p < 0 ? '−' : ''}${Math.abs(p)} %`;
}

const kinds = { real: 'what happened', check: 'the check', plan: '' };

function runsPart() {
  const t = table('Before and after', column('policy'), column('mean time'), column('change', 'num'), column('half within', 'num wide'), column('nine tenths within', 'num wide'), column('mean wait', 'num'), column('preempted', 'num wide'), column('GPUs used', 'num wide'));
  const trust = h('p', { class: 'lead', id: 'trust' }), remarks = h('ul', { class: 'plain', id: 'remarks' });
  const e = section('runs', 'Before and after', h('p', { class: 'lead' }, 'From submission to end; waits are the part of that without devices.'), t, trust, remarks);
  e.update = (p) => {
    const top = Math.max(...p.runs.map((r) => r.jct_mean), 0);
    rows(t.body, p.runs, (r) => r.name, makeRun, (row, r) => {
      const mean = r.ended ? words.span(r.jct_mean) : 'none ends';
      row.bar.set(top ? r.jct_mean / top : 0, mean, r.kind === 'plan' ? '' : 'two');
      text(row.mean, mean);
      text(row.kind, [kinds[r.kind], r.jobs_left ? `${words.count(r.jobs_left, 'job never ends', 'jobs never end')}` : ''].filter(Boolean).join('; '));
      [r.kind === 'real' ? '' : change(r.jct_change), words.span(r.jct_median), words.span(r.jct_p90), words.span(r.wait_mean), r.preemptions.toLocaleString('en'), words.percent(r.gpu_utilisation)]
        .forEach((v, i) => text(row.cells_[i], v));
      row.cells_[0].className = `num ${r.kind === 'plan' && r.jct_change < -0.005 ? 'good' : r.kind === 'plan' && r.jct_change > 0.005 ? 'bad' : ''}`;
    });
    text(trust, p.trust || '');
    when(trust, Boolean(p.trust));
    const said = p.runs.flatMap((r) => (r.remarks || []).map((w) => `${r.name}: ${w}`)).slice(0, 8);
    when(remarks, said.length > 0);
    rows(remarks, said, (w) => w, (w) => h('li', {}, w), () => {});
  };
  return e;
}

function makeRun(r) {
  const e = h('tr');
  e.kind = h('small', { class: 'quiet' });
  e.bar = meter();
  e.mean = h('span');
  e.cells_ = ['num', 'num wide', 'num wide', 'num', 'num wide', 'num wide'].map((kind) => h('td', { class: kind }));
  e.append(h('th', { scope: 'row', class: 'job wrap' }, h('b', {}, r.name), e.kind), h('td', {}, e.bar, e.mean), ...e.cells_);
  return e;
}

// sizesPart says how many nodes or GPUs are enough, where other sizes were asked for.
function sizesPart() {
  const t = table('Waits by size', column('policy'), column('size'), column('GPUs', 'num'), column('mean wait'), column('of waiting saved', 'num'), column('never end', 'num wide'));
  const said = h('ul', { class: 'plain', id: 'enough' });
  const e = section('sizes', 'How many GPUs are enough', h('p', { class: 'lead' }, 'Waits of the jobs that end on all sizes under a policy.'), said, t);
  e.update = (p) => {
    const all = p.growths || [];
    when(e, all.length > 0);
    said.replaceChildren(...[...all.map((g) => g.sentence), p.instead].filter(Boolean).map((w) => h('li', {}, w)));
    const top = Math.max(...all.flatMap((g) => g.points.map((x) => x.wait_mean)), 0);
    t.body.replaceChildren(...all.flatMap((g) => g.points.map((x) => {
      const bar = meter(), wait = words.span(x.wait_mean);
      bar.set(top ? x.wait_mean / top : 0, wait, x.growth ? '' : 'two');
      return h('tr', {}, h('th', { scope: 'row', class: 'wrap' }, g.policy), h('td', {}, x.growth || 'as it is'), h('td', { class: 'num' }, String(x.gpus)), h('td', {}, bar, wait),
        h('td', { class: 'num' }, x.growth ? words.percent(x.wait_saved) : ''), h('td', { class: 'num wide' }, x.jobs_left ? String(x.jobs_left) : ''));
    })));
  };
  return e;
}

function usersPart() {
  const card = h('div');
  const e = section('gains', 'Who gains and loses', h('p', { class: 'lead' }, 'Mean time from submission to end, of the users of most jobs.'), card);
  e.update = (p) => {
    const t = table('Mean time to the end by user', column('user'), column('jobs', 'num'), ...p.runs.map((r) => column(r.name, r.kind === 'check' ? 'num wide' : 'num')));
    card.replaceChildren(t);
    rows(t.body, p.users, (u) => u.name, (u) => h('tr', {}, h('th', { scope: 'row' }, u.name), h('td', { class: 'num' }, String(u.jobs)),
      ...p.runs.map((r, i) => h('td', { class: r.kind === 'check' ? 'num wide' : 'num' }, u.jct_mean[i] === null ? '' : words.span(u.jct_mean[i])))), () => {});
  };
  return e;
}

function jobsPart() {
  const t = table('Jobs that change most', column('job'), column('under'), column('took', 'num'), column('would take', 'num'));
  const e = section('changes', 'Jobs that change most', t);
  e.update = (p) => {
    const list = p.runs.filter((r) => r.kind === 'plan').flatMap((r) => [...(r.gain_most || []).slice(0, 3), ...(r.lose_most || []).slice(0, 3)].map((j) => ({ ...j, run: r.name })));
    when(e, list.length > 0);
    t.body.replaceChildren(...list.map((j) => h('tr', {},
      h('th', { scope: 'row', class: 'job' }, h('a', { href: `#/job/${encodeURIComponent(j.job)}` }, h('b', {}, j.job), j.name ? ` ${j.name}` : ''), h('small', { class: 'quiet' }, j.user || '')),
      h('td', { class: 'wrap' }, j.run), h('td', { class: 'num' }, words.span(j.jct)), h('td', { class: `num ${j.would_be < j.jct ? 'good' : 'bad'}` }, words.span(j.would_be)))));
  };
  return e;
}

function restsPart() {
  const list = h('ul', { class: 'plain' });
  const e = section('rests', 'What is assumed', h('p', { class: 'lead' }, 'Flags that are named are those of norn plan, in a terminal, which tries other estimates, costs and clusters, too.'), list);
  e.update = (p) => list.replaceChildren(...p.assumptions.map((a) => h('li', {}, a)));
  return e;
}
