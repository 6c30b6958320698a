// What the processes of the Node peers have in common: orders in, answers out.

import { createInterface } from "node:readline";

// Handlers between two marks.
const MARK_EVERY = 100;

// Counts handlers, and notes the time of each hundredth, in seconds.
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

// Follows the orders on standard input until it is closed: prepare, fill, start and stop are the peer's methods.
export async function serve(peer) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { order, ...named } = JSON.parse(line);
    if (order !== "ready") await peer[order](named);
    const answer = order === "stop" ? peer.marks.take() : null;
    process.stdout.write(`{"answer": ${JSON.stringify(answer)}}\n`);
  }
  process.exit(0);
}
