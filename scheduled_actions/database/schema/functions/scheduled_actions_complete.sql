-- The actions whose claim is still valid are completed. All are at their first attempt, without a lock group and without data
-- except their times (microseconds after `begun_at`) and results (empty if there are none); for such outcomes this takes less
-- than two thirds of the time of `settle.sql`. If some have limit keys (`has_slots`), their slots are freed.
-- An occurrence whose schedule waits for its end is left to `settle.sql` and stays announced until then.
-- The actions that run next are announced with a number, and row locks are awaited, as in `settle.sql`. The tick is open: a
-- closed one is reopened by its first announcement, which never comes with a completion. `written` is null if all actions
-- were written.
-- This is a function, so that a session plans it only once: planning takes as long as the completion of thirty actions. The
-- plan may date from when the tables were small: the settings leave only index scans and hash joins.
create or replace function scheduled_actions_complete(
  ids uuid[],
  tokens uuid[],
  started bigint[],
  ended bigint[],
  attempts_allowed integer[],
  results text[],
  has_slots boolean,
  begun_at timestamptz,
  next_running uuid[],
  tick_id uuid,
  number bigint,
  patience_ms text,
  out written uuid[],
  out announced boolean
)
  language plpgsql volatile
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
  #variable_conflict use_column
  begin
    patience_ms := set_config('lock_timeout', patience_ms, true);
    if has_slots then
      -- include: actions/completed,
      freed_slots as (
        delete from scheduled_action_limit_slots l
        using completed c
        where l.action_id = c.id and l.action_id = any (ids) and l.claim_token = c.token
      ),
      -- include: actions/completions_written
      ;
    else
      -- include: actions/completed,
      -- include: actions/completions_written
      ;
    end if;
  end
  $$;
