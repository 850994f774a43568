'use strict';
// main.js: puts the page together.

(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const page = { data, ready: false };
  window.nornReport = page; // for those who look at the page with a program

  if (data.origin !== undefined) Norn.origin = data.origin;
  Norn.tables();
  page.plots = Norn.plots(data);
  if (document.getElementById('gantt') && data.runs.some((r) => r.chart)) makeGantt();
  makeChips();
  makeTools();
  followLooks();
  page.ready = true;

  function makeGantt() {
    const at = (id) => document.getElementById('gantt-' + id);
    const canvas = document.querySelector('#gantt canvas'), runs = at('run');
    const gantt = new Norn.Gantt(data, Norn.readJobs(data.jobs, data.tick)), draw = new Norn.GanttDraw(gantt, canvas);
    const input = new Norn.GanttInput(gantt, draw, canvas, { tip: at('tip'), hint: at('hint'), picked: at('picked') });
    page.gantt = gantt;
    page.draw = draw;
    page.input = input;
    [...runs.options].forEach((o) => { o.disabled = !data.runs[o.value].chart; });
    const first = data.runs.findIndex((r) => r.chart);
    runs.value = String(first);
    runs.addEventListener('change', () => { gantt.show(Number(runs.value)); input.pick(-1); tell(); });
    at('colour').addEventListener('change', (e) => { gantt.colouring = e.target.value; gantt.paint(); tell(); });
    for (const b of document.querySelectorAll('#gantt [data-do]')) b.addEventListener('click', () => input.act(b.dataset.do));
    gantt.show(first);
    if (gantt.racks.length > 32) { // no job can be followed by its colour: who had the GPUs can
      gantt.colouring = data.jobs.tenants.length > 1 ? 'tenant' : 'size';
      at('colour').value = gantt.colouring;
      gantt.paint();
    }
    tell();

    // tell writes what belongs to the run and the colours that are shown.
    function tell() {
      const chart = gantt.chart, name = data.runs[gantt.run].name;
      at('title').textContent = name;
      at('legend').replaceChildren(...gantt.legend().map(([colour, text]) => {
        const item = Norn.element('span'), square = document.createElement('i');
        square.style.background = 'var(--' + colour + ')';
        item.append(square, text);
        return item;
      }));
      at('note').textContent = chart.dropped === 0 ? '' : Norn.count(chart.n) + ' intervals are shown; '
        + Norn.count(chart.dropped) + ' with the least GPU time (' + Norn.count(chart.lost) + ' GPU-hours in all) are left out.';
      draw.ask();
    }
  }

  // makeChips lets each run be shown, hidden, or told apart from the others in the charts with lines.
  function makeChips() {
    for (const chip of document.querySelectorAll('.chip')) {
      chip.addEventListener('click', () => {
        const on = chip.getAttribute('aria-pressed') !== 'true';
        chip.setAttribute('aria-pressed', String(on));
        Object.values(page.plots).forEach((p) => p.show(Number(chip.dataset.run), on));
      });
      const stress = (run) => Object.values(page.plots).forEach((p) => p.stress(run));
      for (const kind of ['pointerenter', 'focus']) chip.addEventListener(kind, () => stress(Number(chip.dataset.run)));
      for (const kind of ['pointerleave', 'blur']) chip.addEventListener(kind, () => stress(null));
    }
  }

  // makeTools gives each chart its buttons, and all of them the one for a chart a run.
  function makeTools() {
    const pressed = (b) => {
      const on = b.getAttribute('aria-pressed') !== 'true';
      b.setAttribute('aria-pressed', String(on));
      return on;
    };
    const apart = document.getElementById('apart');
    if (apart) apart.addEventListener('click', () => {
      const on = pressed(apart);
      Object.values(page.plots).forEach((p) => { p.apart = on; p.make(); });
    });
    for (const [id, plot] of Object.entries(page.plots)) {
      for (const b of plot.place.querySelectorAll('[data-plot]')) b.addEventListener('click', () => {
        if (b.dataset.plot === 'tail') {
          plot.tail = pressed(b);
          plot.make();
        } else if (b.dataset.plot === 'csv') Norn.save(id + '.csv', 'text/csv', Norn.csv(plot));
        else Norn.save(id + '.svg', 'image/svg+xml', Norn.svg(plot));
      });
    }
  }

  // followLooks draws the charts anew when the page changes its size or its
  // colours, and before it is printed.
  function followLooks() {
    const redraw = () => {
      Object.values(page.plots).forEach((p) => p.make());
      if (page.draw) page.draw.draw();
    };
    const resize = () => {
      Object.values(page.plots).forEach((p) => p.resize());
      if (page.draw) page.draw.ask();
    };
    const printing = (yes) => {
      if (document.documentElement.classList.contains('printing') === yes) return;
      document.documentElement.classList.toggle('printing', yes);
      redraw();
    };
    new ResizeObserver(resize).observe(document.getElementById('main'));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    const print = matchMedia('print');
    print.addEventListener('change', () => printing(print.matches));
    window.addEventListener('beforeprint', () => printing(true));
    window.addEventListener('afterprint', () => printing(false));
    if (print.matches) printing(true);
  }
})();
