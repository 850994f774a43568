// api.js: requests to the API, with the right of who looks at the page.
//
// Behind the gate of norn web a request needs the cookie, which only the browser knows, and
// a key, which is kept where only this port can read it. A Norn that is asked over TCP needs
// the token of its user, which is kept until the tab is closed.

const keyName = 'norn.key', tokenName = 'norn.token';

const credential = () => sessionStorage.getItem(tokenName) || localStorage.getItem(keyName) || '';

// Refusal is an answer that is no success.
export class Refusal extends Error {
  constructor(status, detail, wantsToken) {
    super(detail);
    this.status = status;
    this.wantsToken = wantsToken;
  }
}

async function open(path, options = {}) {
  const headers = { ...options.headers };
  if (credential()) headers.Authorization = `Bearer ${credential()}`;
  const answer = await fetch(path, { ...options, headers, credentials: 'same-origin', redirect: 'error' });
  if (answer.ok) return answer;
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    detail = (await answer.json()).detail || detail;
  } catch {
    // the status says enough
  }
  throw new Refusal(answer.status, detail, answer.headers.has('WWW-Authenticate'));
}

export async function get(path, signal) { return (await open(path, { signal })).json(); }

export async function post(path, body) {
  const options = { method: 'POST' };
  if (body) Object.assign(options, { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
  await open(path, options);
}

// plan asks what other policies would have made of the past.
export async function plan(question, signal) {
  return (await open('/v1/plan', { method: 'POST', body: JSON.stringify(question), headers: { 'Content-Type': 'application/json' }, signal })).json();
}

export const ofJob = (id) => `/v1/jobs/${encodeURIComponent(id)}`;

// enter exchanges the token of a link for a session. The token leaves the address at once.
export async function enter() {
  const token = location.hash.slice(1);
  if (!/^[A-Z2-7]{20,}$/.test(token)) return;
  history.replaceState(null, '', '/');
  try {
    if (credential()) {
      await get('/v1/me');
      return; // this browser is in already
    }
  } catch {
    // the link is for that
  }
  const answer = await open('/login', { method: 'POST', body: JSON.stringify({ token }), headers: { 'Content-Type': 'application/json' } });
  localStorage.setItem(keyName, (await answer.json()).key);
}

// useToken has requests carry the token of a user.
export function useToken(token) { sessionStorage.setItem(tokenName, token); }

// lines reads a stream of text and tells each piece as it comes.
async function pieces(path, signal, each) {
  const answer = await open(path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    each(value);
  }
}

// output tells what a run of a job wrote, and goes on while it runs.
export function output(id, run, tail, signal, each) {
  return pieces(`${ofJob(id)}/logs?run=${run}&tail=${tail}&follow=true`, signal, each);
}

// events tells events from number since on. opened is called once the stream is there.
export async function events(since, signal, opened, each) {
  let rest = '', told = false;
  await pieces(`/v1/events?since=${since}`, signal, (piece) => {
    if (!told) {
      told = true;
      opened();
    }
    rest += piece;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const data = rest.slice(0, end).split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trimStart());
      rest = rest.slice(end + 2);
      if (data.length) each(JSON.parse(data.join('\n')));
    }
  });
}
