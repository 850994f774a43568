// store.js: what the page knows of Norn, and how that stays true.
//
// The page asks for everything once, and then listens to events: each names a job, which is
// asked for again. What has no events, such as progress and use of devices, is asked for
// every few seconds. A stream that breaks off is taken up behind the last event that came,
// after everything was asked for again, so that nothing is lost however long it was away.

import * as api from './api.js';
import { holds, over } from './words.js';

const pause = 300; // ms between requests for jobs that have changed, or four times as long as one takes
const every = 5000; // ms between looks at progress and devices
const many = 2000; // changed jobs above which all are asked for
const page = 1000; // jobs that are asked for at once
const long = 4000; // characters of numbers or names in one request
const active = 'state=held,waiting,assigned,running,stopping'; // the history is not searched for those that have ended
const recent = 500; // events that are kept

export const store = {
  me: null, status: null, node: null, nodes: [], jobs: new Map(), events: [],
  link: 'connecting', // live, lost
  trouble: '', // why the link is lost
};

const changed = new EventTarget();
let told = 0; // number of the last event
let loaded = 0; // number of the last event before all jobs were asked for
let took = 0; // ms that the last request for what has changed took
let dirty = new Set();
let waking = 0, timer = 0;

// watch calls a function whenever the page knows something new, until the signal ends.
export function watch(each, signal) { changed.addEventListener('change', each, { signal }); }

function tell() { changed.dispatchEvent(new Event('change')); }

async function loadMachine(signal) {
  const [status, node] = await Promise.all([api.get('/v1/status', signal), api.get('/v1/node', signal)]);
  store.status = status;
  store.node = node;
  if (status.nodes) store.nodes = (await api.get('/v1/nodes', signal)).nodes;
}

// loadJobs asks for all jobs, a page at a time. At first the pages are shown as they come.
async function loadJobs(signal) {
  const before = store.jobs, all = new Map();
  if (!before.size) store.jobs = all;
  for (let after = ''; ;) {
    const { jobs, next } = await api.get(`/v1/jobs?page=${page}${after && `&after=${encodeURIComponent(after)}`}`, signal);
    put(jobs, [], all);
    if (!next) break;
    after = next;
    if (store.jobs === all) tell();
  }
  store.jobs = all;
}

// loadSome asks for the jobs of some numbers or names.
async function loadSome(ids, signal) {
  for (let from = 0; from < ids.length;) {
    let to = from;
    for (let size = 0; to < ids.length && to - from < 500 && (size += ids[to].length + 3) < long; to++);
    const some = ids.slice(from, Math.max(to, from + 1));
    put((await api.get(`/v1/jobs?${active}&id=${encodeURIComponent(some.join(','))}`, signal)).jobs, some);
    from += some.length;
  }
}

// put takes in jobs that were asked for, and notes when: those of wanted that have not come
// are gone.
function put(jobs, wanted = [], into = store.jobs) {
  const here = new Map(jobs.map((j) => [j.id, j]));
  for (const id of [...wanted, ...here.keys()]) {
    const j = here.get(id);
    if (j && !over(j)) into.set(id, Object.assign(j, { seen: Date.now() }));
    else into.delete(id);
  }
}

async function refresh(signal) {
  const ids = [...dirty];
  dirty = new Set();
  try {
    if (ids.length > many) await loadJobs(signal);
    else await loadSome(ids, signal);
    await loadMachine(signal);
  } catch (e) {
    ids.forEach((id) => dirty.add(id));
    throw e;
  }
}

// soon asks for what has changed, in a while, and once for many changes.
function soon(signal) {
  if (waking || signal.aborted) return;
  waking = setTimeout(async () => {
    const began = performance.now();
    try {
      await refresh(signal);
      tell();
    } catch {
      // the stream tells that Norn is gone
    }
    took = performance.now() - began;
    waking = 0;
    if (dirty.size) soon(signal);
  }, Math.max(pause, 4 * took));
}

// fresh tells of many events that came at once only once.
let telling = 0;
function fresh(signal) {
  telling ||= setTimeout(() => {
    telling = 0;
    if (!signal.aborted) tell();
  }, 50);
}

function take(event, signal) {
  if (event.seq <= told) return;
  told = event.seq;
  store.events.push(event);
  if (store.events.length > recent) store.events.splice(0, store.events.length - recent);
  if (event.seq <= loaded) fresh(signal);
  else {
    if (event.job) dirty.add(event.job);
    soon(signal);
  }
}

// poll asks for what no event tells.
async function poll(signal) {
  try {
    const [{ jobs }] = await Promise.all([api.get('/v1/jobs?state=running,assigned,stopping', signal), loadMachine(signal)]);
    const stale = [...store.jobs.values()].filter((j) => holds(j) && !jobs.some((k) => k.id === j.id));
    put(jobs);
    if (stale.length) {
      stale.forEach((j) => dirty.add(j.id));
      soon(signal);
    }
    tell();
  } catch {
    // the stream tells that Norn is gone
  }
  timer = setTimeout(() => poll(signal), every);
}

// listen keeps the page true until the signal ends or Norn refuses it.
async function listen(signal) {
  for (let wait = 500; !signal.aborted; wait = Math.min(2 * wait, 8000)) {
    try {
      store.me = await api.get('/v1/me', signal);
      await loadMachine(signal);
      if (told === 0) told = Math.max(0, store.status.events - recent);
      loaded = store.status.events;
      await loadJobs(signal);
      await api.events(told + 1, signal, () => {
        wait = 500;
        store.link = 'live';
        store.trouble = '';
        tell();
        clearTimeout(timer);
        timer = setTimeout(() => poll(signal), every);
      }, (e) => take(e, signal));
      store.trouble = '';
    } catch (e) {
      if (signal.aborted) return;
      store.trouble = e.message;
      if (e.status === 401) {
        store.link = 'refused';
        store.wantsToken = e.wantsToken;
        tell();
        return;
      }
    }
    clearTimeout(timer);
    if (signal.aborted) return;
    store.link = 'lost';
    tell();
    await new Promise((done) => setTimeout(done, wait));
  }
}

// start listens as long as somebody looks: a page in the background asks for nothing.
export function start() {
  let stop = new AbortController();
  listen(stop.signal);
  document.addEventListener('visibilitychange', () => {
    stop.abort();
    clearTimeout(timer);
    clearTimeout(waking);
    waking = 0;
    if (document.hidden) return;
    stop = new AbortController();
    listen(stop.signal);
  });
  return () => {
    stop.abort();
    stop = new AbortController();
    listen(stop.signal);
  };
}
