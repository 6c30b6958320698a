-- A slot under the endpoint's rate limit is reserved if one starts within `patience` seconds. Returns whether a slot is
-- reserved, and the seconds until it starts or, without a slot, until the next attempt to reserve one.
select t.is_taken, t.wait from webhook_reserve_slot(%(endpoint)s, %(rate)s, %(patience)s) t
