// Who talks to whom: flows from clients to servers, as wide as the bytes between them.

const MOST_LINKS = 60;

function topologyLinks() {
  return records('topology').map(({cells}) => cells)
    .filter((cells) => protocolWanted(cells.protocol) && cells.bytes > 0).slice(0, MOST_LINKS);
}

function topologyChart() {
  return new Chart({
    query: 'topology', title: 'Who talks to whom', wide: true, byProtocol: true, height: topologyHeight,
    note: 'Clients on the left, servers on the right; width is bytes, colour is protocol.',
    describe: () => 'a flow diagram from clients to servers.',
    nothing: 'No connections in this lake.',
    build: buildTopology,
  });
}

/** As tall as the side with more ends needs. */
function topologyHeight() {
  const links = topologyLinks();
  const [clients, servers] = ['client', 'server'].map((side) => new Set(links.map((cells) => cells[side])).size);
  return Math.min(900, Math.max(220, 60 + 34 * Math.max(clients, servers)));
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
  const source = links.map((cells) => node('client', cells.client));
  const target = links.map((cells) => node('server', cells.server));
  const spoken = links.map((cells) => protocolName(cells.protocol));
  const trace = {
    type: 'sankey', arrangement: 'fixed', valueformat: '.3s', valuesuffix: 'B',
    textfont: {color: theme.text, size: 12, shadow: 'auto'},
    node: {
      label: [...nodes.values()].map(({name}) => plotText(name, 34)), pad: 14, thickness: 10, color: theme.muted,
      line: {width: 0}, hovertemplate: '%{label}<br>%{value}<extra></extra>',
    },
    link: {
      source, target, value: links.map((cells) => cells.bytes), label: spoken.map((name) => plotText(name)),
      color: spoken.map((name) => withAlpha(theme.protocol(name), 0.45)),
      hovertemplate: '%{source.label} to %{target.label}<br>%{label}: %{value}<extra></extra>',
    },
  };
  const legend = [...new Set(spoken)].sort(byRank).map((name) => ({name, colour: theme.protocol(name)}));
  return {series: [{trace}], legend, layout: {margin: {l: 4, r: 4, t: 12, b: 12}, hovermode: 'closest'}};
}

function withAlpha(colour, alpha) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${alpha})`;
}
