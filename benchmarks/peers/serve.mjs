// Shared by the processes of the Node peers: receives orders, sends answers.

import { createInterface } from "node:readline";

// Number of handlers per recorded time.
const MARK_EVERY = 100;

// Counts handlers and records the time of every hundredth, in seconds.
export class Marks {
  count = 0;
  times = [];

  note(many = 1) {
    for (let one = 0; one < many; one += 1) {
      this.count += 1;
      if (this.count % MARK_EVERY === 0) this.times.push((performance.timeOrigin + performance.now()) / 1000);
    }
  }

  take() {
    const taken = { count: this.count, times: this.times };
    this.count = 0;
    this.times = [];
    return taken;
  }
}

// Executes orders from standard input until it is closed: prepare, fill, start and stop are methods of the peer.
export async function serve(peer) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { order, ...named } = JSON.parse(line);
    if (order !== "ready") await peer[order](named);
    const answer = order === "stop" ? peer.marks.take() : null;
    process.stdout.write(`{"answer": ${JSON.stringify(answer)}}\n`);
  }
  process.exit(0);
}
