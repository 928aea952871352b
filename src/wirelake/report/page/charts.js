// What each chart draws. Values are those of the answers; nothing is added up here.

/** The values of one column over time, by the name in another: protocol -> {x, y}. */
function seriesBy(query, column, group) {
  const series = new Map();
  for (const {cells} of records(query)) {
    const name = protocolName(cells[group]);
    if (!series.has(name)) series.set(name, {x: [], y: []});
    if (cells.bucket_us === null) continue;
    series.get(name).x.push(cells.bucket_us / 1000);
    series.get(name).y.push(cells[column]);
  }
  return [...series].sort(([one], [other]) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

/** Bars of one bucket's width, their left edge at its beginning; with the name and colour for the legend. */
function bar(name, {x, y}, colour, theme) {
  const trace = {
    type: 'bar', name: plotText(name), x, y, offset: 0, width: report.about.bucket_us / 1000,
    marker: {color: colour, line: {color: theme.surface, width: 0.5}},
  };
  return {name, colour, trace};
}

function barsOverTime(theme, series, axis = {}) {
  if (!series.some(({trace}) => trace.x.length > 0)) return null;
  return {series, layout: {barmode: 'stack', xaxis: timeAxis(theme), yaxis: valueAxis(theme, axis)}};
}

function trafficChart() {
  const what = report.about.traffic_of;
  return new Chart({
    query: 'traffic', title: what === 'requests' ? 'Requests by protocol' : 'Messages by protocol', wide: true, height: 280, byProtocol: true,
    note: `By when they were seen, in steps of ${asDuration(report.about.bucket_us)}.`,
    describe: () => `stacked bars over time for ${protocols().map(visible).join(', ')}.`,
    nothing: 'No traffic with a time in this lake.',
    build: (theme) => barsOverTime(theme, seriesBy('traffic', 'count', 'protocol')
      .filter(([name]) => protocolWanted(name))
      .map(([name, points]) => bar(name, points, theme.protocol(name), theme))),
  });
}

const OUTCOMES = [['errors', 'errors', 'bad'], ['timeouts', 'time-outs', 'warn'], ['unanswered', 'unanswered', 'violet'], ['ok', 'ok', 'calm']];

function outcomesChart() {
  return new Chart({
    query: 'outcomes', title: 'Outcomes of requests', note: 'What failed is at the bottom, where it is seen.',
    describe: () => 'stacked bars over time: errors, time-outs, unanswered and ok.',
    nothing: 'No requests with a time in this lake.',
    build: (theme) => {
      const rows = records('outcomes').filter(({cells}) => cells.bucket_us !== null);
      const x = rows.map(({cells}) => cells.bucket_us / 1000);
      return barsOverTime(theme, OUTCOMES.map(([column, name, tone]) =>
        bar(name, {x, y: rows.map(({cells}) => cells[column])}, theme.colour(`chart-${tone}`), theme)));
    },
  });
}

function quarantineChart() {
  return new Chart({
    query: 'quarantine_over_time', title: 'Quarantined bytes', note: 'Bytes that are no message, by protocol of their connection.', byProtocol: true,
    describe: () => 'stacked bars over time, by protocol.',
    nothing: 'Every byte with a time is part of a message.',
    build: (theme) => barsOverTime(theme, seriesBy('quarantine_over_time', 'bytes', 'protocol')
      .filter(([name]) => protocolWanted(name))
      .map(([name, points]) => bar(name, points, theme.protocol(name), theme)), {ticksuffix: ' B', tickformat: '~s'}),
  });
}

function line(name, points, colour, width, dash) {
  const trace = {
    type: 'scatter', mode: points.x.length > 60 ? 'lines' : 'lines+markers', name: plotText(name), x: points.x, y: points.y,
    line: {color: colour, width, dash}, marker: {color: colour, size: 4}, connectgaps: false,
    customdata: points.y.map((value) => format(value, 'duration')), hovertemplate: '%{customdata}',
  };
  return {name, colour, trace};
}

/** Without a choice, or with one protocol: its three percentiles; with several: the 95th of each. */
function latencySeries(theme) {
  const chosen = [...looking.protocols];
  const by = new Map(['p50_us', 'p95_us', 'p99_us'].map((column) => [column, new Map(seriesBy('latency', column, 'protocol'))]));
  if (chosen.length > 1) {
    return chosen.filter((name) => by.get('p95_us').has(name))
      .map((name) => line(`${name} p95`, by.get('p95_us').get(name), theme.protocol(name), 2, 'solid'));
  }
  const name = chosen[0] ?? ALL_PROTOCOLS;
  if (!by.get('p50_us').has(name)) return [];
  return [['p99_us', 'p99', 'latency-3', 1.5, 'dot'], ['p95_us', 'p95', 'latency-2', 2, 'solid'], ['p50_us', 'p50', 'latency-1', 2, 'dash']]
    .map(([column, label, colour, width, dash]) => line(label, by.get(column).get(name), theme.colour(colour), width, dash));
}

function latencyChart() {
  return new Chart({
    query: 'latency', title: 'Latency percentiles', byProtocol: true, height: 300,
    note: 'From a request to its first reply. With several protocols chosen, the 95th percentile of each.',
    describe: () => 'lines over time of the 50th, 95th and 99th percentile, on a logarithmic scale.',
    nothing: 'No answered requests with a time in this lake.',
    build: (theme) => {
      const series = latencySeries(theme);
      const values = series.flatMap(({trace}) => trace.y).filter((value) => value !== null && value > 0);
      if (values.length === 0) return null;
      const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
      const axis = valueAxis(theme, {type: 'log', rangemode: 'normal', ...durationTicks(low, high)});
      return {series, layout: {xaxis: timeAxis(theme), yaxis: axis}};
    },
  });
}

function heatChart() {
  return new Chart({
    query: 'heat', title: 'Latency heat map', height: 300,
    note: 'How many requests took how long, when: the stronger the colour, the more.',
    describe: () => 'a grid of time by band of latency, in which colour is the number of requests.',
    nothing: 'No answered requests with a time in this lake.',
    build: buildHeat,
  });
}

function buildHeat(theme) {
  const rows = records('heat').filter(({cells}) => cells.bucket_us !== null);
  if (rows.length === 0) return null;
  const bands = bandsBetween(rows.map(({cells}) => cells.band_us));
  const buckets = [...new Set(rows.map(({cells}) => cells.bucket_us))].sort((one, other) => one - other);
  const grid = bands.map(() => buckets.map(() => null));
  for (const {cells} of rows) grid[bands.indexOf(cells.band_us)][buckets.indexOf(cells.bucket_us)] = cells.count;
  const names = bands.map((band) => `from ${roundDuration(band)}`);
  const trace = {
    type: 'heatmap', x: buckets.map((bucket) => (bucket + report.about.bucket_us / 2) / 1000), y: names, z: grid,
    xgap: 1, ygap: 1, hoverongaps: false, hovertemplate: '%{x|%H:%M:%S}, %{y}: %{z} requests<extra></extra>',
    colorscale: [[0, theme.colour('heat-0')], [0.15, theme.colour('heat-1')], [1, theme.colour('heat-2')]],
    showscale: theme.width > 420, colorbar: {thickness: 8, outlinewidth: 0, tickfont: {color: theme.muted}, nticks: 5, len: 1},
  };
  const layout = {hovermode: 'closest', xaxis: {...timeAxis(theme), showgrid: false}, yaxis: valueAxis(theme, {type: 'category', rangemode: 'normal', showgrid: false})};
  return {series: [{trace}], layout};
}

/** Every band from the lowest to the highest that occurs: 1, 2 and 5 times the powers of ten; 0 is what took no time. */
function bandsBetween(found) {
  const [low, high] = [found.reduce((a, b) => Math.min(a, b)), found.reduce((a, b) => Math.max(a, b))];
  const steps = Array.from({length: 13}, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  return [...new Set([...found, ...steps.filter((step) => step > low && step < high)])].sort((one, other) => one - other);
}

const MOST_LINKS = 60;

function topologyLinks() {
  return records('topology').filter(({cells}) => protocolWanted(cells.protocol) && cells.bytes > 0).slice(0, MOST_LINKS);
}

function topologyChart() {
  return new Chart({
    query: 'topology', title: 'Who talks to whom', wide: true, byProtocol: true,
    note: 'Clients on the left, servers on the right; the width is the bytes between them, the colour the protocol.',
    height: () => {
      const links = topologyLinks();
      const ends = Math.max(new Set(links.map(({cells}) => cells.client)).size, new Set(links.map(({cells}) => cells.server)).size);
      return Math.min(900, Math.max(220, 60 + 34 * ends));
    },
    describe: () => 'a flow diagram from clients to servers.',
    nothing: 'No connections in this lake.',
    build: buildTopology,
  });
}

/** A node per client and per server; one that is both stands on both sides. */
function buildTopology(theme) {
  const links = topologyLinks();
  if (links.length === 0) return null;
  const nodes = new Map();
  const node = (side, name) => {
    const key = `${side}\n${name}`;
    if (!nodes.has(key)) nodes.set(key, {at: nodes.size, name: protocolName(name)});
    return nodes.get(key).at;
  };
  const source = links.map(({cells}) => node('client', cells.client));
  const target = links.map(({cells}) => node('server', cells.server));
  const trace = {
    type: 'sankey', arrangement: 'fixed', valueformat: '.3s', valuesuffix: 'B',
    textfont: {color: theme.text, size: 12, shadow: 'auto'},
    node: {
      label: [...nodes.values()].map(({name}) => plotText(name, 34)), pad: 14, thickness: 10, color: theme.muted, line: {width: 0},
      hovertemplate: '%{label}<br>%{value}<extra></extra>',
    },
    link: {
      source, target, value: links.map(({cells}) => cells.bytes), label: links.map(({cells}) => plotText(protocolName(cells.protocol))),
      color: links.map(({cells}) => withAlpha(theme.protocol(protocolName(cells.protocol)), 0.45)),
      hovertemplate: '%{source.label} to %{target.label}<br>%{label}: %{value}<extra></extra>',
    },
  };
  const used = [...new Set(links.map(({cells}) => protocolName(cells.protocol)))].sort((one, other) => rank(one) - rank(other));
  const legend = used.map((name) => ({name, colour: theme.protocol(name)}));
  return {series: [{trace}], legend, layout: {margin: {l: 4, r: 4, t: 12, b: 12}, hovermode: 'closest'}};
}

function withAlpha(colour, alpha) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${alpha})`;
}
