// Asks the program of the page about mutated fixtures until the time is over; a trap is a fault.
//
//     node crates/web/page/fuzz.mjs PAGE SECONDS [SEED]
//
// The machine of a trap is written next to PAGE, and the status is 1.
import fs from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";

const [page, seconds, seed = Date.now() % 2 ** 31] = process.argv.slice(2);
const ROOT = path.join(import.meta.dirname, "../../..");
const FOLDERS = ["fixtures/lspci", "fixtures/nccl", "fixtures/questions", "machines", ...["archive", "boot", "lspci", "machine", "nccl", "page"].map((name) => `fuzz/corpus/${name}`)];
const QUESTIONS = [{ ask: "examine" }, { ask: "fix" }, { ask: "nccl" }, { ask: "svg" }, { ask: "scrub" }, { ask: "pair", ends: ["gpu:0", "gpu:1"], guest: true }, { ask: "examine", assume: { settings: "iommu=pt pci=disable_acs_redir=pci:0:0" } }];
/** Larger inputs take too long for each other to be seen. */
const MOST_BYTES = 200_000;
const WORDS = ["0", "-1", "4294967295", "18446744073709551615", "ffff:ff:1f.7", "\n\n", "\t", "=", "[", "é", "\0"];

const inputs = FOLDERS.flatMap((folder) => fs.readdirSync(path.join(ROOT, folder), { withFileTypes: true }).filter((one) => one.isFile()).map((one) => fs.readFileSync(path.join(ROOT, folder, one.name)))).filter(({ length }) => length > 0 && length < MOST_BYTES);
const [, packed] = fs.readFileSync(page, "utf8").match(/id="program">([^<]*)</);
const module = await WebAssembly.compile(gunzipSync(Buffer.from(packed, "base64")));

/** Numbers of a linear congruential generator (Numerical Recipes, section 7.1). */
let held = Number(seed);
const below = (most) => Math.floor(((held = (Math.imul(held, 1664525) + 1013904223) >>> 0) / 2 ** 32) * most);
const one = (list) => list[below(list.length)];

function mutated(bytes) {
  for (let left = 1 + below(6); left > 0; left--) {
    const at = below(bytes.length), end = Math.min(bytes.length, at + 1 + below(one([4, 80, 4000])));
    const put = one([() => Buffer.from(one(WORDS)), () => Buffer.from([below(256)]), () => bytes.subarray(at, end), () => Buffer.alloc(0), () => { const other = one(inputs), from = below(other.length); return other.subarray(from, from + 500); }])();
    bytes = Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(one([at, end]))]);
  }
  return bytes;
}

let program, asked = 0, slowest = 0;
const text = (address, length) => new TextDecoder().decode(new Uint8Array(program.memory.buffer, address, length));
function answer(request) {
  program ??= new WebAssembly.Instance(module).exports;
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const place = program.room(bytes.length);
  new Uint8Array(program.memory.buffer, place, bytes.length).set(bytes);
  const length = program.ask();
  return JSON.parse(text(program.place(), length));
}

const begin = Date.now();
let faults = 0;
while (Date.now() - begin < seconds * 1000) {
  const bytes = mutated(one(inputs)), content = bytes.subarray(0, 512).includes(0) ? { bytes: bytes.toString("base64") } : { text: bytes.toString() };
  for (const question of [...QUESTIONS, { ask: "diff", other: { text: mutated(one(inputs)).toString() } }]) {
    const start = Date.now();
    try {
      const found = answer({ machine: content, ...question });
      if (("ok" in found) === ("error" in found)) throw new Error(`no answer: ${Object.keys(found)}`);
    } catch (error) {
      const file = path.join(path.dirname(page), `fault-${faults++}`);
      fs.writeFileSync(file, bytes);
      console.log(`${file}: ${JSON.stringify(question).slice(0, 200)}: ${error}: ${text(program.place(), program.length()).slice(0, 500)}`);
      program = undefined;
    }
    slowest = Math.max(slowest, Date.now() - start);
    asked++;
  }
}
console.log(`seed ${seed}: ${asked} questions, ${faults} faults, ${(slowest / 1000).toFixed(1)} s for the slowest`);
process.exitCode = faults ? 1 : 0;
