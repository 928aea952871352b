// The frame around each table and chart: heading, note, a button that shows the SQL behind it.

/** A panel with a heading; `query` names the SQL that its button shows, `note` says what is seen. */
function panel({title, query, note, wide = false, kind = ''}, ...children) {
  const heading = make('h3', {text: title});
  const words = make('p', {class: 'note', text: note ?? ''});
  const side = make('div', {class: 'panel-side'}, sqlButton(query, title));
  const head = make('header', {class: 'panel-head'}, make('div', {}, heading, words), side);
  const element = make('article', {class: `panel ${wide ? 'wide' : ''} ${kind}`}, head, ...children);
  return {element, heading, note: words, side};
}

function sqlButton(query, title) {
  if (!query || !Object.hasOwn(report.queries, query)) return null;
  return make('button', {
    type: 'button', class: 'sql-button', data: {sql: query}, 'aria-haspopup': 'dialog', text: 'SQL',
    'aria-label': `SQL of ${title}`, on: {click: () => showSql(query)},
  });
}

function showSql(query) {
  const {title, sql} = report.queries[query];
  byId('sql-title').textContent = visible(title);
  byId('sql-text').textContent = sql;
  byId('sql-note').textContent = '';
  byId('sql-copy').dataset.query = query;
  openDialog(byId('sql-dialog'));
}

/** Puts the query on the clipboard; where that is not allowed, selects it so that the keyboard can. */
async function copySql() {
  const text = byId('sql-text');
  try {
    await navigator.clipboard.writeText(text.textContent);
    byId('sql-note').textContent = 'Copied.';
  } catch {
    getSelection().selectAllChildren(text);
    byId('sql-note').textContent = 'Selected: copy it with the keyboard.';
  }
}

function startSqlDialog() {
  byId('sql-copy').addEventListener('click', copySql);
  byId('sql-close').addEventListener('click', () => byId('sql-dialog').close());
  closeOnBackdrop(byId('sql-dialog'), () => byId('sql-dialog').close());
}

/** Opens a dialog; the focus goes back to where it was when it closes, also to a row that was made anew meanwhile. */
function openDialog(dialog) {
  if (dialog.open) return;
  const before = document.activeElement;
  const path = before ? pathTo(before) : ':root';
  const [table, row] = [before?.closest('.panel')?.id, before?.closest('tr')?.dataset.row];
  dialog.addEventListener('close', () => {
    const place = table && row ? `#${CSS.escape(table)} tr[data-row="${row}"] .open` : path;
    const again = document.querySelector(place);
    (before?.isConnected ? before : again)?.focus({preventScroll: true});
  }, {once: true});
  dialog.showModal();
}

/** A press that began and ended beside the dialog closes it; one that began inside, to select text, does not. */
function closeOnBackdrop(dialog, close) {
  let pressed = false;
  dialog.addEventListener('pointerdown', (event) => { pressed = event.target === dialog; });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog && pressed) close();
  });
}

/** What a table or chart says when there is nothing to show. */
function emptyNote(text) {
  return make('p', {class: 'empty', text});
}
