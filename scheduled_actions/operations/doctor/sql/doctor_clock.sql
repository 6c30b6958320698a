-- Returns the current time of the server's clock.
select extract(epoch from clock_timestamp())::double precision
