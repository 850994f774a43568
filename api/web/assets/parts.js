// parts.js: pieces that several views show.

import * as api from './api.js';
import { ask, h, say, text } from './dom.js';
import { store } from './store.js';
import { list, title } from './words.js';

// jobLink names a job and leads to its page.
export function jobLink(job) {
  return h('a', { href: `#/job/${encodeURIComponent(job.id)}`, 'data-key': `job-${job.id}` }, h('b', {}, job.id), title(job) ? ` ${title(job)}` : '');
}

// holder names a job by its number, with its user where it may be seen.
export function holder(id) {
  const job = store.jobs.get(id);
  if (!job) return [h('b', {}, id), h('span', { class: 'quiet' }, store.me && store.me.operator ? '' : ' of another user')];
  return [jobLink(job), h('span', { class: 'quiet' }, ` ${job.user}`)];
}

// state is how a job stands, as a word with a colour.
export function state(job) { return h('span', { class: `state is-${job.state}` }, job.state); }

// setState brings such a word up to date.
export function setState(e, job) {
  text(e, job.state);
  e.className = `state is-${job.state}`;
}

// column is a head of a table.
export function column(words, kind = '') { return h('th', { scope: 'col', class: kind }, words); }

// table is a table with a name, the heads of its columns, and a body to fill.
export function table(name, ...columns) {
  const body = h('tbody');
  const e = h('div', { class: 'scroll' }, h('table', { class: 'figures', 'aria-label': name }, h('thead', {}, h('tr', {}, columns)), body));
  e.body = body;
  return e;
}

// facts are pairs of a word and what it stands for; those without a value are left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, v]) => v !== '' && v !== undefined && v !== null && v !== false)
    .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

const verbs = {
  cancel: { label: 'Cancel', question: (id) => `End job ${id} for good?`, yes: 'End it', done: 'is being cancelled', of: ['held', 'waiting', 'assigned', 'running', 'stopping'] },
  hold: { label: 'Hold', question: (id) => `Keep job ${id} from starting until it is released?`, yes: 'Hold it', done: 'is held', of: ['waiting'] },
  release: { label: 'Release', done: 'waits again', of: ['held'] },
  requeue: { label: 'Requeue', question: (id) => `Take job ${id} off its devices, and have it wait again?`, yes: 'Requeue it', done: 'will wait again', of: ['assigned', 'running'] },
};

// orders are buttons for what can be done to a job as it stands.
export function orders(job) {
  const able = Object.entries(verbs).filter(([, v]) => v.of.includes(job.state));
  if (!able.length) return '';
  return h('div', { class: 'buttons' }, able.map(([verb, v]) => h('button', {
    type: 'button', 'data-key': verb, class: verb === 'cancel' ? 'harm' : '', onclick: () => order(job.id, verb),
  }, v.label)));
}

async function order(id, verb) {
  const v = verbs[verb];
  if (v.question && await ask(v.question(id), v.yes) === null) return;
  try {
    await api.post(`${api.ofJob(id)}/${verb}`);
    say(`Job ${id} ${v.done}.`);
  } catch (e) {
    say(e.message, true);
  }
}

// drain is a button that puts a device, a node, or with no name the whole machine out of
// use, or back. Only operators see it.
export function drain(name, out) {
  if (!store.me || !store.me.operator) return '';
  const what = name || 'the machine';
  return h('button', {
    type: 'button', class: 'small', 'data-key': `drain-${name}`, 'aria-label': out ? `Take ${what} back into use` : `Drain ${what}`,
    onclick: async () => {
      const why = out ? '' : await ask(`Start nothing new on ${what}? What runs there goes on.`, 'Drain', 'Why (others see it)');
      if (why === null) return;
      try {
        await api.post('/v1/node/drain', { devices: name ? [name] : [], undo: out, why });
        say(out ? `${what} takes new work again.` : `${what} takes no new work.`);
      } catch (e) {
        say(e.message, true);
      }
    },
  }, out ? 'Undrain' : 'Drain');
}

// places are the devices or nodes of a job, in words.
export function places(job) {
  const on = job.devices && job.devices.length ? job.devices : job.nodes || [];
  return on.length > 4 ? `${on.slice(0, 3).join(', ')} and ${on.length - 3} more` : list(on);
}
