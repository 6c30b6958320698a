-- The server's clock at this very moment.
select extract(epoch from clock_timestamp())::double precision
