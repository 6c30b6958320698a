-- Returns a UUID of version 7 (RFC 9562): milliseconds, their fraction in 12 bits, and 62 random bits, so that ids
-- ascend in the order of creation. PostgreSQL 18 has a built-in function; older servers use this one.
do $do$
begin
  if current_setting('server_version_num')::int >= 180000 then
    create or replace function scheduled_actions_uuid7() returns uuid
      language sql volatile parallel safe
      as 'select uuidv7()';
  else
    create or replace function scheduled_actions_uuid7() returns uuid
      language plpgsql volatile parallel safe
      as $$
      declare
        ticks bigint := floor(extract(epoch from clock_timestamp()) * 4096000);
      begin
        return encode(
          overlay(uuid_send(gen_random_uuid()) placing int8send((ticks >> 12 << 16) | 28672 | (ticks & 4095)) from 1 for 8),
          'hex')::uuid;
      end
      $$;
  end if;
end
$do$;
