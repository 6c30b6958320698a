-- A slot under the endpoint's rate limit is reserved if it starts soon enough. Returns whether it is, and the seconds to
-- wait for it or, without a slot, until the next try.
select t.is_taken, t.wait from webhook_reserve_slot(%(endpoint)s, %(rate)s, %(patience)s) t
