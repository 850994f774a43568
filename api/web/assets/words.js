// words.js: quantities and moments for readers.

// span writes seconds as the rest of Norn does: 45s, 12m, 3h20m, 5d4h.
export function span(s) {
  if (!(s >= 0)) return '';
  if (s < 1) return '0s';
  if (s < 60) return `${Math.floor(s)}s`;
  const pair = (big, bigName, small, smallName) => {
    const t = Math.floor(s / small) * small, rest = Math.floor((t % big) / small);
    return Math.floor(t / big) + bigName + (rest > 0 ? rest + smallName : '');
  };
  if (s < 3600) return pair(60, 'm', 1, 's');
  if (s < 86400) return pair(3600, 'h', 60, 'm');
  return pair(86400, 'd', 3600, 'h');
}

// long writes seconds to the minute where they are many, for what changes all the time.
export function long(s) {
  return s < 60 ? span(s) : span(Math.floor(s / 60) * 60);
}

// clock writes a moment: the time of day, with the day if that is another one than today's.
export function clock(t, now = new Date()) {
  if (!t) return '';
  const d = new Date(t), two = (n) => String(n).padStart(2, '0');
  const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (d.toDateString() === now.toDateString()) return time;
  return `${d.getFullYear() === now.getFullYear() ? '' : `${d.getFullYear()}-`}${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

// day writes a moment with its day and its seconds.
export function day(t) {
  const d = new Date(t), two = (n) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// memory writes bytes with three digits at most.
export function memory(b) {
  for (const [name, size] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (b >= size) return `${number(b / size)} ${name}`;
  }
  return `${b || 0} B`;
}

// number writes a number with three digits at most behind its first.
export function number(v) {
  if (Math.abs(v) >= 100) return Math.round(v).toLocaleString('en');
  return String(Number(Number(v).toPrecision(3)));
}

export function percent(share) { return `${Math.round(share * 100)} %`; }

export function count(n, one, many = `${one}s`) { return `${n.toLocaleString('en')} ${n === 1 ? one : many}`; }

// list joins words as in a sentence.
export function list(words) {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

// gpus writes what a job asks for: 2 GPUs, 1-4 GPUs, no GPU.
export function gpus(range) {
  if (range === 0) return 'no GPU';
  return `${range} ${range === 1 ? 'GPU' : 'GPUs'}`;
}

// title is what a job is called beside its number.
export function title(job) {
  return job.name || (job.command && job.command.length ? job.command.map((w) => w.split('/').at(-1)).join(' ').slice(0, 60) : '');
}

export const over = (job) => ['done', 'failed', 'cancelled'].includes(job.state);
export const holds = (job) => ['running', 'assigned', 'stopping'].includes(job.state);

// left is the share of its work that a job has done, where that is known.
export function progress(job) {
  const p = job.progress;
  if (p && p.steps > 0) return { share: (p.step || 0) / p.steps, words: `step ${(p.step || 0).toLocaleString('en')} of ${p.steps.toLocaleString('en')}` };
  if (p && p.step > 0) return { words: `step ${p.step.toLocaleString('en')}` };
  if (p && p.epoch > 0) return { words: `epoch ${number(p.epoch)}` };
  return null;
}
