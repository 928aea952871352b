// The conversations of the page, compressed in blocks. A block is opened when one of its conversations is needed.

const openedBlocks = new WeakMap();
const knownIds = new WeakMap();

/** What lists show of each conversation that is here. */
function conversationsHere() {
  return Array.isArray(report.conversations) ? report.conversations : Object.values(report.conversations);
}

function isHere(id) {
  if (!knownIds.has(report.conversations)) {
    knownIds.set(report.conversations, new Set(conversationsHere().map((one) => one.id)));
  }
  return knownIds.get(report.conversations).has(id);
}

/** A conversation of the page; null if it is not here. */
async function readConversation(id) {
  if (!isHere(id)) return null;
  if (!Array.isArray(report.conversations)) return report.conversations[id];
  const block = report.blocks.find(({ids}) => ids.includes(id));
  if (!openedBlocks.has(block)) openedBlocks.set(block, openBlock(block.gzip));
  const conversations = await openedBlocks.get(block);
  return conversations[block.ids.indexOf(id)];
}

async function openBlock(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(plain).text());
}
