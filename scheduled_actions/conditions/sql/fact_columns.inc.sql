-- Columns of a fact `f`; readers rely on their order.
f.id, nullif(f.team_id, ''), f.target_type, f.target_id, f.name, f.value, f.reported_by, f.changed_at, f.reported_at
