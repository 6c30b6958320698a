-- What ticks have counted since this table was made, for `/metrics`: it only grows, whatever is pruned.
create table scheduled_action_metrics (
  metric text not null,
  subject text not null,
  part text not null,
  value double precision not null,
  primary key (metric, subject, part)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
