'use strict';
// The search, and buttons that copy what is to be typed. No server is asked: the index is a
// script of its own, which is loaded when somebody begins to search.
(() => {
  const root = document.currentScript.dataset.root;
  const field = document.getElementById('search');
  const found = document.getElementById('found');
  const most = 25;

  let index = null; // a promise of all sections, once it is wanted
  const load = () => index ||= new Promise((done, failed) => {
    const script = document.createElement('script');
    script.src = root + 'index.js';
    script.onload = () => done(nornIndex.flatMap(page => page.s.map(s => ({
      link: page.p + (s.a ? '#' + s.a : ''), page: page.t, heading: s.h || page.t, text: s.x || '',
      low: (s.x || '').toLowerCase(), title: (s.h || '').toLowerCase(), top: page.t.toLowerCase(),
    }))));
    script.onerror = () => failed(new Error('index.js is missing'));
    document.head.append(script);
  });

  // worth is how well a section answers; 0: it lacks a word.
  const worth = (section, words) => {
    let sum = 0;
    for (const word of words) {
      const inTitle = section.title.includes(word), inTop = section.top.includes(word);
      const times = section.low.split(word).length - 1;
      if (!inTitle && !inTop && times === 0) return 0;
      const whole = section.title.split(/[^\p{L}\p{N}_-]+/u).includes(word);
      sum += (whole ? 12 : inTitle ? 8 : 0) + (inTop ? 4 : 0) + Math.min(times, 5) + (times ? 1 : 0);
    }
    return sum;
  };

  // marked is a text in which words are marked.
  const marked = (text, words) => {
    const out = document.createDocumentFragment();
    const low = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      let next = -1, size = 0;
      for (const word of words) {
        const i = low.indexOf(word, at);
        if (i >= 0 && (next < 0 || i < next)) { next = i; size = word.length; }
      }
      if (next < 0) break;
      const mark = document.createElement('mark');
      mark.textContent = text.slice(next, next + size);
      out.append(text.slice(at, next), mark);
      at = next + size;
    }
    out.append(text.slice(at));
    return out;
  };

  // around is the part of a section in which the first word stands.
  const around = (section, words) => {
    const at = Math.min(...words.map(w => section.low.indexOf(w)).filter(i => i >= 0), section.text.length);
    const from = at >= section.text.length ? 0 : Math.max(0, at - 60);
    return (from > 0 ? '… ' : '') + section.text.slice(from, from + 200) + (from + 200 < section.text.length ? ' …' : '');
  };

  const show = (hits, words) => {
    const title = document.createElement('h2');
    title.textContent = hits.length === 0 ? 'Nothing has all of these words' : hits.length > most ? `The best ${most} of ${hits.length} sections` : `${hits.length} section${hits.length === 1 ? '' : 's'}`;
    const list = document.createElement('ol');
    for (const { section } of hits.slice(0, most)) {
      const item = document.createElement('li'), link = document.createElement('a'), text = document.createElement('p');
      link.href = root + section.link;
      link.textContent = section.heading === section.page ? section.page : `${section.page}: ${section.heading}`;
      text.append(marked(around(section, words), words));
      item.append(link, text);
      list.append(item);
    }
    found.replaceChildren(title, list);
    found.hidden = false;
  };

  let turn = 0;
  const search = async () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(w => w.length > 0);
    const mine = ++turn;
    if (words.join('').length < 2) { found.hidden = true; return; }
    try {
      const sections = await load();
      if (mine !== turn) return; // more was typed meanwhile
      const hits = sections.map(section => ({ section, worth: worth(section, words) })).filter(h => h.worth > 0);
      hits.sort((a, b) => b.worth - a.worth);
      show(hits, words);
    } catch (e) {
      found.textContent = 'The search does not work: ' + e.message;
      found.hidden = false;
    }
  };

  field.addEventListener('input', search);
  field.addEventListener('focus', () => { load().catch(() => { index = null; }); });
  field.form.addEventListener('submit', e => {
    e.preventDefault();
    const first = found.hidden ? null : found.querySelector('a');
    if (first) location.href = first.href;
  });
  found.addEventListener('click', e => { if (e.target.closest('a')) found.hidden = true; });
  document.addEventListener('keydown', e => {
    if (e.key === '/' && document.activeElement !== field && !e.ctrlKey && !e.metaKey) { e.preventDefault(); field.focus(); }
    if (e.key === 'Escape') { field.value = ''; found.hidden = true; }
  });

  for (const table of document.querySelectorAll('article table')) {
    const box = document.createElement('div');
    box.className = 'wide';
    table.replaceWith(box);
    box.append(table);
  }
  if (matchMedia('(max-width: 800px)').matches) document.querySelector('nav details').open = false;
  if (navigator.clipboard) {
    for (const code of document.querySelectorAll('pre > code.language-sh')) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = 'Copy';
      button.addEventListener('click', async () => {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
      });
      code.parentElement.append(button);
    }
  }
})();
