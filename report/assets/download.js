'use strict';
// download.js: the data of a chart as CSV, and the chart as it is shown as SVG.

// save has the reader's browser keep a text as a file.
Norn.save = function (name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: type + ';charset=utf-8' }));
  link.download = 'norn-' + name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

// csv is all lines of a chart, hidden ones too, in seconds and parts of one: a row for each
// point of the horizontal axis, a column for each run, and its least and most where they are drawn.
Norn.csv = function (plot) {
  const s = plot.spec, columns = [[s.column, s.x]];
  s.lines.forEach((line, i) => {
    if (!line) return;
    columns.push([plot.runs[i].name, line]);
    const band = s.bands && s.bands[i];
    if (band) columns.push([plot.runs[i].name + ' min', band.min], [plot.runs[i].name + ' max', band.max]);
  });
  const quote = (text) => (/[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text);
  const write = (v) => (v === null || v === undefined ? '' : String(Number(v.toPrecision(9))));
  const rows = s.x.map((_, k) => columns.map(([, list]) => write(list[k])).join(','));
  return [columns.map(([name]) => quote(name)).join(','), ...rows].join('\n') + '\n';
};

// svg is the chart as it is shown: the runs, the part of the axes, the colours. Charts of one run
// each stand below each other.
Norn.svg = function (plot) {
  const room = 20, line = 18, width = plot.charts[0].width;
  const parts = [];
  let y = 0;
  for (const u of plot.charts) {
    if (u.run !== null) y += line;
    parts.push('<g transform="translate(0 ' + y + ')">' + (u.run === null ? '' : text(8, -4, plot.runs[u.run].name, 'start')) + chart(plot, u) + '</g>');
    y += u.height;
  }
  if (!plot.apart) {
    plot.runs.forEach((run, i) => {
      if (!plot.shown[i]) return;
      parts.push('<path d="M8 ' + (y + 9) + 'h28" fill="none" ' + stroke(plot.look(i, null)) + '/>' + text(44, y + 13, run.name, 'start'));
      y += line;
    });
  }
  return '<svg xmlns="' + document.querySelector('svg').namespaceURI + '" width="' + width + '" height="' + (y + room) + '" viewBox="0 0 ' + width + ' ' + (y + room)
    + '" font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="' + Norn.colour('card') + '"/>\n' + parts.join('\n') + '\n</svg>\n';

  function escape(s) { return String(s).replace(/[&<>"]/g, (c) => '&#' + c.charCodeAt(0) + ';').replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '?'); }

  function text(x, y, words, anchor, more) {
    return '<text x="' + round(x) + '" y="' + round(y) + '" text-anchor="' + anchor + '" fill="' + Norn.colour('ink') + '"' + (more || '') + '>' + escape(words) + '</text>';
  }

  function round(v) { return Math.round(v * 100) / 100; }

  function stroke(look) {
    return 'stroke="' + look.stroke + '" stroke-width="' + look.width + '"' + (look.dash && look.dash.length ? ' stroke-dasharray="' + look.dash.join(' ') + '"' : '');
  }

  // chart is the axes, bands and lines of one chart.
  function chart(plot, u) {
    const k = uPlot.pxRatio, left = u.bbox.left / k, top = u.bbox.top / k, wide = u.bbox.width / k, high = u.bbox.height / k;
    const out = [], [over, of] = plot.titles();
    const x = (v) => left + u.valToPos(v, 'x'), y = (v) => top + u.valToPos(v, 'y');
    const axis = (a, draw) => (a._splits || []).forEach((v, i) => { if (v !== null && a._values[i] !== '') draw(v, a._values[i]); });
    const grid = ' stroke="' + Norn.colour('grid') + '"/>';
    axis(u.axes[0], (v, words) => out.push('<path d="M' + round(x(v)) + ' ' + top + 'v' + high + '"' + grid, text(x(v), top + high + 16, words, 'middle')));
    axis(u.axes[1], (v, words) => out.push('<path d="M' + left + ' ' + round(y(v)) + 'h' + wide + '"' + grid, text(left - 6, y(v) + 4, words, 'end')));
    out.push(text(left + wide / 2, top + high + 36, over, 'middle'), text(0, 0, of, 'middle', ' transform="translate(12 ' + (top + high / 2) + ') rotate(-90)"'));
    const box = left + ' ' + top + ' ' + wide + ' ' + high; // which cuts off what lies outside of it
    out.push('<svg x="' + left + '" y="' + top + '" width="' + wide + '" height="' + high + '" viewBox="' + box + '" fill="none">');
    (plot.spec.bands || []).forEach((band, i) => {
      if (!band || !plot.shown[i] || (u.run !== null && u.run !== i)) return;
      const edge = [...points(band.max, x, y), ...points(band.min, x, y).reverse()];
      out.push('<path d="M' + edge.join('L') + 'Z" fill="' + Norn.tone(i) + '" fill-opacity="0.13"/>');
    });
    u.data.slice(1).forEach((list, i) => {
      const at = points(list, x, y);
      if (plot.shown[i] && at.length > 0) out.push('<path d="M' + at.join('L') + '" ' + stroke(plot.look(i, u.run)) + '/>');
    });
    out.push('</svg>');
    return out.join('\n');
  }

  // points are those that have a value, in places of the picture.
  function points(list, x, y) {
    const out = [];
    list.forEach((v, k) => { if (v !== null && v !== undefined) out.push(round(x(plot.spec.x[k])) + ' ' + round(y(v))); });
    return out;
  }
};
