-- The names and types of the columns of `claim_columns`, for functions that return claimed actions.
id uuid, action_type text, priority smallint, scheduled_epoch double precision, scheduled_text text, attempts integer,
max_attempts integer, lock_group text, lock_group_blocks boolean, last_outcome text, payload text, state text,
retry text, metadata text, history text, team_id text, error_message text, target_type text, target_id text,
user_id text, created_by text, schedule_id uuid, deadline_id uuid, scheduled_by uuid, dedup_key text,
occurrence_epoch double precision, previous_occurrence_epoch double precision,
started_epoch double precision, created_epoch double precision, condition text,
has_follow_ups boolean, limit_keys text[], expires_epoch double precision,
fails_on_expiry boolean,
expired_while text
