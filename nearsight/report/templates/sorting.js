// Headings of tables become buttons that sort their rows; null lines and titles stay in place.
for (const table of document.querySelectorAll('table.summary, table.numbers')) {
  const keyOf = (row, column) => {
    const text = (row.cells[column]?.querySelector('span') ?? row.cells[column])?.textContent.trim() ?? '';
    const number = /^[−+-]?[\d.,]+/.exec(text)?.[0].replace('−', '-').replaceAll(',', '');
    return number === undefined ? (text === '–' ? null : text) : Number(number);
  };
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));
  };
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener('click', () => {
      const sign = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      headings.forEach((each) => each.removeAttribute('aria-sort'));
      heading.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      const rows = [...table.tBodies[0].rows];
      let group = [];
      const place = () => {
        const end = group.length ? group[group.length - 1].nextSibling : null;
        group.map((row) => [row, keyOf(row, column)]).sort(([, a], [, b]) => compare(a, b, sign))
          .forEach(([row]) => table.tBodies[0].insertBefore(row, end));
        group = [];
      };
      for (const row of rows) {
        if (row.matches('.null, .family')) place();
        else group.push(row);
      }
      place();
    });
  });
}
