// Files that a person keeps, and the address that carries a text.

/** Offers bytes or a text as a file. */
function save(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** A zip archive of texts, not compressed, with the permissions of each (APPNOTE.TXT 6.3.10, section 4.3). */
function zip(files) {
  const encoder = new TextEncoder();
  const numbers = (...fields) => {
    const bytes = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0));
    let at = 0;
    for (const [size, value] of fields) for (let i = 0; i < size; i++) bytes[at++] = (value / 2 ** (8 * i)) & 0xff;
    return bytes;
  };
  const parts = [], directory = [];
  let offset = 0;
  for (const { path, content, is_executable } of files) {
    const name = encoder.encode(path), bytes = encoder.encode(content);
    // Version 2.0, names in UTF-8, stored, 1 January 1980.
    const common = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 33], [4, crc32(bytes)], [4, bytes.length], [4, bytes.length], [2, name.length], [2, 0]];
    const local = numbers([4, 0x04034b50], ...common);
    const mode = 0o100000 | (is_executable ? 0o755 : 0o644);
    directory.push(numbers([4, 0x02014b50], [2, 0x314], ...common, [2, 0], [2, 0], [2, 0], [4, mode * 0x10000], [4, offset]), name);
    parts.push(local, name, bytes);
    offset += local.length + name.length + bytes.length;
  }
  const length = directory.reduce((sum, part) => sum + part.length, 0);
  const end = numbers([4, 0x06054b50], [4, 0], [2, files.length], [2, files.length], [4, length], [4, offset], [2, 0]);
  return new Blob([...parts, ...directory, end]);
}

/** Beginning of a fragment that carries a text. */
const FRAGMENT = "#1.";

async function toFragment(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return FRAGMENT + toBase64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

async function fromFragment(fragment) {
  if (!fragment.startsWith(FRAGMENT)) return null;
  const bytes = await through(fromBase64(fragment.slice(FRAGMENT.length)), new DecompressionStream("deflate-raw"));
  return new TextDecoder().decode(bytes);
}
