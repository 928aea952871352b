// One chart: drawn by Plotly when it comes near the window, with a label in words and its numbers as a table. Plotly is
// the last and by far the largest script of the page, so that figures and tables need not wait for it.

const NEAR = '600px';
const PAPER_WIDTH = 690;
const PLOT_OPTIONS = {displayModeBar: false, responsive: false, doubleClick: 'reset', showTips: false};

/** A chart of one result. `title` and `note` are texts, or give them; `describe` says in words what it shows; `build`
    gives series (Plotly's traces) and layout, or null if there is nothing to draw; `byProtocol`: the filter by protocol
    changes it. */
class Chart {
  constructor({query, title, note, describe, build, height = 260, wide = false, byProtocol = false, nothing}) {
    Object.assign(this, {query, title, note, describe, build, height, byProtocol, nothing});
    this.box = make('div', {class: 'plot', style: {'min-height': `${given(height)}px`}});
    this.legend = make('ul', {class: 'legend', 'aria-hidden': 'true'});
    this.scope = make('p', {class: 'rows'});
    this.details = make('details', {class: 'as-table'}, make('summary', {text: 'As table'}));
    const frame = {title: given(title), query, note: given(note), wide, kind: 'chart'};
    this.framed = panel(frame, this.legend, this.box, this.details);
    this.framed.side.prepend(this.scope);
    this.element = this.framed.element;
    this.drawn = false;
    this.width = 0;
    this.details.addEventListener('toggle', () => this.openTable());
    this.watch();
  }

  watch() {
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      this.drawn = true;
      this.draw();
    }, {rootMargin: NEAR}).observe(this.box);
    new ResizeObserver(oncePerFrame(() => this.fit())).observe(this.box);
  }

  /** Follows the width of its box, which the window is not the only one to change. */
  fit() {
    const width = this.box.clientWidth;
    if (this.drawn && !printing && width !== this.width && width !== 0) this.draw();
  }

  update(why) {
    if (printing) this.drawn = true;
    this.framed.heading.textContent = given(this.title);
    this.framed.note.textContent = given(this.note);
    this.scope.textContent = activeFilter.protocols.size > 0 && !this.byProtocol ? 'all protocols' : '';
    if (this.drawn && !(why === 'filter' && this.isAsChosen())) this.draw();
    if (why !== 'theme') this.table?.update(why);
  }

  /** Whether it shows the protocols that are chosen: words of the search change no chart. */
  isAsChosen() {
    return !this.byProtocol || this.chosen === [...activeFilter.protocols].join('\n');
  }

  draw() {
    if (!globalThis.Plotly) return;
    this.chosen = [...activeFilter.protocols].join('\n');
    this.width = printing ? 0 : this.box.clientWidth;
    const width = printing ? Math.min(PAPER_WIDTH, this.box.clientWidth || PAPER_WIDTH) : this.width;
    const theme = {...themeColours(), width};
    const built = this.build(theme);
    if (built) this.show(built, theme);
    else this.showNothing();
  }

  show({series, legend, layout}, theme) {
    const height = given(this.height);
    this.box.style.setProperty('min-height', `${height}px`);
    this.box.setAttribute('role', 'img');
    this.box.setAttribute('aria-label', `${given(this.title)}: ${this.describe()} The table below has the numbers.`);
    this.legend.replaceChildren(...(legend ?? series).filter(({name}) => name !== undefined).map(legendItem));
    if (!this.box.classList.contains('js-plotly-plot')) this.box.replaceChildren();
    const whole = {...baseLayout(theme, height), ...layout};
    Plotly.react(this.box, series.map(({trace}) => trace), whole, PLOT_OPTIONS);
  }

  showNothing() {
    Plotly.purge(this.box);
    this.box.style.setProperty('min-height', '0');
    this.box.removeAttribute('role');
    this.box.removeAttribute('aria-label');
    this.legend.replaceChildren();
    const isEmpty = resultOf(this.query).rows.length === 0;
    this.box.replaceChildren(emptyNote(isEmpty ? this.nothing : 'Nothing matches the filter.'));
  }

  openTable() {
    if (!this.details.open || this.table) return;
    const title = `${given(this.title)}, as table`;
    this.table = new ResultTable({query: this.query, title, opens: false, bare: true, nothing: this.nothing});
    this.details.append(this.table.element);
  }
}

/** A value, or what a function gives just now. */
function given(value) {
  return typeof value === 'function' ? value() : value;
}

/** Names and colours stand beside the picture as text, so that they wrap, scale and print like text. */
function legendItem({name, colour}) {
  const swatch = make('span', {class: 'swatch', style: {'--tone': colour}});
  return make('li', {}, swatch, make('bdi', {text: shorten(visible(name), 60)}));
}

/** Draws what is near the window as soon as Plotly is there. */
function startCharts() {
  document.addEventListener('DOMContentLoaded', () => updateParts('theme'));
}
