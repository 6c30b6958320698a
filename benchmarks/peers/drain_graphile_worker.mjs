// Graphile Worker, configured as on its performance page: a local queue, completions in batches.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { Marks, serve } from "./serve.mjs";

const CONCURRENT_JOBS = 24;
const SILENT = new Logger(() => () => {});

class GraphilePeer {
  marks = new Marks();
  pool = new pg.Pool({ connectionString: process.env.PEER_DATABASE_URL, max: CONCURRENT_JOBS + 1 });

  constructor() {
    this.pool.on("error", () => {});
    this.pool.on("connect", (client) => client.on("error", () => {}));
  }

  async prepare() {
    const utils = await makeWorkerUtils({ pgPool: this.pool, logger: SILENT });
    await utils.migrate();
    await utils.release();
  }

  async fill({ count }) {
    const utils = await makeWorkerUtils({ pgPool: this.pool, logger: SILENT });
    await utils.addJobs(Array.from({ length: count }, (_, n) => ({ identifier: "noop", payload: { n } })));
    await utils.release();
  }

  async start() {
    this.runner = await run({
      pgPool: this.pool,
      logger: SILENT,
      noHandleSignals: true,
      taskList: { noop: () => this.marks.note() },
      preset: {
        worker: {
          concurrentJobs: CONCURRENT_JOBS,
          maxPoolSize: CONCURRENT_JOBS + 1,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
  }

  async stop() {
    await this.runner.stop();
  }
}

await serve(new GraphilePeer());
