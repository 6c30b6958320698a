// pg-boss: one handler call per batch; the next batch is fetched immediately while batches are full.

import { PgBoss } from "pg-boss";

import { Marks, serve } from "./serve.mjs";

const QUEUE = "noop";

class PgBossPeer {
  marks = new Marks();

  async started() {
    if (this.boss === undefined) {
      // Supervision and scheduling would only disturb the measurement.
      this.boss = new PgBoss({ connectionString: process.env.PEER_DATABASE_URL, supervise: false, schedule: false });
      this.boss.on("error", (error) => console.error(error));
      await this.boss.start();
    }
    return this.boss;
  }

  async prepare() {
    await (await this.started()).createQueue(QUEUE);
  }

  async fill({ count }) {
    await (await this.started()).insert(QUEUE, Array.from({ length: count }, (_, n) => ({ data: { n } })));
  }

  async start() {
    const boss = await this.started();
    const options = { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await boss.work(QUEUE, options, async (jobs) => this.marks.note(jobs.length));
  }

  async stop() {
    await (await this.started()).offWork(QUEUE, { wait: true });
  }
}

await serve(new PgBossPeer());
