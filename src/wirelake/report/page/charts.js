// Charts over time. Values are those of the queries; they are added up only to find out how long an axis is.

/** The values of one column over time, protocol by protocol: [name, {x, y}]. */
function seriesBy(query, column) {
  const series = new Map();
  for (const {cells} of records(query)) {
    const name = protocolName(cells.protocol);
    if (!series.has(name)) series.set(name, {x: [], y: []});
    if (cells.bucket_us === null) continue;
    series.get(name).x.push(cells.bucket_us / 1000);
    series.get(name).y.push(cells[column]);
  }
  return [...series].sort(([one], [other]) => byRank(one, other));
}

/** Bars of one bucket's width, their left edge at its beginning; with the name and colour for the legend. */
function bar(name, {x, y}, colour, theme, bucket = report.about.bucket_us) {
  const trace = {
    type: 'bar', name: plotText(name), x, y, offset: 0, width: bucket / 1000,
    marker: {color: colour, line: {color: theme.surface, width: 0.5}},
  };
  return {name, colour, trace};
}

function barsByProtocol(theme, query, column, bucket) {
  return seriesBy(query, column).filter(([name]) => protocolWanted(name))
    .map(([name, points]) => bar(name, points, theme.protocol(name), theme, bucket));
}

function barsOverTime(theme, series, axis = {}) {
  if (!series.some(({trace}) => trace.x.length > 0)) return null;
  const steps = tallest(series) < 6 ? {dtick: 1} : {};
  return {series, layout: {barmode: 'stack', xaxis: timeAxis(theme), yaxis: valueAxis(theme, {...steps, ...axis})}};
}

/** The height of the tallest stack: an axis of few has no halves. */
function tallest(series) {
  const stacks = new Map();
  for (const {trace} of series) trace.x.forEach((x, at) => stacks.set(x, (stacks.get(x) ?? 0) + trace.y[at]));
  return [...stacks.values()].reduce((most, value) => Math.max(most, value), 0);
}

function trafficChart() {
  return new Chart({
    query: 'traffic', wide: true, height: 280, byProtocol: true,
    title: () => `${report.about.traffic_of === 'requests' ? 'Requests' : 'Messages to addresses'} by protocol`,
    note: () => `By capture time, in steps of ${asDuration(report.about.bucket_us)}.`,
    describe: () => `stacked bars over time for ${protocols().map(visible).join(', ')}.`,
    nothing: 'No traffic with times in this lake.',
    build: (theme) => barsOverTime(theme, barsByProtocol(theme, 'traffic', 'count')),
  });
}

function recentChart() {
  return new Chart({
    query: 'recent_traffic', wide: true, height: 200, byProtocol: true, title: 'Messages in the last minutes',
    note: () => `By capture time, in steps of ${asDuration(report.recent.step_us)}.`,
    describe: () => 'stacked bars over the last minutes, by protocol.', nothing: 'No messages in the last minutes.',
    build: (theme) => barsOverTime(theme, barsByProtocol(theme, 'recent_traffic', 'count', report.recent.step_us)),
  });
}

const OUTCOMES = [
  ['errors', 'errors', 'bad'], ['timeouts', 'time-outs', 'warn'],
  ['unanswered', 'unanswered', 'violet'], ['no_reply_wanted', 'no reply wanted', 'pale'],
  ['ok', 'ok', 'calm'],
];

function outcomesChart() {
  return new Chart({
    query: 'outcomes', title: 'Outcomes of requests', note: 'Failures are at the bottom.',
    describe: () => 'stacked bars over time: errors, timeouts, unanswered, no reply wanted and ok.',
    nothing: 'No requests with times in this lake.',
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
    query: 'quarantine_over_time', title: 'Quarantined bytes', byProtocol: true,
    note: 'Undecodable bytes, by protocol of their connection.',
    describe: () => 'stacked bars over time, by protocol.',
    nothing: 'No bytes were quarantined.',
    build: (theme) => {
      const series = barsByProtocol(theme, 'quarantine_over_time', 'bytes');
      const hover = series.map((one) => ({...one, trace: {...one.trace, ...hoverTexts(one.trace.y, 'bytes')}}));
      return barsOverTime(theme, hover, byteTicks(tallest(series)));
    },
  });
}

/** The text under the pointer: values as they are written elsewhere. */
function hoverTexts(values, how) {
  return {customdata: values.map((value) => format(value, how)), hovertemplate: '%{customdata}'};
}

function line(name, points, colour, width, dash) {
  const trace = {
    type: 'scatter', mode: points.x.length > 60 ? 'lines' : 'lines+markers', name: plotText(name), ...points,
    line: {color: colour, width, dash}, marker: {color: colour, size: 4}, connectgaps: false,
    ...hoverTexts(points.y, 'duration'),
  };
  return {name, colour, trace};
}

const PERCENTILES = [
  ['p99_us', 'p99', 'latency-3', 1.5, 'dot'],
  ['p95_us', 'p95', 'latency-2', 2, 'solid'],
  ['p50_us', 'p50', 'latency-1', 2, 'dash'],
];

/** Without a choice, or with one protocol: its three percentiles; with several: the 95th of each. */
function latencySeries(theme) {
  const chosen = [...activeFilter.protocols];
  if (chosen.length > 1) {
    return seriesBy('latency', 'p95_us').filter(([name]) => chosen.includes(name))
      .map(([name, points]) => line(`${name} p95`, points, theme.protocol(name), 2, 'solid'));
  }
  const wanted = chosen[0] ?? ALL_PROTOCOLS;
  return PERCENTILES.flatMap(([column, label, colour, width, dash]) =>
    seriesBy('latency', column).filter(([name]) => name === wanted)
      .map(([, points]) => line(label, points, theme.colour(colour), width, dash)));
}

function latencyChart() {
  return new Chart({
    query: 'latency', title: 'Latency percentiles', byProtocol: true, height: 300,
    note: () => (activeFilter.protocols.size > 1 ? 'From a request to its first reply: the 95th percentile of each protocol.'
      : 'From a request to its first reply.'),
    describe: () => `lines over time of the ${activeFilter.protocols.size > 1 ? '95th percentile of each protocol chosen'
      : '50th, 95th and 99th percentile'}, on a logarithmic scale.`,
    nothing: 'No request with a time and a reply in this lake.',
    build: (theme) => {
      const series = latencySeries(theme);
      const values = series.flatMap(({trace}) => trace.y).filter((value) => value !== null && value > 0);
      if (values.length === 0) return null;
      const ticks = durationTicks(least(values), greatest(values));
      const axis = valueAxis(theme, {type: 'log', rangemode: 'normal', ...ticks});
      return {series, layout: {xaxis: timeAxis(theme), yaxis: axis}};
    },
  });
}

function least(values) {
  return values.reduce((one, other) => Math.min(one, other));
}

function greatest(values) {
  return values.reduce((one, other) => Math.max(one, other));
}

function heatChart() {
  return new Chart({
    query: 'heat', title: 'Latency heat map', height: 300,
    note: 'Requests by time and latency; a stronger colour means more requests.',
    describe: () => 'a grid of time and latency; colour is the number of requests.',
    nothing: 'No request with a time and a reply in this lake.',
    build: buildHeat,
  });
}

function buildHeat(theme) {
  const rows = records('heat').filter(({cells}) => cells.bucket_us !== null && cells.band_us !== null);
  if (rows.length === 0) return null;
  const bands = bandsBetween(rows.map(({cells}) => cells.band_us));
  const {bucket_us: bucket} = report.about;
  const first = least(rows.map(({cells}) => cells.bucket_us));
  const last = greatest(rows.map(({cells}) => cells.bucket_us));
  const grid = (nothing) => bands.map(() => new Array(Math.round((last - first) / bucket) + 1).fill(nothing));
  const [counts, texts] = [grid(null), grid('')];
  for (const {cells} of rows) {
    const [band, step] = [bands.indexOf(cells.band_us), Math.round((cells.bucket_us - first) / bucket)];
    counts[band][step] = cells.count;
    texts[band][step] = heatWords(cells);
  }
  const trace = {
    type: 'heatmap', xtype: 'scaled', x0: (first + bucket / 2) / 1000, dx: bucket / 1000, ytype: 'scaled', y0: 0, dy: 1,
    z: counts, text: texts, hoverinfo: 'text', xgap: 1, ygap: 1, hoverongaps: false,
    colorscale: [[0, theme.colour('heat-0')], [0.15, theme.colour('heat-1')], [1, theme.colour('heat-2')]],
    showscale: theme.width > 420,
    colorbar: {thickness: 8, outlinewidth: 0, tickfont: {color: theme.muted}, nticks: 5, len: 1},
  };
  const axes = {xaxis: {...timeAxis(theme), showgrid: false}, yaxis: bandAxis(theme, bands)};
  return {series: [{trace}], layout: {hovermode: 'closest', ...axes}};
}

function heatWords({bucket_us: bucket, band_us: band, count}) {
  const above = ROUND.find((value) => value > band);
  const when = format(bucket, cellFormat('bucket_us', bucket));
  const words = `${asCount(count)} ${count === 1 ? 'request' : 'requests'}`;
  return `${when}<br>${roundDuration(band)} to ${roundDuration(above)}: ${words}`;
}

/** Each band lies between the tick where it begins and the next. */
function bandAxis(theme, bands) {
  const isTold = bands.length > MOST_TICKS ? isPowerOfTen : () => true;
  const told = bands.map((band, at) => ({band, at: at - 0.5})).filter(({band}) => isTold(band));
  return valueAxis(theme, {
    type: 'linear', rangemode: 'normal', range: [-0.5, bands.length - 0.5], showgrid: false, zeroline: false,
    tickvals: told.map(({at}) => at), ticktext: told.map(({band}) => roundDuration(band)), ticks: 'outside', ticklen: 4,
    tickcolor: theme.line,
  });
}

/** Every band from the lowest to the highest that occurs: 1, 2 and 5 times the powers of ten. */
function bandsBetween(found) {
  const [low, high] = [least(found), greatest(found)];
  const between = ROUND.filter((step) => step > low && step < high);
  return [...new Set([...found, ...between])].sort((one, other) => one - other);
}
