// output.js: what a run of a job writes, as it writes it.

import * as api from './api.js';
import { h, text } from './dom.js';
import { over } from './words.js';

const tail = 500; // lines that are asked for
const most = 200000; // characters that are kept

// clean leaves out what would move a cursor or turn the direction of text, and of a line that
// is written again and again keeps the last.
export function clean(s) {
  return s
    .replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)/g, '').replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, '').replace(/\x1b[@-Z\\-_]/g, '')
    .replace(/\r+\n/g, '\n').replace(/[^\n]*\r(?=[^\n])/g, '')
    .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, '');
}

// follow shows the output of a job in an element until the signal ends. current tells how the
// job stands.
export function follow(body, id, current, signal) {
  const pre = h('pre', { id: 'log', tabindex: 0, role: 'log', 'aria-label': `Output of job ${id}` });
  const note = h('span', { class: 'quiet', id: 'log-note' });
  const pick = h('select', { id: 'run', onchange: () => begin() });
  body.replaceChildren(h('div', { class: 'bar' }, h('label', { for: 'run' }, 'Run'), pick, note), pre);
  let stop = new AbortController(), kept = '', drawn = false;

  function draw() {
    drawn = true;
    requestAnimationFrame(() => {
      drawn = false;
      const end = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
      text(pre, clean(kept));
      if (end) pre.scrollTop = pre.scrollHeight;
    });
  }

  function offer() {
    const runs = current().run || 0;
    if (pick.options.length === runs + 1) return;
    const chosen = pick.value || '0';
    pick.replaceChildren(h('option', { value: 0 }, 'the last'), ...Array.from({ length: runs }, (_, i) => h('option', { value: runs - i }, String(runs - i))));
    pick.value = chosen;
  }

  async function begin() {
    stop.abort();
    const mine = stop = new AbortController();
    const ended = AbortSignal.any([signal, mine.signal]);
    while (!ended.aborted) {
      offer();
      const run = current().run, last = pick.value === '0';
      kept = '';
      text(note, `its last ${tail} lines, and what comes`);
      try {
        await api.output(id, Number(pick.value), tail, ended, (piece) => {
          kept = (kept + piece).slice(-most);
          if (!drawn) draw();
        });
        text(note, last && !over(current()) ? 'this run is over' : 'to its end');
      } catch (e) {
        if (ended.aborted) return;
        text(note, e.status ? e.message : 'out of touch, trying again');
      }
      while (!ended.aborted && !(last && current().run !== run)) { // until there is another run
        await new Promise((done) => setTimeout(done, 1000));
        offer();
        if (note.textContent.startsWith('out of touch')) break;
        if (over(current()) && last && current().run === run) return;
      }
    }
  }
  begin();
}
