// Files of the library in one piece: a length, a table of [path, size], and the bytes one after another.
export function unpack(FS, bytes) {
  const head = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  let at = 4 + head;
  const made = new Set();
  for (const [path, size] of JSON.parse(new TextDecoder().decode(bytes.subarray(4, at)))) {
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(folder)) { FS.mkdirTree(folder); made.add(folder); }
    FS.writeFile(path, bytes.slice(at, at + size));
    at += size;
  }
}
