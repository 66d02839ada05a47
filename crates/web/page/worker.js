// Runs the program apart from the page, so the page answers while it computes.
"use strict";
let program;

const text = (address, length) => new TextDecoder().decode(new Uint8Array(program.memory.buffer, address, length));

onmessage = async ({ data: { id, bytes, request } }) => {
  try {
    if (bytes) program = (await WebAssembly.instantiate(bytes)).instance.exports;
    const sent = new TextEncoder().encode(request);
    const place = program.room(sent.length);
    new Uint8Array(program.memory.buffer, place, sent.length).set(sent);
  } catch (error) {
    postMessage({ id, panic: String(error) });
    return;
  }
  try {
    const length = program.ask();
    postMessage({ id, answer: text(program.place(), length) });
  } catch (error) {
    // A trap: the message of the panic lies where answers lie.
    postMessage({ id, panic: text(program.place(), program.length()) || String(error) });
  }
};
