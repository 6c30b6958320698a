-- A delivery to an endpoint with `fifo` ordering is in the lock group of its endpoint and entity. An event that such an
-- endpoint may receive is in the lock group of its entity, so that events are routed in order, too.
create or replace function scheduled_actions_order_webhook() returns trigger
  language plpgsql
  as $$
  declare
    endpoint text := new.payload ->> 'endpoint';
    lock_group text;
  begin
    if exists (
      select from scheduled_action_settings s
      where s.name = 'webhook_fifo' and case when endpoint is null then s.value <> '[]' else s.value ? endpoint end
    ) or exists (
      select from webhook_endpoints e
      where e.ordering = 'fifo'
        and case when endpoint is null then e.team_id is null or e.team_id = new.team_id else e.id::text = endpoint end
    ) then
      lock_group := concat_ws(':', 'webhook', coalesce(endpoint, ''), new.payload ->> 'entity_type', new.payload ->> 'entity_id');
      new.lock_group := case when length(lock_group) <= 255 then lock_group else 'webhook-md5:' || md5(lock_group) end;
      new.lock_group_blocks := true;
    end if;
    return new;
  end
  $$;
