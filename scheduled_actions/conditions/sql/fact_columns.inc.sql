-- Columns of a fact `f`, in the order of the fields of `Fact`.
f.id, nullif(f.team_id, ''), f.target_type, f.target_id, f.name, f.value, f.reported_by, f.changed_at, f.reported_at
