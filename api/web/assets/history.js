// history.js: the jobs that have ended, and the GPU-hours of each user.

import * as api from './api.js';
import { h, meter, pager, rows, text, when } from './dom.js';
import { column, jobLink, setState, state, table } from './parts.js';
import { store, watch } from './store.js';
import * as words from './words.js';

const most = 5000; // jobs that are asked for
const pause = 5000; // ms between two requests for them
const periods = [[1, 'the last day'], [7, 'the last 7 days'], [30, 'the last 30 days']];
const endings = ['end', 'cancel', 'fail'];

let days = 7;

// history shows the view until the signal ends.
export function history(main, signal) {
  let jobs = [];
  const pick = h('select', { id: 'period', onchange: () => { days = Number(pick.value); load(); } }, periods.map(([n, name]) => h('option', { value: n, selected: n === days }, name)));
  const glance = h('p', { class: 'glance', id: 'glance' });
  const users = usersPart(show), tenants = tenantsPart(show), ended = endedPart(show);
  main.replaceChildren(glance, h('div', { class: 'bar' }, h('label', { for: 'period' }, 'Ended in'), pick), users, tenants, ended);

  function show() {
    const sums = byUser(jobs), hours = sums.reduce((n, u) => n + u.hours, 0);
    text(glance, jobs.length
      ? `${words.count(jobs.length, 'job')} ended, after ${words.number(hours)} GPU-hours.${jobs.length >= most ? ` Only the last ${most.toLocaleString('en')} are counted.` : ''}`
      : 'No job has ended.');
    users.update(sums);
    tenants.update(store.status ? store.status.tenants || [] : []);
    ended.update(jobs);
  }

  let next = 0, seen = 0;
  async function load() {
    clearTimeout(next);
    next = 0;
    const since = new Date(Date.now() - days * 86400e3).toISOString();
    try {
      const found = (await api.get(`/v1/jobs?state=done,failed,cancelled&limit=${most}&since=${encodeURIComponent(since)}`, signal)).jobs;
      jobs = found.filter((j) => j.ended).sort((a, b) => new Date(b.ended) - new Date(a.ended));
      show();
    } catch {
      // the link tells that Norn is gone
    }
  }
  watch(() => {
    const last = store.events.findLast((e) => endings.includes(e.kind));
    if (last && last.seq > seen && !next) {
      next = setTimeout(load, seen ? pause : 0);
      seen = last.seq;
    }
    tenants.update(store.status ? store.status.tenants || [] : []);
  }, signal);
  signal.addEventListener('abort', () => clearTimeout(next));
  load();
}

// byUser sums up jobs by user, the most hours first.
function byUser(jobs) {
  const of = new Map();
  for (const j of jobs) {
    const u = of.get(j.user) || { user: j.user, jobs: 0, done: 0, failed: 0, cancelled: 0, hours: 0, wait: 0 };
    u.jobs += 1;
    u[j.state] += 1;
    u.hours += (j.gpu_seconds || 0) / 3600;
    u.wait += j.wait || 0;
    of.set(j.user, u);
  }
  return [...of.values()].sort((a, b) => b.hours - a.hours || b.jobs - a.jobs || (a.user < b.user ? -1 : 1));
}

function part(id, heading, ...children) {
  return h('section', { id, 'aria-labelledby': `h-${id}` }, h('h2', { id: `h-${id}` }, heading), h('div', { class: 'card' }, children));
}

function usersPart(changed) {
  const t = table('Hours by user', column('user'), column('GPU-hours'), column('jobs', 'num'), column('done', 'num wide'), column('failed', 'num'), column('cancelled', 'num wide'), column('mean wait', 'num'));
  const turn = pager(20, 'users', changed), e = part('users', 'Hours by user', t, turn);
  e.update = (list) => {
    when(e, list.length > 0);
    const top = Math.max(...list.map((u) => u.hours), 0);
    rows(t.body, turn.cut(list), (u) => u.user, makeUser, (row, u) => {
      row.bar.set(top ? u.hours / top : 0, `${words.number(u.hours)} GPU-hours`);
      [words.number(u.hours), u.jobs, u.done, u.failed, u.cancelled, words.span(u.wait / u.jobs)].forEach((v, i) => text(row.cells_[i], String(v)));
    });
  };
  return e;
}

function makeUser(u) {
  const e = h('tr', {}, h('th', { scope: 'row' }, u.user));
  e.bar = meter();
  const hours = h('span');
  e.append(h('td', {}, e.bar, hours));
  e.cells_ = [hours, ...['num', 'num wide', 'num', 'num wide', 'num'].map((kind) => h('td', { class: kind }))];
  e.append(...e.cells_.slice(1));
  return e;
}

function tenantsPart(changed) {
  const t = table('Tenants', column('tenant'), column('GPUs now', 'num'), column('guarantee', 'num'), column('limit', 'num'), column('waiting', 'num'), column('used GPU-hours', 'num'));
  const turn = pager(20, 'tenants', changed);
  const e = part('tenants', 'Tenants', h('p', { class: 'lead' }, 'Used hours count less the longer they are ago, as the policy has them.'), t, turn);
  e.update = (list) => {
    when(e, list.length > 0);
    rows(t.body, turn.cut(list), (x) => x.name, (x) => {
      const row = h('tr', {}, h('th', { scope: 'row' }, x.name));
      row.cells_ = [0, 1, 2, 3, 4].map(() => h('td', { class: 'num' }));
      row.append(...row.cells_);
      return row;
    }, (row, x) => [words.number(x.gpus_held), x.guarantee ? words.number(x.guarantee) : '', x.limit ? words.number(x.limit) : '', x.waiting, words.number(x.usage_gpu_hours)]
      .forEach((v, i) => text(row.cells_[i], String(v))));
  };
  return e;
}

function endedPart(changed) {
  const t = table('Jobs that have ended', column('job'), column('outcome'), column('ended', 'num'), column('waited', 'num wide'), column('ran', 'num'), column('GPU-hours', 'num wide'), column('', 'wide'));
  const turn = pager(40, 'ended jobs', changed), e = part('ended', 'Jobs that have ended', t, turn);
  e.update = (list) => {
    when(e, list.length > 0);
    rows(t.body, turn.cut(list), (j) => `${j.id} ${j.submitted}`, makeEnded, (row, j) => {
      setState(row.state, j);
      [words.clock(j.ended), words.span(j.wait), words.span(j.ran), j.gpu_seconds ? words.number(j.gpu_seconds / 3600) : '', j.state === 'failed' ? j.reason || '' : '']
        .forEach((v, i) => text(row.cells_[i], v));
    });
  };
  return e;
}

function makeEnded(j) {
  const e = h('tr', {}, h('th', { scope: 'row', class: 'job' }, jobLink(j), h('small', { class: 'quiet' }, j.user)));
  e.state = state(j);
  e.cells_ = ['num', 'num wide', 'num', 'num wide', 'wide wrap'].map((kind) => h('td', { class: kind }));
  e.append(h('td', {}, e.state), ...e.cells_);
  return e;
}
