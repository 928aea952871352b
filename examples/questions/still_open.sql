-- What is undecided, and for how long?
-- The time is that of the latest message of the sensor, not of the wall clock. After ingest --final nothing is open.
select sensor, kind, protocol, address, since_ts, round((unix_micros(latest.ts) - unix_micros(since_ts)) / 1000000, 1) as seconds,
       round(limit_us / 1e6, 1) as limit_s, detail
from gold_open
left join (select sensor, max(ts) as ts from silver_messages group by sensor) as latest using (sensor)
order by since_ts, kind, address
limit 40
