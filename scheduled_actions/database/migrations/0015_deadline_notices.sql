-- The proof of diligence: what was sent of a deadline, to whom, through what and when, and what was not taken. It lasts as
-- long as its deadline, whatever becomes of the actions that sent it.

create table scheduled_action_deadline_notices (
  id uuid primary key default scheduled_actions_uuid7(),
  deadline_id uuid not null references scheduled_action_deadlines (id) on delete cascade,
  -- The stage and its number, as its action has it: "reminder:60 days before#1".
  stage text not null,
  -- The `notification:send` that sent it; a digest is of several deadlines.
  action_id uuid not null,
  subject text not null,
  recipient text,
  channel text not null,
  address text not null,
  message_id text,
  -- Why the channel did not take it; null: it did.
  problem text,
  sent_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_deadline_notices_of on scheduled_action_deadline_notices (deadline_id, id);

-- Those that ended longest ago go first.
create index scheduled_action_deadlines_closed on scheduled_action_deadlines (closed_at) where closed_at is not null;
