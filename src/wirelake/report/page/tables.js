// Tables of results: sorted by their headers, filtered by the page's filter, opened row by row.

const FIRST_ROWS = 10;

/** A table of one result. `order`: columns that come first; `bars`: columns drawn as bars too; `opens`: rows that have
    a conversation open it; `bare`: without a panel around it; `nothing`: the sentence for a result without rows. */
class ResultTable {
  constructor({query, title, note, order = [], bars = [], opens = true, bare = false, nothing}) {
    Object.assign(this, {query, title, order, bars, opens, nothing});
    this.sort = null;
    this.all = false;
    this.count = make('p', {class: 'rows'});
    this.table = make('table', {}, make('caption', {class: 'unseen', text: title}));
    this.scroller = make('div', {class: 'scroller', role: 'region', 'aria-label': title}, this.table);
    this.foot = make('footer', {class: 'panel-foot'});
    if (bare) {
      this.element = make('div', {class: 'bare'}, this.count, this.scroller, this.foot);
    } else {
      const framed = panel({title, query, note, wide: true, kind: 'table'}, this.scroller, this.foot);
      framed.side.prepend(this.count);
      this.element = framed.element;
      this.element.id = `table-${query}`;
    }
    this.table.addEventListener('click', (event) => this.onClick(event));
    this.table.addEventListener('keydown', (event) => this.onKey(event));
    watchWidth(this.scroller);
    this.update('report');
  }

  update(why) {
    if (why === 'theme') return;
    const {columns, rows, total} = resultOf(this.query);
    this.columns = columns;
    this.shown = this.shownColumns(columns);
    this.matching = rows.map((cells, row) => ({cells, row})).filter(({cells}) => rowWanted(columns, cells));
    this.sortRows();
    const focus = this.focusedRow();
    this.fillHead();
    this.fillRows();
    this.fillCount(rows.length, total);
    if (focus !== null) this.table.querySelector(`[data-row="${focus}"] .open`)?.focus({preventScroll: true});
  }

  /** Those that come first, then all others; where a row goes is not shown but followed. A sensor is shown if the lake
      has several. */
  shownColumns(columns) {
    const all = columns.filter((name) => name !== 'sensor' || hasSensors());
    const first = this.order.filter((name) => all.includes(name));
    const ordered = [...first, ...all.filter((name) => !first.includes(name))];
    return this.opens ? ordered.filter((name) => name !== 'conversation' && name !== 'event') : ordered;
  }

  focusedRow() {
    const row = this.table.contains(document.activeElement) ? document.activeElement.closest('tr') : null;
    return row?.dataset.row ?? null;
  }

  fillHead() {
    const cells = this.shown.map((column) => {
      const sorted = this.sort?.column === column ? this.sort.direction : 'none';
      const button = make('button', {type: 'button', class: 'sort', data: {sort: column}, text: labelOf(column)});
      const kind = this.isNumeric(column) ? 'number' : null;
      return make('th', {scope: 'col', 'aria-sort': sorted, data: {column}, class: kind}, button);
    });
    this.table.tHead?.remove();
    if (this.matching.length > 0) this.table.append(make('thead', {}, make('tr', {}, ...cells)));
  }

  /** Whether a column is one of quantities, which are read from the right; times are read from the left. */
  isNumeric(column) {
    if (TIMES.has(column)) return false;
    const at = this.columns.indexOf(column);
    const sample = resultOf(this.query).rows.find((row) => row[at] !== null);
    return sample !== undefined && typeof sample[at] === 'number';
  }

  fillRows() {
    for (const body of [...this.table.tBodies]) body.remove();
    const visibleRows = this.all ? this.matching : this.matching.slice(0, FIRST_ROWS);
    const numeric = new Map(this.shown.map((column) => [column, this.isNumeric(column)]));
    const most = new Map(this.bars.map((column) => [column, this.greatest(column)]));
    this.table.append(make('tbody', {}, ...visibleRows.map((row) => this.makeRow(row, numeric, most))));
    this.scroller.hidden = visibleRows.length === 0;
  }

  greatest(column) {
    const at = this.columns.indexOf(column);
    return this.matching.reduce((most, {cells}) => Math.max(most, cells[at] ?? 0), 0);
  }

  makeRow({cells, row}, numeric, most) {
    const id = this.opens ? this.cellOf(cells, 'conversation') : null;
    const kind = id === null ? null : isHere(id) ? 'opens' : 'opens elsewhere';
    const element = make('tr', {data: {row}, class: kind});
    this.shown.forEach((column, at) => {
      const value = this.cellOf(cells, column);
      const how = cellFormat(column, value);
      const names = cellClass(column, numeric.get(column), how);
      const cell = at === 0 ? make('th', {scope: 'row', class: names}) : make('td', {class: names});
      tie(cell, this.query, row, column, value, how);
      if (most.get(column) > 0) drawBar(cell, (value ?? 0) / most.get(column));
      const content = cellContent(column, value, how);
      cell.append(...(at === 0 && id !== null ? this.openers(content, value) : [content]));
      element.append(cell);
    });
    return element;
  }

  /** The button that opens a row; a text that is too long for it can be opened beside it. */
  openers(content, value) {
    const isLong = content.matches('details');
    const label = isLong ? make('bdi', {class: 'wraps', text: shorten(visible(value), ONE_LINE)}) : content;
    if (isLong) content.querySelector('summary').replaceChildren('whole text');
    const button = make('button', {type: 'button', class: 'open', 'aria-haspopup': 'dialog'},
      label, unseen(', open the conversation'));
    return isLong ? [button, content] : [button];
  }

  cellOf(cells, column) {
    const at = this.columns.indexOf(column);
    return at < 0 ? null : cells[at];
  }

  fillCount(held, total) {
    const found = this.matching.length;
    this.count.replaceChildren(...(held > 0 ? countWords(this.query, found, held, total) : []));
    this.foot.replaceChildren();
    if (held === 0) this.foot.append(emptyNote(this.nothing ?? 'The lake has none.'));
    else if (found === 0) this.foot.append(emptyNote('No row matches the filter.'));
    if (found > FIRST_ROWS) this.foot.append(this.moreButton(found));
  }

  moreButton(found) {
    const text = this.all ? `Show the first ${FIRST_ROWS}` : `Show all ${asCount(found)} rows`;
    return make('button', {type: 'button', class: 'quiet more', text, on: {click: () => this.toggleAll()}});
  }

  toggleAll() {
    this.all = !this.all;
    this.update('rows');
    this.foot.querySelector('.more')?.focus({preventScroll: true});
  }

  sortRows() {
    if (!this.sort) return;
    const at = this.columns.indexOf(this.sort.column);
    const sign = this.sort.direction === 'ascending' ? 1 : -1;
    this.matching.sort((one, other) => compareCells(one.cells[at], other.cells[at], sign) || one.row - other.row);
  }

  /** First the way that suits the column, then the other, then the order of the query again. */
  sortBy(column) {
    const isQuantity = this.isNumeric(column) || TIMES.has(column);
    const ways = isQuantity ? ['descending', 'ascending'] : ['ascending', 'descending'];
    const now = this.sort?.column === column ? ways.indexOf(this.sort.direction) : -1;
    this.sort = now === 1 ? null : {column, direction: ways[now + 1]};
    this.update('sort');
    this.table.querySelector(`[data-sort="${CSS.escape(column)}"]`).focus({preventScroll: true});
  }

  onClick(event) {
    const header = event.target.closest('.sort');
    if (header) return this.sortBy(header.dataset.sort);
    const row = event.target.closest('tr.opens');
    const isSelecting = !getSelection().isCollapsed && !event.target.closest('.open');
    if (!row || event.target.closest('details') || isSelecting) return undefined;
    row.querySelector('.open').focus({preventScroll: true});
    return this.openRow(Number(row.dataset.row));
  }

  openRow(row) {
    const cells = resultOf(this.query).rows[row];
    goToConversation(this.cellOf(cells, 'conversation'), this.cellOf(cells, 'event'));
  }

  /** Up and down go from row to row. */
  onKey(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || !event.target.matches('.open')) return;
    const buttons = [...this.table.querySelectorAll('.open')];
    const next = buttons[buttons.indexOf(event.target) + step];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }
}

/** How many rows: that match the filter, that the page has, that the lake has. */
function countWords(query, found, held, total) {
  const whole = make('span', {text: asCount(total), data: {totalOf: query, value: total}});
  const matching = found < held ? `${asCount(found)} of ${asCount(held)} rows match` : '';
  if (total === held) return matching ? [matching] : [whole, total === 1 ? ' row' : ' rows'];
  return matching ? [`${matching}; `, whole, ' in the lake'] : [`first ${asCount(held)} rows of `, whole];
}

function cellClass(column, numeric, how) {
  const names = [numeric ? 'number' : 'text', `is-${how}`];
  if (CODE_COLUMNS.has(column)) names.push('code-cell');
  return names.join(' ');
}

/** A bar behind a number, as long as its share of the greatest. */
function drawBar(cell, share) {
  cell.classList.add('has-bar');
  cell.style.setProperty('--share', share.toFixed(4));
}

/** Empty cells come last, whichever way. */
function compareCells(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === 'number' && typeof other === 'number') return sign * (one - other);
  return sign * (String(one) < String(other) ? -1 : String(one) > String(other) ? 1 : 0);
}

const widths = new ResizeObserver((entries) => {
  for (const {target} of entries) {
    const box = target.closest('.scroller');
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  }
});

/** A box that scrolls sideways can be reached, and so scrolled, by keyboard; one that does not needs no stop. */
function watchWidth(box) {
  widths.observe(box);
  widths.observe(box.firstElementChild);
}
