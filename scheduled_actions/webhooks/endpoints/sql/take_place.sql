-- The endpoint's next delivery has its place under the rate limit, or is told how long to wait for another try.
select t.is_taken, t.wait from webhook_take_place(%(endpoint)s, %(rate)s, %(patience)s) t
