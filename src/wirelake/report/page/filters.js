// Search and protocols: one filter for the whole page.

const TYPING_MS = 120;

function startFilters() {
  const search = byId('search');
  let waiting = 0;
  search.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(applySearch, TYPING_MS);
  });
  byId('filters').addEventListener('submit', (event) => {
    event.preventDefault();
    applySearch();
  });
  byId('clear').addEventListener('click', () => {
    search.value = '';
    activeFilter.protocols.clear();
    applySearch();
    search.focus();
  });
  addEventListener('keydown', focusSearch);
  new ResizeObserver(measureToolbar).observe(byId('toolbar'));
  join({update: (why) => { if (why !== 'theme') showFilter(); }});
  showFilter();
}

function applySearch() {
  activeFilter.search = byId('search').value.trim().toLowerCase();
  updateParts('filter');
}

/** What sticks below the toolbar must know how high it is just now. */
function measureToolbar() {
  document.documentElement.style.setProperty('--bar-height', `${byId('toolbar').offsetHeight}px`);
}

/** The key / goes to the search, unless somebody is writing or a dialog is open. */
function focusSearch(event) {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector('dialog[open]') || event.target.closest?.('input, textarea, select')) return;
  event.preventDefault();
  byId('search').focus();
  byId('search').select();
}

function showFilter() {
  const known = protocols();
  for (const name of activeFilter.protocols) if (!known.includes(name)) activeFilter.protocols.delete(name);
  const focused = document.activeElement?.dataset?.chip;
  byId('chips').replaceChildren(...known.map(chip));
  if (focused !== undefined) [...byId('chips').children].find((one) => one.dataset.chip === focused)?.focus();
  byId('clear').hidden = !filterIsOn();
  byId('matches').textContent = filterIsOn() ? matchWords() : '';
}

function chip(name) {
  const label = make('bdi', {text: shorten(visible(name), 24), title: visible(name)});
  return make('button', {
    type: 'button', class: 'chip', 'aria-pressed': String(activeFilter.protocols.has(name)),
    data: {chip: name, colour: colourIndex(name)}, on: {click: () => toggleProtocol(name)},
  }, make('span', {class: 'swatch', 'aria-hidden': 'true'}), label);
}

function toggleProtocol(name) {
  if (!activeFilter.protocols.delete(name)) activeFilter.protocols.add(name);
  updateParts('filter');
}

/** How much of the page's tables is left, over all of them. */
function matchWords() {
  const tables = parts.filter((part) => part instanceof ResultTable);
  const found = tables.reduce((sum, table) => sum + table.matching.length, 0);
  const all = tables.reduce((sum, table) => sum + resultOf(table.query).rows.length, 0);
  return found === 0 ? 'Nothing matches' : `${asCount(found)} of ${asCount(all)} rows match`;
}
