// Two lists that no query gives: the conversations in the page, and the queries that it was made with.

const FIRST_CONVERSATIONS = 12;

class ConversationList {
  constructor() {
    this.all = false;
    this.count = make('p', {class: 'rows'});
    this.list = make('ul', {class: 'conversations'});
    this.foot = make('footer', {class: 'panel-foot'});
    const note = 'Each opens as a sequence diagram.';
    const framed = panel({title: 'In this page', note, wide: true}, this.list, this.foot);
    framed.side.prepend(this.count);
    this.element = framed.element;
    this.update('report');
  }

  update(why) {
    if (why === 'theme') return;
    const everyone = conversationsHere();
    const found = everyone.filter((one) => protocolWanted(one.protocol) && textWanted(conversationTexts(one)));
    const isFiltered = found.length < everyone.length;
    this.count.textContent = isFiltered ? `${asCount(found.length)} of ${asCount(everyone.length)} match` : '';
    this.list.replaceChildren(...(this.all ? found : found.slice(0, FIRST_CONVERSATIONS)).map(conversationItem));
    this.foot.replaceChildren();
    if (everyone.length === 0) this.foot.append(emptyNote('This page has no conversations.'));
    else if (found.length === 0) this.foot.append(emptyNote('No conversation matches the filter.'));
    if (found.length > FIRST_CONVERSATIONS) this.foot.append(this.moreButton(found.length));
  }

  moreButton(found) {
    const text = this.all ? `Show the first ${FIRST_CONVERSATIONS}` : `Show all ${asCount(found)}`;
    return make('button', {type: 'button', class: 'quiet more', text, on: {click: () => this.toggleAll()}});
  }

  toggleAll() {
    this.all = !this.all;
    this.update('rows');
    this.foot.querySelector('.more').focus({preventScroll: true});
  }
}

/** What of a conversation the search looks at. */
function conversationTexts(one) {
  return [one.id, one.title, one.kind, ...(one.why ?? []), ...(one.words ?? [])];
}

function conversationItem(one) {
  const title = make('bdi', {text: shorten(visible(one.title || one.id), 160)});
  const button = make('button', {
    type: 'button', class: 'conversation-item', 'aria-haspopup': 'dialog', on: {click: () => goToConversation(one.id)},
  });
  button.append(protocolTag(one.protocol), make('span', {class: 'item-title'}, title),
    make('span', {class: 'why'}, ...whyTags(one)));
  return make('li', {}, button);
}

/** Why the page holds a conversation. */
function whyTags(one) {
  return (one.why ?? []).map((why) =>
    make('span', {class: `status ${toneOf(why)}`, text: Object.hasOwn(WHY, why) ? WHY[why] : visible(why)}));
}

/** All queries of the page, to be copied and run again. */
class QueryList {
  constructor() {
    this.list = make('ul', {class: 'queries'});
    this.example = make('pre', {tabindex: 0, 'aria-label': 'How to create a view'});
    const text = make('p', {},
      'Every number on this page is the result of a query on the tables of the lake, which are Parquet files that any ',
      'engine reads. The button ', make('span', {class: 'sql-button', 'aria-hidden': 'true', text: 'SQL'}),
      ' beside each table and chart shows its query. To run it yourself in DuckDB, create a view of each table first:');
    const prose = make('div', {class: 'prose'}, text, this.example);
    this.element = panel({title: 'Query the lake', wide: true}, prose, this.list).element;
    this.update('report');
  }

  update(why) {
    if (why !== 'report') return;
    this.example.textContent = ['exchanges', 'sessions'].map(viewOf).join('\n');
    this.list.replaceChildren(...Object.entries(report.queries).map(([name, {title}]) =>
      make('li', {}, sqlButton(name, title), make('span', {text: shorten(visible(title), 2 * LONG)}))));
  }
}

function viewOf(table) {
  const path = visible(report.about.lake).replaceAll("'", "''");
  const files = `read_parquet('${path}/gold/${table}/*/*.parquet', hive_partitioning = true)`;
  return `create view gold_${table} as\n  select * from ${files};`;
}
