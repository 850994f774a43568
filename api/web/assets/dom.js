// dom.js: elements, made and brought up to date without losing what a reader has in focus.

const isSVG = { svg: true, rect: true, line: true, title: true, path: true };

// h makes an element. Properties that begin with "on" are listeners; children are elements
// or text.
export function h(tag, props = {}, ...children) {
  const e = isSVG[tag] ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ''));
  return e;
}

// text writes text into an element if it is not there already.
export function text(e, words) {
  if (e.textContent !== words) e.textContent = words;
}

// when shows an element or hides it.
export function when(e, shown) {
  if (e.hidden === shown) e.hidden = !shown;
}

// once fills an element with what make gives, unless it was made of the same input.
export function once(e, input, make) {
  const key = JSON.stringify(input);
  if (e.madeOf === key) return;
  e.madeOf = key;
  const had = e.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  e.replaceChildren(...[make()].flat().filter((c) => c !== null && c !== undefined && c !== ''));
  if (had) e.querySelector(`[data-key="${CSS.escape(had)}"]`)?.focus();
}

// rows brings the children of an element in line with a list: those that stay are the same
// elements as before.
export function rows(parent, list, key, make, fill) {
  const old = new Map([...parent.children].map((e) => [e.dataset.row, e]));
  let at = parent.firstElementChild;
  for (const item of list) {
    const id = String(key(item));
    let e = old.get(id);
    if (e) old.delete(id);
    else {
      e = make(item);
      e.dataset.row = id;
    }
    fill(e, item);
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
  }
  for (const e of old.values()) e.remove();
}

// meter is a bar of a share, 0 to 1, with its words for a screen reader.
export function meter() {
  const bar = h('span');
  const e = h('span', { class: 'meter', role: 'img' }, bar);
  e.set = (share, label, kind = '') => {
    const width = `${Math.round(Math.max(0, Math.min(1, share)) * 1000) / 10}%`;
    if (bar.style.width !== width) bar.style.width = width;
    if (bar.className !== kind) bar.className = kind;
    if (e.getAttribute('aria-label') !== label) e.setAttribute('aria-label', label);
  };
  return e;
}

// pager turns the pages of a list that is too long for the document.
export function pager(size, what, changed) {
  let page = 0;
  const label = h('span', { class: 'quiet' });
  const turn = (by) => () => { page += by; changed(); };
  const back = h('button', { type: 'button', onclick: turn(-1), 'aria-label': `Earlier ${what}` }, '←');
  const on = h('button', { type: 'button', onclick: turn(1), 'aria-label': `Later ${what}` }, '→');
  const e = h('div', { class: 'pager' }, back, label, on);
  e.first = () => { page = 0; };
  e.cut = (list) => {
    page = Math.max(0, Math.min(page, Math.ceil(list.length / size) - 1));
    const from = page * size, to = Math.min(list.length, from + size);
    text(label, `${from + 1} to ${to} of ${list.length.toLocaleString('en')}`);
    back.disabled = page === 0;
    on.disabled = to >= list.length;
    when(e, list.length > size);
    return list.slice(from, to);
  };
  return e;
}

// say tells a reader, and a screen reader, what has become of an order.
let quiet;
export function say(words, bad = false) {
  const e = document.getElementById('said');
  e.className = bad ? 'bad' : '';
  e.textContent = words;
  clearTimeout(quiet);
  quiet = setTimeout(() => { e.textContent = ''; }, 8000);
}

// ask has a user confirm an order. It answers null, or what was typed where a reason is
// asked for, else ''.
export function ask(question, yes, reason = '') {
  const d = document.getElementById('dialog');
  return new Promise((done) => {
    const input = reason && h('input', { id: 'reason', maxlength: 200, autocomplete: 'off' });
    const close = (answer) => (e) => { e.preventDefault(); d.onclose = null; d.close(); done(answer()); };
    d.replaceChildren(h('form', { onsubmit: close(() => (input ? input.value : '')) },
      h('p', { id: 'question' }, question),
      input ? [h('label', { for: 'reason' }, reason), input] : [],
      h('div', { class: 'buttons' },
        h('button', { type: 'button', onclick: close(() => null) }, 'Leave it'),
        h('button', { class: 'strong' }, yes))));
    d.onclose = () => { if (!d.open) done(null); }; // the close of a question before may come late
    d.showModal();
  });
}
