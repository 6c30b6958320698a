-- Event types that nobody has seen for long are found by when they were.
create index webhook_event_types_unseen on webhook_event_types (last_seen_at);
