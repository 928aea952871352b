// Figures in large type, and parts of a whole as one bar.

/** A tile: one figure, what it is, and smaller figures below with their words, which may be others for 1. `tone`
    colours it if the figure is not 0. */
function tile(query, {label, column, href, tone, parts: smaller = [], how}) {
  const value = valueAt(query, 0, column);
  const alarm = tone && typeof value === 'number' && value > 0 ? tone : 'plain';
  const lines = smaller.map(([name, words, ofOne = words]) =>
    make('li', {}, figure(query, 0, name), ` ${valueAt(query, 0, name) === 1 ? ofOne : words}`));
  return make('li', {class: `tile ${alarm}`, data: {tile: column}},
    make('a', {href: `#${href}`, class: 'tile-label', text: label}),
    make('p', {class: 'tile-figure'}, figure(query, 0, column, how)),
    lines.length > 0 ? make('ul', {class: 'tile-parts'}, ...lines) : null);
}

/** Tiles of one result; made anew with each report. */
class Tiles {
  constructor({query, title, note}, tiles) {
    Object.assign(this, {query, tiles});
    this.list = make('ul', {class: 'tiles'});
    this.element = panel({title, note, query, wide: true, kind: 'figures'}, this.list).element;
    this.update('report');
  }

  update(why) {
    if (why === 'report') this.list.replaceChildren(...this.tiles.map((one) => tile(this.query, one)));
  }
}

/** Parts of a whole: one bar, and a legend with the figures. `label` gives the words of a record, `tone` its colour. */
class Proportions {
  constructor({query, column, title, note, label, tone, nothing}) {
    Object.assign(this, {query, column, label, tone, nothing});
    this.body = make('div', {class: 'proportions'});
    this.element = panel({title, query, note, kind: 'parts'}, this.body).element;
    this.update('report');
  }

  update(why) {
    if (why === 'theme') return;
    const {columns, rows} = resultOf(this.query);
    const wanted = records(this.query).filter(({row}) => rowWanted(columns, rows[row]));
    if (wanted.length === 0) {
      this.body.replaceChildren(emptyNote(rows.length === 0 ? this.nothing : 'No row matches the filter.'));
      return;
    }
    const bar = make('div', {class: 'parts-bar', 'aria-hidden': 'true'});
    const legend = make('ul', {class: 'legend'});
    for (const {row, cells} of wanted) {
      const tone = this.tone(cells);
      bar.append(make('span', {class: `part ${tone}`, style: {'flex-grow': cells[this.column]}}));
      legend.append(make('li', {}, make('span', {class: `swatch ${tone}`, 'aria-hidden': 'true'}),
        make('bdi', {text: shorten(this.label(cells), LONG)}), ' ', figure(this.query, row, this.column)));
    }
    this.body.replaceChildren(bar, legend);
  }
}
