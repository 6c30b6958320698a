-- Since when a due action has been due: an action that was scheduled for the past is due since its creation.
greatest(a.scheduled_at, a.created_at) as due_since
