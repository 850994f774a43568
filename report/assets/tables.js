'use strict';
// tables.js: tables that can be sorted, and parts that belong to one run.

(function () {
  // value is what a cell is sorted by: a number where it is one.
  function value(row, column) {
    const text = row.cells[column].dataset.value;
    if (text === undefined || text === '') return null;
    return column > 0 && !Number.isNaN(Number(text)) ? Number(text) : text;
  }

  function compare(a, b, down) {
    if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last
    const less = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en');
    return down ? -less : less;
  }

  // sortBy sorts a table by a column: first the better figures come first, then
  // the other way round.
  function sortBy(table, th, column) {
    const button = th.querySelector('button'), was = th.getAttribute('aria-sort');
    const down = was ? was === 'ascending' : 'more' in button.dataset;
    table.querySelectorAll('[aria-sort]').forEach((other) => other.removeAttribute('aria-sort'));
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const body = table.tBodies[0], rows = [...body.rows];
    rows.sort((a, b) => compare(value(a, column), value(b, column), down));
    body.append(...rows);
  }

  Norn.tables = function () {
    for (const table of document.querySelectorAll('table.sortable')) {
      [...table.tHead.rows[0].cells].forEach((th, column) => {
        th.querySelector('button').addEventListener('click', () => sortBy(table, th, column));
      });
    }
    const select = document.getElementById('tenants-run');
    if (select) select.addEventListener('change', () => Norn.showRun(select.value));
  };

  // showRun shows the parts of one run and hides those of the others.
  Norn.showRun = function (run) {
    for (const part of document.querySelectorAll('.by-run')) part.hidden = part.dataset.run !== String(run);
  };
})();
