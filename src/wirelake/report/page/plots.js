// One chart: drawn by Plotly when it comes near the window, with a label in words and its numbers as a table. Plotly is the
// last and by far the largest script of the page, so that figures and tables need not wait for it.

const NEAR = '600px';
const PAPER_WIDTH = 690;
const COARSE = matchMedia('(pointer: coarse)');

/** Plotly reads a little HTML in texts: what comes from a lake is escaped, and its unseen characters are written out. */
function plotText(value, most = 60) {
  const text = shorten(visible(value), most);
  return text.replace(/[&<>]/g, (character) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'})[character]);
}

/** A chart of one answer. `describe` says in words what it shows, `build` gives series (Plotly's traces) and layout, or null if
    there is nothing to draw; `byProtocol`: the filter by protocol changes it. */
class Chart {
  constructor({query, title, note, describe, build, height = 260, wide = false, byProtocol = false, nothing}) {
    Object.assign(this, {query, title, describe, build, height, byProtocol, nothing});
    this.box = make('div', {class: 'plot', role: 'img', style: {'min-height': `${this.tall()}px`}});
    this.legend = make('ul', {class: 'legend', 'aria-hidden': 'true'});
    this.scope = make('p', {class: 'rows'});
    this.details = make('details', {class: 'as-table'}, make('summary', {text: 'As table'}));
    const framed = panel({title, query, note, wide, kind: 'chart'}, this.legend, this.box, this.details);
    framed.side.prepend(this.scope);
    this.element = framed.element;
    this.drawn = false;
    this.details.addEventListener('toggle', () => this.openTable());
    this.watch();
  }

  tall() {
    return typeof this.height === 'function' ? this.height() : this.height;
  }

  watch() {
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      this.drawn = true;
      this.draw();
    }, {rootMargin: NEAR}).observe(this.box);
    this.width = 0;
    new ResizeObserver(oncePerFrame(() => this.fit())).observe(this.box);
  }

  /** Follows the width of its box, which the window is not the only one to change. */
  fit() {
    const width = this.box.clientWidth;
    if (!this.drawn || printing || width === this.width || width === 0) return;
    this.draw();
  }

  update(why) {
    if (printing) this.drawn = true;
    if (this.drawn) this.draw();
    this.scope.textContent = looking.protocols.size > 0 && !this.byProtocol ? 'all protocols' : '';
    if (why !== 'theme') this.table?.update(why);
  }

  draw() {
    if (!globalThis.Plotly) return;
    this.width = printing ? 0 : this.box.clientWidth;
    const width = printing ? Math.min(PAPER_WIDTH, this.box.clientWidth || PAPER_WIDTH) : this.width;
    const theme = {...themeColours(), width};
    const built = this.build(theme);
    this.box.style.setProperty('min-height', built ? `${this.tall()}px` : '0');
    if (!built) {
      Plotly.purge(this.box);
      this.legend.replaceChildren();
      this.box.removeAttribute('role');
      this.box.removeAttribute('aria-label');
      this.box.replaceChildren(emptyNote(answer(this.query).rows.length === 0 ? this.nothing : 'Nothing of this matches the filter.'));
      return;
    }
    if (!this.box.classList.contains('js-plotly-plot')) this.box.replaceChildren();
    this.box.setAttribute('role', 'img');
    this.box.setAttribute('aria-label', `${this.title}: ${this.describe()}`);
    this.legend.replaceChildren(...(built.legend ?? built.series).filter(({name}) => name !== undefined).map(legendItem));
    Plotly.react(this.box, built.series.map(({trace}) => trace), {...baseLayout(theme, width, this.tall()), ...built.layout}, PLOT_OPTIONS);
  }

  openTable() {
    if (!this.details.open || this.table) return;
    this.table = new AnswerTable({query: this.query, title: `${this.title}, as table`, opens: false, bare: true, nothing: this.nothing});
    this.details.append(this.table.element);
  }
}

/** Names and colours stand beside the picture as text, so that they wrap, scale and print like text. */
function legendItem({name, colour}) {
  return make('li', {}, make('span', {class: 'swatch', style: {'--tone': colour}}), make('bdi', {text: shorten(visible(name), 60)}));
}

const PLOT_OPTIONS = {displayModeBar: false, displaylogo: false, responsive: false, doubleClick: 'reset', showTips: false, scrollZoom: false};

/** Draws what is near the window as soon as Plotly is there. */
function startCharts() {
  document.addEventListener('DOMContentLoaded', () => tellAll('theme'));
}

function baseLayout(theme, width, height) {
  return {
    width, height, autosize: false,
    margin: {l: 56, r: 12, t: 8, b: 32},
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: {family: theme.font, size: 12, color: theme.muted},
    showlegend: false,
    hoverlabel: {bgcolor: theme.surface, bordercolor: theme.line, font: {family: theme.font, color: theme.text}, namelength: 40},
    hovermode: 'x unified',
    dragmode: COARSE.matches ? false : 'zoom',
    uirevision: 'kept',
  };
}

/** An axis of times; all charts over time have the same span, so that they can be compared from one to the other. */
function timeAxis(theme) {
  const {first_us: first, last_us: last, bucket_us: bucket} = report.about;
  const known = first !== null && last !== null;
  return {
    type: 'date', gridcolor: theme.line, linecolor: theme.line, tickcolor: theme.line, ticks: 'outside', ticklen: 4, zeroline: false,
    hoverformat: '%Y-%m-%d %H:%M:%S', automargin: true, tickangle: 0, nticks: Math.max(3, Math.floor(theme.width / 110)),
    ...(known ? {range: [Math.floor(first / bucket) * bucket / 1000, (Math.floor(last / bucket) + 1) * bucket / 1000]} : {}),
    fixedrange: COARSE.matches,
  };
}

function valueAxis(theme, more = {}) {
  return {gridcolor: theme.line, zerolinecolor: theme.line, fixedrange: true, automargin: true, rangemode: 'tozero', nticks: 6, ...more};
}

/** Ticks of an axis of durations, whose steps are 1, 2, 5, 10 … of a unit that people say. */
function durationTicks(low, high) {
  const values = [];
  for (let power = 0; power <= 12; power += 1) {
    for (const step of [1, 2, 5]) {
      const value = step * 10 ** power;
      if (value >= low / 2.5 && value <= high * 2.5) values.push(value);
    }
  }
  const every = Math.ceil(values.length / 8);
  const kept = values.filter((_, at) => at % every === 0);
  return {tickvals: kept, ticktext: kept.map(roundDuration)};
}

/** 5000 as 5 ms: for values that are round. */
function roundDuration(value) {
  if (value < 1000) return `${value} µs`;
  if (value < 1_000_000) return `${value / 1000} ms`;
  return `${value / 1_000_000} s`;
}
