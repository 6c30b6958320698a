-- A refused follow-up is stored as a failed action, so that it needs attention and can be retried. Unreadable parts are
-- omitted; its condition is kept, so that a retry does not run it too early. Its own on_failure is scheduled. A follow-up that
-- has expired and does not fail then is stored as skipped.
create or replace function scheduled_actions_insert_refused(element jsonb, problem text, parent uuid) returns void
  language plpgsql volatile
  as $$
  declare
    new_id constant uuid := scheduled_actions_uuid7();
    is_skipped constant boolean := starts_with(problem, 'expires_at: ')
      and coalesce(scheduled_actions_stored_instant(element ->> 'expires_at') <= scheduled_actions_now(), false)
      and coalesce(element ->> 'on_expiry', 'skip') = 'skip' and not element ? 'scheduled_at';
    reason constant text := left(
      case when is_skipped then 'expired before it was scheduled: ' else 'it could not be scheduled: ' end || problem, 4096);
    team constant text := element ->> 'team_id';
    keys constant text[] := scheduled_actions_limit_keys(element -> 'limit');
  begin
    insert into scheduled_actions (
      id, action_type, status, payload, team_id, scheduled_at, completed_at, error_message, history, retry, lock_group,
      lock_group_blocks, target_type, target_id, user_id, metadata, created_by, condition, on_success, on_failure, limit_keys,
      scheduled_by
    )
    values (
      new_id, element ->> 'action_type', case when is_skipped then 'skipped' else 'failed' end,
      coalesce(element -> 'payload', '{}'), team, scheduled_actions_now(), scheduled_actions_now(), reason,
      jsonb_build_array(jsonb_build_object(
        'outcome', case when is_skipped then 'expired' else 'refused' end, 'at', scheduled_actions_now(), 'error', reason)),
      nullif(element -> 'retry', 'null'), element ->> 'lock_group', coalesce(element -> 'lock_group_blocks' = 'true', false),
      element -> 'target' ->> 'type', element -> 'target' ->> 'id', element ->> 'user_id', nullif(element -> 'metadata', 'null'),
      element ->> 'created_by',
      scheduled_actions_condition(nullif(element -> 'condition', 'null'), nullif(element -> 'after', 'null')),
      scheduled_actions_follow_up_list(nullif(element -> 'on_success', 'null')),
      scheduled_actions_follow_up_list(nullif(element -> 'on_failure', 'null')),
      case when scheduled_actions_limits_problem(keys, null, null, null, 'skip') is null then keys end, parent
    );
    if not is_skipped and jsonb_typeof(element -> 'on_failure') in ('object', 'array') then
      perform scheduled_actions_schedule_follow_ups(
        scheduled_actions_follow_up_elements(element -> 'on_failure', new_id, team), new_id);
    end if;
  end
  $$;
