// now.js: the whole at one glance: devices and who holds them, what runs, who waits, why and
// until when.

import * as api from './api.js';
import { h, meter, once, pager, rows, text, when } from './dom.js';
import { column, drain, facts, holder, jobLink, places, setState, state, table } from './parts.js';
import { store, watch } from './store.js';
import * as words from './words.js';

const pause = 5000; // ms between two forecasts, or four times as long as one takes

let forecast = { starts: new Map(), whole: false, policy: '' }; // starts: by job, in the order in which they start

// now shows the view until the signal ends.
export function now(main, signal) {
  const glance = h('p', { class: 'glance', id: 'glance' }), trouble = h('ul', { class: 'trouble', id: 'trouble' });
  const about = h('div', { id: 'about' });
  const devices = devicesPart(update), running = runningPart(update), waiting = waitingPart(update);
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Number, name or user', 'aria-label': 'Show only jobs whose number, name or user has', oninput: () => { running.first(); waiting.first(); update(); } });
  const events = eventsPart();
  const all = h('div', { hidden: true }, glance, trouble, about, devices, h('div', { class: 'find' }, filter), running, waiting, events);
  main.replaceChildren(all);
  document.addEventListener('keydown', (e) => {
    if (e.key === '/' && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName) && !e.ctrlKey && !e.metaKey) {
      e.preventDefault();
      filter.focus();
    }
  }, { signal });

  function update() {
    if (!store.status) return;
    const wanted = filter.value.trim().toLowerCase();
    const jobs = [...store.jobs.values()];
    const shown = wanted ? jobs.filter((j) => `${j.id} ${words.title(j)} ${j.user}`.toLowerCase().includes(wanted)) : jobs;
    when(all, true);
    text(glance, sentence(jobs));
    once(trouble, store.status.trouble || [], () => (store.status.trouble || []).map((t) => h('li', {}, t)));
    once(about, [store.node.name, store.node.health, store.node.note, store.status.policy, store.status.version, Math.floor((new Date(store.status.now) - new Date(store.status.up)) / 60000), store.me], aboutPart);
    devices.update();
    running.update(shown.filter(words.holds));
    waiting.update(shown.filter((j) => !words.holds(j)));
    events.update();
  }
  watch(update, signal);
  update();
  foretell(update, signal);
}

function aboutPart() {
  const n = store.node, s = store.status, out = n.health === 'drained';
  return [facts([
    [s.nodes ? 'Cluster' : 'Machine', [n.name, ' ', out ? h('span', { class: 'state is-failed' }, 'drained') : '', s.nodes ? '' : drain('', out)]], ['Note', n.note],
    ['Policy', [s.policy, store.me && store.me.operator ? h('button', { type: 'button', class: 'small beside', 'data-key': 'what-if', onclick: () => { location.hash = '#/what-if'; } }, 'What if another?') : '']], ['Norn', `${s.version}, up ${words.long((new Date(s.now) - new Date(s.up)) / 1000)}`],
  ])];
}

const isWaiting = (job) => Boolean(job) && job.state === 'waiting';

// queue is waiting jobs in the order in which they are expected to start, and behind them the
// others in the order of submission.
function queue(jobs) {
  const turn = new Map([...forecast.starts.keys()].map((id, i) => [id, i]));
  const of = (j) => (isWaiting(j) && turn.has(j.id) ? turn.get(j.id) : Infinity);
  return jobs.map((j, i) => ({ j, i, turn: of(j) })).sort((a, b) => (a.turn === b.turn ? a.i - b.i : a.turn - b.turn)).map((x) => x.j);
}

// order says in which order waiting jobs stand.
function order(jobs) {
  const known = jobs.filter((j) => isWaiting(j) && forecast.starts.has(j.id)).length, all = jobs.filter(isWaiting).length;
  const rests = 'if estimates hold and nobody comes';
  if (known === 0) return forecast.policy && all ? 'In the order of submission: when jobs start cannot be told, since some that go ahead have no estimate, or wait for something else.' : 'In the order of submission.';
  if (known === jobs.length) return `In the order in which ${forecast.policy} is expected to start them, ${rests}.`;
  return `First ${words.count(known, 'job')} in the order in which ${forecast.policy} is expected to start them, ${rests}; then the others in the order of submission${forecast.whole ? ', since their starts cannot be told' : ''}.`;
}

// sentence is the state of things in one or two sentences.
function sentence(jobs) {
  const s = store.status, devices = store.node.devices || [];
  const used = store.nodes.length ? '' : `${devices.filter((d) => d.jobs && d.jobs.length).length} of ${words.count(devices.length, 'device')} in use. `;
  const waits = s.waiting ? `${words.count(s.waiting, 'job waits', 'jobs wait')}` : 'nobody waits';
  const held = s.held ? `, ${s.held.toLocaleString('en')} held` : '';
  const next = [...forecast.starts].map(([id, at]) => ({ id, at })).find((x) => isWaiting(store.jobs.get(x.id)));
  return `${used}${words.count(s.running, 'job runs', 'jobs run')}, ${waits}${held}.${next ? ` The next start is expected ${at(next.at)} (job ${next.id}).` : ''}`;
}

// at writes the moment of a start that is expected.
function at(t) { return new Date(t) - new Date(store.status.now) < 1000 ? 'now' : `at ${words.clock(t, new Date(store.status.now))}`; }

function section(id, heading, ...children) {
  const title = h('h2', { id: `h-${id}` }, heading);
  const e = h('section', { 'aria-labelledby': `h-${id}`, id }, title, ...children);
  e.heading = title;
  return e;
}

// devicesPart has a tile for each device, or a row for each node of a cluster.
function devicesPart(changed) {
  const tiles = h('ul', { class: 'tiles', 'aria-label': 'Devices' }), turnTiles = pager(48, 'devices', changed);
  const nodes = table('Nodes', column('node'), column('GPUs in use'), column('state'), column('jobs'), column('', 'num'));
  const turnNodes = pager(25, 'nodes', changed);
  const e = section('devices', 'Devices', h('div', { class: 'card' }, tiles, turnTiles, nodes, turnNodes));
  e.update = () => {
    const cluster = store.nodes.length > 0, all = store.node.devices || [];
    text(e.heading, cluster ? 'Nodes' : 'Devices');
    [tiles, turnTiles].forEach((x) => when(x, !cluster));
    [nodes, turnNodes].forEach((x) => when(x, cluster));
    if (cluster) rows(nodes.body, turnNodes.cut(store.nodes), (n) => n.name, () => makeNode(), fillNode);
    else rows(tiles, turnTiles.cut(all), (d) => d.name, makeTile, fillTile);
  };
  return e;
}

function makeTile(d) {
  const e = h('li', { class: 'tile' });
  e.name = h('b', {}, d.name);
  e.kind = h('small', { class: 'quiet' });
  e.bar = meter();
  e.use = h('small', { class: 'quiet' });
  e.who = h('div', { class: 'holders' });
  e.act = h('span', { class: 'act' });
  e.append(h('div', { class: 'head' }, e.name, e.kind, e.act), e.who, h('div', { class: 'load' }, e.bar, e.use));
  return e;
}

function fillTile(e, d) {
  const jobs = d.jobs || [];
  e.className = `tile ${d.broken ? 'is-out' : jobs.length ? 'is-used' : 'is-free'}`;
  text(e.kind, d.type === 'slot' ? '' : d.type);
  const parts = [];
  if (d.measured) parts.push(words.percent(d.util || 0));
  if (d.mem) parts.push(d.measured ? `${words.memory(d.mem_used || 0)} of ${words.memory(d.mem)}` : words.memory(d.mem));
  if (d.celsius) parts.push(`${Math.round(d.celsius)} °C`);
  if (d.watts) parts.push(`${Math.round(d.watts)} W`);
  text(e.use, parts.join(', '));
  when(e.bar, Boolean(d.measured));
  e.bar.set(d.util || 0, `${words.percent(d.util || 0)} of ${d.name} in use`);
  const shown = jobs.slice(0, 3).map((id) => ({ id, job: store.jobs.get(id) }));
  once(e.who, [shown.map(({ id, job }) => [id, job && words.title(job), job && job.user, job && job.expected_end]), jobs.length, d.broken, d.note, d.slow, store.me], () => [
    d.broken ? h('p', { class: 'bad' }, `takes no new work${d.note ? `: ${d.note}` : ''}`) : d.note ? h('p', { class: 'quiet' }, d.note) : '',
    d.slow ? h('p', { class: 'bad' }, `slow: jobs take ${d.slow.toFixed(2)} times as long, as was seen of ${d.slow_jobs}`) : '',
    ...shown.map(({ id, job }) => h('p', {}, holder(id), until(job))),
    jobs.length > 3 ? h('p', { class: 'quiet' }, `and ${words.count(jobs.length - 3, 'more job')}`) : '',
    jobs.length === 0 && !d.broken ? h('p', { class: 'quiet' }, 'free') : '',
  ]);
  once(e.act, [d.broken, store.me], () => drain(d.name, Boolean(d.broken)));
}

// until says when a job is expected to end.
function until(job) {
  return job && job.expected_end ? h('span', { class: 'quiet' }, `, until ${words.clock(job.expected_end, new Date(store.status.now))}`) : '';
}

function makeNode() {
  const e = h('tr');
  e.name = h('th', { scope: 'row' });
  e.bar = meter();
  e.use = h('span');
  e.kind = h('span', { class: 'quiet wide' });
  e.stand = h('td', { class: 'wrap' });
  e.jobs = h('td', { class: 'wrap' });
  e.act = h('td', { class: 'num' });
  e.append(e.name, h('td', {}, e.bar, e.use, ' ', e.kind), e.stand, e.jobs, e.act);
  return e;
}

function fillNode(e, n) {
  text(e.name, n.name);
  const used = n.gpus_held || 0, all = n.gpus || 0;
  e.bar.set(all ? used / all : 0, `${words.number(used)} of ${words.number(all)} GPUs of ${n.name} in use`);
  text(e.use, `${words.number(used)} of ${words.number(all)}`);
  text(e.kind, n.type || '');
  text(e.stand, n.note ? `${n.health}: ${n.note}` : n.health);
  const jobs = n.jobs || [];
  once(e.jobs, [jobs.slice(0, 4), jobs.length, n.others_jobs], () => [
    ...jobs.slice(0, 4).map((id) => [holder(id), ' ']).flat(2),
    [jobs.length > 4 ? `and ${jobs.length - 4} more` : '', n.others_jobs ? `${n.others_jobs} of others` : ''].filter(Boolean).join(', '),
  ]);
  once(e.act, [n.health, store.me], () => drain(n.name, n.health === 'drained'));
}

// jobCell is the first cell of a job: its number, its name, its user.
function jobCell() {
  const e = h('th', { scope: 'row', class: 'job' });
  e.set = (j) => once(e, [j.id, words.title(j), j.user], () => [jobLink(j), h('small', { class: 'quiet' }, j.user)]);
  return e;
}

function runningPart(changed) {
  const t = table('Running jobs', column('job'), column('on'), column('state', 'wide'), column('progress'), column('runs for', 'num wide'), column('ends about', 'num'));
  const turn = pager(25, 'running jobs', changed), none = h('p', { class: 'quiet none' }, 'Nothing runs.');
  const e = section('running', 'Running', h('div', { class: 'card' }, t, none, turn));
  e.first = turn.first;
  e.update = (jobs) => {
    text(e.heading, jobs.length ? `Running: ${jobs.length.toLocaleString('en')}` : 'Running');
    when(t, jobs.length > 0);
    when(none, jobs.length === 0);
    rows(t.body, turn.cut(jobs), (j) => j.id, makeRunning, fillRunning);
  };
  return e;
}

function makeRunning(j) {
  const e = h('tr');
  e.job = jobCell();
  e.on = h('td', { class: 'wrap' });
  e.state = state(j);
  e.bar = meter();
  e.done = h('small', { class: 'quiet' });
  e.ran = h('td', { class: 'num wide' });
  e.end = h('td', { class: 'num' });
  e.append(e.job, e.on, h('td', { class: 'wide' }, e.state), h('td', { class: 'wrap' }, e.bar, e.done), e.ran, e.end);
  return e;
}

function fillRunning(e, j) {
  const p = words.progress(j), today = new Date(store.status.now);
  e.job.set(j);
  text(e.on, places(j) || words.gpus(j.gpus));
  setState(e.state, j);
  when(e.bar, Boolean(p && p.share !== undefined));
  if (p && p.share !== undefined) e.bar.set(p.share, words.percent(p.share));
  text(e.done, p ? p.words : j.reason || '');
  text(e.ran, words.long(j.ran));
  text(e.end, j.expected_end ? words.clock(j.expected_end, today) : '');
}

function waitingPart(changed) {
  const t = table('Waiting jobs', column('job'), column('asks for', 'wide'), column('why'), column('waits for', 'num wide'), column('starts about', 'num'));
  const turn = pager(40, 'waiting jobs', changed), none = h('p', { class: 'quiet none' }, 'Nobody waits.');
  const lead = h('p', { class: 'lead', id: 'order' });
  const e = section('waiting', 'Waiting', h('div', { class: 'card' },
    lead, t, none, turn));
  e.first = turn.first;
  e.update = (jobs) => {
    text(e.heading, jobs.length ? `Waiting: ${jobs.length.toLocaleString('en')}` : 'Waiting');
    when(t, jobs.length > 0);
    when(none, jobs.length === 0);
    when(lead, jobs.length > 0);
    text(lead, order(jobs));
    rows(t.body, turn.cut(queue(jobs)), (j) => j.id, makeWaiting, fillWaiting);
  };
  return e;
}

function makeWaiting() {
  const e = h('tr');
  e.job = jobCell();
  e.asks = h('td', { class: 'wide' });
  e.why = h('td', { class: 'wrap' });
  e.wait = h('td', { class: 'num wide' });
  e.start = h('td', { class: 'num' });
  e.append(e.job, e.asks, e.why, e.wait, e.start);
  return e;
}

function fillWaiting(e, j) {
  e.job.set(j);
  text(e.asks, words.gpus(j.gpus));
  text(e.why, j.state === 'held' && !/held/.test(j.reason) ? `held${j.reason ? `: ${j.reason}` : ''}` : j.reason || 'waits for a decision');
  text(e.wait, words.long(j.wait + (Date.now() - j.seen) / 1000));
  const start = isWaiting(j) ? forecast.starts.get(j.id) : '';
  text(e.start, start ? (at(start) === 'now' ? 'now' : words.clock(start, new Date(store.status.now))) : isWaiting(j) && forecast.whole && j.seen < forecast.asked ? 'not known' : '');
}

// foretell asks when the waiting jobs start, as long as any waits, and rests longer than
// Norn has worked for it.
async function foretell(changed, signal) {
  while (!signal.aborted) {
    let rest = 500;
    if (store.link === 'live' && !document.hidden && store.status.waiting > 0) {
      const asked = Date.now();
      try {
        const f = await api.get('/v1/forecast', signal);
        forecast = { starts: new Map(f.starts.map((s) => [s.job, s.at])), whole: f.whole, policy: f.policy, asked };
        if (!signal.aborted) changed();
      } catch {
        // the link tells that Norn is gone
      }
      rest = Math.max(pause, 4 * (Date.now() - asked));
    }
    await new Promise((done) => setTimeout(done, rest));
  }
}

function eventsPart() {
  const list = h('ol', { class: 'events', id: 'happened' });
  const e = section('events', 'What has happened', h('div', { class: 'card' }, list));
  e.update = () => rows(list, store.events.slice(-12).reverse(), (x) => x.seq, (x) => h('li', {},
    h('time', { datetime: x.time, class: 'quiet' }, words.clock(x.time)), ' ',
    x.job ? h('a', { href: `#/job/${encodeURIComponent(x.job)}` }, x.job) : '', ` ${x.text}`), () => {});
  return e;
}
