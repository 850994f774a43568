// main.js: which view is shown, and whether the page is in touch with Norn.

import { enter, get, useToken } from './api.js';
import { h, say, text } from './dom.js';
import { history } from './history.js';
import { job } from './job.js';
import { now } from './now.js';
import { start, store, watch } from './store.js';
import { whatif } from './whatif.js';

const main = document.getElementById('main');
let leave = new AbortController();
let again = () => {};

// views are the pages by the beginning of their address.
const views = [[/^#\/job\/(.+)$/, 'job', job], [/^#\/history$/, 'history', history], [/^#\/what-if$/, 'what-if', whatif], [/^/, 'now', now]];

function show() {
  leave.abort();
  leave = new AbortController();
  for (const [pattern, tab, view] of views) {
    const m = pattern.exec(location.hash);
    if (!m) continue;
    document.querySelectorAll('nav a').forEach((a) => {
      if (a.dataset.view === tab) a.setAttribute('aria-current', 'page');
      else a.removeAttribute('aria-current');
    });
    view(main, leave.signal, m[1] && decodeURIComponent(m[1]));
    return;
  }
}

// signIn asks for a token where the API is asked over TCP, and else says what to do.
function signIn() {
  leave.abort();
  const input = h('input', { type: 'password', id: 'token', autocomplete: 'off', spellcheck: 'false' });
  const go = async (e) => {
    e.preventDefault();
    useToken(input.value.trim());
    try {
      await get('/v1/me');
    } catch (refusal) {
      say(refusal.message, true);
      return;
    }
    show();
    again();
  };
  main.replaceChildren(h('div', { class: 'card sign-in', id: 'sign-in' }, store.wantsToken
    ? h('form', { onsubmit: go }, h('label', { for: 'token' }, 'Your token for this Norn'), input, h('div', { class: 'buttons' }, h('button', { class: 'strong' }, 'Go on')))
    : h('p', {}, store.trouble)));
  input.focus();
}

function tellLink() {
  const link = document.getElementById('link');
  text(link, { live: 'live', lost: 'out of touch, trying again', connecting: 'connecting', refused: 'not let in' }[store.link]);
  link.className = `link is-${store.link}`;
  link.title = store.trouble;
  if (store.me) text(document.getElementById('who'), store.me.operator ? `${store.me.user}, operator` : store.me.user);
  document.querySelector('nav [data-view="what-if"]').hidden = !(store.me && store.me.operator);
  if (store.status && store.node) document.title = `${store.node.name}: ${store.status.running} run, ${store.status.waiting} wait`;
  if (store.link === 'refused' && !document.getElementById('sign-in')) signIn();
}

async function begin() {
  try {
    await enter();
  } catch (e) {
    store.trouble = e.message;
    say(e.message, true);
  }
  watch(tellLink);
  again = start();
  addEventListener('hashchange', () => {
    show();
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  });
  show();
}

begin();
